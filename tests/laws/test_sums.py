"""Laws of sums over rows: blocks do not matter, parts add up, and what is signed turns its sign."""

import json

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tests.properties import numbers, pairs_of_tables, tables

from kembed import Gaussian, MeanEmbedding, Sketch, compare, empirical, fit_embedding, mmd_test, witness
from kembed.tables.schema import Schema
from kembed.tables.source import Block, Memory, take_rows, tree_sum

fewer = settings(max_examples=settings().max_examples // 2)


def source(rows, block):
    names = tuple(f"column {d}" for d in range(rows.shape[1]))
    return Memory("x", Schema(names, (False,) * len(names), (None,) * len(names)), rows, block)


def moments(block: Block) -> dict:
    return {"sum": block.values.sum(axis=0), "second": block.values.T @ block.values, "first": [block.first]}


@given(tables(rows=st.integers(1, 40)), st.integers(1, 41))
def test_blocks_do_not_matter(rows, block):
    """Numbers are eighths, so that their sums have no rounding."""
    found = source(rows, block).fold(moments)
    np.testing.assert_array_equal(found["sum"], rows.sum(axis=0))
    np.testing.assert_array_equal(found["second"], rows.T @ rows)
    assert found["first"] == [sum(range(0, len(rows), block))]
    np.testing.assert_array_equal(source(rows, block).fold(take_rows).table, rows)
    some, whole = (source(rows, size).sample(max(1, len(rows) // 2))[0] for size in (block, len(rows)))
    np.testing.assert_array_equal(some.values, whole.values)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40))
def test_a_tree_of_sums_is_the_sum(values):
    assert tree_sum(iter([np.array(value) for value in values])) == pytest.approx(
        sum(values), rel=1e-9, abs=1e-6
    )


@given(pairs_of_tables(), st.floats(0.2, 5.0))
def test_embeddings_of_parts_add_up(parts, scale):
    x, y = parts
    kernel, both = Gaussian(scale), np.concatenate(parts)
    wanted = (len(x) * empirical(x, kernel).mean(both) + len(y) * empirical(y, kernel).mean(both)) / len(both)
    np.testing.assert_allclose(empirical(both, kernel).mean(both), wanted, rtol=1e-12)


@fewer
@given(tables(rows=st.integers(40, 50)), st.integers(4, 30))
def test_sketches_of_parts_add_up(rows, cut):
    assume((np.ptp(rows, axis=0) > 0).all())
    like = Sketch.of(rows, kernel="median", rng=0)
    one, other, both = (Sketch.of(part, like=like) for part in (rows[:cut], rows[cut:], rows))
    for merged in (one + other, other + one):
        assert merged.rows == both.rows
        for a, b in zip(merged.sums, both.sums, strict=True):
            assert np.abs(a.sum(axis=0) - b.sum(axis=0)).max() <= 2  # steps of rounding, whatever the bins


@fewer
@given(pairs_of_tables(rows=st.integers(6, 10)))
def test_witnesses_turn_their_sign(samples):
    x, y = samples
    assume((np.ptp(np.concatenate(samples), axis=0) > 0).all())
    here, there = witness(x, y, kernel="median"), witness(y, x, kernel="median")
    at = np.concatenate(samples)
    a, b = here.at(at), there.at(at)
    size = float(np.abs(a.upper - a.lower).max())
    # Landmarks of a smooth kernel make a matrix that is nearly singular: 3e-5 was seen.
    np.testing.assert_allclose(b.mean, -a.mean, atol=1e-3 * size)
    np.testing.assert_allclose(b.upper, -a.lower, atol=1e-3 * size)


@fewer
@given(arrays.arrays(float, (2, 8, 1), elements=numbers))
def test_a_comparison_says_what_its_test_says(samples):
    x, y = samples
    assume(np.ptp(samples) > 0)
    how = {"kernel": "median", "n_resamples": 19, "rng": 0}
    found = compare(x, y, **how)
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert found.test.pvalue == mmd_test(x, y, **how).pvalue == told["pvalue"]
    assert found.differ == (found.test.pvalue <= found.alpha)


@given(tables(rows=st.integers(6, 12)), st.integers(1, 5))
def test_mean_embeddings_of_samples_do_not_know_the_order_of_rows(rows, turn):
    assume((np.ptp(rows, axis=0) > 0).all())
    fitted = MeanEmbedding(kernel=Gaussian(1.0), random_state=0).fit([rows])
    turned = MeanEmbedding(kernel=Gaussian(1.0), random_state=0).fit([np.roll(rows, turn, axis=0)])
    np.testing.assert_allclose(turned.transform([rows]), fitted.transform([rows]), rtol=1e-9, atol=1e-12)


@given(tables(rows=st.integers(6, 12), columns=st.just(1)), st.integers(1, 5))
def test_posteriors_do_not_know_the_order_of_rows(rows, turn):
    here, there = (fit_embedding(each, Gaussian(1.0)) for each in (rows, np.roll(rows, turn, axis=0)))
    np.testing.assert_allclose(here.mean(rows), there.mean(rows), atol=1e-9)
    for a, b in zip(here.interval(rows), there.interval(rows), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
