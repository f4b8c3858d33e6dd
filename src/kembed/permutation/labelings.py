"""Sums over labelings: what a two-sample statistic needs of a kernel, for the data and every resample.

A labeling marks which of the N pooled rows belong to the first sample. For each the sums a'Ka and a'K1
determine the squared distance of the two mean embeddings, biased or unbiased, weighted or not.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from math import comb, inf, prod
from typing import Any, NamedTuple

import numpy as np

from kembed.core.backend import Float, Int
from kembed.core.progress import progress_bar
from kembed.permutation.blocks import Blocks, Graph
from kembed.permutation.counts import LANES, ROOM, Leaves, Neighbours, packed
from kembed.permutation.gram import KernelSums, Pairs
from kembed.permutation.low_rank import LowRank, Member, Ready, computed
from kembed.permutation.rings import BUDGET, Star, draw_star, factor_turns, label_pairs, ring_sums

Vector = Float[np.ndarray, " C"]
Columns = Float[np.ndarray, "N C"]
Rows = Float[np.ndarray, " N"]  # a number for every row
# w'K₀w for every labeling, of every kernel; those of `Blocks` come as one table.
Sums = list[tuple[Float[np.ndarray, "*J C"], KernelSums]]
# Labelings are written out up to so many bytes: 999 of 67,000 rows.
WRITTEN_OUT = 2**29
PART = 2**21  # labels that are written out at a time on their way into bytes
# More rows than this have more arrangements than anybody waits for; their number is not even computed.
FEW_ROWS = 24


class Forms(NamedTuple):
    """A kernel v_i K_ij v_j, v the weights of the rows, under C labelings a; K₀ has diagonal 0.

    One kernel, or several with one row for each.
    """

    quadratic: Float[np.ndarray, "*J C"]  # a'K₀a
    linear: Float[np.ndarray, "*J C"]  # a'K₀1
    diagonal: Float[np.ndarray, "*J C"]  # Σ_i a_i K_ii
    sums: KernelSums
    sizes: tuple[Vector, Vector, Vector, Vector]  # Σ a_i v_i and Σ a_i v_i² of either sample


@dataclass(frozen=True, eq=False)
class Labelings:
    """The data's labeling first, then the resamples: turns of rings, or explicit columns."""

    labels: Rows
    star: Star | None
    columns: Columns | None = None

    @property
    def count(self) -> int:
        """How many."""
        return self._explicit.shape[1] if self.star is None else self.star.count

    @property
    def _explicit(self) -> Columns:
        assert self.columns is not None
        return self.columns

    @property
    def few(self) -> bool:
        """Whether they can be written out."""
        return self.star is None or 8 * len(self.labels) * self.count <= WRITTEN_OUT

    def sums(self, values: Float[np.ndarray, "*J N"]) -> Float[np.ndarray, "*J C"]:
        """Σ_i a_i values_i under every labeling."""
        if self.few:
            return values @ self.written_out
        if values.ndim == 2:
            return np.stack([self.sums(each) for each in values])
        assert self.star is not None
        return self.star.products(values, self.labels)

    def by_products(self, kernels: int) -> bool:
        """Whether labelings written out as columns, in one product, are faster than Fourier transforms.

        The product's work for an entry of the matrix grows with the number of labelings, that of the
        transforms with the logarithm of the size and the number of rings; nanoseconds of one processor.
        """
        if self.star is None:
            return True
        N, C = len(self.labels), self.count
        transforms = 35.0 + kernels * (12.0 + 11.0 * np.log10(max(N, 2_000) / 2_000.0))
        return self.few and bool(8.0 + kernels * (4.0 + 0.033 * C) < transforms * len(self.star.rings))

    @cached_property
    def written_out(self) -> Columns:
        """The labelings as columns, rows in their own order."""
        return self.some(0, self.count)

    @cached_property
    def words(self) -> Int[np.ndarray, "N w"]:
        """The labelings as bytes, eight of them a word."""
        if self.few:
            return packed(self.written_out)
        step = max(LANES, PART // len(self.labels) // LANES * LANES)
        parts = range(0, self.count, step)
        return np.hstack([packed(self.some(start, min(start + step, self.count))) for start in parts])

    def some(self, start: int, stop: int) -> Columns:
        """Some of the labelings as columns."""
        if self.star is None:
            return self._explicit[:, start:stop]
        return self.star.turned(self.labels, slice(start, stop)).T

    def pieces(self) -> Iterator[Columns]:
        """All of them as columns, so many at a time that they can be written out."""
        if self.few:
            yield self.written_out
            return
        step = max(1, WRITTEN_OUT // (8 * len(self.labels)))
        for start in range(0, self.count, step):
            yield self.some(start, min(start + step, self.count))


def draw_labelings(labels: Rows, n_resamples: int, rng: np.random.Generator) -> tuple[Labelings, bool]:
    """All arrangements where they are no more than n_resamples + 1, else turns of random rings; and which."""
    N, first = len(labels), int(labels.sum())
    if N > FEW_ROWS or comb(N, first) > n_resamples + 1:
        return Labelings(labels, draw_star(N, n_resamples, rng)), False
    every = np.array([np.isin(np.arange(N), rows) for rows in combinations(range(N), first)], dtype=float)
    return Labelings(labels, None, _own_first(every.T, labels)), True


def draw_within(
    labels: Rows, strata: Int[np.ndarray, " N"], n_resamples: int, rng: np.random.Generator
) -> tuple[Labelings, bool]:
    """As `draw_labelings`, but labels are exchanged within strata only; those of stratum -1 stay."""
    if (strata == strata[0]).all() and strata[0] >= 0:
        return draw_labelings(labels, n_resamples, rng)
    groups = [np.flatnonzero(strata == number) for number in np.unique(strata[strata >= 0])]
    if arrangements(labels, strata) <= n_resamples + 1:
        return Labelings(labels, None, _own_first(_every_arrangement(labels, groups), labels)), True
    columns = np.tile(labels[:, None], (1, n_resamples + 1))
    for members in groups:
        columns[members, 1:] = rng.permuted(np.tile(labels[members, None], (1, n_resamples)), axis=0)
    return Labelings(labels, None, columns), False


def arrangements(labels: Rows, strata: Int[np.ndarray, " N"]) -> float:
    """How many ways there are to exchange labels within strata."""
    kept = strata >= 0
    _, places = np.unique(strata[kept], return_inverse=True)
    sizes, firsts = np.bincount(places), np.bincount(places, labels[kept])
    return prod(
        float(comb(int(n), int(k))) if n <= FEW_ROWS or k in (0, n) else inf
        for n, k in zip(sizes.tolist(), firsts.tolist(), strict=True)
    )


def _every_arrangement(labels: Rows, groups: list[Int[np.ndarray, " k"]]) -> Columns:
    """All labelings that keep the number of ones within every group."""
    choices = [combinations(members.tolist(), int(labels[members].sum())) for members in groups]
    found = []
    for chosen in product(*choices):
        column = labels.copy()
        column[np.concatenate(groups)] = 0.0
        column[[row for rows in chosen for row in rows]] = 1.0
        found.append(column)
    return np.array(found).T


def draw_swaps(signs: Rows, n_resamples: int, rng: np.random.Generator) -> tuple[Columns, bool]:
    """Which pairs are turned round, the data's own signs first: all ways where they are few; and whether."""
    n = len(signs)
    if n > FEW_ROWS or 2**n > n_resamples + 1:
        return np.column_stack([signs, rng.choice([-1.0, 1.0], (n, n_resamples))]), False
    return _own_first(np.array(list(product((1.0, -1.0), repeat=n))).T, signs), True


def _own_first(columns: Columns, own: Rows) -> Columns:
    return columns[:, np.argsort((columns != own[:, None]).any(axis=0), kind="stable")]


def label_forms(member: Member, labelings: Labelings, v: Rows | None, batch: int | None) -> Iterator[Forms]:
    """The sums of every kernel of a member, in order; without v every row counts 1."""
    if v is None:
        first = squares = np.array([np.round(labelings.labels.sum())])
        second = second_squares = len(labelings.labels) - first
    else:
        first, squares = labelings.sums(v), labelings.sums(v * v)
        second, second_squares = v.sum() - first, (v * v).sum() - squares
    sizes = first, squares, second, second_squares
    ready = computed(member)
    if isinstance(ready, Blocks | Graph | Leaves | Neighbours):
        for part in ready.parts(labelings.count) if isinstance(ready, Blocks) else [ready]:
            yield _block_forms(part, labelings, v, sizes)
        return
    if isinstance(ready, LowRank) and v is None and labelings.few:
        yield _factor_forms(ready, labelings, sizes)
        return
    for quadratic, sums in _labeled_sums(ready, labelings, v, batch):
        yield Forms(quadratic, labelings.sums(sums.rows), labelings.sums(sums.diagonal), sums, sizes)


def _block_forms(
    member: Blocks | Graph | Leaves | Neighbours, labelings: Labelings, v: Rows | None, sizes: Any
) -> Forms:
    """By counting, or by products and with no more of them than it takes."""
    weighted = member if v is None else member.weighted(v)
    sums = weighted.sums()
    if v is None and sizes[0] == sizes[2]:  # what one half has of it the other lacks: no matter which
        diagonal = 0.5 * sums.diagonal.sum(axis=-1, keepdims=True)
    else:
        diagonal = labelings.sums(sums.diagonal)
    centred = v is None and isinstance(member, Blocks) and member.centred
    linear = -diagonal if centred else labelings.sums(sums.rows + sums.diagonal) - diagonal
    if isinstance(weighted, Leaves | Neighbours) and weighted.size <= ROOM:
        forms = weighted.counted(labelings.words, labelings.count)
    else:
        forms = np.concatenate([weighted.forms(columns) for columns in labelings.pieces()], axis=-1)
    forms -= diagonal
    return Forms(forms, linear, diagonal, sums, sizes)


def _factor_forms(member: LowRank, labelings: Labelings, sizes: Any) -> Forms:
    """All sums of a factor from one product: its columns, the row sums and the diagonal side by side."""
    sums = member.sums()
    beside = np.vstack([member.columns.T, sums.rows, sums.diagonal])
    found = beside @ labelings.written_out
    linear, diagonal = found[-2:]
    return Forms(np.einsum("rc,rc->c", found[:-2], found[:-2]) - diagonal, linear, diagonal, sums, sizes)


def _labeled_sums(member: Pairs | LowRank, labelings: Labelings, v: Rows | None, batch: int | None) -> Sums:
    """By whichever way is the fastest."""
    labels, star = labelings.labels, labelings.star
    if star is not None and isinstance(member, LowRank) and not labelings.few:
        factor = member if v is None else member.weighted(v)
        sums = factor.sums()
        return [(factor_turns(factor.columns, labels[:, None], star) - labelings.sums(sums.diagonal), sums)]
    if isinstance(member, LowRank) or labelings.by_products(len(member.maps) if v is None else 1):
        columns = labelings.written_out
        return column_sums(member, columns if v is None else columns * v[:, None], batch, v)
    assert star is not None
    parts = [member] if v is None else [member.weighted(j, v) for j in range(len(member.maps))]
    return [pair for pairs in parts for pair in ring_label_sums(pairs, labels, star, batch)]


def ring_label_sums(pairs: Pairs, labels: Rows, star: Star, batch: int | None) -> Sums:
    """a'K₀a of every kernel by Fourier transforms, with labels a that turn on the rings of a star."""
    values, sums, _ = ring_sums(pairs, label_pairs(labels), star, batch, sides=1)
    return list(zip(values[:, :, 0].T, sums, strict=True))


def column_sums(member: Ready, W: Columns, batch: int | None, v: Rows | None = None) -> Sums:
    """w'K₀w of every kernel and every column w of weights, and the sums of v_i K_ij v_j.

    The matrix is symmetric, so only blocks on and below the diagonal are computed, one strip at a time.
    """
    N, C = W.shape
    v = np.ones(N) if v is None else v
    if isinstance(member, LowRank):
        quadratic = np.square(member.columns.T @ W).sum(axis=0) - member.diagonal @ W**2
        return [(quadratic, member.weighted(v).sums())]
    if isinstance(member, Blocks | Graph | Leaves | Neighbours):
        return [(member.forms(W) - member.sums().diagonal @ W**2, member.weighted(v).sums())]
    J = len(member.maps)
    every = np.arange(N)
    strip = batch or int(np.clip(BUDGET // (8 * (3 * N + C)), 16, 256))
    quadratic, rows, squares = np.zeros((J, C)), np.zeros((J, N)), np.zeros(J)
    with progress_bar(N, 0.5 * N * N * J, "permutations", "row") as shown:
        for i in range(0, N, strip):
            own = every[i : i + strip]
            until = i + len(own)
            base = member.base(own, every[:until])
            buffer = np.empty_like(base)
            for j, apply in enumerate(member.maps):
                block = apply(base, buffer)
                block[:, i:] = np.tril(block[:, i:], -1)  # each pair of rows once
                quadratic[j] += 2.0 * np.einsum("ic,ic->c", W[own], block @ W[:until])
                rows[j, own] += block @ v[:until]
                rows[j, :until] += v[own] @ block
                squares[j] += 2.0 * (v[own] ** 2 @ np.square(block, out=block) @ v[:until] ** 2)
            shown.update(len(own))
    sums = map(KernelSums, rows * v, member.diagonals * v**2, map(float, squares))
    return list(zip(quadratic, sums, strict=True))
