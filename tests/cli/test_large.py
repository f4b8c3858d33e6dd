"""Files that are read block by block."""

import polars as pl
import pytest

from kembed import conditional_test
from kembed.cli import samples
from kembed.tables import source

QUICK = ["--resamples", "39"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    import numpy as np

    folder, rng = tmp_path_factory.mktemp("large"), np.random.default_rng(0)
    for name, shift in (("old0", 0.0), ("old1", 0.0), ("new0", 1.0)):
        table = {
            "v": rng.normal(shift, 1.0, 150),
            "w": rng.normal(size=150),
            "k": rng.choice(["p", "q"], 150),
        }
        pl.DataFrame(table).write_csv(folder / f"{name}.csv")
    return folder


def test_a_pattern_is_one_sample(call, answer):
    code, out, err = call("test", "old*.csv", "new*.csv", "--by-column", *QUICK)
    assert code == 0, err
    assert "The two samples differ" in out
    assert "300 rows" in out
    told = answer("test", "old*.csv", "new0.csv", "--exclude", "w", *QUICK)
    assert told["columns"] == ["v", "k"]
    assert [sample["rows"] for sample in told["samples"]] == [300, 150]


def test_a_pattern_of_json_is_one_sample(answer, place):
    for name in ("old0", "old1"):
        pl.read_csv(place / f"{name}.csv").write_ndjson(place / f"{name}.jsonl")
    told = answer("test", "old?.jsonl", "new0.csv", *QUICK)
    assert told["pvalue"] == answer("test", "old?.csv", "new0.csv", *QUICK)["pvalue"]


@pytest.mark.parametrize(
    "options", [[], ["--group", "k"], ["--as-text", "k"], ["--paired"], ["--missing", "omit"]]
)
def test_named_or_matched_a_file_means_the_same(answer, place, options):
    """A unique text column was once left out of files with names and kept in those of patterns."""
    folder = place / "ids"
    folder.mkdir(exist_ok=True)
    for name in ("old0", "new0"):
        table = pl.read_csv(place / f"{name}.csv").with_columns(
            id=pl.format("{}-{}", pl.lit(name), pl.int_range(pl.len())),
            v=pl.when(pl.int_range(pl.len()) % 9 == 0).then(None).otherwise(pl.col("v")),
        )
        table.write_csv(folder / f"{name}.csv")
        table.write_parquet(folder / f"{name}.parquet")
        for part, rows in (("p", table[:60]), ("q", table[60:])):
            rows.write_csv(folder / f"cut-{name}-{part}.csv")
    told = []
    for pattern in ("{}.csv", "{}?csv", "{}.parquet", "cut-{}-*.csv"):
        files = [f"ids/{pattern.format(name)}" for name in ("old0", "new0")]
        found = answer("test", *(files[:1] if "--group" in options else files), *options, *QUICK)
        told.append((found["pvalue"], found["statistic"], found["columns"], found["left_out"]))
    assert "id" in told[0][3]
    assert all(one == told[0] for one in told[1:])


def test_what_needs_memory_is_said(call, monkeypatch):
    for options, words in (
        (["older*.csv", "new*.csv"], "older*.csv"),
        (["old0.csv", "new0.csv", "--scheduler", "local:many"], "takes a number of workers"),
    ):
        code, _, err = call("test", *options, *QUICK)
        assert code == 2
        assert words in err
    monkeypatch.setattr(samples, "HELD", 100)
    monkeypatch.setattr(source, "HELD", 100)
    for options, words in (
        (["old0.csv", "--group", "k"], "groups of one such file cannot be compared"),
        (["old*.csv", "new*.csv", "--weights", "w"], "--weights is for samples that fit into memory"),
        (["old*.csv", "new*.csv", "--paired"], "more than are held at once"),
    ):
        code, _, err = call("test", *options, *QUICK)
        assert code == 2
        assert words in err


def test_what_is_held_is_decided_by_rows_and_columns(answer, monkeypatch):
    """The same schema and notes, whether rows are held or not; the test goes by features."""
    small = answer("test", "old*.csv", "new*.csv", *QUICK)
    monkeypatch.setattr(source, "HELD", 100)
    large = answer("test", "old*.csv", "new*.csv", *QUICK)
    for key in ("columns", "left_out", "samples", "differ", "schema_differences"):
        assert large[key] == small[key]


def test_other_commands_take_patterns_too(call, place):
    code, out, err = call("report", "old*.csv", "new*.csv", "-o", "page.html", *QUICK)
    assert code == 0, err
    assert (place / "page.html").stat().st_size > 10_000
    code, out, err = call("learn", "old*.csv", "--columns", "v,w")
    assert code == 0, err
    assert "300 rows" in out
    code, _, err = call("summarise", "old*.csv", "-o", "old.kembed")
    assert code == 0, err
    code, out, err = call("test", "old.kembed", "new0.csv", *QUICK)
    assert code == 0, err
    assert "differ" in out


def test_independence_of_a_pattern_is_of_all_rows(call, answer):
    code, out, err = call("independence", "old*.csv", "--x", "v", "--y", "w,k", *QUICK)
    assert code == 0, err
    assert "No dependence was found" in out
    assert "300 rows" in out
    told = answer("independence", "*.csv", "--x", "v,k", "--y", "w", *QUICK)
    assert told["columns"] == ["v", "k", "w"]
    assert told["samples"][0]["used"] == 450
    code, _, err = call("independence", "old*.csv", "--x", "v", "--y", "u", *QUICK)
    assert code == 2
    assert "no column 'u'" in err


def test_given_columns_of_a_pattern(answer, place):
    told = answer("independence", "*.csv", "--x", "v", "--y", "w", "--given", "k", *QUICK)
    assert told["samples"][0]["used"] == 450
    direct = conditional_test("v", "w", "k", data=place / "*.csv", n_resamples=39, rng=0)
    assert (told["pvalue"], told["given"]) == (direct.pvalue, ["k"])
