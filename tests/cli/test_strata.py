"""Clusters and strata from the shell: the same answers as in Python."""

import numpy as np
import polars as pl
import pytest

from kembed import compare, hsic_test, k_sample_test, mmd_test

QUICK = ["--resamples", "99"]


@pytest.fixture
def place(tmp_path):
    """Two samples of the same four sites in other shares, and six rows of every customer."""
    rng = np.random.default_rng(0)
    for file, shares in (("x.csv", (0.7, 0.2, 0.1)), ("y.csv", (0.1, 0.2, 0.7))):
        site = np.repeat(rng.choice(3, 20, p=shares), 6)
        frame = pl.DataFrame({
            "v": rng.normal(size=120) + 3.0 * site,
            "w": rng.normal(size=120),
            "site": np.array(["Oslo", "Rome", "Bern"])[site],
            "customer": np.repeat(np.arange(20), 6),
        })  # fmt: skip
        frame.write_csv(tmp_path / file)
    return tmp_path


def test_strata_and_clusters_give_the_answers_of_python(place, answer):
    x, y = (pl.read_csv(place / file) for file in ("x.csv", "y.csv"))
    for options, how in (
        (["--strata", "site"], {"strata": "site"}),
        (["--unit", "customer"], {"unit": "customer"}),
        (["--strata", "site", "--unit", "customer"], {"strata": "site", "unit": "customer"}),
    ):
        found = answer("test", "x.csv", "y.csv", *options, *QUICK)
        assert found["pvalue"] == mmd_test(x, y, n_resamples=99, rng=0, **how).pvalue
        assert found["columns"] == [name for name in x.columns if name not in how.values()]
        page = answer("report", "x.csv", "y.csv", *options, *QUICK, "--output", place / "page.html")
        assert page["pvalue"] == compare(x, y, n_resamples=99, rng=0, **how).test.pvalue
    assert answer("test", "x.csv", "y.csv", *QUICK)["pvalue"] <= 0.01 < found["pvalue"]
    assert answer("test", "x.csv", "y.csv", "--columns", "v", "--strata", "site", *QUICK)["columns"] == ["v"]
    listed = answer("test", "x*.csv", "y*.csv", "--strata", "site", *QUICK)
    assert listed["pvalue"] == mmd_test(x, y, n_resamples=99, rng=0, strata="site").pvalue


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--strata", "sites"], "x.csv has no column 'sites'; did you mean 'site'?"),
        (["--strata", "site", "--paired"], "the rows of pair 1 lie in two strata"),
        (
            ["--columns", "site", "--strata", "site"],
            "no column is left to compare",
        ),
        (["--group", "site", "--weights", "w"], "--weights is for two samples"),
    ],
)
def test_what_cannot_be_is_one_line(options, said, call):
    files = ["x.csv"] if "--group" in options else ["x.csv", "y.csv"]
    code, out, err = call("test", *files, *options, *QUICK)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_groups_and_sides_within_strata(place, answer, call):
    """Three groups of one file at once, and two columns of it, as in Python."""
    parts = [pl.read_csv(place / file).drop("customer") for file in ("x.csv", "y.csv", "x.csv")]
    every = pl.concat([part.with_columns(batch=pl.lit(f"b{k}")) for k, part in enumerate(parts)])
    every.write_csv(place / "all.csv")
    found = answer("test", "all.csv", "--group", "batch", "--strata", "site", "--kernel", "median", *QUICK)
    same = k_sample_test(*parts, strata="site", kernel="median", n_resamples=99, rng=0)
    assert (found["pvalue"], found["within"]) == (same.pvalue, "3 strata of 'site'")
    assert "within 3 strata of 'site'" in found["verdict"]
    sides = [
        "independence",
        "x.csv",
        "--x",
        "v",
        "--y",
        "w",
        "--strata",
        "site",
        "--kernel",
        "median",
        *QUICK,
    ]
    told = answer(*sides)
    own = hsic_test("v", "w", data=place / "x.csv", strata="site", kernel="median", n_resamples=99, rng=0)
    assert (told["pvalue"], told["within"]) == (own.pvalue, own.within)
    assert (
        "--strata is for the test without --given" in call(*sides[:6], "--given", "customer", *sides[6:])[2]
    )
