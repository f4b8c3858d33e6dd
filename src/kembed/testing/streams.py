"""From `kernel=` to features of a row that can be summed: what a test of any number of rows looks at.

Everything is fitted on a sample of the pool, unordered; nothing sees a label.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kembed.core.backend import Float
from kembed.data.space import Space
from kembed.kernels.base import Kernel
from kembed.permutation.fourier import fourier
from kembed.permutation.gram import function_pairs, kernel_pairs
from kembed.testing.kernel_words import choose_kernel
from kembed.testing.members import streamed_members
from kembed.testing.members.fresh import Diagonal, Fitted, Fresh, Streamed, fit
from kembed.testing.members.rows import read_scales
from kembed.testing.procedure import Choice, every_one, together

LANDMARKS = 256  # of the fused test; `benchmarks/binned.py` has its power beside the exact statistic's
FEATURES = 512  # random Fourier features of a kernel, or landmarks of one that has none
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
        """The mean of K(x, x) over the fitted rows, of every kernel."""
        rows = Fresh(self.fitted, space.values)
        known = {feature: feature(rows) for feature in self.features}
        found = []
        for member in self.members:
            F = known[member.features] if member.linear is None else known[member.features] @ member.linear
            square = F.power(2) if hasattr(F, "power") else np.square(F)
            found.append(member.added(np.asarray(square.mean(axis=0)).reshape(-1, 1))[:, 0])
        return np.concatenate(found)


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
        return np.asarray(self.kernel(rows.values, self.landmarks), dtype=float)


def choose_streams(
    kernel: Any, space: Space, names: tuple[str, ...], levels: tuple[int, ...], rng: np.random.Generator
) -> Streams:
    """The kernels that `kernel` stands for on these rows, as features."""
    given = kernel if isinstance(kernel, list | tuple) else [kernel]
    if not given:
        raise ValueError("kernel is an empty list; give at least one kernel")
    parts, fitted = [], None
    for one in given:
        if isinstance(one, str) and one == "fused":
            rows = read_scales(space, names=names, points=LANDMARKS)
            parts.append(streamed_members(rows))
            fitted = fit(rows)
        else:
            chosen, learned = choose_kernel(one, space)
            choice = Choice((), (chosen,), every_one(1), (learned,) if learned else ())
            parts.append((choice, (kernel_stream(chosen, space.values, levels, rng),)))
    choice = parts[0][0] if len(parts) == 1 else together([part for part, _ in parts])
    return Streams(choice, tuple(member for _, members in parts for member in members), fitted)


def kernel_stream(
    kernel: Any, x: Float[np.ndarray, "N D"], levels: tuple[int, ...], rng: np.random.Generator
) -> Streamed:
    """One kernel as features of a row, with K(x, x) among them for the unbiased statistic."""
    found = fourier(kernel, x, FEATURES, rng, levels)
    if found is not None:
        width = found.frequencies.shape[1] * 2
        return Streamed(OfKernel(found), width, (width,), diagonal=Constant(found.variance))
    landmarks = x[np.sort(rng.choice(len(x), min(FEATURES, len(x)), replace=False))]
    features = OfKernel(kernel, landmarks)
    every = np.arange(len(landmarks))
    pairs = (kernel_pairs if isinstance(kernel, Kernel) else function_pairs)(kernel, landmarks)
    (between,) = pairs.rectangles(every, every)
    values, vectors = np.linalg.eigh(0.5 * (between + between.T))
    kept = values > ROUNDING * max(values[-1], 0.0)
    linear = vectors[:, kept] / np.sqrt(values[kept])
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
