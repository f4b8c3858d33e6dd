"""The ozone study in small: what it searches, what it says, and that it goes on where it stopped."""

import re
import shutil

import joblib
import numpy as np
import pytest
from experiments.ozone import Plan, mark, shares, take_out

from experiments import ozone
from kembed import Gaussian, Landmarks, learn_kernel
from kembed.conditional.tester import ConditionalTester
from kembed.graphs.graph import CausalGraph, Edge
from kembed.graphs.pc import pc
from kembed.kernels.space import make_space
from kembed.tables.datasets import load_ozone

SMALL = Plan(orders=3, resamples=2, lengthscales=(0.3, 1.0), landmarks=(10,), signs=19, workers=1)


def table():
    return load_ozone().select("date", "temp", "ozone", "wind").head(60)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def study(cache):
    return ozone.run(cache, SMALL, table())


# What is measured.


def test_settings_are_those_that_were_fixed_beforehand():
    plan = Plan()
    assert (plan.orders, plan.resamples, plan.signs) == (20, 20, 999)
    np.testing.assert_allclose(plan.lengthscales, np.geomspace(0.1, 4.0, 9))
    assert (ozone.ALPHA, ozone.SEED, ozone.LEAST) == (0.05, 0, 7.0)
    assert tuple(ozone.NAMES) == ("median", "bkl")
    assert plan.landmarks == (25, 50, 100)


def test_each_graph_is_what_pc_says(study):
    def tester(kernel, **options):
        return ConditionalTester(table(), kernel=kernel, n_resamples=19, rng=0, **options)

    for kernel in ozone.NAMES:
        whitened = tester(kernel, prewhiten="date")
        direct = pc(None, test=whitened, n_bootstrap=2, rng=0)
        assert [str(edge) for edge in study.main[kernel].edges] == [str(edge) for edge in direct.edges]
        np.testing.assert_array_equal(study.main[kernel].frequencies, direct.frequencies)
        orders = pc(None, test=whitened, orientation="first", stable=False, n_orders=3, rng=0)
        np.testing.assert_array_equal(study.textbook[kernel].frequencies, orders.frequencies)
        raw = pc(
            None, test=ConditionalTester(table().drop("date"), kernel=kernel, n_resamples=19, rng=0), rng=0
        )
        assert [str(edge) for edge in study.raw[kernel].edges] == [str(edge) for edge in raw.edges]
    swept = tester(Gaussian(0.3), prewhiten="date")
    assert study.sweep[0.3].pvalues == pc(None, test=swept, rng=0).pvalues
    assert study.marginal[0.3] == swept.pvalue(0, 1, ())
    assert list(study.sweep) == [0.3, 1.0]


def test_the_paper_s_own_rule_is_the_published_objective_with_unit_noise(study):
    """Nothing given, the kernel of temperature is what `learn_kernel` says of that column over its spread."""
    column = take_out(table(), 7.0)[0]["temp"].to_numpy()
    space = make_space((column[:, None] - column.mean()) / column.std(), np.array([False]))
    learned = learn_kernel(space.numeric, objective="paper", noise=1.0, landmarks=Landmarks("subset", 10))
    found = study.scales[10][0]
    assert found == pytest.approx(learned.kernel.lengthscale * space.spread[0], rel=1e-6)
    assert list(study.published) == [10]
    assert "10 landmarks, lengthscales" in "\n".join(ozone.report(study))


def test_known_beforehand_means_that_ozone_causes_nothing(study):
    assert not any(edge.a == "ozone" and edge.mark == "-->" for edge in study.known.edges)


def test_trends_are_those_of_the_tester(study):
    tester = ConditionalTester(table(), prewhiten="date", rng=0)
    assert study.trends[0].columns == tester.prewhitened
    assert [one.least for one in study.trends] == [7.0, 0.5]
    values = table()
    assert study.correlation == pytest.approx(np.corrcoef(values["temp"], values["ozone"])[0, 1])


def test_unbounded_trends_take_the_dependence_away():
    whole = load_ozone().select("date", "temp", "ozone")
    bounded, unbounded = (take_out(whole, least)[1] for least in (7.0, 0.5))
    # The prototypes measured .78 before and .37 after; days that follow each other come to disagree.
    assert ozone.correlation(whole) == pytest.approx(0.78, abs=0.005)
    assert unbounded.correlation == pytest.approx(0.37, abs=0.02)
    assert unbounded.correlation < bounded.correlation < 0.75
    assert all(one.lengthscale < 4.0 and one.after < 0.0 for one in unbounded.columns)
    assert all(one.lengthscale > 6.999 and one.after > 0.0 for one in bounded.columns)


# Marks and shares.


@pytest.mark.parametrize(
    ("edge", "expected"),
    [
        (Edge("temp", "ozone", "-->"), "-->"),
        (Edge("ozone", "temp", "-->"), "<--"),
        (Edge("ozone", "temp", "---"), "---"),
        (Edge("temp", "ozone", "<->"), "<->"),
        (Edge("temp", "wind", "-->"), ""),
    ],
)
def test_the_mark_is_read_from_temperature_to_ozone(edge, expected):
    graph = CausalGraph(("ozone", "wind", "temp"), (edge,))
    assert mark(graph) == expected
    found = shares(graph, graph.frequencies)
    assert found == {one: float(one == expected) for one in ozone.WORDS}


def test_shares_of_runs_add_up(study):
    for found in ozone.frequencies(study).values():
        assert list(found) == list(ozone.WORDS)
        assert sum(found.values()) == pytest.approx(1.0)
    assert len(ozone.frequencies(study)) == 4


# The cache.


def kept(folder):
    """The p-values of a cache, by the folder of each, with the times at which they were written."""
    files = {file.relative_to(folder): file for file in folder.rglob("output.pkl")}
    return {name: (joblib.load(file), file.stat().st_mtime_ns) for name, file in files.items()}


def test_a_second_run_computes_nothing(study, cache):
    before = kept(cache)
    assert ozone.report(ozone.run(cache, SMALL, table())) == ozone.report(study)
    assert kept(cache) == before != {}


def test_an_interrupted_run_goes_on_where_it_stopped(study, cache, tmp_path):
    # What an interrupted run leaves is some of the p-values.
    whole = kept(cache)
    shutil.copytree(cache, tmp_path / "part")
    for name in list(whole)[::2]:
        shutil.rmtree((tmp_path / "part" / name).parent)
    assert 0 < len(kept(tmp_path / "part")) < len(whole)
    assert ozone.report(ozone.run(tmp_path / "part", SMALL, table())) == ozone.report(study)
    again = kept(tmp_path / "part")
    assert {name: value for name, (value, _) in again.items()} == {
        n: value for n, (value, _) in whole.items()
    }


# What is reported.


def test_the_report_says_what_of_the_paper_holds(study):
    text = "\n".join(ozone.report(study))
    assert "fixed before the study first looked at the edge" in text
    assert "temp --> ozone with learned kernels, and no such edge by the median rule" in text
    assert re.search(r"directed edge with learned kernels (holds|does not hold) in this graph", text)
    holds = "holds" if mark(study.main["bkl"]) == "-->" else "does not hold"
    assert f"learned kernels {holds} in this graph" in text
    absent = "holds" if mark(study.main["median"]) == "" else "does not hold"
    assert f"absence by the median rule {absent} in this graph" in text


@pytest.mark.parametrize(
    ("learned", "median", "words"), [("-->", "", "holds"), ("---", "-->", "does not hold")]
)
def test_the_verdict_follows_the_graphs(study, learned, median, words):
    def graph(one):
        edges = (Edge("temp", "ozone", one),) if one else ()
        return CausalGraph(("temp", "ozone"), edges, n_bootstrap=0)

    changed = study._replace(main={"bkl": graph(learned), "median": graph(median)})
    sentences = ozone.report(changed)[-2:]
    assert f"edge with learned kernels {words} in this graph: {ozone.WORDS[learned]}." in sentences[0]
    assert f"absence by the median rule {words} in this graph: {ozone.WORDS[median]}." in sentences[1]


def test_what_is_written(study, tmp_path):
    ozone.plot(study).savefig(tmp_path / "ozone.png")
    assert (tmp_path / "ozone.png").read_bytes().startswith(b"\x89PNG")
