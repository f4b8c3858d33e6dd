"""Missing values and missing columns count: in the verdict, in JSON and in the exit code."""

import json

import numpy as np
import polars as pl
import pytest

import kembed

ROWS = 120
QUICK = ["--resamples", "99"]
FAIL = [*QUICK, "--fail-on-difference", "--json"]
GAPS = pl.int_range(pl.len()) % 5 < 2  # 40% of the rows


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Two random halves of one population, and what happened to the second of them."""
    folder, rng = tmp_path_factory.mktemp("missing"), np.random.default_rng(1)
    halves = [
        pl.DataFrame({
            "delay": rng.normal(size=ROWS).round(3),
            "distance": rng.normal(size=ROWS).round(3),
            "town": rng.choice(["Oslo", "Rome", "Bern"], ROWS),
            "day": pl.Series(rng.choice(np.arange("2024-01-01", "2024-03-01", dtype="datetime64[D]"), ROWS)),
        })
        for _ in range(2)
    ]  # fmt: skip
    jan, feb = halves
    tables = {
        "jan": jan,
        "feb": feb,
        "blanked": feb.with_columns(pl.when(~GAPS).then("delay").alias("delay")),
        "town-blanked": feb.with_columns(pl.when(~GAPS).then("town").alias("town")),
        "day-blanked": feb.with_columns(pl.when(~GAPS).then("day").alias("day")),
        "emptied": feb.with_columns(delay=pl.lit(None, pl.Float64)),
        "renamed": feb.rename({"delay": "arr_delay"}),
        "sparse": feb.with_columns(
            pl.when(pl.int_range(pl.len()) % 3 == k).then(name).alias(name)
            for k, name in enumerate(("delay", "distance", "town"))
        ),
    }
    for name, table in tables.items():
        table.write_csv(folder / f"{name}.csv")
        table.write_parquet(folder / f"{name}.parquet")
    pl.concat([jan, tables["blanked"]]).with_columns(half=pl.Series(["a"] * ROWS + ["b"] * ROWS)).write_csv(
        folder / "both.csv"
    )
    return folder


def test_nothing_changed(call):
    code, out, _ = call("test", "jan.csv", "feb.csv", *FAIL)
    found = json.loads(out)
    assert (code, found["differ"], found["schema_differences"]) == (0, False, [])


@pytest.mark.parametrize("file", ["blanked", "town-blanked", "day-blanked", "emptied"])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_values_that_vanished_are_a_difference(call, file, suffix):
    code, out, err = call("test", f"jan.{suffix}", f"{file}.{suffix}", *FAIL)
    assert code == 1, err
    found = json.loads(out)
    assert found["differ"] is True
    assert found["columns"] == ["delay", "distance", "town", "day"]
    assert [sample["used"] for sample in found["samples"]] == [ROWS, ROWS]


@pytest.mark.parametrize("command", ["witness", "report"])
def test_they_are_one_for_every_command(call, command):
    options = ["--columns", "delay,distance", "--fail-on-difference", "--json"]
    code, out, err = call(
        command, "jan.csv", "blanked.csv", *options, *(QUICK if command == "report" else [])
    )
    assert code == 1, err
    assert json.loads(out)["differ"] is True


def test_groups_of_one_file_count_them_too(call, answer):
    assert call("test", "both.csv", "--group", "half", *FAIL)[0] == 1
    apart = answer("test", "jan.csv", "blanked.csv", *QUICK)
    grouped = answer("test", "both.csv", "--group", "half", *QUICK)
    assert (grouped["pvalue"], grouped["statistic"]) == (apart["pvalue"], apart["statistic"])


def test_columns_tell_where_values_are_missing(answer):
    columns = answer("test", "jan.csv", "blanked.csv", "--by-column", *QUICK)["by_column"]
    (indicator,) = [one for one in columns if one["name"].startswith("delay") and one["name"] != "delay"]
    assert "missing" in indicator["name"]
    assert indicator["adjusted_pvalue"] <= 0.05


@pytest.mark.parametrize("command", ["test", "witness", "report"])
def test_a_renamed_column_is_a_difference(call, command):
    quick = [] if command == "witness" else QUICK
    code, out, err = call(command, "jan.csv", "renamed.csv", *quick, "--fail-on-difference", "--json")
    assert code == 1, err
    found = json.loads(out)
    assert found["schema_differences"] == [
        {"column": "delay", "sample": "jan.csv"},
        {"column": "arr_delay", "sample": "renamed.csv"},
    ]
    assert found["differ"] is True
    only = "The columns differ: only jan.csv has 'delay' and only renamed.csv has 'arr_delay'."
    assert found["verdict"].startswith(only)
    assert found["left_out"]["delay"] == "only jan.csv has it"
    assert err.count("column 'delay' is left out: only jan.csv has it") == 1
    assert call(command, "jan.csv", "renamed.csv", *quick)[0] == 0


def test_columns_that_are_not_asked_for_do_not_count(call):
    for options in (["--columns", "distance,town"], ["--exclude", "delay,arr_delay"]):
        code, out, _ = call("test", "jan.csv", "renamed.csv", *options, *FAIL)
        assert (code, json.loads(out)["schema_differences"]) == (0, [])


def test_omitted_rows_are_in_the_verdict(call, answer):
    found = answer("test", "jan.csv", "blanked.csv", "--missing", "omit", *QUICK)
    assert found["verdict"].endswith(" Rows used: 72 of 120 of blanked.csv.")
    assert [sample["used"] for sample in found["samples"]] == [120, 72]
    assert found["notes"] == [
        "48 of 120 rows of blanked.csv have missing values and are left out ('delay': 48)"
    ]
    assert (
        "Rows used: 72 of 120 of blanked.csv"
        in call("witness", "jan.csv", "blanked.csv", "--missing", "omit")[1]
    )


def test_most_rows_are_not_omitted(call):
    code, out, err = call("test", "jan.csv", "sparse.csv", "--missing", "omit", *QUICK)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "120 of 120" in err
    code, out, err = call("test", "jan.csv", "sparse.csv", "--missing", "omit", "--columns", "delay", *QUICK)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "80 of 120 rows of sparse.csv have missing values ('delay': 80)" in err
    assert "--missing include" in err
    assert call("test", "jan.csv", "sparse.csv", *FAIL)[0] == 1


def test_the_same_as_in_python(answer, place):
    found = answer("test", "jan.csv", "blanked.csv", *QUICK)
    x, y = (pl.read_parquet(place / f"{name}.parquet") for name in ("jan", "blanked"))
    direct = kembed.mmd_test(x, y, nan_policy="include", n_resamples=99, rng=0)
    assert (found["pvalue"], found["statistic"]) == (direct.pvalue, direct.statistic)


def test_numbers_that_mean_missing(answer, place):
    """`--na` is about numbers of every format, not about text alone."""
    for suffix in ("csv", "parquet"):
        table = pl.read_parquet(place / "blanked.parquet").with_columns(pl.col("delay").fill_null(-999.0))
        getattr(table, f"write_{suffix}")(place / f"coded.{suffix}")
        coded = answer("test", "jan.csv", f"coded.{suffix}", "--na=-999", *QUICK)
        assert coded["statistic"] == answer("test", "jan.csv", "blanked.csv", *QUICK)["statistic"]


def test_dependence_on_what_is_missing(call, place):
    rng = np.random.default_rng(0)
    v, w = rng.normal(size=(2, 200))
    frame = pl.DataFrame({"v": v, "w": w}).with_columns(pl.when(pl.col("w") < 0.5).then("v").alias("v"))
    frame.write_csv(place / "selected.csv")
    sides = ["selected.csv", "--x", "v", "--y", "w", *QUICK, "--fail-on-dependence"]
    assert call("independence", *sides)[0] == 1
    assert call("independence", *sides, "--missing", "omit")[0] == 0


def test_weights_and_drawn_rows_with_gaps(answer, place):
    weights = pl.Series("weight", [None if k % 10 == 9 else 1.0 + k % 3 for k in range(ROWS)])
    for name in ("jan", "blanked"):
        pl.read_csv(place / f"{name}.csv").with_columns(weights).write_csv(place / f"heavy-{name}.csv")
    files = ["heavy-jan.csv", "heavy-blanked.csv", "--columns", "delay,distance", "--weights", "weight"]
    found = answer("test", *files, *QUICK)
    assert found["columns"] == ["delay", "distance"]
    assert [sample["used"] for sample in found["samples"]] == [108, 108]
    assert found["differ"] is True
    drawn = answer("test", *files, "--max-rows", "50", *QUICK)
    assert all(40 <= sample["used"] <= 50 for sample in drawn["samples"])
    paired = ["jan.csv", "blanked.csv", "--columns", "delay", "--paired", "--missing", "omit"]
    found = answer("test", *paired, "--max-rows", "60", *QUICK)
    used = found["samples"][0]["used"]
    assert found["samples"][1]["used"] == used
    assert 20 <= used < 60
