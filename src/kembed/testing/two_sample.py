"""Do two samples come from one distribution? `mmd_test`.

Validate, pool, choose the kernel from the pooled and unordered rows, compute the statistic for the data and
for every relabeling, compare. The kernel never sees the labels: that is what makes the test exact.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np

from kembed.core import checks
from kembed.core.progress import showing_progress
from kembed.data.pool import Pool, make_pool
from kembed.data.space import make_space
from kembed.data.tables import read_tables
from kembed.kernels.base import Kernel
from kembed.permutation import nulls, statistics
from kembed.permutation.fusion import Values, fuse, tied
from kembed.permutation.labelings import Labelings, label_forms, signed_forms, sizes
from kembed.permutation.random_features import DEFAULT as FEATURES
from kembed.permutation.rings import draw_star
from kembed.testing.choice import Choice, choose, lowered
from kembed.testing.kernel_words import unwrapped
from kembed.testing.outcome import ColumnResult, MemberResult, TestOutcome, nothing, resampled_outcome

if TYPE_CHECKING:
    from jaxtyping import Float

STATISTICS = ("unbiased", "biased", "features")
FEW_ROWS = 24  # more have more arrangements than anybody waits for
NULLS = ("permutation", "gamma", "spectral", "wild")


def mmd_test(
    x: Any,
    y: Any,
    *,
    kernel: Any = "fused",
    statistic: str = "unbiased",
    null: str = "permutation",
    n_resamples: int = 999,
    weights: tuple[Any, Any] | None = None,
    paired: bool = False,
    by_column: bool = False,
    memory: float | None = None,
    batch: int | None = None,
    rng: Any = None,
    nan_policy: str = "raise",
    progress: bool | None = None,
) -> TestOutcome:
    """Test whether two samples come from one distribution, by their maximum mean discrepancy.

    Parameters
    ----------
    x, y
        Samples, one row an observation: arrays, or data frames with the same columns. Text and categories are
        compared as equal or not.
    kernel
        - `"fused"`: Gaussians at the scales the evidence speaks for and around them, and the whitened
          embedding, in one test; the default;
        - `"bkl"`: one kernel learned from the pooled sample by `learn_kernel`; `"ard"`: with a lengthscale
          for each numeric column;
        - `"median"`: the median heuristic;
        - a kernel object such as `Gaussian(2.0)` (in your units), a function (rows, rows) → matrix, or a list
          of any of these, which are fused.
    statistic
        `"unbiased"` or `"biased"` MMD²; for very large samples `"features"` (random Fourier features, linear
        in the rows).
    null
        - `"permutation"`: exact at any sample size; every arrangement where there are few;
        - `"gamma"`, `"spectral"`: approximations without resampling, for one kernel;
        - `"wild"`: the wild bootstrap for time series, rows in order of time, with the biased statistic.
    n_resamples
        How many relabelings.
    weights
        Weights of the rows of x and of y; each row keeps its weight when it changes sides. The level is exact
        if a row's weight does not depend on the sample it is in (survey weights); weights that carry one
        sample to the other's distribution are not of that kind.
    paired
        Row i of x and row i of y belong together: sides are swapped within pairs.
    by_column
        Also test each column by itself, with p-values corrected for the number of columns.
    memory
        How many steps a time series remembers, for `null="wild"`; √n if None.
    batch
        How many rows (diagonals) of the kernel matrix to hold at once; by default what fits 256 MiB.
    rng
        Seed or generator of the resampling; None is fresh entropy.
    nan_policy
        `"raise"`, `"omit"` (drop rows with missing values) or `"propagate"` (return nan).
    progress
        Whether to show a progress bar for passes of more than about a second; None: on a terminal only.

    Examples
    --------
    >>> import numpy as np
    >>> from kembed import mmd_test
    >>> rng = np.random.default_rng(1)
    >>> x, y = rng.normal(size=(100, 2)), rng.normal(size=(80, 2))
    >>> y[:, 1] = 0.7 * y[:, 0] + 0.7 * y[:, 1]  # same margins, but correlated
    >>> result = mmd_test(x, y, rng=0)
    >>> print(result.pvalue < 0.01)
    True

    """
    checks.choice(statistic, "statistic", STATISTICS)
    checks.choice(null, "null", NULLS)
    n_resamples = checks.count(n_resamples, "n_resamples", 1)
    batch = None if batch is None else checks.count(batch, "batch", 1)
    memory = None if memory is None else float(checks.positive(memory, "memory"))
    for flag, name in ((paired, "paired"), (by_column, "by_column")):
        checks.flag(flag, name)
    _check_combination(null, paired, weights, by_column, memory)
    tables, missing = read_tables(
        {"x": x, "y": y}, nan_policy=nan_policy, same_columns=True, paired=paired, minimum=2
    )
    seed = checks.generator(rng)
    if missing:
        return nothing("MMD²", null, tuple(table.given for table in tables))
    order = "time" if null == "wild" else "pairs" if paired else "none"
    pool = make_pool(tables, weights, order)
    with showing_progress(progress):
        if null == "permutation" and not paired:
            return test_pool(
                pool,
                kernel=kernel,
                statistic=statistic,
                n_resamples=n_resamples,
                by_column=by_column,
                batch=batch,
                rng=seed,
            )
        features = FEATURES if statistic == "features" else None
        choice = choose(kernel, pool.space, seed, features=features, single=_single(null))
        biased = statistic == "biased" or null == "wild"
        if null in ("gamma", "spectral"):
            return _approximate(pool, choice, null, biased, n_resamples, batch, seed)
        values, enumerated = _signed(pool, choice, null, paired, biased, n_resamples, memory, batch, seed)
        name = "biased MMD²" if null == "wild" else "MMD²"
        return resampled_outcome(name, pool.sizes, choice, values, null, enumerated)


def test_pool(
    pool: Pool,
    *,
    kernel: Any = "fused",
    statistic: str = "unbiased",
    n_resamples: int = 999,
    by_column: bool = False,
    batch: int | None = None,
    rng: np.random.Generator,
) -> TestOutcome:
    """The permutation test of two samples that are pooled already; arguments as for `mmd_test`."""
    features = FEATURES if statistic == "features" else None
    biased = statistic == "biased"
    choice = choose(kernel, pool.space, rng, features=features)
    labelings, enumerated = _draw_labelings(pool, n_resamples, rng)
    values = _values(pool, choice, labelings, biased, batch)
    result = resampled_outcome("MMD²", pool.sizes, choice, values, "permutation", enumerated)
    if not by_column:
        return result
    return replace(result, columns=_by_column(pool, kernel, features, labelings, biased, batch, rng))


test_pool.__test__ = False  # type: ignore[attr-defined]  # not a test of pytest


def _check_combination(null: str, paired: bool, weights: Any, by_column: bool, memory: float | None) -> None:
    """Refuse what does not go together, and say what does."""
    for given, name in ((weights is not None, "weights"), (by_column, "by_column")):
        if given and (paired or null != "permutation"):
            raise ValueError(
                f"{name} goes with null='permutation' and unpaired samples; leave {name} out or change those"
            )
    if paired and null not in ("permutation", "wild"):
        raise ValueError(
            "paired=True goes with null='permutation' (swaps within pairs) or 'wild'; change null, or leave "
            "paired out"
        )
    if memory is not None and null != "wild":
        raise ValueError("memory is for null='wild' (time series); leave it out, or set null='wild'")


def _single(null: str) -> str | None:
    return f"null={null!r}" if null in ("gamma", "spectral") else None


def _draw_labelings(pool: Pool, n_resamples: int, rng: np.random.Generator) -> tuple[Labelings, bool]:
    """All arrangements where they are no more than n_resamples + 1, else turns of random rings."""
    first = int(pool.labels.sum())
    few = pool.size <= FEW_ROWS and comb(pool.size, first) <= n_resamples + 1
    if not few:
        return Labelings(pool.labels, draw_star(pool.size, n_resamples, rng)), False
    every = comb(pool.size, first)
    columns = np.zeros((pool.size, every))
    for k, rows in enumerate(combinations(range(pool.size), first)):
        columns[list(rows), k] = 1.0
    own = (columns == pool.labels[:, None]).all(axis=0)
    return Labelings(pool.labels, None, columns[:, np.argsort(~own, kind="stable")]), True


def _values(pool: Pool, choice: Choice, labelings: Labelings, biased: bool, batch: int | None) -> Values:
    """MMD² of every kernel for the data (first row) and every relabeling."""
    parts = lowered(choice.members)
    found = label_forms([member for member, _ in parts], labelings, pool.weights, batch)
    places = np.argsort([place for _, places in parts for place in places])
    forms = [found[place] for place in places]
    size = sizes(labelings, pool.weights)
    typical = 1.0 if pool.weights is None else float(np.mean(pool.weights)) ** 2
    return Values(
        np.stack([statistics.mmd2(each, size, biased=biased) for each in forms], axis=1),
        np.array([statistics.usual_entry(each.squares, pool.size) / typical for each in forms]),
    )


def _signed(
    pool: Pool,
    choice: Choice,
    null: str,
    paired: bool,
    biased: bool,
    n_resamples: int,
    memory: float | None,
    batch: int | None,
    rng: np.random.Generator,
) -> tuple[Values, bool]:
    """MMD² for the data and for rows whose sides are swapped, or weighted by a wild process."""
    n = pool.sizes[0]
    enumerated = null == "permutation" and n <= FEW_ROWS and 2**n <= n_resamples + 1
    if null == "wild":
        W = _wild_columns(pool, paired, n_resamples, memory, rng)
    else:
        if enumerated:
            swaps = np.array(list(product((1.0, -1.0), repeat=n))).T
            own = (swaps == pool.signs[:, None]).all(axis=0)
            swaps = swaps[:, np.argsort(~own, kind="stable")]
        else:
            swaps = np.column_stack([pool.signs, rng.choice([-1.0, 1.0], (n, n_resamples))])
        W = np.concatenate([swaps, -swaps])
    values, entry = [], []
    for member in choice.members:
        for quadratic, diagonal, between, squares in signed_forms(member, W, n * (null != "wild"), batch):
            if biased:
                values.append((quadratic + diagonal) / (1.0 if null == "wild" else n * n))
            else:
                values.append((quadratic + 2.0 * between) / (n * (n - 1.0)))
            entry.append(statistics.usual_entry(squares, pool.size))
    return Values(np.stack(values, axis=1), np.array(entry)), enumerated


def _wild_columns(
    pool: Pool, paired: bool, n_resamples: int, memory: float | None, rng: np.random.Generator
) -> Float[np.ndarray, "N C"]:
    n, m = pool.sizes
    first = nulls.wild_weights(n, n_resamples, memory or np.sqrt(n), rng)
    second = first  # what depends within a pair must move together
    if not paired:
        second = nulls.wild_weights(m, n_resamples, memory or np.sqrt(m), rng)
    data = np.concatenate([np.full((n, 1), 1.0 / n), np.full((m, 1), -1.0 / m)])
    return np.concatenate([data, np.concatenate([first / n, -second / m])], axis=1)


def _approximate(
    pool: Pool,
    choice: Choice,
    null: str,
    biased: bool,
    n_resamples: int,
    batch: int | None,
    rng: np.random.Generator,
) -> TestOutcome:
    """Gamma or spectral null: (1/n + 1/m) Σ λ_l z_l², the eigenvalues of the centred matrix over N."""
    labelings = Labelings(pool.labels, None, pool.labels[:, None])
    (forms,) = label_forms([choice.one], labelings, None, batch)
    value = float(statistics.mmd2(forms, sizes(labelings, None), biased=biased)[0])
    n, m = pool.sizes
    N, factor = pool.size, 1.0 / n + 1.0 / m
    diagonal = choice.one.diagonals[0]
    trace, squares = statistics.centred_moments(forms.rows, forms.squares, diagonal)
    mean, variance = factor * trace / N, 2.0 * (factor / N) ** 2 * squares
    shift = 0.0 if biased else mean  # the unbiased statistic is the biased one less its null mean
    if null == "gamma" or variance == 0.0:
        draws = nulls.gamma_draws(mean, variance, n_resamples, rng) - shift
        pvalue = nulls.gamma_pvalue(value + shift, mean, variance)
    else:
        weights = factor * nulls.spectrum(choice.one, rng)
        draws = nulls.weighted_chi_squares(weights, n_resamples, rng) - weights.sum() + mean - shift
        pvalue = nulls.resampled_pvalue(value, draws)
    z = (value + shift - mean) / np.sqrt(variance) if variance > 0.0 else 0.0
    member = MemberResult(choice.kernels[0], value, float(z))
    return TestOutcome(
        value, pvalue, draws, choice.kernels[0], value, "MMD²", null, pool.sizes, (member,), choice.learned
    )


def _by_column(
    pool: Pool,
    kernel: Any,
    features: int | None,
    labelings: Labelings,
    biased: bool,
    batch: int | None,
    rng: np.random.Generator,
) -> tuple[ColumnResult, ...]:
    """Every column by itself on the same relabelings, corrected by the step-down maximum."""
    evidence, effects = [], []
    for c, name in enumerate(pool.names):
        space = make_space(pool.space.values[:, [c]], pool.space.categorical[[c]])
        choice = choose(_for_one_column(kernel, name), space, rng, features=features)
        column = Pool(space, pool.labels, pool.weights, (name,), pool.sizes)
        values = _values(column, choice, labelings, biased, batch)
        fused = fuse(tied(values.statistics, values.entry), choice.shares)
        evidence.append(fused)
        one = len(choice.kernels) == 1
        effects.append(float(values.statistics[0, 0]) if one else float(fused[0]))
    T = np.stack(evidence, axis=1)
    single = [nulls.resampled_pvalue(float(t[0]), t[1:]) for t in T.T]
    adjusted = nulls.step_down(T[0], T[1:])
    return tuple(
        ColumnResult(name, effect, p, q)
        for name, effect, p, q in zip(pool.names, effects, single, adjusted, strict=True)
    )


def column_tests(
    pool: Pool, n_resamples: int, rng: np.random.Generator, *, fast: bool
) -> tuple[ColumnResult, ...]:
    """The fused permutation test of every column of a pool by itself; `fast` by random features."""
    labelings, _ = _draw_labelings(pool, n_resamples, rng)
    return _by_column(pool, "fused", FEATURES if fast else None, labelings, False, None, rng)


def _for_one_column(kernel: Any, name: str) -> Any:
    """The kernel for a single column: words and kernels with one lengthscale carry over."""
    if isinstance(kernel, list | tuple):
        return [_for_one_column(one, name) for one in kernel]
    kernel = unwrapped(kernel)
    if isinstance(kernel, Kernel) and _spans_columns(kernel):
        raise ValueError(
            f"by_column=True tests {name!r} by itself, and {kernel!r} is made for all columns at once; "
            "give a word, or a kernel with one lengthscale"
        )
    return kernel


def _spans_columns(kernel: Kernel) -> bool:
    """Whether a kernel, or any part of it, names columns or has a lengthscale for each."""
    parts = [*getattr(kernel, "kernels", ()), *([kernel.kernel] if hasattr(kernel, "kernel") else [])]
    sizes = [getattr(kernel, name, 1.0) for name in ("lengthscale", "penalty")]
    own = hasattr(kernel, "columns") or any(np.ndim(size) > 0 for size in sizes)
    return own or any(_spans_columns(part) for part in parts)
