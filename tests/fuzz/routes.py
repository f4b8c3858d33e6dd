"""One question by every route: `python -m tests.fuzz.routes 2000 --seed 0`.

Every case is drawn from its number and the seed alone; `--only NUMBER` shows one. A case is two samples and a
question; routes are tables in memory, files, patterns of two files, lazy frames, memmaps, Dask collections
and the command line. Rule: all routes give the same p-value, sizes, columns and notes about columns, or all
refuse with the same kind of error, which names the same column.
"""

import argparse
import contextlib
import csv
import datetime
import decimal
import gzip
import io
import json
import os
import re
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import dask
import dask.array as da
import dask.dataframe as dd
import jax  # noqa: F401 - it and scikit-learn change the environment when they are imported
import numpy as np
import polars as pl

import kembed
from kembed.cli import run

Cells = list[str | None]
Route = Callable[[], "Answer"]
TOKENS = ("NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null", "None")  # missing in text files
NAMES = ("a", "b", "c d", "é", "^b.*$", "*", "value", "n", "size", "group", "1", "rownames", "Unnamed: 0")
ROUTES = 7  # of a case, beside the first
CLOSE = {"rtol": 1e-5, "atol": 1e-7}


@dataclass(frozen=True)
class Answer:
    """What a route says: a result, or a refusal (then `error` is its kind)."""

    error: str = ""
    named: str | None = None  # the first column that the error names
    pvalue: float = 1.0
    sizes: tuple[int, ...] = ()
    columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    statistics: tuple[float, ...] = ()
    kind: str = ""  # of the exception, in Python
    message: str = ""

    def differs(self, other: "Answer") -> str:
        """What is different in another answer, in words; empty if nothing is."""
        for name in ("error", "named", "sizes", "columns", "notes", "pvalue"):
            if getattr(self, name) != getattr(other, name):
                return f"{name}: {getattr(self, name)!r} and {getattr(other, name)!r}"
        if self.kind and other.kind and self.kind != other.kind:
            return f"kind: {self.kind} and {other.kind}"
        if len(self.statistics) != len(other.statistics):
            return "statistics"
        same = np.allclose(self.statistics, other.statistics, **CLOSE)
        return "" if same else f"statistics: {self.statistics} and {other.statistics}"


class Case(NamedTuple):
    """Two samples by many routes, and a question about them."""

    words: str  # what it is
    question: str
    routes: dict[str, Route]
    apart: bool  # the samples have different columns: the command line answers, tests in Python refuse


@dataclass(frozen=True)
class Question:
    """A function and its options, asked in Python or of the command line."""

    function: str
    missing: str
    seed: int
    names: tuple[str, ...]
    paired: bool = False
    options: tuple[str, ...] = ()  # of the command line alone

    @property
    def in_shell(self) -> bool:
        """Whether the command line asks the same."""
        return self.function in ("mmd_test", "hsic_test")

    def python(self, make: Callable[[], Sequence[Any]]) -> Answer:
        """Ask in Python, about what `make` returns."""
        samples = make()
        try:
            return self._python(*samples)
        except (TypeError, ValueError, OSError) as error:
            # Types and values are one family: what is a wrong type in Parquet is a wrong value in CSV.
            kind = "the system's" if isinstance(error, OSError) else "of the input"
            return Answer("refused", self._named(str(error)), kind=kind, message=str(error))
        except Exception as error:
            return Answer(f"{type(error).__name__}: {error}")

    def _python(self, x: Any, y: Any) -> Answer:
        how = {"kernel": "median", "n_resamples": 19, "rng": self.seed, "nan_policy": self.missing}
        if self.function == "hsic_test":
            result = kembed.hsic_test(self.names[0], self.names[1], data=x, **how)
            return Answer(pvalue=result.pvalue, sizes=result.sizes, notes=_about_columns(result.notes))
        if self.function == "k_sample_test":
            several = kembed.k_sample_test(x, y, **how)
            return Answer(pvalue=several.pvalue, notes=_about_columns(getattr(several, "notes", ())))
        if self.function == "Sketch":
            x = kembed.Sketch.of(x, kernel="median", nan_policy=self.missing)
            result = kembed.mmd_test(x, y, n_resamples=19, rng=self.seed, nan_policy=self.missing)
            return Answer(pvalue=result.pvalue, sizes=result.sizes, columns=x.columns)
        result = kembed.mmd_test(x, y, by_column=not self.paired, paired=self.paired, **how)
        return self._answer(result.to_dict(), result.sizes, {})

    def shell(self, x: str, y: str, stdin: Path | None = None) -> Answer:
        """Ask the command line, in the folder of the files."""
        command = ["test", x, y, "--paired" if self.paired else "--by-column"]
        if self.function == "hsic_test":
            command = ["independence", x, "--x", self.names[0], "--y", self.names[1]]
        command += ["--kernel", "median", "--resamples", "19", "--seed", str(self.seed), "--json"]
        command += ["--missing", self.missing, *self.options]
        out, err = io.StringIO(), io.StringIO()
        before = sys.stdin
        if stdin is not None:
            sys.stdin = io.TextIOWrapper(io.BytesIO(stdin.read_bytes()))
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = run(command)
        finally:
            sys.stdin = before
        if code == 2:
            return Answer("refused", self._named(err.getvalue()), message=err.getvalue())
        if code:
            return Answer(f"exit code {code}: {err.getvalue()[-300:]}")
        result = json.loads(out.getvalue())
        files = {"standard input" if x == "-" else x: "x", y: "y"}
        sizes = tuple(sample["used"] for sample in result["samples"])
        if self.function == "hsic_test":
            return Answer(pvalue=result["pvalue"], sizes=sizes, notes=_about_columns(result["notes"], files))
        return self._answer(result, sizes, files)

    def _answer(self, result: dict[str, Any], sizes: tuple[int, ...], files: dict[str, str]) -> Answer:
        columns = result["by_column"] or ()
        return Answer(
            pvalue=result["pvalue"],
            sizes=sizes,
            columns=tuple(column["name"] for column in columns),
            notes=_about_columns(result["notes"], files),
            statistics=(result["statistic"], *(column["statistic"] for column in columns)),
        )

    def _named(self, message: str) -> str | None:
        places = {name: message.find(repr(name)) for name in self.names}
        found = [name for name in sorted(places, key=places.__getitem__) if places[name] >= 0]
        numbered = re.search(r"column \d+", message)
        return found[0] if found else numbered.group() if numbered else None


def _about_columns(notes: Sequence[str], files: dict[str, str] | None = None) -> tuple[str, ...]:
    """The notes about columns, with the names of the samples in place of those of files."""
    about = [note for note in notes if note.startswith("column ")]
    for file, label in (files or {}).items():
        about = [note.replace(file, label) for note in about]
    return tuple(sorted(about))


# Text: cells as people and programs write them.

WORDS = ("red", "green", "Oslo", "a, b", 'so "called"', "two\nlines", "-", "é", "A/5 21171", "x;y|z")
Style = Callable[[np.random.Generator, int], Cells]
STYLES: dict[str, Style] = {
    "whole numbers": lambda rng, n: [str(k) for k in rng.integers(-9, 99, n)],
    "few numbers": lambda rng, n: [str(k) for k in rng.integers(0, 3, n)],
    "numbers": lambda rng, n: [f"{v:.3f}" for v in rng.normal(size=n)],
    "exponents": lambda rng, n: [f"{v:.3e}" for v in rng.lognormal(0, 9, n)],
    "signs": lambda rng, n: [f"{v:+.1f}" for v in rng.normal(size=n)],
    "thousands": lambda rng, n: [f"{v:,.0f}" for v in rng.lognormal(14, 1, n)],
    "thousands and decimals": lambda rng, n: [f"{v:,.2f}" for v in rng.lognormal(9, 1, n)],
    "ambiguous commas": lambda rng, n: [f"{k // 1000},{k % 1000:03d}" for k in rng.integers(1000, 9999, n)],
    "decimal commas": lambda rng, n: [f"{v:.1f}".replace(".", ",") for v in rng.normal(size=n)],
    "dots and a comma": lambda rng, n: [_german(v) for v in rng.lognormal(9, 1, n)],
    "dots alone": lambda rng, n: [f"{k // 1000}.{k % 1000:03d}" for k in rng.integers(1000, 9999, n)],
    "dollars": lambda rng, n: [f"${v:,.2f}" for v in rng.lognormal(8, 1, n)],
    "euros": lambda rng, n: [f"{v:.2f} €".replace(".", ",") for v in rng.lognormal(2, 1, n)],
    "percent": lambda rng, n: [f"{v:.1f}%" for v in rng.uniform(0, 99, n)],
    "days": lambda rng, n: [str(_day(k)) for k in rng.integers(0, 400, n)],
    "moments": lambda rng, n: [f"{_day(k)}T{k % 24:02d}:30:00" for k in rng.integers(0, 400, n)],
    "moments with a space": lambda rng, n: [f"{_day(k)} {k % 24:02d}:30" for k in rng.integers(0, 400, n)],
    "moments in UTC": lambda rng, n: [f"{_day(k)}T{k % 24:02d}:30:00Z" for k in rng.integers(0, 400, n)],
    "moments in a zone": lambda rng, n: [f"{_day(k)}T{k % 24:02d}:30+02:00" for k in rng.integers(0, 400, n)],
    "days first": lambda rng, n: [f"{_day(k):%d/%m/%Y}" for k in rng.integers(0, 400, n)],
    "months first": lambda rng, n: [f"{_day(k):%m/%d/%Y}" for k in rng.integers(0, 400, n)],
    "days or months": lambda rng, n: [f"{k % 12 + 1}/{k % 7 + 1}/2020" for k in rng.integers(0, 99, n)],
    "days with dots": lambda rng, n: [f"{_day(k):%d.%m.%Y}" for k in rng.integers(0, 400, n)],
    "times": lambda rng, n: [f"{k % 24:02d}:{k % 60:02d}" for k in rng.integers(0, 999, n)],
    "true and false": lambda rng, n: rng.choice(["true", "false"], n).tolist(),
    "True and False": lambda rng, n: rng.choice(["True", "False"], n).tolist(),
    "TRUE and FALSE": lambda rng, n: rng.choice(["TRUE", "FALSE"], n).tolist(),
    "yes and no": lambda rng, n: rng.choice(["yes", "no", "Yes"], n).tolist(),
    "words": lambda rng, n: rng.choice(WORDS, n).tolist(),
    "identifiers": lambda rng, n: [f"{k:x} no. {k % 5}" for k in rng.choice(9999, n, replace=False)],
    "mostly different": lambda rng, n: [f"w{k}" for k in rng.integers(0, 3 * n, n)],
    "row numbers": lambda rng, n: [str(k) for k in range(n)],
    "leading zeros": lambda rng, n: [f"{k:05d}" for k in rng.integers(0, 9999, n)],
    "centimetres": lambda rng, n: [f"{v:.1f} cm" for v in rng.normal(170, 9, n)],
    "metres": lambda rng, n: [f"{v:.3f} m" for v in rng.normal(1.7, 0.1, n)],
    "fractions": lambda rng, n: [f"{k}/{k % 7 + 1}" for k in rng.integers(1, 99, n)],
    "ranges": lambda rng, n: [f"{k}-{k + 5}" for k in rng.integers(1, 9, n)],
    "bounds": lambda rng, n: rng.choice(["<=50", ">50"], n).tolist(),
    "a word among numbers": lambda rng, n: [*(f"{v:.1f}" for v in rng.normal(size=n - 1)), "unknown"],
    "NAN among numbers": lambda rng, n: [*(f"{v:.1f}" for v in rng.normal(size=n - 2)), "NAN", "NAN"],
    "nothing but NAN": lambda rng, n: ["NAN"] * n,
    "infinite": lambda rng, n: [*(f"{v:.1f}" for v in rng.normal(size=n - 1)), "inf"],
    "infinite, in full": lambda rng, n: [*(f"{v:.1f}" for v in rng.normal(size=n - 1)), "-Infinity"],
    "too large": lambda rng, n: [*(f"{v:.1f}" for v in rng.normal(size=n - 1)), "1e301"],
    "large whole numbers": lambda rng, n: [str(2**53 + 2 * int(k)) for k in rng.integers(0, 99, n)],
    "merging whole numbers": lambda rng, n: [str(2**53 + k) for k in range(n)],
    "one value": lambda rng, n: ["3"] * n,
    "one word": lambda rng, n: ["same"] * n,
    "nothing": lambda rng, n: [None] * n,
}  # fmt: skip
SOUND = ("numbers", "few numbers", "words", "days", "true and false", "yes and no", "mostly different")
SIMPLE = (*SOUND, "whole numbers", "identifiers", "one word", "nothing", "moments", "leading zeros")
# What differs between two samples and was once compared: each by its own reading.
OTHERS = {
    "centimetres": "metres",
    "dollars": "euros",
    "days first": "months first",
    "decimal commas": "thousands",
    "dots alone": "dots and a comma",
    "moments in UTC": "moments",
    "days": "moments",
    "numbers": "words",
    "true and false": "few numbers",
    "whole numbers": "numbers",
    "days or months": "days first",
    "ambiguous commas": "thousands",
    "times": "days",
    "nothing": "numbers",
}


def _day(k: Any) -> datetime.date:
    return datetime.date(2020, 1, 1) + datetime.timedelta(days=int(k))


def _german(value: float) -> str:
    return f"{value:,.1f}".translate(str.maketrans(",.", ".,"))


@dataclass(frozen=True)
class Dialect:
    """How cells are written in a file."""

    delimiter: str = ","
    newline: str = "\n"
    last: bool = True  # a line end after the last row
    mark: bool = False  # of the byte order
    quote_all: bool = False
    padded: bool = False  # spaces around values
    blank_lines: bool = False

    @classmethod
    def drawn(cls, rng: np.random.Generator) -> "Dialect":
        """One of them; most are plain."""
        delimiter = str(rng.choice([",", ",", ",", ";", "\t", "|"]))
        newline = "\r\n" if rng.random() < 0.2 else "\n"
        odd = rng.random(5) < (0.9, 0.1, 0.15, 0.15, 0.15)
        return cls(delimiter, newline, *map(bool, odd))

    @property
    def suffix(self) -> str:
        return "tsv" if self.delimiter == "\t" else "csv"

    def write(self, names: Sequence[str], columns: Sequence[Cells], seed: int) -> bytes:
        """The file: gaps are empty fields, quoted empty fields, or words that stand for nothing."""
        rng = np.random.default_rng(seed)
        lines = [self.delimiter.join(self._field(name, rng) for name in names)]
        for row in zip(*columns, strict=True):
            fields = []
            for cell in row:
                gap = "" if rng.random() < 0.5 else str(rng.choice(TOKENS))
                text = self._field(gap if cell is None else cell, rng, pad=self.padded)
                fields.append(text if text or len(row) > 1 else '""')
            if self.blank_lines and rng.random() < 0.15:
                lines.append("")
            lines.append(self.delimiter.join(fields))
        text = self.newline.join(lines) + (self.newline if self.last else "")
        return (b"\xef\xbb\xbf" if self.mark else b"") + text.encode()

    def _field(self, text: str, rng: np.random.Generator, pad: bool = False) -> str:
        if pad and rng.random() < 0.3:
            text = f" {text}  "
        special = any(sign in text for sign in (self.delimiter, '"', "\n", "\r"))
        if special or self.quote_all or rng.random() < 0.02:
            return '"' + text.replace('"', '""') + '"'
        return text


def text_case(rng: np.random.Generator, folder: Path) -> Case:
    """Two samples of text columns: files of some dialect, and the same cells in memory."""
    sizes = [int(n) for n in rng.integers(8, 40, 2)]
    paired = bool(rng.random() < 0.15)
    sizes = [sizes[0]] * 2 if paired else sizes
    width = int(rng.integers(1, 4))
    names = _names(rng, width)
    dialect = Dialect.drawn(rng)
    option = str(rng.choice(["", "", "", "--na", "--as-text", "--decimal-comma"]))
    styles = [_style(rng, place, option) for place in range(width)]
    samples: list[dict[str, Cells]] = [
        {name: STYLES[pair[which]](rng, n) for name, pair in zip(names, styles, strict=True)}
        for which, n in enumerate(sizes)
    ]
    _empty(rng, samples)
    apart = bool(width > 1 and not option and rng.random() < 0.05)
    if apart:
        del samples[1][names[-1]]
    memory = [dict(sample) for sample in samples]
    options: tuple[str, ...] = ()
    declared: tuple[str, ...] = ()
    if option == "--na":
        token = str(rng.choice(["?", "unknown", "-999"]))
        options = ("--na=" + token,)
        for sample, shown in zip(memory, samples, strict=True):
            shown[names[0]] = [token if rng.random() < 0.2 else cell for cell in shown[names[0]]]
            sample[names[0]] = [None if cell == token else cell for cell in shown[names[0]]]
    elif option == "--as-text":
        declared, options = (names[0],), ("--as-text", names[0])
    elif option == "--decimal-comma":
        options = ("--decimal-comma",)
        dialect = Dialect(";", dialect.newline, dialect.last, dialect.mark, dialect.quote_all)
        for sample in samples:
            sample[names[0]] = [cell and cell.replace(".", ",") for cell in sample[names[0]]]
    if dialect.delimiter not in (",", "\t"):
        options = (*options, "--delimiter", dialect.delimiter)
    missing = str(rng.choice(["raise", "omit", "include", "include"]))
    function = _function(rng, names, paired or apart)
    question = Question(function, missing, int(rng.integers(9)), tuple(names), paired, options)
    shown = f"text {dict(zip(names, styles, strict=True))} {dialect} {sizes} rows"
    seed = int(rng.integers(2**31))
    for label, sample in zip("xy", samples, strict=True):
        _write(sample, dialect, folder, label, seed)
    frames = [_strings(sample, declared) for sample in memory]
    routes = dict(memory_routes(question, frames, declared=bool(declared), text=True))
    routes |= dict(text_routes(question, dialect.suffix, python=not options))
    return Case(f"{shown} {options} missing={missing}", function, routes, apart)


def _names(rng: np.random.Generator, width: int) -> list[str]:
    return [str(name) for name in rng.choice(NAMES, width, False)]


def _function(rng: np.random.Generator, names: Sequence[str], plain: bool) -> str:
    function = str(rng.choice(["mmd_test"] * 7 + ["hsic_test", "k_sample_test", "Sketch"]))
    fit = not plain and (function != "hsic_test" or len(names) > 1)
    return function if fit else "mmd_test"


def _style(rng: np.random.Generator, place: int, option: str) -> tuple[str, str]:
    """The style of a column in either sample; the first is as its option needs it."""
    if option == "--decimal-comma":
        style = "numbers" if place == 0 else str(rng.choice([*SOUND[1:], "identifiers"]))
        return style, style
    if option == "--as-text" and place == 0:
        style = str(
            rng.choice(["few numbers", "leading zeros", "words", "fractions", "centimetres", "row numbers"])
        )
        return style, style
    if option == "--na" and place == 0:
        style = str(rng.choice(["numbers", "words", "whole numbers", "days"]))
        return style, style
    style = str(rng.choice(SOUND if place else list(STYLES)))
    if rng.random() < 0.15 and not place:
        style = str(rng.choice(list(OTHERS)))
        pair = (style, OTHERS[style])
        return pair if rng.random() < 0.5 else pair[::-1]
    return style, style


def _empty(rng: np.random.Generator, samples: list[dict[str, Cells]]) -> None:
    """Gaps in some columns, and rows of nothing but gaps."""
    for sample in samples:
        n = len(next(iter(sample.values())))
        rows = rng.random(n) < 0.1 if rng.random() < 0.2 else np.zeros(n, dtype=bool)
        for name, cells in sample.items():
            share = float(rng.choice([0.0, 0.0, 0.1, 0.3]))
            gaps = rows | (rng.random(n) < share)
            sample[name] = [None if gap else cell for cell, gap in zip(cells, gaps, strict=True)]


def _strings(sample: dict[str, Cells], declared: Sequence[str]) -> pl.DataFrame:
    kinds = {name: pl.Categorical if name in declared else pl.String for name in sample}
    series = [pl.Series("", cells, pl.String).cast(kinds[name]).alias(name) for name, cells in sample.items()]
    return _frame(series)


def _frame(series: Sequence[pl.Series]) -> pl.DataFrame:
    return pl.DataFrame({one.name: one for one in series})


def _write(sample: dict[str, Cells], dialect: Dialect, folder: Path, label: str, seed: int) -> None:
    """Write a sample in one file and in two."""
    names, columns, suffix = list(sample), list(sample.values()), dialect.suffix
    cut = len(columns[0]) // 3
    whole = dialect.write(names, columns, seed)
    (folder / f"{label}.{suffix}").write_bytes(whole)
    (folder / f"{label}.{suffix}.gz").write_bytes(gzip.compress(whole))
    for part, rows in ((1, slice(cut)), (2, slice(cut, None))):
        piece = dialect.write(names, [cells[rows] for cells in columns], seed + part)
        (folder / f"{label}-{part}.{suffix}").write_bytes(piece)
    rows = list(csv.reader(io.StringIO(whole.decode("utf-8-sig"), newline=""), delimiter=dialect.delimiter))
    filled = [row for row in rows[1:] if row]
    assert len(filled) == len(columns[0]), "the file has other rows than its sample"


def text_routes(question: Question, suffix: str, python: bool) -> Iterator[tuple[str, Route]]:
    """Files of text, by name, by pattern, packed, and through standard input."""
    names = {
        "path": f"%s.{suffix}",
        "pattern": f"%s-*.{suffix}",
        "gzip": f"%s.{suffix}.gz",
    }
    for route, pattern in names.items():
        pair = [pattern % "x", pattern % "y"]
        if question.in_shell:
            yield f"shell, {route}", lambda pair=pair: question.shell(*pair)
        if python:
            yield route, lambda pair=pair: question.python(lambda: pair)
    if python:
        lists = [[f"{label}-1.{suffix}", f"{label}-2.{suffix}"] for label in "xy"]
        yield "list of paths", lambda: question.python(lambda: lists)
    if suffix == "csv" and question.function == "mmd_test":
        yield "shell, standard input", lambda: question.shell("-", "y.csv", Path("x.csv"))


# Types.


def _between(low: int, high: int, kind: Any) -> Callable[[np.random.Generator, int], pl.Series]:
    return lambda rng, n: pl.Series([int(k) for k in rng.integers(low, high, n)], dtype=kind)


def _moments(kind: Any) -> Callable[[np.random.Generator, int], pl.Series]:
    def make(rng: np.random.Generator, n: int) -> pl.Series:
        start = datetime.datetime(2020, 1, 1)
        moments = [start + datetime.timedelta(hours=int(k)) for k in rng.integers(0, 9999, n)]
        series = pl.Series(moments, dtype=pl.Datetime(kind.time_unit))
        return series.dt.replace_time_zone("UTC").cast(kind) if kind.time_zone else series

    return make


def _durations(unit: Any) -> Callable[[np.random.Generator, int], pl.Series]:
    return lambda rng, n: pl.Series(
        [datetime.timedelta(minutes=int(k)) for k in rng.integers(0, 999, n)]
    ).cast(pl.Duration(unit))


def _text(style: str, kind: Any = pl.String) -> Callable[[np.random.Generator, int], pl.Series]:
    return lambda rng, n: pl.Series(STYLES[style](rng, n), dtype=pl.String).cast(kind)


def _floats(last: float, kind: Any = pl.Float64) -> Callable[[np.random.Generator, int], pl.Series]:
    return lambda rng, n: pl.Series([*rng.normal(size=n - 1).round(3), last], dtype=kind)


TYPES: dict[str, Callable[[np.random.Generator, int], pl.Series]] = {
    "Int8": _between(-9, 99, pl.Int8),
    "Int16": _between(-9, 999, pl.Int16),
    "Int32": _between(-9, 99999, pl.Int32),
    "Int64": _between(-9, 5, pl.Int64),
    "UInt8": _between(0, 200, pl.UInt8),
    "UInt16": _between(0, 40, pl.UInt16),
    "UInt32": _between(0, 2**31, pl.UInt32),
    "UInt64": _between(0, 9, pl.UInt64),
    "Int64, large": lambda rng, n: pl.Series(
        [2**53 + 2 * int(k) for k in rng.integers(0, 99, n)], dtype=pl.Int64
    ),
    "Int64, merging": lambda rng, n: pl.Series([2**53 + k for k in range(n)], dtype=pl.Int64),
    "UInt64, merging": lambda rng, n: pl.Series([2**63 + k for k in range(n)], dtype=pl.UInt64),
    "Float32": lambda rng, n: pl.Series(rng.normal(size=n), dtype=pl.Float32),
    "Float64": lambda rng, n: pl.Series(rng.normal(size=n).round(3)),
    "Float64, whole": lambda rng, n: pl.Series(rng.integers(0, 5, n).astype(float)),
    "Float64, NaN": _floats(float("nan")),
    "Float64, inf": _floats(float("-inf")),
    "Float64, too large": _floats(1e301),
    "Float64, -999": _floats(-999.0),
    "Int64, -999": lambda rng, n: pl.Series([*rng.integers(0, 9, n - 2).tolist(), -999, -999]),
    "Decimal": lambda rng, n: pl.Series(
        [decimal.Decimal(int(k)) / 100 for k in rng.integers(0, 999, n)], dtype=pl.Decimal(10, 2)
    ),
    "Boolean": lambda rng, n: pl.Series(rng.random(n) < 0.5),
    "Date": lambda rng, n: pl.Series([_day(k) for k in rng.integers(0, 400, n)]),
    "Datetime, ms": _moments(pl.Datetime("ms")),
    "Datetime, us": _moments(pl.Datetime("us")),
    "Datetime, ns": _moments(pl.Datetime("ns")),
    "Datetime, UTC": _moments(pl.Datetime("us", "UTC")),
    "Datetime, Berlin": _moments(pl.Datetime("us", "Europe/Berlin")),
    "Time": lambda rng, n: pl.Series(
        [datetime.time(int(k) % 24, int(k) % 60) for k in rng.integers(0, 999, n)]
    ),
    "Duration, ms": _durations("ms"),
    "Duration, us": _durations("us"),
    "Categorical": _text("words", pl.Categorical),
    "Categorical, numbers": _text("few numbers", pl.Categorical),
    "Categorical, different": _text("identifiers", pl.Categorical),
    "Enum": lambda rng, n: pl.Series(rng.choice(["u", "v"], n).tolist(), dtype=pl.Enum(["u", "v", "w"])),
    "String, words": _text("words"),
    "String, identifiers": _text("identifiers"),
    "String, numbers": _text("numbers"),
    "String, days": _text("days"),
    "String, centimetres": _text("centimetres"),
    "String, empty": lambda rng, n: pl.Series([str(rng.choice(["", " ", "u", "v "])) for _ in range(n)]),
    "Binary": lambda rng, n: pl.Series([bytes([int(k)]) for k in rng.integers(0, 99, n)]),
    "List": lambda rng, n: pl.Series([[int(k), 1] for k in rng.integers(0, 9, n)]),
    "Struct": lambda rng, n: pl.Series([{"u": int(k)} for k in rng.integers(0, 9, n)]),
    "Null": lambda rng, n: pl.Series([None] * n, dtype=pl.Null),
}
PLAIN_TYPES = ("Float64", "Int64", "Boolean", "Date", "Float64, whole", "String, words", "Enum")
MIXED_TYPES = {
    "Int64": "Float64, whole",
    "Float64": "String, words",
    "Datetime, UTC": "Datetime, us",
    "Datetime, Berlin": "Datetime, UTC",
    "Date": "Datetime, ms",
    "Boolean": "Int8",
    "Categorical": "String, words",
    "Categorical, numbers": "Int64",
    "String, numbers": "Float64",
    "String, days": "Date",
    "Time": "Duration, us",
    "Null": "Float64",
    "Int32": "Decimal",
    "Enum": "Categorical",
    "List": "Int64",
}


AS_TEXT, NO_VALUE = ("--as-text",), ("--na=-999",)


def _without(series: pl.Series) -> pl.Series:
    values = [None if value == -999 else value for value in series.to_list()]
    return pl.Series(values, dtype=series.dtype).alias(series.name)


def typed_case(rng: np.random.Generator, folder: Path) -> Case:
    """Two samples of typed columns: frames of every library, and files that keep types."""
    sizes = [int(n) for n in rng.integers(8, 40, 2)]
    paired = bool(rng.random() < 0.1)
    sizes = [sizes[0]] * 2 if paired else sizes
    width = int(rng.integers(1, 4))
    names = _names(rng, width)
    kinds: list[tuple[str, str]] = []
    chance = rng.random()
    options: tuple[str, ...] = (*AS_TEXT, names[0]) if chance < 0.05 else NO_VALUE if chance < 0.1 else ()
    for place in range(width):
        kind = str(rng.choice(PLAIN_TYPES if place else list(TYPES)))
        pair = (kind, kind)
        if not place and rng.random() < 0.2:
            kind = str(rng.choice(list(MIXED_TYPES)))
            pair = (kind, MIXED_TYPES[kind]) if rng.random() < 0.5 else (MIXED_TYPES[kind], kind)
        if not place and options == NO_VALUE:
            pair = ("Float64, -999", str(rng.choice(["Float64, -999", "Int64, -999"])))
        kinds.append(pair)
    frames = []
    for which, n in enumerate(sizes):
        series = []
        for name, pair in zip(names, kinds, strict=True):
            values = TYPES[pair[which]](rng, n)
            if rng.random() < 0.3:
                gaps = pl.Series(rng.random(n) < float(rng.choice([0.1, 0.4])))
                values = pl.select(pl.when(~gaps).then(values)).to_series()
            series.append(values.alias(name))
        frames.append(_frame(series))
    apart = bool(width > 1 and not options and rng.random() < 0.05)
    if apart:
        frames[1] = frames[1][:, :-1]
    missing = str(rng.choice(["raise", "omit", "include", "include"]))
    function = "mmd_test" if options else _function(rng, names, paired or apart)
    question = Question(function, missing, int(rng.integers(9)), tuple(names), paired, options)
    declared = any(isinstance(kind, pl.Categorical | pl.Enum) for frame in frames for kind in frame.dtypes)
    routes: dict[str, Route] = {}
    if not options:
        routes |= dict(memory_routes(question, frames, declared, text=False))
    elif options == NO_VALUE:
        without = [frame.with_columns(_without(frame[names[0]])) for frame in frames]
        routes |= dict(memory_routes(question, without, declared, text=False))
    # Text has 1 and 1.0 as they are written, types have one number.
    routes |= dict(
        file_routes(question, frames, folder, declared or options[:1] == AS_TEXT, python=not options)
    )
    shown = f"types {dict(zip(names, kinds, strict=True))} {sizes} rows {options} missing={missing}"
    return Case(shown, function, routes, apart)


def memory_routes(
    question: Question, frames: list[pl.DataFrame], declared: bool, text: bool
) -> Iterator[tuple[str, Route]]:
    """The same columns in every kind of table; a dictionary of lists declares no categories."""

    def ask(make: Callable[[pl.DataFrame], Any]) -> Route:
        return lambda: question.python(lambda: [make(frame) for frame in frames])

    def pandas(frame: pl.DataFrame) -> Any:
        # Of integers with gaps pandas makes floats: what lies beyond 2^53 is lost before kembed sees it.
        return frame.to_pandas(use_pyarrow_extension_array=any(map(_large, frame)))

    def in_parts(frame: pl.DataFrame) -> Any:
        with dask.config.set({"dataframe.convert-string": False}):
            return dd.from_pandas(pandas(frame), npartitions=2, sort=False)

    yield "polars", ask(lambda frame: frame)
    yield "lazy", ask(lambda frame: frame.lazy())
    yield "pandas", ask(pandas)
    yield "Arrow", ask(lambda frame: frame.to_arrow())
    yield "Dask", ask(in_parts)
    if text:
        yield (
            "pandas of objects",
            ask(lambda frame: frame.to_pandas().astype(object) if not declared else pandas(frame)),
        )
    if not declared:
        yield "dictionary", ask(lambda frame: frame.to_dict(as_series=False))


def _large(series: pl.Series) -> bool:
    values = series.to_list() if series.dtype.is_integer() else []
    return None in values and max((value or 0 for value in values), default=0) > 2**53


def file_routes(
    question: Question, frames: list[pl.DataFrame], folder: Path, declared: bool, python: bool
) -> Iterator[tuple[str, Route]]:
    """Parquet and Feather in one file and in two; text where every type has one way of being written."""
    writers: dict[str, Callable[[pl.DataFrame, Path], Any]] = {
        "parquet": lambda frame, path: frame.write_parquet(path),
        "feather": lambda frame, path: frame.write_ipc(path),
    }
    if not declared and all(map(_writable, (kind for frame in frames for kind in frame.dtypes))):
        # A gap alone in its row is a blank line for polars; JSON has no infinite numbers.
        series = [one.alias("") for frame in frames for one in frame]
        alone = any(frame.width == 1 for frame in frames) and any(one.null_count() for one in series)
        if not alone and _same_booleans(*frames):
            writers["csv"] = lambda frame, path: _written(frame).write_csv(path)
        if not any(one.is_infinite().any() for one in series if one.dtype.is_float()):
            writers["ndjson"] = lambda frame, path: _written(frame).write_ndjson(path)
    for suffix, write in writers.items():
        for label, frame in zip("xy", frames, strict=True):
            cut = frame.height // 3
            for end, part in (("", frame), ("-1", frame[:cut]), ("-2", frame[cut:])):
                write(part, folder / f"{label}{end}.{suffix}")
        for route, pattern in ((suffix, f"%s.{suffix}"), (f"{suffix} pattern", f"%s-*.{suffix}")):
            pair = [pattern % "x", pattern % "y"]
            if question.in_shell:
                yield f"shell, {route}", lambda pair=pair: question.shell(*pair)
            if python:
                yield route, lambda pair=pair: question.python(lambda: pair)
    if python:
        scan = lambda: [pl.scan_parquet(f"{label}-*.parquet") for label in "xy"]  # noqa: E731
        yield "lazy, of files", lambda: question.python(scan)


def _same_booleans(x: pl.DataFrame, y: pl.DataFrame) -> bool:
    """In CSV true is no number, so that it may not stand beside 1 of the other sample."""
    shared = [name for name in x.columns if name in y.columns]
    return all((x[name].dtype == pl.Boolean) == (y[name].dtype == pl.Boolean) for name in shared)


def _writable(kind: pl.DataType) -> bool:
    """Whether text says the same as the type: words in text files may be missing, durations are no text."""
    plain = kind.is_numeric() or kind in (pl.Boolean, pl.Date, pl.Null, pl.String)
    return plain or (isinstance(kind, pl.Datetime) and kind.time_zone in (None, "UTC"))


def _written(frame: pl.DataFrame) -> pl.DataFrame:
    """Moments as ISO text."""
    moments = [name for name, kind in frame.schema.items() if kind.is_temporal()]
    series = [
        frame[name].alias("").dt.to_string("iso").alias(name) if name in moments else frame[name]
        for name in frame.columns
    ]
    return _frame(series)


# Arrays.


def array_case(rng: np.random.Generator, folder: Path) -> Case:
    """Two arrays: in memory, nested lists, masked, memory maps (also changed ones), Dask arrays."""
    width, kind = int(rng.integers(1, 4)), str(rng.choice(["f8", "f8", "f4", "i8", "i2", "u1", "?"]))
    arrays = []
    for n in rng.integers(8, 40, 2):
        array = (5 * rng.normal(size=(int(n), width))).round(2).astype(kind)
        if kind == "f8" and rng.random() < 0.4:
            array[rng.integers(n), rng.integers(width)] = rng.choice([np.nan, np.nan, np.nan, np.inf, 1e301])
        if kind == "i8" and rng.random() < 0.3:
            array[:, 0] = 2**53 + np.arange(n)
        arrays.append(array)
    missing = str(rng.choice(["raise", "omit", "include", "include"]))
    function = str(rng.choice(["mmd_test", "mmd_test", "mmd_test", "k_sample_test", "Sketch"]))
    names = tuple(f"column {place}" for place in range(width))
    question = Question(function, missing, int(rng.integers(9)), names)

    def ask(make: Callable[[np.ndarray, str], Any]) -> Route:
        return lambda: question.python(
            lambda: [make(array, label) for array, label in zip(arrays, "xy", strict=True)]
        )

    def mapped(array: np.ndarray, label: str) -> Any:
        array.tofile(folder / label)
        return np.memmap(folder / label, array.dtype, "r", shape=array.shape)

    def changed(array: np.ndarray, label: str) -> Any:
        np.zeros_like(array).tofile(folder / f"{label}-0")
        view = np.memmap(folder / f"{label}-0", array.dtype, "c", shape=array.shape)
        view[:] = array
        return view

    def cut(array: np.ndarray, label: str) -> Any:
        return mapped(np.vstack([array[:3], array]), label)[3:]

    routes = {
        "array": ask(lambda array, label: array),
        "Fortran": ask(lambda array, label: np.asfortranarray(array)),
        "nested lists": ask(lambda array, label: array.tolist()),
        "memmap": ask(mapped),
        "changed memmap": ask(changed),
        "part of a memmap": ask(cut),
        "Dask array": ask(lambda array, label: da.from_array(array, chunks=(7, width))),
    }
    if kind.startswith("f"):
        routes["masked"] = ask(
            lambda array, label: np.ma.masked_array(np.nan_to_num(array, posinf=np.inf), np.isnan(array))
        )
    return Case(
        f"array {kind} {[array.shape for array in arrays]} missing={missing}", function, routes, False
    )


# Cases, and what is wrong with them.

KINDS = (text_case, text_case, text_case, typed_case, typed_case, array_case)


def drawn(seed: int, number: int, folder: Path) -> Case:
    """The case with this number; its files are written into the folder."""
    rng = np.random.default_rng([seed, number])
    case = KINDS[number % len(KINDS)](rng, folder)
    first, *others = case.routes
    if len(others) > ROUTES:
        others = [others[place] for place in sorted(rng.choice(len(others), ROUTES, False))]
    return case._replace(routes={route: case.routes[route] for route in (first, *others)})


def answers(case: Case) -> dict[str, Answer]:
    """What every route says."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what warns is found by the fuzzer of the library
        return {name: route() for name, route in case.routes.items()}


def judged(case: Case, said: dict[str, Answer]) -> list[str]:
    """Routes that differ from the first of their kind, and errors that are none of kembed's."""
    broken: dict[str, list[str]] = {}
    groups = [list(said)]
    if case.apart:
        groups = [[name for name in said if name.startswith("shell") == shell] for shell in (False, True)]
    for group in groups:
        for name in group:
            foreign = said[name].error not in ("", "refused")
            different = said[name].error if foreign else said[group[0]].differs(said[name])
            if different:
                broken.setdefault(f"{group[0]} differs in {different}", []).append(name)
    return [f"{', '.join(names)}: {what}" for what, names in broken.items()]


def tried(seed: int, number: int) -> tuple[Case, dict[str, Answer], list[str]]:
    """Make one case in a folder of its own: what its routes say, and what is wrong with that."""
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        case = drawn(seed, number, Path(name))
        said = answers(case)
    return case, said, judged(case, said)


def fuzz(
    count: int, seed: int, start: int = 0, seconds: float = float("inf")
) -> tuple[Counter, list[str], int]:
    """Make cases until there were so many, or time is up: how many were answered, and what was found."""
    counted: Counter = Counter()
    found: list[str] = []
    began, number = time.monotonic(), start
    while number < start + count and time.monotonic() - began < seconds:
        case, said, broken = tried(seed, number)
        first = next(iter(said.values()))
        counted[f"{case.words.split()[0]} {'refused' if first.error else 'answered'}"] += 1
        counted["routes"] += len(said)
        found += [f"{number} {case.question} {case.words}: {detail}" for detail in broken]
        number += 1
    return counted, found, number - start


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.fuzz.routes")
    parser.add_argument("count", type=int, nargs="?", default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--only", type=int, help="show what every route says to this one")
    asked = parser.parse_args(arguments)
    if asked.only is not None:
        case, said, broken = tried(asked.seed, asked.only)
        print(case.words, case.question, *(f"{name}: {answer}" for name, answer in said.items()), sep="\n")
        print(*broken, sep="\n")
        return int(bool(broken))
    counted, found, made = fuzz(asked.count, asked.seed, asked.start)
    print(*found, sep="\n")
    print(f"{made} cases, {len(found)} findings;", ", ".join(f"{k}: {v}" for k, v in sorted(counted.items())))
    return int(bool(found))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
