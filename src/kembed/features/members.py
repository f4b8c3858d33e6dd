"""Members of a fused test: kernels given by features of a row or by a matrix, and groups of them.

A member answers one question: its statistics for a set of contrasts. A contrast w weighs the bins (single
rows, or sets of rows that are exchanged together), and the statistic of a kernel K is w'Kw: MMD² for
differences of means, and the same for signs of pairs or multipliers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kembed.core.backend import Float, Int
from kembed.features.rows import Rows, Sample

MEASURED = 64  # fitted rows that tell the size of a kernel's entry; only rounding is compared with it


@dataclass(frozen=True, eq=False)
class FeatureMember:
    """Kernels of features of a row, K = F L Lᵀ Fᵀ: one for every block of `width` columns and every cut.

    The kernel of a cut takes the first so many columns of its block. `features` is a picklable function of
    `Rows`; equal ones are computed once. Only sums of features over bins enter a statistic.
    """

    features: Callable[[Rows], Any]  # (b, p); may be sparse
    width: int
    cuts: tuple[int, ...]
    linear: Any = None  # L, (p, P); None: the features as they are

    @property
    def map(self) -> Any:
        """What must be summed over bins."""
        return self.features

    def turned(self, table: Any) -> Any:
        """F L of features F."""
        return table if self.linear is None else table @ self.linear

    def of(self, rows: Rows) -> Float[np.ndarray, "b P"]:
        """F L of these rows, written out."""
        return dense(self.turned(self.features(rows)))

    def matrix(self, rows: Rows) -> Float[np.ndarray, "N N"]:
        """The kernel matrix of these rows, of one kernel."""
        found = self.turned(self.features(rows))
        return dense(found @ found.T)

    def statistics(self, contrast: Any) -> Float[np.ndarray, "J C"]:
        """|Lᵀ Σ w_b S_b|² of every kernel, S_b the sums of features over bins."""
        single = self.linear is not None and self.cuts == (self.linear.shape[1],)
        bins, contrasts = contrast.weights.shape
        if single and bins < min(self.linear.shape[0], contrasts):  # fewer bins than features and contrasts
            return contrast.gram(self.features, self.linear)[None]
        difference = contrast.difference(self.features)
        found = difference if self.linear is None else self.linear.T @ difference
        return add_blocks(np.square(found), self.width, self.cuts)

    def entry(self, rows: Rows, known: dict[Any, Any]) -> Float[np.ndarray, " J"]:
        """The mean of K(x, x) over some rows, of every kernel; `known` keeps features between members."""
        if self.features not in known:
            known[self.features] = self.features(rows)
        found = self.turned(known[self.features])
        square = found.power(2) if hasattr(found, "power") else np.square(found)
        return add_blocks(np.asarray(square.mean(axis=0)).reshape(-1, 1), self.width, self.cuts)[:, 0]


@dataclass(frozen=True, eq=False)
class MatrixMember:
    """One kernel given by its matrix over all rows of the test, dense or sparse, up to a constant."""

    entries: Any  # (N, N), symmetric
    map: Any = None

    def matrix(self, rows: Rows) -> Float[np.ndarray, "N N"]:
        """The kernel matrix."""
        return dense(self.entries)

    def statistics(self, contrast: Any) -> Float[np.ndarray, "1 C"]:
        """Σ w_b K_bc w_c, K_bc the sum of the matrix over the rows of two bins."""
        return contrast.form(self.entries)[None]

    def entry(self, rows: Rows, known: dict[Any, Any]) -> Float[np.ndarray, " 1"]:
        """Root mean square of the entries of some rows."""
        found = self.entries[rows.index]
        square = found.power(2) if hasattr(found, "power") else np.square(found)
        return np.atleast_1d(np.sqrt(square.mean()))


@dataclass(frozen=True, eq=False)
class OfSample:
    """Features that only the rows of the sample have, where those are all rows of the test."""

    table: Any  # (N, p), which may be sparse

    def __call__(self, rows: Rows) -> Any:
        """Of these rows."""
        return self.table[rows.index]


def entries(members: tuple[Any, ...], sample: Sample) -> Float[np.ndarray, " J"]:
    """The size of an entry of every kernel, which rounding is measured by.

    Few rows are enough for that, unless they have nothing but zeros.
    """
    few = np.linspace(0, sample.size - 1, min(sample.size, MEASURED)).round().astype(int)
    known: dict[Any, Any] = {}
    rows = Rows(sample, sample.values[few], few)
    found = np.concatenate([member.entry(rows, known) for member in members])
    if len(few) < sample.size and not found.all():
        known = {}
        found = np.concatenate([member.entry(sample, known) for member in members])
    return found


def add_blocks(
    values: Float[np.ndarray, "P C"], width: int, cuts: tuple[int, ...]
) -> Float[np.ndarray, "J C"]:
    """Of every block of `width` rows the sums of the first so many, for every cut.

    >>> add_blocks(np.arange(4.0)[:, None], 2, (1, 2))[:, 0].tolist()
    [0.0, 1.0, 2.0, 5.0]
    """
    blocks = values.reshape(-1, width, *values.shape[1:])
    found = up_to_cuts(blocks, cuts, axis=1)
    return found[0] if len(cuts) == 1 else np.stack(found, axis=1).reshape(-1, *values.shape[1:])


def up_to_cuts(values: Any, cuts: tuple[int, ...], axis: int) -> list[Any]:
    """Sums of the first so many along an axis, which it loses, for every cut."""
    if cuts == (values.shape[axis],) != (1,):
        return [values.sum(axis=axis)]
    whole, found = (slice(None),) * axis, []
    total = values[(*whole, 0)]
    for k in range(cuts[-1]):
        total = total + values[(*whole, k)] if k else total
        if k + 1 in cuts:
            found.append(total)
    return found


def dense(table: Any) -> Float[np.ndarray, "a b"]:
    """A table that may be sparse, written out."""
    return table.toarray() if hasattr(table, "toarray") else table


@dataclass(frozen=True, eq=False, repr=False)
class Named:
    """What a kernel that is no kernel object is called: a title, what it looks at, the columns in that."""

    title: str
    parts: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()

    def swapped(self) -> "Named":
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


class Group(NamedTuple):
    """Kernels that look for one kind of difference.

    Kernels of the same family are one member of the fused test, as those of all columns. `whole` says that
    the group looks at the whole distribution, so that it also enters the sum of groups.
    """

    name: str
    members: tuple[Any, ...]
    kernels: tuple[Any, ...]  # what to call every kernel: a kernel object, or `Named`
    families: Int[np.ndarray, " J"]
    whole: bool = False


def separate(name: str, members: tuple[Any, ...], kernels: tuple[Any, ...], *, whole: bool = False) -> Group:
    """A group in which every kernel is a family of its own."""
    return Group(name, members, kernels, np.arange(len(kernels)), whole)


class KernelPair(NamedTuple):
    """A member of one side of an independence test with one of the other.

    `cuts` says which cuts are paired: all blocks of the one with all of the other, and of each the pairs of
    cuts one after the other.
    """

    left: Any
    right: Any
    cuts: tuple[tuple[int, int], ...] = ((0, 0),)


class PairGroup(NamedTuple):
    """Kernels that look for one kind of dependence, in pairs; otherwise as `Group`."""

    name: str
    pairs: tuple[KernelPair, ...]
    kernels: tuple[Any, ...]
    families: Int[np.ndarray, " J"]
    whole: bool = False
