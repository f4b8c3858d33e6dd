"""Figures: what is drawn is what the results say, names are drawn as they are, awkward data stay readable."""

import io
from dataclasses import replace
from types import SimpleNamespace

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from kembed import Gaussian, compare, empirical, fit_embedding, hsic_test, mmd_test, witness
from kembed.learning.evidence import Evidence
from kembed.plotting import (
    plot_columns,
    plot_comparison,
    plot_embedding,
    plot_learned,
    plot_samples,
    plot_test,
    plot_witness,
)
from kembed.plotting.style import LABEL_WIDTH, limits, literal

RNG = np.random.default_rng
# Matplotlib would take this for mathematics, and fail to parse it.
WICKED = r"$\frac{a$<script>"


def panel():
    return Figure(figsize=(5.0, 4.0), layout="constrained").subplots()


def draw(ax):
    """Render the whole figure without a display; what cannot be drawn fails here."""
    ax.figure.savefig(io.BytesIO(), format="png", dpi=50)
    return ax


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def line(ax, label):
    (found,) = [one for one in ax.lines if one.get_label() == label]
    return found


@pytest.fixture(scope="module")
def one():
    rng = RNG(0)
    return witness(rng.normal(size=60), rng.normal(2.0, size=60), kernel=Gaussian(1.0))


@pytest.fixture(scope="module")
def same():
    return witness(RNG(0).normal(size=60), RNG(1).normal(size=60), kernel=Gaussian(1.0))


@pytest.fixture(scope="module")
def two():
    rng = RNG(0)
    x, y = rng.normal(size=(60, 2)), rng.normal(size=(60, 2))
    y[:, 0] += 2.0
    return witness(x, y, kernel=Gaussian(1.0))


@pytest.fixture(scope="module")
def mixed():
    """A category and a number that matter, two numbers that do not."""
    rng = RNG(0)

    def table(shift, shares):
        frame = pd.DataFrame(rng.normal(size=(80, 3)), columns=["dull", "moved", WICKED])
        frame["moved"] += shift
        frame["city"] = rng.choice(["Oslo", "Rome"], 80, p=shares)
        return frame

    return witness(table(0.0, [0.2, 0.8]), table(1.0, [0.7, 0.3]), kernel="median")


@pytest.fixture(scope="module")
def comparison():
    rng = RNG(0)
    x = pd.DataFrame(rng.normal(size=(40, 3)), columns=["a", WICKED, "c"])
    y = pd.DataFrame(rng.normal(size=(40, 3)), columns=x.columns)
    y["a"] += 2.0
    return compare(x, y, labels=(WICKED, "b"), kernel="median", n_resamples=99)


@pytest.fixture(scope="module")
def scan():
    return mmd_test(RNG(0).normal(size=40), RNG(1).normal(size=40), n_resamples=19, rng=0)


class TestWitnessCurve:
    def test_shading_is_where_the_band_excludes_zero(self, one):
        ax = draw(plot_witness(one, panel(), labels=("before", "after")))
        spans = sorted((box.get_x(), box.get_x() + box.get_width()) for box in ax.patches)
        regions = one.where()
        assert len(regions) == 2
        np.testing.assert_allclose(spans, sorted(region.box["column 0"] for region in regions))
        assert {"more before", "more after"} <= set(legend(ax))
        assert "← more after" in ax.get_ylabel()

    def test_shading_of_several_scales_is_said(self, one):
        rng = RNG(0)
        x = np.concatenate([rng.normal(size=250), rng.normal(2.0, 0.1, 30)])
        w = witness(x, rng.normal(0.3, 1.0, 280), rng=0)
        ax = plot_witness(w, panel())
        assert f"shaded where any of {len(w.tried)} scales is sure" in ax.get_xlabel()
        assert "scales" not in plot_witness(one, panel()).get_xlabel()

    def test_mean_and_bands_are_those_of_the_witness(self, one):
        ax = plot_witness(one, panel())
        grid, mean = line(ax, "witness").get_data()
        bands = one.at(grid)
        np.testing.assert_allclose(mean, bands.mean)
        wide, narrow = (band.get_paths()[0].vertices[:, 1] for band in ax.collections)
        assert wide.max() == pytest.approx(bands.simultaneous_upper.max())
        assert narrow.min() == pytest.approx(bands.lower.min())

    def test_rugs_show_both_samples(self, one):
        ax = plot_witness(one, panel())
        assert line(ax, "rows of x").get_xdata() == pytest.approx(np.sort(one.tables[0].values[:, 0]))
        assert line(ax, "rows of y").get_ydata().max() < 0.5 < line(ax, "rows of x").get_ydata().min()

    def test_nothing_found_is_said(self, same):
        ax = draw(same.plot(panel()))
        assert same.where() == []
        assert len(ax.patches) == 0
        assert "90% band includes 0 everywhere" in ax.get_xlabel()

    def test_long_tails_do_not_stretch_the_axis(self):
        x, y = RNG(0).standard_cauchy(100), RNG(1).standard_cauchy(100) + 1.0
        ax = draw(plot_witness(witness(x, y, kernel=Gaussian(1.0)), panel()))
        low, high = ax.get_xlim()
        pooled = np.concatenate([x, y])
        assert high - low < 0.2 * np.ptp(pooled)
        low, high = line(ax, "witness").get_xdata()[[0, -1]]
        beyond = int(((pooled < low) | (pooled > high)).sum())
        assert f"({beyond} rows of 200 beyond the axis)" in ax.get_xlabel()

    @pytest.mark.parametrize(
        ("x", "y"),
        [
            (np.zeros(4), np.zeros(5)),
            (RNG(0).normal(size=5), RNG(1).normal(size=5)),
            (np.zeros(9), np.ones(7)),
        ],
    )
    def test_few_or_equal_rows(self, x, y):
        ax = draw(plot_witness(witness(x, y, kernel=Gaussian(1.0)), panel()))
        low, high = ax.get_xlim()
        assert low < min(x.min(), y.min())
        assert high > max(x.max(), y.max())

    def test_large_units_go_into_the_label(self):
        rng = RNG(0)
        w = witness(3e12 * rng.normal(size=50), 3e12 * rng.normal(size=50), kernel="median")
        ax = draw(plot_witness(w, panel()))
        assert ax.get_xlabel().startswith("column 0 (×10¹²)")
        assert all(len(tick.get_text()) <= 5 for tick in ax.get_xticklabels())


class TestWitnessLevels:
    def test_a_dot_for_each_level_at_its_witness(self):
        x = [["red"]] * 40 + [["blue"]] * 10 + [[WICKED]] * 10
        y = [["red"]] * 10 + [["blue"]] * 40 + [[WICKED]] * 10
        w = witness(x, y, kernel="median")
        ax = draw(plot_witness(w, panel()))
        names = [tick.get_text() for tick in ax.get_yticklabels()]
        assert names == ["red", literal(WICKED), "blue"]  # most x on top
        dots = [dot.get_xdata()[0] for dot in ax.lines if dot.get_marker() == "o"]
        np.testing.assert_allclose(dots, w.at([["red"], [WICKED], ["blue"]]).mean)
        filled = [dot.get_markerfacecolor() != "white" for dot in ax.lines if dot.get_marker() == "o"]
        assert filled == [True, False, True]

    def test_many_levels_are_cut_and_counted(self):
        x, y = ([[f"level {k}"] for k in range(start, 30)] for start in (0, 5))
        ax = draw(plot_witness(witness(x, y, kernel="median"), panel()))
        assert len(ax.get_yticks()) == 15
        assert "15 more levels not shown" in ax.get_ylabel()


class TestWitnessMap:
    def test_heavy_line_is_where_the_band_meets_zero(self, two):
        ax = draw(plot_witness(two, panel()))
        (edge,) = [found for found in ax.collections if np.ravel(found.get_linewidths()).max() == 1.8]
        points = np.concatenate([path.vertices for path in edge.get_paths() if len(path.vertices)])
        bands = two.at(points)
        margin = np.maximum(bands.simultaneous_lower, -bands.simultaneous_upper)
        assert np.abs(margin).max() < 0.02 * np.abs(bands.mean).max()
        assert "90% band excludes 0 inside" in legend(ax)

    def test_colours_are_centred_at_zero(self, two):
        ax = plot_witness(two, panel(), labels=("old", "new"))
        low, high = ax.collections[0].get_clim()
        assert low == pytest.approx(-high)
        assert high > 0.0
        bar = ax.figure.axes[1]
        assert "more old →" in bar.get_ylabel()

    def test_no_line_where_nothing_is_sure(self):
        w = witness(RNG(0).normal(size=(20, 2)), RNG(1).normal(size=(20, 2)), kernel=Gaussian(1.0))
        ax = draw(plot_witness(w, panel()))
        assert not any("excludes" in text for text in legend(ax))
        assert "includes 0 everywhere" in ax.get_xlabel()

    def test_equal_rows(self):
        ax = draw(plot_witness(witness(np.ones((5, 2)), np.ones((6, 2)), kernel=Gaussian(1.0)), panel()))
        assert ax.collections[0].get_clim() == (-1.0, 1.0)


class TestWitnessRows:
    def test_most_sensitive_columns_with_the_category_as_strips(self, mixed):
        best = [mixed.names[d] for d in np.argsort(-mixed.sensitivity)[:2]]
        assert set(best) == {"city", "moved"}
        ax = draw(plot_witness(mixed, panel()))
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("moved", "city")
        assert [tick.get_text() for tick in ax.get_yticklabels()] == ["Oslo", "Rome"]
        places = np.concatenate([np.asarray(found.get_offsets()) for found in ax.collections])
        rows = np.concatenate([table.values for table in mixed.tables])
        assert len(places) == 160
        np.testing.assert_allclose(np.sort(places[:, 0]), np.sort(rows[:, 1]))
        assert np.abs(places[:, 1] - places[:, 1].round()).max() <= 0.28

    def test_filled_rows_are_those_where_the_band_excludes_zero(self, mixed):
        ax = plot_witness(mixed, panel())
        rows = np.concatenate([table.values for table in mixed.tables])
        sure = mixed.at_rows(rows).excludes_zero
        filled = [len(found.get_offsets()) for found in ax.collections if len(found.get_facecolors())]
        assert 0 < sum(filled) == sure.sum() < 160

    def test_chosen_columns_and_wicked_names(self, mixed):
        ax = draw(plot_witness(mixed, panel(), columns=("dull", WICKED), labels=(WICKED, "_y")))
        assert ax.get_xlabel() == "dull"
        assert ax.get_ylabel() == literal(WICKED)
        assert "rows of _y" in legend(ax)
        same = plot_witness(mixed, panel(), columns=(0, 2))
        assert same.get_ylabel() == ax.get_ylabel()

    @pytest.mark.parametrize(
        "columns", ["moved", ("moved",), ("moved", "moved"), ("moved", "age"), (0, 9), 1]
    )
    def test_wrong_columns(self, mixed, columns):
        with pytest.raises(ValueError, match="columns must be two different columns of 'dull'"):
            plot_witness(mixed, panel(), columns=columns)

    def test_wrong_labels(self, one):
        with pytest.raises(TypeError, match="labels must be two names"):
            plot_witness(one, panel(), labels="ab")


class TestNull:
    @pytest.mark.parametrize("kernel", ["median", [Gaussian(0.5), Gaussian(2.0)]])
    def test_observed_statistic_and_pvalue(self, kernel):
        rng = RNG(0)
        result = mmd_test(
            rng.normal(size=30), rng.normal(0.2, size=30), kernel=kernel, n_resamples=199, rng=0
        )
        ax = draw(result.plot(panel()))
        (observed,) = ax.lines
        assert set(observed.get_xdata()) == {result.statistic}
        reached = round(result.pvalue * 200) - 1
        assert f"{reached} of 199 resamples reach it" in ax.get_title(loc="left")
        assert ("fused" in ax.get_xlabel()) == isinstance(kernel, list)
        outline = ax.patches[0].get_path().vertices
        assert outline[:, 0].min() == pytest.approx(result.null_distribution.min())
        counts = np.histogram(result.null_distribution, 40)[0]
        assert outline[:, 1].max() == counts.max()

    def test_few_arrangements_are_drawn_one_by_one(self):
        result = mmd_test([1.0, 2.0, 3.0], [4.0, 5.0, 6.0], kernel=Gaussian(1.0), rng=0)
        ax = draw(plot_test(result, panel()))
        sticks = ax.collections[0].get_paths()
        assert len(sticks) == len(np.unique(result.null_distribution.round(9)))
        assert sum(stick.vertices[:, 1].max() for stick in sticks) == 20  # 6 choose 3
        assert ax.get_title(loc="left") == "p = 0.1: 2 of 20 arrangements reach it"

    def test_independence_with_a_gamma_null(self):
        result = hsic_test(
            RNG(0).normal(size=30), RNG(1).normal(size=30), kernel=Gaussian(1.0), null="gamma", rng=0
        )
        ax = draw(plot_test(result, panel()))
        assert ax.get_xlabel().startswith("HSIC")
        assert "(gamma approximation)" in ax.get_title(loc="left")
        assert "999 draws, gamma null" in legend(ax)

    def test_samples_that_never_vary(self):
        ax = draw(plot_test(mmd_test(np.zeros(20), np.zeros(20), kernel=Gaussian(1.0), rng=0), panel()))
        low, high = ax.get_xlim()
        assert low < 0.0 < high

    def test_missing_values_have_no_picture(self):
        result = mmd_test([1.0, np.nan], [1.0, 2.0], nan_policy="propagate", kernel="median")
        with pytest.raises(ValueError, match=r"is nan, so there is nothing to draw.*nan_policy='omit'"):
            result.plot(panel())


class TestColumns:
    def table(self, count):
        return [
            SimpleNamespace(name=f"c{k}", sensitivity=1.0 / (k + 1), adjusted_pvalue=0.01 if k == 13 else 0.5)
            for k in range(count)
        ]

    def test_bars_are_sensitivities_and_clear_columns_come_first(self):
        ax = draw(plot_columns(self.table(15)[::-1], panel()))  # whatever order they come in
        names = [tick.get_text() for tick in ax.get_yticklabels()]
        assert names == ["c13", *(f"c{k}" for k in range(11))]
        widths = {bar.get_y() + bar.get_height() / 2: bar.get_width() for bar in ax.patches}
        np.testing.assert_allclose(
            [widths[k] for k in range(12)], [1 / 14, *(1 / (k + 1) for k in range(11))]
        )
        assert "3 more columns not shown" in ax.get_xlabel()
        assert [text.get_text() for text in ax.texts][:2] == ["0.01", "0.5"]
        assert legend(ax) == ["p ≤ 0.05", "p > 0.05"]
        assert legend(plot_columns(self.table(3), panel(), alpha=0.6)) == ["p ≤ 0.6"]

    def test_columns_of_a_test_show_their_statistics(self):
        rng = RNG(0)
        x = pd.DataFrame(
            rng.normal(size=(20, 2)), columns=[WICKED, "a_long_name_that_ends_with_what_matters"]
        )
        result = mmd_test(
            x, x + np.array([0.0, 3.0]), by_column=True, kernel=Gaussian(1.0), n_resamples=99, rng=0
        )
        ax = draw(plot_columns(result, panel()))
        names = [tick.get_text() for tick in ax.get_yticklabels()]
        assert names == ["a_long_name_that…matters", literal(WICKED)]
        statistics = {column.statistic for column in result.columns}
        assert {bar.get_width() for bar in ax.patches} == statistics

    def test_no_columns(self):
        with pytest.raises(ValueError, match="by_column=True"):
            plot_columns(mmd_test([1.0, 2.0], [3.0, 4.0], kernel="median"), panel())


class TestEmbedding:
    def test_curve_and_band(self):
        mu = fit_embedding(
            RNG(0).normal(size=40), Gaussian(1.0), prior_mean=lambda points: np.zeros(len(points))
        )
        points = np.linspace(-1.0, 2.0, 7)
        ax = draw(mu.plot(panel(), points=points[::-1], level=0.5))
        np.testing.assert_allclose(line(ax, "mean").get_data(), [points, mu.mean(points)])
        lower, upper = mu.interval(points, 0.5)
        band = ax.collections[0].get_paths()[0].vertices[:, 1]
        assert (band.min(), band.max()) == pytest.approx((lower.min(), upper.max()))
        assert "50% pointwise" in legend(ax)

    def test_an_embedding_without_uncertainty_has_no_band(self):
        ax = draw(empirical([0.0, 1.0, 1.0], Gaussian(1.0)).plot(panel()))
        assert len(ax.collections) == 0
        low, high = ax.get_xlim()
        assert low < 0.0 < 1.0 < high

    def test_two_columns_are_a_map(self):
        mu = empirical(RNG(0).normal(size=(30, 2)), Gaussian(1.0))
        ax = draw(plot_embedding(mu, panel()))
        assert ax.get_ylabel() == "column 1"
        heights = ax.collections[0].get_array()
        assert 0.0 <= heights.min() < heights.max() < 1.0
        corner = draw(plot_embedding(mu, panel(), points=[[0.0, 0.0], [5.0, 7.0]]))
        assert corner.collections[0].axes.dataLim.x1 == pytest.approx(5.0)

    def test_more_columns_have_no_picture(self):
        with pytest.raises(ValueError, match="has 3 columns, and a picture shows at most 2"):
            empirical(np.ones((4, 3)), Gaussian(1.0)).plot(panel())


class TestEvidence:
    @pytest.fixture
    def evidence(self):
        scales = np.geomspace(0.1, 10.0, 40)
        curve = -np.minimum(np.log(scales / 2.0) ** 2, 0.5 + np.log(scales / 0.3) ** 2)
        return Evidence(scales, curve, np.array([2.0, 0.3]), median=0.7)

    def test_scan_of_a_fused_test(self, scan):
        (learned,) = scan.learned
        ax = draw(plot_learned(learned, panel()))
        curve, *marks = ax.lines
        np.testing.assert_allclose(curve.get_xdata(), learned.lengthscales)
        assert [mark.get_xdata()[0] for mark in marks] == pytest.approx(list(learned.peaks))
        assert ax.get_xlabel() == "lengthscale"  # of one column, in its units
        assert any("median" in text for text in legend(ax)) == (learned.median is not None)

    def test_median_is_marked(self, evidence):
        ax = draw(plot_learned(evidence, panel()))
        assert ax.collections[0].get_paths()[0].vertices[:, 0] == pytest.approx([0.7] * 2)
        assert legend(ax) == ["best: 2", "mode: 0.3", "median rule: 0.7"]
        ax = draw(plot_learned(replace(evidence, median=None), panel()))
        assert len(ax.collections) == 0

    def test_the_unit_is_said_unless_it_is_the_users(self, evidence):
        assert plot_learned(evidence, panel()).get_xlabel() == "lengthscale"
        spreads = replace(evidence, unit="spreads")
        assert plot_learned(spreads, panel()).get_xlabel() == "lengthscale (in spreads)"


class TestSamples:
    samples = SimpleNamespace(
        variables={"lengthscale": RNG(0).lognormal(size=(2, 50, 3)), "noise": np.full((2, 50), 0.3)}
    )

    def test_chains_share_their_bins_and_sum_to_one(self):
        ax = draw(plot_samples(self.samples, panel(), column=1))
        assert len(ax.patches) == 2
        for chain, outline in enumerate(ax.patches):
            vertices = outline.get_path().vertices
            drawn = self.samples.variables["lengthscale"][:, :, 1]
            assert vertices[:, 0].min() == pytest.approx(drawn.min())
            edges = np.unique(vertices[:, 0])
            shares = np.histogram(drawn[chain], edges)[0] / 50
            assert vertices[:, 1].max() == pytest.approx(shares.max())
        assert legend(ax) == ["chain 1", "chain 2"]
        assert ax.get_xlabel() == "lengthscale of column 1"

    def test_another_parameter_that_never_moved(self):
        assert draw(plot_samples(self.samples, panel(), parameter="noise")).get_xlabel() == "noise"

    def test_wrong_names(self):
        with pytest.raises(ValueError, match="parameter must be one of 'lengthscale', 'noise'"):
            plot_samples(self.samples, panel(), parameter="alpha")
        with pytest.raises(ValueError, match="column must be from 0 to 2"):
            plot_samples(self.samples, panel(), column=3)


class TestComparison:
    def test_four_panels_in_a_given_figure(self, comparison):
        before = plt.get_fignums()
        figure = Figure(figsize=(11.0, 8.0), layout="constrained")
        axes = plot_comparison(comparison, figure)
        draw(axes[0, 0])
        assert axes.shape == (2, 2)
        titles = [ax.get_title(loc="left") for ax in axes.flat]
        assert titles[:2] == ["Where they differ", "Which columns"]
        assert titles[2].startswith("Could it be chance: p = ")
        assert axes[1, 0].lines[0].get_xdata()[0] == comparison.test.statistic
        assert axes[0, 1].get_yticklabels()[0].get_text() == "a"
        assert "not learned" in axes[1, 1].texts[0].get_text()
        assert f"rows of {literal(WICKED, LABEL_WIDTH)}" in legend(axes[0, 0])
        assert plt.get_fignums() == before

    def test_evidence_says_its_unit(self, comparison, scan):
        axes = plot_comparison(replace(comparison, test=scan), Figure(figsize=(11.0, 8.0)))
        assert axes[1, 1].get_xlabel() == "lengthscale"
        several = replace(scan, learned=(replace(scan.learned[0], unit="spreads of the columns"),))
        axes = plot_comparison(replace(comparison, test=several), Figure(figsize=(11.0, 8.0)))
        assert axes[1, 1].get_xlabel() == "lengthscale (in spreads of the columns)"


def test_without_axes_a_pyplot_figure_is_made(same):
    before = set(plt.get_fignums())
    ax = same.plot()
    (new,) = set(plt.get_fignums()) - before
    assert plt.figure(new) is ax.figure
    plt.close(new)


def test_axes_keep_the_whole_range_unless_tails_are_long():
    values = RNG(0).normal(size=1_000)
    assert limits(values) == (values.min(), values.max())
    first, last = np.quantile([*values, 1e6], [0.05, 0.95])
    assert limits([*values, 1e6])[1] == pytest.approx(last + 0.75 * (last - first))
    assert limits([*values, 1e6], keep=[50.0])[1] == 50.0
    assert limits([0.0] * 99 + [2.0]) == (0.0, 2.0)
    assert limits([3.0, 3.0]) == (1.5, 4.5)


def test_names_are_drawn_as_they_are():
    assert literal("a\nb\x00") == "a b\N{REPLACEMENT CHARACTER}"
    assert literal("") == "(no name)"
    assert literal("x" * 50) == "x" * 16 + "…" + "x" * 7
    assert not matplotlib.cbook.is_math_text(literal("$x$ and $y$"))
