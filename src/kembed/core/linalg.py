"""Linear algebra that is our own: exact distances, factorisations that say what they added."""

from typing import Any, NamedTuple

import numpy as np

from kembed.core.backend import Array, Float, namespace

LEAST = -700.0  # whose `exp` is an ordinary number: those too small for one take ten times as long
# Squared distances are expanded from so many columns on; those below the first share of the norms are taken
# by differences, and all are if more than the second share are.
WIDE, LOST, MANY_CLOSE = 24, 1e-3, 0.02
IN_CACHE = 2**15  # distances worked on at once: with their differences half a megabyte


def safe_sqrt(s: Any) -> Any:
    """√s whose derivative at 0 is taken as 0, so that a zero distance gives no NaN."""
    xp = namespace(s)
    return xp.where(s > 0.0, xp.sqrt(xp.where(s > 0.0, s, 1.0)), 0.0)


def squared_distances(X: Float[Array, "n D"], Y: Float[Array, "m D"]) -> Float[Array, "n m"]:
    """|x_i - y_j|² by differences, one coordinate at a time.

    Slower than |x|² + |y|² - 2x·y in high dimension, but exact: the expansion loses all digits of a
    distance that is small against the norms. Memory is little more than the result, whatever D.
    """
    if namespace(X, Y) is not np:
        if X.shape[1] > 16:  # unrolled coordinates run faster, but compile longer
            return ((X[:, None, :] - Y[None, :, :]) ** 2).sum(axis=-1)
        return sum((X[:, d, None] - Y[None, :, d]) ** 2 for d in range(X.shape[1]))
    total, columns = np.zeros((X.shape[0], Y.shape[0])), np.ascontiguousarray(Y.T)
    rows = max(1, IN_CACHE // max(Y.shape[0], 1))
    difference = np.empty_like(total[:rows])
    for start in range(0, X.shape[0], rows):
        some = total[start : start + rows]
        own = difference[: len(some)]
        for d, column in enumerate(columns):
            np.subtract(X[start : start + rows, d, None], column, out=own)
            np.multiply(own, own, out=own)
            some += own
    return total


def expanded_squares(X: Float[Array, "n D"], Y: Float[Array, "m D"]) -> Float[Array, "n m"]:
    """|x_i - y_j|² of many columns, by |x|² + |y|² - 2x·y about the mean of Y where that loses no digits.

    Distances that are small against the norms are taken by differences; all are where those are many.
    """
    if namespace(X, Y) is not np or X.shape[1] < WIDE or not len(X) or not len(Y):
        return squared_distances(X, Y)
    centre = Y.mean(axis=0)
    x = X - centre
    y = x if X is Y else Y - centre  # the matrix is symmetric to the last bit then
    norms = np.einsum("id,id->i", x, x)[:, None] + np.einsum("jd,jd->j", y, y)
    total = norms - 2.0 * (x @ y.T)
    close = ~(total > LOST * norms)  # nan and what is not finite too
    count = np.count_nonzero(close)
    if count > max(len(X), len(Y), MANY_CLOSE * total.size):
        return squared_distances(X, Y)
    rows, columns = np.nonzero(close)
    total[rows, columns] = np.square(X[rows] - Y[columns]).sum(axis=1)
    return total


def scaled_squares(X: Float[Array, "n D"], Y: Float[Array, "m D"], scale: Any) -> Float[Array, "n m"]:
    """Σ_d ((x_d - y_d)/scale_d)², for scales whose squares are no numbers: differences are divided first."""
    total = np.zeros((len(X), len(Y)))
    for d, size in enumerate(np.broadcast_to(scale, X.shape[1])):
        total += ((X[:, d, None] - Y[None, :, d]) / size) ** 2
    return total


def median_of_pairs(matrix: Float[Array, "n n"]) -> float:
    """The median over pairs i < j; over those above 0 where most are 0; 0 if all are."""
    pairs = np.concatenate([row[i:] for i, row in enumerate(matrix, 1)]) if len(matrix) else matrix.ravel()
    middle = float(np.median(pairs)) if len(pairs) else 0.0
    return float(np.median(pairs[pairs > 0.0])) if middle == 0.0 and pairs.any() else middle


def robust_spread(offsets: Float[Array, "n E"]) -> Any:
    """1.4826 median absolute deviations of every column about 0; the standard deviation where that is 0."""
    away = np.abs(offsets)  # the factor makes it the standard deviation of a normal distribution
    mad, size = 1.4826 * np.median(away, axis=0), away.max(axis=0)
    sd = size * (offsets / np.where(size > 0.0, size, 1.0)).std(axis=0)  # squares of 1e200 are no numbers
    return np.where(mad > 0.0, mad, sd)


def log_sum_exp(values: Any, axis: int | None = None) -> Any:
    """log Σ exp along an axis, over everything without one, -∞ where all are; in NumPy or JAX."""
    xp = namespace(values)
    top = values.max(axis=axis, keepdims=True)
    some = top > -np.inf
    top = xp.where(some, top, 0.0)
    shifted = values - top
    if xp is np:
        if some.all():  # the largest term is 1, beside which exp(LEAST) is nothing
            np.maximum(shifted, LEAST, out=shifted)
        total = np.exp(shifted, out=shifted).sum(axis=axis)
    else:
        total = xp.exp(shifted).sum(axis=axis)
    with np.errstate(divide="ignore"):
        return top.reshape(total.shape) + xp.log(total)


def log_gamma(value: Any) -> Any:
    """The function log Γ for NumPy, or for JAX where `value` is of JAX."""
    if namespace(value) is np:
        from scipy.special import gammaln
    else:
        from jax.scipy.special import gammaln
    return gammaln


def triangular_solve(lower: Float[Array, "D D"], right: Float[Array, "D n"], transposed: bool = False) -> Any:
    """L⁻¹ B for a lower triangular L, or L⁻ᵀ B."""
    if namespace(lower, right) is np:
        from scipy.linalg import solve_triangular
    else:
        from jax.scipy.linalg import solve_triangular
    return solve_triangular(lower, right, lower=True, trans=int(transposed))


def psd_root(matrix: Float[Array, "D D"]) -> Any:
    """F with F Fᵀ = A, for a positive semidefinite A that may be singular."""
    xp = namespace(matrix)

    def by_eigenvalues(fixed: Any) -> Any:
        eigenvalues, vectors = xp.linalg.eigh(fixed)
        return vectors * xp.sqrt(xp.maximum(eigenvalues, 0.0))

    if xp is np:
        return by_eigenvalues(matrix)
    import jax

    fixed = jax.lax.stop_gradient(matrix)  # if singular, no derivative exists in the singular directions
    regular = xp.isfinite(xp.linalg.cholesky(fixed)).all()
    return jax.lax.cond(regular, lambda: xp.linalg.cholesky(matrix), lambda: by_eigenvalues(fixed))


def principal_axes(rows: Float[Array, "n D"]) -> tuple[Float[Array, " E"], Float[Array, "D E"]]:
    """The axes of rows about 0, longest first, and the root of the sum of squares along each."""
    n, D = rows.shape
    if n < D:  # thousands of columns: rows span no more axes than there are rows
        lengths, axes = np.linalg.svd(rows, full_matrices=False)[1:]
        return lengths, axes.T
    eigenvalues, axes = np.linalg.eigh(rows.T @ rows)
    return np.sqrt(np.maximum(eigenvalues[::-1], 0.0)), axes[:, ::-1]


class Cholesky(NamedTuple):
    """The lower factor L of A + jitter · I = LLᵀ, with the jitter that was needed (0 if none)."""

    lower: Float[Array, "m m"]
    jitter: float = 0.0

    def solve(self, right: Any) -> Any:
        """A⁻¹ B, in NumPy."""
        from scipy.linalg import cho_solve

        return cho_solve((self.lower, True), right)

    def half_solve(self, right: Any) -> Any:
        """L⁻¹ B."""
        return triangular_solve(self.lower, right)

    @property
    def log_det(self) -> Any:
        """log |A|."""
        xp = namespace(self.lower)
        return 2.0 * xp.log(xp.diagonal(self.lower)).sum()


def pivoted_cholesky(matrix: Float[np.ndarray, "m m"], share: float) -> tuple[Any, Float[np.ndarray, "r r"]]:
    """Rows p that stand for all, and the lower factor of A[p, p] = LLᵀ, of a positive semidefinite A.

    Rows are taken while those before them leave more than this share of the largest diagonal entry unsaid.
    """
    from scipy.linalg.lapack import dpstrf

    size = float(np.diagonal(matrix).max())
    factor, pivots, rank, _ = dpstrf(matrix.T, tol=share * size, lower=1)  # symmetric: LAPACK's order
    rank = max(int(rank), 1)
    return pivots[:rank] - 1, np.tril(factor[:rank, :rank])


def cholesky(matrix: Float[Array, "m m"], *, well_conditioned: bool = False) -> Cholesky:
    """Factorise a symmetric matrix that is positive semidefinite up to rounding.

    Rounding leaves eigenvalues of about ±ε·‖A‖ where exact ones are smaller. The least of
    0, 1e-14, 1e-13, … 1e-8 times the mean diagonal that makes the factorisation succeed is added, and
    reported; beyond that the matrix is not positive semidefinite and we say so. With `well_conditioned` a
    factorisation counts as a success only if the reciprocal condition number (LAPACK's estimate) exceeds
    ε: a factor beyond that is made of rounding errors, though LAPACK returns one.
    """
    from scipy.linalg.lapack import dpocon

    m, scale = len(matrix), float(np.mean(np.diagonal(matrix)))
    if not np.isfinite(matrix).all():
        seen = "a covariance matrix is not finite: rows or lengthscales are too large or too small for floats"
        raise np.linalg.LinAlgError(f"{seen}; divide the columns by a constant, or change the lengthscale")
    least = np.finfo(float).eps if well_conditioned else -1.0
    for relative in (0.0, *(10.0**power for power in range(-14, -7))):
        try:
            lower = np.linalg.cholesky(matrix + relative * scale * np.eye(m))
        except np.linalg.LinAlgError:
            continue
        if dpocon(lower, np.abs(matrix).sum(axis=0).max(), uplo="L")[0] > least:
            return Cholesky(lower, relative * scale)
    raise np.linalg.LinAlgError(
        "a covariance matrix is not positive semidefinite (smallest eigenvalue "
        f"{np.linalg.eigvalsh(matrix)[0]:.3g}, mean diagonal {scale:.3g})"
    )


def near_one(values: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n D"]:
    """Columns less their medians, over powers of two near their ranges: squares are numbers.

    >>> near_one(np.array([[1e300, 7.0], [2e300, 7.0], [5e300, 7.0]])).round(3)
    array([[-0.187,  0.   ],
           [ 0.   ,  0.   ],
           [ 0.56 ,  0.   ]])
    """
    moved = values - np.median(values, axis=0)
    return np.ldexp(moved, -np.frexp(np.abs(moved).max(axis=0, initial=0.0))[1])
