"""Volume elements of the feature map, log γ(x) = ½ log det JᵀJ with J = ∂φ_z/∂x, for NumPy and JAX alike.

Row l of J is k_l t_l, with t_l the gradient of log k(x, z_l). JᵀJ = Σ_l k_l² t_l t_lᵀ is summed as it is
where that loses at most five digits. Far from all landmarks one weight dwarfs the others and JᵀJ is singular
in floating point, though its determinant is not zero. There pivoted Gram-Schmidt picks D landmarks whose
directions carry the volume; in their orthonormal basis, with every basis vector given its own scale in log
space, the matrix has unit-size pivots and nothing underflows. Nothing is added, nothing is approximated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kembed.core.backend import Array, Float, namespace
from kembed.core.linalg import log_sum_exp
from kembed.kernels.composite import Product, Scaled, Sum

CANCELLATION = 1e-4  # rows whose determinant loses more than this factor to cancellation are pivoted
UNDERFLOW = 1e-90  # sums of squared weights below this are not trusted: second derivatives hold their cubes
IN_SPAN = 1e-14  # a residual this small against its vector is rounding, and the vector lies in the span


def log_gradient(
    kernel: Any, X: Float[Array, "c D"], Z: Float[Array, "m D"]
) -> tuple[Float[Array, "c m"], Float[Array, "D c m"]]:
    """log k(x_i, z_l) and its derivatives in x_i, of every mixture of squared exponentials."""
    if isinstance(kernel, Scaled):
        log_k, t = log_gradient(kernel.kernel, X, Z)
        return log_k + kernel._log_variance(), t
    if isinstance(kernel, Sum | Product):
        logs, gradients = zip(*(log_gradient(part, X, Z) for part in kernel.kernels), strict=True)
        if isinstance(kernel, Product):
            return sum(logs), sum(gradients)
        xp = namespace(*logs)
        log_k = log_sum_exp(xp.stack(logs), axis=0)
        return log_k, sum(xp.exp(log - log_k) * t for log, t in zip(logs, gradients, strict=True))
    s = kernel.scaled_distances(X, Z)
    t = namespace(X, Z).stack([Z[:, d] - X[:, d, None] for d in range(X.shape[1])])
    if getattr(kernel, "cholesky", None) is not None:
        inverse = kernel._inverse()
        t = namespace(inverse, t).einsum("de,ecm->dcm", inverse.T @ inverse, t)
    else:
        t = t * (np.ones(len(t)) / getattr(kernel, "lengthscale", 1.0) ** 2)[:, None, None]
    return kernel.profile(s), kernel.slope(s) * t


@np.errstate(all="ignore")  # what underflows is pivoted
def log_volumes(log_k: Float[Array, "c m"], t: Float[Array, "D c m"]) -> Float[Array, " c"]:
    """log γ of every row; -∞ where fewer than D directions remain."""
    xp = namespace(log_k, t)
    J = xp.exp(log_k) * t
    gram = xp.einsum("acm,bcm->abc", J, J)
    usable = _fixed(xp.einsum("aac->ac", gram)).min(axis=0) > UNDERFLOW
    half, least = half_log_det(xp.where(usable, gram, np.eye(len(t))[:, :, None]))
    trusted = usable & (_fixed(least) > CANCELLATION)
    if xp is not np:
        import jax

        def pivoted() -> Any:
            return xp.where(trusted, half, pivoted_log_volumes(log_k, t))

        return jax.lax.cond(trusted.all(), lambda: half, pivoted)
    far = ~trusted
    if far.any():
        half[far] = pivoted_log_volumes(log_k[far], t[:, far])
    return half


def half_log_det(gram: Float[Array, "D D c"]) -> tuple[Float[Array, " c"], Float[Array, " c"]]:
    """½ log det of positive definite matrices; and the least pivot once their diagonals are 1.

    By elimination, which both backends do for all matrices at once and JAX differentiates. LAPACK, called for
    each matrix, is no faster, and two such batches in one XLA program can wait for each other for ever on a
    machine with two cores (jaxlib 0.10.2, 1,000 matrices of 20 rows).
    """
    xp = namespace(gram)
    scale = xp.sqrt(xp.einsum("aac->ac", gram))

    def eliminate(k: Any, state: Any) -> Any:
        A, total, least = state
        pivot = xp.maximum(A[k, k], 1e-15)
        return A - A[:, k, None] * (A[k] / pivot), total + 0.5 * xp.log(pivot), xp.minimum(least, pivot)

    start = gram / (scale[:, None] * scale), xp.log(scale).sum(axis=0), xp.full(gram.shape[2], np.inf)
    return _loop(len(gram), eliminate, start)[1:]


def pivoted_log_volumes(a: Float[Array, "c m"], t: Float[Array, "D c m"]) -> Float[Array, " c"]:
    """The same for any finite log weights a."""
    xp, D = namespace(a, t), len(t)
    width = _fixed(xp.abs(t).max(axis=2))  # columns of one size, so that none drowns another
    width = xp.where(width > 0.0, width, 1.0)
    t = xp.moveaxis(t / width[:, :, None], 0, 2)  # (c, m, D)
    order, ok = _pivot_order(_fixed(a), _fixed(t))  # (c, m): j at the j-th pivot, D elsewhere
    pivot = xp.argmax(order[:, None, :] == np.arange(D)[:, None], axis=2)  # (c, D)
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
    none = _fixed((order[:, :, None] < np.arange(D)) | spanned)
    T = xp.moveaxis(xp.exp(xp.where(none, -np.inf, exponent)) * xp.where(none, 0.0, along), 2, 0)
    gram = xp.where(ok, xp.einsum("acm,bcm->abc", T, T), np.eye(D)[:, :, None])
    value = scale.sum(axis=1) + xp.log(width).sum(axis=0) + half_log_det(gram)[0]
    return xp.where(ok, value, -np.inf)


def _pivot_order(a: Float[Array, "c m"], t: Float[Array, "c m D"]) -> tuple[Array, Array]:
    """Which landmark is the j-th pivot (the largest exp(a_l)·|residual of t_l|), and whether all D exist."""
    xp = namespace(a, t)
    c, m, D = t.shape
    rows, length_of_t = np.arange(c), xp.sqrt((t**2).sum(axis=2))

    def choose(j: Any, state: Any) -> Any:
        residual, order, ok = state
        norm = xp.sqrt((residual**2).sum(axis=2))
        score = xp.where((order == D) & (norm > 0.0), a + xp.log(norm), -np.inf)
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

    return _loop(D, choose, (t, xp.full((c, m), D), xp.ones(c, bool)))[1:]


def _loop(count: int, step: Callable[[Any, Any], Any], state: Any) -> Any:
    """The state after so many steps; JAX compiles one, whatever the count, and differentiates all."""
    if namespace(*state) is not np:
        import jax

        return jax.lax.fori_loop(0, count, step, state)
    for k in range(count):
        state = step(k, state)
    return state


def _fixed(value: Any) -> Any:
    """The value, which is no function of anything where JAX differentiates."""
    if namespace(value) is np:
        return value
    import jax

    return jax.lax.stop_gradient(value)
