"""Are two variables independent? `hsic_test`.

Each side has its own kernel, chosen from that side's unordered rows alone. Under independence any pairing of
the rows is as likely as the one seen, so pairings are drawn and the statistic is compared.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from math import factorial
from typing import TYPE_CHECKING, Any

import numpy as np

from kembed.core import checks
from kembed.core.ordering import comes_before, row_order, sorted_rows
from kembed.core.progress import showing_progress
from kembed.data.space import make_space
from kembed.data.tables import read_tables
from kembed.permutation import nulls, statistics
from kembed.permutation.fusion import Values
from kembed.permutation.gram import Pairs
from kembed.permutation.labelings import column_sums
from kembed.permutation.low_rank import Factor, as_pairs, made
from kembed.permutation.random_features import DEFAULT as FEATURES
from kembed.permutation.rings import Star, correlate, draw_star, factor_turns, ring_sums
from kembed.testing.choice import Choice, choose, lowered
from kembed.testing.outcome import MemberResult, TestOutcome, nothing, resampled_outcome

if TYPE_CHECKING:
    from jaxtyping import Float

STATISTICS = ("unbiased", "biased", "features")
NULLS = ("permutation", "gamma", "spectral", "wild")
MINIMUM = 4
FEW_ROWS = 8  # more have more pairings than anybody waits for


def hsic_test(
    x: Any,
    y: Any,
    *,
    kernel: Any = "fused",
    statistic: str = "unbiased",
    null: str = "permutation",
    n_resamples: int = 999,
    memory: float | None = None,
    batch: int | None = None,
    rng: Any = None,
    nan_policy: str = "raise",
    progress: bool | None = None,
) -> TestOutcome:
    """Test whether two variables are independent, by the Hilbert-Schmidt independence criterion.

    Parameters
    ----------
    x, y
        The two sides, row i of one with row i of the other: arrays or data frames of any widths. Text and
        categories are compared as equal or not.
    kernel
        `"fused"` (the default), `"bkl"` (learned on each side), `"ard"` (learned, with a lengthscale for each
        column), `"median"`, a kernel object or a function for
        both sides, a list of these, or a pair `(kernel of x, kernel of y)`.
    statistic
        `"unbiased"` or `"biased"` HSIC, or `"features"` (random Fourier features, linear in n).
    null
        `"permutation"`, exact; `"gamma"` or `"spectral"` for one kernel a side; `"wild"` for time series.
    n_resamples, memory, batch, rng, nan_policy, progress
        As in `mmd_test`. With "omit" a row missing on either side is dropped from both.

    Examples
    --------
    >>> import numpy as np
    >>> from kembed import hsic_test
    >>> angle = np.random.default_rng(1).uniform(0, 2 * np.pi, size=150)
    >>> x, y = np.cos(angle), np.sin(angle)  # dependent, uncorrelated
    >>> print(hsic_test(x, y, rng=0).pvalue)
    0.001

    """
    checks.choice(statistic, "statistic", STATISTICS)
    checks.choice(null, "null", NULLS)
    n_resamples = checks.count(n_resamples, "n_resamples", 1)
    batch = None if batch is None else checks.count(batch, "batch", 1)
    memory = None if memory is None else float(checks.positive(memory, "memory"))
    if memory is not None and null != "wild":
        raise ValueError("memory is for null='wild' (time series); leave it out, or set null='wild'")
    kernels = _both_kernels(kernel)
    tables, missing = read_tables(
        {"x": x, "y": y}, nan_policy=nan_policy, same_columns=False, paired=True, minimum=MINIMUM
    )
    seed = checks.generator(rng)
    n = len(tables[0].values)
    if missing:
        return nothing("HSIC", null, (tables[0].given,))
    swapped = False
    if null != "wild":
        tables, kernels, swapped = _canonical(tables, kernels)
    single = None if null == "permutation" else f"null={null!r}"
    features = FEATURES if statistic == "features" else None
    with showing_progress(progress):
        left, right = (
            choose(
                word,
                make_space(table.values, table.categorical),
                seed,
                features=features,
                single=single,
                side=True,
            )
            for word, table in zip(kernels, tables, strict=True)
        )
        biased = statistic == "biased" or null == "wild"
        both, shares = _joined(left, right)
        if swapped:
            turned = tuple(pair[::-1] for pair in both.kernels)
            both = replace(both, kernels=turned, learned=both.learned[::-1])
        if null in ("gamma", "spectral"):
            return _approximate(left, right, both, null, biased, n_resamples, batch, seed)
        if null == "wild":
            values = _wild(left, right, n_resamples, memory or np.sqrt(n), batch, seed)
            return resampled_outcome("biased HSIC", (n,), both, values, null, False)
        enumerated = n <= FEW_ROWS and factorial(n) <= n_resamples + 1
        if enumerated:
            values = _enumerated(left, right, shares, biased)
        else:
            values = _permuted(left, right, shares, biased, n_resamples, batch, seed)
        return resampled_outcome("HSIC", (n,), both, values, null, enumerated)


def _both_kernels(kernel: Any) -> tuple[Any, Any]:
    """The kernel of each side: a pair says which is which, anything else serves both."""
    if not isinstance(kernel, tuple):
        return kernel, kernel
    if len(kernel) != 2:
        raise ValueError(
            f"kernel is a tuple of {len(kernel)}; give a pair (kernel of x, kernel of y), or a list of "
            "kernels to fuse"
        )
    return kernel


def _canonical(tables: list[Any], kernels: Any) -> tuple[list[Any], Any, bool]:
    """Rows in an order of their own, and the narrower (then the lesser) side first."""
    a, b = (table.values for table in tables)
    swapped = False
    sorted_a, sorted_b = sorted_rows(a), sorted_rows(b)
    if a.shape[1] != b.shape[1]:
        swapped = a.shape[1] > b.shape[1]
    elif (sorted_a != sorted_b).any():
        swapped = comes_before(sorted_b, sorted_a)
    else:  # two sides with the same values: how they are paired decides
        swapped = comes_before(*(sorted_rows(np.column_stack(pair)) for pair in ((b, a), (a, b))))
    if swapped:
        tables, kernels = tables[::-1], tuple(kernels[::-1])
    joint = np.column_stack([table.values for table in tables])
    order = row_order(joint)
    return [replace(table, values=table.values[order]) for table in tables], kernels, swapped


def _joined(left: Choice, right: Choice) -> tuple[Choice, Float[np.ndarray, "J L"]]:
    """Which kernels of x meet which of y, as one choice, and the shares as a table; 0 where they do not."""
    if left.fused and right.fused:
        from kembed.testing.members import SIDE_SHARES, SIDE_WHITENED_SHARE

        gaussians, J = SIDE_SHARES, len(left.kernels)
        shares = np.zeros((J, J))
        G = len(gaussians)
        shares[:G, :G] = gaussians
        shares[np.arange(G, J), np.arange(G, J)] = SIDE_WHITENED_SHARE
    else:
        shares = np.multiply.outer(left.shares, right.shares)
    met = np.argwhere(shares > 0.0)
    learned: tuple[Any, ...] = ()
    if left.learned or right.learned:
        learned = tuple(side.learned[0] if side.learned else None for side in (left, right))
    kernels = tuple((left.kernels[j], right.kernels[k]) for j, k in met)
    together = shares[shares > 0.0]
    return Choice((), kernels, together / together.sum(), learned), shares


def _permuted(
    left: Choice,
    right: Choice,
    shares: Float[np.ndarray, "J L"],
    biased: bool,
    n_resamples: int,
    batch: int | None,
    rng: np.random.Generator,
) -> Values:
    """HSIC of every pair of kernels that meet, for the data and for random pairings."""
    star = draw_star(left.members[0].size, n_resamples, rng)
    values = np.zeros((n_resamples + 1, *shares.shape))
    entry = np.zeros(shares.shape)
    for first, rows in lowered(left.members):
        for second, columns in lowered(right.members):
            if shares[np.ix_(rows, columns)].any():
                found = _hsic(made(first), made(second), star, biased, batch)
                values[:, np.array(rows)[:, None], columns] = found.statistics
                entry[np.ix_(rows, columns)] = found.entry
    return Values(values[:, shares > 0.0], entry[shares > 0.0])


def _hsic(left: Pairs | Factor, right: Pairs | Factor, star: Star, biased: bool, batch: int | None) -> Values:
    """HSIC of J by L kernels, as tables."""
    n = left.size
    if isinstance(left, Factor) and isinstance(right, Factor) and _factors_are_cheaper(left, right):
        turns = factor_turns(left.columns, right.columns, star)
        whole = star.values([turn[:, None] for turn in turns])[:, 0]
        rows = [left.row_sums()], [right.row_sums()]
        diagonals = [left.diagonal], [right.diagonal]
        squares = [left.squares()], [right.squares()]
        cross = (whole - _turned(diagonals[0][0], diagonals[1][0], star))[:, None, None]
    else:
        first, second = as_pairs(left), as_pairs(right)
        sums = ring_sums(first, second, star, batch)
        J, L = len(first.maps), len(second.maps)
        cross = star.values([turn.reshape(n, J * L) for turn in sums.turns]).reshape(-1, J, L)
        rows = list(sums.left_rows), list(sums.right_rows)
        diagonals = list(first.diagonals), list(second.diagonals)
        squares = list(sums.left_squares), list(sums.right_squares)
    values = np.empty_like(cross)
    for j, (row, diagonal) in enumerate(zip(rows[0], diagonals[0], strict=True)):
        for k, (partner_row, partner_diagonal) in enumerate(zip(rows[1], diagonals[1], strict=True)):
            together = cross[:, j, k]
            if biased:
                together = together + _turned(diagonal, partner_diagonal, star)
                a, b = row + diagonal, partner_row + partner_diagonal
                formula = statistics.hsic_biased
            else:
                a, b, formula = row, partner_row, statistics.hsic
            values[:, j, k] = formula(together, _turned(a, b, star), float(a.sum()), float(b.sum()), n)
    usual = [[statistics.usual_entry(each, n) for each in side] for side in squares]
    return Values(values, np.multiply.outer(usual[0], usual[1]))


def _factors_are_cheaper(left: Factor, right: Factor) -> bool:
    """Products of columns against diagonals of the matrix, both transformed."""
    return left.columns.shape[1] * right.columns.shape[1] <= left.size


def _turned(u: Float[np.ndarray, " n"], v: Float[np.ndarray, " n"], star: Star) -> Float[np.ndarray, " C"]:
    """Σ_i u_i v_π(i) under every pairing."""
    turns = [correlate(u[ring.left], v[ring.right])[:, None] for ring in star.rings]
    return star.values(turns)[:, 0]


def _enumerated(left: Choice, right: Choice, shares: Float[np.ndarray, "J L"], biased: bool) -> Values:
    """HSIC under every pairing of very few rows, the data's own first."""
    K, L = (np.stack(_matrices(side, biased)) for side in (left, right))
    n = K.shape[1]
    formula = statistics.hsic_biased if biased else statistics.hsic
    orders = list(permutations(range(n)))  # the data's own comes first
    met = np.argwhere(shares > 0.0)
    values = np.empty((len(orders), len(met)))
    for c, order in enumerate(orders):
        turned = L[:, list(order)][:, :, list(order)]
        for place, (j, k) in enumerate(met):
            values[c, place] = formula(
                np.array((K[j] * turned[k]).sum()),
                np.array(K[j].sum(axis=1) @ turned[k].sum(axis=1)),
                float(K[j].sum()),
                float(turned[k].sum()),
                n,
            )
    usual = [np.sqrt(np.square(side).mean(axis=(1, 2))) for side in (K, L)]
    return Values(values, np.multiply.outer(usual[0], usual[1])[shares > 0.0])


def _matrices(side: Choice, biased: bool) -> list[Float[np.ndarray, "n n"]]:
    """The kernel matrices of one side; without their diagonals for the unbiased statistic."""
    every = np.arange(side.members[0].size)
    matrices = [
        matrix.copy() for member in side.members for matrix in as_pairs(member).rectangles(every, every)
    ]
    if not biased:
        for matrix in matrices:
            np.fill_diagonal(matrix, 0.0)
    return matrices


def _product(left: Pairs, right: Pairs) -> Pairs:
    """The matrix K ∘ L."""

    def base(rows: Any, columns: Any) -> Any:
        return left.rectangles(rows, columns)[0] * right.rectangles(rows, columns)[0]

    return Pairs(left.size, base, (None,), left.diagonals * right.diagonals)


def _centred_product(left: Pairs, right: Pairs, batch: int | None) -> Pairs:
    """The matrix HKH ∘ HLH, whose sum is n² times the biased HSIC."""
    n = left.size
    means = []
    for side in (left, right):
        ((_, rows, _),) = column_sums(side, np.zeros((n, 0)), np.ones(n), batch)
        means.append((rows + side.diagonals[0]) / n)

    def centred(side: Pairs, mean: Any, rows: Any, columns: Any) -> Any:
        base = side.base(rows, columns)
        value = side.mapped(0, base, np.empty_like(base))
        return value - mean[rows, None] - mean[columns] + mean.mean()

    def base(rows: Any, columns: Any) -> Any:
        return centred(left, means[0], rows, columns) * centred(right, means[1], rows, columns)

    diagonal = np.ones(n)
    for side, mean in zip((left, right), means, strict=True):
        diagonal = diagonal * (side.diagonals[0] - 2.0 * mean + mean.mean())
    return Pairs(n, base, (None,), diagonal[None])


def _wild(
    left: Choice,
    right: Choice,
    n_resamples: int,
    memory: float,
    batch: int | None,
    rng: np.random.Generator,
) -> Values:
    """The biased HSIC with rows weighted by a wild process."""
    product = _centred_product(left.one, right.one, batch)
    n = product.size
    weights = nulls.wild_weights(n, n_resamples, memory, rng)
    W = np.concatenate([np.ones((n, 1)), weights], axis=1)
    ((quadratic, _, squares),) = column_sums(product, W, np.ones(n), batch)
    values = (quadratic + product.diagonals[0] @ W**2) / n**2
    return Values(values[:, None], np.array([statistics.usual_entry(squares, n)]))


def _approximate(
    left: Choice,
    right: Choice,
    both: Choice,
    null: str,
    biased: bool,
    n_resamples: int,
    batch: int | None,
    rng: np.random.Generator,
) -> TestOutcome:
    """Gamma or spectral null: n HSIC → Σ_ab λ_a η_b z_ab², the eigenvalues of the two centred matrices."""
    n = left.one.size
    one, moments = np.ones(n), []
    rows = []
    for side in (left.one, right.one):
        ((_, sums, squares),) = column_sums(side, np.zeros((n, 0)), one, batch)
        rows.append(sums)
        moments.append(statistics.centred_moments(sums, squares, side.diagonals[0]))
    (trace_x, squares_x), (trace_y, squares_y) = moments
    still = trace_x == 0.0 or trace_y == 0.0  # one side does not vary
    mean = trace_x * trace_y / n**3
    variance = 0.0 if still else 2.0 * squares_x * squares_y / n**6
    product = _product(left.one, right.one)
    ((total, _, _),) = column_sums(product, one[:, None], one, batch)
    a, b, cross, formula = rows[0], rows[1], total, statistics.hsic
    if biased:
        a, b = a + left.one.diagonals[0], b + right.one.diagonals[0]
        cross, formula = total + product.diagonals[0].sum(), statistics.hsic_biased
    value = float(formula(cross, np.atleast_1d(a @ b), float(a.sum()), float(b.sum()), n)[0])
    shift = 0.0 if biased else mean  # the unbiased statistic has mean 0 where the biased one has `mean`
    if still:
        value, pvalue, draws = 0.0, 1.0, np.zeros(n_resamples)
    elif null == "gamma":
        draws = nulls.gamma_draws(mean, variance, n_resamples, rng) - shift
        pvalue = nulls.gamma_pvalue(value + shift, mean, variance)
    else:
        eigenvalues = np.multiply.outer(nulls.spectrum(left.one, rng), nulls.spectrum(right.one, rng))
        weights = nulls.leading(eigenvalues.ravel()) / n
        draws = nulls.weighted_chi_squares(weights, n_resamples, rng) - weights.sum() + mean - shift
        pvalue = nulls.resampled_pvalue(value, draws)
    z = (value + shift - mean) / np.sqrt(variance) if variance > 0.0 else 0.0
    member = MemberResult(both.kernels[0], value, float(z))
    return TestOutcome(
        value, pvalue, draws, both.kernels[0], value, "HSIC", null, (n,), (member,), both.learned
    )
