"""Random Fourier features, k(x, y) ≈ φ(x)·φ(y), of kernels on numbers and categories (Rahimi & Recht 2007).

The spectral density of a mixture of squared exponentials is a mixture of normals: draw a component, draw a
frequency. A category is a point on an axis of its own, so its share of the phase is an entry of a table drawn
once; phases of factors of a product add up. The approximation enters the statistic, not the level of a test.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kembed.core.backend import Float, Int
from kembed.core.buffers import Buffers
from kembed.kernels.base import Kernel
from kembed.kernels.composite import Product
from kembed.kernels.discrete import Delta, OnColumns
from kembed.permutation.segments import Segments

Values = Float[np.ndarray, "b D"]


CODES = 10**6  # more levels than this are no codes: nobody has a table of them
TINY = np.finfo(float).tiny  # numbers below it lose digits
STRIP = 512  # rows whose phases are worked on at once: with 256 frequencies two tables of a megabyte


@dataclass(frozen=True, eq=False)
class Fourier:
    """Cosines and sines of phases: frequencies of numeric columns, tables of the levels of the others."""

    centre: Float[np.ndarray, " D"]
    frequencies: Float[np.ndarray, "D f"]
    tables: tuple[tuple[int, Float[np.ndarray, "L f"]], ...]  # of which column, and the phase of every level
    variance: float  # k(x, x), which is |φ(x)|² for every row

    def __call__(self, values: Values) -> Float[np.ndarray, "b 2f"]:
        """The features of these rows."""
        phase = (values - self.centre) @ self.frequencies
        self._add_levels(phase, values)
        found = cosines_and_sines(phase)
        found *= self._size
        return found

    def sums(
        self, values: Values, segments: Segments, buffers: Buffers | None = None
    ) -> Float[np.ndarray, "k 2f"]:
        """Their weighted sums by bin, strip by strip: what the cache holds, and no table of all features.

        The 1 that a cosine is less than 2/(1 + t²) is taken off the sums.
        """
        buffers, half = Buffers() if buffers is None else buffers, self.frequencies.shape[1]
        found = np.empty((len(segments.bins), 2 * half))
        for bins, part, few in segments.strips(STRIP):
            shape = (len(few.weight), half)
            sine, cosine = (buffers.table(name, shape) for name in ("sine", "cosine"))
            np.dot(values[part] - self.centre, self.frequencies, out=sine)
            self._add_levels(sine, values[part])
            sine *= 0.5
            np.tan(sine, out=sine)
            np.square(sine, out=cosine)
            cosine += 1.0
            np.divide(2.0, cosine, out=cosine)
            sine *= cosine
            found[bins, :half], found[bins, half:] = few.sums(cosine), few.sums(sine)
            found[bins, :half] -= np.add.reduceat(few.weight, few.edges[:-1])[:, None]
        found *= self._size
        return found

    @property
    def _size(self) -> float:
        return float(np.sqrt(self.variance / self.frequencies.shape[1]))

    def _add_levels(self, phase: Float[np.ndarray, "b f"], values: Values) -> None:
        for column, table in self.tables:
            codes: Int[np.ndarray, " b"] = values[:, column].astype(int)
            phase += table[codes]


def cosines_and_sines(phase: Float[np.ndarray, "b f"]) -> Float[np.ndarray, "b 2f"]:
    """Both, to the last digits, by t = tan(u/2): cos u = 2/(1 + t²) - 1, sin u = 2t/(1 + t²).

    NumPy's tangent is ten times as fast as its cosine, and one is enough for both.

    >>> cosines_and_sines(np.array([[0.0, np.pi / 2]])).round(12).tolist()
    [[1.0, 0.0, 0.0, 1.0]]
    """
    half = phase.shape[1]
    found = np.empty((len(phase), 2 * half))
    cosine, sine = found[:, :half], found[:, half:]
    np.multiply(phase, 0.5, out=sine)
    np.tan(sine, out=sine)
    np.square(sine, out=cosine)
    cosine += 1.0
    np.divide(2.0, cosine, out=cosine)
    sine *= cosine
    cosine -= 1.0
    return found


def fourier(
    kernel: Any, x: Values, count: int, rng: np.random.Generator, levels: tuple[int, ...] = ()
) -> Fourier | None:
    """`count` features of a kernel on columns such as those of x; None where it has no spectral density.

    Nor has it one where floats do not hold that. `levels` says of every column how many codes there are, 0
    for numbers; by default as many as x has.
    """
    if not isinstance(kernel, Kernel):
        return None
    half, D = max(1, count // 2), x.shape[1]
    found = _phases(kernel, np.arange(D), half, rng, levels or _codes(x))
    if found is None:
        return None
    frequencies, tables = np.zeros((D, half)), []
    variance = 1.0
    for columns, part, weight in found:
        variance *= weight
        if isinstance(part, list):
            tables += list(zip(columns.tolist(), part, strict=True))
        else:
            frequencies[columns] += part
    centre = np.median(x, axis=0)
    centre[[column for column, _ in tables]] = 0.0
    return Fourier(centre, frequencies, tuple(tables), variance)


def _phases(
    kernel: Kernel, columns: np.ndarray, half: int, rng: np.random.Generator, levels: tuple[int, ...]
) -> list[tuple[np.ndarray, Any, float]] | None:
    """Factors: the columns they see, frequencies (or a table for each), and the value on the diagonal."""
    if isinstance(kernel, OnColumns):
        return _phases(kernel.kernel, columns[list(kernel.columns)], half, rng, levels)
    if isinstance(kernel, Product):
        factors = []
        for part in kernel.kernels:
            found = _phases(part, columns, half, rng, levels)
            if found is None:
                return None
            factors += found
        return factors
    if isinstance(kernel, Delta):
        if not all(levels[column] for column in columns):
            return None  # of numbers there is no table of levels
        penalty = np.broadcast_to(kernel.penalty, columns.shape)
        own = zip(columns, penalty, strict=True)
        return [(columns, [_level_phases(cost, levels[column], half, rng) for column, cost in own], 1.0)]
    try:
        parts = kernel.components(len(columns))
    except TypeError:
        return None
    weights = np.exp(np.asarray(parts.log_weights))
    drawn = rng.choice(len(weights), half, p=weights / weights.sum())
    normal = rng.standard_normal((half, len(columns)))
    precision = np.asarray(parts.precision)
    diagonal = precision if precision.ndim == 2 else np.diagonal(precision, axis1=1, axis2=2)
    if not ((diagonal >= TINY) & (diagonal < np.inf)).all():
        return None  # squares of lengthscales beyond floats, where those themselves are not
    if precision.ndim == 2:
        frequencies = normal * np.sqrt(precision[drawn])
    else:
        frequencies = np.einsum("fij,fj->fi", np.linalg.cholesky(precision)[drawn], normal)
    return [(columns, frequencies.T, float(weights.sum()))]


def _codes(x: Values) -> tuple[int, ...]:
    """How many codes every column has; 0 where it holds other numbers than codes."""
    coded = ((x >= 0.0) & (x < CODES) & (x == np.floor(x))).all(axis=0)
    return tuple(int(most) + 1 if own else 0 for most, own in zip(x.max(axis=0), coded, strict=True))


def _level_phases(
    penalty: float, count: int, half: int, rng: np.random.Generator
) -> Float[np.ndarray, "L f"]:
    """Phases whose differences have E cos = exp(-penalty²/2): normal, or all around the circle for 0."""
    if np.isinf(penalty):
        return rng.uniform(0.0, 2.0 * np.pi, (count, half))
    return penalty / np.sqrt(2.0) * rng.standard_normal((count, half))
