"""`assert_same_distribution`: what passes, what fails, and what the message says."""

import re

import numpy as np
import polars as pl
import pytest

from kembed import assert_same_distribution
from kembed.comparing import gate

N = 200
COVARIANCE = [[1.0, 0.6], [0.6, 1.0]]


def draw(seed, n=N):
    return np.random.default_rng(seed).multivariate_normal([0.0, 0.0], COVARIANCE, n)


FAULTS = {
    "wrong scale": lambda: 1.4 * draw(2),
    "seed used twice": lambda: np.repeat(draw(2, N // 2), 2, axis=0),
    "truncated tail": lambda: np.clip(draw(2), -1.2, 1.2),
    "wrong correlation": lambda: np.random.default_rng(2).normal(size=(N, 2)),
    "rounding": lambda: np.round(draw(2)),
}
WORDS = {
    "wrong scale": "spread 1.",
    "seed used twice": "Rows are repeated",
    "truncated tail": "more values of -1.2",
    "wrong correlation": "rank correlation",
    "rounding": "rounded to 1",
}


def test_the_same_sampler_passes_and_returns_nothing():
    assert assert_same_distribution(draw(0), draw(1)) is None


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_a_sampler_fail_and_are_named(fault):
    with pytest.raises(AssertionError) as failure:
        assert_same_distribution(draw(0), FAULTS[fault]())
    message = str(failure.value)
    assert message.startswith("actual and expected differ (p = 0.0005).")
    assert WORDS[fault] in message
    assert "flake 0.001; 200 and 200 rows" in message


def test_a_margin_lets_small_differences_pass():
    x, y = draw(0), draw(1) + np.array([1.0, 0.0])
    assert_same_distribution(x, y, margin="3 sd", flake=0.02)
    words = r"^Different beyond the margin of 0\.1 sd.*\n.*\n  column 0: .*beyond"
    with pytest.raises(AssertionError, match=words):
        assert_same_distribution(x, y, margin="0.1 sd", flake=0.02)


def test_a_column_that_one_sample_lacks_fails():
    x = pl.DataFrame(draw(0), schema=["a", "b"])
    with pytest.raises(AssertionError, match="only new has 'b'"):
        assert_same_distribution(x[:60], x[:60].select("a"), flake=0.02, labels=("new", "old"))


def test_the_report_is_written_on_failure_alone(tmp_path):
    path = tmp_path / "gate.html"
    assert_same_distribution(draw(0), draw(1), report=path)
    assert not path.exists()
    with pytest.raises(AssertionError, match=re.escape(str(path))):
        assert_same_distribution(draw(0, 60), draw(1, 60) + 1.0, flake=0.02, report=path)
    assert "<!doctype html>" in path.read_text()


def test_clusters_are_respected():
    """30 values each of which stands five times differ as rows and not as clusters."""
    rng = np.random.default_rng(1)
    x, y = (np.repeat(rng.normal(size=30), 5) for _ in range(2))
    assert_same_distribution(x, y, unit=5)
    with pytest.raises(AssertionError):
        assert_same_distribution(x, y, flake=0.02)


def test_how_many_looks_there_are(monkeypatch):
    """A sample that passes at the first look costs 199 relabelings; one that fails, all of them."""
    counts = []

    def record(sources, kernel, procedure, **rows):
        counts.append(procedure.n_resamples)
        return type("Outcome", (), {"pvalue": next(pvalues)})

    monkeypatch.setattr(gate, "samples_test", record)
    for given, expected in (([0.2], [199]), ([0.01, 0.002], [199, 1999]), ([0.01] * 3, [199, 1999])):
        pvalues, counts[:] = iter(given), []
        assert_same_distribution(draw(0), draw(1))
        assert counts == expected
    pvalues, counts[:] = iter([0.05, 0.005, 0.0003]), []
    assert_same_distribution(draw(0), draw(1), flake=1e-4)
    assert counts == [199, 1999, 19_999]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"flake": 0.0}, "flake must lie strictly between 0 and 1"),
        ({"flake": 1e-7}, "flake must be at least 4e-06"),
        ({"margin": "much"}, "margin must be standard deviations"),
        ({"missing": "drop"}, "missing must be one of"),
    ],
)
def test_bad_arguments(options, words):
    with pytest.raises(ValueError, match=words):
        assert_same_distribution(draw(0), draw(1), **options)
