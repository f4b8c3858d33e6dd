"""Bayes factor, posterior probability and e-value for a difference of two distributions."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kembed.core import checks
from kembed.core.linalg import log_sum_exp
from kembed.core.text import plain
from kembed.core.text import rows as rows_of
from kembed.core.writing import jsonable
from kembed.testing.outcome import TestOutcome
from kembed.testing.two_sample import mmd_test

NEUTRAL = 3.0  # Bayes factors between 1/3 and 3 are "barely worth mentioning" (Kass & Raftery 1995)


@dataclass(frozen=True, eq=False)
class BayesFactorResult:
    """What `bayes_factor` returns.

    Attributes
    ----------
    log_bayes_factor : float
        Natural logarithm of p(data | different) / p(data | same).
    prior_probability, posterior_probability : float
        Probability of a difference before and after seeing the data.
    e_value : float
        Exact evidence against equality: its expectation is 1 under the null hypothesis, so it exceeds 1/α
        with probability at most α, whatever the prior.
    pvalue : float
        Permutation p-value of the Bayes factor.
    by_kernel : tuple of (Kernel, float)
        The kernel of every lengthscale, and the logarithm of its Bayes factor.
    sizes : tuple of int
        Rows of either sample.
    notes : tuple of str
        What to know of the data.

    """

    log_bayes_factor: float
    prior_probability: float
    posterior_probability: float
    e_value: float
    pvalue: float
    by_kernel: tuple[tuple[Any, float], ...]
    sizes: tuple[int, ...]
    notes: tuple[str, ...] = ()

    @property
    def probability(self) -> str:
        """The posterior probability in words, never rounded to certainty."""
        value = self.posterior_probability
        if not 0.001 <= value <= 0.999:
            return "above 0.999" if value > 0.5 else "below 0.001"
        return f"{value:.2f}" if 0.01 <= value <= 0.99 else f"{value:.3f}"

    @property
    def facts(self) -> list[tuple[str, str]]:
        """Rows of a table of results."""
        return [("probability", self.verdict), ("e-value", plain(self.e_value, 3))]

    @property
    def verdict(self) -> str:
        """The result in one sentence, which never claims that the distributions are equal."""
        factor, odds = self.log_bayes_factor, "even prior odds"
        if self.prior_probability != 0.5:
            odds = f"prior probability {self.prior_probability:g}"
        ratio = f"BF {_ratio(factor)}" if factor >= 0.0 else f"BF 1/{_ratio(-factor)}"
        probability = f"posterior probability of a difference {self.probability} at {odds}"
        if factor >= np.log(NEUTRAL):
            return f"{probability[0].upper()}{probability[1:]} ({ratio})"
        strength = "Hardly any evidence" if factor > 0.0 else "No evidence"
        return f"{strength} of a difference: {ratio}, {probability}"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON types, with the keys of docs/json.md."""
        names = "log_bayes_factor", "prior_probability", "posterior_probability", "e_value", "pvalue"
        scales = [{"kernel": repr(kernel), "log_bayes_factor": value} for kernel, value in self.by_kernel]
        values = {name: getattr(self, name) for name in names}
        return jsonable({**values, "by_kernel": scales, "verdict": self.verdict})

    def __repr__(self) -> str:
        sizes = " and ".join(map(rows_of, self.sizes))
        return f"{self.verdict}; e-value {plain(self.e_value, 3)}, p = {self.pvalue:.3g} ({sizes})"


def bayes_factor(
    x: Any,
    y: Any,
    *,
    prior_probability: float = 0.5,
    n_resamples: int = 999,
    rng: Any = None,
    nan_policy: str = "raise",
    progress: bool | None = None,
) -> BayesFactorResult:
    """Weigh the evidence that two samples come from different distributions.

    Under the alternative the relative difference (p - q)/ν of the two densities, ν their mixture, is a
    Gaussian process with a Gaussian kernel; the Bayes factor averages over lengthscales around the one that
    `learn_kernel` learns from the pooled rows, and over amplitudes.

    Parameters
    ----------
    x, y : array, data frame, path, or any source that `mmd_test` takes
        Samples, one row an observation, of any number of rows; numbers and categories.
    prior_probability : float, default 0.5
        Probability of a difference before seeing the data.
    n_resamples : int, default 999
        Relabelings behind the e-value and the p-value; the Bayes factor does not depend on them.
    rng : int, numpy.random.Generator or None
        Seed of the relabelings, and beyond 5,000 rows of the rows that features are fitted on.
    nan_policy, progress
        As for `mmd_test`.

    Returns
    -------
    BayesFactorResult

    Notes
    -----
    The prior fixes what a difference looks like. The e-value does not depend on it: it is the Bayes factor
    over its mean under relabeling, and is exact for any sample size. Rows are assumed independent; use
    `mmd_test` with `unit`, `strata` or `paired` where they are not. Evidence in favour of the null hypothesis
    grows slowly, and is never a proof of equality.

    References
    ----------
    Q. Zhang, V. Wild, S. Filippi, S. Flaxman, D. Sejdinovic, "Bayesian Kernel Two-Sample Testing", Journal of
    Computational and Graphical Statistics 31 (2022).

    Examples
    --------
    >>> import numpy as np
    >>> from kembed import bayes_factor
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(200, 2)), rng.normal(size=(200, 2))
    >>> bayes_factor(x, y, rng=0).posterior_probability < 0.5
    True
    >>> bayes_factor(x, y + [0.0, 0.7], rng=0).posterior_probability > 0.99
    True

    """
    prior_probability = checks.level(prior_probability, "prior_probability")
    options: Any = {"n_resamples": n_resamples, "rng": rng, "nan_policy": nan_policy, "progress": progress}
    return result_of(mmd_test(x, y, kernel="bkl", **options), prior_probability)


def result_of(test: TestOutcome, prior_probability: float = 0.5) -> BayesFactorResult:
    """The result of a test with kernel="bkl"."""
    log_factor = test.statistic
    resampled = test.null_distribution
    # The data are one of all labelings.
    labelings = resampled if test.enumerated else np.append(resampled, log_factor)
    log_mean = float(log_sum_exp(labelings)) - np.log(len(labelings))
    log_odds = log_factor + np.log(prior_probability) - np.log1p(-prior_probability)
    return BayesFactorResult(
        log_bayes_factor=log_factor,
        prior_probability=prior_probability,
        posterior_probability=float(1.0 / (1.0 + np.exp(-np.clip(log_odds, -700.0, 700.0)))),
        e_value=float(np.exp(log_factor - log_mean)),
        pvalue=test.pvalue,
        by_kernel=tuple((each.kernel, each.statistic) for each in test.members),
        sizes=test.sizes,
        notes=test.notes,
    )


def _ratio(log_factor: float) -> str:
    """A Bayes factor of at least 1, rounded as far as a reader needs it.

    >>> [_ratio(np.log(value)) for value in (1.52, 4.6, 35.4, 2300.0)], _ratio(800.0)
    (['1.5', '4.6', '35', '2300'], '10^347')
    """
    if log_factor > np.log(1e6):
        return f"10^{log_factor / np.log(10.0):.0f}"
    return f"{np.exp(log_factor):.2g}" if log_factor < np.log(100.0) else f"{np.exp(log_factor):.0f}"
