"""The independence test in one place: kernel pairs, re-paired rows, HSIC of every pair, fused.

HSIC is the squared norm of the cross-covariance of the features of two sides (Gretton et al. 2008),
‖Σ_i a_i ⊗ b_i‖²/n² of centred features, or Σ_ij K_ij L_ij of centred matrices where those are shorter. Under
independence any pairing of the rows is as likely as the one observed. Few rows are re-paired one by one; of
many, whole bins of the second side change places. Beyond what can be held or afforded, one pass brings back
moments, and the cross-products have their normal limit, all members jointly.

Features are fitted on each side's unordered rows, so that no pairing changes them: that keeps the test exact.
"""

from dataclasses import dataclass, field, replace
from math import factorial
from typing import Any

import numpy as np

from kembed.core.backend import Float, Int
from kembed.core.ordering import sorted_rows
from kembed.features import fused_pairs, fused_side
from kembed.features.ensemble import Ensemble, merged, separate_plan
from kembed.features.kernel import kernel_matrix
from kembed.features.members import (
    FeatureMember,
    KernelPair,
    MatrixMember,
    add_blocks,
    dense,
    up_to_cuts,
)
from kembed.features.rows import Rows, Sample
from kembed.kernels.space import Space, make_space
from kembed.learning.kernel_words import choose_kernel
from kembed.permutation import nulls
from kembed.permutation.bins import Bins
from kembed.permutation.crossings import (
    BINS,
    BinOrders,
    Places,
    bin_orders,
    bin_rows,
    covariance_factor,
    normal_crossings,
    unit_rows,
)
from kembed.permutation.exchange import refuse_split
from kembed.permutation.fusion import Values
from kembed.permutation.rings import Star, draw_shifts, draw_star
from kembed.permutation.series import crossed, principal_features
from kembed.permutation.sums import Layout, take_sample
from kembed.tables.source import HELD, Block, Source, added
from kembed.tables.table import Table
from kembed.testing.dense import centred_moments, matrix_sums, one_kernel
from kembed.testing.engine import MOST_LANDMARKS, single_ensemble
from kembed.testing.outcome import TestOutcome, approximate_outcome, resampled_outcome
from kembed.testing.procedure import CROSSED_ROWS, Procedure

Matrix = Float[np.ndarray, "n n"]
FEW_ROWS = 8  # more have more pairings than anybody waits for
SAMPLE = 4_096  # rows that features are fitted on beyond memory, about
CHUNK = 4_096  # rows whose features are computed at once
FLAT = 1e-13  # features that vary by less of their size are constant: what they vary by is rounding
# Products of features that "auto" takes for an exact answer, some 20 seconds: below, the limit is no faster
# (`python -m benchmarks.independence_size time`).
WORK = 3e11
STRATUM_BINS = 128  # of all strata, which have 8 at least where they have so many rows
LIMIT = "normal limit"  # what the null is called then
# Rows of a kernel matrix that are held: two of them take 6 gigabytes.
MATRIX_ROWS = 20_000
# Transforms of all products of p with q features take about as long as those of two matrices of so many rows
# times pq.
PRODUCTS_A_ROW = 2
# Of a kernel of more than a few features the leading ones are crossed, down to a share of the variance:
# cross-products cost their number on one side times that on the other.
FEW, LEADING, NEGLIGIBLE = 16, 64, 1e-4
WIDE = 600  # features of one kernel, beyond which their leading ones are found by iteration


Pairings = Star | BinOrders


@dataclass(eq=False)
class Side:
    """The rows of one side, and the centred features and matrices of its members, each computed once."""

    sample: Sample  # what members are fitted on
    values: Float[np.ndarray, "n D"]
    strata: Int[np.ndarray, " n"] | None = None
    _features: dict[int, Any] = field(default_factory=dict, repr=False)

    def features(self, member: FeatureMember) -> Float[np.ndarray, "n P"]:
        """About their mean (within strata); 0 where all is rounding."""
        if id(member) not in self._features:
            self._features[id(member)] = (member, self._centred(member))
        return self._features[id(member)][1]

    def _centred(self, member: FeatureMember) -> Float[np.ndarray, "n P"]:
        if self.sample.complete:
            found = np.array(member.of(self.sample))
        else:
            basis, starts = self.sample.fitted(), range(0, len(self.values), CHUNK)
            found = np.concatenate([member.of(Rows(basis, self.values[i : i + CHUNK])) for i in starts])
        mean = found.mean(axis=0)
        found -= mean
        found[:, np.abs(found).max(axis=0) <= FLAT * np.abs(mean)] = 0.0
        for stratum in () if self.strata is None else np.unique(self.strata):
            inside = self.strata == stratum
            found[inside] -= found[inside].mean(axis=0)
        return found


def centred(K: Matrix, *, biased: bool) -> tuple[Matrix, float]:
    """A kernel matrix about its means, and the size of an entry: HKH, or with nothing on the diagonal.

    Without the diagonal means are those of U-statistics, so that Σ K_ij L_ij / (n (n - 3)) is the unbiased
    HSIC (Song et al. 2012; Székely & Rizzo 2014).
    """
    n = len(K)
    if biased:
        mean, size = K.mean(axis=0), float(np.sqrt(np.square(K).mean()))
        return K - mean - mean[:, None] + mean.mean(), size
    np.fill_diagonal(K, 0.0)
    size = float(np.sqrt(np.square(K).sum() / (n * (n - 1.0))))
    rows = K.sum(axis=0) / (n - 2.0)
    K -= rows
    K -= rows[:, None]
    K += rows.sum() / (n - 1.0)
    np.fill_diagonal(K, 0.0)
    return K, size


def pair_values(pair: KernelPair, left: Side, right: Side, pairings: Pairings, biased: bool) -> Values:
    """HSIC of every kernel pair of two members, under every pairing."""
    n, members = len(left.values), (pair.left, pair.right)
    wide = all(member.map is None or member.cuts == (member.width,) for member in members)
    if left.sample.complete and (
        any(member.map is None for member in members)
        or (wide and pair.left.width * pair.right.width > PRODUCTS_A_ROW * n)
    ):
        (K, one), (L, other) = (
            centred(np.array(member.matrix(side.sample)), biased=biased)
            for side, member in zip((left, right), members, strict=True)
        )
        divisor = n * (n if biased else n - 3.0)
        return Values(pairings.forms(K, L)[:, None] / divisor, np.array([one * other])).merged(False)
    A, B = left.features(pair.left), right.features(pair.right)
    norms = (np.einsum("ip,ip->p", each, each) for each in (A, B))
    size = trace_products(norms, members, pair.cuts)
    values = add_squares(pairings.products(A, B, pair.left.width), pair, A.shape[1])
    # Over n², less what it is on average over all pairings.
    values = (values.T - (0.0 if biased else size / (n - 1.0))) / n**2
    return Values(values, size / n**2).merged(len(size) > 1)


def trace_products(norms: Any, members: Any, cuts: tuple[tuple[int, int], ...]) -> Float[np.ndarray, " J"]:
    """The traces of all blocks at every cut, of either side, multiplied in the order of `add_squares`.

    `norms` are the squared norms of the features of either side.
    """
    one, other = (
        add_blocks(own[:, None], member.width, member.cuts).reshape(-1, len(member.cuts))
        for own, member in zip(norms, members, strict=True)
    )
    left, right = ([pair[k] for pair in cuts] for k in (0, 1))
    return (one[:, None, left] * other[None, :, right]).ravel()


def add_squares(products: Any, pair: KernelPair, count: int) -> Float[np.ndarray, "J C"]:
    """Squares of cross-products, added up over blocks of the left, blocks of the right, and pairs of cuts."""
    left, right = pair.left, pair.right
    found: Any = None
    for part, cross in products:
        squares = np.square(cross).reshape(len(cross), -1, right.width, cross.shape[-1])
        sums = up_to_cuts(squares, right.cuts, axis=2)
        if found is None:
            shape = (count // left.width, squares.shape[1], len(pair.cuts), cross.shape[-1])
            found = np.zeros(shape)
        for p in range(part.start, part.start + len(cross)):
            block, place = divmod(p, left.width)
            for number, (j, k) in enumerate(pair.cuts):
                if place < left.cuts[j]:
                    found[block, :, number] += sums[k][p - part.start]
    return found.reshape(-1, found.shape[-1])


def choose_pairs(
    kernels: tuple[Any, Any], left: Sample, right: Sample, rng: np.random.Generator
) -> tuple[tuple[KernelPair, ...], Ensemble]:
    """The kernel pairs that `kernels` stands for on the rows of two sides, and what to call them."""
    if all(isinstance(kernel, str) and kernel == "fused" for kernel in kernels):
        return fused_pairs(left, right)
    one, other = (
        _choose_side(kernel, side, rng) for kernel, side in zip(kernels, (left, right), strict=True)
    )
    pairs = tuple(KernelPair(a, b) for a in one.members for b in other.members)
    return pairs, _named(one, other)


def _named(one: Ensemble, other: Ensemble) -> Ensemble:
    """What to call every kernel of one side with every one of the other, and what was learned of either."""
    names = tuple((a, b) for a in one.kernels for b in other.kernels)
    learned = tuple(side.learned[0] if side.learned else None for side in (one, other))
    return Ensemble((), names, separate_plan(len(names)), learned if any(learned) else ())


def _choose_side(kernel: Any, sample: Sample, rng: np.random.Generator) -> Ensemble:
    """Kernels of one side; of all rows in memory their matrices."""
    if isinstance(kernel, list | tuple):
        if not kernel:
            raise ValueError("kernel is an empty list; give at least one kernel")
        return merged([_choose_side(one, sample, rng) for one in kernel])
    if isinstance(kernel, str) and kernel == "fused":
        return fused_side(sample)
    if not sample.complete:
        return single_ensemble(kernel, sample, rng)
    chosen, learned = choose_kernel(kernel, sample.space)
    member = MatrixMember(kernel_matrix(chosen, sample.values).whole())
    return Ensemble((member,), (chosen,), separate_plan(1), (learned,) if learned else ())


def rows_test(
    tables: list[Table], names: list[tuple[str, ...]], kernels: tuple[Any, Any], procedure: Procedure
) -> TestOutcome:
    """The test of rows in memory, all of which fit the kernels and are re-paired one by one."""
    n, rng = len(tables[0].values), procedure.rng
    if n > MATRIX_ROWS:
        seen = f"statistic={procedure.statistic!r} with null={procedure.null!r}"
        raise ValueError(
            f"{seen} holds two matrices of {n:,} x {n:,} numbers; give fewer rows, or change these"
        )
    spaces = [make_space(table.values, table.categorical) for table in tables]
    if procedure.approximate or procedure.null == "wild":
        return _one_kernel(kernels, spaces, procedure)
    left, right = (Sample(space, own) for space, own in zip(spaces, names, strict=True))
    pairs, ensemble = choose_pairs(kernels, left, right, rng)
    sides, pairings = (Side(left, left.values), Side(right, right.values)), draw_pairings(n, procedure)
    values = _together([pair_values(pair, *sides, pairings, procedure.biased) for pair in pairs])
    return resampled_outcome("HSIC", (n,), ensemble, values, procedure.null, pairings.enumerated)


def draw_pairings(n: int, procedure: Procedure) -> Pairings:
    """Turns of random rings, or of the ring of time; all pairings of few rows."""
    count = procedure.n_resamples
    if procedure.null == "shift":
        return draw_shifts(n, count, procedure.rng)
    if n <= FEW_ROWS and factorial(n) <= count + 1:
        return bin_orders([(np.arange(n)[None], np.arange(0))], count, procedure.rng)
    return draw_star(n, count, procedure.rng)


def _together(parts: list[Values]) -> Values:
    """The values of all pairs."""
    table = np.concatenate([part.statistics for part in parts], axis=1)
    return Values(table, np.concatenate([part.entry for part in parts]))


def _one_kernel(kernels: tuple[Any, Any], spaces: list[Space], procedure: Procedure) -> TestOutcome:
    """One kernel a side: the wild bootstrap, or the gamma or spectral null.

    n HSIC → Σ_ab λ_a η_b z_ab², the eigenvalues of the two centred matrices.
    """
    sides = [one_kernel(kernel, space, procedure) for kernel, space in zip(kernels, spaces, strict=True)]
    matrices, n, ensemble = [side.members[0] for side in sides], len(spaces[0].values), _named(*sides)
    if procedure.null == "wild":
        (K, _), (L, _) = (centred(each.whole(), biased=True) for each in matrices)
        product, how = K * L, crossed(*map(principal_features, matrices))
        # Products are many: with the tails of a t rejections are too few (`benchmarks/series.py`).
        (W,) = procedure.wild_columns([n], [how], tails=False)
        table = np.einsum("ic,ic->c", W, product @ W)[:, None] / n**2
        values = Values(table, np.array([float(np.sqrt(np.mean(np.square(product))))]))
        return resampled_outcome("biased HSIC", (n,), ensemble, values, "wild", False)
    sums = (matrix_sums(each, np.zeros((n, 0))) for each in matrices)
    (trace_x, squares_x), (trace_y, squares_y) = map(centred_moments, sums)
    value, mean, variance = 0.0, trace_x * trace_y / n**3, 2.0 * squares_x * squares_y / n**6
    if mean > 0.0:  # else a side does not vary
        K, L = (centred(each.whole(), biased=procedure.biased)[0] for each in matrices)
        value = float(np.vdot(K, L)) / (n * (n if procedure.biased else n - 3.0))

    def weights() -> Float[np.ndarray, " L"]:
        spectra = [nulls.spectrum(each, procedure.rng) for each in matrices]
        return nulls.leading(np.multiply.outer(*spectra).ravel()) / n

    return approximate_outcome("HSIC", (n,), ensemble, procedure, value, (mean, variance), weights)


def columns_test(
    source: Source,
    columns: tuple[tuple[int, ...], tuple[int, ...]],
    names: list[tuple[str, ...]],
    kernels: tuple[Any, Any],
    procedure: Procedure,
    *,
    unit: Any = 1,
    strata: Any = None,
) -> TestOutcome:
    """The test of some columns of a source against others by features, of any number of rows.

    `unit` consecutive rows stay together, or rows of the same number where it is an array of those; rows of y
    change places within `strata`, the number of which every row has.
    """
    rng, every = procedure.rng, columns[0] + columns[1]
    key, held = int(rng.integers(2**62)), source.size * len(every) <= HELD
    alone = isinstance(unit, int) and unit == 1 and strata is None
    if held:
        rows = source.fold(take_sample, Layout(every)).table
        bins = len(rows) if alone and len(rows) <= CROSSED_ROWS else BINS
        places = _places(len(rows), unit, strata, key, bins)
        sample = rows[_sampled(places, unit if isinstance(unit, int) and strata is None else 1)]
    elif not alone or procedure.null == "shift":
        said = "null='shift'" if procedure.null == "shift" else "unit" if strata is None else "strata"
        seen = f"{said} moves rows in memory, and {source.label} has more than {HELD:.0e} numbers"
        raise ValueError(f"{seen}; take fewer rows or columns, or leave it out")
    else:
        few = Bins(source.size, SAMPLE, 1, key)
        sample = source.fold(take_sample, Layout(every), few, SAMPLE).table
    cut, kinds = len(columns[0]), source.schema.discrete[list(every)]
    samples = [
        Sample(
            make_space(sorted_rows(sample[:, part]), kinds[part]),
            own,
            points=MOST_LANDMARKS,
            complete=False,
        )
        for part, own in zip((slice(cut), slice(cut, None)), names, strict=True)
    ]
    pairs, ensemble = choose_pairs(kernels, samples[0], samples[1], rng)
    one, other = (
        {member: leading(member, sample) for member in side}
        for side, sample in zip(_members(pairs), samples, strict=True)
    )
    pairs = tuple(KernelPair(one[a], other[b], cuts) for a, b, cuts in pairs)
    limit = procedure.null == "normal" or not held
    if procedure.statistic == "auto" and procedure.null == "permutation" and alone:
        limit = limit or len(rows) * BINS * _products(pairs, samples) > WORK
    if limit:
        return _limit(source, columns, pairs, ensemble, samples, procedure)
    sides = Side(samples[0], rows[:, :cut], strata), Side(samples[1], rows[:, cut:], strata)
    single = procedure.null == "shift" or bins == len(rows)
    pairings = (
        draw_pairings(len(rows), procedure) if single else bin_orders(places, procedure.n_resamples, rng)
    )
    values = _together([pair_values(pair, *sides, pairings, procedure.biased) for pair in pairs])
    result = resampled_outcome("HSIC", (len(rows),), ensemble, values, procedure.null, pairings.enumerated)
    return (
        replace(result, bins=(pairings.bins,)) if isinstance(pairings, BinOrders) and not single else result
    )


def _places(n: int, unit: Any, strata: Int[np.ndarray, " n"] | None, key: int, bins: int) -> list[Places]:
    """Bins of rows, of so many consecutive rows, or of units of every size, within strata."""
    if isinstance(unit, int) and strata is None:
        if n < 2 * unit:
            seen = f"unit={unit} leaves {n // unit} units of {n} rows that could change places"
            raise ValueError(f"{seen}; give more rows or smaller units")
        return [bin_rows(n, key, unit=unit, bins=bins)]
    units = np.arange(n) // unit if isinstance(unit, int) else unit
    if strata is None:
        if not (found := unit_rows(units, key, bins=bins)):
            raise ValueError("no two units have as many rows; name smaller units, or cut them to one size")
        return found
    refuse_split([units], [strata], {}, "a unit", "name units that lie within one stratum")
    if not (found := unit_rows(units, key, bins=STRATUM_BINS, strata=strata)):
        raise ValueError("no stratum has two units of as many rows; name coarser strata or smaller units")
    return found


def _sampled(places: list[Places], unit: int) -> Int[np.ndarray, " k"]:
    """Rows that features are fitted on: the same places of every bin, so many of every size of unit."""
    whole = sum(rows.size for rows, _ in places)
    found = []
    for own, _ in places:
        rows = -(-SAMPLE * own.size // whole)
        found.append(own[: -(-rows // (own.shape[1] * unit)) * unit].ravel())
    return np.concatenate(found)


def _members(pairs: tuple[KernelPair, ...]) -> tuple[list[FeatureMember], list[FeatureMember]]:
    """The members of either side, each once."""
    return list(dict.fromkeys(pair.left for pair in pairs)), list(dict.fromkeys(pair.right for pair in pairs))


def leading(member: FeatureMember, rows: Rows) -> FeatureMember:
    """The principal features of a kernel of many, as these rows have them; one of few stays as it is."""
    if member.cuts != (member.width,) or member.width <= FEW:
        return member
    F = member.turned(member.features(rows))
    if F.shape[1] > member.width:  # several kernels
        return member
    values, vectors = _principal(F)
    kept = np.flatnonzero(values > NEGLIGIBLE * max(float(values.sum()), 0.0))[::-1][:LEADING]
    kept = kept if len(kept) else np.arange(1)
    linear = vectors[:, kept] if member.linear is None else member.linear @ vectors[:, kept]
    return FeatureMember(member.features, len(kept), (len(kept),), linear)


def _principal(F: Any) -> tuple[Float[np.ndarray, " r"], Float[np.ndarray, "P r"]]:
    """Eigenvalues of the covariance of features, rising, and vectors; of very many by iteration."""
    mean = np.asarray(F.mean(axis=0)).ravel()
    if F.shape[1] <= WIDE:
        about_mean = dense(F) - mean
        values, vectors = np.linalg.eigh(about_mean.T @ about_mean)
        return values, vectors

    def covariance_times(Q: Float[np.ndarray, "P r"]) -> Float[np.ndarray, "P r"]:
        found = F @ Q - mean @ Q
        return F.T @ found - np.outer(mean, found.sum(axis=0))

    Q = np.random.default_rng(0).standard_normal((F.shape[1], LEADING + 16))
    for _ in range(3):
        Q, _ = np.linalg.qr(covariance_times(Q))
    values, small = np.linalg.eigh(Q.T @ covariance_times(Q))
    return values, Q @ small


def _products(pairs: tuple[KernelPair, ...], samples: list[Sample]) -> int:
    """How many products of features a row has."""
    rows = [Rows(sample.fitted(), sample.values[:1]) for sample in samples]
    one, other = (
        {member: member.of(own).shape[1] for member in side}
        for side, own in zip(_members(pairs), rows, strict=True)
    )
    return sum(one[pair.left] * other[pair.right] for pair in pairs)


def sum_moments(
    block: Block,
    columns: tuple[tuple[int, ...], tuple[int, ...]],
    fitted: list[Any],
    members: list[list[FeatureMember]],
    centre: Float[np.ndarray, " P"],
) -> dict[str, Any]:
    """First and second moments of the features of both sides over the rows of a block, about a centre."""
    P = len(centre)
    total: Any = {"rows": 0, "sum": np.zeros(P), "squares": np.zeros((P, P))}
    for start in range(0, len(block.values), CHUNK):
        values = block.values[start : start + CHUNK]
        rows = [Rows(basis, values[:, list(own)]) for basis, own in zip(fitted, columns, strict=True)]
        F = np.hstack([each.of(own) for side, own in zip(members, rows, strict=True) for each in side])
        F -= centre
        total = added(total, {"rows": len(F), "sum": F.sum(axis=0), "squares": F.T @ F})
    return total


def _limit(
    source: Source,
    columns: tuple[tuple[int, ...], tuple[int, ...]],
    pairs: tuple[KernelPair, ...],
    ensemble: Ensemble,
    samples: list[Sample],
    procedure: Procedure,
) -> TestOutcome:
    """One pass for moments, and draws of the normal law of all cross-products."""
    members, fitted = _members(pairs), [sample.fitted() for sample in samples]
    rows = [Rows(basis, sample.values) for basis, sample in zip(fitted, samples, strict=True)]
    means = [[each.of(own).mean(axis=0) for each in side] for side, own in zip(members, rows, strict=True)]
    starts = [tuple(np.cumsum([0, *map(len, side)]).tolist()) for side in means]
    middle, centre = starts[0][-1], np.concatenate([*means[0], *means[1]])
    found = source.fold(sum_moments, columns, fitted, members, centre)
    n, mean = found["rows"], found["sum"] / found["rows"]
    covariance = found["squares"] / n - np.outer(mean, mean)
    varied = np.sqrt(np.diagonal(covariance)) > FLAT * np.abs(centre + mean)
    covariance *= np.outer(varied, varied)
    halves = covariance[:middle, :middle], covariance[middle:, middle:]
    factors = list(map(covariance_factor, halves, starts))
    places = [(members[0].index(pair.left), members[1].index(pair.right)) for pair in pairs]
    parts = [(slice(*starts[0][j : j + 2]), slice(*starts[1][k : k + 2])) for j, k in places]
    own = [n * covariance[:middle, middle:][None, a, b] for a, b in parts]
    drawn = normal_crossings(factors[0], factors[1], places, procedure.n_resamples, procedure.rng)
    squares: list[list[Any]] = [[] for _ in pairs]
    for scale, batch in ((1.0, own), *((float(n), each) for each in drawn)):
        for kept, sums, pair in zip(squares, batch, pairs, strict=True):
            products = [(slice(0, sums.shape[1]), np.moveaxis(sums, 0, -1))]
            kept.append(scale * add_squares(products, pair, sums.shape[1]))
    values = []
    for kept, pair, part in zip(squares, pairs, parts, strict=True):
        norms = (n * np.diagonal(half)[own] for half, own in zip(halves, part, strict=True))
        size = trace_products(norms, (pair.left, pair.right), pair.cuts)
        table = np.concatenate(kept, axis=1).T - (0.0 if procedure.biased else size / (n - 1.0))
        values.append(Values(table / n**2, size / n**2).merged(True))
    return resampled_outcome("HSIC", (n,), ensemble, _together(values), LIMIT, False)
