"""The ozone study in small: what it searches, what it says, and that it goes on where it stopped."""

import json
import re

import numpy as np
import pytest

from kembed import Gaussian
from kembed.conditional.tester import ConditionalTester
from kembed.data.datasets import OZONE_VARIABLES, load_ozone
from kembed.experiments import NAMES, ozone, ozone_study, reproduce
from kembed.experiments.ozone_study import KERNELS, Plan, mark, measure, shares, take_out
from kembed.graphs.graph import CausalGraph, Edge
from kembed.graphs.pc import pc

SMALL = Plan(orders=3, resamples=2, lengthscales=(0.3, 1.0), signs=19, workers=1)


def table():
    return load_ozone().select("date", "temp", "ozone", "wind").head(60)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def study(cache):
    return ozone.run(progress=False, cache=cache, plan=SMALL, table=table())


# What is measured.


def test_settings_are_those_that_were_fixed_beforehand():
    plan = Plan()
    assert (plan.orders, plan.resamples, plan.signs) == (20, 20, 999)
    np.testing.assert_allclose(plan.lengthscales, np.geomspace(0.1, 4.0, 9))
    assert (ozone_study.ALPHA, ozone_study.SEED, ozone_study.LEAST) == (0.05, 0, 7.0)
    assert KERNELS == ("median", "bkl")


def test_each_graph_is_what_pc_says(study):
    def tester(kernel, **options):
        return ConditionalTester(table(), kernel=kernel, n_resamples=19, rng=0, **options)

    for kernel in KERNELS:
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
    assert study.marginal["0.3"] == swept.pvalue(0, 1, ())
    assert list(study.sweep) == [0.3, 1.0]


def test_known_beforehand_means_that_ozone_causes_nothing(study):
    assert not any(edge.a == "ozone" and edge.mark == "-->" for edge in study.known.edges)
    knowledge = ozone_study.background(tuple(OZONE_VARIABLES))
    assert knowledge.tiers[1] == ("ozone",)
    assert set(knowledge.tiers[0]) == set(OZONE_VARIABLES) - {"ozone"}


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
    assert ozone_study.correlation(whole) == pytest.approx(0.78, abs=0.005)
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
    assert found == {one: float(one == expected) for one in ozone_study.MARKS}


def test_shares_of_runs_add_up(study):
    for found in ozone._frequencies(study).values():
        assert list(found) == list(ozone_study.MARKS)
        assert sum(found.values()) == pytest.approx(1.0)
    assert len(ozone._frequencies(study)) == 4


# The cache.


def test_a_second_run_computes_nothing(study, cache, monkeypatch):
    asked = []
    outcome = ConditionalTester._outcome
    monkeypatch.setattr(ConditionalTester, "_outcome", lambda *key: asked.append(key[1:]) or outcome(*key))
    again = measure(SMALL, cache, False, table())
    assert len(asked) == len(KERNELS)  # the lengthscales that are told, which are no p-values
    assert ozone.report(again) == ozone.report(study)


def test_an_interrupted_run_goes_on_where_it_stopped(study, tmp_path, monkeypatch):
    computed = {"first": 0, "second": 0}
    outcome = ConditionalTester._outcome

    def count(run, limit):
        def counted(*key):
            if computed[run] == limit:
                raise KeyboardInterrupt
            computed[run] += 1
            return outcome(*key)

        monkeypatch.setattr(ConditionalTester, "_outcome", counted)

    count("first", 40)
    with pytest.raises(KeyboardInterrupt):
        measure(SMALL, tmp_path, False, table())
    count("second", None)
    assert ozone.report(measure(SMALL, tmp_path, False, table())) == ozone.report(study)
    count("second", None)
    computed["whole"] = 0
    count("whole", None)
    measure(SMALL, tmp_path / "new", False, table())
    assert computed["first"] + computed["second"] == computed["whole"]


# What is told.


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
        return CausalGraph(("temp", "ozone"), edges, n_resamples=0)

    changed = study._replace(main={"bkl": graph(learned), "median": graph(median)})
    sentences = ozone._verdict(changed)
    assert f"edge with learned kernels {words} in this graph: {ozone.WORDS[learned]}." in sentences[0]
    assert f"absence by the median rule {words} in this graph: {ozone.WORDS[median]}." in sentences[1]


def test_reproduce_writes_figures_numbers_and_text(study, cache, tmp_path, monkeypatch):
    seen = {}

    def run(progress, cache):
        seen["cache"] = cache
        return study

    monkeypatch.setattr(ozone, "run", run)
    said = []
    paths = reproduce("ozone", tmp_path, progress=False, say=said.append)
    assert [path.name for path in paths] == ["ozone.png", "ozone_sweep.png", "ozone.json", "ozone.txt"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths[:2])
    assert paths[3].read_text(encoding="utf-8").splitlines() == said
    numbers = json.loads(paths[2].read_text())
    assert numbers["main"]["bkl"]["edge"] == mark(study.main["bkl"])
    assert numbers["sweep"]["0.3"]["largest_pvalue"] == study.sweep[0.3].pvalues[frozenset(("temp", "ozone"))]
    assert seen["cache"] == tmp_path / "cache"
    assert "ozone" in NAMES
