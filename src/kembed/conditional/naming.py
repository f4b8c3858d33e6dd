"""Columns by name or number."""

from collections.abc import Iterable
from typing import Any

from kembed.core import checks


def find_columns(
    names: tuple[str, ...], x: Any, y: Any, given: Any, arguments: tuple[str, str, str]
) -> tuple[int, int, tuple[int, ...]]:
    """The numbers of columns that go by name or number, none of them twice; `arguments` is for errors.

    >>> find_columns(("a", "b", "c"), "c", 0, "b", ("x", "y", "given"))
    (2, 0, (1,))
    """
    one, other, inner = arguments
    i, j = _find(names, x, one), _find(names, y, other)
    given = (given,) if isinstance(given, str) or not isinstance(given, Iterable) else given
    places = tuple(sorted({_find(names, column, inner) for column in given}))
    if i == j:
        raise ValueError(f"{one} and {other} are the same column, {names[i]!r}; give two")
    if i in places or j in places:
        both = names[i if i in places else j]
        raise ValueError(f"column {both!r} is tested and given at once; leave it out of {inner}")
    return i, j, places


def _find(names: tuple[str, ...], column: int | str, argument: str) -> int:
    if isinstance(column, str):
        if column not in names:
            known = ", ".join(repr(name) for name in names[:12])
            raise ValueError(f"{argument} names {column!r}, but the columns are {known}")
        return names.index(column)
    place = checks.count(column, argument, 0)
    if place >= len(names):
        raise ValueError(f"{argument} is column {place}, but there are only {len(names)}, from 0 on")
    return place
