"""Sums over labelings: what a two-sample statistic needs of a kernel, for the data and every resample.

A labeling marks which of the N pooled rows belong to the first sample. For each the sums a'Ka and a'K1
determine the squared distance of the two mean embeddings, biased or unbiased, weighted or not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kembed.core.progress import progress_bar
from kembed.permutation.gram import Pairs
from kembed.permutation.low_rank import Factor, Member, as_pairs, made
from kembed.permutation.rings import BUDGET, Star, correlate, factor_turns, label_pairs, ring_sums

if TYPE_CHECKING:
    from jaxtyping import Float

    Vector = Float[np.ndarray, " C"]


# Labelings are written out up to so many bytes.
WRITTEN_OUT = 2**29


class Forms(NamedTuple):
    """One kernel under C labelings a, its diagonal apart: v are the weights of the rows."""

    quadratic: Vector  # Σ_{i≠j} a_i a_j v_i v_j K_ij
    linear: Vector  # Σ_i a_i r_i
    diagonal: Vector  # Σ_i a_i v_i² K_ii
    rows: Float[np.ndarray, " N"]  # r_i = Σ_{j≠i} v_i v_j K_ij
    squares: float  # Σ_{i≠j} (v_i v_j K_ij)²
    trace: float  # Σ_i v_i² K_ii


class Sizes(NamedTuple):
    """Weights of the two samples under C labelings."""

    first: Vector  # Σ a_i v_i
    first_squares: Vector  # Σ a_i v_i²
    second: Vector
    second_squares: Vector


@dataclass(frozen=True, eq=False)
class Labelings:
    """The data's labeling first, then the resamples: turns of rings, or explicit columns."""

    labels: Float[np.ndarray, " N"]
    star: Star | None
    columns: Float[np.ndarray, "N C"] | None = None

    def sums(self, values: Float[np.ndarray, " N"]) -> Vector:
        """Σ_i a_i values_i under every labeling."""
        if self.star is None:
            assert self.columns is not None
            return values @ self.columns
        turns = [correlate(values[ring.left], self.labels[ring.right]) for ring in self.star.rings]
        return self.star.values([turn[:, None] for turn in turns])[:, 0]

    def by_products(self, kernels: int) -> bool:
        """Whether labelings written out as columns, in one product, are faster than Fourier transforms.

        The product's work for an entry of the matrix grows with the number of labelings, that of the
        transforms with the logarithm of the size; nanoseconds measured on two cores.
        """
        if self.star is None:
            return True
        N, C = len(self.labels), len(self.star.chosen) + 1
        if len(self.star.rings) > 1 or 8 * N * C > WRITTEN_OUT:
            return False
        transforms = 35.0 + kernels * (12.0 + 11.0 * np.log10(max(N, 2_000) / 2_000.0))
        products = 8.0 + kernels * (4.0 + 0.0165 * C)
        return bool(products < transforms)

    def written_out(self) -> Float[np.ndarray, "N C"]:
        """The labelings as columns, rows in their own order."""
        if self.star is None:
            assert self.columns is not None
            return self.columns
        (ring,) = self.star.rings
        N = len(self.labels)
        turned = np.concatenate([self.labels[ring.right]] * 2)
        columns = np.empty((len(self.star.chosen) + 1, N))
        for column, turn in zip(columns, np.append(0, self.star.chosen + 1), strict=True):
            column[ring.left] = turned[turn : turn + N]
        return columns.T


def sizes(labelings: Labelings, v: Float[np.ndarray, " N"] | None) -> Sizes:
    """Weights of the samples; without weights every row counts 1."""
    if v is None:
        first = np.round(labelings.labels.sum())
        second = len(labelings.labels) - first
        return Sizes(*(np.array([value]) for value in (first, first, second, second)))
    first, squares = labelings.sums(v), labelings.sums(v * v)
    return Sizes(first, squares, v.sum() - first, (v * v).sum() - squares)


def label_forms(
    members: list[Member],
    labelings: Labelings,
    v: Float[np.ndarray, " N"] | None,
    batch: int | None,
) -> list[Forms]:
    """The sums of every kernel of every member, in order."""
    found: list[Forms] = []
    for each in members:
        member = made(each)
        if isinstance(member, Factor):
            found.append(_factor_forms(member if v is None else member.weighted(v), labelings))
        elif labelings.by_products(len(member.maps)):
            found += _column_forms(member, labelings, v, batch)
        else:
            for pairs in [member] if v is None else weighted_pairs(member, v):
                found += _ring_forms(pairs, labelings, batch)
    return found


def weighted_pairs(pairs: Pairs, v: Float[np.ndarray, " N"]) -> list[Pairs]:
    """v_i K_ij v_j, each kernel by itself."""

    def one(j: int) -> Pairs:
        def base(rows, columns):  # type: ignore[no-untyped-def]
            plain = pairs.base(rows, columns)
            value = pairs.mapped(j, plain, np.empty_like(plain))
            return value * v[rows, None] * v[columns]

        return Pairs(pairs.size, base, (None,), pairs.diagonals[j : j + 1] * v**2)

    return [one(j) for j in range(len(pairs.maps))]


def _ring_forms(pairs: Pairs, labelings: Labelings, batch: int | None) -> list[Forms]:
    star = labelings.star
    assert star is not None
    sums = ring_sums(pairs, label_pairs(labelings.labels), star, batch)
    quadratic = star.values([turn[:, :, 0] for turn in sums.turns])
    return [
        Forms(
            quadratic[:, j],
            labelings.sums(sums.left_rows[j]),
            labelings.sums(pairs.diagonals[j]),
            sums.left_rows[j],
            float(sums.left_squares[j]),
            float(pairs.diagonals[j].sum()),
        )
        for j in range(len(pairs.maps))
    ]


def _factor_forms(factor: Factor, labelings: Labelings) -> Forms:
    diagonal, rows = factor.diagonal, factor.row_sums()
    on_diagonal = labelings.sums(diagonal)
    if labelings.star is None:
        assert labelings.columns is not None
        whole = np.square(factor.columns.T @ labelings.columns).sum(axis=0)
    else:
        turns = factor_turns(factor.columns, labelings.labels[:, None], labelings.star)
        whole = labelings.star.values([turn[:, None] for turn in turns])[:, 0]
    return Forms(
        whole - on_diagonal,
        labelings.sums(rows),
        on_diagonal,
        rows,
        factor.squares(),
        float(diagonal.sum()),
    )


def _column_forms(
    pairs: Pairs, labelings: Labelings, v: Float[np.ndarray, " N"] | None, batch: int | None
) -> list[Forms]:
    weight = np.ones(pairs.size) if v is None else v
    columns = labelings.written_out()
    sums = column_sums(pairs, columns if v is None else columns * weight[:, None], weight, batch)
    return [
        Forms(
            quadratic,
            labelings.sums(rows),
            labelings.sums(diagonal * weight**2),
            rows,
            squares,
            float((diagonal * weight**2).sum()),
        )
        for (quadratic, rows, squares), diagonal in zip(sums, pairs.diagonals, strict=True)
    ]


def column_sums(
    pairs: Pairs, W: Float[np.ndarray, "N C"], v: Float[np.ndarray, " N"], batch: int | None
) -> list[tuple[Vector, Float[np.ndarray, " N"], float]]:
    """For every kernel w'K₀w of each column, the rows v_i (K₀v)_i and Σ (v_i v_j K_ij)²: K₀ has no diagonal.

    The matrix is symmetric, so only blocks on and below the diagonal are computed, one strip at a time.
    """
    N, C = W.shape
    J = len(pairs.maps)
    every = np.arange(N)
    strip = batch or int(np.clip(BUDGET // (8 * (3 * N + C)), 16, 256))
    quadratic, rows, squares = np.zeros((J, C)), np.zeros((J, N)), np.zeros(J)
    with progress_bar(N, 0.5 * N * N * J, "permutations", "row") as shown:
        for i in range(0, N, strip):
            own = every[i : i + strip]
            until = i + len(own)
            base = pairs.base(own, every[:until])
            buffer = np.empty_like(base)
            for j in range(J):
                block = pairs.mapped(j, base, buffer)
                block[:, i:] = np.tril(block[:, i:], -1)  # each pair of rows once
                quadratic[j] += 2.0 * np.einsum("ic,ic->c", W[own], block @ W[:until])
                rows[j, own] += block @ v[:until]
                rows[j, :until] += v[own] @ block
                squares[j] += 2.0 * (v[own] ** 2 @ np.square(block, out=block) @ v[:until] ** 2)
            shown.update(len(own))
    return [(quadratic[j], rows[j] * v, float(squares[j])) for j in range(J)]


def signed_forms(
    member: Member, W: Float[np.ndarray, "N C"], n_pairs: int, batch: int | None
) -> list[tuple[Vector, Vector, float, float]]:
    """For each kernel of a member Σ_{i≠j} w_i w_j K_ij, Σ_i w_i² K_ii, Σ_i K(x_i, y_i) and Σ_{i≠j} K_ij².

    Rows i and n_pairs + i are a pair; with n_pairs = 0 there are none.
    """
    pairs = as_pairs(member)
    sums = column_sums(pairs, W, np.ones(pairs.size), batch)
    between = pairs.at(np.arange(n_pairs), n_pairs + np.arange(n_pairs)).sum(axis=1)
    weights = W**2
    return [
        (quadratic, diagonal @ weights, float(own), squares)
        for (quadratic, _, squares), diagonal, own in zip(sums, pairs.diagonals, between, strict=True)
    ]
