"""Products of the features of two variables, and their sums under random signs (the wild bootstrap).

‖Σ_i ε_i a_i ⊗ b_i‖²/n² needs the largest products only. Of many rows it needs only their sums over bins, each
of which has one sign: a sweep over the rows serves all draws.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from kembed.core.backend import Float

BINS = 512  # of many rows; `benchmarks/independence_size.py` has level and power with bins forced on few rows
CHUNK = 1_024  # rows whose products are held at once: what a cache holds
# Products of features below this share of the largest are left out, and never more than so many are kept:
# what is dropped adds under 2% to the statistic (`test_products_drop_only_what_is_negligible`).
NEGLIGIBLE, MOST = 1e-3, 150


def random_signs(n: int, count: int, rng: np.random.Generator) -> Float[np.ndarray, "n B"]:
    """So many draws of a sign for every row."""
    return rng.integers(2, size=(n, count), dtype=np.int8) * np.float32(2.0) - np.float32(1.0)


def products(one: Float[np.ndarray, "r n"], other: Float[np.ndarray, "q n"]) -> Float[np.ndarray, "p n"]:
    """The largest of all products of a feature of one side and one of the other; features are rows."""
    one, other = np.ascontiguousarray(one), np.ascontiguousarray(other)
    first, second = _largest(*(np.einsum("pn,pn->p", side, side) for side in (one, other)))
    found = one[first]
    found *= other[second]
    return found


def _largest(one: Float[np.ndarray, " p"], other: Float[np.ndarray, " q"]) -> tuple[Any, Any]:
    """Which features have the largest products, by their mean squares."""
    sizes = np.multiply.outer(one, other)
    order = np.argsort(-sizes, axis=None, kind="stable")[:MOST]
    order = order[sizes.ravel()[order] >= NEGLIGIBLE * sizes.max(initial=0.0)]
    return np.unravel_index(order, sizes.shape)


def bin_sums(
    one: Float[np.ndarray, "n p"],
    other: Float[np.ndarray, "n q"],
    weights: Sequence[Float[np.ndarray, "n w"]],
) -> list[Float[np.ndarray, "k S+1"]]:
    """Σ over the rows of every bin of `products`, and of these times every weight; the last bin is the rest.

    Bins are runs of rows, which stand in an order that says nothing.
    """
    n = len(one)
    sides = [np.square(side).mean(axis=0, dtype=float) for side in (one, other)]
    first, second = _largest(*sides)
    sizes = (np.square(one).T @ np.square(other))[first, second]
    chosen = [_largest(sizes, np.square(weight).mean(axis=0, dtype=float)) for weight in weights]
    # Of products and weights those that are kept in any of their pairs, and where these are then.
    met = [[np.unique(side, return_inverse=True) for side in pair] for pair in chosen]
    rows = n // BINS
    step = rows * max(1, CHUNK // rows)
    ends = [*range(0, BINS * rows, step), BINS * rows, n]
    found: list[list[np.ndarray]] = [[] for _ in range(len(weights) + 1)]
    for start, end in pairwise(ends):
        shape = (1, n - start) if start == BINS * rows else (-1, rows)
        C = (one[start:end][:, first] * other[start:end][:, second]).reshape(*shape, len(first))
        found[0].append(C.sum(axis=1, dtype=float))
        for kept, weight, ((mine, at), (its, there)) in zip(found[1:], weights, met, strict=True):
            W = weight[start:end][:, its].reshape(*shape, len(its))
            kept.append((C[:, :, mine].transpose(0, 2, 1) @ W)[:, at, there])
    return [np.concatenate(each).T for each in found]


def squared_norms(
    C: Float[np.ndarray, "p m"], E: Float[np.ndarray, "m B"], n: int
) -> Float[np.ndarray, " B+1"]:
    """‖Σ_i c_i‖²/n², first as it is, then with the rows (or sums of bins) multiplied by every column of E."""
    size = float(np.abs(C).max(initial=0.0)) or 1.0
    own = np.square(C.sum(axis=1) / size).sum(keepdims=True)
    resampled = (C / size).astype(E.dtype) @ E
    norms = np.einsum("pb,pb->b", resampled, resampled)
    return np.asarray(np.concatenate([own, norms]) * np.square(size / n))
