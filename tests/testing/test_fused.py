"""The fused test: what each group is for, findings, and what must not change the answer."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from kembed import hsic_test, mmd_test

# What each is for.


def few_of_many(rng):
    x, y = rng.normal(size=(2, 200, 25))
    y[:, 4] *= 1.8
    return x, y, "columns"


def broken_correlation(rng):
    x, y = rng.normal(size=(2, 200, 25))
    y[:, 3] = 0.7 * y[:, 8] + 0.7 * y[:, 3]
    return x, y, "pairs"


def rounding(rng):
    x, y = rng.normal(size=(2, 200, 2))
    y[:, 1] = np.round(2.0 * y[:, 1]) / 2.0
    return x, y, "trees"


def noisy_line(rng):
    t = rng.uniform(-1, 1, (2, 200, 1))
    x, y = t * [1.0, 1.0, 1.0] + np.array([0.02, 0.06])[:, None, None] * rng.normal(size=(2, 200, 3))
    return x, y, "density"


def rare_cluster(rng):
    x, y = rng.normal(size=(2, 200, 6))
    y[:18] += 3.0
    return x, y, "second order"


@pytest.mark.parametrize("make", [few_of_many, broken_correlation, rounding, noisy_line, rare_cluster])
def test_a_group_finds_what_it_is_for(make, rng):
    x, y, name = make(rng)
    result = mmd_test(x, y, rng=0)
    assert result.pvalue <= 0.01
    titles = {
        "columns": "ranks of column 4",
        "pairs": "correlation of ranks of column 3 and column 8",
        "trees": "random trees",
        "density": "local density",
        "second order": "covariance of whitened features",
    }
    spoken = [member for member in result.members if titles[name] in repr(member.kernel)]
    assert max(member.neg_log_p for member in spoken) > 6.0


def test_findings_name_the_columns_and_the_pair(rng):
    x, y = rng.normal(size=(2, 300, 4))
    y[:, 1] = 0.8 * y[:, 0] + 0.6 * y[:, 1]
    y[:, 3] += 0.8
    frames = [pd.DataFrame(each, columns=list("abcd")) for each in (x, y)]
    result = mmd_test(*frames, rng=0)
    sure = {finding.columns for finding in result.findings if finding.adjusted_pvalue <= 0.05}
    assert sure == {("a", "b"), ("d",)}
    assert len(result.findings) == 4 + 6
    order = [finding.adjusted_pvalue for finding in result.findings]
    assert order == sorted(order)
    assert all(finding.adjusted_pvalue >= finding.pvalue for finding in result.findings)
    key = [(f.adjusted_pvalue, f.pvalue, len(f.columns)) for f in result.findings]
    assert key == sorted(key)  # columns before pairs, where p-values tie
    assert "d: p = 0.001, for all columns and pairs" in repr(result)


def test_one_column_has_no_findings(rng):
    assert mmd_test(rng.normal(size=50), rng.normal(size=50), rng=0, n_resamples=19).findings == ()


def test_findings_of_dependence_name_a_column_of_either_side(rng):
    x = rng.normal(size=(200, 12))
    y = np.column_stack([rng.normal(size=200), np.abs(x[:, 7]) + 0.5 * rng.normal(size=200)])
    result = hsic_test(
        pd.DataFrame(x, columns=list("abcdefghijkl")), pd.DataFrame(y, columns=["u", "v"]), rng=0
    )
    assert result.findings[0].columns == ("h", "v")
    assert result.findings[0].adjusted_pvalue <= 0.01
    assert result.findings[1].adjusted_pvalue > 0.01
    turned = hsic_test(
        pd.DataFrame(y, columns=["u", "v"]), pd.DataFrame(x, columns=list("abcdefghijkl")), rng=0
    )
    assert turned.findings[0].columns == ("v", "h")
    assert turned.pvalue == result.pvalue


def test_a_category_with_a_number_is_a_pair(rng):
    level = rng.integers(2, size=(2, 300))
    number = rng.normal(size=(2, 300))
    number[1] = np.where(level[1] == 1, 0.9, -0.9) + 0.5 * number[1]
    number[1] /= number[1].std()
    frames = [
        pd.DataFrame({"number": number[k], "level": np.array(["low", "high"])[level[k]]}) for k in (0, 1)
    ]
    result = mmd_test(*frames, rng=0)
    assert result.findings[0].columns in (("number", "level"), ("number",))
    assert ("number", "level") in {f.columns for f in result.findings if f.adjusted_pvalue <= 0.01}


def flags(rng, n, parity):
    found = rng.integers(2, size=(n, 4)).astype(float)
    if parity:
        kept = rng.random(n) < 0.6
        found[kept, 2] = (found[kept, 0] + found[kept, 1]) % 2
    return found


def reversed_slope(rng, n, reverse):
    segment, x = rng.integers(2, size=n), rng.normal(size=n)
    y = 0.8 * x * np.where((segment == 1) != reverse, 1.0, -1.0) + rng.normal(size=n)
    return pl.DataFrame({"x": x, "y": y, "segment": np.array(["u", "v"])[segment], "z": rng.normal(size=n)})


@pytest.mark.parametrize("make", [flags, reversed_slope])
@pytest.mark.parametrize("statistic", ["auto", "features"])
def test_three_way_interactions_are_found(make, statistic):
    rng = np.random.default_rng(0)
    result = mmd_test(make(rng, 300, False), make(rng, 300, True), statistic=statistic, rng=0)
    assert result.pvalue <= 0.01
    assert "three-way dependence" in repr(result.kernel)


# What stays the same.


@pytest.mark.parametrize("swap", [False, True])
def test_order_of_rows_and_samples_change_nothing(swap, rng):
    """To the last bit, ties and categories included."""
    make = [
        pd.DataFrame({"a": rng.normal(size=n), "b": rng.poisson(1.0, n), "c": rng.choice(["p", "q"], n)})
        for n in (30, 22)
    ]
    first = mmd_test(*make, rng=0, n_resamples=99)
    turned = [frame.sample(frac=1.0, random_state=1) for frame in make]
    other = mmd_test(*(turned[::-1] if swap else turned), rng=0, n_resamples=99)
    assert (other.pvalue, other.statistic) == (first.pvalue, first.statistic)
    assert [f.adjusted_pvalue for f in other.findings] == [f.adjusted_pvalue for f in first.findings]


def test_the_order_of_columns_moves_p_as_another_seed_does(rng):
    x, y = rng.normal(size=(2, 60, 4))
    y[:, 2] += 0.4
    seeds = [mmd_test(x, y, rng=seed, n_resamples=199).pvalue for seed in range(8)]
    turned = mmd_test(x[:, ::-1], y[:, ::-1], rng=0, n_resamples=199).pvalue
    assert min(seeds) / 3 <= turned <= 3 * max(seeds)


def test_a_rare_flag_and_text_with_many_rows_are_no_trouble(rng):
    flag = np.zeros(200)
    flag[0] = 1.0
    assert 0.0 < mmd_test(flag, np.zeros(200), rng=0, n_resamples=99).pvalue <= 1.0
    frames = [pd.DataFrame({"a": rng.normal(size=150), "c": rng.choice(list("pqr"), 150)}) for _ in range(2)]
    assert mmd_test(*frames, statistic="features", rng=0, n_resamples=99).pvalue > 0.01
    shifted = frames[1].assign(c=np.where(rng.random(150) < 0.4, "p", frames[1]["c"]))
    assert mmd_test(frames[0], shifted, statistic="features", rng=0, n_resamples=99).pvalue == 0.01


# Repeated rows.


def test_copies_in_one_sample_are_found():
    """16% copies: power .28 by the other members (40 draws), 1 by counting rows that occur twice."""
    found = 0
    for seed in range(10):
        rng = np.random.default_rng([5, seed])
        x, y = rng.normal(size=(150, 4)), rng.normal(size=(150, 4))
        y[-24:] = y[:24]
        result = mmd_test(x, y, n_resamples=99, rng=seed)
        found += result.pvalue <= 0.05
    assert found == 10
    assert repr(result.kernel) == "repeated rows"


def test_repeated_rows_alone_are_no_difference():
    """Independent rows of a law with 60 values: at level .05, 16 of 150 has odds of 1 in 270."""
    rejected = 0
    for seed in range(150):
        rng = np.random.default_rng([6, seed])
        x, y = rng.normal(size=(60, 2))[rng.integers(0, 60, (2, 40))]
        rejected += mmd_test(x, y, n_resamples=39, rng=seed).pvalue <= 0.05
    assert rejected < 16
