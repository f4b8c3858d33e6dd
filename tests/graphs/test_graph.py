"""The graph as an object: questions, counts, tables, other formats, the picture."""

import sys
from dataclasses import replace
from itertools import pairwise

import matplotlib

matplotlib.use("Agg")
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

from kembed.graphs.graph import CausalGraph, Conflict, Edge, edges_of, shares
from kembed.plotting.graphs import plot_graph
from kembed.plotting.style import BLUE, GREY, PALE, VERMILION

NAMES = ("a", "b", "c", "d")
WICKED = ('say "hi"', "two\nlines", "back\\slash", r"$\frac{a$<b>")


def graph(**options):
    edges = (
        Edge("a", "b", "-->", 0.01, 0.75, 0.5),
        Edge("b", "c", "<->", 0.03, 0.5, 0.25),
        Edge("c", "d", "---"),
    )
    return CausalGraph(NAMES, edges, **options)


def two_runs():
    """Four orders, in one of which b --> a and in one of which a and b are apart; one resample, all apart."""
    one = shares(graph().adjacency())
    turned, apart = one.copy(), one.copy()
    turned[0, 1, 0], turned[1, 0, 0] = 0.0, 1.0
    apart[0, 1, 0] = 0.0
    other = np.zeros_like(one)
    other[0, 3, 1] = other[3, 0, 1] = 1.0
    shared = (2 * one + turned + apart) / 4
    return graph(
        over_orders=shared,
        over_bootstrap=other,
        n_orders=4,
        n_bootstrap=1,
        alpha=0.05,
    )


def test_questions_about_edges():
    g = graph()
    assert g.has("a", "b")
    assert g.has("b", "a")
    assert not g.has("a", "c")
    assert g.directed("a", "b")
    assert not g.directed("b", "a")
    assert not g.directed("b", "c")
    assert not g.directed("c", "d")
    with pytest.raises(ValueError, match="the graph has no variable 'e'; there are 'a', 'b', 'c', 'd'"):
        g.has("a", "e")


def test_adjacency_and_back():
    expected = [[0, 1, 0, 0], [0, 0, 2, 0], [0, 2, 0, 1], [0, 0, 1, 0]]
    assert graph().adjacency().tolist() == expected
    assert [str(edge) for edge in edges_of(NAMES, np.array(expected))] == ["a --> b", "b <-> c", "c --- d"]
    assert [str(edge) for edge in edges_of(("x", "y"), np.array([[0, 0], [1, 0]]))] == ["y --> x"]


def test_frequencies_by_hand():
    g = two_runs()
    # Of four orders two have a --> b and one b --> a, and all have the rest; the resample has a --- d alone.
    orders = replace(g, over_bootstrap=None, n_bootstrap=0)
    assert (g.counted, orders.counted) == ("resamples", "orders")
    for one, over in ((orders, None), (g, "orders")):
        assert one.frequency("a", "b", over=over) == one.frequency("b", "a", over=over) == 3 / 4
        assert one.frequency("a", "b", "-->", over=over) == one.frequency("b", "a", "<--", over=over) == 2 / 4
        assert one.frequency("b", "a", "-->", over=over) == one.frequency("a", "b", "<--", over=over) == 1 / 4
        assert one.frequency("b", "c", "<->", over=over) == one.frequency("c", "b", over=over) == 1.0
        assert one.frequency("d", "a", over=over) == one.frequency("a", "c", over=over) == 0.0
    for over in (None, "bootstrap"):
        assert g.frequency("a", "b", over=over) == g.frequency("b", "c", "<->", over=over) == 0.0
        assert g.frequency("d", "a", "---", over=over) == g.frequency("a", "d", over=over) == 1.0
    np.testing.assert_array_equal(g.frequencies, g.over_bootstrap)
    np.testing.assert_array_equal(orders.frequencies, g.over_orders)
    with pytest.raises(ValueError, match="over must be one of"):
        g.frequency("a", "b", over="rows")
    with pytest.raises(ValueError, match="no resamples were run; search with n_bootstrap > 0"):
        graph().frequency("a", "b", over="bootstrap")
    with pytest.raises(ValueError, match=r"mark must be one of.*'->' was given"):
        g.frequency("a", "b", "->")
    assert graph().frequency("a", "b") == 1.0  # a single run


def test_table_has_every_pair_most_frequent_first():
    rows = two_runs().table()
    pairs = [(row["a"], row["mark"], row["b"]) for row in rows]
    edges = [("a", "-->", "b"), ("b", "<->", "c"), ("c", "---", "d")]
    assert pairs == [("a", "", "d"), *edges, ("a", "", "c"), ("b", "", "d")]
    assert [row["frequency"] for row in rows] == [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert rows[0]["---"] == 1.0
    rows = replace(two_runs(), over_bootstrap=None, n_bootstrap=0).table()
    assert [(row["a"], row["b"]) for row in rows[:3]] == [("b", "c"), ("c", "d"), ("a", "b")]
    assert len(rows) == 6
    assert rows[2]["frequency"] == 0.75
    assert rows[2]["-->"] == 0.5
    assert rows[2]["<--"] == 0.25


def test_structural_hamming_distance_counts_pairs():
    g = graph()
    assert g.shd(g) == 0
    turned = CausalGraph(NAMES, (Edge("b", "a", "-->"), Edge("b", "c", "---"), Edge("a", "d", "---")))
    # a - b turned, b - c another mark, c - d missing, a - d too many.
    assert g.shd(turned) == turned.shd(g) == 4
    reordered = CausalGraph(NAMES[::-1], g.edges)
    assert g.shd(reordered) == 0
    with pytest.raises(ValueError, match=r"same variables.*'d', 'e'"):
        g.shd(CausalGraph(("a", "b", "c", "e"), ()))


def test_from_dag_refuses_what_is_none():
    with pytest.raises(ValueError, match="directed cycle"):
        CausalGraph.from_dag("ab", {"a": "b", "b": "a"})
    with pytest.raises(ValueError, match="no variable 'c'"):
        CausalGraph.from_dag("ab", {"c": "a"})
    with pytest.raises(ValueError, match="'a' more than once"):
        CausalGraph.from_dag("aba", {})


def test_repr_tells_edges_evidence_and_conflicts():
    assert repr(two_runs()).splitlines() == [
        "CausalGraph of 4 variables, 3 edges (1 directed, 1 undirected, 1 conflicting), "
        "4 orders, 1 resamples",
        "  a --> b  largest p = 0.01; in 75% of orders, with this mark in 50%; "
        "in 0% of resamples, with this mark in 0%",
        "  b <-> c  largest p = 0.03; in 100% of orders, with this mark in 100%; "
        "in 0% of resamples, with this mark in 0%",
        "  c --- d  in 100% of orders, with this mark in 100%; in 0% of resamples, with this mark in 0%",
    ]
    spoken = graph(conflicts=(Conflict("b", "c", "they disagree"),), n_tests=1234, alpha=0.05)
    assert "1,234 tests at level 0.05" in repr(spoken)
    assert repr(spoken).endswith("conflict: they disagree")
    assert repr(CausalGraph(("a", "b"), ())) == "CausalGraph of 2 variables, 0 edges"


# Other formats.


def test_networkx_has_marks():
    found = two_runs().to_networkx()
    assert list(found.nodes) == list(NAMES)
    assert set(found.edges) == {("a", "b"), ("b", "c"), ("c", "b"), ("c", "d"), ("d", "c")}
    assert found.edges["a", "b"]["mark"] == "-->"
    assert found.edges["c", "b"]["mark"] == found.edges["b", "c"]["mark"] == "<->"
    assert found.edges["d", "c"] == {"mark": "---", "pvalue": pytest.approx(np.nan, nan_ok=True)} | {
        "frequency": 1.0,
        "mark_frequency": 1.0,
    }


def test_networkx_is_asked_for_by_name(monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(ImportError, match="pip install networkx"):
        graph().to_networkx()


# The picture.


def drawn(g, size=(5.6, 4.4)):
    ax = Figure(figsize=size, layout="constrained").subplots()
    assert plot_graph(g, ax) is ax
    FigureCanvasAgg(ax.figure).draw()
    return ax


def words(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_graphs_beside_each_other_have_their_variables_in_the_same_places():
    names = list("abcdef")
    one = CausalGraph.from_dag(names, {"d": ["a"], "e": ["b"], "f": ["c"]})
    other = CausalGraph.from_dag(names, {"c": ["a"], "e": ["d"], "f": ["b"]})

    def places(graph, beside):
        ax = Figure().subplots()
        plot_graph(graph, ax, beside=beside)
        return {text.get_text(): tuple(text.xy) for text in ax.texts}

    assert places(one, [one, other]) == places(other, [one, other])
    assert places(one, []) != places(other, [])  # by themselves each is untangled
    fewer = CausalGraph.from_dag(names[:2], {})
    with pytest.raises(ValueError, match=r"beside has a graph of 'a', 'b'.*same variables"):
        plot_graph(one, beside=[fewer])


def test_picture_shows_marks_and_frequencies():
    ax = drawn(two_runs())
    patches = [patch for patch in ax.patches if isinstance(patch, FancyArrowPatch)]
    lines = [patch for patch in patches if patch.get_linewidth() > 0.0]
    heads = [patch for patch in patches if patch.get_linewidth() == 0.0]
    assert [to_hex(line.get_edgecolor()).upper() for line in lines] == [GREY, VERMILION, GREY]
    widths = [line.get_linewidth() for line in lines]
    assert widths == pytest.approx([0.4 + 2.2 * f for f in (0.75, 0.5, 1.0)])
    assert [line.get_linestyle() in ("-", "solid") for line in lines] == [True, False, True]
    assert [line.get_arrowstyle().arrow for line in lines] == ["-"] * 3
    assert [head.get_arrowstyle().arrow for head in heads] == ["-|>", "<|-|>"]
    assert [to_hex(head.get_facecolor()).upper() for head in heads] == [BLUE, VERMILION]
    marks = ["→ direction the tests suggest", "— direction open", "↔ conflicting directions"]
    apart = "not in the graph, but in ≥ 25% of resamples"  # a --- d
    directions = "arrowhead and %: share with this direction"
    assert words(ax) == [*marks, apart, "line width: share of 1 resample", directions]
    orders = drawn(replace(two_runs(), over_bootstrap=None, n_bootstrap=0))
    assert words(orders) == [*marks, "line width: share of 4 orders", directions]


def test_picture_shows_how_sure_a_direction_is():
    # Every resample has the edge, one in five this direction: the line is bold and the arrowhead is faint.
    certain = Edge("a", "b", "-->", 0.01, 1.0, 1.0)
    doubtful = Edge("c", "d", "-->", 0.01, 1.0, 0.2)
    table = np.zeros((4, 4, 3))
    table[0, 1, 0], table[2, 3, 0], table[3, 2, 0] = 1.0, 0.2, 0.8
    g = CausalGraph(NAMES, (certain, doubtful), over_bootstrap=table, n_bootstrap=10)
    ax = drawn(g)
    opacity = [patch.get_alpha() for patch in ax.patches if patch.get_arrowstyle().arrow == "-|>"]
    assert opacity == [1.0, 0.2]
    assert [text.get_text() for text in ax.texts if "%" in text.get_text()] == ["100%", "20%"]
    assert not any("cause" in text for text in words(ax))


def test_picture_shows_frequent_edges_that_the_graph_lacks():
    other = np.zeros((4, 4, 3))
    other[0, 3, 1] = other[3, 0, 1] = 1.0
    ax = drawn(graph(over_bootstrap=other, n_bootstrap=1))
    (line,) = [line for line in ax.lines if line.get_linestyle() == ":"]
    assert line.get_color() == PALE
    assert line.get_linewidth() == pytest.approx(0.4 + 2.2)  # in all resamples
    assert "not in the graph, but in ≥ 25% of resamples" in words(ax)


@pytest.mark.parametrize("size", [(5.6, 4.4), (4.0, 3.2)])
@pytest.mark.parametrize("p", [2, 3, 5, 9, 12])
def test_names_do_not_overlap_nor_leave_the_picture(p, size):
    long = ("temperature_Sandburg", "inversion base height", "height of the 500 mb surface", "wind", "ozone")
    names = tuple(f"{long[i % 5]} {i}" for i in range(p))
    edges = tuple(Edge(names[i], names[(i + 2) % p], "-->") for i in range(p) if p > 2)
    ax = drawn(CausalGraph(names, edges), size)
    boxes = [text.get_window_extent() for text in ax.texts]
    assert len(boxes) == p
    for i, box in enumerate(boxes):
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= ax.figure.bbox.x1
        for other in boxes[i + 1 :]:
            assert not box.overlaps(other)


def test_names_are_drawn_as_they_are():
    ax = drawn(CausalGraph(WICKED, ()))
    assert any("frac" in text.get_text() for text in ax.texts)
    assert ax.get_legend() is None
    assert CausalGraph(("a", "b"), ()).plot(ax) is ax


def test_few_lines_cross():
    # A ring whose columns come in an order that would cross it.
    names = ("a", "d", "b", "e", "c", "f")
    ring = ("a", "b", "c", "d", "e", "f", "a")
    ax = drawn(CausalGraph(names, tuple(Edge(a, b, "---") for a, b in pairwise(ring))))
    at = {text.get_text(): np.arctan2(text.xy[1], text.xy[0]) for text in ax.texts}
    around = sorted(at, key=at.get)
    turned = around[around.index("a") :] + around[: around.index("a")]
    assert turned in (list("abcdef"), list("afedcb"))
