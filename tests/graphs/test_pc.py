"""PC: exact with an oracle, whatever the order; background knowledge; conflicts; frequencies; bad input."""

import io
import threading
from contextlib import redirect_stderr
from itertools import combinations, permutations

import mpmath
import numpy as np
import pandas as pd
import pytest
from tests import reference

from kembed.conditional.tester import ConditionalTester
from kembed.graphs.background import Background
from kembed.graphs.bootstrap import ORDERS, Search, in_processes, stream
from kembed.graphs.deciders import Decider, FisherZ, FunctionDecider, Remembered
from kembed.graphs.graph import CausalGraph
from kembed.graphs.orientation import RULES
from kembed.graphs.pc import pc
from kembed.graphs.skeleton import Ledger, Skeleton, search
from kembed.kernels.stationary import Gaussian

RNG = np.random.default_rng


class Oracle:
    """d-separation in a DAG as a test: the p-value is 1 or 0."""

    n_rows = 10

    def __init__(self, dag, names):
        self.dag, self.names, self.asked = dag, tuple(names), {}

    def pvalue(self, i, j, given):
        if (i, j, given) not in self.asked:
            self.asked[i, j, given] = float(reference.d_separated(self.dag, i, j, given))
        return self.asked[i, j, given]

    def on_rows(self, rows):
        return self


class Told:
    """Pairs (named by letters) that pass for independent given exactly these sets, and no others."""

    def __init__(self, letters, independent, p=1.0):
        self.names = tuple(letters)
        self.sets = {frozenset(pair): {frozenset(s) for s in sets} for pair, sets in independent.items()}
        self.p = p

    def pvalue(self, i, j, given):
        sets = self.sets.get(frozenset((self.names[i], self.names[j])), ())
        return self.p if frozenset(self.names[k] for k in given) in sets else 0.0

    def on_rows(self, rows):
        return self


def letters(p):
    return [f"v{i}" for i in range(p)]


def dags(count, seed, sizes=(4, 8), most=99):
    rng = RNG(seed)
    while count:
        p = int(rng.integers(sizes[0], sizes[1] + 1))
        dag = reference.random_dag(rng, p, rng.uniform(0.1, 0.8))
        if len(dag) <= most:
            count -= 1
            yield dag, p


def edges(graph):
    return {str(edge) for edge in graph.edges}


# The reference itself.


def test_two_ways_to_d_separation_agree():
    for dag, p in dags(25, 1, (4, 5)):
        for i in range(p):
            for j in range(i + 1, p):
                rest = [k for k in range(p) if k not in (i, j)]
                for mask in range(2 ** len(rest)):
                    given = [k for place, k in enumerate(rest) if mask >> place & 1]
                    by_paths = reference.d_separated_by_paths(dag, i, j, given)
                    assert reference.d_separated(dag, i, j, given) == by_paths


def test_two_ways_to_the_cpdag_agree():
    for dag, p in dags(40, 2, (4, 6), most=8):
        every = reference.equivalent_dags(dag, p)
        np.testing.assert_array_equal(reference.cpdag(dag, p), reference.common_part(every, p))


# The oracle.


def test_every_rule_finds_the_true_cpdag_of_random_dags_in_any_order():
    # Of 200 in `python -m benchmarks oracle_pc`.
    checked = 0
    for dag, p in dags(50, 0):
        truth, oracle = reference.cpdag(dag, p), Oracle(dag, letters(p))
        for turn, rule in enumerate(RULES):  # nodes are numbered at random; a quarter of them twice
            graph = pc(
                None, test=oracle, orientation=rule, n_orders=2 - ((checked + turn) % 4 > 0), rng=checked
            )
            np.testing.assert_array_equal(graph.adjacency(), truth)
            assert all(edge.mark_frequency == 1.0 for edge in graph.edges)
            assert graph.conflicts == graph.ambiguous == ()
        original = pc(None, test=oracle, orientation="first", stable=False)
        np.testing.assert_array_equal(original.adjacency(), truth)
        named = {f"v{v}": [f"v{u}" for u in reference.parents(dag, v)] for v in range(p)}
        np.testing.assert_array_equal(CausalGraph.from_dag(letters(p), named).adjacency(), truth)
        checked += 1
    assert checked == 50


def test_separating_sets_separate_and_edges_have_small_pvalues():
    for dag, p in dags(8, 3):
        for rule in RULES:
            graph = pc(None, test=Oracle(dag, letters(p)), orientation=rule)
            for pair, inner in graph.separating_sets.items():
                i, j = (int(name[1:]) for name in pair)
                assert reference.d_separated(dag, i, j, {int(name[1:]) for name in inner})
            assert len(graph.separating_sets) + len(graph.edges) == p * (p - 1) // 2
            assert all(edge.pvalue == 0.0 for edge in graph.edges)


def random_background(rng, dag, p):
    """True things about a DAG: some edges, some absent ones, tiers that leave some variables out."""
    required = [edge for edge in sorted(dag) if rng.uniform() < 0.2]
    absent = [(i, j) for i in range(p) for j in range(p) if i != j and (i, j) not in dag]
    forbidden = [edge for edge in absent if rng.uniform() < 0.25]
    order = reference.topological(dag, p)
    cuts = sorted(rng.integers(0, p + 1, size=2))
    tiers = [order[: cuts[0]], order[cuts[0] : cuts[1]], order[cuts[1] :]]
    tiers = [[v for v in tier if rng.uniform() < 0.8] for tier in tiers] if rng.uniform() < 0.6 else []
    return required, forbidden, tiers


def test_background_knowledge_gives_exactly_what_all_consistent_dags_share():
    rng, oriented = RNG(4), 0
    for dag, p in dags(150, 5, (4, 6), most=9):
        required, forbidden, tiers = random_background(rng, dag, p)
        tier = {v: rank for rank, group in enumerate(tiers) for v in group}
        consistent = [
            other
            for other in reference.equivalent_dags(dag, p)
            if all(edge in other for edge in required)
            and not any(edge in other for edge in forbidden)
            and all(tier.get(a, -1) <= tier.get(b, 99) or a not in tier for a, b in other)
        ]
        truth = reference.common_part(consistent, p)
        named = [[tuple(f"v{v}" for v in group) for group in part] for part in (forbidden, required, tiers)]
        rule = RULES[p % len(RULES)]
        graph = pc(None, test=Oracle(dag, letters(p)), background=Background(*named), orientation=rule)
        np.testing.assert_array_equal(graph.adjacency(), truth, err_msg=f"{sorted(dag)} {named}")
        assert graph.conflicts == ()
        oriented += (truth != reference.cpdag(dag, p)).any()
    assert oriented > 50  # knowledge did say something new


def test_rule_4_is_needed_and_used():
    # a - b, a - c, a - d, c --> d --> b, c and b not adjacent: only Meek's fourth rule gives a --> b.
    dag = {(0, 1), (2, 3), (3, 1), (0, 2), (0, 3)}  # a --> b, c --> d --> b, a --> c, a --> d
    known = Background(required=[("c", "d"), ("d", "b")])
    graph = pc(None, test=Oracle(dag, "abcd"), background=known)
    assert edges(graph) == {"a --> b", "a --- c", "a --- d", "c --> d", "d --> b"}


def test_nothing_later_than_both_ends_is_conditioned_on():
    dag = {(0, 1), (1, 2), (0, 3), (2, 3), (1, 3)}
    asked = []

    class Listening(Oracle):
        def pvalue(self, i, j, given):
            asked.append((i, j, given))
            return super().pvalue(i, j, given)

    known = Background(tiers=[("a",), ("b", "c"), ("d",)])
    graph = pc(None, test=Listening(dag, "abcd"), background=known)
    assert edges(graph) == {"a --> b", "b --> c", "a --> d", "b --> d", "c --> d"}
    assert any(given == (1,) for i, j, given in asked if (i, j) == (0, 2))  # b is as late as c
    assert not any(3 in given for i, j, given in asked if 3 not in (i, j))


def test_forbidden_both_ways_is_never_adjacent_and_required_never_removed():
    told = Told("abc", {"bc": [""]})
    known = Background(forbidden=[("a", "b"), ("b", "a")], required=[("b", "c")])
    graph = pc(None, test=told, background=known)
    assert not graph.has("a", "b")
    assert graph.directed("b", "c")
    assert np.isnan(next(edge for edge in graph.edges if edge.a == "b").pvalue)
    # Nobody knows what separates a and b, so that a - c - b stays undecided; the background decides c.
    assert graph.ambiguous == (("a", "c", "b"),)


@pytest.mark.parametrize("rule", RULES)
def test_a_forbidden_pair_has_a_separating_set_only_if_one_separates(rule):
    known = Background(forbidden=[("a", "b"), ("b", "a")])
    dependent = pc(None, test=Told("abc", {}), background=known, orientation=rule)
    assert dependent.pvalues[frozenset("ab")] == 0.0  # tested for the arrows, and never independent
    assert dependent.separating_sets == {}
    told = Told("abc", {"ab": ["c"]})
    found = pc(None, test=told, background=known, orientation=rule)
    assert found.separating_sets == {frozenset("ab"): ("c",)}


# Verdicts on colliders.


@pytest.mark.parametrize(
    ("sets", "verdicts"),
    [  # of the sets that separate a and c around b: (first, majority, conservative); + collider, - none
        (["", "d", "b"], "++?"),
        (["", "b"], "+??"),
        (["b", "bd", "d"], "--?"),
        (["b", "bd"], "---"),
        (["", "d"], "+++"),
    ],
)
def test_rules_vote_over_all_separating_sets(sets, verdicts):
    # a - b - c and d adjacent to all of them: a and c have the neighbours b and d.
    told = Told("abcd", {"ac": sets})
    for rule, verdict in zip(("first", "majority", "conservative"), verdicts, strict=True):
        graph = pc(None, test=told, orientation=rule)
        if rule == "first" and sets[0] != "":
            # {b} comes before {d} in the order of columns.
            assert graph.separating_sets[frozenset("ac")] == ("b",)
        assert graph.directed("a", "b") == graph.directed("c", "b") == (verdict == "+"), rule
        assert (("a", "b", "c") in graph.ambiguous) == (verdict == "?"), rule


def test_largest_pvalue_decides_and_ties_do_not():
    class Graded(Told):
        def pvalue(self, i, j, given):
            return super().pvalue(i, j, given) * grades.get(len(given), 0.0)

    told = Graded("abc", {"ac": ["", "b"]})
    grades = {0: 0.3, 1: 0.8}
    graph = pc(None, test=told, orientation="max-p")
    assert edges(graph) == {"a --- b", "b --- c"}
    assert graph.pvalues[frozenset("ac")] == 0.8
    assert graph.separating_sets[frozenset("ac")] == ("b",)
    grades = {0: 0.8, 1: 0.3}
    assert edges(pc(None, test=told, orientation="max-p")) == {"a --> b", "c --> b"}
    same_size = Told("abcd", {"ac": ["b", "d"], "bd": [""]})  # {b} and {d} have the same p-value
    graph = pc(None, test=same_size, orientation="max-p")
    assert set(graph.ambiguous) >= {("a", "b", "c"), ("a", "d", "c")}


# Conflicts.


@pytest.mark.parametrize("rule", RULES)
def test_conflicting_colliders_are_marked_in_any_order(rule):
    # a - b - c - d, where a, c and b, d look independent: colliders at b and at c.
    for order in permutations("abcd"):
        told = Told(order, {"ac": [""], "bd": [""], "ad": [""]})
        graph = pc(None, test=told, orientation=rule)
        directed = {str(edge) for edge in graph.edges if edge.mark == "-->"}
        assert directed == {"a --> b", "d --> c"}
        assert graph.frequency("b", "c", "<->") == 1.0
        (conflict,) = graph.conflicts
        assert {conflict.a, conflict.b} == {"b", "c"}
        assert "disagree" in conflict.why


def test_colliders_that_close_a_cycle_are_conflicts():
    # x --> a --> b --> c --> a, with x, y, z outside: each corner is a collider of the triangle and outside.
    independent = {"ay": [""], "bz": [""], "cx": [""], "cy": ["b"], "az": ["c"], "bx": ["a"]}
    told = Told("abcxyz", {**independent, "xy": [""], "yz": [""], "xz": [""]})
    graph = pc(None, test=told, orientation="first")
    assert edges(graph) == {"a <-> b", "a <-> c", "b <-> c", "x --> a", "y --> b", "z --> c"}
    assert all("directed cycle" in conflict.why for conflict in graph.conflicts)
    assert len(graph.conflicts) == 3


def test_meek_rules_that_ask_for_both_ways_mark_a_conflict():
    # e --> b <-- a and d --> c <-- f, and b - c is no part of a collider.
    independent = {"ae": [""], "df": [""], "ac": ["b"], "ce": ["b"], "bd": ["c"], "bf": ["c"]}
    rest = {pair: [""] for pair in ("ad", "af", "de", "ef")}
    graph = pc(None, test=Told("abcdef", {**independent, **rest}))
    assert edges(graph) == {"a --> b", "e --> b", "b <-> c", "d --> c", "f --> c"}
    assert "for b --> c and against it" in graph.conflicts[0].why


def test_arrows_that_would_meet_in_no_collider_are_conflicts():
    # a --> x <-- c and b --> z <-- d ask for x --> y and z --> y at once, but x - y - z is no collider.
    independent = {"ac": [""], "bd": [""], "ay": ["x"], "cy": ["x"], "by": ["z"], "dy": ["z"], "xz": ["y"]}
    rest = {pair: [""] for pair in ("ab", "ad", "az", "bc", "bx", "cd", "cz", "dx")}
    graph = pc(None, test=Told("abcdxyz", {**independent, **rest}))
    assert edges(graph) == {"a --> x", "c --> x", "b --> z", "d --> z", "x <-> y", "y <-> z"}


def test_tests_that_contradict_the_background_are_reported_and_lose():
    told = Told("abc", {"ac": [""]})
    graph = pc(None, test=told, background=Background(required=[("b", "a")]))
    assert edges(graph) == {"b --> a", "b --- c"}
    (conflict,) = graph.conflicts
    assert conflict.why == "the tests say a --> b <-- c, but by background b --> a"
    # e --> b <-- a, and c --> b by background, though b separates c from a and from e.
    told = Told("abce", {"ae": [""], "ac": ["b"], "ce": ["b"]})
    graph = pc(None, test=told, background=Background(required=[("c", "b")]))
    assert edges(graph) == {"a --> b", "c --> b", "e --> b"}
    assert "a --> b <-- c follows, but the tests of a and c deny it" in graph.conflicts[0].why
    # What is known to be an effect of both ends is not conditioned on, so that b does not separate a and c.
    known = Background(forbidden=[("b", "a"), ("b", "c")])
    assert edges(pc(None, test=Told("abc", {"ac": ["b"]}), background=known)) == {
        "a --> b",
        "a --- c",
        "c --> b",
    }


def test_forbidden_edges_that_leave_only_a_cycle_are_conflicts():
    known = Background(forbidden=[("b", "a"), ("c", "b"), ("a", "c")])
    graph = pc(None, test=Told("abc", {}), background=known)
    assert edges(graph) == {"a <-> b", "a <-> c", "b <-> c"}
    assert len(graph.conflicts) == 3


def test_no_directed_cycle_ever_even_from_noise():
    rng = RNG(6)
    for trial in range(60):
        values = rng.normal(size=(30, 7)) @ rng.normal(size=(7, 7))
        rule = RULES[trial % 4]
        graph = pc(values, test="fisher-z", alpha=0.2, max_given=2, orientation=rule, stable=trial % 3 > 0)
        arrows = {(graph.names.index(e.a), graph.names.index(e.b)) for e in graph.edges if e.mark == "-->"}
        assert reference.topological(arrows, 7) is not None
        conflicting = {frozenset((e.a, e.b)) for e in graph.edges if e.mark == "<->"}
        assert conflicting <= {frozenset((c.a, c.b)) for c in graph.conflicts}


# Orders and resamples.


def all_given_one():
    """Dependent pairs, each of which the third variable separates: the textbook's order dependence."""
    return Told("abc", {"ab": ["c"], "ac": ["b"], "bc": ["a"]})


def test_original_search_depends_on_the_order_and_the_stable_one_does_not():
    # Hand-worked for the order x, y, z: x - y falls given z; then x has no neighbour but z, so that x - z is
    # tried from the side of z only, falls given y, and y - z is left without anything to condition on.
    for order in permutations(range(3)):
        knowledge = Background().resolved(("a", "b", "c"))
        common = {"order": order, "alpha": 0.05, "max_given": 1, "knowledge": knowledge}
        tests = Remembered(all_given_one())
        original = search(tests, stable=False, **common).adjacent
        assert np.argwhere(np.triu(original)).tolist() == [sorted(order[1:])]
        assert not search(tests, stable=True, **common).adjacent.any()


def test_frequencies_count_orders_exactly():
    graph = pc(None, test=all_given_one(), stable=False, n_orders=20, rng=3)
    seed = int(RNG(3).integers(2**63))
    firsts = [0, *(int(stream(seed, ORDERS, k).permutation(3)[0]) for k in range(1, 20))]
    assert edges(graph) == {"b --- c"}
    for first, (a, b) in enumerate(("bc", "ac", "ab")):
        share = firsts.count(first) / 20
        assert 0.0 < share < 1.0
        assert graph.frequency(a, b) == graph.frequency(b, a, "---") == pytest.approx(share)
    assert graph.n_runs == graph.n_orders == 20
    again = pc(None, test=all_given_one(), stable=False, n_orders=20, rng=3)
    np.testing.assert_array_equal(again.frequencies, graph.frequencies)


def test_resamples_take_random_orders_only_if_orders_are_asked_for():
    told = all_given_one()
    told.n_rows = 40
    given = pc(None, test=told, stable=False, n_bootstrap=20)
    assert given.frequency("b", "c", over="bootstrap") == 1.0  # what the given order finds
    random = pc(None, test=told, stable=False, n_orders=2, n_bootstrap=20)
    found = [random.frequency(a, b, over="bootstrap") for a, b in ("bc", "ac", "ab")]
    assert all(0.0 < share < 1.0 for share in found)
    assert sum(found) == pytest.approx(1.0)


class HasRowZero(Told):
    """a - b, unless the first row is missing: then they are independent."""

    n_rows = 40

    def __init__(self, seen, rows=None):
        super().__init__("ab", {} if rows is None or 0 in rows else {"ab": [""]})
        self.seen = seen

    def on_rows(self, rows):
        self.seen.append(rows)
        return HasRowZero(self.seen, rows)


def test_frequencies_count_resamples_of_distinct_rows():
    seen = []
    graph = pc(None, test=HasRowZero(seen), n_bootstrap=30, rng=0)
    assert len(seen) == 30
    share = sum(0 in rows for rows in seen) / 30
    assert 0.0 < share < 1.0
    assert graph.over_bootstrap[0, 1].tolist() == [0.0, share, 0.0]
    assert graph.frequency("a", "b") == share  # the search of all rows, which has the edge, is none of them
    assert graph.edges[0].frequency == graph.edges[0].mark_frequency == graph.frequency("a", "b")
    for rows in seen:
        assert np.all(np.diff(rows) > 0)  # distinct, in the order of time
        assert rows[0] >= 0
        assert rows[-1] < 40
    # 40 (1 - (1 - 1/40)^40) = 25.5 rows, standard deviation 1.9 for one resample: 0.35 for the mean of 30.
    assert abs(np.mean([len(rows) for rows in seen]) - 25.5) < 4 * 0.35


def test_more_orders_do_not_change_the_resamples_nor_more_resamples_the_first():
    one, two, three = [], [], []
    pc(None, test=HasRowZero(one), n_bootstrap=3, rng=7)
    pc(None, test=HasRowZero(two), n_bootstrap=5, n_orders=4, rng=7)
    pc(None, test=HasRowZero(three), n_bootstrap=3, rng=8)
    for mine, yours in zip(one, two, strict=False):
        np.testing.assert_array_equal(mine, yours)
    assert any(len(a) != len(b) or (a != b).any() for a, b in zip(one, three, strict=True))


def test_every_test_is_made_once():
    values = RNG(0).normal(size=(100, 5)) @ RNG(1).normal(size=(5, 5))
    asked = []

    def by_hand(x, y, given):
        asked.append((x[0, 0], y[0, 0], *given[0]))
        columns = np.hstack([x, y, given])
        return FisherZ(columns, tuple("abcde"[: columns.shape[1]])).pvalue(
            0, 1, tuple(range(2, columns.shape[1]))
        )

    graph = pc(values, test=by_hand, n_orders=6, rng=0)
    assert len(asked) == len(set(asked)) >= graph.n_tests > 20
    by_name = pc(values, test="fisher-z", n_orders=6, rng=0)
    assert edges(by_name) == edges(graph)
    assert by_name.pvalues == pytest.approx(graph.pvalues)


# The ledger.


def test_ledger_remembers_the_largest_pvalue_and_the_first_set():
    class Three:
        names = ("a", "b", "c", "d")

        def pvalue(self, i, j, given):
            return {(): 0.01, (2,): 0.3, (3,): 0.6, (2, 3): 0.02}[given]

        def on_rows(self, rows):
            return self

    ledger = Ledger(Remembered(Three()), 0.05)
    answers = [ledger.separates(1, 0, given) for given in ((), (2,), (3,), (3, 2))]
    assert answers == [False, True, True, False]
    assert ledger.largest(0, 1) == (0.6, (3,))
    assert ledger.first((0, 1)) == [(2,)]
    assert ledger.first((2, 3)) == []
    assert ledger.tried[0, 1] == {(): 0.01, (2,): 0.3, (3,): 0.6, (2, 3): 0.02}
    assert ledger.n_tests == 4
    assert ledger.largest(2, 3) is None


# Fisher's z.


def columns_with(correlation, n):
    """Columns whose sample correlations are exactly these."""
    p = len(correlation)
    raw = RNG(0).normal(size=(n, p))
    q = np.linalg.qr(np.column_stack([np.ones(n), raw]))[0][:, 1:]
    return q @ np.linalg.cholesky(np.asarray(correlation)).T


def test_fisher_z_by_hand():
    # artanh(0.6) = log 2, and 13 rows give 10 degrees of freedom: p = 2 Phi(-sqrt(10) log 2).
    expected = float(2 * mpmath.ncdf(-mpmath.sqrt(10) * mpmath.log(2)))
    assert expected == pytest.approx(0.028385, abs=5e-7)
    two = FisherZ(columns_with([[1, 0.6], [0.6, 1]], 13), ("x", "y"))
    assert two.pvalue(0, 1, ()) == pytest.approx(expected, rel=1e-12)
    # r_xy.z = (r_xy - r_xz r_yz) / sqrt((1 - r_xz^2)(1 - r_yz^2)) = (0.634 - 0.25) / 0.64 = 0.6
    r = np.array([[1, 0.634, 0.6], [0.634, 1, 0.25 / 0.6], [0.6, 0.25 / 0.6, 1]])
    partial = (0.634 - 0.25) / np.sqrt((1 - 0.36) * (1 - (0.25 / 0.6) ** 2))
    three = FisherZ(columns_with(r, 14), ("x", "y", "z"))
    expected = float(2 * mpmath.ncdf(-mpmath.sqrt(10) * mpmath.atanh(partial)))
    assert three.pvalue(0, 1, (2,)) == pytest.approx(expected, rel=1e-10)


def test_fisher_z_is_the_correlation_of_residuals():
    values = RNG(2).normal(size=(40, 6)) @ RNG(3).normal(size=(6, 6))
    found = FisherZ(values, tuple("abcdef")).pvalue(1, 4, (0, 2, 5))
    design = np.column_stack([np.ones(40), values[:, [0, 2, 5]]])
    x, y = (values[:, k] - design @ np.linalg.lstsq(design, values[:, k], rcond=None)[0] for k in (1, 4))
    r = x @ y / np.sqrt((x @ x) * (y @ y))
    assert found == pytest.approx(
        float(2 * mpmath.ncdf(-mpmath.sqrt(40 - 3 - 3) * abs(mpmath.atanh(r)))), rel=1e-9
    )


def test_fisher_z_refuses_what_it_cannot_do():
    values = RNG(4).normal(size=(6, 4))
    few = FisherZ(values, tuple("abcd")).on_rows(np.arange(5))
    with pytest.raises(ValueError, match=r"5 rows are too few to test 'a', 'b' given 'c', 'd'.*at most 1"):
        few.pvalue(0, 1, (2, 3))
    assert 0.0 < few.pvalue(0, 1, (2,)) < 1.0
    values = np.column_stack([values, 2 * values[:, 0] - 1])
    test = FisherZ(values, tuple("abcde"))
    with pytest.raises(ValueError, match=r"column 'a' is a linear function of 'e'.*drop one"):
        test.pvalue(0, 1, (4,))
    assert test.pvalue(0, 4, ()) == 0.0  # perfectly correlated
    # A conditioner said twice counts once.
    assert test.pvalue(1, 2, (0, 4)) == pytest.approx(test.pvalue(1, 2, (0,)))
    with pytest.raises(ValueError, match="column 'b' is constant over 6 rows"):
        FisherZ(np.column_stack([values[:, 0], np.full(6, 0.1)]), ("a", "b"))


def once_away(n=40):
    """x --> y, and a column that is constant without the first row."""
    rng = RNG(5)
    x = rng.normal(size=n)
    values = np.column_stack([x, x + rng.normal(size=n), np.eye(n)[0]])
    return pd.DataFrame(values, columns=["x", "y", "rare"])


def test_a_column_constant_within_a_resample_is_independent_of_everything():
    data = once_away()
    whole = FisherZ(data.to_numpy(), ("x", "y", "rare"))
    part, plain = whole.on_rows(np.arange(1, 40)), FisherZ(data.to_numpy()[1:, :2], ("x", "y"))
    assert part.pvalue(0, 2, ()) == part.pvalue(1, 2, (0,)) == 1.0
    # Given, it adds nothing, and takes no degree of freedom.
    assert part.pvalue(0, 1, (2,)) == part.pvalue(0, 1, ()) == pytest.approx(plain.pvalue(0, 1, ()))
    graph = pc(data, test="fisher-z", n_bootstrap=10, rng=0)
    assert graph.frequency("x", "y", over="bootstrap") == 1.0
    with pytest.raises(ValueError, match="column 'rare' is constant over 39 rows"):
        pc(data[1:], test="fisher-z", n_bootstrap=10, rng=0)


def test_what_is_given_may_determine_a_column_within_a_resample():
    # b is a but for the first row: without it nothing of either is left given the other.
    a, c = RNG(6).normal(size=(2, 40))
    test = FisherZ(np.column_stack([a, a + np.eye(40)[0], c]), tuple("abc"))
    assert test.pvalue(0, 2, (1,)) < 1.0
    assert test.on_rows(np.arange(1, 40)).pvalue(0, 2, (1,)) == 1.0


# What comes in.


def table(n=200):
    rng = RNG(9)
    x, y = rng.normal(size=(2, n))
    z = x + y + 0.5 * rng.normal(size=n)
    return pd.DataFrame({"x": x, "y": y, "z": z})


def test_data_frames_functions_and_deciders_agree():
    data = table()
    by_name = pc(data, test="fisher-z")
    assert edges(by_name) == {"x --> z", "y --> z"}
    values, names = data.to_numpy(), tuple(data.columns)
    assert edges(pc(data, test=FisherZ(values, names))) == edges(by_name)
    assert edges(pc(values, test="fisher-z")) == {"column 0 --> column 2", "column 1 --> column 2"}

    class Result:
        pvalue = 0.0

    assert len(pc(data, test=lambda x, y, given: Result()).edges) == 3
    shapes = set()
    pc(data, test=lambda x, y, given: shapes.add((x.shape, y.shape, given.shape)) or 0.01)
    assert shapes == {((200, 1), (200, 1), (200, 0)), ((200, 1), (200, 1), (200, 1))}
    assert isinstance(FunctionDecider(print, values, names), Decider)


def test_missing_rows_are_dropped_when_asked():
    data = table()
    data.loc[3, "x"] = np.nan
    with pytest.raises(ValueError, match="missing values"):
        pc(data, test="fisher-z")
    left = pc(data, test="fisher-z", nan_policy="omit")
    assert left.pvalues == pc(data.dropna(), test="fisher-z").pvalues


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"alpha": 5}, ValueError, "alpha must lie strictly between 0 and 1"),
        ({"orientation": "best"}, ValueError, "orientation must be one of"),
        ({"test": "kci"}, ValueError, "test must be one of 'residuals', 'fisher-z'"),
        ({"test": 3}, TypeError, "test must be one of.*but 3 was given"),
        ({"test": FisherZ}, TypeError, "test must be one of"),
        ({"test": lambda x, y, given: "no"}, TypeError, "must return a p-value.*returned 'no'"),
        ({"test": lambda x, y, given: 1.5}, ValueError, "'x' and 'y' given nothing returned 1.5"),
        ({"test": lambda x, y, given: np.nan}, ValueError, "returned nan, which is no p-value"),
        ({"max_given": -1}, ValueError, "max_given must be at least 0"),
        ({"n_orders": 0}, ValueError, "n_orders must be at least 1"),
        ({"stable": 1}, TypeError, "stable must be True or False"),
        ({"background": {"x": "y"}}, TypeError, "background must be a Background"),
        ({"background": Background(tiers=[("x", "zz")])}, ValueError, "'zz'.*did you mean 'z'"),
        ({"nan_policy": "propagate"}, ValueError, "nan_policy must be one of 'raise', 'omit'"),
        ({"prewhiten": "day"}, ValueError, "prewhiten is for test='residuals'"),
        ({"cache": "here"}, ValueError, "cache is for test='residuals'"),
        ({"kernel": "median"}, ValueError, "kernel is for test='residuals'"),
        ({"kernel": Gaussian(1.0), "test": Told("xyz", {})}, ValueError, "kernel is for test='residuals'"),
        ({"n_resamples": 99}, ValueError, "n_resamples is for test='residuals'"),
        ({"n_resamples": 0, "test": "residuals"}, ValueError, "n_resamples must be at least 1"),
        (
            {"alpha": 9e-4, "test": "residuals"},
            ValueError,
            "alpha=0.0009 is less than.*=1111 or",
        ),
        (
            {"alpha": 0.01, "test": "residuals", "n_resamples": 98},
            ValueError,
            r"alpha=0.01 is less than 0.010101, the smallest p-value of 98 .*=99 or more",
        ),
        ({"test": Told("xyz", {}), "n_bootstrap": 2}, ValueError, "test has no n_rows"),
        ({"test": Told("xyw", {})}, ValueError, "data has the columns 'x', 'y', 'z', but test is about"),
        (
            {"test": FisherZ(RNG(0).normal(size=(150, 3)), ("x", "y", "z"))},
            ValueError,
            "data has 200 rows, but test is about 150; give data=None",
        ),
        ({"rng": "seed"}, TypeError, "rng must be None"),
    ],
)
def test_bad_options_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        pc(table(), **{"test": "fisher-z", **options})


def test_the_smallest_level_that_resamples_allow_finds_edges():
    graph = pc(table(), alpha=0.025, n_resamples=39, kernel="median", rng=0)
    assert edges(graph) == {"x --> z", "y --> z"}
    assert {edge.pvalue for edge in graph.edges} == {0.025}


def pvalues_in(folder):
    """The p-values of a cache, by their files, with the times at which these were written."""
    return {file: file.stat().st_mtime_ns for file in folder.rglob("output.pkl")}


def test_a_seed_is_the_seed_of_the_tester(tmp_path):
    options = {"kernel": "median", "n_resamples": 39, "cache": tmp_path}
    tester = ConditionalTester(table(60), rng=5, **options)
    expected = pc(None, test=tester, rng=5).pvalues
    assert pc(table(60), rng=6, kernel="median", n_resamples=39).pvalues != expected
    generators = [pc(table(60), rng=RNG(5), kernel="median", n_resamples=39).pvalues for _ in range(2)]
    assert generators[0] == generators[1]
    kept = pvalues_in(tmp_path)
    assert pc(table(60), rng=5, **options).pvalues == expected
    assert pc(table(60), rng=np.int64(5), **options).pvalues == expected
    assert kept == pvalues_in(tmp_path) != {}  # all were found, none computed
    default, zero = (pc(table(60), kernel="median", n_resamples=39, **seed) for seed in ({}, {"rng": 0}))
    assert default.pvalues == zero.pvalues
    with pytest.raises(ValueError, match="a cache finds p-values by their seed"):
        pc(table(60), rng=None, **options)


# Several processes.


@pytest.mark.parametrize("kept", [False, True])
def test_processes_find_what_this_one_finds(kept, tmp_path):
    tester = ConditionalTester(table(60), kernel="median", n_resamples=39, cache=tmp_path if kept else None)
    searched = Search(0.05, 1, True, "majority", Background().resolved(tester.names), seed=3, orders=2)
    found = in_processes(searched, tester, range(1, 4), 2)
    content = pvalues_in(tmp_path)
    np.testing.assert_array_equal(found, sum(searched.resample(tester, k) for k in range(1, 4)))
    assert pvalues_in(tmp_path) == content  # the processes had filled the cache
    assert bool(content) == kept


def test_the_number_of_processes_does_not_matter():
    one, two, every = (pc(table(), test="fisher-z", n_bootstrap=4, n_jobs=jobs) for jobs in (1, 2, -1))
    np.testing.assert_array_equal(one.frequencies, two.frequencies)
    np.testing.assert_array_equal(one.frequencies, every.frequencies)
    with pytest.raises(ValueError, match="n_jobs must be at least 1"):
        pc(table(), test="fisher-z", n_jobs=0)


def test_a_function_that_no_process_can_be_sent_is_told():
    lock = threading.Lock()

    def locked(x, y, given):
        with lock:
            return 0.0

    decider = FunctionDecider(locked, table().to_numpy(), ("x", "y", "z"))
    searched = Search(0.05, 1, True, "majority", Background().resolved(decider.names), seed=3, orders=1)
    with pytest.raises(TypeError, match=r"test cannot be sent to other processes.*use n_jobs=1"):
        in_processes(searched, decider, range(2), 2)


def test_bad_tables_are_refused():
    data = table()
    with pytest.raises(ValueError, match="data has 1 variable; a graph needs two"):
        pc(data[["x"]], test="fisher-z")
    with pytest.raises(TypeError, match="'kind' of data holds text or categories"):
        pc(data.assign(kind=list("abcd") * 50), test="fisher-z")
    with pytest.raises(TypeError, match=r"'kind' .*a function would be handed as numbers.*encode"):
        pc(data.assign(kind=list("abcd") * 50), test=lambda x, y, given: 0.5)
    with pytest.raises(ValueError, match="more than one column named 'x'"):
        pc(pd.concat([data, data[["x"]]], axis=1), test="fisher-z")
    with pytest.raises(ValueError, match="more than one variable named 'a'"):
        pc(None, test=Told("aba", {}))
    with pytest.raises(TypeError, match="data is None"):
        pc(None, test="fisher-z")
    with pytest.raises(ValueError, match="max_given to at most 2"):
        pc(RNG(0).normal(size=(6, 6)) + RNG(1).normal(size=(6, 1)) * 9, test="fisher-z", alpha=0.9)


def test_max_given_limits_the_sets():
    asked = []
    pc(table(), test=lambda x, y, given: asked.append(given.shape[1]) or 0.0, max_given=0)
    assert set(asked) == {0}


def test_progress_bar_counts_tests():
    shown = io.StringIO()
    with redirect_stderr(shown):
        pc(table(), test="fisher-z", n_bootstrap=1, progress=True)
    assert "PC, sets of 1" in shown.getvalue()
    assert "test" in shown.getvalue()
    silent = io.StringIO()
    with redirect_stderr(silent):
        pc(table(), test="fisher-z", progress=False)
    assert silent.getvalue() == ""


def test_every_set_is_tried_once():
    for dag, p in dags(20, 8):
        knowledge = Background().resolved(tuple(letters(p)))
        for most in (2, p):
            skeleton = Skeleton(reference.cpdag(dag, p) > 0, None, knowledge, most, tuple(range(p)))
            for i, j in combinations(range(p), 2):
                sets = skeleton.sets(i, j)
                assert len(sets) == len(set(sets)) > 0
                assert sets == sorted(sets, key=len)
                assert max(map(len, sets)) <= most
