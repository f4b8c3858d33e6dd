"""Background knowledge: what it says about pairs, what contradicts itself, names that do not exist."""

import numpy as np
import pytest

from kembed.graphs.background import Background


def test_required_forbidden_and_tiers_as_matrices():
    names = ("a", "b", "c", "d")
    known = Background(forbidden=[("a", "d"), ("d", "a")], required=[("a", "b")], tiers=[("a", "b"), ("c",)])
    found = known.resolved(names)
    # c is later than a and b; b --> a would turn the required edge; a and d are never adjacent; d is free.
    forbidden = {("a", "d"), ("d", "a"), ("b", "a"), ("c", "a"), ("c", "b")}
    for i, a in enumerate(names):
        for j, b in enumerate(names):
            assert found.allowed[i, j] == (a != b and (a, b) not in forbidden), (a, b)
    assert np.argwhere(found.required).tolist() == [[0, 1]]
    assert np.argwhere(found.tiered).tolist() == [[0, 2], [1, 2]]
    assert not (found.allowed | found.allowed.T)[0, 3]
    assert (found.allowed | found.allowed.T)[0, 1]


def test_required_paths_exclude_the_way_back():
    allowed = Background(required=[("a", "b"), ("b", "c")]).resolved(("a", "b", "c")).allowed
    assert not allowed[2, 0]
    assert allowed[0, 2]


def test_nothing_known_allows_everything():
    assert Background().resolved(("a", "b")).allowed.tolist() == [[False, True], [True, False]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"required": [("a", "b")], "forbidden": [("a", "b")]}, "'a' --> 'b' is both required and forbidden"),
        ({"required": [("a", "b"), ("b", "c"), ("c", "a")]}, "go round in a circle"),
        ({"required": [("z", "a")], "tiers": [("a",), ("z",)]}, "lead from 'z' to 'a'.*earlier tier"),
        ({"required": [("z", "u"), ("u", "a")], "tiers": [("a",), ("z",)]}, "lead from 'z' to 'a'"),
        ({"tiers": [("a", "b"), ("b",)]}, "tiers has 'b' more than once"),
        ({"forbidden": [("a", "a")]}, "forbidden has an edge from 'a' to itself"),
    ],
)
def test_contradictions_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Background(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"required": ("a", "b")}, r"required must be pairs of names.*it holds 'a'"),
        ({"forbidden": [("a", "b", "c")]}, r"forbidden must be pairs"),
        ({"forbidden": "ab"}, r"forbidden must be pairs of names.*'ab' was given"),
        ({"tiers": [("a",), "b"]}, r"write a tier of one as \('b',\)"),
        ({"tiers": 3}, r"tiers must be groups of names"),
        ({"required": [(0, "b")]}, r"required must hold names.*0 is no text"),
    ],
)
def test_wrong_shapes_are_refused(options, message):
    with pytest.raises(TypeError, match=message):
        Background(**options)


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(ValueError, match=r"'temperatur'.*did you mean 'temperature'"):
        Background(tiers=[("temperatur",)]).resolved(("wind", "temperature"))
    with pytest.raises(ValueError, match=r"'q'.*there are 'wind', 'ozone'"):
        Background(required=[("q", "wind")]).resolved(("wind", "ozone"))


def test_repr_says_it_all():
    known = Background([("a", "b")], [("b", "c")], [("a",), ("c",)])
    assert repr(known) == "Background(required: b --> c; forbidden: a --> b; tiers: a | c)"
