"""Cases that once had another answer by another route: now one answer, or one refusal, by every route."""

import contextlib
import datetime
import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pytest

import kembed
from kembed.cli import run

THOROUGH = os.environ.get("KEMBED_THOROUGH") == "1"
QUICK: dict[str, Any] = {"kernel": "median", "n_resamples": 19, "rng": 0, "by_column": True}
SHELL = ("--kernel=median", "--resamples=19", "--seed=0", "--json")
Tables = tuple[pl.DataFrame, pl.DataFrame]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def numbers(n: int, seed: int = 0) -> list[float]:
    return np.random.default_rng(seed).normal(size=n).round(3).tolist()


def write(tables: Tables, suffix: str = "csv") -> None:
    """Each table in a file, x.csv, and in two, x-1.csv and x-2.csv."""
    for label, table in zip("xy", tables, strict=True):
        cut = table.height // 3
        for end, part in (("", table), ("-1", table[:cut]), ("-2", table[cut:])):
            path = f"{label}{end}.{suffix}"
            {"csv": part.write_csv, "parquet": part.write_parquet, "ndjson": part.write_ndjson}[suffix](path)


def sources(tables: Tables, *suffixes: str) -> dict[str, list[Any]]:
    """The tables by routes of Python: in memory, and in files with these suffixes."""
    with dask.config.set({"dataframe.convert-string": False}):
        parts = [dd.from_pandas(table.to_pandas(), npartitions=2, sort=False) for table in tables]
    found: dict[str, list[Any]] = {
        "polars": list(tables),
        "lazy polars": [table.lazy() for table in tables],
        "pandas": [table.to_pandas() for table in tables],
        "Arrow": [table.to_arrow() for table in tables],
        "Dask": parts,
    }
    for suffix in suffixes:
        write(tables, suffix)
        found[suffix] = [f"x.{suffix}", f"y.{suffix}"]
        found[f"{suffix} pattern"] = [f"x-*.{suffix}", f"y-*.{suffix}"]
        found[f"{suffix} list"] = [[f"{label}-1.{suffix}", f"{label}-2.{suffix}"] for label in "xy"]
    return found


def answer(pair: Any, **options: Any) -> Any:
    """The p-value, sizes, columns and notes on them."""
    result = kembed.mmd_test(*pair, **{**QUICK, **options})
    notes = sorted(note for note in result.notes if note.startswith("column "))
    return result.pvalue, result.sizes, [column.name for column in result.columns or ()], notes


def ask(command: str, *arguments: str) -> tuple[int, Any, str]:
    """The exit code of a command, what it prints as JSON, and its errors."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run([command, *arguments])
    shown = out.getvalue()
    return code, json.loads(shown) if "--json" in arguments and shown else shown, err.getvalue()


def shell_answer(x: str, y: str, *options: str) -> Any:
    by_column = () if "--paired" in options else ("--by-column",)
    code, result, errors = ask("test", x, y, *by_column, *SHELL, *options)
    assert code == 0, errors
    notes = [note.replace(x, "x").replace(y, "y") for note in result["notes"] if note.startswith("column ")]
    sizes = tuple(sample["used"] for sample in result["samples"])
    return result["pvalue"], sizes, [column["name"] for column in result["by_column"] or ()], sorted(notes)


def assert_one_answer(tables: Tables, *suffixes: str, **options: Any) -> Any:
    """The same answer by every route; the command line is asked about files."""
    wanted = answer(tables, **options)
    found = {route: answer(pair, **options) for route, pair in sources(tables, *suffixes).items()}
    missing = options.get("nan_policy", "raise")
    for suffix in suffixes:
        for pattern in (f"%s.{suffix}", f"%s-*.{suffix}"):
            found[f"shell {pattern}"] = shell_answer(pattern % "x", pattern % "y", "--missing", missing)
    assert {route: value for route, value in found.items() if value != wanted} == {}, wanted
    return wanted


def assert_refused(tables: Tables, column: str, *suffixes: str, **options: Any) -> None:
    """The same refusal by every route, which names the column."""
    for route, pair in sources(tables, *suffixes).items():
        with pytest.raises((TypeError, ValueError)) as caught:
            kembed.mmd_test(*pair, **{**QUICK, **options})
        assert repr(column) in str(caught.value), (route, str(caught.value))
    for suffix in suffixes:
        for pattern in (f"%s.{suffix}", f"%s-*.{suffix}"):
            code, _, errors = ask("test", pattern % "x", pattern % "y", *SHELL)
            assert code == 2, (pattern, errors)
            assert repr(column) in errors
            assert len(errors.strip().splitlines()) == 1


# Rows.


def test_a_row_of_empty_fields_is_a_row_and_a_blank_line_is_none():
    x = "a,b\n" + "".join(f"{k},{k % 3}\n" if k % 5 else ",\n" for k in range(20))
    y = "a,b\n" + "".join(f"{k + 1},{k % 3}\n\n" for k in range(20))
    Path("x.csv").write_text(x)
    Path("y.csv").write_text(y)
    shown = [None if k % 5 == 0 else k for k in range(20)]
    tables = (
        pl.DataFrame({"a": shown, "b": [None if k is None else k % 3 for k in shown]}),
        pl.DataFrame({"a": range(1, 21), "b": [k % 3 for k in range(20)]}),
    )
    for policy, paired in (("omit", False), ("omit", True), ("include", False)):
        how = {"nan_policy": policy, "paired": paired, "by_column": not paired}
        wanted = answer(tables, **how)
        assert answer(["x.csv", "y.csv"], **how) == wanted
        assert answer(["x*.csv", "y*.csv"], **how) == wanted
        options = ["--missing", policy, *(["--paired"] if paired else [])]
        assert shell_answer("x.csv", "y.csv", *options) == wanted
        assert shell_answer("x*.csv", "y*.csv", *options) == wanted
    assert answer(["x.csv", "y.csv"], nan_policy="include")[1] == (20, 20)


def test_a_quoted_empty_field_alone_is_a_row():
    Path("x.csv").write_text('a\n1\n""\n2\n\n3\n4\nNA\n5\n6\n')
    Path("y.csv").write_text("a\n1\n2\n3\n4\n5\n6\n7\n")
    x = pl.DataFrame({"a": [1, None, 2, 3, 4, None, 5, 6]})
    wanted = answer((x, pl.DataFrame({"a": range(1, 8)})), nan_policy="include")
    assert wanted[1] == (8, 7)
    for pair in (["x.csv", "y.csv"], ["x*.csv", "y*.csv"]):
        assert answer(pair, nan_policy="include") == wanted


def test_a_changed_memory_map_is_read_as_it_is():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 2)), rng.normal(2.0, size=(40, 2))
    for label, array in (("x", x), ("y", x)):
        array.tofile(label)
    views = [np.memmap(label, "f8", "c", shape=(40, 2)) for label in "xy"]
    views[1][:] = y
    assert answer(views) == answer((x, y))
    assert answer(views)[0] == 0.05
    assert answer([view[5:] for view in views]) == answer((x[5:], y[5:]))
    readable = np.memmap("x", "f8", "r", shape=(40, 2))
    assert answer([readable[::2, ::-1], y]) == answer((x[::2, ::-1], y))


def test_masks_are_respected_by_every_array():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 2)), rng.normal(size=(25, 2))
    hidden = rng.random(x.shape) < 0.2
    gaps = np.where(hidden, np.nan, x)
    masked = np.ma.masked_array(np.where(hidden, 1e6, x), hidden)
    for policy in ("omit", "include"):
        wanted = answer((gaps, y), nan_policy=policy)
        assert answer((masked, y), nan_policy=policy) == wanted
        assert answer((da.from_array(masked, chunks=(7, 2)), y), nan_policy=policy) == wanted
        assert answer((da.from_array(gaps, chunks=(7, 2)), y), nan_policy=policy) == wanted


def test_pandas_labels_in_another_order_are_refused():
    x = pd.Series(numbers(30), name="x")
    y = pd.Series(numbers(30, 1), index=x.index[::-1], name="y")
    with pytest.raises(ValueError, match="reset_index"):
        kembed.hsic_test(x, y, n_resamples=19)
    with pytest.raises(ValueError, match="reset_index"):
        kembed.mmd_test(x.to_frame(), y.to_frame("x"), paired=True, n_resamples=19)


# Text is read for all samples together.

APART = {
    "units": ([f"{170 + k}.4 cm" for k in range(20)], [f"1.{70 + k} m" for k in range(20)]),
    "currencies": ([f"€{k}.50" for k in range(20)], [f"${k}.25" for k in range(20)]),
    "days and months": ([f"{k + 1}/2/2020" for k in range(20)], [f"2/{k + 1}/2020" for k in range(20)]),
    "commas": ([f"{k},5" for k in range(20)], [f"1,234,{500 + k}" for k in range(20)]),
    "zones": (
        [f"2020-01-{k + 1:02d}T10:00:00Z" for k in range(20)],
        [f"2020-01-{k + 1:02d}T10:00:00" for k in range(20)],
    ),
}


@pytest.mark.parametrize("case", APART)
def test_samples_that_read_in_different_ways_are_refused(case):
    x, y = APART[case]
    tables = pl.DataFrame({"v": x, "w": numbers(20)}), pl.DataFrame({"v": y, "w": numbers(20, 1)})
    assert_refused(tables, "v", "csv", "parquet")
    for pair in (tables, ("x.csv", "y.csv"), ("x-*.csv", "y-*.csv")):
        with pytest.raises((TypeError, ValueError), match="'v'"):
            kembed.mmd_test(kembed.Sketch.of(pair[0], kernel="median"), pair[1], n_resamples=19)
    codes = (
        ask("summarise", "x.csv", "-o", "x.sketch")[0],
        ask("test", "x.sketch", "y.csv", "--resamples=19")[0],
    )
    assert codes[1] == 2


def test_a_point_means_one_thing_in_all_samples():
    x = pl.DataFrame({"v": [f"{360 + k}.488" for k in range(20)], "w": numbers(20)})
    y = pl.DataFrame({"v": [f"{900 + k}.833,5" for k in range(20)], "w": numbers(20, 1)})
    assert_one_answer((x, y), "csv", "parquet")
    thousands = x.with_columns(pl.Series("v", [360488 + 1000 * k for k in range(20)]))
    plain = y.with_columns(pl.Series("v", [900833.5 + 1000 * k for k in range(20)]))
    assert answer((x, y))[:3] == answer((thousands, plain))[:3]


NUMERIC = {
    "thousands or decimals": [f"{k},{100 + 7 * k}" for k in range(1, 21)],
    "days or months": [f"{k % 12 + 1}/{k % 7 + 1}/2020" for k in range(20)],
    "fractions": [f"{k}/{k + 3}" for k in range(20)],
    "ranges": [f"{k}-{k + 3}" for k in range(20)],
    "parentheses": [f"({k}.5)" for k in range(20)],
    "a word": [*(f"{k}.5" for k in range(19)), "unknown"],
    "leading zeros": [f"{k:05d}" for k in range(20)],
    "units": [f"{k} kg" for k in range(20)],
}


@pytest.mark.parametrize("case", NUMERIC)
def test_what_looks_numeric_and_is_not_read_is_refused_with_values_and_remedies(case):
    values = NUMERIC[case]
    tables = pl.DataFrame({"v": values, "w": numbers(20)}), pl.DataFrame({"v": values, "w": numbers(20, 1)})
    assert_refused(tables, "v", "csv")
    with pytest.raises(ValueError, match="categorical dtype") as caught:
        kembed.mmd_test(*tables, **QUICK)
    assert sum(repr(value) in str(caught.value) for value in values) == (1 if case == "a word" else 3)
    declared = [table.with_columns(pl.col("v").cast(pl.Categorical)) for table in tables]
    assert answer(declared)[2] == ["v", "w"]
    assert shell_answer("x.csv", "y.csv", "--as-text", "v") == answer(declared)
    assert shell_answer("x-*.csv", "y-*.csv", "--as-text", "v") == answer(declared)


# Columns that are left out.


def named(name: str, values: Any, seed: int) -> pl.DataFrame:
    return pl.DataFrame({name: values, "v": numbers(40, seed), "g": ["u", "v"] * 20})


@pytest.mark.parametrize("name", ["rownames", "Unnamed: 0", "unnamed 1"])
def test_row_numbers_are_left_out_by_every_route(name):
    tables = named(name, range(40), 0), named(name, range(1, 41), 1)
    _, _, columns, notes = assert_one_answer(tables, "csv", "parquet")
    assert columns == ["v", "g"]
    assert any(note.startswith(f"column {name!r} is left out: ") for note in notes)


def test_a_column_of_row_numbers_without_a_name_is_left_out():
    tables = named("", range(40), 0), named("", range(40), 1)
    wanted = answer([table.drop("") for table in tables])
    for route, pair in sources(tables, "csv", "parquet").items():
        pvalue, sizes, columns, notes = answer(pair)
        assert (pvalue, sizes, columns) == wanted[:3], route
        assert len(notes) == 1, (route, notes)
        assert "is left out: " in notes[0]
    assert shell_answer("x.csv", "y.csv")[:3] == shell_answer("x-*.csv", "y-*.csv")[:3] == wanted[:3]


def test_identifiers_are_left_out_by_every_route_and_kept_where_named():
    tables = named("id", [f"x{k}" for k in range(40)], 0), named("id", [f"y{k}" for k in range(40)], 1)
    _, _, columns, notes = assert_one_answer(tables, "csv", "parquet")
    assert columns == ["v", "g"]
    assert any(note.startswith("column 'id' is left out: ") for note in notes)
    for pattern in ("%s.csv", "%s-*.csv"):
        code, result, _ = ask(
            "test", pattern % "x", pattern % "y", *SHELL, "--by-column", "--columns", "id,v"
        )
        assert code == 0
        assert [column["name"] for column in result["by_column"]] == ["id", "v"]
        assert not any("left out" in note for note in result["notes"])


def test_numbers_that_are_all_different_are_kept():
    tables = named("height", range(40), 0), named("height", range(40, 80), 1)
    assert assert_one_answer(tables, "csv")[2] == ["height", "v", "g"]


def test_a_column_that_is_empty_nested_or_binary_is_left_out_and_named():
    for values in ([None] * 40, [[k] for k in range(40)], [{"k": k} for k in range(40)], [b"k"] * 40):
        tables = named("c", values, 0), named("c", values, 1)
        _, _, columns, notes = assert_one_answer(tables, "parquet")
        assert columns == ["v", "g"]
        assert any(note.startswith("column 'c' is left out: ") for note in notes)


def test_a_column_of_one_sample_is_a_difference():
    tables = named("more", numbers(40), 0), named("more", numbers(40), 0).drop("more")
    for route, pair in sources(tables, "csv", "parquet").items():
        with pytest.raises(ValueError, match="'more'"):
            kembed.mmd_test(*pair, **QUICK)
        compared = kembed.compare(*pair, kernel="median", n_resamples=19)
        assert compared.to_dict()["differ"], route
        assert "'more'" in compared.to_dict()["verdict"], route
    for pattern in ("%s.csv", "%s-*.csv", "%s.parquet", "%s-*.parquet"):
        code, result, _ = ask("test", pattern % "x", pattern % "y", *SHELL, "--fail-on-difference")
        assert code == 1, pattern
        assert result["differ"] is True
        assert "'more'" in result["verdict"]
        assert result["columns"] == ["v", "g"]


def test_a_column_that_became_empty_is_a_difference():
    x = named("more", numbers(40), 0)
    tables = x, x.with_columns(pl.lit(None, pl.Float64).alias("more"))
    _, _, columns, _ = assert_one_answer(tables, "csv", "parquet", nan_policy="include")
    assert "more (missing)" in columns
    for pattern in ("%s.csv", "%s-*.csv"):
        code, result, _ = ask("test", pattern % "x", pattern % "y", *SHELL, "--fail-on-difference")
        assert code == 1, pattern
        assert result["differ"] is True


# Numbers and categories.


@pytest.mark.parametrize("dtype", [pl.Int64, pl.UInt64, pl.String])
def test_whole_numbers_that_would_merge_are_refused(dtype):
    values = pl.Series("v", [2**53 + k for k in range(20)], pl.UInt64).cast(dtype)
    tables = values.to_frame(), values.to_frame()
    for suffix in ("csv", "parquet", "ndjson"):
        assert_refused(tables, "v", suffix)
    if dtype == pl.Int64:
        array = values.to_numpy()[:, None]
        array.tofile("x")
        for x in (array, np.memmap("x", "i8", "r", shape=(20, 1)), da.from_array(array, chunks=(6, 1))):
            with pytest.raises(ValueError, match="column 0"):
                kembed.mmd_test(x, x, **QUICK)


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), 1e301, -1.7e308])
def test_infinite_and_huge_numbers_are_refused(value):
    tables = pl.DataFrame({"v": [*numbers(19), value]}), pl.DataFrame({"v": numbers(20, 1)})
    assert_refused(tables, "v", "csv", "parquet")
    assert_refused((tables[1], tables[0]), "v", "csv", "parquet")
    array = tables[0].to_numpy()
    array.tofile("x")
    for x in (array, np.memmap("x", "f8", "r", shape=(20, 1)), da.from_array(array, chunks=(6, 1))):
        with pytest.raises(ValueError, match=r"column 0|infinite"):
            kembed.mmd_test(x, array[:10], **QUICK)


def of_levels(levels: list[Any], seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 3, 60)
    table = {"v": rng.normal(size=60).round(3), "w": (codes + rng.normal(size=60)).round(3)}
    return pl.DataFrame(table).with_columns(pl.Series("c", [levels[k] for k in codes]))


@pytest.mark.parametrize("how", ["declared", "declared by pandas", "--as-text", "--as-text, CSV"])
@pytest.mark.parametrize("command", ["graph", "learn", "independence", "test"])
def test_categories_of_digits_are_categories_in_every_command(command, how):
    """Levels that are digits are levels like others, whether declared in a file or by an option."""
    answers = []
    for levels in (["one", "two", "ten"], [1, 2, 10]):
        as_text = ["--as-text=c"] if how.startswith("--") and levels[0] == 1 else []
        suffix = "csv" if how.endswith("CSV") else "parquet"
        kind = pl.Categorical if how == "declared" else pl.String if levels[0] == "one" else pl.Int64
        for label, seed in (("x", 0), ("y", 1)):
            table = of_levels(levels, seed).with_columns(pl.col("c").cast(pl.String).cast(kind))
            if how == "declared by pandas":  # a dictionary of integers
                table.to_pandas().astype({"c": "category"}).to_parquet(f"{label}.parquet")
            else:
                table.write_csv(f"{label}.csv") if suffix == "csv" else table.write_parquet(
                    f"{label}.parquet"
                )
        x, y = f"x.{suffix}", f"y.{suffix}"
        arguments = {
            "graph": (x, "--resamples=19", "--alpha=0.1", "--seed=0", "--json"),
            "learn": (x, "--seed=0", "--json"),
            "independence": (x, "--x=c", "--y=w", *SHELL),
            "test": (x, y, "--max-rows=50", *SHELL),
        }
        code, result, errors = ask(command, *arguments[command], *as_text)
        if result and command == "learn":
            result = {key: value for key, value in result.items() if key not in ("notes", "left_out")}
        answers.append((code, result or errors))
    assert answers[0] == answers[1]
    if command in ("test", "independence"):
        assert "Delta" in answers[0][1]["kernel_used"]


def test_as_text_sees_numbers_and_not_how_they_are_stored():
    """1 as int64 and 1.0 as float64 are one level."""
    rng = np.random.default_rng(0)
    whole = [pl.DataFrame({"c": rng.integers(0, 3, 40), "v": numbers(40, k)}) for k in range(2)]
    floats = whole[1].with_columns(pl.col("c").cast(pl.Float64))
    write((whole[0], whole[1]), "parquet")
    wanted = shell_answer("x.parquet", "y.parquet", "--as-text", "c")
    levels = [table.with_columns(pl.col("c").cast(pl.String).cast(pl.Categorical)) for table in whole]
    assert answer(levels) == wanted
    write((whole[0], floats), "parquet")
    assert shell_answer("x.parquet", "y.parquet", "--as-text", "c") == wanted
    assert shell_answer("x-*.parquet", "y-*.parquet", "--as-text", "c") == wanted
    assert shell_answer("x.parquet", "y.parquet", "--as-text", "c", "--max-rows", "1000") == wanted


def test_a_value_that_means_missing_does_so_in_columns_of_numbers():
    values = [[-999 if k % 6 == 1 else k % 11 for k in range(40)], [k % 11 for k in range(40)]]
    tables = (
        pl.DataFrame({"v": values[0], "w": numbers(40)}),
        pl.DataFrame({"v": values[1], "w": numbers(40, 1)}),
    )
    gaps = [table.with_columns(pl.when(pl.col("v") != -999).then("v").alias("v")) for table in tables]
    for policy in ("include", "omit"):
        wanted = answer(gaps, nan_policy=policy)
        assert wanted[1][0] == (40 if policy == "include" else 33)
        for suffix in ("csv", "parquet", "ndjson"):
            for kind in (pl.Int64, pl.Float64):
                write((tables[0].with_columns(pl.col("v").cast(kind)), tables[1]), suffix)
                for pattern in (f"%s.{suffix}", f"%s-*.{suffix}"):
                    found = shell_answer(pattern % "x", pattern % "y", "--na=-999", "--missing", policy)
                    assert found == wanted, (policy, pattern, kind)


# Files.


def test_comparisons_of_files_have_missing_shares_rows_and_units():
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(days=7 * k % 50) for k in range(40)]
    x = pl.DataFrame(
        {"day": days, "v": [None if k % 4 == 0 else k / 7 for k in range(40)], "g": ["u", "v"] * 20}
    )
    y = pl.DataFrame({"day": days[::-1], "v": [k / 9 for k in range(40)], "g": ["u", None] * 20})

    def facts(pair: Any) -> Any:
        shown = kembed.compare(*pair, kernel="median", n_resamples=19).to_dict()
        columns = {
            column["name"]: (column["missing"], column["unit"], column["categorical"], column["change"])
            for column in shown["by_column"]
        }
        return columns, [(sample["rows"], sample["used"]) for sample in shown["samples"]], shown["verdict"]

    wanted = facts((x, y))
    assert wanted[0]["v"][0] == [0.25, 0.0]
    assert wanted[0]["g"][0] == [0.0, 0.5]
    assert wanted[0]["day"][1]
    assert wanted[1] == [(40, 40), (40, 40)]
    found = {route: facts(pair) for route, pair in sources((x, y), "csv", "parquet").items()}
    assert {route: value for route, value in found.items() if value != wanted} == {}, wanted


def test_a_report_of_files_has_missing_shares_by_name_and_by_pattern():
    tables = [pl.DataFrame({"v": [None if k % 4 == 0 else k / 7 for k in range(40)], "w": numbers(40)})] * 2
    write((tables[0], tables[1]))
    for number, pair in enumerate((("x.csv", "y.csv"), ("x-*.csv", "y-*.csv"))):
        out = f"{number}.html"
        code, _, errors = ask("report", *pair, "--resamples=19", "--kernel=median", "-o", out)
        assert code == 0, errors
        assert "25.0%" in Path(out).read_text(encoding="utf-8") or "25%" in Path(out).read_text(
            encoding="utf-8"
        )


def test_a_long_header_is_read():
    width = 900
    names = [f"{'n' * 90}{k}" for k in range(width)]
    for label in "xy":
        rows = np.random.default_rng(ord(label)).normal(size=(12, width)).round(2)
        table = pl.DataFrame(rows, schema=names)
        table.write_csv(f"{label}.csv")
    assert len(",".join(names)) > 64 * 1024
    frames = [pl.read_csv(f"{label}.csv") for label in "xy"]
    quick = {"by_column": False, "kernel": "median", "n_resamples": 19, "rng": 0}
    wanted = kembed.mmd_test(*frames, **quick).pvalue
    assert kembed.mmd_test("x.csv", "y.csv", **quick).pvalue == wanted
    assert kembed.mmd_test("x*.csv", "y*.csv", **quick).pvalue == wanted


def test_a_quote_inside_a_field_is_a_character():
    values = ['5" pipe', "tube", 'a "b" c', '12" pipe']
    texts = [[values[(k * k + seed) % 4] for k in range(30)] for seed in range(2)]
    for label, text in zip("xy", texts, strict=True):
        lines = "".join(f"{value},{k % 7}\n" for k, value in enumerate(text))
        Path(f"{label}.csv").write_text(f"kind,v\n{lines}")
    tables = [pl.DataFrame({"kind": text, "v": [k % 7 for k in range(30)]}) for text in texts]
    wanted = answer(tables)
    for pair in (["x.csv", "y.csv"], ["x*.csv", "y*.csv"], [["x.csv"], ["y.csv"]]):
        assert answer(pair) == wanted
    assert shell_answer("x.csv", "y.csv") == shell_answer("x*.csv", "y*.csv") == wanted


@pytest.mark.parametrize("token", ["NaN", "nan", "NA", "NAN"])
def test_a_file_in_which_a_column_is_nothing_but_nan(token):
    """NAN is no missing value, so it is a word among numbers, wherever it stands."""
    for label in "xy":
        Path(f"{label}-1.csv").write_text("v,w\n" + "".join(f"{k % 7}.5,{k}\n" for k in range(20)))
        Path(f"{label}-2.csv").write_text("v,w\n" + "".join(f"{token},{k}\n" for k in range(20, 30)))
    values = [*(f"{k % 7}.5" for k in range(20)), *([None if token != "NAN" else "NAN"] * 10)]
    tables = [pl.DataFrame({"v": values, "w": range(30)})] * 2
    pattern = ["x-*.csv", "y-*.csv"]
    if token != "NAN":
        assert answer(pattern, nan_policy="include") == answer(tables, nan_policy="include")
        return
    for pair in (pattern, tables):
        with pytest.raises((TypeError, ValueError), match="'v'") as caught:
            kembed.mmd_test(*pair, **QUICK, nan_policy="include")
        assert "changed" not in str(caught.value)


def test_a_column_that_changes_its_type_is_named_with_its_file():
    for label in "xy":
        pl.DataFrame({"v": numbers(20), "w": numbers(20, 1)}).write_parquet(f"{label}-1.parquet")
        pl.DataFrame({"v": ["red", "blue"] * 10, "w": numbers(20, 2)}).write_parquet(f"{label}-2.parquet")
    with pytest.raises((TypeError, ValueError), match="'v'") as caught:
        kembed.mmd_test("x-*.parquet", "y-*.parquet", **QUICK)
    assert "-2.parquet" in str(caught.value)
    code, _, errors = ask("test", "x-*.parquet", "y-*.parquet", *SHELL)
    assert code == 2
    assert "'v'" in errors
    assert "-2.parquet" in errors


def test_files_of_a_pattern_may_have_their_columns_in_another_order():
    x = pl.DataFrame({"v": numbers(30), "g": ["u", "v", "u"] * 10})
    x[:10].write_parquet("x-1.parquet")
    x[10:].select("g", "v").write_parquet("x-2.parquet")
    y = pl.DataFrame({"g": ["u", "v"] * 15, "v": numbers(30, 1)})
    assert answer(["x-*.parquet", y])[:2] == answer((x, y))[:2]


DAMAGED = {
    "cut": ("x.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 500)[:25]),
    "no Parquet": ("x.parquet", b"PAR1 and nothing more PAR1"),
    "no Feather": ("x.feather", b"ARROW1\0\0 and nothing more"),
    "no JSON": ("x.ndjson", b'{"a": 1}\n{"a": \n'),
    "empty": ("x.csv", b""),
    "ragged": ("x.csv", b"a,b\n1,2\n3\n4,5,6\n"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_file_is_one_line_by_name_and_by_pattern(case):
    name, data = DAMAGED[case]
    Path(name).write_bytes(data)
    pl.DataFrame({"a": numbers(20), "b": numbers(20, 1)}).write_csv("y.csv")
    for source in (name, name.replace("x.", "x*.")):
        code, _, errors = ask("test", source, "y.csv", *SHELL)
        assert code == 2
        assert len(errors.strip().splitlines()) == 1
        assert "x" in errors
        with pytest.raises((ValueError, OSError)):
            kembed.mmd_test(source, "y.csv", **QUICK)


@pytest.mark.parametrize("name", ["^b.*$", "*", "a,b", 'say "v"', "col(1)", "é", "x\ny", "\x1b[31mred"])
def test_names_are_names_and_no_patterns(name):
    """Also where they command a terminal, which they never do."""
    tables = [
        pl.DataFrame({name: numbers(30, k), "b": numbers(30, 5 + k), "bb": ["u", "v"] * 15}) for k in range(2)
    ]
    wanted = answer(tables)
    assert wanted[2] == [name, "b", "bb"]
    found = {route: answer(pair) for route, pair in sources((tables[0], tables[1]), "csv", "parquet").items()}
    assert {route: value for route, value in found.items() if value != wanted} == {}
    if "," not in name:
        for pattern in ("%s.csv", "%s-*.csv"):
            code, result, _ = ask("test", pattern % "x", pattern % "y", *SHELL, "--columns", name)
            assert code == 0
            assert result["columns"] == [name]
    code, shown, errors = ask("test", "x.csv", "y.csv", "--kernel=median", "--resamples=19", "--by-column")
    assert code == 0
    assert "\x1b[31m" not in shown + errors


# Sizes.


@pytest.mark.parametrize("rows", [9, 10, 11, 4_999, 5_001, 10_001])
def test_how_many_rows_there_are_does_not_change_what_a_column_is(rows):
    rng = np.random.default_rng(0)

    def table(label: str) -> pl.DataFrame:
        days = [
            datetime.date(2020, 1, 1) + datetime.timedelta(days=int(k)) for k in rng.integers(0, 99, rows)
        ]
        return pl.DataFrame(
            {
                "id": [f"{label} no. {k}" for k in range(rows)],
                "rownames": np.arange(rows),
                "number": rng.normal(size=rows).round(4),
                "count": np.arange(rows),
                "text": [f"{k}.25" for k in rng.integers(0, 99, rows)],
                "money": [f"{k},{k:03d}.50" for k in rng.integers(100, 999, rows)],
                "day": list(map(str, days)),
                "true": rng.choice(["true", "false"], rows),
                "word": rng.choice(["red", "green"], rows),
            }
        )

    tables = table("x"), table("y")
    write(tables)
    routes = {"polars": tables, "csv": ("x.csv", "y.csv"), "pattern": ("x-*.csv", "y-*.csv")}
    for route, pair in routes.items():
        result = kembed.mmd_test(*pair, **QUICK)
        names = [column.name for column in result.columns]
        assert names == ["number", "count", "text", "money", "day", "true", "word"], route
        left_out = [note.split("'")[1] for note in result.notes if " is left out: " in note]
        assert left_out == ["id", "rownames"], route
        read = [
            note.split("'")[1] for note in result.notes if note.startswith("column ") and "read as" in note
        ]
        assert read == ["money"], route


def test_a_small_block_and_a_large_one_are_read_as_one():
    """A column of thousands that reads as plain numbers for its first 9,000 rows, and is text in the last."""
    for last, kind in (("1,234.5", "numbers"), ("red", "refused")):
        values = [*(str(k % 97) for k in range(9_000)), last]
        x, y = (pl.DataFrame({"v": values, "w": numbers(9_001, k)}) for k in range(2))
        write((x, y))
        for pair in ((x, y), ("x.csv", "y.csv"), ("x-*.csv", "y-*.csv")):
            if kind == "numbers":
                result = kembed.mmd_test(*pair, **QUICK)
                assert any(note.startswith("column 'v'") and "1,234.5" in note for note in result.notes)
            else:
                with pytest.raises((TypeError, ValueError), match=r"'v'.*red"):
                    kembed.mmd_test(*pair, **QUICK)


@pytest.mark.skipif(not THOROUGH, reason="a minute: KEMBED_THOROUGH=1")
def test_a_small_file_with_very_many_rows_is_not_held_in_memory():
    rows, columns = 40_000_000, 3  # a gigabyte of floats in 100 kilobytes of Parquet
    block = pl.DataFrame({f"v{k}": np.arange(10).repeat(100_000) % (k + 2) for k in range(columns)})
    pl.concat([block.lazy()] * (rows // block.height)).sink_parquet("x.parquet", row_group_size=1_000_000)
    assert Path("x.parquet").stat().st_size < 5_000_000
    script = (
        "import kembed, resource\n"
        "result = kembed.mmd_test('x.parquet', 'x.parquet', kernel='median', n_resamples=19, rng=0)\n"
        "print(result.sizes, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert str(rows) in shown
    assert int(shown.split()[-1]) < 1_500_000  # kilobytes
