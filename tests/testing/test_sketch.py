"""Sketches: exact tests against rows that are gone, sums that add up, files that come back."""

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from tests.testing.alike import all_have

from kembed import Delta, Gaussian, OnColumns, Sketch, learn_kernel, mmd_test
from kembed.core.store import FileError, write_store
from kembed.features.rows import Rows
from kembed.features.trees import Forest
from kembed.permutation.bins import Bins
from kembed.permutation.designs import Draws, contrasts
from kembed.permutation.dyadic import CAP, DyadicBins, unions
from kembed.permutation.sums import stored
from kembed.tables.reader import read_tables
from kembed.tables.source import Memory, in_memory
from kembed.testing.engine import evaluate
from kembed.testing.specification import known, recoding, sum_recoded

TOWNS = ["Bern", "Oslo", "Rome"]
SEED = 3


def table(rng, n, shift=0.0, towns=TOWNS):
    return pl.DataFrame(
        {"a": rng.normal(shift, 1.0, n), "town": rng.choice(towns, n), "b": rng.normal(size=n)}
    )


@pytest.fixture(scope="module")
def reference():
    return table(np.random.default_rng(0), 2_000)


@pytest.fixture(scope="module")
def sketch(reference):
    return Sketch.of(reference)


def pvalue(x, y, **options):
    return mmd_test(x, y, **{"n_resamples": 99, "rng": 0} | options).pvalue


def refused(words, call, kind=ValueError):
    with pytest.raises(kind) as caught:
        call()
    all_have(words, str(caught.value))


# Exactness.


def bins_of(rows, held_out, seed):
    """The order that `Sketch.of` draws first of all."""
    return DyadicBins(rows, held_out, int(np.random.default_rng(seed).integers(2**62)))


def test_bins_that_change_sides_are_bins_of_the_other_sample(rng):
    """Rows of a bin of the reference put in the place of a bin of the new sample, and the other way round."""
    n, m, power, key = 600, 70, 2, 11
    x, y = rng.normal(size=(n, 2)), rng.normal(size=(m, 2)) + 0.3
    dyadic, bins = bins_of(n, 150, SEED), Bins(m, 2**power, m // 2**power, key)
    inside = unions(dyadic.powers, power)
    union = np.append(inside, [-1, -2])[dyadic.of(0, n)[0]]
    first, second = np.flatnonzero(union == 5), np.flatnonzero(bins.of(0, m)[0] == 3)
    assert len(first) == len(second) == 2**power

    def values(x, y, labels):
        sketch = Sketch.of(x, rng=SEED)
        source = in_memory(read_tables({"y": y}, "raise", 2)[0][0])
        specification = sketch.specification
        coding, maps = recoding(specification.schema, source), specification.maps
        new = source.fold(sum_recoded, coding, bins, specification.basis, maps)
        sums = stored([sketch.sums_of(power), new], maps)
        W = contrasts(labels, sums.weight, np.zeros(len(labels), dtype=int))
        return evaluate(*specification.fitted, sums, Draws(((1.0, W),))).statistics[0]

    count = inside.max() + 2  # with rows in no bin
    own = np.repeat([1.0, 0.0], [count, bins.count])[:, None]
    swapped = own.copy()
    swapped[[5, count + 3]] = [[0.0], [1.0]]
    relabelled = values(x, y, swapped)
    x[first], y[second] = y[second].copy(), x[first].copy()
    assert values(x, y, own) == pytest.approx(relabelled, rel=1e-10, abs=1e-13)


def test_level():
    """p-values of samples that do not differ are uniform: of 600 the share below .05, .2 and .5."""
    rng = np.random.default_rng(0)
    found = []
    for seed in range(600):
        x, y = rng.normal(size=(107, 1)), rng.normal(size=(61, 1))
        sketch = Sketch.of(np.round(x, 1), kernel=Gaussian(0.7), rng=seed)
        found.append(mmd_test(sketch, np.round(y, 1), n_resamples=39, rng=seed).pvalue)
    for level in (0.05, 0.2, 0.5):
        error = np.sqrt(level * (1.0 - level) / len(found))
        assert np.mean(np.array(found) <= level) < level + 3.0 * error
        assert np.mean(np.array(found) <= level) > level - 3.0 * error


def test_levels_that_are_rare_are_no_difference():
    """Every name occurs once or so: those of the new sample are unknown, as are those that were counted."""
    rng = np.random.default_rng(1)
    names = [f"name {k}" for k in range(100_000)]
    pvalues = []
    for seed in range(20):
        x, y = (pl.DataFrame({"name": rng.choice(names, n), "v": rng.normal(size=n)}) for n in (300, 80))
        pvalues.append(pvalue(Sketch.of(x, rng=seed), y, n_resamples=19))
    assert np.mean(np.array(pvalues) <= 0.05) <= 0.2
    assert np.mean(np.array(pvalues) <= 0.5) > 0.2


# What is counted.


def test_sums_are_those_of_a_loop(rng):
    x = rng.normal(size=(300, 2))
    sketch, bins = Sketch.of(x, rng=SEED), bins_of(300, 75, SEED)
    own, specification = bins.of(0, 300)[0], sketch.specification
    for k, each in enumerate(specification.maps[:3]):
        found = np.zeros((bins.count, len(each.steps)))
        for row, number in zip(x, own, strict=True):
            found[number] += each(Rows(specification.basis, row[None]))[0]
        assert (sketch.sums[k] * each.steps) == pytest.approx(found[:-1], abs=1e-3)
    histogram = specification.maps[-1]
    assert histogram.column == 1
    nearest = np.abs(x[:, 1, None] - histogram.points).argmin(axis=1)
    counts = np.zeros((bins.count, len(histogram.points)))
    np.add.at(counts, (own, nearest), 1)
    assert (sketch.sums[-1] == counts[:-1]).all()
    assert sketch.rows == 225
    assert sketch.weight.sum() == 225


def test_blocks_do_not_matter(reference):
    (whole,), _ = read_tables({"x": reference}, "raise", 2)
    source = in_memory(whole)
    small = Memory(source.label, source.schema, source.values, rows=97)
    one, other = Sketch.of(source), Sketch.of(small)
    assert one.features == other.features
    for a, b in zip(one.sums, other.sums, strict=True):
        assert np.abs(a - b).max() <= 2  # steps: a feature on the edge of two may go either way


def test_the_order_of_columns_and_the_kind_of_frame_do_not_matter(sketch, rng):
    new = table(rng, 150)
    expected = mmd_test(sketch, new, n_resamples=99, rng=0)
    for other in (new.select("town", "b", "a"), pd.DataFrame(new.to_dict(as_series=False))):
        assert mmd_test(sketch, other, n_resamples=99, rng=0).statistic == expected.statistic
    turned = mmd_test(new, sketch, n_resamples=99, rng=0)
    assert turned.sizes == expected.sizes[::-1] == (150, 1_500)
    assert turned.members[0].statistic == pytest.approx(expected.members[0].statistic, rel=1e-9)


def test_arrays_go_by_place(rng):
    sketch = Sketch.of(rng.normal(size=(400, 2)))
    assert pvalue(sketch, rng.normal(size=(50, 2)) + 1.0) == 0.01
    named = Sketch.of(pd.DataFrame(rng.normal(size=(400, 2)), columns=["a", "b"]))
    assert pvalue(named, rng.normal(size=(50, 2)) + 1.0) == 0.01


# Power, and what a test says beside its p-value.


def test_a_difference_is_found_and_named(sketch):
    new = table(np.random.default_rng(1), 300, shift=0.5)
    found = mmd_test(sketch, new, by_column=True, n_resamples=199, rng=0)
    assert found.pvalue == 0.005
    assert {column.name: column.adjusted_pvalue < 0.05 for column in found.columns} == {
        "a": True,
        "town": False,
        "b": False,
    }
    assert found.findings[0].columns == ("a",)
    assert found.bins == (1_500 // 16, 300 // 16)


def test_a_new_pair_is_found(sketch, rng):
    new = table(rng, 300).with_columns(b=pl.col("a") * 0.6 + pl.col("b") * 0.8)
    found = mmd_test(sketch, new, n_resamples=199, rng=0)
    assert found.findings[0].columns == ("a", "b")


def test_a_new_level_is_a_difference(sketch, rng):
    assert pvalue(sketch, table(rng, 300, towns=[*TOWNS, "Lima"])) == 0.01
    assert pvalue(sketch, table(rng, 300, towns=["Lima"]), by_column=True) == 0.01


def test_power_is_near_that_of_all_rows():
    """Shifts that the test on all rows finds about half the time."""
    rng = np.random.default_rng(5)
    found = {"sketch": 0, "rows": 0}
    kernel = Gaussian(1.5)
    x = rng.normal(size=(3_000, 2))
    sketch = Sketch.of(x, kernel=kernel)
    for seed in range(60):
        y = rng.normal([0.19, 0.0], 1.0, (150, 2))
        options = {"n_resamples": 79, "rng": seed, "kernel": kernel}
        found["sketch"] += mmd_test(sketch, y, **options).pvalue <= 0.05
        found["rows"] += mmd_test(x, y, statistic="features", **options).pvalue <= 0.05
    assert 15 <= found["rows"] <= 52
    assert found["sketch"] >= found["rows"] - 12


@pytest.mark.parametrize("size", [2, 15, 16, 17, 700, 40_000])
def test_any_number_of_new_rows(size, rng):
    sketch = Sketch.of(rng.normal(size=(1_000, 1)), kernel="median")
    assert pvalue(sketch, rng.normal(size=(size, 1)) + (5.0 if size < 100 else 1.0)) <= 0.05


def test_any_number_of_reference_rows(rng):
    for size in (16, 50, CAP, 2 * CAP + 3):
        sketch = Sketch.of(rng.normal(size=(size, 1)), kernel="median")
        assert sketch.rows == size - size // 4
        assert pvalue(sketch, rng.normal(size=(100, 1)) + 4.0) == 0.01
    refused(["reference", "15", "16"], lambda: Sketch.of(rng.normal(size=15)))


KERNELS = [
    "median",
    "bkl",
    Gaussian(1.0),
    OnColumns(Gaussian(1.0), (0,)) * OnColumns(Delta(), (1,)),
    ["median", Gaussian(2.0)],
]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_kernels(kernel, reference, rng, tmp_path):
    sketch = Sketch.of(reference, kernel=kernel)
    new = table(rng, 200, shift=1.0)
    assert pvalue(sketch, new) == 0.01
    assert pvalue(Sketch.load(sketch.save(tmp_path / "a.kembed")), new) == 0.01


def test_a_learned_kernel_and_a_function(rng, tmp_path):
    x = rng.normal(size=(200, 1))
    learned = learn_kernel(x)
    assert Sketch.of(x, kernel=learned).specification.kernel == learned.kernel
    own = Sketch.of(x, kernel=lambda a, b: np.exp(-np.abs(a - b.T)))
    assert pvalue(own, x[:50] + 1.0) == 0.01
    refused(["cannot be written", "kernels of kembed"], lambda: own.save(tmp_path / "a.kembed"), TypeError)


# Merging.


def test_merged_sketches_have_the_sums_of_both(sketch, rng):
    x, y = table(rng, 700), table(rng, 1_301)
    one, other = (Sketch.of(part, like=sketch) for part in (x, y))
    both = Sketch.of(pl.concat([x, y]), like=sketch)
    merged = one + other
    assert merged.rows == both.rows == 2_001
    assert merged.features == sketch.features
    for a, b in zip(merged.sums, both.sums, strict=True):
        assert np.abs(a.sum(axis=0) - b.sum(axis=0)).max() <= 2
    for power in range(7):
        a, b = merged.sums_of(power), both.sums_of(power)
        assert abs(len(a.weight) - len(b.weight)) <= 1
        assert (a.weight[:-1] == 2**power).all()
    assert pvalue(merged, table(rng, 100)) > 0.01
    assert pvalue(merged, table(rng, 100, shift=1.0)) == 0.01


def test_a_merged_sketch_can_be_merged_again(sketch, rng):
    week = sketch
    for _ in range(5):
        week = week.merge(Sketch.of(table(rng, 200), like=sketch))
    assert week.rows == 2_500
    assert np.bincount(week.powers)[0] == CAP


def test_two_sketches_can_be_tested(sketch, rng):
    same, other = (Sketch.of(table(rng, 800, shift), like=sketch) for shift in (0.0, 0.5))
    assert pvalue(sketch, other) == 0.01
    assert pvalue(sketch, same) > 0.01


def test_other_features_are_refused(sketch, reference, rng):
    other = Sketch.of(reference, rng=1)
    refused(["different features", "like="], lambda: sketch + other)
    refused(["different features", "like="], lambda: mmd_test(sketch, other))
    refused(["other must be a Sketch", "ndarray"], lambda: sketch.merge(rng.normal(size=3)), TypeError)
    refused(["like must be a Sketch"], lambda: Sketch.of(reference, like=reference), TypeError)


# Files.


def test_a_file_is_as_good_as_the_sketch(sketch, rng, tmp_path):
    path = sketch.save(tmp_path / "reference.kembed")
    loaded = Sketch.load(path)
    new = table(rng, 300)
    one, other = (mmd_test(each, new, by_column=True, n_resamples=99, rng=0) for each in (sketch, loaded))
    assert one.statistic == other.statistic
    assert repr(one) == repr(other)
    assert loaded.features == sketch.features
    assert loaded.to_dict() == sketch.to_dict()
    assert repr(loaded) == repr(sketch)
    assert (loaded + Sketch.of(new, like=sketch)).rows == sketch.rows + 300
    assert path.stat().st_size < 5_000_000
    assert loaded.save(tmp_path / "again.kembed").read_bytes() == path.read_bytes()


def test_damaged_files(sketch, tmp_path, rng):
    path = sketch.save(tmp_path / "reference.kembed")
    whole = path.read_bytes()
    for _ in range(40):
        damaged = bytearray(whole)
        damaged[int(rng.integers(len(whole)))] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        refused(["reference.kembed"], lambda: Sketch.load(path), FileError)
        path.write_bytes(whole[: int(rng.integers(len(whole)))])
        refused(["reference.kembed"], lambda: Sketch.load(path), FileError)


def forged(sketch, path, **changes):
    """The sketch with other parts, in a file that is in order."""
    return write_store(path, "sketch", sketch.parts | changes, known())


def test_forged_files_neither_hang_nor_pass(sketch, tmp_path):
    """Powers, weights, sums and levels that no sketch has: refused when the file is read."""
    powers, weight, specification = sketch.powers, sketch.weight, sketch.specification
    schema = specification.schema
    high = powers.copy()
    high[-1] = 2**31
    many = (tuple(range(20_000)),) * 3
    for changes in (
        {"powers": high},
        {"powers": high, "weight": np.append(weight[:-2], [np.inf, 0.0])},
        {"powers": powers - 1, "weight": np.append(2.0 ** (powers - 1), 0.0)},
        {"powers": powers[::-1], "weight": np.append(2.0 ** powers[::-1], 0.0)},
        {"powers": powers.astype(float)},
        {"weight": np.append(weight[:-1], np.inf)},
        {"weight": weight[:, None]},
        {"sums": sketch.sums[:-1]},
        {"sums": tuple(part.astype(float) for part in sketch.sums)},
        {"specification": 3},
        {"specification": replace(specification, schema=replace(schema, levels=many))},
        {"specification": replace(specification, schema=replace(schema, names=("a",)))},
    ):
        path = forged(sketch, tmp_path / "forged.kembed", **changes)
        refused(
            ["forged.kembed does not hold a sketch", "make it again"],
            lambda p=path: Sketch.load(p),
            FileError,
        )
    assert Sketch.load(forged(sketch, tmp_path / "same.kembed")).rows == sketch.rows


def test_forged_trees_neither_hang_nor_take_memory():
    """The second node leads back to the first; a column of which there are 2³¹."""
    far = Forest(np.array([2**31, -1, -1]), np.zeros(3), np.array([[1, 2], [0, 0], [0, 0]]))
    refused(["not there", "make the sketch again"], lambda: far.leaves(np.array([[0.2]])))
    forest = Forest(np.array([0, 0, -1]), np.full(3, 0.5), np.array([[1, 2], [0, 2], [0, 0]]))
    refused(["make the sketch again"], lambda: forest.leaves(np.array([[0.2]])))


# What does not fit.


def test_other_columns(sketch, rng):
    new = table(rng, 50)
    refused(["y must have the columns", "no 'b'"], lambda: mmd_test(sketch, new.drop("b")))
    more = new.with_columns(c=1.0)
    assert mmd_test(sketch, more, rng=0).notes == ("column 'c' is left out: the sketch does not have it",)
    refused(["no 'b'", "'d'"], lambda: mmd_test(sketch, new.rename({"b": "d"})))
    text = new.with_columns(a=pl.lit("x"))
    refused(["'a' of y holds text", "numbers"], lambda: mmd_test(sketch, text), TypeError)
    number = new.with_columns(town=pl.lit(1.0))
    refused(["'town' of y holds numbers", "text"], lambda: mmd_test(sketch, number), TypeError)


def test_missing_values(sketch, reference, rng):
    new = table(rng, 100).with_columns(a=pl.when(pl.col("a") > 1.5).then(None).otherwise(pl.col("a")))
    gaps = new["a"].null_count()
    refused(["y has missing values", "omit"], lambda: mmd_test(sketch, new))
    assert np.isnan(mmd_test(sketch, new, nan_policy="propagate").pvalue)
    assert mmd_test(sketch, new, nan_policy="omit", n_resamples=9).sizes == (1_500, 100 - gaps)
    holes = reference.with_columns(b=pl.when(pl.col("b") > 1.0).then(None).otherwise(pl.col("b")))
    refused(["reference has missing values"], lambda: Sketch.of(holes))
    kept = Sketch.of(holes, nan_policy="omit")
    missing = holes["b"].null_count()
    assert 2_000 - missing - 500 < kept.rows < 2_000 - missing
    assert pvalue(kept, new, nan_policy="omit") == 0.01


def test_what_a_sketch_cannot_do(sketch, rng):
    new = table(rng, 50)
    for options, word in (
        ({"unit": 5}, "unit"),
        ({"weights": (np.ones(9), np.ones(50))}, "weights"),
        ({"paired": True}, "paired"),
        ({"null": "gamma"}, "permutation"),
        ({"statistic": "unbiased"}, "statistic"),
        ({"kernel": "median"}, "'fused'"),
    ):
        refused([word, "sketch"], lambda options=options: mmd_test(sketch, new, **options))


def test_a_kernel_for_all_columns_is_none_for_one(rng):
    x = rng.normal(size=(100, 2))
    sketch = Sketch.of(x, kernel=Gaussian([1.0, 2.0]))
    assert pvalue(sketch, x[:30] + 2.0) == 0.01
    refused(["by_column=True", "'column 0'"], lambda: mmd_test(sketch, x[:30], by_column=True))


def test_what_a_sketch_says_of_itself(sketch):
    assert sketch.columns == ("a", "town", "b")
    told = sketch.to_dict()
    assert told["by_column"][1] == {"name": "town", "kind": "categories", "levels": TOWNS}
    assert (told["rows"], told["held_out"], told["kernel"]) == (1_500, 500, "fused")
    all_have(["1,500 rows", "3 columns", "'town'", "500 rows held out"], repr(sketch))


def test_features_that_are_rounding_in_the_rows_set_aside():
    """Where no row that is held out has a 1, a feature is faint there, and far from it in the rest."""
    for seed in range(8):
        rare = (np.random.default_rng(seed).random((60, 3)) < 0.04).astype(float)
        made = Sketch.of(rare, rng=seed)
        maps = zip(made.sums, made.specification.maps, strict=True)
        largest = max(np.abs(sums.astype(float) * each.steps).max() for sums, each in maps)
        assert largest < 1e4  # of sixty rows
        assert all(np.abs(sums.astype(float)).max() < 2.0**62 for sums in made.sums)
        assert Sketch.of(rare, like=made).rows == 60


def test_rows_whose_sums_no_whole_number_holds(rng):
    made = Sketch.of(rng.normal(size=(60, 1)), kernel=lambda a, b: a @ b.T)
    refused(["rows lie so far from", "without like="], lambda: Sketch.of(np.full((20, 1), 1e30), like=made))


def test_times_are_not_compared_with_numbers_nor_with_other_times(tmp_path):
    """In memory and in files: what the numbers of a sketch count is kept in it."""
    days = np.arange("2020-01-01", "2020-04-10", dtype="datetime64[D]")
    tables = {
        "dates": pl.DataFrame({"d": days}),
        "times with a zone": pl.DataFrame({"d": days}).select(
            pl.col("d").cast(pl.Datetime).dt.replace_time_zone("UTC")
        ),
        "durations": pl.DataFrame({"d": (days - days[0]).astype("timedelta64[ms]")}),
        "numbers": pl.DataFrame({"d": np.arange(100.0)}),
    }
    for kept, reference in tables.items():
        sketch = Sketch.load(Sketch.of(reference, kernel="median").save(tmp_path / "kept.kembed"))
        for new, other in tables.items():
            other.write_parquet(tmp_path / "new.parquet")
            for sample in (other, str(tmp_path / "new.parquet")):
                if new == kept:
                    assert mmd_test(sketch, sample, n_resamples=19, rng=0).pvalue > 0.0
                else:
                    with pytest.raises(TypeError, match=f"holds .*{new} where the sketch has .*{kept}; give"):
                        mmd_test(sketch, sample, n_resamples=19, rng=0)
