"""The command line under hostile files and options: `python -m tests.fuzz.cli 1000 --seed 0`.

Every run is drawn from its number and the seed alone, so that it can be repeated. Rules: the exit
code is 0, 2, or 1 with --fail-on-difference; bad input is one line that kembed itself wrote; what is printed
commands no terminal; JSON is one line without NaN; inputs and surroundings stay as they were; nothing is left
behind but what was asked for.
"""

import argparse
import contextlib
import gzip
import io
import json
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax  # noqa: F401 - it and scikit-learn change the environment when they are imported
import numpy as np
import polars as pl
import sklearn  # noqa: F401
from tests.fuzz import rules, values

from kembed.cli import run

FIELD = "x" * 140_000  # longer than Python's csv module takes
COMMANDS_OF_A_TERMINAL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
WHITE = np.random.default_rng(0).normal(size=(40, 2)).round(3)
LINES = "\n".join(f"{a},{b}" for a, b in WHITE)
# Files that once broke something: bytes, by name.
CORPUS: dict[str, bytes] = {
    "empty.csv": b"",
    "header.csv": b"a,b\n",
    "one.csv": b"a,b\n1,2\n",
    "plain.csv": f"a,b\n{LINES}\n".encode(),
    "inflation.csv": f"inf,-inf\n{LINES}\n".encode(),
    "pattern.csv": f"^b.*$,*\n{LINES}\n".encode(),
    "income.csv": b"income\n" + b"\n".join(b'"%d,%03d"' % (15 + k, k * 7) for k in range(40)) + b"\n",
    "money.csv": b"price\n" + b"\n".join(b"$%d.34" % (k % 9) for k in range(40)) + b"\n",
    "height.csv": b"height\n" + b"\n".join(b"17%d.4 cm" % (k % 9) for k in range(40)) + b"\n",
    "european.csv": b"v;w\n" + b"\n".join(b"1.%03d,5;%d" % (k, k) for k in range(40)) + b"\n",
    "percent.csv": b"share\n" + b"\n".join(b"%d%%" % k for k in range(40)) + b"\n",
    "dates.csv": b"d,v\n" + b"\n".join(b"2020-01-%02d,%d" % (k % 28 + 1, k % 5) for k in range(40)) + b"\n",
    "quote in header.csv": f'a"b,c\n{LINES}\n'.encode(),
    "open quote.csv": f'a,b\n"1,2\n{LINES}\n'.encode(),
    "long field.csv": f"a,b\n{FIELD},1\n{FIELD},2\n".encode(),
    "escapes.csv": f"\x1b[31ma,b\x9b2J\x7f\n{LINES}\n".encode(),
    "escaped values.csv": ("g,v\n" + "\n".join(f"\x1b[3{k % 2}m,{k}" for k in range(40)) + "\n").encode(),
    "numbers first.csv": f"{LINES}\n".encode(),
    "ragged.csv": b"a,b\n1,2\n3\n4,5,6\n",
    "twice.csv": f"a,a\n{LINES}\n".encode(),
    "nul.csv": f"a,b\n1,\x002\n{LINES}\n".encode(),
    "utf16.csv": f"a,b\n{LINES}\n".encode("utf-16"),
    "latin.csv": f"é,b\n{LINES}\n".encode("latin-1"),
    "marked.csv": f"\ufeffa,b\n{LINES}\n".encode(),
    "returns.csv": f"a,b\n{LINES}\n".replace("\n", "\r").encode(),
    "infinite.csv": b"a\n1\n2\ninf\n3\n4\n5\n6\n7\n8\n9\n",
    "huge.csv": b"a\n" + b"\n".join(b"%de307" % (k % 17) for k in range(40)) + b"\n",
    "gaps.csv": b"a,b\n"
    + b"\n".join(b"%s,%d" % (b"NA" if k % 5 == 0 else b"%d" % k, k) for k in range(40))
    + b"\n",
    "constant.csv": b"a,b\n" + b"1,1\n" * 40,
    "repeated.csv": b"a,b\n" + b"".join(f"{a},{b}\n".encode() * 3 for a, b in WHITE),
    "bomb.csv.gz": gzip.compress(b"a\n" + b"1\n" * 20_000),
    "cut.csv.gz": gzip.compress(f"a,b\n{LINES}\n".encode())[:60],
    "no.parquet": b"PAR1 and nothing more PAR1",
    "no.feather": b"ARROW1\0\0 and nothing more ARROW1",
    "no.json": b'{"a": [1, 2',
    "lines.jsonl": b'{"a": 1, "b": "x"}\n{"a": 2}\n{"a": null, "b": "y"}\n' * 10,
    "nested.json": b'[{"a": {"b": 1}}, {"a": [1, 2]}]',
    "no.xlsx": b"PK\x03\x04 and nothing more",
    "no.sketch": b"kembed-file and nothing more",
}
OPTIONS: dict[str, Sequence[str]] = {
    "--columns": ("a", "a,b", "*", "^b.*$", "", ",", "nothing", "c d"),
    "--exclude": ("a", "b", "*", "nothing"),
    "--missing": ("raise", "omit", "omit", "drop"),
    "--na": ("NA", "unknown,?", ""),
    "--delimiter": (",", ";", "tab", "", "ab", "\x1b", '"'),
    "--decimal-comma": (),
    "--as-text": ("a", "nothing"),
    "--no-header": (),
    "--group": ("g", "a", "nothing", "*"),
    "--groups": ("a,b", "1,2", "nothing"),
    "--max-rows": ("10", "2", "0", "1000000"),
    "--weights": ("b", "nothing"),
    "--seed": ("0", "3", "-1", "x", "99999999999999999999"),
    "--kernel": ("fused", "median", "bkl", "0.5", "1e154", "1e-320", "nan", "-1", "x", "median-raw", "paper"),
    "--resamples": ("19", "39", "0", "100000000"),
    "--alpha": ("0.05", "0.1", "0.001", "0", "1", "nan", "5%"),
    "--null": ("permutation", "wild", "shift", "gamma"),
    "--paired": (),
    "--by-column": (),
    "--fast": (),
    "--quiet": (),
    "--json": (),
    "--fail-on-difference": (),
    "--given": ("b", "a", "nothing"),
    "--max-given": ("0", "1", "-1"),
    "--test": ("residuals", "fisher-z", "x"),
    "--order": ("a", "b", "nothing"),
    "--block": ("1", "2", "0", "1000"),
    "--min-segment": ("3", "0", "1000"),
    "--level": ("0.9", "2", "0"),
    "--rows": ("12,500", "0", "a"),
    "--shift": ("0.5sd", "10%", "far"),
    "--margin": ("0.1sd", "2%", "0.2", "-1"),
    "--draws": ("10", "1"),
    "--nonsense": ("", "1"),
}
READING = (
    "--columns",
    "--exclude",
    "--missing",
    "--na",
    "--delimiter",
    "--decimal-comma",
    "--as-text",
    "--no-header",
)
TESTING = ("--seed", "--kernel", "--resamples", "--alpha", "--quiet", "--json")
COMMANDS: dict[str, tuple[int, tuple[str, ...]]] = {  # how many files, and which options
    "test": (2, (*READING, *TESTING, "--group", "--groups", "--max-rows", "--weights", "--null", "--paired",
                 "--by-column", "--fast", "--fail-on-difference")),
    "witness": (2, (*READING, "--seed", "--json", "--quiet", "--level", "--group")),
    "report": (2, (*READING, *TESTING, "--group")),
    "independence": (1, (*READING, *TESTING, "--null", "--given", "--fail-on-difference")),
    "graph": (1, (*READING, "--seed", "--resamples", "--alpha", "--json", "--test", "--max-given")),
    "learn": (1, (*READING, "--seed", "--json", "--quiet")),
    "summarise": (1, (*READING, "--seed", "--json")),
    "when": (1, (*READING, "--seed", "--resamples", "--alpha", "--quiet", "--json", "--order", "--block",
                 "--min-segment", "--fail-on-difference")),
    "power": (2, (*READING, *TESTING, "--group", "--rows", "--shift", "--margin", "--draws")),
}  # fmt: skip
SHARES = np.array([8.0, 1.0, 0.7, 2.0, 1.0, 1.0, 1.0, 1.0, 0.5])
ENDINGS = {"report": ".html", "summarise": ".sketch", "witness": ".png", "learn": ".png", "graph": ".png"}


def drawn(seed: int, number: int, folder: Path) -> list[str]:
    """Write the files of the run with this number, and return its arguments."""
    rng = np.random.default_rng([seed, number])
    command = str(rng.choice(list(COMMANDS), p=SHARES / SHARES.sum()))
    count, options = COMMANDS[command]
    files = [_file(rng, folder, place) for place in range(count)]
    if count == 2 and rng.random() < 0.3:
        files[1] = files[0]  # often the same columns
    arguments = [command, *files]
    if rng.random() < 0.05:
        arguments = arguments[:-1]
    for option in rng.choice(options, int(rng.integers(0, 4)), False):
        pool = OPTIONS[str(option)]
        arguments += [str(option), str(rng.choice(pool))] if pool else [str(option)]
    if command in ("independence",) and rng.random() < 0.8:
        arguments += ["--x", str(rng.choice(["a", "b", "g", "nothing"])), "--y", str(rng.choice(["b", "v"]))]
    if "--resamples" not in arguments and "--resamples" in options:
        arguments += ["--resamples", "19", "--alpha", "0.1"]
    if command in ENDINGS and (command == "summarise" or rng.random() < 0.3):
        arguments += ["-o", str(rng.choice([f"out{ENDINGS[command]}", "out.nothing", "no/where.html", "."]))]
    if rng.random() < 0.03:
        arguments += ["--nonsense"]
    return arguments


def _file(rng: np.random.Generator, folder: Path, place: int) -> str:
    """A file of the corpus, one of a hostile table, or one that is not there."""
    kind = rng.random()
    if kind < 0.03:
        return str(rng.choice(["nothing.csv", ".", "", "-", "\x1b[31m.csv", "a" * 300 + ".csv"]))
    if kind < 0.35:
        name = str(rng.choice(list(CORPUS)))
        data = CORPUS[name]
    else:
        frame = _frame(rng)
        name, data = _written(rng, frame, f"t{place}")
    if rng.random() < 0.1 and data:  # damage
        cut = int(rng.integers(len(data)))
        data = data[:cut] if rng.random() < 0.5 else data[:cut] + rng.bytes(3) + data[cut + 3 :]
    (folder / name).write_bytes(data)
    return name


def _frame(rng: np.random.Generator) -> pl.DataFrame:
    n, names = int(rng.integers(5, 40)), ["a", "b", "g"][: int(rng.integers(1, 4))]
    if rng.random() < 0.5:
        return pl.DataFrame(
            {"a": rng.normal(size=n), "b": rng.normal(size=n), "g": rng.choice(["u", "v"], n)}
        )
    columns = {
        name: values.words_column(rng, n) if rng.random() < 0.3 else values.column(rng, n) for name in names
    }
    return pl.DataFrame(columns, strict=False)


def _written(rng: np.random.Generator, frame: pl.DataFrame, name: str) -> tuple[str, bytes]:
    suffix = str(rng.choice([".csv", ".csv", ".tsv", ".parquet", ".feather", ".jsonl", ".csv.gz"]))
    stream = io.BytesIO()
    if suffix == ".parquet":
        frame.write_parquet(stream)
    elif suffix == ".feather":
        frame.write_ipc(stream)
    elif suffix == ".jsonl":
        frame.write_ndjson(stream)
    else:
        frame.write_csv(stream, separator="\t" if suffix == ".tsv" else ",")
    data = stream.getvalue()
    return name + suffix, gzip.compress(data) if suffix.endswith(".gz") else data


def tried(seed: int, number: int) -> tuple[str, list[rules.Finding], int | None]:
    """Make one run in a folder of its own: its arguments, the rules it broke, and its exit code."""
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        arguments = drawn(seed, number, folder)
        os.chdir(folder)
        bare = number % 2 == 1  # errors come as they are, and are judged
        if bare:
            os.environ["KEMBED_TRACEBACK"] = "1"
        try:
            before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
            out, err = io.StringIO(), io.StringIO()
            watched = rules.watch(lambda: captured(arguments, out, err), (), ("",))
            system = isinstance(watched.error, OSError)  # what the system says is reported as it is
            found = [one for one in watched.findings if one.rule != "not ours" or (bare and not system)]
            if watched.error is None and not found:
                found += judged(arguments, watched.result, out.getvalue(), err.getvalue())
            after = {path.name: path for path in folder.iterdir()}
            found += [
                rules.Finding("input", n) for n, data in before.items() if (folder / n).read_bytes() != data
            ]
            asked = arguments[arguments.index("-o") + 1] if "-o" in arguments else "report.html"
            found += [rules.Finding("left behind", n) for n in after if n not in before and n != asked]
        finally:
            os.environ.pop("KEMBED_TRACEBACK", None)
            os.chdir(here)
    return " ".join(map(repr, arguments)), found, watched.result


def captured(arguments: list[str], out: io.StringIO, err: io.StringIO) -> int:
    """Run a command, and keep what it prints; its standard input is a file of the corpus."""
    stdin, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(CORPUS["plain.csv"]))
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            return run(arguments)
    finally:
        sys.stdin = stdin


def judged(arguments: list[str], code: Any, out: str, err: str) -> list[rules.Finding]:
    """What is wrong with an exit code and what was printed."""
    found = []
    if code not in (0, 2) and not (code == 1 and "--fail-on-difference" in arguments):
        found.append(rules.Finding("exit code", f"{code}: {err[-300:]}"))
    if code == 2 and (not err.strip() or not err.strip().splitlines()[-1].startswith("kembed: ")):
        found.append(rules.Finding("one line", repr(err[-300:])))
    if "Traceback" in err + out:
        found.append(rules.Finding("traceback", err[-300:]))
    if COMMANDS_OF_A_TERMINAL.search(out + err):
        found.append(rules.Finding("terminal", repr((out + err)[-300:])))
    if "--json" in arguments and code in (0, 1):
        try:
            json.loads(out, parse_constant=_no_number)
        except ValueError as error:
            found.append(rules.Finding("json", f"{error}: {out[:200]!r}"))
    return found


def _no_number(text: str) -> float:
    raise ValueError(f"{text} in JSON")


def fuzz(
    count: int, seed: int, start: int = 0, seconds: float = float("inf")
) -> tuple[Counter, list[str], int]:
    """Run commands until there were so many, or time is up: exit codes, and what was found."""
    codes: Counter = Counter()
    found: list[str] = []
    began, number = time.monotonic(), start
    while number < start + count and time.monotonic() - began < seconds:
        arguments, broken, code = tried(seed, number)
        codes[f"exit {'(error)' if code is None else code}"] += 1
        found += [f"{number} {arguments}: {rule}: {detail}" for rule, detail in broken]
        number += 1
    return codes, found, number - start


def main(
    arguments: Sequence[str] | None = None, fuzzer: Callable[..., Any] = fuzz, page: str | None = __doc__
) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=page)
    parser.add_argument("count", type=int, nargs="?", default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0)
    asked = parser.parse_args(arguments)
    counted, found, made = fuzzer(asked.count, asked.seed, asked.start)
    print(*found, sep="\n")
    print(f"{made} made, {len(found)} findings;", ", ".join(f"{k}: {v}" for k, v in sorted(counted.items())))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
