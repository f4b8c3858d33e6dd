"""One kernel over all pairs of rows: MMD² from the kernel matrix, for every null distribution.

The matrix is computed in strips and never held whole. MMD² = E k(x,x') + E k(y,y') - 2 E k(x,y) has a biased
estimate, never negative, and an unbiased one (Gretton et al. 2012, Eq. 3 and 5).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from kembed.core.backend import Float, Int
from kembed.features.ensemble import Ensemble, separate_plan
from kembed.features.kernel import KernelMatrix, kernel_matrix
from kembed.kernels.space import Space
from kembed.learning.kernel_words import choose_kernel, for_one_column
from kembed.permutation import nulls
from kembed.permutation.designs import Design, draw_signs, exchange_labels
from kembed.permutation.fusion import Values
from kembed.permutation.pool import Pool
from kembed.testing.outcome import TestOutcome, approximate_outcome, column_evidence, resampled_outcome
from kembed.testing.procedure import Procedure, is_fused

Vector = Float[np.ndarray, " C"]
Columns = Float[np.ndarray, "N C"]
# Of one kernel, for the data and every resample; and the size of an entry of its matrix.
Statistic = Callable[[KernelMatrix], tuple[Vector, float]]
NOTHING = 1e-12  # a trace below this share of what was summed for it is rounding


class MatrixSums(NamedTuple):
    """What statistics need of a kernel matrix: K₀ is K with its diagonal set to 0."""

    quadratic: Vector  # w'K₀w of every column w
    rows: Float[np.ndarray, " N"]  # K₀v
    diagonal: Float[np.ndarray, " N"]  # K_ii
    squares: float  # ‖K₀‖²

    @property
    def usual(self) -> float:
        """Root mean square of the entries off the diagonal."""
        N = len(self.rows)
        return float(np.sqrt(max(self.squares, 0.0) / max(N * (N - 1.0), 1.0)))


def matrix_sums(matrix: KernelMatrix, W: Columns, v: Float[np.ndarray, " N"] | None = None) -> MatrixSums:
    """Sums of a kernel matrix with columns of weights, in one pass over its strips."""
    N = len(matrix.rows)
    v = np.ones(N) if v is None else v
    quadratic, rows, diagonal, squares = np.zeros(W.shape[1]), np.zeros(N), np.empty(N), 0.0
    for part, block in matrix.strips(triangle=True):  # what is right of the diagonal counts twice
        own, right = np.arange(len(block)), slice(part.start, N)
        diagonal[part] = block[own, own]
        block[own, own] = 0.0
        beside = block[:, len(block) :]
        rows[part] += block @ v[right]
        rows[part.stop :] += beside.T @ v[part]
        squares += 2.0 * float(np.square(block).sum()) - float(np.square(block[:, : len(block)]).sum())
        block[:, len(block) :] *= 2.0
        quadratic += np.einsum("ic,ic->c", W[part], block @ W[right])
    return MatrixSums(quadratic, rows, diagonal, squares)


def choose_kernels(kernel: Any, space: Space) -> Ensemble:
    """The kernels that `kernel` stands for, each a group of its own; their matrices are the members."""
    given = kernel if isinstance(kernel, list | tuple) else [kernel]
    if not given:
        raise ValueError("kernel is an empty list; give at least one kernel")
    found = [choose_kernel(one, space) for one in given]
    matrices = tuple(kernel_matrix(chosen, space.values) for chosen, _ in found)
    learned = next(((each,) for _, each in found if each), ())
    return Ensemble(matrices, tuple(chosen for chosen, _ in found), separate_plan(len(found)), learned)


def mmd2(matrix: KernelMatrix, labels: Columns, v: Any = None, *, biased: bool) -> tuple[Vector, float]:
    """MMD² under every labeling of the rows, weighted by v, and the size of a kernel entry."""
    N = len(labels)
    v = np.ones(N) if v is None else v
    W = labels * v[:, None]
    sums = matrix_sums(matrix, W, v)
    first, second = W.sum(axis=0), v.sum() - W.sum(axis=0)
    squares = (v[:, None] * W).sum(axis=0)
    within = first**2 - squares, second**2 - (np.square(v).sum() - squares)
    linear, total = sums.rows @ W, float(sums.rows @ v)
    own, other = sums.quadratic, total - 2.0 * linear + sums.quadratic
    if biased:
        diagonal = sums.diagonal * v @ W
        within = first**2, second**2
        own, other = own + diagonal, other + float(sums.diagonal @ v**2) - diagonal
    values = own / within[0] + other / within[1] - 2.0 * (linear - sums.quadratic) / (first * second)
    return values, sums.usual


def contrast_form(matrix: KernelMatrix, W: Columns) -> tuple[Vector, float]:
    """w'Kw of every column w of weights of the rows, the biased statistic, and the size of a kernel entry."""
    sums = matrix_sums(matrix, W)
    return sums.quadratic + sums.diagonal @ W**2, sums.usual


def values_of(ensemble: Ensemble, statistic: Statistic) -> Values:
    """A statistic of every kernel."""
    values, entry = zip(*map(statistic, ensemble.members), strict=True)
    return Values(np.stack(values, axis=1), np.array(entry)).merged(False)


def permutation_test(pool: Pool, kernel: Any, procedure: Procedure, *, by_column: bool) -> TestOutcome:
    """MMD² for the data and labels of rows exchanged."""
    same = np.zeros(pool.size, dtype=int)
    labels, enumerated = exchange_labels(pool.labels, same, procedure.n_resamples, procedure.rng)

    def statistic(matrix: KernelMatrix) -> tuple[Vector, float]:
        return mmd2(matrix, labels, pool.weights, biased=procedure.biased)

    return _tested(pool, kernel, by_column, statistic, not procedure.biased, enumerated)


def paired_test(pool: Pool, kernel: Any, procedure: Procedure, *, by_column: bool) -> TestOutcome:
    """MMD² for the data and for pairs whose sides are swapped."""
    signs, enumerated = draw_signs(pool.signs, procedure.n_resamples, procedure.rng)
    W, n = np.concatenate([signs, -signs]), len(signs)

    def statistic(matrix: KernelMatrix) -> tuple[Vector, float]:
        if procedure.biased:
            return contrast_form(matrix, W / n)
        sums = matrix_sums(matrix, W)
        first, second = np.split(matrix.rows, 2)
        between = sum(float(matrix.block(first[[i]], second[[i]])[0, 0]) for i in range(n))
        return (sums.quadratic + 2.0 * between) / (n * (n - 1.0)), sums.usual

    return _tested(pool, kernel, by_column, statistic, not procedure.biased, enumerated)


def design_test(
    pool: Pool,
    own: Int[np.ndarray, " N"],
    count: int,
    design: Design,
    kernel: Any,
    procedure: Procedure,
    by_column: bool,
) -> TestOutcome:
    """The biased statistic of pooled rows, the bin of each of them given, under any design."""
    weights = np.ones(pool.size) if pool.weights is None else pool.weights
    draws = design.draw(np.bincount(own, weights, count), procedure.n_resamples, procedure.rng)

    def statistic(matrix: KernelMatrix) -> tuple[Vector, float]:
        parts = [(factor, *contrast_form(matrix, W[own] * weights[:, None])) for factor, W in draws.terms]
        return np.sum([factor * values for factor, values, _ in parts], axis=0), parts[0][2]

    return _tested(pool, kernel, by_column, statistic, False, draws.enumerated)


def _tested(
    pool: Pool, kernel: Any, by_column: bool, statistic: Statistic, unbiased: bool, enumerated: bool
) -> TestOutcome:
    """The test of all columns together, and of each individually."""
    ensemble, columns = choose_kernels(kernel, pool.space), None
    if by_column:
        own = [
            choose_kernels(for_one_column(kernel, name), pool.space.column(c))
            for c, name in enumerate(pool.names)
        ]
        columns = column_evidence(pool.names, own, [values_of(each, statistic) for each in own])
    name, values = "MMD²" if unbiased else "biased MMD²", values_of(ensemble, statistic)
    return resampled_outcome(name, pool.sizes, ensemble, values, "permutation", enumerated, columns)


def one_kernel(kernel: Any, space: Space, procedure: Procedure) -> Ensemble:
    """A kernel and its matrix; several are refused."""
    if is_fused(kernel) or (isinstance(kernel, list | tuple) and len(kernel) > 1):
        seen = f"null={procedure.null!r} takes one kernel, but kernel stands for several"
        raise ValueError(f"{seen}; give kernel='bkl', kernel='median' or a kernel object (--kernel)")
    return choose_kernels(kernel, space)


def approximate_test(pool: Pool, kernel: Any, procedure: Procedure) -> TestOutcome:
    """Gamma or spectral null: (1/n + 1/m) Σ λ_l z_l², the eigenvalues of the centred matrix over N."""
    ensemble, (n, m) = one_kernel(kernel, pool.space, procedure), pool.sizes
    (matrix,) = ensemble.members
    value, _ = mmd2(matrix, pool.labels[:, None], biased=procedure.biased)
    trace, squares = centred_moments(matrix_sums(matrix, np.zeros((pool.size, 0))))
    factor = 1.0 / n + 1.0 / m
    moments = factor * trace / pool.size, 2.0 * (factor / pool.size) ** 2 * squares
    null = float(value[0]), moments, lambda: factor * nulls.spectrum(matrix, procedure.rng)
    return approximate_outcome("MMD²", pool.sizes, ensemble, procedure, *null)


def centred_moments(sums: MatrixSums) -> tuple[float, float]:
    """trace HKH and ‖HKH‖²; 0 where all is rounding."""
    N, diagonal = len(sums.rows), sums.diagonal
    whole = sums.rows + diagonal
    total = float(whole.sum())
    trace = float(diagonal.sum()) - total / N
    norm = sums.squares + float(diagonal @ diagonal) - 2.0 * float(whole @ whole) / N + total**2 / N**2
    if trace <= NOTHING * float(np.abs(whole).mean() + np.abs(diagonal).sum()):
        return 0.0, 0.0
    return trace, max(norm, 0.0)
