"""`--margin`: verdicts, exit codes and refusals of `kembed test` and `kembed report`."""

import numpy as np
import polars as pl
import pytest

import kembed

ROWS = 400
QUICK = ("--kernel", "median", "--resamples", "99")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Tables whose column v differs by .5 standard deviations."""
    folder, rng = tmp_path_factory.mktemp("margin"), np.random.default_rng(1)
    for name, shift in (("a", 0.0), ("b", 0.5)):
        v, day = rng.normal(shift, size=ROWS), np.arange(ROWS) // 4
        table = pl.DataFrame({"v": v, "w": rng.normal(size=ROWS), "day": day})
        table.write_csv(folder / f"{name}.csv")
    table.drop("w").write_csv(folder / "without.csv")
    return folder


V = ("--columns", "v,w")


@pytest.mark.parametrize(
    ("margin", "verdict", "code"),
    [("0.1sd", "different", 1), ("0.35 sd", "undecided", 0), ("2 sd", "equivalent", 0)],
)
def test_the_exit_code_is_that_of_the_margin(call, answer, margin, verdict, code):
    arguments = ("test", "a.csv", "b.csv", *V, *QUICK, "--margin", margin)
    found = answer(*arguments)
    assert found["margin"]["verdict"] == verdict
    assert found["differ"]
    assert found["beyond_margin"] == (code == 1)
    printed = call(*arguments, "--fail-on-difference", "--quiet")
    assert printed[0] == code
    assert printed[1].startswith(
        {"different": "Different beyond", "equivalent": "Equivalent within", "undecided": "Undecided at"}[
            verdict
        ]
    )
    assert "The two samples differ: p = 0.01" in printed[1]


def test_numbers_are_those_of_the_library(answer, place):
    found = answer("test", "a.csv", "b.csv", *V, *QUICK, "--margin", "2%", "--seed", "3")
    x, y = (pl.read_csv(place / f"{name}.csv").drop("day") for name in "ab")
    direct = kembed.mmd_test(x, y, kernel="median", n_resamples=99, margin="2%", rng=3)
    assert found["margin"] == direct.to_dict()["margin"]
    assert found["effect"] == direct.effect.normalised[0]
    assert answer("test", "a.csv", "b.csv", *V, *QUICK)["effect"] == found["effect"]


def test_clusters_widen_the_interval(answer):
    found = [
        answer("test", "a.csv", "b.csv", *QUICK, "--margin", "0.1sd", *more)["margin"]["interval"]
        for more in (("--columns", "v,w"), ("--columns", "v,w", "--unit", "day"))
    ]
    assert found[0] != found[1]


def test_a_missing_column_fails_whatever_the_margin(call):
    arguments = ("test", "a.csv", "without.csv", *QUICK, "--margin", "3 sd", "--fail-on-difference")
    assert call(*arguments)[0] == 1


def test_the_report_does_not_fail_within_its_margin(call):
    code, out, _ = call("report", "a.csv", "b.csv", *V, *QUICK, "--fail-on-difference", "--margin", "2sd")
    assert code == 0
    assert out.startswith("Detectable but negligible: a.csv and b.csv differ (p = 0.01), but with 95%")
    assert "largest difference" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--margin", "big"],
            "margin must be standard deviations such as '0.1 sd', a share of rows",
        ),
        (["--margin", "1.5"], "but '1.5' was given"),
        (["--margin", "0.1sd", "--null", "wild"], "--margin needs independent rows or clusters"),
    ],
)
def test_what_is_refused(call, arguments, words):
    code, out, err = call("test", "a.csv", "b.csv", *V, *QUICK, *arguments)
    assert (code, out) == (2, "")
    assert words in err


def test_a_sketch_has_no_rows_for_a_margin(call):
    assert call("summarise", "a.csv", "-o", "a.kembed")[0] == 0
    code, _, err = call("test", "a.kembed", "b.csv", "--margin", "2%")
    assert code == 2
    assert "--margin is for samples of rows" in err
