"""Where do two distributions differ? The posterior of the witness function: `witness`."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from kembed.comparing.bands import Difference, balanced_rows, even_grid
from kembed.comparing.witnessed import Witness
from kembed.core import checks
from kembed.core.backend import to_numpy
from kembed.core.ordering import sorted_rows
from kembed.data.pool import make_pool
from kembed.data.space import Space, make_space
from kembed.data.tables import Table, read_tables
from kembed.embeddings.landmarks import choose_landmarks
from kembed.embeddings.posterior import fit_with_pseudo_rows
from kembed.kernels.base import Kernel
from kembed.kernels.measures import EmpiricalMeasure
from kembed.learning.kernel_samples import KernelSamples
from kembed.testing.choice import choose

if TYPE_CHECKING:
    from jaxtyping import Float

MINIMUM_ROWS = 5  # that a kernel can be learned from
# Landmarks where the embeddings are observed, and point masses of ν, half from each sample.
LANDMARKS = 300
MASSES = 1_000
LEARNING_ROWS = 5_000
# Agresti & Coull's four rows, so that a rare level that a sample has not shown yet stays possible.
PSEUDO_ROWS = 4.0


def witness(
    x: Any,
    y: Any,
    *,
    kernel: Any = "bkl",
    level: float = 0.9,
    landmarks: Any = None,
    n_kernels: int = 50,
    nan_policy: str = "raise",
    rng: Any = 0,
) -> Witness:
    """The witness function μ_x - μ_y with its uncertainty: where two samples differ, and by how much.

    It is positive where x has more mass than y, on the scale of the kernel. Its posterior is that of two
    independent embeddings (Eq. 8 of the paper) with the noise of the central limit theorem. In the prior ν
    is half of either sample, so that the true witness is ∫ k(·, u) h(u) ν(du) with |h| ≤ 2.

    Parameters
    ----------
    x, y
        Samples, one row an observation: arrays, or data frames with the same columns. Text and categories are
        compared as equal or not.
    kernel
        - `"bkl"`: learned from the pooled sample (default); `"ard"`: with a lengthscale for each column;
        - `"median"`: the median heuristic;
        - a kernel object in your units, or a `LearnedKernel`;
        - `KernelSamples` of `sample_kernel`: the witness is integrated over these hyperparameters.
    level
        Level of the bands and of `where`, unless they are asked for another.
    landmarks
        Where the embeddings are observed: None (150 rows of each sample; for one column 100 of each and a
        grid), a number, a rule, or points.
    n_kernels
        With `KernelSamples`, how many kernels to draw.
    nan_policy
        `"raise"` or `"omit"` (drop rows with missing values).
    rng
        Seed of draws, landmarks and resampling. The default is a fixed one, so that the same data always give
        the same picture.

    Examples
    --------
    >>> import numpy as np
    >>> from kembed import witness
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(300, 2)), rng.normal(size=(300, 2))
    >>> y[:, 1] += 1.0
    >>> w = witness(x, y, kernel="median")
    >>> [(test.name, test.adjusted_pvalue) for test in w.column_tests]
    [('column 0', 0.8), ('column 1', 0.001)]

    """
    level = checks.level(level)
    n_kernels = checks.count(n_kernels, "n_kernels")
    checks.choice(nan_policy, "nan_policy", ("raise", "omit"))
    (first, second), _ = read_tables(
        {"x": x, "y": y}, nan_policy=nan_policy, same_columns=True, paired=False, minimum=2
    )
    seed = int(checks.generator(rng).integers(2**31))
    return of_tables((first, second), kernel, level, landmarks, n_kernels, seed)


def of_tables(
    tables: tuple[Table, Table], kernel: Any, level: float, landmarks: Any, n_kernels: int, seed: int
) -> Witness:
    """The witness of two checked tables."""
    x, y = (sorted_rows(table.values) for table in tables)  # so that no bit depends on the order of rows
    pool = make_pool(list(tables), None, "none")
    kernels, shown, learned = _kernels(kernel, thinned(pool.space, seed), n_kernels, seed, tables)
    z = _landmarks(x, y, landmarks, bool(tables[0].categorical.any()), seed)
    measure = half_of_each(x, y, seed)
    pairs = tuple(
        (
            fit_with_pseudo_rows(x, to_numpy(one), measure, z, PSEUDO_ROWS),
            fit_with_pseudo_rows(y, to_numpy(one), measure, z, PSEUDO_ROWS),
        )
        for one in kernels
    )
    return Witness(shown, learned, level, tables, pool, Difference(pairs), seed)


def _kernels(
    kernel: Any, space: Any, n_kernels: int, seed: int, tables: tuple[Table, Table]
) -> tuple[list[Kernel], Any, Any]:
    """The kernels to average over, what to show for them, and what was learned."""
    if isinstance(kernel, KernelSamples):
        if tables[0].categorical.any():
            raise ValueError("kernel=KernelSamples is for numeric columns; drop the columns with categories")
        drawn: list[Kernel] = list(kernel.kernels(n_kernels, seed))
        return drawn, drawn, kernel.learned.evidence()
    if isinstance(kernel, str) and kernel in ("bkl", "ard") and len(space.values) < MINIMUM_ROWS:
        warnings.warn(
            f"{len(space.values)} rows are too few to learn a kernel; the median heuristic is used",
            UserWarning,
            stacklevel=4,
        )
        kernel = "median"
    if callable(kernel) and not isinstance(kernel, Kernel):
        raise TypeError(
            "kernel must be a word or a kernel object here; a plain function has no known diagonal"
        )
    choice = choose(kernel, space, np.random.default_rng(seed), single="a witness")
    (chosen,) = choice.kernels
    return [chosen], chosen, next(iter(choice.learned), None)


def thinned(space: Space, seed: int) -> Space:
    """At most 5,000 rows: a lengthscale is known well enough from them."""
    if len(space.values) <= LEARNING_ROWS:
        return space
    chosen = np.random.default_rng(seed).choice(len(space.values), LEARNING_ROWS, replace=False)
    return make_space(space.values[np.sort(chosen)], space.categorical)  # pooled rows are in sorted order


def _landmarks(
    x: Float[np.ndarray, "n D"], y: Float[np.ndarray, "m D"], landmarks: Any, discrete: bool, seed: int
) -> Float[np.ndarray, "m D"]:
    if landmarks is None and (discrete or x.shape[1] > 1):
        return np.unique(balanced_rows(x, y, LANDMARKS, seed), axis=0)
    if landmarks is None:  # a third on a grid, so that no gap between rows goes unobserved
        rows = balanced_rows(x, y, 2 * LANDMARKS // 3, seed)
        return np.unique(np.concatenate([rows, even_grid(x, y, LANDMARKS // 3)]), axis=0)
    return choose_landmarks(np.concatenate([x, y]), landmarks, rng=seed)


def half_of_each(x: Float[np.ndarray, "n D"], y: Float[np.ndarray, "m D"], seed: int) -> EmpiricalMeasure:
    """ν = ½ of either sample, thinned to at most 1,000 point masses."""
    rows = balanced_rows(x, y, MASSES, seed)
    n = min(MASSES // 2, len(x))
    m = len(rows) - n
    return EmpiricalMeasure(rows, np.concatenate([np.full(n, 0.5 / n), np.full(m, 0.5 / m)]))


def of_column(joint: Witness, name: str | int) -> Witness:
    """The witness of one column by itself."""
    if str(name) in joint.names:
        d = joint.names.index(str(name))
    elif isinstance(name, int | np.integer) and not isinstance(name, bool) and 0 <= name < len(joint.names):
        d = int(name)
    else:
        names = ", ".join(map(repr, joint.names))
        raise ValueError(f"name must be one of {names}, or a place from 0, but {name!r} was given")
    first, second = (
        Table(
            np.ascontiguousarray(table.values[:, [d]]),
            (table.names[d],),
            table.categorical[[d]],
            table.rows,
            table.given,
            (table.levels[d],),
        )
        for table in joint.tables
    )
    return of_tables((first, second), "bkl", joint.level, None, 1, joint.seed)
