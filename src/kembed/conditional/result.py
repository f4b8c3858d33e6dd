"""The result of a conditional test."""

from dataclasses import dataclass
from typing import Any, Self

from kembed.conditional.linear import PartialCorrelation
from kembed.conditional.prewhitening import PrewhitenedColumn
from kembed.conditional.residuals import ColumnRegression
from kembed.core.writing import jsonable
from kembed.testing.outcome import TestOutcome

# A partial correlation with p up to the first contradicts a conditional test with p above the second.
CONTRADICTED, UNSURE = 0.001, 0.05


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
