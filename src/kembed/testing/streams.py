"""From `kernel=` to features of a row that can be summed: what a test of any number of rows looks at.

Everything is fitted on a sample of the pool, unordered; nothing sees a label.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kembed.core.backend import Float
from kembed.kernels.base import Kernel
from kembed.kernels.space import Space
from kembed.permutation.bins import dense
from kembed.permutation.fourier import fourier
from kembed.permutation.fusion import refuse_non_finite
from kembed.permutation.gram import function_pairs, function_values
from kembed.permutation.segments import Segments
from kembed.testing.kernel_words import choose_kernel
from kembed.testing.members import fused_members, fused_relations, fused_side
from kembed.testing.members.fresh import Diagonal, Fitted, Fresh, Streamed, fit
from kembed.testing.members.group import Meeting
from kembed.testing.members.rows import read_scales
from kembed.testing.procedure import Choice, every_one, together

LANDMARKS = 256  # of the fused test; `benchmarks/binned.py` has its power beside the exact statistic's
FEATURES = 512  # random Fourier features of a kernel, or landmarks of one that has none
# Of a kernel of more than a few features an independence test takes the leading ones, down to a share of the
# variance: cross-products cost their number on one side times that on the other.
FEW, LEADING, NEGLIGIBLE = 16, 64, 1e-4
WIDE = 600  # features of one kernel, beyond which their leading ones are found by iteration
MEASURED = 64  # fitted rows that tell the size of a kernel's entry; nothing but rounding is compared with it
ROUNDING = 1e-10  # eigenvalues of the matrix of landmarks below this share of the largest


@dataclass(frozen=True, eq=False)
class Streams:
    """Kernels as a test uses them, with their features, and what fresh rows are measured by."""

    choice: Choice
    members: tuple[Streamed, ...]
    fitted: Fitted | None  # None where no group asks for ranks, axes or landmarks

    @property
    def features(self) -> tuple[Any, ...]:
        """Every feature map once."""
        return tuple(dict.fromkeys(each for member in self.members for each in member.maps))

    def entries(self, space: Space) -> Float[np.ndarray, " J"]:
        """The mean of K(x, x) over the fitted rows, of every kernel: what its rounding is measured by.

        An even choice of them is enough for that, but where they have nothing but zeros.
        """
        N = len(space.values)
        few = np.linspace(0, N - 1, min(N, MEASURED)).round().astype(int)
        found = self._entries(Fresh(self.fitted, space.values[few]))
        if len(few) < N and not all(each.all() for each in found):
            found = self._entries(Fresh(self.fitted, space.values))
        return np.concatenate(found)

    def _entries(self, rows: Fresh) -> list[Float[np.ndarray, " j"]]:
        known: dict[Any, Any] = {}
        found = []
        for member in self.members:
            if member.diagonal is not None:
                found.append(np.atleast_1d(np.mean(member.diagonal(rows))))
                continue
            if member.features not in known:
                known[member.features] = member.features(rows)
            F = known[member.features] if member.linear is None else known[member.features] @ member.linear
            square = F.power(2) if hasattr(F, "power") else np.square(F)
            found.append(member.added(np.asarray(square.mean(axis=0)).reshape(-1, 1))[:, 0])
        return found


@dataclass(frozen=True, eq=False)
class OfKernel:
    """Features of a single kernel: Fourier's, or k(x, z) at landmarks of a kernel that has no spectrum."""

    kernel: Any
    landmarks: Float[np.ndarray, "m D"] | None = None

    def __call__(self, rows: Fresh) -> Float[np.ndarray, "b p"]:
        """Of these rows."""
        if self.landmarks is None:
            return self.kernel(rows.values)
        if isinstance(self.kernel, Kernel):
            return self.kernel._gram(rows.values, self.landmarks)
        return function_values(self.kernel, rows.values, self.landmarks)

    def sums(self, rows: Fresh, segments: Segments) -> Float[np.ndarray, "k p"]:
        """Sums of these by bin; of Fourier's without writing the features out."""
        if self.landmarks is None:
            return self.kernel.sums(rows.values, segments, rows.buffers)
        return segments.sums(self(rows))


def choose_streams(
    kernel: Any,
    space: Space,
    names: tuple[str, ...],
    levels: tuple[int, ...],
    rng: np.random.Generator,
    *,
    side: bool = False,
    landmarks: int = LANDMARKS,
) -> Streams:
    """The kernels that `kernel` stands for on these rows, as features; those of one `side` to be crossed.

    Of the fused test there are so many `landmarks` at most.
    """
    given = kernel if isinstance(kernel, list | tuple) else [kernel]
    if not given:
        raise ValueError("kernel is an empty list; give at least one kernel")
    parts: list[tuple[Choice, tuple[Any, ...]]] = []
    fitted = None
    for one in given:
        if isinstance(one, str) and one == "fused":
            rows = read_scales(space, names=names, points=landmarks, complete=False)
            found = fused_side(rows) if side else fused_members(rows)
            parts.append((replace(found, members=()), found.members))
            fitted = fit(rows)
        else:
            chosen, learned = choose_kernel(one, space)
            choice = Choice((), (chosen,), every_one(1), (learned,) if learned else ())
            parts.append((choice, (kernel_stream(chosen, space.values, levels, rng, spectral=not side),)))
    choice = parts[0][0] if len(parts) == 1 else together([part for part, _ in parts])
    return Streams(choice, tuple(member for _, members in parts for member in members), fitted)


@dataclass(frozen=True, eq=False)
class Crossed:
    """Which members of x meet which of y, what to call them, and what fresh rows are measured by."""

    choice: Choice
    meetings: tuple[Meeting, ...]
    fitted: tuple[Fitted | None, Fitted | None]


def choose_meetings(
    kernels: tuple[Any, Any],
    spaces: list[Space],
    names: list[tuple[str, ...]],
    levels: list[tuple[int, ...]],
    rng: np.random.Generator,
) -> Crossed:
    """The pairs of kernels that `kernels` stands for on the rows of two sides, as leading features."""
    fitted: tuple[Fitted | None, Fitted | None]
    if all(isinstance(kernel, str) and kernel == "fused" for kernel in kernels):
        left, right = (
            read_scales(space, names=own, points=LANDMARKS, complete=False)
            for space, own in zip(spaces, names, strict=True)
        )
        meetings, choice = fused_relations(left, right)
        fitted = (fit(left), fit(right))
    else:
        one, other = (
            choose_streams(*each, rng, side=True) for each in zip(kernels, spaces, names, levels, strict=True)
        )
        meetings = tuple(Meeting(a, b) for a in one.members for b in other.members)
        learned: tuple[Any, ...] = ()
        if one.choice.learned or other.choice.learned:
            learned = tuple(part.choice.learned[0] if part.choice.learned else None for part in (one, other))
        pairs = tuple((a, b) for a in one.choice.kernels for b in other.choice.kernels)
        choice = Choice((), pairs, every_one(len(pairs)), learned)
        fitted = (one.fitted, other.fitted)
    known: dict[Any, Any] = {}
    rows = [Fresh(each, space.values) for each, space in zip(fitted, spaces, strict=True)]

    def short(member: Streamed, which: int) -> Streamed:
        if (id(member), which) not in known:
            known[id(member), which] = (member, leading(member, rows[which]))
        return known[id(member), which][1]

    met = tuple(Meeting(short(each.left, 0), short(each.right, 1), each.pairs) for each in meetings)
    return Crossed(choice, met, fitted)


def leading(member: Streamed, rows: Fresh) -> Streamed:
    """The principal features of a kernel of many, as these rows have them; one of few stays as it is."""
    if member.cuts != (member.width,) or member.width <= FEW:
        return member
    F = member.features(rows) if member.linear is None else member.features(rows) @ member.linear
    if F.shape[1] > member.width:  # several kernels
        return member
    values, vectors = _principal(F)
    kept = np.flatnonzero(values > NEGLIGIBLE * max(float(values.sum()), 0.0))[::-1][:LEADING]
    kept = kept if len(kept) else np.arange(1)
    turned = vectors[:, kept] if member.linear is None else member.linear @ vectors[:, kept]
    return Streamed(member.features, len(kept), (len(kept),), turned)


def _principal(F: Any) -> tuple[Float[np.ndarray, " r"], Float[np.ndarray, "P r"]]:
    """Eigenvalues of the covariance of features, rising, and vectors; of very many by iteration."""
    mean = np.asarray(F.mean(axis=0)).ravel()
    if F.shape[1] <= WIDE:
        centred = dense(F) - mean
        values, vectors = np.linalg.eigh(centred.T @ centred)
        return values, vectors

    def turned(Q: Float[np.ndarray, "P r"]) -> Float[np.ndarray, "P r"]:
        found = F @ Q - mean @ Q
        return F.T @ found - np.outer(mean, found.sum(axis=0))

    Q = np.random.default_rng(0).standard_normal((F.shape[1], LEADING + 16))
    for _ in range(3):
        Q, _ = np.linalg.qr(turned(Q))
    values, small = np.linalg.eigh(Q.T @ turned(Q))
    return values, Q @ small


def kernel_stream(
    kernel: Any,
    x: Float[np.ndarray, "N D"],
    levels: tuple[int, ...],
    rng: np.random.Generator,
    *,
    spectral: bool = True,
) -> Streamed:
    """One kernel as features of a row, with K(x, x) among them for the unbiased statistic.

    Where only leading features are asked for, those at landmarks come nearer than random ones.
    """
    found = fourier(kernel, x, FEATURES, rng, levels) if spectral else None
    if found is not None:
        width = found.frequencies.shape[1] * 2
        return Streamed(OfKernel(found), width, (width,), diagonal=Constant(found.variance))
    landmarks = x[np.sort(rng.choice(len(x), min(FEATURES, len(x)), replace=False))]
    features = OfKernel(kernel, landmarks)
    if isinstance(kernel, Kernel):
        between = features(Fresh(None, landmarks))  # not in rectangles: those may be less a constant
    else:
        every = np.arange(len(landmarks))
        (between,) = function_pairs(kernel, landmarks).rectangles(every, every)
    refuse_non_finite(between)
    values, vectors = np.linalg.eigh(0.5 * (between + between.T))
    least = ROUNDING * float(np.abs(values).max())
    if not values[-1] > least and between.any():
        seen = "kernel is not positive definite, so that it has no features: no eigenvalue is positive"
        raise ValueError(f"{seen}; give one that is, or statistic='unbiased'")
    kept = values > least
    linear = vectors[:, kept] / np.sqrt(values[kept]) if kept.any() else np.zeros((len(landmarks), 1))
    width = linear.shape[1]
    return Streamed(features, width, (width,), linear, diagonal=Norm(features, linear))


@dataclass(frozen=True)
class Constant(Diagonal):
    """K(x, x) where it is the same for all rows."""

    value: float

    def __call__(self, rows: Fresh) -> Float[np.ndarray, "b 1"]:
        """Of these rows."""
        return np.full((len(rows.values), 1), self.value)


@dataclass(frozen=True, eq=False)
class Norm(Diagonal):
    """K(x, x) = |Lᵀφ(x)|²."""

    features: OfKernel
    linear: Float[np.ndarray, "p r"]

    def __call__(self, rows: Fresh) -> Float[np.ndarray, "b 1"]:
        """Of these rows."""
        return np.square(self.features(rows) @ self.linear).sum(axis=1, keepdims=True)
