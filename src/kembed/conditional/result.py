"""The result of a conditional test, and the partial correlation beside it."""

from dataclasses import dataclass
from math import erfc
from typing import Any, NamedTuple, Self

import numpy as np

from kembed.conditional.prewhitening import PrewhitenedColumn
from kembed.conditional.residuals import ColumnRegression
from kembed.core.backend import Float
from kembed.core.linalg import near_one
from kembed.core.writing import jsonable
from kembed.testing.outcome import TestOutcome

LEAST_FREEDOM = 3  # rows beyond the rank of `given` that Fisher's z needs
# A partial correlation with p up to the first contradicts a conditional test with p above the second.
CONTRADICTED, UNSURE = 0.001, 0.05


class PartialCorrelation(NamedTuple):
    """The correlation of the residuals of linear regressions, and its two-sided p-value by Fisher's z."""

    correlation: float
    pvalue: float


def partial_correlation(
    x: Float[np.ndarray, "n k"], y: Float[np.ndarray, "n l"], given: Float[np.ndarray, "n d"]
) -> PartialCorrelation | None:
    """The partial correlation of two single columns given others; None where there is none.

    r of the residuals of least squares; z = artanh(r) √(n - d - 3) is about standard normal.

    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(50, 1))
    >>> x = z + rng.normal(size=(50, 1))
    >>> result = partial_correlation(x, x + 0.5 * rng.normal(size=(50, 1)), z)
    >>> round(result.correlation, 2), result.pvalue < 1e-6
    (0.91, True)
    """
    n = len(given)
    if x.shape[1] != 1 or y.shape[1] != 1:
        return None
    design = np.column_stack([np.ones(n), near_one(given)])
    rank = int(np.linalg.matrix_rank(design))
    freedom = n - (rank - 1) - LEAST_FREEDOM
    both = near_one(np.column_stack([x, y]))
    left = both - design @ np.linalg.lstsq(design, both, rcond=None)[0]
    sizes = np.sqrt(np.square(left).sum(axis=0))
    if freedom < 1 or (sizes <= 1e-9 * np.sqrt(np.square(both).sum(axis=0))).any():
        return None
    r = float(np.clip(left[:, 0] @ left[:, 1] / sizes.prod(), -1.0 + 1e-12, 1.0 - 1e-12))
    return PartialCorrelation(r, erfc(abs(np.arctanh(r)) * (0.5 * freedom) ** 0.5))


@dataclass(frozen=True, eq=False, repr=False)
class ConditionalOutcome(TestOutcome):
    """The outcome of a conditional test: a `TestOutcome`, and its regressions.

    `residuals` are those of x and of y, in the order of the rows given, with unit variance; a function of
    `given` has none. `regressions` has the Gaussian processes of every column of x and of y.
    `prewhitened` reports what pre-whitening did to every column. `linear` is the partial correlation of two
    single columns and its p-value, as a second opinion: with few rows a flexible regression may absorb a
    dependence that a linear one leaves, and a linear one finds a dependence where both columns are curved.
    """

    given: tuple[str, ...] = ()
    residuals: tuple[Any, ...] = ()
    regressions: tuple[tuple[ColumnRegression, ...], ...] = ()
    prewhitened: tuple[PrewhitenedColumn, ...] = ()
    linear: PartialCorrelation | None = None

    @property
    def second_opinion(self) -> str:
        """The partial correlation, where it is significant and the test is not; else empty."""
        if self.linear is None or not (self.linear.pvalue <= CONTRADICTED < UNSURE < self.pvalue):
            return ""
        spent = " and ".join(f"{column.freedom:.1f}" for columns in self.regressions for column in columns)
        of = f"the regressions spent {spent} degrees of freedom of {self.sizes[0]} rows" if spent else ""
        r, p = self.linear
        text = f"partial correlation {r:.2f}, p = {p:.2g} (straight lines, Fisher's z)"
        return f"{text}; {of}" if of else text

    def to_dict(self) -> dict[str, Any]:
        """The result for JSON, as docs/json.md describes it."""
        left = [[column.unexplained for column in columns] for columns in self.regressions]
        linear = None if self.linear is None else self.linear._asdict()
        more = {"given": self.given, "unexplained": left, "linear": linear}
        return {**super().to_dict(), **jsonable(more)}

    @classmethod
    def of(cls, outcome: TestOutcome, **more: Any) -> Self:
        """An outcome with the fields of a conditional test."""
        return cls(**vars(outcome), **more)

    def __repr__(self) -> str:
        lines = [super().__repr__()]
        for side, columns, residuals in zip("xy", self.regressions, self.residuals, strict=False):
            if columns:
                # With few rows a regression may predict worse than the mean: then nothing is explained.
                left = ", ".join(f"{min(column.unexplained, 1.0):.0%}" for column in columns)
                what = "determined by what is given" if not residuals.shape[1] else f"unexplained: {left}"
                lines.append(f"{side} given {len(self.given)} columns: {what}")
        if self.second_opinion:
            lines.append(f"second opinion: {self.second_opinion}")
        return "\n".join([*lines, *map(repr, self.prewhitened)])
