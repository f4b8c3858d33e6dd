"""Volume elements of the feature map: log γ(x) = ½ log det JᵀJ, J = ∂φ_z/∂x.

Row l of J is exp(a_l) t_l, a weight and a direction. Two ways to the determinant:

- `moment_log_volumes` sums Σ_l exp(2a_l) t_l t_lᵀ. Fast; it says for which rows rounding or underflow may
  have spoilt it (about five digits are the limit, so 1e-11 remain).
- `pivoted_log_volumes` is right for every row. Far from all landmarks one weight dwarfs the others and
  JᵀJ is singular in floating point, though det JᵀJ is not zero. Pivoted Gram-Schmidt picks D landmarks
  whose directions carry the volume; in their basis, with every basis vector given its own scale in log
  space, the matrix has unit-size pivots and nothing underflows. The basis is orthonormal, so the
  determinant is unchanged: nothing is added, nothing is approximated.

Everything here is written for NumPy and JAX alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jax import Array, lax

from kembed.core.backend import Bool, Float, namespace
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
    xp = namespace(B)
    fast, trusted = moment_log_volumes(B, X, Z)

    def slow(rows: Float[Array, "b D"]) -> Float[Array, " b"]:
        return pivoted_log_volumes(log_weights(rows), rows[:, None] - Z)

    if xp is np:
        if not trusted.all():
            fast[~trusted] = slow(X[~trusted])
        return fast
    return lax.cond(
        trusted.all(), lambda: fast, lambda: xp.where(trusted, fast, _for_rows(~trusted, X, slow))
    )


def _fixed(value: Any) -> Any:
    """The value, which is no function of anything where JAX differentiates."""
    return value if namespace(value) is np else lax.stop_gradient(value)


def _for_rows(
    wanted: Bool[Array, " c"], X: Float[Array, "c D"], function: Callable[[Array], Array]
) -> Float[Array, " c"]:
    """function(X) on the wanted rows and 0 elsewhere, at a cost in proportion to how many are wanted.

    Wanted rows are moved to the front; blocks of rows are then computed until none is left. A bounded scan
    and not a while loop, so that it can be differentiated backwards.
    """
    xp = namespace(X)
    c = X.shape[0]
    block = max(min(c, LEAST_BLOCK), -(-c // BLOCKS))
    blocks = -(-c // block)
    front = xp.argsort(~wanted, stable=True)
    rows = X[xp.resize(front, (blocks * block,))].reshape(blocks, block, -1)
    count = wanted.sum()

    def step(_: None, numbered: tuple[Array, Array]) -> tuple[None, Array]:
        index, chunk = numbered
        needed = index * block < count
        return None, lax.cond(needed, lambda: function(chunk), lambda: xp.zeros(block))

    values = lax.scan(step, None, (xp.arange(blocks), rows))[1].reshape(-1)[:c]
    return xp.where(wanted, xp.zeros(c).at[front].set(values), 0.0)


def moment_log_volumes(
    B: Float[Array, "c m"], X: Float[Array, "c D"], Z: Float[Array, "m D"]
) -> tuple[Float[Array, " c"], Bool[Array, " c"]]:
    """Log volumes from the weighted moments, and whether rounding has left each alone."""
    D = X.shape[1]
    xp = namespace(B)
    origin = _fixed(Z[0])  # a landmark: then x - origin and z - origin round alike
    entries, size = weighted_scatter(B, X - origin, Z - origin)
    i, j = np.triu_indices(D)
    size = _fixed(size)
    kept = (entries[i == j] / xp.where(size > 0.0, size, 1.0)).min(axis=0)
    trusted = (size.min(axis=0) > UNDERFLOW) & (kept > CANCELLATION)
    safe = xp.where(trusted, entries, (i == j)[:, None] * 1.0)  # identity where not trusted
    scale = xp.sqrt(safe[i == j])
    unit_diagonal = safe / (scale[i] * scale[j])
    half, least = half_log_det(unit_diagonal, np.full((D, 1), 1e-15))
    trusted &= kept * _fixed(least) > CANCELLATION
    return xp.where(trusted, half + xp.log(scale).sum(axis=0), 0.0), trusted


def pivoted_log_volumes(a: Float[Array, "c m"], t: Float[Array, "c m D"]) -> Float[Array, " c"]:
    """½ log det Σ_l exp(2a_l) t_l t_lᵀ, stable for any finite a; -∞ where fewer than D directions remain."""
    D = t.shape[2]
    xp = namespace(a, t)
    width = _fixed(xp.abs(t).max(axis=1))  # columns of one size, so that none drowns another
    width = xp.where(width > 0.0, width, 1.0)
    t = t / width[:, None, :]
    order, ok = _pivot_order(_fixed(a), _fixed(t))  # (c, m): j at the j-th pivot, D elsewhere
    pivot = xp.argmax(order[:, None, :] == xp.arange(D)[:, None], axis=2)  # (c, D)
    directions = xp.take_along_axis(t, pivot[:, :, None], axis=1)  # (c, D, D), rows t at pivots
    U = xp.linalg.qr(xp.swapaxes(directions, 1, 2))[0]  # columns: orthonormal basis
    along = xp.einsum("cld,cdj->clj", t, U)
    at_pivot = xp.take_along_axis(along, pivot[:, None, :], axis=1)[:, 0, :]
    scale = xp.take_along_axis(a, pivot, axis=1) + xp.log(xp.abs(at_pivot))
    # (c, D): it cancels exactly, so its derivative does too
    scale = _fixed(xp.where(ok[:, None], scale, 0.0))
    # Earlier pivots have no component along later basis vectors, identically in the hyperparameters.
    # Nor has a heavier row that lies in their span (one at x itself, say): what shows there is rounding.
    exponent = a[:, :, None] - scale[:, None, :]
    length = xp.sqrt((t**2).sum(axis=2))[:, :, None]
    spanned = (exponent > 0.0) & (xp.abs(along) <= IN_SPAN * length)
    none = _fixed((order[:, :, None] < xp.arange(D)) | spanned)
    T = xp.exp(xp.where(none, -xp.inf, exponent)) * xp.where(none, 0.0, along)
    G = xp.where(ok[:, None, None], xp.einsum("clj,clk->cjk", T, T), xp.eye(D))
    if xp is np:  # whose Cholesky raises where JAX's is nan
        half = 0.5 * np.linalg.slogdet(G)[1]
    else:
        half = xp.log(xp.diagonal(xp.linalg.cholesky(G), axis1=1, axis2=2)).sum(axis=1)
    value = (scale + xp.log(width)).sum(axis=1) + half
    return xp.where(ok, value, -xp.inf)


def _pivot_order(a: Float[Array, "c m"], t: Float[Array, "c m D"]) -> tuple[Array, Array]:
    """Which landmark is the j-th pivot (the largest exp(a_l)·|residual of t_l|), and whether all D exist."""
    xp = namespace(a, t)
    c, m, D = t.shape
    rows = np.arange(c)

    def step(j: Any, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        residual, order, ok = state
        norm = xp.sqrt((residual**2).sum(axis=2))
        score = xp.where((order == D) & (norm > 0.0), a + xp.log(norm), -xp.inf)
        best = xp.argmax(score, axis=1)
        length = norm[rows, best][:, None]
        direction = residual[rows, best] / xp.where(length > 0.0, length, 1.0)
        # Twice is enough: the second projection removes what rounding left of the first.
        for _ in range(2):
            residual = residual - (residual @ direction[:, :, None]) * direction[:, None, :]
        left = xp.sqrt((residual**2).sum(axis=2)) > IN_SPAN * length_of_t
        chosen = np.arange(m) == best[:, None]
        residual = xp.where((left & ~chosen)[:, :, None], residual, 0.0)
        return residual, xp.where(chosen, j, order), ok & xp.isfinite(score.max(axis=1))

    length_of_t = xp.sqrt((t**2).sum(axis=2))
    state = (t, xp.full((c, m), D), xp.ones(c, bool))
    if xp is np:
        for j in range(D):
            state = step(j, state)
        return state[1:]
    return lax.fori_loop(0, D, step, state)[1:]
