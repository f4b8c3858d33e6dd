"""A level that the reference never had is evidence: in sketches, in batches and in memory."""

import numpy as np
import polars as pl
import pytest

from kembed import DriftDetector, Sketch, mmd_test

FEW, MANY = ("Bern", "Oslo", "Rome"), tuple(f"town {k}" for k in range(30))
HOW = ("sketch", "batches", "memory")


def table(rng, rows, new=0, towns=FEW, name="Lima"):
    """Five mixed columns, of which `new` rows have a town that no other has."""
    town = rng.choice(towns, rows).astype(object)
    town[rng.choice(rows, new, replace=False)] = name
    return pl.DataFrame(
        {
            "a": rng.normal(size=rows),
            "b": rng.exponential(size=rows),
            "town": town.astype(str),
            "flag": rng.choice(["yes", "no"], rows, p=[0.8, 0.2]),
            "c": rng.normal(size=rows),
        }
    )


def run(how, x, y, **options):
    options = {"rng": 0, "n_resamples": 999, **options}
    if how == "sketch":
        return mmd_test(Sketch.of(x), y, **options)
    return mmd_test(x.lazy(), y.lazy(), **options) if how == "batches" else mmd_test(x, y, **options)


@pytest.mark.parametrize("towns", [FEW, MANY, FEW[:1]], ids=["few", "many", "one"])
@pytest.mark.parametrize("how", HOW)
def test_a_tenth_of_a_batch_in_a_new_level(how, towns):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        found = run(how, table(rng, 5_000, towns=towns), table(rng, 200, 20, towns), by_column=True)
        assert found.pvalue <= 0.01
        pvalues = {column.name: column.adjusted_pvalue for column in found.columns}
        assert pvalues.pop("town") <= 0.01
        assert min(pvalues.values()) > 0.01


@pytest.mark.parametrize("how", HOW)
def test_a_level_that_few_fitted_rows_have(how):
    """Features are fitted on a tenth of these rows, so that the fit may have no row of the new level."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        x, y = table(rng, 40_000, towns=MANY), table(rng, 400, 30, MANY)
        assert run(how, x, y, by_column=True).columns[2].adjusted_pvalue <= 0.01


def test_several_new_levels_are_evidence_together(rng):
    """Twenty rows of as many new levels, none of which occurs twice."""
    x, y = table(rng, 5_000), table(rng, 200)
    town = [*y["town"][:180], *(f"village {k}" for k in range(20))]
    assert run("sketch", x, y.with_columns(town=pl.Series(town))).pvalue <= 0.01


@pytest.mark.parametrize("kernel", ["median", "bkl"])
def test_a_single_kernel_sees_a_new_level_in_its_column(kernel, rng):
    sketch = Sketch.of(table(rng, 5_000), kernel=kernel)
    for _ in range(5):
        found = mmd_test(sketch, table(rng, 200, 30), by_column=True, n_resamples=199, rng=0)
        assert found.columns[2].pvalue <= 0.01


def test_a_detector_with_a_sketch_sees_new_levels(rng):
    detector = DriftDetector(random_state=0, n_resamples=199).fit(table(rng, 20_000).to_pandas())
    assert detector.sketch_ is not None
    assert detector.pvalue(table(rng, 200, 20).to_pandas()) <= 0.01
    assert detector.pvalue(table(rng, 200).to_pandas()) > 0.01


@pytest.mark.parametrize("how", HOW)
def test_one_row_of_a_new_level_is_no_alarm(how):
    """One row in 4,000: either sample may have it, so that p is about 1/2 where nothing else differs."""
    pvalues = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        found = run(how, table(rng, 4_000), table(rng, 4_000, 1), by_column=True, n_resamples=99)
        pvalues.append(found.columns[2].pvalue)
    assert np.median(pvalues) > 0.2


@pytest.mark.parametrize("how", HOW)
def test_level_with_levels_that_occur_by_chance_in_one_sample(how):
    """Rare towns: of 120 null p-values the share at most .1 and .3 is within three standard errors."""
    rng = np.random.default_rng(4)
    towns = np.array([*FEW, *(f"village {k}" for k in range(400))])
    share = np.r_[np.full(3, 0.3), np.full(400, 0.1 / 400)]
    pvalues = []
    for seed in range(120):
        x, y = (
            pl.DataFrame({"town": rng.choice(towns, n, p=share), "v": rng.normal(size=n)}) for n in (400, 100)
        )
        pvalues.append(run(how, x, y, n_resamples=39, rng=seed).pvalue)
    for level in (0.1, 0.3):
        error = np.sqrt(level * (1.0 - level) / len(pvalues))
        assert abs(np.mean(np.array(pvalues) <= level) - level) <= 3.0 * error
