"""Volume elements of the feature map: log γ(x) = ½ log det JᵀJ, J = ∂φ_z/∂x.

Row l of J is exp(a_l) t_l, a weight and a direction. Two ways to the determinant:

- `moment_log_volumes` sums Σ_l exp(2a_l) t_l t_lᵀ as one matrix product. Fast; it says for which rows
  rounding or underflow may have spoilt it (about five digits are the limit, so 1e-11 remain).
- `pivoted_log_volumes` is right for every row. Far from all landmarks one weight dwarfs the others and
  JᵀJ is singular in floating point, though det JᵀJ is not zero. Pivoted Gram-Schmidt picks D landmarks
  whose directions carry the volume; in their basis, with every basis vector given its own scale in log
  space, the matrix has unit-size pivots and nothing underflows. The basis is orthonormal, so the
  determinant is unchanged: nothing is added, nothing is approximated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

    Array = jax.Array

# Rows whose determinant loses more than this factor to cancellation go the slow way.
CANCELLATION = 1e-4
# Sums of squared weights below this are not trusted: second derivatives hold their cubes.
UNDERFLOW = 1e-90
# The slow way takes rows in at most so many blocks, of at least so many rows.
BLOCKS, LEAST_BLOCK = 32, 32
# A residual this small against its vector is rounding, and the vector lies in the span.
IN_SPAN = 1e-14
# Up to here a Cholesky unrolled over rows beats a LAPACK call per row.
UNROLLED_DIMENSIONS = 6


def log_volumes(
    B: Float[Array, "c m"],
    X: Float[Array, "c D"],
    Z: Float[Array, "m D"],
    log_weights: Callable[[Float[Array, "b D"]], Float[Array, "b m"]],
) -> tuple[Float[Array, " c"], Float[Array, " c"]]:
    """½ log det Σ_l B_l (x - z_l)(x - z_l)ᵀ with B = exp(2 · log_weights(X)), and Σ_l B_l.

    The log weights are a function because only rows that need the slow way need them.
    """
    fast, trusted, total = moment_log_volumes(B, X, Z)

    def repaired() -> Float[Array, " c"]:
        slow = _for_rows(~trusted, X, lambda rows: pivoted_log_volumes(log_weights(rows), rows[:, None] - Z))
        return jnp.where(trusted, fast, slow)

    return lax.cond(trusted.all(), lambda: fast, repaired), total


def _for_rows(
    wanted: Bool[Array, " c"], X: Float[Array, "c D"], function: Callable[[Array], Array]
) -> Float[Array, " c"]:
    """function(X) on the wanted rows and 0 elsewhere, at a cost in proportion to how many are wanted.

    Wanted rows are moved to the front; blocks of rows are then computed until none is left. A bounded scan
    and not a while loop, so that it can be differentiated backwards.
    """
    c = X.shape[0]
    block = max(min(c, LEAST_BLOCK), -(-c // BLOCKS))
    blocks = -(-c // block)
    front = jnp.argsort(~wanted, stable=True)
    rows = X[jnp.resize(front, (blocks * block,))].reshape(blocks, block, -1)
    count = wanted.sum()

    def step(_: None, numbered: tuple[Array, Array]) -> tuple[None, Array]:
        index, chunk = numbered
        needed = index * block < count
        return None, lax.cond(needed, lambda: function(chunk), lambda: jnp.zeros(block))

    values = lax.scan(step, None, (jnp.arange(blocks), rows))[1].reshape(-1)[:c]
    return jnp.where(wanted, jnp.zeros(c).at[front].set(values), 0.0)


def moment_log_volumes(
    B: Float[Array, "c m"], X: Float[Array, "c D"], Z: Float[Array, "m D"]
) -> tuple[Float[Array, " c"], Bool[Array, " c"], Float[Array, " c"]]:
    """Log volumes from the weighted moments, whether each can be trusted, and Σ_l B_l."""
    D = X.shape[1]
    if D == 1:
        ones = jnp.ones(len(Z))
        second = (B * (X - Z[:, 0]) ** 2) @ ones  # by differences: in one dimension nothing cancels
        trusted = second > UNDERFLOW
        return 0.5 * jnp.log(jnp.where(trusted, second, 1.0)), trusted, B @ ones

    i, j = np.triu_indices(D)
    origin = lax.stop_gradient(Z[0])  # a landmark: then x - origin and z - origin round alike
    x, z = X - origin, Z - origin
    moments = (B @ jnp.concatenate([jnp.ones((len(Z), 1)), z, z[:, i] * z[:, j]], axis=1)).T
    S0, S1, S2 = moments[0], moments[1 : D + 1], moments[D + 1 :]
    x = x.T
    entries = S2 - x[i] * S1[j] - S1[i] * x[j] + S0 * x[i] * x[j]
    return *checked_half_log_det(entries, S2[i == j] + S0 * x**2, D), S0


def checked_half_log_det(
    entries: Float[Array, "T c"], size: Float[Array, "D c"], D: int
) -> tuple[Float[Array, " c"], Bool[Array, " c"]]:
    """½ log det of matrices given by their upper triangles, and whether rounding has left it alone.

    `size` is what the diagonal was before terms cancelled.
    """
    i, j = np.triu_indices(D)
    size = lax.stop_gradient(size)
    kept = (entries[i == j] / jnp.where(size > 0.0, size, 1.0)).min(axis=0)
    trusted = (size.min(axis=0) > UNDERFLOW) & (kept > CANCELLATION)
    safe = jnp.where(trusted, entries, (i == j)[:, None] * 1.0)  # identity where not trusted
    log_det, least_pivot = _log_det(safe, D)
    trusted &= kept * least_pivot > CANCELLATION
    return jnp.where(trusted, 0.5 * log_det, 0.0), trusted


def _log_det(entries: Float[Array, "T c"], D: int) -> tuple[Float[Array, " c"], Float[Array, " c"]]:
    """log det of symmetric matrices given by their upper triangles, and the least relative pivot."""
    i, j = np.triu_indices(D)
    diagonal = jnp.maximum(entries[i == j], 0.0)
    scale = jnp.sqrt(diagonal)
    H = entries / (scale[i] * scale[j])  # unit diagonal
    if D <= UNROLLED_DIMENSIONS:
        pivots = _unrolled_pivots(
            {(int(a), int(b)): H[t] for t, (a, b) in enumerate(zip(i, j, strict=True))}, D
        )
    else:
        full = jnp.zeros((D, D, entries.shape[1])).at[i, j].set(H).at[j, i].set(H)
        lower = jnp.linalg.cholesky(jnp.moveaxis(full, -1, 0))
        pivots = (jnp.diagonal(lower, axis1=1, axis2=2) ** 2).T
    least = lax.stop_gradient(jnp.where(jnp.isnan(pivots), 0.0, pivots).min(axis=0))
    ok = least > CANCELLATION / 10.0  # keeps a NaN out of the gradient of a value nobody will use
    return jnp.log(diagonal).sum(axis=0) + jnp.log(jnp.where(ok, pivots, 1.0)).sum(axis=0), least


def _unrolled_pivots(H: dict[tuple[int, int], Array], D: int) -> Array:
    """Pivots of the LDLᵀ factorisation, each an array over rows."""
    A = dict(H)
    pivots = []
    for a in range(D):
        pivot = A[a, a]
        pivots.append(pivot)
        safe = jnp.where(pivot > 0.0, pivot, 1.0)
        for b in range(a + 1, D):
            for c in range(b, D):
                A[b, c] = A[b, c] - A[a, b] * A[a, c] / safe
    return jnp.stack(pivots)


def pivoted_log_volumes(a: Float[Array, "c m"], t: Float[Array, "c m D"]) -> Float[Array, " c"]:
    """½ log det Σ_l exp(2a_l) t_l t_lᵀ, stable for any finite a; -∞ where fewer than D directions remain."""
    D = t.shape[2]
    width = lax.stop_gradient(jnp.abs(t).max(axis=1))  # columns of one size, so that none drowns another
    width = jnp.where(width > 0.0, width, 1.0)
    t = t / width[:, None, :]
    order, ok = lax.stop_gradient(_pivot_order(a, t))  # (c, m): j at the j-th pivot, D elsewhere
    pivot = jnp.argmax(order[:, None, :] == jnp.arange(D)[:, None], axis=2)  # (c, D)
    directions = jnp.take_along_axis(t, pivot[:, :, None], axis=1)  # (c, D, D), rows t at pivots
    U = jnp.linalg.qr(jnp.swapaxes(directions, 1, 2))[0]  # columns: orthonormal basis
    along = jnp.einsum("cld,cdj->clj", t, U)
    at_pivot = jnp.take_along_axis(along, pivot[:, None, :], axis=1)[:, 0, :]
    scale = jnp.take_along_axis(a, pivot, axis=1) + jnp.log(jnp.abs(at_pivot))
    # (c, D): it cancels exactly, so its derivative does too
    scale = lax.stop_gradient(jnp.where(ok[:, None], scale, 0.0))
    # Earlier pivots have no component along later basis vectors, identically in the hyperparameters.
    # Nor has a heavier row that lies in their span (one at x itself, say): what shows there is rounding.
    exponent = a[:, :, None] - scale[:, None, :]
    length = jnp.sqrt((t**2).sum(axis=2))[:, :, None]
    spanned = (exponent > 0.0) & (jnp.abs(along) <= IN_SPAN * length)
    none = lax.stop_gradient((order[:, :, None] < jnp.arange(D)) | spanned)
    T = jnp.exp(jnp.where(none, -jnp.inf, exponent)) * jnp.where(none, 0.0, along)
    G = jnp.where(ok[:, None, None], jnp.einsum("clj,clk->cjk", T, T), jnp.eye(D))
    lower = jnp.linalg.cholesky(G)
    value = (scale + jnp.log(width)).sum(axis=1) + jnp.log(jnp.diagonal(lower, axis1=1, axis2=2)).sum(axis=1)
    return jnp.where(ok, value, -jnp.inf)


def _pivot_order(a: Float[Array, "c m"], t: Float[Array, "c m D"]) -> tuple[Array, Array]:
    """Which landmark is the j-th pivot (the largest exp(a_l)·|residual of t_l|), and whether all D exist."""
    c, m, D = t.shape
    rows = jnp.arange(c)

    def step(j: int, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        residual, order, ok = state
        norm = jnp.sqrt((residual**2).sum(axis=2))
        score = jnp.where((order == D) & (norm > 0.0), a + jnp.log(norm), -jnp.inf)
        best = jnp.argmax(score, axis=1)
        length = norm[rows, best][:, None]
        direction = residual[rows, best] / jnp.where(length > 0.0, length, 1.0)
        ok = ok & jnp.isfinite(score.max(axis=1))
        # Twice is enough: the second projection removes what rounding left of the first.
        for _ in range(2):
            residual = residual - (residual @ direction[:, :, None]) * direction[:, None, :]
        left = jnp.sqrt((residual**2).sum(axis=2)) > IN_SPAN * length_of_t
        residual = jnp.where(left[:, :, None], residual, 0.0)
        return residual.at[rows, best].set(0.0), order.at[rows, best].set(j), ok

    length_of_t = jnp.sqrt((t**2).sum(axis=2))
    start = (t, jnp.full((c, m), D), jnp.ones(c, bool))
    return lax.fori_loop(0, D, step, start)[1:]
