"""The null of a conditional test: products of centred features, with random signs.

Features a(x) and b(y) are centred given z. Under conditional independence every product a_k(x_i) b_l(y_i) has
mean zero given z, and so has its product with any feature of z. The statistic ‖Σ_i a(x_i) ⊗ b(y_i)‖²/n² is
compared with ‖Σ_i ε_i a(x_i) ⊗ b(y_i)‖²/n² for independent ε_i of mean 0 and variance 1 (the wild bootstrap):
unlike a permutation this keeps every row's own size, which may depend on z.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kembed.permutation import nulls

if TYPE_CHECKING:
    from jaxtyping import Float

# Products of features below this share of the largest are left out, and never more than so many are kept:
# what is dropped adds under 2% to the statistic (`test_products_drop_only_what_is_negligible`).
NEGLIGIBLE, MOST = 1e-3, 150


def products(*sides: Float[np.ndarray, "n _"]) -> Float[np.ndarray, "n p"]:
    """The largest of all products of one feature from every side."""
    out = sides[0]
    for side in sides[1:]:
        sizes = np.multiply.outer((out**2).mean(axis=0), (side**2).mean(axis=0))
        order = np.argsort(-sizes, axis=None, kind="stable")[:MOST]
        order = order[sizes.ravel()[order] >= NEGLIGIBLE * sizes.max(initial=0.0)]
        first, second = np.unravel_index(order, sizes.shape)
        out = out[:, first] * side[:, second]
    return out


def multipliers(
    n: int, count: int, memory: float | None, rng: np.random.Generator
) -> Float[np.ndarray, "n B"]:
    """Random signs, or with `memory` an autoregressive process, for rows in order of time."""
    if memory is not None:
        return nulls.wild_weights(n, count, memory, rng).astype(np.float32)
    bits = np.frombuffer(rng.bytes(n * (-(-count // 8))), dtype=np.uint8).reshape(n, -1)
    return np.unpackbits(bits, axis=1)[:, :count].astype(np.float32) * 2.0 - 1.0


def squared_norms(C: Float[np.ndarray, "n p"], E: Float[np.ndarray, "n B"]) -> Float[np.ndarray, " B+1"]:
    """‖Σ_i c_i‖²/n², first as it is, then with the rows multiplied by every column of E."""
    size = float(np.abs(C).max(initial=0.0)) or 1.0
    resampled = E.T @ (C / size).astype(np.float32)  # random anyway: seven digits are enough
    sums = np.concatenate([C.sum(axis=0)[None] / size, resampled])
    return np.asarray((sums**2).sum(axis=1)) * (size / len(C)) ** 2
