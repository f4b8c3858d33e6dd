"""What a conditional test returns."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from kembed.conditional.prewhitening import PrewhitenedColumn
from kembed.conditional.residuals import ColumnRegression
from kembed.testing.outcome import TestOutcome


@dataclass(frozen=True, eq=False, repr=False)
class ConditionalOutcome(TestOutcome):
    """The outcome of a conditional test: a `TestOutcome`, and what was regressed.

    `residuals` are those of x and of y, in the order of the rows given, in units of their spread; a side
    that is a function of what is given has none. `regressions` has the Gaussian processes of every column of
    either side. `prewhitened` says what pre-whitening did to every column.
    """

    given: tuple[str, ...] = ()
    residuals: tuple[Any, ...] = ()
    regressions: tuple[tuple[ColumnRegression, ...], ...] = ()
    prewhitened: tuple[PrewhitenedColumn, ...] = ()

    @classmethod
    def of(cls, outcome: TestOutcome, **more: Any) -> ConditionalOutcome:
        """An outcome with what a conditional test adds to it."""
        return cls(**{field.name: getattr(outcome, field.name) for field in fields(outcome)}, **more)

    def __repr__(self) -> str:
        lines = [super().__repr__()]
        for side, columns, residuals in zip("xy", self.regressions, self.residuals, strict=False):
            if columns:
                left = ", ".join(f"{column.unexplained:.0%}" for column in columns)
                what = "determined by what is given" if not residuals.shape[1] else f"unexplained: {left}"
                lines.append(f"{side} given {len(self.given)} columns: {what}")
        lines += [repr(one) for one in self.prewhitened]
        return "\n".join(lines)
