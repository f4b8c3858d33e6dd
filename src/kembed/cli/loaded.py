"""What was read from the files on the command line: one sample or several, and what they are called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kembed.cli import words
from kembed.core.text import listing

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Loaded:
    """One sample, or several with the same columns, and what they are called."""

    frames: tuple[pl.DataFrame, ...]
    labels: tuple[str, ...]
    left_out: dict[str, str]  # columns, and why
    given: tuple[int, ...]  # rows before any were left out
    sources: tuple[Any, ...] = ()  # in place of frames: files that are read block by block

    @property
    def frame(self) -> pl.DataFrame:
        """The first sample."""
        return self.frames[0]

    @property
    def names(self) -> tuple[str, ...]:
        """The labels without folders, where that tells them apart."""
        return tuple(words.short(label, self.labels) for label in self.labels)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.sources[0].schema.names) if self.sources else self.frame.columns

    @property
    def labelled(self) -> tuple[Any, ...]:
        """The samples as the library reads them: its errors name the files."""
        from kembed.data.columns import Labelled

        if self.sources:
            return self.sources
        return tuple(Labelled(frame, name) for frame, name in zip(self.frames, self.labels, strict=True))

    def told(self, sentence: str) -> str:
        """The verdict, with the columns it does not speak of."""
        if not self.left_out:
            return sentence
        start, end = sentence.rstrip(".:"), sentence[-1]  # a colon, where regions follow
        return f"{start}. Left out: {listing(self.left_out)}{end}"

    def facts(self, sizes: tuple[int, ...]) -> list[tuple[str, str]]:
        """The samples with the rows that were used, and the columns."""
        each = zip(self.names, sizes, self.given, strict=True)
        rows = [(name, f"{'' if n == all_ else f'{n:,} of '}{all_:,} rows") for name, n, all_ in each]
        return [*rows, ("columns", words.of_columns(self.columns))]

    def described(self, sizes: tuple[int, ...]) -> dict[str, Any]:
        """The same for machines."""
        each = zip(self.labels, sizes, self.given, strict=True)
        return {
            "samples": [{"name": name, "rows": given, "used": used} for name, used, given in each],
            "columns": self.columns,
            "left_out": self.left_out,
        }
