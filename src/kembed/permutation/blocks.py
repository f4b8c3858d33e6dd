"""Many small kernels at once: features of the rows in blocks, and the graph of nearest neighbours.

A kernel made of few features of a row, K = F Fᵀ, costs one product of F with the labelings. Thousands of them
(one for every pair of columns, say) cost one product together.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kembed.core.backend import Float, Int
from kembed.permutation.gram import KernelSums, Pairs, matrix_pairs

AT_ONCE = 2**21  # bytes of features, and of their products with the labelings, at a time: what a cache holds
FEW = (
    64  # labelings that a sparse matrix is multiplied with at a time: twice as fast as all of 999, N = 2,000
)


def few_at_a_time(W: Float[np.ndarray, "N C"]) -> Iterator[Float[np.ndarray, "N c"]]:
    """Some columns after the others, row by row: a sparse product jumps from row to row."""
    for start in range(0, W.shape[1], FEW):
        yield np.ascontiguousarray(W[:, start : start + FEW])


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


@dataclass(frozen=True, eq=False)
class Blocks:
    """K = F Fᵀ on N rows for every block of `width` columns and every cut: F is the block's first `cut` ones.

    The kernels of one block come one after the other. Columns may be sparse if they are one block. `centred`
    says that each sums to 0, so that the row sums of K₀ are -K_ii.
    """

    columns: Any  # (N, P), P a multiple of the width
    width: int
    cuts: tuple[int, ...]
    centred: bool = False

    @property
    def size(self) -> int:
        """How many rows."""
        return int(self.columns.shape[0])

    @property
    def count(self) -> int:
        """How many kernels."""
        return int(self.columns.shape[1]) // self.width * len(self.cuts)

    def parts(self, labelings: int) -> Iterator["Blocks"]:
        """Runs of blocks, few enough to be worked on at once."""
        most = AT_ONCE // (8 * self.width * len(self.cuts) * max(self.size, labelings))
        step = max(1, most) * self.width
        for start in range(0, self.columns.shape[1], step):
            yield Blocks(self.columns[:, start : start + step], self.width, self.cuts, self.centred)

    def added(self, values: Float[np.ndarray, "P C"]) -> Float[np.ndarray, "J C"]:
        """What belongs to the columns of a kernel, added up."""
        return add_blocks(values, self.width, self.cuts)

    def squares(self) -> Any:
        """The features, each squared."""
        return self.columns.power(2) if hasattr(self.columns, "power") else np.square(self.columns)

    @property
    def diagonals(self) -> Float[np.ndarray, "J N"]:
        """K_ii."""
        squares = self.squares()
        if hasattr(squares, "toarray"):
            return np.asarray(squares.sum(axis=1)).reshape(1, -1)
        return self.added(squares.T)

    def sums(self) -> KernelSums:
        """Row sums, diagonals, and an upper bound of the squares, from the diagonals."""
        N, diagonals = self.size, self.diagonals
        if self.centred:
            rows = np.zeros(1)
        elif hasattr(self.columns, "toarray"):
            rows = (self.columns @ np.asarray(self.columns.sum(axis=0)).ravel())[None]
        else:
            rows = self.added((self.columns * self.columns.sum(axis=0)).T)
        return KernelSums(rows - diagonals, diagonals, diagonals.mean(axis=1) ** 2 * N * (N - 1.0))

    def weighted(self, v: Float[np.ndarray, " N"]) -> "Blocks":
        """The kernels v_i K_ij v_j."""
        dense = not hasattr(self.columns, "multiply")
        columns = self.columns * v[:, None] if dense else self.columns.multiply(v[:, None]).tocsr()
        return Blocks(columns, self.width, self.cuts)

    def forms(self, W: Float[np.ndarray, "N C"]) -> Float[np.ndarray, "J C"]:
        """w'Kw of every kernel and column w, diagonals included."""
        if hasattr(self.columns, "toarray"):
            leaves = self.columns.T.tocsr()
            return np.concatenate([np.square(leaves @ w).sum(axis=0) for w in few_at_a_time(W)])[None]
        found = self.columns.T @ W
        return self.added(np.square(found, out=found))

    def between(self, first: Any, second: Any) -> Float[np.ndarray, " J"]:
        """Σ_i K(x_i, y_i) for rows x_i and y_i."""
        a, b = self.columns[first], self.columns[second]
        if hasattr(a, "multiply"):
            return np.array([float(a.multiply(b).sum())])
        return self.added((a * b).sum(axis=0)[:, None])[:, 0]

    def pairs(self) -> Pairs:
        """A single kernel, served in rectangles."""
        F, (diagonal,) = self.columns, self.diagonals

        def rectangle(rows: Any, columns: Any) -> Float[np.ndarray, "a b"]:
            found = F[rows] @ F[columns].T
            return found.toarray() if hasattr(found, "toarray") else found

        return matrix_pairs(rectangle, diagonal)


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


@dataclass(frozen=True, eq=False)
class Graph:
    """A sparse symmetric matrix with nothing on its diagonal, as a kernel."""

    matrix: Any

    @property
    def size(self) -> int:
        """How many rows."""
        return int(self.matrix.shape[0])

    def sums(self) -> KernelSums:
        """Row sums, diagonal and squares."""
        rows = np.asarray(self.matrix.sum(axis=1)).ravel()
        return KernelSums(rows, np.zeros(self.size), float(self.matrix.power(2).sum()))

    def weighted(self, v: Float[np.ndarray, " N"]) -> "Graph":
        """The kernel v_i K_ij v_j."""
        return Graph(self.matrix.multiply(v[:, None]).multiply(v).tocsr())

    def forms(self, W: Float[np.ndarray, "N C"]) -> Float[np.ndarray, " C"]:
        """w'Kw of every column w."""
        return np.concatenate([np.einsum("ic,ic->c", w, self.matrix @ w) for w in few_at_a_time(W)])

    def between(self, first: Any, second: Any) -> Float[np.ndarray, " 1"]:
        """Σ_i K(x_i, y_i) for rows x_i and y_i."""
        return np.array([float(self.matrix[first, second].sum())])

    def pairs(self) -> Pairs:
        """The same kernel, served in rectangles; it need not be positive definite."""
        matrix, zeros = self.matrix, np.zeros(self.size)
        return matrix_pairs(lambda rows, columns: matrix[rows][:, columns].toarray(), zeros, definite=False)


def block_hsic(
    left: Blocks,
    right: Blocks,
    cuts: tuple[tuple[int, int], ...],
    pairings: Iterator[Int[np.ndarray, "c N"]],
    *,
    biased: bool,
) -> Float[np.ndarray, "C J"]:
    """HSIC of every block of one side with every one of the other, at pairs of cuts, under every pairing.

    For centred features tr(KHLH)/n² is |FᵀG|²/n²; the unbiased estimate is less its mean over all pairings,
    tr(HKH) tr(HLH) / ((n - 1) n²). Order: blocks of the left, of the right, pairs of cuts.
    """
    n, swapped = left.size, left.columns.shape[1] < right.columns.shape[1]
    one, other = (right, left) if swapped else (left, right)
    F, G = one.columns.T, np.ascontiguousarray(other.columns.T)  # the narrower is written out
    shape, turned = (len(F), len(G)), tuple((k, j) for j, k in cuts) if swapped else cuts
    found = []
    for some in pairings:
        order = np.argsort(some, axis=1) if swapped else some
        # Pairings come last, so that sums over features run along them.
        products = F @ G.take(order, axis=1, mode="clip").reshape(-1, n).T
        np.square(products, out=products)
        kept = _at_cuts(products.reshape(*shape, len(some)), one, other, turned)
        found.append((kept.swapaxes(0, 1) if swapped else kept).reshape(-1, len(some)))
    values = np.concatenate(found, axis=1).T
    if not biased:
        first, second = (side.diagonals.sum(axis=1).reshape(-1, len(side.cuts)) for side in (left, right))
        values -= trace_products(first, second, cuts) / (n - 1.0)
    values /= n**2
    return values


def add_products(
    squares: Float[np.ndarray, "C P Q"], left: Any, right: Any, cuts: tuple[tuple[int, int], ...]
) -> Float[np.ndarray, "C J"]:
    """What belongs to two blocks, added up: blocks of the left, of the right, pairs of cuts."""
    return _at_cuts(np.moveaxis(squares, 0, -1), left, right, cuts).reshape(-1, len(squares)).T


def _at_cuts(
    squares: Float[np.ndarray, "P Q C"], left: Any, right: Any, cuts: tuple[tuple[int, int], ...]
) -> Float[np.ndarray, "b d k C"]:
    """Sums over every block of the left and every one of the right, at pairs of cuts."""
    P, Q, count = squares.shape
    blocks = squares.reshape(P // left.width, left.width, Q // right.width, right.width, count)
    both = [up_to_cuts(first, right.cuts, axis=2) for first in up_to_cuts(blocks, left.cuts, axis=1)]
    return np.stack([both[j][k] for j, k in cuts], axis=2)


def trace_products(
    first: Float[np.ndarray, "b c"], second: Float[np.ndarray, "d e"], cuts: tuple[tuple[int, int], ...]
) -> Float[np.ndarray, " J"]:
    """The traces of all blocks at every cut, of either side, multiplied in the order of `add_products`."""
    one, other = (trace[:, [pair[k] for pair in cuts]] for k, trace in enumerate((first, second)))
    return (one[:, None, :] * other[None, :, :]).ravel()
