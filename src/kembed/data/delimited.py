"""Text tables: names from the first line, then every column as a whole.

A column is numbers if all of it is numbers, whatever stands in the first hundred rows. Polars reads the
lines; where quotes stand inside fields, which it takes for the beginning of something, Python's csv does.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kembed.core.text import listing
from kembed.data.sources import InputError

if TYPE_CHECKING:
    import polars as pl

UNNAMED = "unnamed"  # and its place: a column without a name
_MAGIC = {b"PAR1": "a Parquet file", b"ARROW1": "an Arrow file", b"PK\x03\x04": "a spreadsheet or archive"}
_COMMA = r"^([-+]?\d*),(\d+(?:[eE][-+]?\d+)?)$"  # a number with a decimal comma


def read_delimited(
    data: bytes,
    name: str,
    separator: str,
    header: bool,
    missing: tuple[str, ...],
    decimal_comma: bool,
    words: frozenset[str] = frozenset(),
) -> pl.DataFrame:
    """The table in a text; columns named in `words` stay as they are written."""
    import polars as pl

    text = decoded(data, name)
    names, body = column_names(text, separator, header, name)
    frame = _lines(body, separator, names, (text, name))
    if frame.height and nameless(frame[:, -1]).null_count():
        _refuse_ragged(text, separator, len(names), name)  # short lines are filled with nulls
    # A comma at the end of every line makes a column of nothing, and an empty line a row of nothing.
    nothing = {one.name for one in frame if one.name.startswith(UNNAMED) and not one.count()}
    frame = picked(frame, [column for column in frame.columns if column not in nothing])
    if frame.width > 1:
        frame = frame.filter(~pl.all_horizontal(pl.all().is_null()))
    return pl.DataFrame(
        [
            _present_text(nameless(series), missing).alias(series.name)
            if series.name in words
            else typed(series, missing, decimal_comma)
            for series in frame.iter_columns()
        ]
    )


def picked(frame: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    """These columns; a name is a name, where `select` reads some as patterns.

    >>> import polars as pl
    >>> picked(pl.DataFrame({"^b.*$": [1], "b": [2]}), ["^b.*$"]).columns
    ['^b.*$']
    """
    import polars as pl

    return pl.DataFrame({name: frame.get_column(name) for name in names})


def nameless(series: pl.Series) -> pl.Series:
    """A column under a name that is no pattern: Polars' own methods read the names of columns as such.

    >>> import polars as pl
    >>> nameless(pl.Series("^b.*$", [2, 1])).sort().to_list()
    [1, 2]
    """
    return series.alias("column")


def decoded(data: bytes, name: str) -> str:
    """Bytes as text, if they are text."""
    for start, kind in _MAGIC.items():
        if data.startswith(start):
            raise InputError(f"{name} is {kind}, not a text table; save it as CSV, or give it its own suffix")
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError(f"{name} is UTF-16, not UTF-8; save it as UTF-8 (iconv -f UTF-16 -t UTF-8)")
    if b"\0" in data[:4096]:
        raise InputError(f"{name} is not a text table; give CSV, TSV, Parquet or Feather")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        remedy = "save it as UTF-8, for instance iconv -f LATIN1 -t UTF-8"
        raise InputError(f"{name} is not UTF-8 (line {line}); {remedy}") from None
    return text.replace("\r", "\n") if "\r" in text and "\n" not in text else text


def _lines(body: str, separator: str, names: list[str], whole: tuple[str, str]) -> pl.DataFrame:
    """The lines below the names, as columns of text."""
    import polars as pl

    text, name = whole
    schema = {f"{place}": pl.String for place in range(len(names))}
    edge = re.escape(separator)
    stray = re.search(rf'[^"\r\n{edge}]"[^"\r\n{edge}]', body) if '"' in body else None
    try:
        if stray is None:
            source = io.BytesIO(body.encode())
            frame = pl.read_csv(source, separator=separator, has_header=False, schema=schema)
            frame.columns = names
            return frame
    except pl.exceptions.NoDataError:
        return pl.DataFrame({column: [] for column in names}, schema=dict.fromkeys(names, pl.String))
    except pl.exceptions.PolarsError:
        pass
    _refuse_ragged(text, separator, len(names), name)
    records = [fields for _, fields in _records(body, separator, name)]
    columns = list(zip(*records, strict=True)) or [()] * len(names)
    filled = [[field or None for field in column] for column in columns]
    return pl.DataFrame([pl.Series(name, own, pl.String) for name, own in zip(names, filled, strict=True)])


def column_names(text: str, separator: str, header: bool, name: str) -> tuple[list[str], str]:
    """The names of the columns, from the first line or made up, and the lines of data."""
    text = text.strip("\r\n")
    records = _records(text, separator, name)
    (lines, first), (_, second) = (next(records, (0, [])) for _ in range(2))
    for other, word in ((";", "';'"), ("\t", "tab"), ("|", "'|'"), (",", "','")) if len(first) == 1 else ():
        # A single column that another delimiter cuts, in its name and in its first value.
        if other != separator and other in first[0] and other in separator.join(second or first):
            seen = f"{name} has a single column, {first[0]!r}: its delimiter is another"
            raise InputError(f"{seen}; use --delimiter {word}")
    if not header:
        return [f"column {place}" for place in range(1, len(first) + 1)], text
    names = [field.strip() for field in first]
    if not any(names):
        raise InputError(f"the first line of {name} has no column names; put them there, or use --no-header")
    numbers = all(map(_is_number, names)) and any(any(map(str.isdigit, column)) for column in names)
    if numbers and not all(column.isdigit() for column in names):  # 2019, 2020 are names of columns too
        seen = f"the first line of {name} holds numbers ({', '.join(names[:3])}) where names should be"
        raise InputError(f"{seen}; use --no-header")
    names = named(names, name)
    below = io.StringIO(text, newline="")
    for _ in range(lines):  # as the reader counted them
        below.readline()
    return names, below.read()


def named(columns: list[str], name: str) -> list[str]:
    """The names of columns, without spaces around them; those without one are called by their places.

    >>> named([" a", ""], "t.csv")
    ['a', 'unnamed 2']
    """
    names = [column.strip() or f"{UNNAMED} {place}" for place, column in enumerate(columns, start=1)]
    refuse_duplicates(names, name)
    return names


def _records(text: str, separator: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """The lines with something in them, with their numbers."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    while True:
        usual = csv.field_size_limit(max(len(text), 1))  # a field may be as long as the file
        try:
            fields = next(reader, None)
        except csv.Error:
            seen = f"a quote in {name} is not closed, or stands inside a field"
            raise InputError(f"{seen} (line {reader.line_num} or before); correct it") from None
        finally:
            csv.field_size_limit(usual)
        if fields is None:
            return
        if len(fields) > 1 or any(field.strip() for field in fields):
            yield reader.line_num, fields


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def refuse_duplicates(names: list[str], name: str) -> None:
    """Refuse two columns of one name."""
    twice = [column for column, times in Counter(names).items() if times > 1]
    if twice:
        numbers = all(_is_number(column) for column in names)
        remedy = "if that is data and not names, use --no-header" if numbers else "rename one of them"
        raise InputError(f"{name} has more than one column named {listing(twice)}; {remedy}")


def refuse_lines(data: bytes, separator: str, width: int, name: str) -> None:
    """Refuse lines that are no UTF-8, or with more or fewer fields than the first line has."""
    _refuse_ragged(decoded(data, name), separator, width, name)


def _refuse_ragged(text: str, separator: str, width: int, name: str) -> None:
    for line, fields in _records(text, separator, name):
        if len(fields) != width:
            raise InputError(
                f"line {line} of {name} has {len(fields)} field{'s' if len(fields) != 1 else ''} where the "
                f"first line has {width}; correct it, or put quotes around fields that hold {separator!r}"
            )


def without_missing(frame: pl.DataFrame, missing: tuple[str, ...]) -> pl.DataFrame:
    """A table whose text is as in a text table: no spaces around it, and null where it says so.

    >>> import polars as pl
    >>> without_missing(pl.DataFrame({"v": [" a", "NA", None]}), ("NA",))["v"].to_list()
    ['a', None, None]
    """
    import polars as pl

    texts = [one for one in frame if one.dtype == pl.String]
    return frame.with_columns([_present_text(nameless(one), missing).alias(one.name) for one in texts])


def _present_text(series: pl.Series, missing: tuple[str, ...]) -> pl.Series:
    text = series.str.strip_chars()
    return text.set(text.is_in(list(missing)), None)


def typed(series: pl.Series, missing: tuple[str, ...], decimal_comma: bool) -> pl.Series:
    """A column of text as whole numbers, numbers, true and false, or text: what fits all of it."""
    return _typed_entries(nameless(series), missing, decimal_comma).alias(series.name)


def _typed_entries(series: pl.Series, missing: tuple[str, ...], decimal_comma: bool) -> pl.Series:
    import polars as pl

    text = _present_text(series, missing)
    plain = text.str.replace(_COMMA, "${1}.${2}") if decimal_comma else text
    for kind in (pl.Int64, pl.Float64):
        numbers = plain.cast(kind, strict=False)
        if numbers.null_count() == text.null_count():
            # Numbers that begin with 0 may be codes: they stay text until it is said how they are read.
            return text if kind == pl.Int64 and text.str.contains(r"^[-+]?0\d").any() else numbers
    lower = text.str.to_lowercase()
    if lower.drop_nulls().is_in(["true", "false"]).all():
        return lower == "true"
    return text
