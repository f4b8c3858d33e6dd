"""Changes over time: exact p-values, the scan as a loop, where changes are, and what is refused."""

from itertools import pairwise, permutations
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

import kembed
from kembed import change_points
from kembed.comparing.change_points import in_order
from kembed.features.members import entries
from kembed.permutation.bins import make_ordered_edges
from kembed.permutation.designs import Reordered, split
from kembed.permutation.fusion import fuse
from kembed.permutation.sums import member_statistics
from kembed.testing import change_points as scans
from kembed.testing.change_points import (
    Series,
    evidence_at,
    find_changes,
    fitted_rows,
    position_pvalues,
    principal,
    spread_evenly,
    squared_sums,
    sums_between,
)
from kembed.testing.engine import Fitted, choose_ensemble, sample_of


def series(x, unit=1, least=5, resamples=99, seed=0):
    n, d = x.shape
    names = tuple(f"c{k}" for k in range(d))
    return Series(x, np.zeros(d, dtype=bool), names, np.arange(n) * 1.0, unit, least, resamples, seed)


@pytest.fixture
def two_changes(rng):
    """A mean, then a category."""
    day = pl.date_range(pl.date(2024, 1, 1), pl.date(2024, 7, 28), eager=True)
    n = len(day)
    load = rng.normal(50.0, 10.0, n) + np.where(np.arange(n) >= 70, 20.0, 0.0)
    city = np.where((np.arange(n) >= 140) & (rng.random(n) < 0.6), "Lima", rng.choice(["Bern", "Oslo"], n))
    return pl.DataFrame({"day": day, "load": load, "noise": rng.normal(size=n), "city": city})


# --- what is permuted -------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 5, 64, 257, 300, 1001, 4096])
@pytest.mark.parametrize("unit", [1, 2, 7])
def test_bins_are_the_same_from_either_end(n, unit):
    edges = make_ordered_edges(n, unit=unit)
    np.testing.assert_array_equal(edges, n - edges[::-1])
    sizes = np.diff(edges)
    own = np.flatnonzero(sizes == sizes[0])
    assert len(own) >= len(sizes) - 1
    assert (edges[0], edges[-1]) == (0, n)
    if n >= 2 * unit:
        assert sizes[0] % unit == 0
        assert len(sizes) <= 256


def test_positions_are_the_same_from_either_end():
    for count in (1, 5, 63, 64, 65, 100, 1001):
        places = np.arange(count)
        found = spread_evenly(places)
        np.testing.assert_array_equal(found, count - 1 - found[::-1])
        assert (found[0], found[-1], len(found)) == (0, count - 1, min(count, 64))


def test_orders_keep_a_bin_that_cannot_move(rng):
    design = Reordered(np.array([0, 0, -1, 0]))
    every, enumerated = design.draw(5, rng)
    assert enumerated
    np.testing.assert_array_equal(every[:, 0], np.arange(4))
    assert {tuple(column) for column in every.T} == {(a, b, 2, c) for a, b, c in permutations((0, 1, 3))}
    some, enumerated = design.draw(4, rng)
    assert not enumerated
    assert some.shape == (4, 5)
    np.testing.assert_array_equal(some[:, 0], np.arange(4))
    np.testing.assert_array_equal(np.sort(some, axis=0), np.tile(np.arange(4)[:, None], 5))


def test_a_split_is_a_difference_of_means(rng):
    weight, sums = rng.integers(1, 4, 6).astype(float), rng.normal(size=6)
    places, _ = Reordered(np.zeros(6, dtype=int)).draw(8, rng)
    for position in range(1, 6):
        ((factor, W),) = split(places, weight, position).terms
        for column, order in zip(W.T, np.argsort(places, axis=0).T, strict=True):
            before, after = order[:position], order[position:]
            wanted = sums[before].sum() / weight[before].sum() - sums[after].sum() / weight[after].sum()
            assert factor * column @ sums == pytest.approx(wanted)


def test_the_scan_is_the_fused_test_at_every_position(rng):
    """All positions share the matrices of pairs of bins."""
    x = rng.normal(size=(40, 2))
    edges = make_ordered_edges(40)
    sample = sample_of(x, np.zeros(2, dtype=bool), ("a", "b"))
    ensemble = choose_ensemble("fused", sample, rng)
    sums, sizes = sums_between(x, edges, sample, ensemble.maps), entries(ensemble.members, sample)
    places, _ = Reordered(np.zeros(40, dtype=int)).draw(19, rng)
    positions = np.array([5, 20, 31])
    found = evidence_at(positions, [Fitted(ensemble, sizes)], sums, places)
    kernels = []
    for k, position in enumerate(positions):
        alone = sums_between(x, edges, sample, ensemble.maps)
        values = member_statistics(ensemble.members, alone, split(places, sums.weight, position))
        wanted = fuse(
            scans.evaluate(ensemble, sizes, alone, split(places, sums.weight, position)), ensemble.plan
        )
        assert values.shape == (20, len(ensemble.kernels))
        np.testing.assert_allclose(found.evidence[0][:, k], wanted.whole, rtol=1e-6)
        np.testing.assert_allclose(found.kernels[k], wanted.kernels[0], rtol=1e-6)
        kernels.append(np.exp(wanted.kernels))
    np.testing.assert_allclose(found.by_kernel, np.log(np.mean(kernels, axis=0)), rtol=1e-6)


@pytest.mark.parametrize("unit", [1, 2])
@pytest.mark.parametrize("rest", [0, 1])
def test_pvalues_are_ranks(unit, rest, rng):
    """With all orders of four rows, or of four blocks around a rest, in turn as the data."""
    x = rng.normal(size=(4 * unit + (rest if unit > 1 else 0), 2))
    edges = make_ordered_edges(len(x), unit=unit)
    parts = [x[a:b] for a, b in pairwise(edges)]
    movable = [k for k, part in enumerate(parts) if len(part) == unit]
    assert len(movable) == 4
    pvalues = []
    for order in permutations(movable):
        places = dict(zip(movable, order, strict=True))
        own = np.concatenate([parts[places.get(k, k)] for k in range(len(parts))])
        scan = series(own, unit, least=unit, resamples=23).scan(0, len(own))
        assert scan.enumerated
        pvalues.append(scan.pvalue)
    pvalues = np.array(pvalues)
    for p in np.unique(pvalues):
        assert (pvalues <= p).mean() == pytest.approx(p)
    assert pvalues.min() == pytest.approx(2 / 24)  # an order and its reverse are one


def test_level():
    """Of 100 null series the share with p at most .1 is within three standard errors."""
    hits = []
    for seed in range(100):
        x = np.random.default_rng(seed).normal(size=(30, 1))
        hits.append(series(x, resamples=19, seed=seed).scan(0, 30).pvalue <= 0.1)
    assert abs(np.mean(hits) - 0.1) <= 3.0 * np.sqrt(0.1 * 0.9 / 100)


@pytest.mark.parametrize("n", [50, 3_001, 200_001])
def test_fitted_rows_do_not_depend_on_the_order_of_bins(n):
    """The same places of every bin, from either end; all rows of few."""
    edges = make_ordered_edges(n)
    rows = fitted_rows(edges, np.random.default_rng(0))
    bins = np.searchsorted(edges, rows, side="right") - 1
    sizes = np.diff(edges)
    own = np.flatnonzero(sizes == sizes[0])
    places = [set((rows - edges[bins])[bins == k].tolist()) for k in own]
    assert all(each == places[0] for each in places)
    assert {int(sizes[0]) - 1 - place for place in places[0]} == places[0]
    assert len(rows) == len(own) * len(places[0])
    assert len(rows) >= 0.9 * min(n - sizes.max() + 1, scans.FEWEST)  # a place in the middle counts once
    assert len(rows) <= 2 * scans.MOST


def test_the_fit_is_the_same_for_any_order_of_bins(rng):
    """What a scan of many rows is fitted on, for the data and for its bins in another order."""
    x = rng.normal(size=(20_000, 1))
    edges = make_ordered_edges(len(x))
    parts = [x[a:b] for a, b in pairwise(edges)]
    middle = [k for k, part in enumerate(parts) if len(part) != len(parts[0])]
    moved = rng.permutation([k for k in range(len(parts)) if k not in middle]).tolist()
    places = iter(moved)
    other = np.concatenate([parts[k] if k in middle else parts[next(places)] for k in range(len(parts))])
    rows = fitted_rows(edges, np.random.default_rng(0))
    np.testing.assert_array_equal(np.sort(x[rows, 0]), np.sort(other[rows, 0]))
    np.testing.assert_array_equal(np.sort(x[rows, 0]), np.sort(x[::-1][rows, 0]))


# --- where ------------------------------------------------------------------------------------------------


def test_squared_sums_are_mmd_by_the_sizes_of_the_sides(rng):
    sizes = rng.integers(1, 4, 7)
    rows = rng.normal(size=(sizes.sum(), 3))
    edges = np.append(0, np.cumsum(sizes))
    F = np.array([rows[a:b].sum(axis=0) for a, b in pairwise(edges)])
    n = len(rows)
    for k, found in enumerate(squared_sums(F, sizes)):
        t = edges[k + 1]
        gap = rows[:t].mean(axis=0) - rows[t:].mean(axis=0)
        assert found == pytest.approx(t * (n - t) / n * gap @ gap)
    np.testing.assert_allclose(squared_sums(principal(F, sizes), sizes), squared_sums(F, sizes))


def test_principal_features_are_a_rotation_of_few(rng, monkeypatch):
    F, sizes = rng.normal(size=(20, 40)), np.ones(20, dtype=int)
    monkeypatch.setattr(scans, "COMPONENTS", 20)
    np.testing.assert_allclose(squared_sums(principal(F, sizes), sizes), squared_sums(F, sizes))


def test_the_true_position_is_rejected_at_the_level():
    """Of 100 series the share with p at most .2 is within three standard errors; far off, p is small."""
    hits, sizes, every = [], np.ones(24, dtype=int), np.arange(1, 24)
    for seed in range(100):
        rng = np.random.default_rng(seed)
        F = rng.normal(size=(24, 2))
        F[8:, 0] += 1.5
        hits.append(position_pvalues(F, sizes, every, np.array([8]), rng)[0] <= 0.2)
    assert np.mean(hits) <= 0.2 + 3.0 * np.sqrt(0.2 * 0.8 / 100)
    F[8:, 0] += 5.0
    p = position_pvalues(F, sizes, every, np.array([3, 8, 16]), rng)
    assert p[0] <= 0.02 < 0.05 < p[1]
    assert p[2] <= 0.02


@pytest.mark.parametrize("kind", ["mean", "spread", "correlation", "category", "new level"])
def test_a_planted_change_is_found(kind):
    rng = np.random.default_rng(3)
    n, at = 160, 90
    a, b, city = rng.normal(size=n), rng.normal(size=n), rng.choice(["Bern", "Oslo"], n)
    after = np.arange(n) >= at
    if kind == "mean":
        a = a + 1.5 * after
    if kind == "spread":
        a = np.where(after, 3.0 * a, a)
    if kind == "correlation":
        a = np.where(after, 0.95 * b + 0.31 * a, a)
    if kind == "category":
        city = np.where(after & (rng.random(n) < 0.9), "Oslo", city)
    if kind == "new level":
        city = np.where(after & (rng.random(n) < 0.3), "Lima", city)
    found = change_points(pl.DataFrame({"a": a, "b": b, "city": city}), n_resamples=99)
    (change,) = found.changes
    assert abs(change.position - at) <= 10
    assert change.interval[0] <= at <= change.interval[1]
    assert change.pvalue == found.pvalue == 0.01
    names = {one.name: one.change for one in change.columns}
    if kind == "correlation":
        assert [pair.columns for pair in change.pairs] == [("a", "b")]
        assert " went from 0.16 before to 0.94 after" in change.pairs[0].words
    else:
        assert set(names) == {"a" if kind in ("mean", "spread") else "city"}
        (words,) = names.values()
        start = {
            "mean": "mean ",
            "spread": "mean ",
            "category": "'Bern' is ",
            "new level": "'Lima' is 0.0% before",
        }
        assert words.startswith(start[kind])
        assert " before" in words
        assert " after" in words
        assert "in before" not in words
    assert "One change was found in 160 rows: after" in repr(found)


def test_nothing_is_found_where_nothing_changes(rng):
    found = change_points(rng.normal(size=(80, 2)), n_resamples=99)
    assert not found.changed
    assert found.changes == ()
    assert found.verdict.startswith("No change was found in 80 rows (p = ")
    assert "does not prove" in found.verdict


def test_two_changes_and_their_columns(two_changes):
    found = change_points(two_changes, order="day", n_resamples=199)
    assert [one.columns[0].name for one in found.changes] == ["load", "city"]
    assert [abs(one.position - at) <= 4 for one, at in zip(found.changes, (70, 140), strict=True)] == [
        True
    ] * 2
    first, second = found.changes
    assert abs(np.datetime64(first.time) - np.datetime64("2024-03-11")) <= np.timedelta64(4, "D")
    assert first.label == f"at {first.time}"
    assert first.interval_time[0] <= first.time <= first.interval_time[1]
    assert first.columns[0].change.startswith("mean ")
    assert "'Lima' is 0.0% before" in second.columns[0].change
    assert [column.name for change in found.changes for column in change.columns] == ["load", "city"]
    assert found.verdict.startswith("2 changes were found in 210 rows: at 2024-03-1")
    assert found.table.names == ("load", "noise", "city")


def test_a_reversed_series_has_mirrored_changes(rng):
    x = rng.normal(size=(261, 1))  # in bins of two, with a rest in the middle
    x[90:] += 2.0
    x[180:] += 2.0
    one, other = (change_points(values, n_resamples=79, min_segment=60) for values in (x, x[::-1]))
    assert len(one.changes) == 2
    for a, b in zip(one.changes, other.changes[::-1], strict=True):
        assert (a.position, a.pvalue) == (261 - b.position, b.pvalue)
        assert a.interval == tuple(261 - end for end in b.interval[::-1])
    assert one.pvalue == other.pvalue
    np.testing.assert_array_equal(one.evidence, other.evidence[::-1])
    np.testing.assert_array_equal(one.positions, 261 - other.positions[::-1])


def test_units_do_not_matter(rng):
    x = rng.normal(size=(60, 2))
    x[40:, 0] += 2.0
    one = change_points(x, n_resamples=99)
    for scaled in (x * 2.0**20, x * [2.0**-300, 1.0]):
        found = change_points(scaled, n_resamples=99)
        assert [a.position for a in found.changes] == [a.position for a in one.changes]
        assert found.pvalue == one.pvalue
        np.testing.assert_allclose(found.evidence, one.evidence, rtol=1e-6)


def test_the_same_by_every_route_and_in_any_order(two_changes, tmp_path):
    few = two_changes.head(105).select("day", "load", "city")[30:]
    wanted = change_points(few, order="day", n_resamples=99).to_dict()
    few.sample(fraction=1.0, shuffle=True, seed=1).write_csv(tmp_path / "shuffled.csv")
    routes = (few.to_pandas(), few.lazy(), few.reverse(), tmp_path / "shuffled.csv")
    for table in routes:
        found = change_points(table, order="day", n_resamples=99).to_dict()
        found["samples"] = wanted["samples"]
        assert found == wanted
    rows = change_points(few.drop("day"), n_resamples=99)
    assert [one.position for one in rows.changes] == [one["position"] for one in wanted["changes"]]
    assert rows.changes[0].label == f"after {rows.changes[0].position} rows"


def test_rows_of_one_time_are_shuffled_and_never_split(rng):
    month = np.repeat(np.arange(24), 10)
    value = np.sort(rng.normal(size=(24, 10)), axis=1).ravel() + np.where(month >= 9, 1.2, 0.0)
    found = change_points(pl.DataFrame({"month": month, "value": value}), order="month", n_resamples=99)
    assert [one.time for one in found.changes] == [9.0]
    (change,) = found.changes
    assert all(end % 10 == 0 for end in (change.position, *change.interval))
    (source,) = kembed.tables.reader.read({"x": pl.DataFrame({"month": month, "value": value})})
    rows, times = in_order(source.table(), "month", np.random.default_rng(0))
    np.testing.assert_array_equal(times.values, np.sort(month))
    assert (np.diff(rows.values[:10, 0]) < 0).any()  # sorted within months no more


def test_labels_of_a_pandas_index(two_changes):
    few = two_changes.select("day", "load").head(110).to_pandas().set_index("day")
    found = change_points(few, n_resamples=99)
    assert found.changes[0].time.startswith("2024-03-1")
    assert found.changes[0].label.startswith("at 2024-03-1")


def test_the_nile():
    """Cobb (1978): the flow changed in 1898 or 1899, when the first dam at Aswan was begun."""
    datasets = pytest.importorskip("statsmodels.datasets")
    found = change_points(datasets.nile.load_pandas().data, order="year")
    (change,) = found.changes
    assert change.time == 1899
    assert change.label == "at 1899"
    assert change.interval_time[0] >= 1896
    assert change.interval_time[1] <= 1901
    assert found.pvalue == 0.001
    assert change.columns[0].change.startswith("mean 1098 before, 850 after (1.9 sd lower)")


def test_coal_mines():
    """Disasters by year (Jarrett 1979): 95% of the posterior of Carlin et al. (1992) is 1886 to 1896."""
    counts = "45401434063340263354531441553425223421322111130010110031032201110101000210001102331121111242"
    counts += "0014000100000100101"
    years = np.arange(1851, 1851 + len(counts))
    found = change_points(pl.DataFrame({"year": years, "disasters": list(map(int, counts))}), order="year")
    (change,) = found.changes
    assert 1886 <= change.time <= 1896
    assert change.interval_time[0] <= 1891 <= change.interval_time[1]
    assert change.columns[0].change.startswith("mean 3.2 before, 1 after")


# --- several changes --------------------------------------------------------------------------------------


class Planned:
    """Scans with planned p-values and positions, by segment."""

    def __init__(self, n, plan, least=1):
        self.values, self.plan, self.least, self.asked = np.empty((n, 1)), plan, least, []

    def scan(self, start, end, *, by_column=False):
        self.asked.append((start, end))
        position, p = self.plan.get((start, end), (0, 1.0))
        return SimpleNamespace(position=position, pvalue=p, statistics=np.zeros(1))

    def far_from_significant(self, start, end):
        return self.plan.get((start, end), (0, 1.0))[1] > 0.5


def test_a_segment_is_tested_at_its_share_of_the_level():
    plan = {(0, 100): (40, 0.001), (0, 40): (10, 0.019), (40, 100): (60, 0.031), (10, 100): (40, 0.001)}
    found = find_changes(Planned(100, plan), 0.05)
    # .019 * 100/40 is at most .05, .031 * 100/60 is above
    assert [(one.position, one.pvalue) for one in found] == [(10, pytest.approx(0.0475)), (40, 0.001)]


def test_a_segment_within_another_is_never_more_significant():
    plan = {(0, 100): (50, 0.04), (0, 50): (20, 0.001), (20, 100): (50, 0.001)}
    assert [one.pvalue for one in find_changes(Planned(100, plan), 0.05)] == [0.04, 0.04]


def test_changes_that_others_explain_are_dropped():
    """The first split is in the middle of a segment that two later ones bound."""
    plan = {(0, 90): (45, 0.001), (0, 45): (30, 0.001), (45, 90): (60, 0.001)}
    plan |= {(30, 60): (45, 0.3), (0, 60): (30, 0.001), (30, 90): (60, 0.001)}
    assert [one.position for one in find_changes(Planned(90, plan), 0.05)] == [30, 60]


def test_nothing_below_an_insignificant_segment_is_asked():
    planned = Planned(100, {(0, 100): (50, 0.2)})
    assert find_changes(planned, 0.05) == []
    assert planned.asked == [(0, 100)]


def test_changes_too_close_stay_where_they_were():
    plan = {(0, 100): (50, 0.001), (0, 50): (30, 0.001), (30, 100): (32, 0.001)}
    assert [one.position for one in find_changes(Planned(100, plan, least=5), 0.05)] == [30, 50]


# --- blocks, notes, errors --------------------------------------------------------------------------------


def test_blocks_are_moved_whole(rng):
    x = rng.normal(size=(200, 1))
    x[120:] += 2.0
    found = change_points(x, block=10, n_resamples=99)
    (change,) = found.changes
    assert change.position == 120
    assert change.interval[0] % 10 == 1 or change.interval[0] == 120  # a block may hold the change
    assert (found.block, found.min_segment) == (10, 10)


def test_neighbours_that_are_alike_are_reported(rng):
    noise = rng.normal(size=150)
    for i in range(1, 150):
        noise[i] += 0.8 * noise[i - 1]
    how = {"n_resamples": 79, "min_segment": 50}
    found = change_points(noise, **how)
    assert any("neighbouring rows" in note and "block=" in note for note in found.notes)
    assert not change_points(noise, block=25, **how).notes
    shift = np.where(np.arange(100) < 50, 0.0, 3.0) + rng.normal(size=100)  # no dependence but the change
    assert not change_points(shift, n_resamples=99).notes


def test_missing_values(rng):
    x = rng.normal(size=(120, 2))
    x[70:, 0] += 2.0
    x[rng.choice(120, 10, replace=False), 1] = np.nan
    with pytest.raises(ValueError, match="missing values in 10 of 120 rows"):
        change_points(x)
    omitted = change_points(x, nan_policy="omit", n_resamples=99)
    assert len(omitted.table.values) == 110
    assert abs(omitted.changes[0].time - 70) <= 3  # the number of the row as given
    included = change_points(x, nan_policy="include", n_resamples=99)
    assert abs(included.changes[0].position - 70) <= 3
    y = rng.normal(size=(100, 1))
    y[60:][rng.random(40) < 0.5] = np.nan
    gaps = change_points(y, nan_policy="include", n_resamples=99)
    assert "missing in 0.0% before" in gaps.changes[0].columns[0].change


ERRORS = [
    ({"table": np.arange(9.0)}, "9 rows, but two segments of at least 5 are needed"),
    ({"min_segment": 31}, "two segments of at least 31"),
    ({"block": 16}, "two segments of at least 16|orders of"),
    ({"block": 0}, "block must be at least 1"),
    ({"block": 15, "alpha": 0.05}, "the orders of 4 blocks give no p-value of 0.05 or less"),
    ({"order": "when"}, "order='when' is not a column; table has 'a', 'city', 'time'"),
    ({"order": "city"}, "order='city' holds text"),
    ({"order": "time", "nan_policy": "include"}, "order='time' has missing values"),
    ({"order": "time"}, "table has missing values in 1 of 60 rows"),
    ({"alpha": 2.0}, "alpha must lie strictly between 0 and 1"),
    ({"alpha": 0.001, "n_resamples": 99}, "alpha=0.001 is less than 0.01"),
    ({"nan_policy": "propagate", "order": None}, "nan_policy must be one of 'raise', 'omit', 'include'"),
]


@pytest.mark.parametrize(("how", "message"), ERRORS)
def test_errors_name_the_argument(how, message, rng):
    time = np.arange(60.0)
    time[7] = np.nan if how.get("order") == "time" else 7.5
    frame = pl.DataFrame({"a": rng.normal(size=60), "city": ["Bern", "Oslo"] * 30, "time": time})
    how = dict(how)
    table = how.pop("table", frame if "order" in how else frame.drop("time"))
    with pytest.raises(ValueError, match=message):
        change_points(table, **{"n_resamples": 99, **how})


def test_wrong_types_and_a_table_of_times_alone():
    with pytest.raises(TypeError, match="order must be the name of a column, but 3 was given"):
        change_points(np.eye(20), order=3)
    with pytest.raises(ValueError, match="order='t' is the only column"):
        change_points(pl.DataFrame({"t": np.arange(20.0) ** 2}), order="t")


@pytest.mark.parametrize("size", [1e-100, 1e100])
def test_extreme_and_constant_columns(size, rng):
    x = np.column_stack([size * rng.normal(size=60), np.ones(60)])
    x[30:, 0] += 4.0 * size
    assert change_points(x, n_resamples=99).changes[0].position in (30, 31)
    assert change_points(np.ones((40, 2)), n_resamples=99).pvalue == 1.0


def test_results_as_json_and_pictures(two_changes):
    import json

    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    found = change_points(two_changes.head(105), order="day", n_resamples=99)
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert told["differ"] is True
    assert told["changes"][0]["columns"][0]["name"] == "load"
    assert told["samples"] == [{"name": "table", "rows": 105, "used": 105}]
    assert len({len(values) for values in told["scan"].values()}) == 1
    assert told["threshold"] == found.threshold
    panels = found.plot()
    curve = panels[0].get_lines()[0]
    np.testing.assert_array_equal(curve.get_ydata(), found.evidence)
    assert len(panels) == 2
    assert panels[1].get_ylabel() == "load"
    means = sorted(line.get_segments()[0][0, 1] for line in panels[1].collections)
    load, at = found.table.values[:, 0], found.changes[0].position
    assert means == pytest.approx([load[:at].mean(), load[at:].mean()])
    alone = plt.figure().add_subplot()
    assert found.plot(alone) is alone
    plt.close("all")


def test_a_column_that_rises_from_row_to_row_is_the_time(rng):
    """With `order=` or without: the same answer, and a note; a column that falls once is compared."""
    days = pl.date_range(pl.date(2026, 1, 1), pl.date(2026, 4, 30), eager=True)
    table = pl.DataFrame({"day": days, "x": rng.normal(size=120) + np.where(np.arange(120) >= 80, 2.0, 0.0)})
    given, found = (change_points(table, order=order, n_resamples=99) for order in ("day", None))
    assert [one.label for one in found.changes] == [one.label for one in given.changes]
    assert found.notes[0] == "rows are in order of 'day', which rises from row to row and is not compared"
    assert found.table.names == ("x",)
    fallen = table.with_columns(day=pl.concat([days[1:], days[:1]]))
    assert change_points(fallen, n_resamples=99).table.names == ("day", "x")
