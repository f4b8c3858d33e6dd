"""Whole bins of y change places against x: permutation tests of independence for many rows.

Rows are put into S bins of equal size by their numbers alone, and every row has a place in its bin. Bins of y
are moved: x of bin b then meets y of bin π(b) at the same place. These pairings are a group, so the test is
exact (Domingo-Enrich, Dwivedi & Mackey 2025), and cross-products of features need be summed for pairs of bins
only, once for all permutations: S n p q operations and not B n p q.

Beyond what that allows, the limit: Σ_i (a_i - ā) ⊗ (b_i - b̄)/√n is normal with covariance Σ_a ⊗ Σ_b, whatever
features meet, so that two tables of moments are enough.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations, product
from math import factorial, prod

import numpy as np

from kembed.core.backend import Float, Int
from kembed.permutation.bins import Bins

BINS = 32  # a permutation leaves one bin in its place on average: the fewer, the more of the data is in it
LEAST = 8  # bins of units of one size, where there are so many: of two every other exchange is none
MOST_LISTED = 12  # bins: more have more orders than anybody waits for; their number is not even computed
AT_ONCE = 2**26  # bytes of cross-products of all pairs of bins, held at a time
NEGLIGIBLE = 1e-7  # the share of the variance of a side's features that is left out of the limit


Places = tuple[Int[np.ndarray, "r S"], Int[np.ndarray, " l"]]  # rows by place and bin, and those left over


def bin_rows(size: int, key: int, *, unit: int = 1, bins: int = BINS) -> Places:
    """The number of the row at every place of every bin, and of those left over, which stay where they are.

    `unit` consecutive rows stay together.

    >>> places, left = bin_rows(10, key=1, bins=3)
    >>> places.shape, len(left)
    ((3, 3), 1)
    """
    units = size // unit
    count = min(bins, units)
    layout = Bins(size, units // count if count else 1, count, key, unit)
    own, place = layout.of(0, size)
    row = place * unit + np.arange(size) % unit
    order = np.lexsort((own, row))
    moved = order[own[order] < count]
    return moved.reshape(-1, max(count, 1)), np.flatnonzero(own == count)


def unit_rows(
    units: Int[np.ndarray, " n"],
    key: int,
    *,
    bins: int = BINS,
    strata: Int[np.ndarray, " n"] | None = None,
) -> list[Places]:
    """The same for units that have names, the number of which every row has: one for each size of a unit.

    Bins hold as many units of one size (and stratum) each, and change places among themselves; rows keep
    their order in a unit. Units of a size (and stratum) that no other has stay where they are.

    >>> [places.shape for places, _ in unit_rows(np.array([0, 1, 1, 2, 3, 3, 4]), key=1)]
    [(1, 3), (2, 2)]
    """
    rng = np.random.default_rng(key)
    order = np.argsort(units, kind="stable")
    starts = np.flatnonzero(np.diff(units[order], prepend=np.nan))
    sizes = np.diff(np.append(starts, len(units)))
    inside = np.zeros(len(starts), dtype=int) if strata is None else strata[order[starts]]
    found, stays = [], np.ones(len(units), dtype=bool)
    for size, stratum in np.unique(np.column_stack([sizes, inside]), axis=0).tolist():
        alike = rng.permutation(starts[(sizes == size) & (inside == stratum)])
        wanted = max(LEAST, bins * size * len(alike) // len(units))
        each = max(1, len(alike) // wanted)
        count = len(alike) // each
        if count < 2:
            continue
        rows = order[alike[: each * count, None] + np.arange(size)]  # unit after unit
        places = rows.reshape(count, each * size).T
        stays[places] = False
        found.append(places)
    left = np.flatnonzero(stays)
    return [(places, left if not k else left[:0]) for k, places in enumerate(found)]


@dataclass(frozen=True, eq=False)
class BinOrders:
    """Bins of the second side in every order, those of every size among themselves."""

    places: tuple[Places, ...]
    orders: tuple[Int[np.ndarray, "C S"], ...]
    enumerated: bool = False

    @property
    def bins(self) -> int:
        """How many bins change places."""
        return sum(rows.shape[1] for rows, _ in self.places)

    def products(
        self, first: Float[np.ndarray, "n p"], second: Float[np.ndarray, "n q"], width: int = 1
    ) -> Iterator[tuple[slice, Float[np.ndarray, "w q C"]]]:
        """Σ_i a_i b_π(i) for some features a at a time, all features b of the second side, and every π."""
        most = max(rows.shape[1] for rows, _ in self.places)
        every = [
            crossings(first, second, own, under, width, most)
            for own, under in zip(self.places, self.orders, strict=True)
        ]
        for parts in zip(*every, strict=True):
            yield parts[0][0], np.moveaxis(sum(sums for _, sums in parts), 0, -1)

    def forms(self, K: Float[np.ndarray, "n n"], L: Float[np.ndarray, "n n"]) -> Float[np.ndarray, " C"]:
        """Σ_ij K_ij L_π(i)π(j) of two matrices of few rows for every π."""
        found = []
        for under in zip(*self.orders, strict=True):
            moved = np.arange(len(K))
            for (rows, _), order in zip(self.places, under, strict=True):
                moved[rows] = rows[:, order]
            found.append(np.vdot(K, L[np.ix_(moved, moved)]))
        return np.array(found)


def bin_orders(places: list[Places], n_resamples: int, rng: np.random.Generator) -> BinOrders:
    """Orders of bins, the bins' own first; all there are where they are few."""
    counts = [rows.shape[1] for rows, _ in places]
    if max(counts) <= MOST_LISTED and prod(map(factorial, counts)) <= n_resamples + 1:
        every = product(*(list(permutations(range(count))) for count in counts))
        return BinOrders(tuple(places), tuple(map(np.array, zip(*every, strict=True))), True)
    each = [[np.arange(count), *(rng.permutation(count) for _ in range(n_resamples))] for count in counts]
    return BinOrders(tuple(places), tuple(map(np.stack, each)))


def crossings(
    a: Float[np.ndarray, "n p"],
    b: Float[np.ndarray, "n q"],
    rows: Places,
    orders: Int[np.ndarray, "C S"],
    width: int = 1,
    most: int = 0,
) -> Iterator[tuple[slice, Float[np.ndarray, "C w q"]]]:
    """Σ_i a_i ⊗ b_π(i) under every order π of the bins of b; some features of a at a time, and which.

    So many at a time is a multiple of `width`, and the same for all that have as many bins as `most`.
    """
    from scipy.sparse import csr_array

    (places, left), q = rows, b.shape[1]
    r, S = places.shape
    C = len(orders)
    # Which pairs of bins meet under every order, as a sparse table of orders by pairs.
    pairs = (np.arange(S) * S + orders).ravel()
    meet = csr_array((np.ones(C * S), pairs, np.arange(0, C * S + 1, S)), shape=(C, S * S))
    second = b[places.ravel()].reshape(r, S * q)
    step = max(1, AT_ONCE // (8 * q * max(S * S, C, most**2) * width)) * width
    for start in range(0, a.shape[1], step):
        some = slice(start, start + step)
        first = a[places.ravel(), some].reshape(r, -1)
        w = first.shape[1] // S
        table = (first.T @ second).reshape(S, w, S, q).transpose(0, 2, 1, 3).reshape(S * S, w * q)
        yield some, (meet @ table).reshape(C, w, q) + a[left, some].T @ b[left]


def covariance_factor(
    covariance: Float[np.ndarray, "P P"], starts: tuple[int, ...]
) -> list[Float[np.ndarray, "p R"]]:
    """F with F Fᵀ a covariance of features of several members, which count alike: rows of each."""
    variance = np.maximum(np.diagonal(covariance), 0.0)
    totals = np.sqrt(np.add.reduceat(variance, starts[:-1]))
    sizes = np.repeat(np.where(totals > 0.0, totals, 1.0), np.diff(starts))
    values, vectors = np.linalg.eigh(covariance / sizes[:, None] / sizes)
    values = np.maximum(values, 0.0)
    kept = np.cumsum(values) > NEGLIGIBLE * values.sum() if values.any() else values > 0.0
    return np.split(sizes[:, None] * vectors[:, kept] * np.sqrt(values[kept]), starts[1:-1])


def normal_crossings(
    left: list[Float[np.ndarray, "p R"]],
    right: list[Float[np.ndarray, "q Q"]],
    pairs: list[tuple[int, int]],
    count: int,
    rng: np.random.Generator,
) -> Iterator[list[Float[np.ndarray, "t p q"]]]:
    """Draws of N(0, Σ_a ⊗ Σ_b) for all pairs of members at once: F G Hᵀ, G standard normal."""
    R, Q = left[0].shape[1], right[0].shape[1]
    step = max(1, AT_ONCE // (8 * max(R * Q, 1)))
    for start in range(0, count, step):
        G = rng.standard_normal((min(step, count - start), R, Q))
        half = {j: left[j] @ G for j in {j for j, _ in pairs}}
        yield [half[j] @ right[k].T for j, k in pairs]
