"""One kernel of the user's choice: its matrix over all rows in strips, or features at landmarks."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kembed.core import checks
from kembed.core.backend import Float
from kembed.core.progress import progress_bar
from kembed.features.members import FeatureMember
from kembed.features.rows import Rows
from kembed.kernels.base import Kernel, refuse_entries

Table = Float[np.ndarray, "N D"]
LANDMARKS = 512  # of a kernel beyond memory
ROUNDING = 1e-10  # eigenvalues of the matrix of landmarks below this share of the largest
STRIP = 2**22  # entries of a strip of a kernel matrix
LEAST_STRIP = 64  # rows
# A kernel whose usual entry is above this is taken less 1, so that its small variations keep their digits:
# MMD² and HSIC do not change when a constant is added to a kernel.
MOSTLY_ONE = 0.5
SOME_ROWS = 64  # tell what a usual entry is: 2,000 pairs


@dataclass(frozen=True, eq=False)
class KernelMatrix:
    """The matrix of one kernel on the rows of a table, in strips: K_ij less a constant that cancels."""

    kernel: Any  # a kernel object, or a function (rows, rows) -> matrix
    rows: Table
    constant: float

    def whole(self) -> Float[np.ndarray, "N N"]:
        """All of the matrix."""
        return np.concatenate([block for _, block in self.strips()])

    def strips(self, *, triangle: bool = False) -> Iterator[tuple[slice, Float[np.ndarray, "s M"]]]:
        """All of the matrix, strip by strip, and which rows each holds; or what lies from the diagonal on."""
        N = len(self.rows)
        step = max(1, min(STRIP // max(N, 1), max(LEAST_STRIP, N // 8)))
        with progress_bar(N, float(N) ** 2, "kernel matrix", "row") as shown:
            for start in range(0, N, step):
                part = slice(start, min(start + step, N))
                yield part, self.block(self.rows[part], self.rows[start:] if triangle else self.rows)
                shown.update(part.stop - part.start)

    def block(self, x: Table, y: Table) -> Float[np.ndarray, "a b"]:
        """The kernel between two tables."""
        if not isinstance(self.kernel, Kernel):
            return function_values(self.kernel, x, y)
        with np.errstate(over="ignore"):
            log_gram = self.kernel._log_gram(x, y)
        return np.expm1(log_gram) if self.constant else np.exp(log_gram)


def kernel_matrix(kernel: Any, rows: Table) -> KernelMatrix:
    """The matrix of a kernel object, or of a user's function, which is checked on a few rows."""
    few = rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), SOME_ROWS)).round().astype(int))]
    if isinstance(kernel, Kernel):
        with np.errstate(over="ignore"):
            usual = np.exp(kernel._log_gram(few, few))
        return KernelMatrix(kernel, rows, float(MOSTLY_ONE < usual.mean() <= 1.0))
    block = function_values(kernel, few, few)
    if not np.allclose(block, block.T, rtol=1e-8, atol=1e-10 * np.abs(block).max()):
        raise ValueError("kernel is not symmetric: k(x, y) differs from k(y, x); give a symmetric kernel")
    refuse_entries(float(np.abs(block).max()))
    return KernelMatrix(kernel, rows, 0.0)


def function_values(function: Callable[[Any, Any], Any], x: Table, y: Table) -> Float[np.ndarray, "a b"]:
    """What a user's function says of these rows: a matrix of finite real numbers, and a copy."""
    found = function(x, y)
    if np.iscomplexobj(found):
        raise ValueError("kernel returned complex numbers; return real ones, such as their real part")
    value = np.array(checks.numbers(found, "what kernel returned"), dtype=float)
    if value.shape != (len(x), len(y)):
        raise ValueError(
            f"kernel must return a matrix of shape {(len(x), len(y))} for tables of "
            f"{len(x)} and {len(y)} rows, but it returned shape {value.shape}"
        )
    if not np.isfinite(value).all():
        raise ValueError("kernel returned values that are not finite; check it on a few rows")
    refuse_entries(max(float(np.abs(value).max(initial=0.0)), 1.0))  # single rectangles may be faint
    return value


@dataclass(frozen=True, eq=False)
class AtPoints:
    """k(x, z) at landmarks z."""

    kernel: Any
    landmarks: Table

    def __call__(self, rows: Rows) -> Float[np.ndarray, "b p"]:
        """Of these rows."""
        if isinstance(self.kernel, Kernel):
            return self.kernel._gram(rows.values, self.landmarks)
        return function_values(self.kernel, rows.values, self.landmarks)


def kernel_member(kernel: Any, x: Table, rng: np.random.Generator) -> FeatureMember:
    """One kernel as Nyström's features of a row, k(x, z) K_zz^{-1/2}."""
    landmarks = x[np.sort(rng.choice(len(x), min(LANDMARKS, len(x)), replace=False))]
    if not isinstance(kernel, Kernel):
        kernel_matrix(kernel, landmarks)  # symmetric, or refused
    features = AtPoints(kernel, landmarks)
    between = features(Rows(None, landmarks))
    if not np.isfinite(between).all():
        seen = "the kernel is not finite: rows or lengthscales are too large or too small for floats"
        raise ValueError(f"{seen}; divide the columns by a constant, or change the lengthscale")
    values, vectors = np.linalg.eigh(0.5 * (between + between.T))
    least = ROUNDING * float(np.abs(values).max())
    if not values[-1] > least and between.any():
        seen = "kernel is not positive definite, so that it has no features: no eigenvalue is positive"
        raise ValueError(f"{seen}; give one that is, or statistic='unbiased'")
    kept = values > least
    linear = vectors[:, kept] / np.sqrt(values[kept]) if kept.any() else np.zeros((len(landmarks), 1))
    return FeatureMember(features, linear.shape[1], (linear.shape[1],), linear)
