"""What a sketch keeps for people: totals of all its rows, and some rows as they are."""

import numpy as np
import polars as pl
import pytest

from kembed import Sketch
from kembed.tables.source import Block
from kembed.testing.reference import KEPT, KeptRows, take_kept


def table(rng, n, towns=("Bern", "Oslo")):
    return pl.DataFrame({"v": rng.normal(3.0, 2.0, n), "town": rng.choice(towns, n)})


def kept(sketch):
    """The rows that are kept, as tuples."""
    own = sketch.kept_rows("x")
    return [tuple(own.decoded(d, value) for d, value in enumerate(row)) for row in own.values]


def test_totals_are_those_of_the_rows_that_were_summed(rng):
    first = Sketch.of(table(rng, 800))
    rows = table(rng, 700, towns=("Bern", "Oslo", "Rome"))
    v = rows["v"].to_numpy()
    own = Sketch.of(rows, like=first)  # no row is held out
    column = own.column(0)
    assert (column.size, column.low, column.high) == (700, v.min(), v.max())
    assert column.mean == pytest.approx(v.mean(), rel=1e-12)
    assert column.sd == pytest.approx(v.std(ddof=1), rel=1e-12)
    nearest = np.abs(v[:, None] - column.points).argmin(axis=1)
    assert (column.counts == np.bincount(nearest, minlength=len(column.points))).all()
    towns = [(rows["town"] == name).sum() for name in ("Bern", "Oslo", "Rome")]
    assert own.column(1).counts.tolist() == towns  # the last are levels that no held-out row has
    assert (own.totals.given, own.totals.missing.tolist()) == (700, [0, 0])


def test_held_out_rows_are_in_no_total(rng):
    v = np.arange(400.0)
    sketch = Sketch.of(rng.permutation(v))
    column = sketch.column(0)
    assert column.counts.sum() == column.size == sketch.rows == 300
    assert column.mean != v.mean()


def test_totals_and_rows_of_merged_sketches_are_those_of_both(rng):
    first = Sketch.of(table(rng, 2_000))
    x, y = table(rng, 3_000), table(rng, 1_000, towns=("Rome",))
    both, whole = Sketch.of(x, like=first) + Sketch.of(y, like=first), pl.concat([x, y])["v"].to_numpy()
    column = both.column(0)
    assert column.mean == pytest.approx(whole.mean(), rel=1e-12)
    assert column.sd == pytest.approx(whole.std(ddof=1), rel=1e-12)
    assert (column.low, column.high) == (whole.min(), whole.max())
    rows = kept(both)
    assert len(rows) == len(set(rows)) == KEPT
    assert set(rows) <= set(pl.concat([x, y]).iter_rows())
    share = np.mean([town == "Rome" for _, town in rows])
    assert share == pytest.approx(0.25, abs=2.0 / KEPT)  # places of both are spread evenly


def test_merging_in_any_order_keeps_the_same_rows(rng):
    first = Sketch.of(table(rng, 400), keep_rows=30)
    parts = [Sketch.of(table(rng, n), like=first, keep_rows=30, rng=n) for n in (90, 20, 300)]
    a, b, c = parts
    assert set(kept((a + b) + c)) == set(kept(a + (c + b))) == set(kept((c + a) + b))
    assert len(kept(a + b + c)) == 30
    assert kept(a + Sketch.of(table(rng, 90), like=first, keep_rows=0)) == []


def test_every_row_is_kept_alike_often():
    """Ten of 40 rows, 1,000 times: χ² with 39 degrees of freedom is below 76 but once in 2,000."""
    block, counts = Block(np.arange(40.0)[:, None], 0), np.zeros(40)
    for key in range(1_000):
        rows = take_kept(block, (0,), 40, 10, key)
        assert np.sort(rows[:, 1]) == pytest.approx((np.arange(10) + 0.5) / 40)
        counts[rows[:, 0].astype(int)] += 1
    assert (np.square(counts - 250.0) / 187.5).sum() < 76


def test_how_many_are_kept(rng, tmp_path):
    x = table(rng, 300)
    assert set(kept(Sketch.of(x))) == set(x.iter_rows())  # all there are
    none = Sketch.of(x, keep_rows=0)
    assert kept(none) == []
    assert none.to_dict()["kept"] == 0
    again = Sketch.load(none.save(tmp_path / "a.kembed"))
    assert again.kept_rows("x").levels == ((), ())
    with pytest.raises(ValueError, match="keep_rows must be at least 0"):
        Sketch.of(x, keep_rows=-1)


def test_blocks_and_the_route_do_not_matter(rng, tmp_path):
    x = table(rng, 900)
    x.write_csv(tmp_path / "x.csv")
    held, file = Sketch.of(x, keep_rows=50), Sketch.of(tmp_path / "x.csv", keep_rows=50)
    assert kept(held) == kept(file)
    assert held.column(0)[3:] == pytest.approx(file.column(0)[3:], rel=1e-12)


def test_missing_values_are_counted(rng):
    x = table(rng, 400).with_columns(v=pl.when(pl.int_range(400) < 40).then(None).otherwise(pl.col("v")))
    sketch = Sketch.of(x, nan_policy="omit")
    assert (sketch.totals.given, sketch.totals.missing.tolist()) == (400, [40, 0])


@pytest.mark.parametrize("size", [1e-200, 1e150])
def test_numbers_of_any_size(size, rng):
    v = rng.normal(5.0, 1.0, 500) * size
    column = Sketch.of(v, like=Sketch.of(v)).column(0)
    assert column.mean == pytest.approx(v.mean(), rel=1e-12)
    assert column.sd == pytest.approx(size * (v / size).std(ddof=1), rel=1e-9)


def test_kept_rows_that_are_none(rng):
    sketch = Sketch.of(table(rng, 100))
    schema, own = sketch.specification.schema, sketch.kept
    assert own.fits(schema)
    for changed in (
        KeptRows(own.most, own.places[:-1], own.values, own.levels),
        KeptRows(own.most, own.places, np.full_like(own.values, 7.0), own.levels),
        KeptRows(own.most, own.places, np.where(own.values > 0.5, np.nan, own.values), own.levels),
        KeptRows(3, own.places, own.values, own.levels),
    ):
        assert not changed.fits(schema)
