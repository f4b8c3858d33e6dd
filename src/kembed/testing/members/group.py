"""What a group of members is: kernels, what to call each, and which of them speak with one voice."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kembed.core.backend import Int
from kembed.permutation.blocks import Blocks


@dataclass(frozen=True, eq=False)
class Group:
    """Kernels that look for one kind of difference.

    Kernels with the same voice are one member of the fused test, as those of all columns: the loudest of them
    speaks. `whole` says that the group looks at the whole distribution, so that it is added up with others.
    """

    name: str
    members: tuple[Any, ...]  # of a kind that `permutation` knows, or `Streamed`
    kernels: tuple[Any, ...]
    voices: Int[np.ndarray, " J"]
    whole: bool = False


def alone(name: str, members: tuple[Any, ...], kernels: tuple[Any, ...], *, whole: bool = False) -> Group:
    """A group in which every kernel has a voice of its own."""
    return Group(name, members, kernels, np.arange(len(kernels)), whole)


@dataclass(frozen=True, eq=False)
class Meeting:
    """A member of one side of an independence test with one of the other.

    `pairs` says which kernels of theirs meet; of `Blocks`, which cuts: all blocks of the one with all of the
    other, the pairs of cuts one after the other.
    """

    left: Any  # a `Member`, or `Streamed`
    right: Any
    pairs: tuple[tuple[int, int], ...] = ((0, 0),)

    @property
    def blocks(self) -> bool:
        """Whether both are features in blocks."""
        return isinstance(self.left, Blocks) and isinstance(self.right, Blocks)


@dataclass(frozen=True, eq=False)
class Relation:
    """Kernels that look for one kind of dependence, in pairs; otherwise as `Group`."""

    name: str
    meetings: tuple[Meeting, ...]
    kernels: tuple[Any, ...]
    voices: Int[np.ndarray, " J"]
    whole: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class Named:
    """What a member that is no kernel object is called: a title, what it looks at, the columns in that."""

    title: str
    parts: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()

    def turned(self) -> "Named":
        """The same, with the sides the other way round."""
        return Named(self.title, self.parts[::-1], self.columns[::-1])

    def __repr__(self) -> str:
        return f"{self.title} of {' and '.join(self.parts)}" if self.parts else self.title


def of_columns(title: str, *columns: str) -> Named:
    """What looks at single columns.

    >>> of_columns("correlation of ranks", "age", "income")
    correlation of ranks of age and income
    """
    return Named(title, columns, columns)
