"""Files that are read block by block."""

import polars as pl
import pytest

from kembed import conditional_test

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


def test_what_needs_memory_is_said(call):
    for options, words in (
        (["old*.csv", "--group", "k"], "groups of one such file"),
        (["old*.csv", "new*.csv", "--weights", "w"], "--weights is for files that fit into memory"),
        (["old*.csv", "new*.csv", "--as-text", "k"], "--as-text is for files that fit into memory"),
        (["older*.csv", "new*.csv"], "older*.csv"),
        (["old0.csv", "new0.csv", "--scheduler", "local:many"], "takes a number of workers"),
    ):
        code, _, err = call("test", *options, *QUICK)
        assert code == 2
        assert words in err


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


def test_an_interrupted_run_is_resumed(call, place):
    again = ["test", "old0.csv", "new0.csv", "--kernel", "median", "--resume", "kept", *QUICK]
    code, first, err = call(*again)
    assert code == 0, err
    assert "taken from" not in err
    assert list((place / "kept").iterdir())
    code, second, err = call(*again)
    assert code == 0
    assert "passes that were finished before are taken from kept" in err
    assert second == first
    code, _, err = call("test", "old0.csv", "new0.csv", "--resume", "old1.csv", *QUICK)
    assert code == 2
    assert "passes cannot be kept in old1.csv" in err


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
