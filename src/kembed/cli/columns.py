"""Which columns can be compared, and telling what is left out and what looks wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kembed.cli.options import Reading
from kembed.cli.screen import Screen
from kembed.core.text import listing
from kembed.data.files import InputError, doubts

if TYPE_CHECKING:
    import polars as pl

# Fewer values than these may all differ by chance, or count up by chance.
MANY_LABELS, MANY_NUMBERS = 10, 5
# Why a column is left out, said of several.
PLURALS = {
    "it numbers": "they number",
    "it holds": "they hold",
    "it is": "they are",
    "has it": "has them",
    "it does": "they do",
}


def _kind(series: pl.Series) -> str:
    import polars as pl

    if not _present(series):
        return "nothing"
    if series.dtype.is_numeric() or series.dtype == pl.Boolean:
        return "numbers"
    if series.dtype in (pl.String, pl.Categorical, pl.Enum):
        return "text"
    return "dates or times" if series.dtype.is_temporal() else "nested or binary values"


def _present(series: pl.Series) -> int:
    """How many entries are there: neither null nor NaN."""
    return int(series.count()) - (int(series.is_nan().sum()) if series.dtype.is_float() else 0)


def why_unfit(parts: list[pl.Series], named: bool) -> str:
    """Why a column is not compared; empty if it is. What was asked for by name is, if it can be."""
    kinds = [_kind(part) for part in parts]
    if "nothing" in kinds:
        return "it is empty" if set(kinds) == {"nothing"} else "it is empty in one of them"
    for kind in kinds:
        if kind not in ("numbers", "text"):
            return f"it holds {kind}, which kembed does not compare"
    if named:
        return ""
    if set(kinds) == {"text"}:
        every = sum(map(len, parts)) >= MANY_LABELS and all(part.is_unique().all() for part in parts)
        return "every value is different, as in an identifier" if every else ""
    return "it numbers the rows" if set(kinds) == {"numbers"} and all(map(_counts_up, parts)) else ""


def why_unvaried(frame: pl.DataFrame, named: bool, kind: str = "") -> dict[str, str]:
    """The columns that tell nothing by themselves, and why."""
    left_out = {}
    for series in frame:
        why = why_unfit([series], named)
        if not why and kind and _kind(series) != kind:
            why = "it holds text"
        if why or series.drop_nulls().n_unique() == 1:
            left_out[series.name] = why or "it does not vary"
    return left_out


def _counts_up(series: pl.Series) -> bool:
    whole = series.dtype.is_integer() and not series.null_count()
    return whole and len(series) >= MANY_NUMBERS and bool((series.diff().drop_nulls() == 1).all())


def refuse_mixed(column: str, x: pl.DataFrame, y: pl.DataFrame, labels: tuple[str, ...]) -> None:
    """Refuse a column that is text in one and numbers in the other."""
    kinds = _kind(x[column]), _kind(y[column])
    if len(set(kinds)) == 1:
        return
    texts = kinds.index("text")
    why = doubts((x, y)[texts].select(column)).get(column)
    remedy = f"in {labels[texts]} it {why}" if why else "write it alike in both, or leave it out by --columns"
    where = f"numbers in {labels[1 - texts]} but text in {labels[texts]}"
    raise InputError(f"column {column!r} holds {where}; {remedy}")


def check_complete(frame: pl.DataFrame, name: str, reading: Reading, screen: Screen) -> pl.DataFrame:
    """Refuse missing values and name the columns they are in, or tell how many rows are left out."""
    gaps = {series.name: missing for series in frame if (missing := len(series) - _present(series))}
    if not gaps:
        return frame
    of = f"{frame.height - without_gaps(frame).height:,} of {frame.height:,} rows"
    if reading.missing == "omit":
        screen.note(f"{of} of {name} have missing values and are left out")
        return frame
    worst = sorted(gaps, key=lambda column: -gaps[column])
    seen = ", ".join(f"{column!r}: {gaps[column]:,}" for column in worst[:3])
    more = f" and {len(worst) - 3} more columns" if len(worst) > 3 else ""
    remedy = "leave those rows out with --missing omit, or choose columns with --columns"
    raise InputError(f"{name} has missing values in {of} ({seen}{more}); {remedy}")


def without_gaps(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows without missing values."""
    import polars as pl

    floats = [series.name for series in frame if series.dtype.is_float()]
    return frame.with_columns(pl.col(floats).fill_nan(None)).drop_nulls()


def tell_left_out(left_out: dict[str, str], screen: Screen) -> None:
    """Say which columns were left out, those with the same reason together."""
    reasons: dict[str, list[str]] = {}
    for column, why in left_out.items():
        reasons.setdefault(why, []).append(column)
    for why, columns in reasons.items():
        for one, several in PLURALS.items() if len(columns) > 1 else ():
            why = why.replace(one, several)
        screen.note(f"column{'s' if len(columns) > 1 else ''} {listing(columns)} left out: {why}")


def tell_text(frames: dict[str, pl.DataFrame], screen: Screen, rare: bool = True) -> None:
    """Text that looks like numbers, and text with nearly as many values as rows."""
    for name, frame in frames.items():
        for column, why in doubts(frame).items():
            screen.note(f"column {column!r} of {name} {why}")
    parts: list[Any] = list(frames.values())
    for column in parts[0].columns if rare else ():
        series = [part[column] for part in parts]
        if {_kind(each) for each in series} != {"text"}:
            continue
        entries = [value for each in series for value in each.drop_nulls().to_list()]
        if len(entries) >= 2 * MANY_LABELS and 2 * len(set(entries)) > len(entries):
            screen.note(
                f"column {column!r} is text with {len(set(entries)):,} different values in {len(entries):,} "
                "rows, compared as equal or not; consider leaving it out by --columns"
            )
