"""Rows, wherever they are: one protocol, a sum over blocks of a function of a block.

Everything large in this library is a sum over rows of a function of a row and a few parameters: mean
features, their second moments, sums by bin, counts. So a source of rows answers one question, `map_sum`.
Data stay where they are; parameters travel.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from kembed.core.backend import Bool, Float


class Block(NamedTuple):
    """Some consecutive rows of a source.

    Numbers are numbers, categories the places of their levels in `Schema.levels`; a row with a missing value
    has nan there, and whoever sums leaves such rows out.
    """

    values: Float[np.ndarray, "b D"]
    first: int  # the number of its first row in the source, from 0

    @property
    def whole(self) -> Bool[np.ndarray, " b"]:
        """The rows without a missing value."""
        return ~np.isnan(self.values).any(axis=1)


@dataclass(frozen=True)
class Schema:
    """What the columns are: names, which hold categories, the sorted levels of those, units of numbers."""

    names: tuple[str, ...]
    categorical: tuple[bool, ...]
    levels: tuple[tuple[Any, ...], ...]  # of every column, in the order of its codes; () for numbers
    units: tuple[str, ...] = ()  # what numbers of every column count, where that is known; as of `Table`

    @property
    def discrete(self) -> Bool[np.ndarray, " D"]:
        """Which columns hold codes, as an array."""
        return np.array(self.categorical, dtype=bool)


class Source(ABC):
    """Rows in blocks: in memory, in files, or on other machines.

    `size` counts all rows, those with missing values too: bins go by the number of a row.
    """

    label: str  # what errors call it
    schema: Schema
    size: int

    @abstractmethod
    def map_sum(self, function: Callable[..., Any], *params: Any) -> Any:
        """Σ over blocks of `function(block, *params)`, added in a tree that the blocks alone decide.

        `function` is a picklable function of a `Block`; what it returns is added by `added`. The number of
        workers, their order and their deaths change no bit.
        """


Kind = TypeVar("Kind")
RESULTS: dict[str, Any] = {}  # classes that passes bring back, by name: what a file of a pass may hold


def brought_back(kind: Kind) -> Kind:
    """A class that a pass may bring back and a file may hold: its fields are arrays and numbers."""
    RESULTS[kind.__name__] = kind  # type: ignore[attr-defined]
    return kind


@brought_back
class Stacked(NamedTuple):
    """Tables that are added by putting one below the other: how rows come back from a sum."""

    parts: tuple[np.ndarray, ...]

    def plus(self, other: "Stacked") -> "Stacked":
        """Both, one after the other."""
        return Stacked(self.parts + other.parts)

    @property
    def table(self) -> np.ndarray:
        """As one table."""
        return np.concatenate(self.parts)


def added(one: Any, other: Any) -> Any:
    """The sum of two results of a block: arrays and numbers by +, lists and dicts entry by entry.

    >>> added({"n": 2, "sums": [np.ones(2)]}, {"n": 3, "sums": [np.ones(2)]})
    {'n': 5, 'sums': [array([2., 2.])]}
    """
    if hasattr(one, "plus"):
        return one.plus(other)
    if isinstance(one, dict):
        return {key: added(value, other[key]) for key, value in one.items()}
    if isinstance(one, list):
        return [added(a, b) for a, b in zip(one, other, strict=True)]
    return one + other


def tree_sum(results: Iterable[Any], add: Callable[[Any, Any], Any] = added) -> Any:
    """The sum in a tree fixed by the order of the results: neighbours first, as in pairwise summation.

    No more than log₂ of them are held at a time. `add` may be lazy: the tree is the same.

    >>> tree_sum("abcde", lambda a, b: f"({a}{b})")
    '(((ab)(cd))e)'
    """
    open_: list[tuple[int, Any]] = []  # sums of 2^level results that wait for their neighbour
    for result in results:
        level, value = 0, result
        while open_ and open_[-1][0] == level:
            level, value = level + 1, add(open_.pop()[1], value)
        open_.append((level, value))
    if not open_:
        raise ValueError("there is nothing to add: the source has no blocks")
    value = open_.pop()[1]
    while open_:
        value = add(open_.pop()[1], value)
    return value
