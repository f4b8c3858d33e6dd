"""Where the band excludes 0: intervals of one column, groups of rows of more."""

import numpy as np
import pytest

from kembed import Gaussian, witness
from kembed.comparing.regions import NEAREST, neighbours

K = Gaussian(0.8)


def test_intervals_are_where_the_band_excludes_zero(pair):
    x, y = pair
    w = witness(x, y, kernel=K)
    regions = w.where()
    assert {region.sign for region in regions} == {1, -1}
    s = np.linspace(min(x.min(), y.min()), max(x.max(), y.max()), 400)
    bands = w.at(s)
    for sign, outside in ((1, bands.simultaneous_lower > 0.0), (-1, bands.simultaneous_upper < 0.0)):
        spans = [region.box["column 0"] for region in regions if region.sign == sign]
        inside = np.any([(low < s) & (s < high) for low, high in spans], axis=0)
        edges = np.min([np.minimum(abs(s - low), abs(s - high)) for low, high in spans], axis=0)
        np.testing.assert_array_equal(inside[edges > 0.01], outside[edges > 0.01])
    for region in regions:
        low, high = region.box["column 0"]
        assert low <= region.peak["column 0"] <= high
        assert region.share_x == np.mean((low <= x) & (x <= high))
        assert region.share_y == np.mean((low <= y) & (y <= high))
        assert region.value == pytest.approx(w.at([region.peak["column 0"]]).mean[0])
        assert region.band[0] * region.band[1] > 0.0


def test_no_regions_between_equal_samples(rng):
    x = rng.normal(size=(60, 2))
    w = witness(x, x, kernel="median")
    assert w.where() == []
    np.testing.assert_allclose(w.at(x).mean, 0.0, atol=1e-12)


def test_heavy_tails_do_not_hide_the_middle(rng):
    x, y = rng.standard_cauchy(size=200), 1.5 + rng.standard_cauchy(size=200)
    ends = {region.sign: region.box["column 0"] for region in witness(x, y, kernel=Gaussian(1.0)).where()}
    assert -12.0 < ends[1][0] < 0.0 < ends[1][1] < 1.0
    assert 0.5 < ends[-1][0] < 2.0 < ends[-1][1] < 14.0


def test_groups_of_rows(rng):
    x = np.concatenate([rng.normal(0, 0.3, (100, 2)), rng.normal([6, 0], 0.3, (60, 2))])
    y = np.concatenate([rng.normal(0, 0.3, (100, 2)), rng.normal([0, 6], 0.3, (60, 2))])
    first, second = sorted(witness(x, y, kernel=Gaussian(1.0)).where(), key=lambda region: -region.sign)
    assert (first.sign, second.sign) == (1, -1)
    assert first.share_x == pytest.approx(60 / 160)
    assert first.share_y == 0.0
    assert 4.5 < first.box["column 0"][0] < first.box["column 0"][1] < 7.5
    assert -1.5 < first.box["column 1"][0] < first.box["column 1"][1] < 1.5
    assert str(first).startswith("more x: column 0 in [")  # the column that sets it apart comes first
    assert second.describe(("old", "new"), columns=1).startswith("more new: column 1 in [")
    assert "and 1 more column," in second.describe(columns=1)


def test_shares_are_counted_over_more_rows_than_are_grouped(rng):
    x, y = rng.normal(size=(1_000, 2)), rng.normal(size=(1_000, 2))
    y[:, 0] += 0.5
    for region in witness(x, y, kernel=Gaussian(2.0)).where():
        for share in (region.share_x, region.share_y):
            assert share * 1_000 == pytest.approx(round(share * 1_000), abs=1e-6)
        assert region.sign * (region.share_x - region.share_y) > 0.1


def test_lonely_points_are_joined_to_the_nearest(pair):
    w = witness(*pair, kernel=Gaussian(1e-1))
    points = np.arange(10.0)[:, None]
    like = w.difference.likeness(points, points)
    assert (like >= np.exp(-0.5)).sum() == 10  # each is like itself alone
    assert (neighbours(like).sum(axis=1) == NEAREST + 1).all()
    assert neighbours(like)[0, :2].all()


def test_regions_rest_on_rows(rng):
    """Thirty rows of four thousand far out are no region, however sure the band is of them."""
    x, y = rng.normal(size=(2, 4_000))
    x[:30] = 50.0
    w = witness(x, y, kernel=Gaussian(1.0), rng=1)  # whose prior has drawn some of them
    assert w.at([50.0]).excludes_zero[0]
    assert w.where() == []
