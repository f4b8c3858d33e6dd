"""Evidence that holds at any time: products of calibrated p-values from every time a change may begin.

An e-value is a number whose mean is at most 1 if nothing changes. Of a p-value on the grid 1/m, ..., 1 it is
p^(c-1) over the mean of that on the grid, for several exponents c. Products of e-values that begin at test j
are mixed with weights 1/(j(j+1)): the sum exceeds 1/α with probability at most α, however long one looks
(Ville 1939). Added up with equal weights (Shiryaev-Roberts) its mean is at most the number of tests.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import numpy as np

from kembed.core.backend import Float, Int

EXPONENTS = np.array([0.05, 0.2, 0.4, 0.6, 0.8])  # small ones pay for p-values near 0, large ones for many


def log_e_values(pvalues: Float[np.ndarray, " Q"], size: int) -> Float[np.ndarray, "Q 5"]:
    """Logarithms of the e-values of p-values on the grid 1/size, ..., 1, for every exponent.

    >>> grid = np.arange(1, 5) / 4
    >>> np.exp(log_e_values(grid, 4)).mean(axis=0).round(12).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0]
    """
    return np.log(pvalues)[:, None] * (EXPONENTS - 1.0) - _log_means(size)


@lru_cache(64)
def _log_means(size: int) -> Float[np.ndarray, " 5"]:
    """Logarithms of the means of p^(c-1) over the grid."""
    grid = np.arange(1, size + 1) / size
    return np.log((grid[:, None] ** (EXPONENTS - 1.0)).mean(axis=0))


@dataclass(frozen=True, eq=False)
class EvidenceProcess:
    """The evidence of one sequence of tests, one in so many batches, for several hypotheses at once.

    Hypothesis 0 is that nothing at all has changed; the others are about columns, or pairs of them.
    """

    share: float  # of the level
    period: int  # batches from one test to the next
    restarting: bool  # Shiryaev-Roberts: the mean time between alarms is held, and not their probability
    log_sums: Float[np.ndarray, "Q 5"]  # over all beginnings
    ranks: Int[np.ndarray, "t Q"]  # of the data: p-values times the sizes of their grids
    sizes: Int[np.ndarray, " t"]

    @classmethod
    def begun(cls, share: float, period: int, restarting: bool, hypotheses: int) -> Self:
        """Before the first test."""
        nothing = np.full((hypotheses, len(EXPONENTS)), -np.inf)
        ranks, sizes = np.empty((0, hypotheses), dtype=int), np.empty(0, dtype=int)
        return cls(share, period, restarting, nothing, ranks, sizes)

    def after(self, pvalues: Float[np.ndarray, " Q"], size: int) -> Self:
        """After one more test."""
        j = len(self.sizes) + 1
        weight = 1.0 if self.restarting else 1.0 / (j * (j + 1.0))
        sums = np.logaddexp(self.log_sums, np.log(weight / len(EXPONENTS))) + log_e_values(pvalues, size)
        ranks = np.vstack([self.ranks, np.rint(pvalues * size).astype(int)])
        return type(self)(self.share, self.period, self.restarting, sums, ranks, np.append(self.sizes, size))

    @property
    def pvalues(self) -> Float[np.ndarray, " t"]:
        """Those of hypothesis 0."""
        return self.ranks[:, 0] / self.sizes

    @property
    def log_evidence(self) -> Float[np.ndarray, " Q"]:
        """Of every hypothesis, in the share of this process.

        Beginnings that are still to come count with their weight, 1/(j + 1) in all. A test in `period`
        batches adds as much as so many batches.
        """
        sums = np.logaddexp.reduce(self.log_sums, axis=1)
        if self.restarting:
            return sums + np.log(self.share * self.period)
        return np.logaddexp(sums, -np.log(len(self.sizes) + 1.0)) + np.log(self.share)

    def beginning(self, hypothesis: int = 0) -> tuple[float, int]:
        """The evidence from its most likely beginning on, and the batch where that is, counted from 0."""
        sizes, which = np.unique(self.sizes, return_inverse=True)
        e_values = np.log(self.ranks[:, hypothesis] / self.sizes)[:, None] * (EXPONENTS - 1.0)
        e_values -= np.array([_log_means(int(size)) for size in sizes])[which.ravel()]
        products = np.cumsum(e_values[::-1], axis=0)[::-1]
        mixed = np.logaddexp.reduce(products, axis=1) - np.log(len(EXPONENTS))
        best = int(np.argmax(mixed))
        return float(mixed[best] + np.log(self.share)), self.period * best
