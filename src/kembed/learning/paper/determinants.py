"""Small positive definite matrices by the thousand: Σ_l B_l (x - z_l)(x - z_l)ᵀ for every row x, its log det.

Matrices are given by their upper triangles, entry by entry, with the batch along the fast axis. Both
objectives are built on these two functions. Beyond a few dimensions LAPACK, called for each matrix, is no
faster, and two such batches in one XLA program can wait for each other for ever on a machine with two cores
(jaxlib 0.10.2: tests/learning/paper/test_determinants.py has the case).
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from kembed.core.backend import Array, Float, namespace

# Up to here sums over landmarks are taken by differences, which lose nothing; beyond, by one matrix product.
DIFFERENCE_DIMENSIONS = 3
UNROLLED_DIMENSIONS = 6  # up to here a Cholesky unrolled over rows beats a loop


def weighted_scatter(
    B: Float[Array, "c m"], X: Float[Array, "c D"], Z: Float[Array, "m D"]
) -> tuple[Float[Array, "T c"], Float[Array, "D c"]]:
    """Upper triangle of Σ_l B_l (x - z_l)(x - z_l)ᵀ, and the size its diagonal's terms had."""
    D = X.shape[1]
    xp = namespace(B)
    i, j = np.triu_indices(D)
    if D <= DIFFERENCE_DIMENSIONS:
        t = [X[:, d, None] - Z[None, :, d] for d in range(D)]
        entries = xp.stack([(B * t[a] * t[b]).sum(axis=1) for a, b in zip(i, j, strict=True)])
        return entries, entries[np.flatnonzero(i == j)]
    monomials = xp.concatenate([xp.ones((len(Z), 1)), Z, Z[:, i] * Z[:, j]], axis=1)
    moments = (B @ monomials).T
    S0, S1, S2 = moments[0], moments[1 : D + 1], moments[D + 1 :]
    x = X.T
    entries = S2 - x[i] * S1[j] - S1[i] * x[j] + S0 * x[i] * x[j]
    return entries, S2[np.flatnonzero(i == j)] + S0 * x**2


def half_log_det(
    entries: Float[Array, "T c"], floor: Float[Array, "D c"]
) -> tuple[Float[Array, " c"], Float[Array, " c"]]:
    """½ log det of matrices given by upper triangles, pivots held above `floor`; and the least pivot."""
    xp = namespace(entries)
    D = len(floor)
    place = {(int(a), int(b)): k for k, (a, b) in enumerate(zip(*np.triu_indices(D), strict=True))}
    if D <= UNROLLED_DIMENSIONS:
        factor: dict[tuple[int, int], Any] = {}
        total: Any = 0.0
        least: Any = np.inf
        for a in range(D):
            pivot = entries[place[a, a]] - sum(factor[a, c] ** 2 for c in range(a))
            pivot = xp.maximum(pivot, floor[a])
            total, least = total + xp.log(pivot), xp.minimum(least, pivot)
            root = xp.sqrt(pivot)
            for b in range(a + 1, D):
                rest = entries[place[a, b]] - sum(factor[b, c] * factor[a, c] for c in range(a))
                factor[b, a] = rest / root
        return 0.5 * total, least
    index = np.array([[place[min(a, b), max(a, b)] for b in range(D)] for a in range(D)])
    matrices = entries[index] + floor[:, None] * np.eye(D)[:, :, None]
    log_det, least = _eliminated(matrices, False)[1:] if xp is np else elimination()(matrices)
    return 0.5 * log_det, least


def _eliminated(matrices: Any, invert: bool) -> Any:
    """The inverses in place, or nothing; log det and least pivot, by elimination without pivoting."""
    xp = namespace(matrices)
    # Pivots that rounding has driven below this are taken as this.
    floor = 1e-15 * xp.diagonal(matrices, axis1=0, axis2=1).T

    def step(k: Any, state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        A, total, least = state
        row, column = A[k], A[:, k]
        pivot = xp.maximum(row[k], floor[k])
        here = (np.arange(len(A)) == k)[:, None]
        row = (row if invert else xp.where(here, pivot, row)) / pivot
        A = A - column[:, None] * row[None]
        if invert:
            A = A.at[k].set(row).at[:, k].set(-column / pivot).at[k, k].set(1.0 / pivot)
        return A, total + xp.log(pivot), xp.minimum(least, pivot)

    count = matrices.shape[2]
    state = (matrices, xp.zeros(count), xp.full(count, xp.inf))
    if xp is np:
        for k in range(len(matrices)):
            state = step(k, state)
        return state
    import jax

    return jax.lax.fori_loop(0, matrices.shape[0], step, state)


@functools.cache
def elimination() -> Any:
    """The JAX function (D, D, c) → log det and least pivot of every matrix, by elimination without pivoting.

    d log det A = tr(A⁻¹ dA), with the inverse by Gauss-Jordan elimination in place.
    """
    import jax
    import jax.numpy as jnp

    @jax.custom_jvp
    def log_dets(matrices: Any) -> Any:
        return _eliminated(jnp.asarray(matrices), invert=False)[1:]

    @log_dets.defjvp
    def _jvp(primals: Any, tangents: Any) -> Any:
        inverse, total, least = _eliminated(jnp.asarray(primals[0]), invert=True)
        return (total, least), ((inverse * tangents[0]).sum(axis=(0, 1)), jnp.zeros_like(least))

    return log_dets
