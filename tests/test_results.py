"""What every result can do: become plain JSON, and be shown by a notebook."""

import json

import numpy as np
import pytest
from tests.report.test_report import Page

import kembed


@pytest.fixture(scope="module")
def results():
    rng = np.random.default_rng(0)
    x, y, z = rng.normal(size=(40, 2)), rng.normal(1.0, size=(40, 2)), rng.normal(size=(40, 2))
    quick = {"n_resamples": 19, "rng": 0}
    return {
        "test": kembed.mmd_test(x, y, by_column=True, **quick),
        "independence": kembed.hsic_test(x, y, **quick),
        "conditional": kembed.conditional_test(x[:, 0], y[:, 0], z, **quick),
        "several": kembed.k_sample_test(x, y, z, labels=("<x>", "y", "z"), **quick),
        "comparison": kembed.compare(x, y, labels=("<x>", "y"), **quick),
        "witness": kembed.witness(x, y, kernel="median"),
        "learned": kembed.learn_kernel(x),
        "graph": kembed.pc(np.hstack([x, y]), test="fisher-z"),
        "embedding": kembed.empirical(x, kembed.Gaussian(1.0)),
        "posterior": kembed.fit_embedding(x, kembed.Gaussian(1.0)),
    }


@pytest.mark.parametrize(
    "name",
    [
        "test",
        "independence",
        "conditional",
        "several",
        "comparison",
        "witness",
        "learned",
        "graph",
        "embedding",
        "posterior",
    ],
)
def test_results_are_shown_and_told(results, name):
    result = results[name]
    told = json.dumps(result.to_dict(), allow_nan=False)
    assert len(told) > 50
    page = Page(result._repr_html_())
    assert page.wrong == page.open == []
    assert repr(result).partition("\n")[0].split()[0] in page.said
    assert not {tag for tag, _ in page.tags} - {"div", "p", "b", "pre", "table", "tr", "th", "td"}


def test_a_graph_has_every_pair(results):
    table = results["graph"].table()
    assert {frozenset((row["a"], row["b"])) for row in table} == {
        frozenset((f"column {i}", f"column {j}")) for i in range(4) for j in range(i)
    }
    for row in table:
        assert (row["given"] is None) == bool(row["mark"])
