"""Products of the features of two variables, and their sums under random signs (the wild bootstrap).

‖Σ_i ε_i a_i ⊗ b_i‖²/n² needs the largest products only. Of many rows it needs only their sums over bins, each
of which has one sign: a sweep over the rows serves all draws.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from kembed.core.backend import Float, Int
from kembed.permutation import nulls

BINS = 512  # of many rows; `benchmarks/independence_size.py` has level and power with bins forced on few rows
CHUNK = 1_024  # rows whose products are held at once: what a cache holds
ORDERS = 8  # of the rows, worked on at once: likewise
# Products of features below this share of the largest are left out, and never more than so many are kept:
# what is dropped adds under 2% to the statistic (`test_products_drop_only_what_is_negligible`).
NEGLIGIBLE, MOST = 1e-3, 150
LONGEST = 1_024  # of a transform, a power of two: rows beyond share its signs, each turned at random


@dataclass(frozen=True, eq=False)
class Signs:
    """Random signs whose sums are a fast transform (Walsh and Hadamard).

    ε_i = d_i h_w(i mod N) with d_i a random sign and h_w(i) = (-1)^|w ∧ i|, the parity of the binary digits
    that w and i share. One draw of d gives N uncorrelated draws of ε, w = 0 ... N-1. Over all w the mean of
    |Σ ε_i c_i|² is exactly Σ|c_i|² where N ≥ n.
    """

    turned: Float[np.ndarray, "R n"]  # d, for as many transforms as give `count` draws
    count: int

    @property
    def nbytes(self) -> int:
        """How much is held."""
        return self.turned.nbytes

    def sums(self, C: Float[np.ndarray, "p m"]) -> Float[np.ndarray, "p B"]:
        """Σ_i ε_i c_i for every draw: two products with small matrices, H_ab = H_a ⊗ H_b."""
        p, n = C.shape
        N = length(n)
        a = 1 << (N.bit_length() // 2)
        found = np.empty((p, len(self.turned), N), dtype=np.float32)
        padded = np.zeros((p, -(-n // N) * N), dtype=np.float32)
        for turned, out in zip(self.turned, found.transpose(1, 0, 2), strict=True):
            np.multiply(C, turned, out=padded[:, :n])
            folded = padded if n <= N else padded.reshape(p, -1, N).sum(axis=1)
            half = (folded.reshape(-1, a) @ _hadamard(a)).reshape(p, -1, a)
            out[...] = (_hadamard(N // a) @ half).reshape(p, N)
        return found.reshape(p, -1)[:, : self.count]


def length(n: int) -> int:
    """N: the least power of two that is no less than n, up to a limit."""
    return int(min(1 << (n - 1).bit_length(), LONGEST))


@lru_cache(maxsize=16)
def _hadamard(size: int) -> Float[np.ndarray, "N N"]:
    """(-1)^|w ∧ i| of all w and i below a power of two."""
    H = np.ones((1, 1), dtype=np.float32)
    while len(H) < size:
        H = np.block([[H, H], [H, -H]])
    return H


@dataclass(frozen=True, eq=False)
class Processes:
    """A process in time for every draw."""

    E: Float[np.ndarray, "n B"]

    @property
    def count(self) -> int:
        """How many draws."""
        return self.E.shape[1]

    @property
    def nbytes(self) -> int:
        """How much is held."""
        return self.E.nbytes

    def sums(self, C: Float[np.ndarray, "p m"]) -> Float[np.ndarray, "p B"]:
        """Σ_i ε_i c_i for every draw."""
        return np.asarray(C @ self.E)


Multipliers = Signs | Processes  # draws ε of a multiplier for every row


def random_signs(n: int, count: int, rng: np.random.Generator) -> Signs:
    """So many draws of signs for n rows."""
    rounds = -(-count // length(n))
    return Signs(rng.integers(2, size=(rounds, n)).astype(np.float32) * 2.0 - 1.0, count)


def random_processes(n: int, count: int, memory: float, rng: np.random.Generator) -> Processes:
    """Autoregressive processes, for rows in order of time."""
    return Processes(nulls.wild_weights(n, count, memory, rng).astype(np.float32))


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


def squared_norms(C: Float[np.ndarray, "p m"], E: Multipliers, n: int) -> Float[np.ndarray, " B+1"]:
    """‖Σ_i c_i‖²/n², first as it is, then with the rows (or sums of bins) multiplied by every draw of E."""
    size = float(np.abs(C).max(initial=0.0)) or 1.0
    own = np.square(C.sum(axis=1) / size).sum(keepdims=True)
    resampled = E.sums((C / size).astype(np.float32))
    norms = np.einsum("pb,pb->b", resampled, resampled)
    return np.asarray(np.concatenate([own, norms]) * np.square(size / n))


def cross_norms(pairs: Sequence[tuple[Any, Any]], orders: Int[np.ndarray, "B n"]) -> list[Any]:
    """‖Σ_i a_i ⊗ b_π(i)‖² of every pair of features (a, b), for the rows as they stand and every order π."""
    ends = np.cumsum([0, *(b.shape[1] for _, b in pairs)])
    firsts = [np.ascontiguousarray(a.T) for a, _ in pairs]
    every = np.hstack([b for _, b in pairs])
    found: list[list[Any]] = [[] for _ in pairs]
    whole = np.concatenate([np.arange(len(every))[None], orders])
    for start in range(0, len(whole), ORDERS):
        turned = every[whole[start : start + ORDERS]]  # of all pairs at once
        for k, (low, high) in enumerate(pairwise(ends)):
            found[k].append(np.square(firsts[k] @ turned[:, :, low:high]).sum(axis=(1, 2)))
    return list(map(np.concatenate, found))
