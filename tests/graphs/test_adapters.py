"""Our test inside causal-learn and pgmpy: same p-values, right graphs, shared regressions, mistakes named."""

import pickle
import sys
from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
from causallearn.search.ConstraintBased.FCI import fci
from causallearn.search.ConstraintBased.PC import pc
from causallearn.utils import cit
from pgmpy.causal_discovery import PC
from sklearn.base import clone

from kembed import ConditionalTester, Gaussian, adapters
from kembed.graphs.adapters import MOST_KEPT, TESTERS, _tester

FEW = {"n_resamples": 199}
ASKED = [(0, 1, ()), (1, 0, (2,)), (0, 3, (2,)), (3, 1, (2, 0)), (1, 3, (0, 2))]


def draw(seed=0, n=300):
    """a -> c <- b, c -> d: every edge of the true graph can be directed."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, n))
    c = 1.5 * np.tanh(2.0 * a) + b + 0.4 * rng.normal(size=n)
    return np.column_stack([a, b, c, c + 0.3 * c**2 + 0.6 * rng.normal(size=n)])


DATA = draw()
SMALL = draw(1, 60)
FRAME = pd.DataFrame(DATA, columns=list("abcd"))
TRUTH = [(0, 2), (1, 2), (2, 3)]


@pytest.fixture(scope="module")
def direct():
    return ConditionalTester(DATA, **FEW, rng=0)


@pytest.fixture(scope="module")
def small():
    return ConditionalTester(SMALL, **FEW, rng=0)


@pytest.fixture
def testers():
    """The testers of this process, with nothing shared from other tests."""
    adapters.clear()
    return TESTERS.results


def regressed():
    """How many regressions all testers have made."""
    return sum(tester.n_regressed for tester in TESTERS.results.values())


def used(data, test):
    """The tester behind a test of pgmpy's."""
    return _tester(data, test.options)


@pytest.fixture(scope="module", autouse=True)
def registered():
    """Under the name "kembed", with few resamples."""
    adapters.causal_learn(**FEW)


def holed():
    data = SMALL.copy()
    data[3, 2] = np.nan
    return data


def directed(graph):
    return sorted((int(i), int(j)) for i, j in graph.find_fully_directed())


def named(edges, names="abcd"):
    return [(names[i], names[j]) for i, j in edges]


# causal-learn.


def test_causal_learn_has_our_pvalues(direct):
    test = cit.CIT(DATA, "kembed")
    for i, j, given in ASKED:
        assert test(i, j, given) == direct.pvalue(i, j, given)
    assert test(0, 1) == test(np.int64(1), np.int64(0), None) == direct.pvalue(0, 1)
    assert test(1, 3, np.array([2, 0])) == test(3, 1, {0, 2}) == direct.pvalue(1, 3, (0, 2))


@pytest.mark.parametrize("options", [{"kernel": "median"}, {"kernel": Gaussian(0.5)}, {"rng": 3}])
def test_causal_learn_passes_options_on(options):
    wanted = ConditionalTester(SMALL, **FEW | {"rng": 0} | options).pvalue(0, 1)
    assert cit.CIT(SMALL, "kembed", **options)(0, 1) == wanted  # from the search
    assert adapters.causal_learn("other", **FEW | options) == "other"  # from the registration
    assert cit.CIT(SMALL, "other")(0, 1) == wanted != cit.CIT(SMALL, "kembed")(0, 1)
    assert cit.CIT(SMALL, "other")(2, 3) == 1 / 200
    assert cit.CIT(SMALL, "other", n_resamples=99)(2, 3) == 1 / 100  # the search goes first


def test_causal_learn_finds_the_graph():
    graph = pc(DATA, 0.05, indep_test="kembed", show_progress=False)
    assert directed(graph) == TRUTH
    assert graph.find_undirected() == []


def test_searches_share_regressions(testers):
    graph = pc(DATA, 0.05, "kembed", show_progress=False)
    first = regressed()
    assert first > 0
    for rule in (1, 2):  # these copy the graph and test again
        assert directed(pc(DATA.copy(), 0.05, "kembed", uc_rule=rule, show_progress=False)) == TRUTH
    assert deepcopy(graph).test is graph.test
    search = PC("stable", adapters.pgmpy(DATA, **FEW), significance_level=0.05, show_progress=False)
    clone(search).fit(DATA)
    assert (len(testers), regressed()) == (1, first)
    search.ci_test("x0", "x1", ["x2", "x3"])  # nobody has asked
    assert regressed() == first + 2


def test_causal_learn_has_fci(capsys):
    names = ["a", "b", "c", "d"]
    _, edges = fci(DATA, "kembed", 0.05, show_progress=False, node_names=names)
    assert sorted(map(str, edges)) == ["a o-> c", "b o-> c", "c --> d"]


def test_causal_learn_sees_changed_data():
    data = SMALL.copy()
    before = cit.CIT(data, "kembed")
    data[:, 1] = data[:, 0]
    after = cit.CIT(data, "kembed")
    assert before(0, 1) > 0.05 > after(0, 1) == 1 / 200


def test_causal_learn_takes_categories():
    rng = np.random.default_rng(0)
    group = rng.choice(["left", "right"], size=150)
    x, y = (np.where(group == "left", 1.5, 0.0) + rng.normal(size=150) for _ in range(2))
    data = pd.DataFrame({"x": x, "group": group, "y": y}).to_numpy()
    assert data.dtype == object
    graph = pc(data, 0.05, "kembed", show_progress=False)
    assert sorted((int(i), int(j)) for i, j in graph.find_undirected() if i < j) == [(0, 1), (1, 2)]


def test_causal_learn_graphs_can_be_pickled():
    graph = pc(SMALL, 0.05, "kembed", kernel="median", show_progress=False)
    again = pickle.loads(pickle.dumps(graph))
    assert isinstance(again.test, cit.CIT_Base)
    assert again.test(0, 2, (1,)) == graph.test(0, 2, (1,))
    assert again.test.options == graph.test.options
    assert again.test.method == "kembed"


def test_none_is_a_fresh_seed():
    seeds = {cit.CIT(SMALL, "kembed", rng=None).options["rng"] for _ in range(3)}
    assert len(seeds) == 3
    assert adapters.pgmpy(SMALL, rng=np.random.default_rng(1)).options["rng"] not in seeds


def test_causal_learn_mistakes():
    with pytest.raises(ValueError, match="'kci' is a test of causal-learn itself; choose another"):
        adapters.causal_learn("kci")
    with pytest.raises(TypeError, match="name must be text, but array"):
        adapters.causal_learn(SMALL)
    with pytest.raises(TypeError, match="no option 'kernal'; its options are kernel, n_resamples, "):
        adapters.causal_learn(kernal="median")
    with pytest.raises(TypeError, match="no option 'kernelX'"):
        pc(SMALL, 0.05, "kembed", kernelX="Gaussian", show_progress=False)
    with pytest.raises(ValueError, match=r"cache_path.*name a folder as cache"):
        pc(SMALL, 0.05, "kembed", cache_path="here.json", show_progress=False)
    with pytest.raises(TypeError, match=r"data is a DataFrame; .*data\.to_numpy\(\) and node_names="):
        pc(FRAME, 0.05, "kembed", show_progress=False)
    with pytest.raises(ValueError, match=r"data has missing values in 1 of 60 rows .*nan_policy='omit'"):
        cit.CIT(holed(), "kembed")
    with pytest.raises(TypeError, match="kernel must be one of"):  # cannot be pickled
        cit.CIT(SMALL, "kembed", kernel=lambda x: x)
    test = cit.CIT(SMALL, "kembed")
    with pytest.raises(ValueError, match="Y is column 4, but there are only 4"):
        test(0, 4)
    with pytest.raises(ValueError, match="X and Y are the same column, 'column 1'"):
        test(1, 1)
    with pytest.raises(ValueError, match="'column 1' is tested and given at once"):
        test(0, 1, (1, 2))


def test_causal_learn_is_missing_or_old(monkeypatch):
    monkeypatch.delattr(cit, "register_ci_test")
    with pytest.raises(ImportError, match="pip install --upgrade causal-learn"):
        adapters.causal_learn()
    monkeypatch.setitem(sys.modules, "causallearn.utils.cit", None)
    with pytest.raises(ImportError, match="needs causal-learn: pip install causal-learn"):
        adapters.causal_learn()


# pgmpy.


def test_pgmpy_has_our_pvalues(direct):
    test = adapters.pgmpy(FRAME, **FEW)
    for i, j, given in ASKED:
        wanted = direct.test(i, j, given)
        independent = test("abcd"[i], "abcd"[j], ["abcd"[k] for k in given], significance_level=0.05)
        assert test.p_value_ == wanted.pvalue
        assert test.statistic_ == wanted.statistic
        assert independent is (wanted.pvalue > 0.05)
        assert test.run_test("abcd"[i], "abcd"[j], tuple("abcd"[k] for k in given)) == (
            wanted.statistic,
            wanted.pvalue,
        )
        null = wanted.null_distribution
        assert test.effect_size_ == pytest.approx((wanted.statistic - null.mean()) / null.std())
    assert test("a", "b", "c") is False  # one column given need not be in a list


@pytest.mark.parametrize(
    ("data", "labels"),
    [
        (SMALL, ["x0", "x1", "x2", "x3"]),
        (SMALL.tolist(), ["x0", "x1", "x2", "x3"]),
        (pd.DataFrame(SMALL, columns=[3, 2, 0, 1]), [3, 2, 0, 1]),  # labels, not places
        (pd.DataFrame(SMALL, columns=["x3", "x2", "x1", "x0"]), ["x3", "x2", "x1", "x0"]),
        (pd.DataFrame(SMALL, columns=pd.MultiIndex.from_product([list("uv"), [0, 1]])), None),
    ],
    ids=["array", "list", "numbers", "names of another array", "two levels"],
)
def test_pgmpy_finds_columns_by_label(data, labels, small):
    labels = labels or list(data.columns)
    test = adapters.pgmpy(data, **FEW)
    for i, j, given in [(0, 1, ()), (2, 0, ()), (0, 3, (2,)), (1, 2, (0,))]:
        test(labels[i], labels[j], [labels[k] for k in given])
        assert test.p_value_ == small.pvalue(i, j, given)


@pytest.mark.parametrize(
    "how",
    [
        {"variant": "stable"},
        {"variant": "parallel", "n_jobs": 4},
        {"variant": "stable", "orient_rule": "pvalue"},
        {"variant": "stable", "orient_rule": "effect"},
    ],
    ids=lambda how: "-".join(map(str, how.values())),
)
def test_pgmpy_finds_the_graph(how):
    search = PC(ci_test=adapters.pgmpy(FRAME, **FEW), significance_level=0.05, show_progress=False, **how)
    found = search.fit(FRAME)
    assert sorted(found.causal_graph_.directed_edges) == named(TRUTH)
    assert list(found.causal_graph_.undirected_edges) == []
    assert found.separating_sets_[frozenset("ad")] == ("c",)


def test_pgmpy_finds_the_graph_of_an_array():
    search = PC("stable", adapters.pgmpy(DATA, **FEW), significance_level=0.05, show_progress=False).fit(DATA)
    assert sorted(search.causal_graph_.directed_edges) == named(TRUTH, ["x0", "x1", "x2", "x3"])


def test_pgmpy_may_ask_from_many_threads(testers):
    test = adapters.pgmpy(SMALL, **FEW)
    search = PC("parallel", test, significance_level=0.9, n_jobs=4, show_progress=False).fit(SMALL)
    tester = used(SMALL, test)
    computed = tester.n_computed
    alone = PC("stable", test, significance_level=0.9, show_progress=False).fit(SMALL)
    assert search.separating_sets_ == alone.separating_sets_
    assert tester.n_computed == computed > 0


def test_threads_do_not_mix_answers_up():
    class Raced(adapters.PgmpyTest):
        """Another thread sets `p_value_` between the computation and the answer."""

        p_value_ = property(lambda self: 0.0, lambda self, value: None)

    assert Raced(SMALL, adapters.pgmpy(SMALL, **FEW).options)("x0", "x1")


def test_pgmpy_sees_changed_data():
    frame = pd.DataFrame(SMALL, columns=list("abcd"))
    test = adapters.pgmpy(frame, **FEW)
    assert test("a", "b")
    frame["b"] = frame["a"]
    assert not test("a", "b")
    frame["b"] = SMALL[:, 1]
    assert test("a", "b")


@pytest.mark.filterwarnings("ignore:.*is deprecated and will be removed in v1.3.0:FutureWarning")
def test_older_search_of_pgmpy_passes_its_own_data():
    search = pytest.importorskip("pgmpy.estimators").PC(FRAME)
    test = adapters.pgmpy(pd.DataFrame(SMALL[::-1] ** 2, columns=list("abcd")), **FEW)
    how = {"variant": "stable", "significance_level": 0.05, "show_progress": False}
    assert sorted(search.estimate(ci_test=test, **how).directed_edges) == named(TRUTH)


def test_significance_level_of_pgmpy():
    test = adapters.pgmpy(SMALL, n_resamples=99)
    assert not test("x2", "x3", significance_level=0.01)  # p = 1/100 is small enough
    assert test.p_value_ == 0.01
    with pytest.raises(
        ValueError, match=r"significance_level=0\.009 is less than 0\.01, .*use n_resamples=111 or more"
    ):
        test("x2", "x3", significance_level=0.009)
    test("x0", "x1")
    assert test("x0", "x1", significance_level=test.p_value_ - 0.001)
    assert not test("x0", "x1", significance_level=test.p_value_)
    with pytest.raises(ValueError, match="significance_level must lie strictly between 0 and 1"):
        test("x0", "x1", significance_level=5)


def test_pgmpy_with_times():
    rng = np.random.default_rng(0)
    days = np.arange(60.0)
    frame = pd.DataFrame({"x": rng.normal(size=60), "day": days, "y": rng.normal(size=60)})
    frame["x"] += np.sin(days / 12)
    frame["y"] += np.sin(days / 12)
    test = adapters.pgmpy(frame, **FEW, prewhiten="day")
    test("y", "x")
    direct = ConditionalTester(frame, **FEW, prewhiten="day", rng=0)
    assert test.p_value_ == direct.pvalue(0, 1)
    with pytest.raises(ValueError, match=r"Y is 'day', but the variables are 'x', 'y'; .*without its times"):
        test("x", "day")


def test_missing_rows_can_be_dropped():
    data = holed()
    test = adapters.pgmpy(data, **FEW, nan_policy="omit")
    test("x0", "x1", ["x2"])
    wanted = ConditionalTester(np.delete(SMALL, 3, axis=0), **FEW, rng=0).pvalue(0, 1, (2,))
    assert test.p_value_ == cit.CIT(data, "kembed", nan_policy="omit")(0, 1, (2,)) == wanted


def test_a_column_that_is_determined_has_no_effect():
    data = np.column_stack([SMALL[:, 0], np.ones(60), SMALL[:, 1]])
    test = adapters.pgmpy(data, **FEW)
    assert test("x0", "x1", ["x2"])
    assert (test.p_value_, test.effect_size_) == (1.0, 0.0)


def test_pvalues_come_from_disk(tmp_path, testers):
    test = adapters.pgmpy(SMALL, **FEW, cache=tmp_path)
    test("x0", "x1", ["x2", "x3"])
    assert regressed() == 2
    adapters.clear()  # as in another process
    again = adapters.pgmpy(SMALL, **FEW, cache=tmp_path)
    again("x1", "x0", ["x3", "x2"])
    found = cit.CIT(SMALL, "kembed", cache=tmp_path)(np.int64(1), np.int64(0), (np.int64(3), np.int64(2)))
    assert test.p_value_ == again.p_value_ == found
    assert regressed() == used(SMALL, again).n_computed == 0
    with pytest.raises(ValueError, match="a cache finds p-values by their seed"):
        adapters.pgmpy(SMALL, cache=tmp_path, rng=None)


def test_a_few_testers_are_kept_and_can_be_cleared(testers):
    test = adapters.pgmpy(SMALL, **FEW)
    first = used(SMALL, test)
    for k in range(1, MOST_KEPT):
        used(SMALL + k, test)
    assert used(SMALL, test) is first  # and the last used now
    used(SMALL - 1, test)
    assert len(testers) == MOST_KEPT
    assert used(SMALL, test) is first
    adapters.clear()
    assert not testers
    assert used(SMALL, test) is not first


def test_pgmpy_mistakes():
    test = adapters.pgmpy(FRAME, **FEW)
    with pytest.raises(ValueError, match=r"Z is 'e', but the variables are 'a', 'b', 'c', 'd'; fit PC on"):
        test("a", "b", ["e"])
    with pytest.raises(ValueError, match="X is 0, but the variables are"):
        test(0, "b")
    with pytest.raises(ValueError, match=r"Y is \['b'\], but"):
        test("a", ["b"])
    with pytest.raises(ValueError, match="X and Y are the same column, 'a'"):
        test("a", "a")
    with pytest.raises(ValueError, match="column 'b' is tested and given at once"):
        test("a", "b", ["c", "b"])
    with pytest.raises(TypeError, match="no option 'alpha'"):
        adapters.pgmpy(FRAME, alpha=0.05)
    with pytest.raises(ValueError, match="data has 5 rows"):
        adapters.pgmpy(FRAME[:5])
    with pytest.raises(TypeError, match="rng must be None"):
        adapters.pgmpy(FRAME, rng="zero")


def test_repr_and_pickle_of_pgmpy_test():
    test = adapters.pgmpy(FRAME, **FEW)
    assert repr(test) == "PgmpyTest(300 x 4 table, kernel='fused', rng=0)"
    test("a", "b", ["c"])
    again = pickle.loads(pickle.dumps(test))
    assert again.p_value_ == test.p_value_
    assert again("a", "b", ["c"]) is False
    assert again.statistic_ == test.statistic_
