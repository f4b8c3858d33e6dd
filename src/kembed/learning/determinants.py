"""Log determinants of many small positive definite matrices at once, with the batch along the fast axis.

LAPACK, called for each matrix, is no faster here, and two such batches in one XLA program can wait for each
other for ever on a machine with two cores (jaxlib 0.10.2: tests/learning/test_objective.py has the case).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import lax

if TYPE_CHECKING:
    from jaxtyping import Float

    Array = jax.Array


@jax.custom_jvp
def log_dets(matrices: Float[Array, "D D c"]) -> Float[Array, " c"]:
    """log det of every matrix, by elimination without pivoting."""
    D = matrices.shape[0]
    floor = _floor(matrices)

    def step(k: Any, state: tuple[Array, Array]) -> tuple[Array, Array]:
        A, total = state
        row = A[k].at[k].set(jnp.maximum(A[k, k], floor[k]))
        return A - A[:, k][:, None] * (row / row[k])[None], total + jnp.log(row[k])

    return lax.fori_loop(0, D, step, (matrices, jnp.zeros(matrices.shape[2])))[1]


def _floor(matrices: Float[Array, "D D c"]) -> Float[Array, "D c"]:
    """Pivots that rounding has driven below this are taken as this."""
    return 1e-15 * jnp.diagonal(matrices, axis1=0, axis2=1).T


@log_dets.defjvp
def _log_dets_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    """d log det A = tr(A⁻¹ dA), with the inverse by Gauss-Jordan elimination in place."""
    (matrices,), (dots,) = primals, tangents
    D = matrices.shape[0]
    floor = _floor(matrices)

    def step(k: Any, state: tuple[Array, Array]) -> tuple[Array, Array]:
        A, total = state
        row, column = A[k], A[:, k]
        pivot = jnp.maximum(row[k], floor[k])
        row = row / pivot
        A = A - column[:, None] * row[None]
        A = A.at[k].set(row).at[:, k].set(-column / pivot)
        return A.at[k, k].set(1.0 / pivot), total + jnp.log(pivot)

    inverse, total = lax.fori_loop(0, D, step, (matrices, jnp.zeros(matrices.shape[2])))
    return total, (inverse * dots).sum(axis=(0, 1))
