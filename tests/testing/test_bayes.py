"""The Bayes factor, its posterior probability and its e-value."""

import json
from itertools import combinations

import numpy as np
import polars as pl
import pytest

from kembed import BayesFactorResult, bayes_factor, mmd_test


def test_the_e_value_has_mean_one_over_all_labelings():
    rows = np.array([0.1, 0.4, 0.5, 1.3, 1.9, 2.0, 3.7])
    e_values = []
    for first in combinations(range(7), 3):
        result = bayes_factor(rows[list(first)], np.delete(rows, first), rng=0)
        e_values.append(result.e_value)
    assert np.mean(e_values) == pytest.approx(1.0, rel=1e-9)
    assert np.ptp(e_values) > 0.05


def test_the_e_value_is_the_factor_over_its_mean_under_relabeling(rng):
    x, y = rng.normal(size=(30, 1)), rng.normal(0.5, size=(40, 1))
    result, test = (
        bayes_factor(x, y, rng=1, n_resamples=99),
        mmd_test(x, y, kernel="bkl", rng=1, n_resamples=99),
    )
    labelings = np.exp([test.statistic, *test.null_distribution])
    assert result.log_bayes_factor == test.statistic
    assert result.e_value == pytest.approx(labelings[0] / labelings.mean(), rel=1e-9)
    assert result.pvalue == test.pvalue


def test_the_factor_is_the_mean_over_lengthscales(rng):
    result = bayes_factor(rng.normal(size=(30, 2)), rng.normal(size=(30, 2)), rng=0)
    factors = np.exp([value for _, value in result.by_kernel])
    assert result.log_bayes_factor == pytest.approx(np.log(factors.mean()), rel=1e-9)


@pytest.mark.parametrize("prior", [0.5, 0.01, 0.99])
def test_bayes_rule(rng, prior):
    x, y = rng.normal(size=(50, 1)), rng.normal(0.4, size=(50, 1))
    result = bayes_factor(x, y, prior_probability=prior, rng=0, n_resamples=19)
    odds = np.exp(result.log_bayes_factor) * prior / (1.0 - prior)
    assert result.posterior_probability == pytest.approx(odds / (1.0 + odds), rel=1e-9)
    assert f"prior probability {prior:g}" in result.verdict or prior == 0.5


def test_order_units_and_names_of_samples_do_not_matter(rng):
    x, y = rng.normal(size=(40, 2)), rng.normal([0.3, 0.0], size=(50, 2))
    plain = bayes_factor(x, y, rng=0).log_bayes_factor
    for other in (
        bayes_factor(y, x, rng=5),
        bayes_factor(x[::-1], y[rng.permutation(50)], rng=6),
        bayes_factor(x * [1e6, 1e-6] + 3.0, y * [1e6, 1e-6] + 3.0, rng=7),
    ):
        assert other.log_bayes_factor == pytest.approx(plain, rel=1e-4)


def test_mixed_tables_and_files_give_one_answer(rng, tmp_path):
    def table(shift):
        return pl.DataFrame({"a": rng.normal(shift, size=80), "level": rng.choice(["low", "high"], 80)})

    x, y = table(0.0), table(0.8)
    x.write_csv(tmp_path / "x.csv")
    y.write_csv(tmp_path / "y.csv")
    read = bayes_factor(str(tmp_path / "x.csv"), str(tmp_path / "y.csv"), rng=0)
    assert read.log_bayes_factor == pytest.approx(bayes_factor(x, y, rng=0).log_bayes_factor, rel=1e-6)
    assert read.posterior_probability > 0.9


def test_many_rows_without_a_difference_are_weak_evidence_for_the_null(rng):
    """Amplitudes go down to what the rows can see: a fixed least one gives 1/482 on such rows."""
    rows = rng.normal(size=(40_000, 2))
    result = bayes_factor(rows[:20_000], rows[20_000:], rng=0, n_resamples=19)
    assert -np.log(30.0) < result.log_bayes_factor < np.log(3.0)


@pytest.mark.parametrize(
    ("log_factor", "words"),
    [
        (-np.log(4.6), "No evidence of a difference: BF 1/4.6, posterior probability of a difference 0.18"),
        (np.log(1.5), "Hardly any evidence of a difference: BF 1.5, posterior"),
        (np.log(30.0), "Posterior probability of a difference 0.97 at even prior odds (BF 30)"),
        (500.0, "Posterior probability of a difference above 0.999 at even prior odds (BF 10^217)"),
    ],
)
def test_the_verdict_never_claims_equality(log_factor, words):
    posterior = 1.0 / (1.0 + np.exp(-log_factor))
    result = BayesFactorResult(log_factor, 0.5, posterior, 1.0, 0.5, (), (10, 10))
    assert result.verdict.startswith(words)
    assert "equal" not in repr(result)
    assert "same" not in repr(result)


def test_json_and_what_is_refused(rng):
    x = rng.normal(size=(20, 1))
    assert json.loads(json.dumps(bayes_factor(x, x + 0.1, rng=0).to_dict()))["prior_probability"] == 0.5
    with pytest.raises(ValueError, match="prior_probability must lie strictly between 0 and 1"):
        bayes_factor(x, x, prior_probability=1.0)
