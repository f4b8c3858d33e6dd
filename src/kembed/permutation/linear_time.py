"""Two-sample statistics in linear time: a running mean over pairs, or a mean over small blocks.

Rows are shuffled once with the seed, from their canonical order, then used one after another. The normal
null follows from the mean of independent terms; the permutation null moves labels within quadruples or blocks
only, which is a subgroup, so it is exact as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from kembed.data.pool import Pool
from kembed.permutation import nulls
from kembed.permutation.gram import Pairs
from kembed.permutation.labelings import column_sums
from kembed.testing.choice import Choice
from kembed.testing.outcome import MemberResult, TestOutcome

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    Vector = Float[np.ndarray, " B"]

LEAST_TERMS = 2


def run(
    pool: Pool, choice: Choice, statistic: str, null: str, n_resamples: int, rng: np.random.Generator
) -> TestOutcome:
    """The linear-time or block test."""
    first = rng.permutation(np.flatnonzero(pool.labels == 1.0))
    second = rng.permutation(np.flatnonzero(pool.labels == 0.0))
    compute = _linear if statistic == "linear" else _block
    terms, resampled = compute(choice.one, first, second)
    value = float(terms.mean())
    error = float(terms.std(ddof=1)) / np.sqrt(len(terms))
    rounding = 1e-13 * float(np.abs(choice.one.diagonals[0] + choice.one.offset(0)).mean())
    same = error <= rounding  # every term is the same: there is nothing to compare their mean with
    z = value / error if not same else float("inf") if value > rounding else float("-inf")
    if null == "normal":
        draws = error * rng.standard_normal(n_resamples)
        pvalue = nulls.normal_pvalue(z)
    else:
        draws = resampled(n_resamples, rng)
        pvalue = nulls.resampled_pvalue(value, draws)
    member = MemberResult(choice.kernels[0], value, float(z))
    return TestOutcome(
        value,
        pvalue,
        draws,
        choice.kernels[0],
        value,
        f"{statistic} MMD²",
        null,
        pool.sizes,
        (member,),
        choice.learned,
    )


def _need(terms: int, what: str) -> None:
    if terms < LEAST_TERMS:
        raise ValueError(
            f"x and y are too small for {what}; give at least 4 rows in each, or use statistic='unbiased'"
        )


def _linear(
    pairs: Pairs, first: Int[np.ndarray, " n"], second: Int[np.ndarray, " m"]
) -> tuple[Vector, Callable[..., Vector]]:
    """h = k(x₁,x₂) + k(y₁,y₂) - k(x₁,y₂) - k(x₂,y₁) over disjoint quadruples (Gretton et al. 2012, §6)."""
    terms = min(len(first), len(second)) // 2
    _need(terms, "statistic='linear'")
    x1, x2 = first[0 : 2 * terms : 2], first[1 : 2 * terms : 2]
    y1, y2 = second[0 : 2 * terms : 2], second[1 : 2 * terms : 2]
    # The four rows can be matched in three ways; a relabeling picks two of them, in order.
    own = (pairs.at(x1, x2) + pairs.at(y1, y2))[0]
    straight = (pairs.at(x1, y1) + pairs.at(x2, y2))[0]
    crossed = (pairs.at(x1, y2) + pairs.at(x2, y1))[0]
    ways = np.stack(
        [
            own - crossed,
            own - straight,
            straight - own,
            straight - crossed,
            crossed - own,
            crossed - straight,
        ]
    )

    def resampled(count: int, rng: np.random.Generator) -> Vector:
        draws = np.empty(count)
        every = np.arange(terms)
        for k in range(count):
            draws[k] = ways[rng.integers(6, size=terms), every].mean()
        return draws

    return ways[0], resampled


def _block(
    pairs: Pairs, first: Int[np.ndarray, " n"], second: Int[np.ndarray, " m"]
) -> tuple[Vector, Callable[..., Vector]]:
    """The unbiased MMD² in blocks of about √n rows of each sample, averaged (Zaremba et al. 2013)."""
    smaller = min(len(first), len(second))
    blocks = smaller // max(2, int(np.sqrt(smaller)))
    _need(blocks, "statistic='block'")
    split = list(zip(_even(first, blocks), _even(second, blocks), strict=True))

    def of_labels(a: Float[np.ndarray, "N C"], rows: Int[np.ndarray, " N"], n: int) -> Vector:
        """MMD² of one block under the columns of labels."""
        here = Pairs(
            len(rows),
            lambda i, j: pairs.rectangles(rows[i], rows[j])[0],
            (None,),
            pairs.diagonals[:, rows],
        )
        ((q, r, _),) = column_sums(here, a, np.ones(len(rows)), None)
        linear, total, m = r @ a, float(r.sum()), len(rows) - n
        between = 2.0 * (linear - q) / (n * m)
        return q / (n * (n - 1.0)) + (total - 2.0 * linear + q) / (m * (m - 1.0)) - between

    terms = np.array(
        [
            of_labels(np.repeat([1.0, 0.0], [len(x), len(y)])[:, None], np.concatenate([x, y]), len(x))[0]
            for x, y in split
        ]
    )

    def resampled(count: int, rng: np.random.Generator) -> Vector:
        draws = np.zeros(count)
        for x, y in split:
            labels = np.repeat([1.0, 0.0], [len(x), len(y)])[:, None]
            columns = rng.permuted(np.broadcast_to(labels, (len(labels), count)), axis=0)
            draws += of_labels(columns, np.concatenate([x, y]), len(x))
        return draws / len(split)

    return terms, resampled


def _even(rows: Any, blocks: int) -> list[Any]:
    """Blocks of equal size; rows left over are not used."""
    size = len(rows) // blocks
    return [rows[k * size : (k + 1) * size] for k in range(blocks)]
