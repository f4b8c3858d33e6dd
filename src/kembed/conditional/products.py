"""Products of the features of two variables, and their sums under random signs (the wild bootstrap).

‖Σ_i ε_i a_i ⊗ b_i‖²/n² needs the largest products only. Of many rows it needs only their sums over bins, each
of which has one sign: a sweep over the rows serves all draws.
"""

from collections.abc import Sequence
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


def _largest(one: Float[np.ndarray, " p"], other: Float[np.ndarray, " q"]) -> tuple[Any, Any]:
    """Which features have the largest products, by their mean squares."""
    sizes = np.multiply.outer(one, other)
    order = np.argsort(-sizes, axis=None, kind="stable")[:MOST]
    order = order[sizes.ravel()[order] >= NEGLIGIBLE * sizes.max(initial=0.0)]
    return np.unravel_index(order, sizes.shape)


def products(
    one: Float[np.ndarray, "n p"],
    other: Float[np.ndarray, "n q"],
    weights: Sequence[Float[np.ndarray, "n w"]] = (),
    rows: int = 1,
) -> list[Float[np.ndarray, "k S"]]:
    """The largest products of a feature of each side, and the largest of these times every weight.

    They are summed over bins of so many consecutive rows, whose order says nothing; rows that do not fill
    `BINS` bins are one bin more.
    """
    n = len(one)
    squares = [np.square(side).mean(axis=0, dtype=float) for side in (one, other)]
    first, second = _largest(*squares)
    sizes = (np.square(one).T @ np.square(other))[first, second]
    chosen = [_largest(sizes, np.square(weight).mean(axis=0, dtype=float)) for weight in weights]
    starts = np.arange(n) if rows == 1 else np.arange(BINS + 1) * rows
    starts = starts[starts < n]
    at_once = max(1, CHUNK // rows)
    sums: list[list[np.ndarray]] = [[] for _ in range(len(weights) + 1)]
    for k in range(0, len(starts), at_once):
        own = starts[k : k + at_once]
        some = slice(own[0], starts[k + at_once] if k + at_once < len(starts) else n)
        C = one[some][:, first] * other[some][:, second]
        tables = [C]
        for weight, (mine, its) in zip(weights, chosen, strict=True):
            tables.append(C[:, mine] * weight[some][:, its])
        for kept, table in zip(sums, tables, strict=True):
            kept.append(np.add.reduceat(table, own - own[0], axis=0, dtype=float))
    return [np.concatenate(each).T for each in sums]


def squared_norms(
    C: Float[np.ndarray, "p m"], E: Float[np.ndarray, "m B"], n: int
) -> Float[np.ndarray, " B+1"]:
    """‖Σ_i c_i‖²/n², first as it is, then with the rows (or sums of bins) multiplied by every column of E."""
    size = float(np.abs(C).max(initial=0.0)) or 1.0
    own = np.square(C.sum(axis=1) / size).sum(keepdims=True)
    resampled = (C / size).astype(E.dtype) @ E[: C.shape[1]]
    norms = np.einsum("pb,pb->b", resampled, resampled)
    return np.asarray(np.concatenate([own, norms]) * np.square(size / n))
