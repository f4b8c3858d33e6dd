"""What reaches the screen, and screens that are not there: hostile names, closed and full streams."""

import os
import re
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

ROWS = 60
QUICK = ["--kernel", "median", "--resamples", "39"]
# What commands a terminal: escapes, C1, delete, and what turns the direction of writing.
HOSTILE = "\x1b[31mred\x9b2J\x7f\x08"
COMMANDS_OF_A_TERMINAL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("streams")
    rng = np.random.default_rng(1)
    frame = pl.DataFrame({
        f"v{HOSTILE}": [*rng.normal(size=ROWS), *rng.normal(2.0, size=ROWS)],
        "w": rng.normal(size=2 * ROWS),
        f"g{HOSTILE}": [f"a{HOSTILE}"] * ROWS + ["b"] * ROWS,
        "city": rng.choice([f"Rome{HOSTILE}", "Oslo", "rome\x1b[31mred\x9b2j\x7f\x08"], 2 * ROWS).tolist(),
        f"name{HOSTILE}": [f"n{k}{HOSTILE}" for k in range(2 * ROWS)],
        f"price{HOSTILE}": [f"{k % 13},50" for k in range(2 * ROWS)],
    })  # fmt: skip
    frame.write_csv(folder / "t.csv")
    frame.write_csv(folder / f"{HOSTILE}.csv".replace("/", ""))
    frame.with_columns(pl.Series("odd", [*map(str, range(2 * ROWS - 1)), HOSTILE])).write_csv(
        folder / "odd.csv"
    )
    return folder


V, G = f"v{HOSTILE}", f"g{HOSTILE}"
CALLS = {
    "test": ["test", "t.csv", "--group", G, "--by-column", *QUICK],
    "test of a file": ["test", f"{HOSTILE}.csv", "t.csv", *QUICK],
    "report": ["report", "t.csv", "--group", G, *QUICK],
    "witness": ["witness", "t.csv", "--group", G, "--kernel", "median"],
    "independence": ["independence", "t.csv", "--x", V, "--y", "city", *QUICK],
    "learn": ["learn", "t.csv"],
    "graph": ["graph", "t.csv", "--test", "fisher-z", "--columns", f"{V},w"],
    "no such column": ["test", "t.csv", "t.csv", "--columns", HOSTILE],
    "no such file": ["test", f"{HOSTILE}.tsv", "t.csv"],
    "no such group": ["test", "t.csv", "--group", G, "--groups", f"a{HOSTILE},c{HOSTILE}"],
    "no such option": ["test", "t.csv", "t.csv", f"--{HOSTILE}"],
    "no such kernel": ["test", "t.csv", "t.csv", "--kernel", HOSTILE],
    "a doubt": ["test", "odd.csv", "odd.csv"],
}


@pytest.mark.parametrize("case", CALLS)
@pytest.mark.parametrize("json", [[], ["--json"]], ids=["text", "json"])
def test_nothing_commands_the_terminal(call, case, json):
    code, out, err = call(*CALLS[case], *json)
    assert code == (2 if case.startswith(("no such", "a doubt")) else 0), err
    assert COMMANDS_OF_A_TERMINAL.findall(out + err) == []
    assert "[31m" in out + err  # it was spelled out, not swallowed


def run(place, command: str) -> subprocess.CompletedProcess:
    shell = ["bash", "-c", command.replace("kembed", f"{sys.executable} -m kembed", 1)]
    return subprocess.run(shell, cwd=place, capture_output=True, text=True, check=False)


TEST = "kembed test t.csv t.csv --columns w --kernel median --resamples 39"
STREAMS = {
    "full": (
        f"{TEST} -q > /dev/full",
        2,
        "kembed: standard output cannot be written (No space left on device)",
    ),
    "full json": (f"{TEST} --json > /dev/full", 2, "kembed: standard output cannot be written (No space"),
    "full, found": (f"{TEST} --fail-on-difference > /dev/full", 2, "No space left"),
    "closed": (
        f"{TEST} >&-",
        2,
        "kembed: standard output is closed; send it to /dev/null if it is not wanted",
    ),
    "no input": ("kembed test - t.csv <&-", 2, "kembed: standard input is closed; give a file"),
    "no errors": (f"{TEST} -q 2>&-", 0, ""),
    "full errors": (f"{TEST} -q 2> /dev/full", 0, ""),
    "no help": ("kembed --help >&-", 2, "standard output is closed"),
    "full version": ("kembed --version > /dev/full", 2, "standard output cannot be written"),
    "a device": ("kembed test /dev/zero t.csv --columns w", 2, "/dev/zero is a device and no table"),
    "full help": ("kembed --help > /dev/full", 2, "standard output cannot be written"),
}


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("case", STREAMS)
def test_streams_that_are_closed_or_full(place, case):
    command, code, words = STREAMS[case]
    done = run(place, command)
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert done.returncode == code, done.stderr
    assert words in done.stderr


PIPES = {
    "test": "kembed test <(cat t.csv) <(cat t.csv) --columns w --kernel median --resamples 39",
    "learn": "kembed learn <(cat t.csv) --columns w",
    "summarise": "kembed summarise <(cat t.csv) --columns w -o pipe.kembed",
    "a name": "mkfifo named.csv; (cat t.csv > named.csv &); kembed learn named.csv --columns w; rm named.csv",
}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
@pytest.mark.parametrize("case", PIPES)
def test_a_pipe_is_read_once_and_whole(place, case):
    done = run(place, PIPES[case])
    assert done.returncode == 0, done.stderr
    rows = len((place / "t.csv").read_text().splitlines()) - 1
    used = rows - rows // 4 if case == "summarise" else rows
    assert f"{used} rows" in done.stdout
