"""What was read from the files on the command line: one sample or several, and what they are called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kembed.cli import words

if TYPE_CHECKING:
    import polars as pl

    from kembed.cli.options import Grouping

# Options of reading that code for Python would have to repeat: where one is given, the command has to do.
UNUSUAL = ("delimiter", "na", "decimal_comma", "as_text", "no_header", "max_rows")


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
        return words.beside(sentence, self.left_out)

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


def in_python(a: str, b: str | None, reading: Grouping, pair: Loaded) -> str | None:
    """Code that reads the two samples again; None where the files were not read in the usual way."""
    if "-" in (a, b) or any(getattr(reading, name) for name in UNUSUAL):
        return None
    if pair.sources:
        return None if reading.columns or reading.exclude else f"\nx, y = {a!r}, {b!r}  # read block by block"
    lines = ["from kembed.data.files import read_table", ""]
    if b is not None:
        lines += [f"x, y = read_table({a!r}), read_table({b!r})"]
    else:
        column = str(reading.group)
        values = [label.removeprefix(f"{column}=") for label in pair.labels]
        kept = f"table[{column!r}].cast(str)"
        if all(value.lstrip("-").isdigit() for value in values):  # 3.0 is called 3
            kept += ".str.replace(r'\\.0$', '')"
        lines += [f"table = read_table({a!r})", f"group, table = {kept}, table.drop({column!r})"]
        lines += [f"x, y = table.filter(group == {values[0]!r}), table.filter(group == {values[1]!r})"]
    if pair.left_out or reading.columns or reading.exclude:
        lines += [f"columns = {pair.columns!r}", "x, y = x.select(columns), y.select(columns)"]
    return "\n".join(lines)
