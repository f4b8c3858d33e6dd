"""What a conditional test returns: the outcome of a test, and what was regressed for it."""

from dataclasses import dataclass
from typing import Any, Self

from kembed.conditional.conditioning import ColumnRegression
from kembed.conditional.linear import PartialCorrelation
from kembed.conditional.prewhitening import PrewhitenedColumn
from kembed.core.writing import jsonable
from kembed.testing.outcome import TestOutcome

# A partial correlation this sure speaks against a conditional test with a p-value above this.
CONTRADICTED, UNSURE = 0.001, 0.05


@dataclass(frozen=True, eq=False, repr=False)
class ConditionalOutcome(TestOutcome):
    """The outcome of a conditional test: a `TestOutcome`, and what was regressed.

    `residuals` are those of x and of y, in the order of the rows given, in units of their spread; a side
    that is a function of what is given has none. `regressions` has the Gaussian processes of every column of
    either side. `prewhitened` says what pre-whitening did to every column. `linear` is the partial
    correlation of two single columns and its p-value, as a second opinion: of few rows regressions that bend
    may spend themselves on a dependence that straight lines show, and straight lines see one where both
    columns bend.
    """

    given: tuple[str, ...] = ()
    residuals: tuple[Any, ...] = ()
    regressions: tuple[tuple[ColumnRegression, ...], ...] = ()
    prewhitened: tuple[PrewhitenedColumn, ...] = ()
    linear: PartialCorrelation | None = None

    @property
    def second_opinion(self) -> str:
        """What a partial correlation says, where it is sure of a dependence that the test did not find."""
        if self.linear is None or not (self.linear.pvalue <= CONTRADICTED < UNSURE < self.pvalue):
            return ""
        spent = " and ".join(f"{column.freedom:.1f}" for columns in self.regressions for column in columns)
        of = f"the regressions spent {spent} degrees of freedom of {self.sizes[0]} rows" if spent else ""
        r, p = self.linear
        said = f"partial correlation {r:.2f}, p = {p:.2g} (straight lines, Fisher's z)"
        return f"{said}; {of}" if of else said

    def to_dict(self) -> dict[str, Any]:
        """Everything that can be said in JSON, in the words of docs/json.md."""
        left = [[column.unexplained for column in columns] for columns in self.regressions]
        linear = None if self.linear is None else self.linear._asdict()
        more = {"given": self.given, "unexplained": left, "linear": linear}
        return {**super().to_dict(), **jsonable(more)}

    @classmethod
    def of(cls, outcome: TestOutcome, **more: Any) -> Self:
        """An outcome with what a conditional test adds to it."""
        return cls(**vars(outcome), **more)

    def __repr__(self) -> str:
        lines = [super().__repr__()]
        for side, columns, residuals in zip("xy", self.regressions, self.residuals, strict=False):
            if columns:
                # Of few rows a regression may foretell worse than the mean: then nothing is explained.
                left = ", ".join(f"{min(column.unexplained, 1.0):.0%}" for column in columns)
                what = "determined by what is given" if not residuals.shape[1] else f"unexplained: {left}"
                lines.append(f"{side} given {len(self.given)} columns: {what}")
        if self.second_opinion:
            lines.append(f"second opinion: {self.second_opinion}")
        return "\n".join([*lines, *map(repr, self.prewhitened)])
