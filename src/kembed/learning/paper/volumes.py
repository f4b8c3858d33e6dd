"""Volume elements of the feature map: log γ(x) = ½ log det JᵀJ, J = ∂φ_z/∂x.

Row l of J is exp(a_l) t_l, a weight and a direction. Two ways to the determinant:

- `moment_log_volumes` sums Σ_l exp(2a_l) t_l t_lᵀ. Fast; it says for which rows rounding or underflow may
  have spoilt it (about five digits are the limit, so 1e-11 remain).
- `pivoted_log_volumes` is right for every row. Far from all landmarks one weight dwarfs the others and
  JᵀJ is singular in floating point, though det JᵀJ is not zero. Pivoted Gram-Schmidt picks D landmarks
  whose directions carry the volume; in their basis, with every basis vector given its own scale in log
  space, the matrix has unit-size pivots and nothing underflows. The basis is orthonormal, so the
  determinant is unchanged: nothing is added, nothing is approximated.
"""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from kembed.core.backend import Bool, Float
from kembed.learning.paper.determinants import half_log_det, weighted_scatter

CANCELLATION = 1e-4  # rows whose determinant loses more than this factor to cancellation go the slow way
UNDERFLOW = 1e-90  # sums of squared weights below this are not trusted: second derivatives hold their cubes
# The slow way takes rows in at most so many blocks, of at least so many rows: few enough to compile at once.
BLOCKS, LEAST_BLOCK = 32, 32
IN_SPAN = 1e-14  # a residual this small against its vector is rounding, and the vector lies in the span


def log_volumes(
    B: Float[Array, "c m"],
    X: Float[Array, "c D"],
    Z: Float[Array, "m D"],
    log_weights: Callable[[Float[Array, "b D"]], Float[Array, "b m"]],
) -> Float[Array, " c"]:
    """½ log det Σ_l B_l (x - z_l)(x - z_l)ᵀ with B = exp(2 · log_weights(X)).

    The log weights are a function because only rows that need the slow way need them.
    """
    fast, trusted = moment_log_volumes(B, X, Z)

    def repaired() -> Float[Array, " c"]:
        slow = _for_rows(~trusted, X, lambda rows: pivoted_log_volumes(log_weights(rows), rows[:, None] - Z))
        return jnp.where(trusted, fast, slow)

    return lax.cond(trusted.all(), lambda: fast, repaired)


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
) -> tuple[Float[Array, " c"], Bool[Array, " c"]]:
    """Log volumes from the weighted moments, and whether rounding has left each alone."""
    D = X.shape[1]
    origin = lax.stop_gradient(Z[0])  # a landmark: then x - origin and z - origin round alike
    entries, size = weighted_scatter(B, X - origin, Z - origin)
    i, j = np.triu_indices(D)
    size = lax.stop_gradient(size)
    kept = (entries[i == j] / jnp.where(size > 0.0, size, 1.0)).min(axis=0)
    trusted = (size.min(axis=0) > UNDERFLOW) & (kept > CANCELLATION)
    safe = jnp.where(trusted, entries, (i == j)[:, None] * 1.0)  # identity where not trusted
    scale = jnp.sqrt(safe[i == j])
    unit_diagonal = safe / (scale[i] * scale[j])
    half, least = half_log_det(unit_diagonal, np.full((D, 1), 1e-15))
    trusted &= kept * lax.stop_gradient(least) > CANCELLATION
    return jnp.where(trusted, half + jnp.log(scale).sum(axis=0), 0.0), trusted


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
