"""A causal graph and how sure it is: edges with their marks, p-values and frequencies."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, NamedTuple, Self

import numpy as np

from kembed.core.backend import Float, Int
from kembed.core.drawing import Drawn
from kembed.core.text import counted, plain
from kembed.core.writing import jsonable
from kembed.graphs.background import Background, Names, likely, reachable
from kembed.graphs.orientation import Verdicts, directed, unshielded

KINDS = {"-->": "directed", "---": "undirected", "<->": "conflicting"}
MARKS = tuple(KINDS)
RUNS = {"orders": "orders", "bootstrap": "resamples"}  # what was searched again, and the word for it


@dataclass(frozen=True)
class Edge:
    """An edge of a graph.

    `mark` is "-->" (the tests suggest that a causes b), "---" (either way) or "<->" (the tests point both
    ways). `pvalue` is the largest of all tests of the pair, how close the edge came to vanishing (nan for a
    required edge, which is not tested); `frequency` is the share of resamples of the rows (of orders of the
    variables, where no rows were resampled) in which the two are adjacent, `mark_frequency` that of those
    with this very mark.
    """

    a: str
    b: str
    mark: str
    pvalue: float = float("nan")
    frequency: float = 1.0
    mark_frequency: float = 1.0

    def __str__(self) -> str:
        return f"{self.a} {self.mark} {self.b}"


class Conflict(NamedTuple):
    """A pair about whose direction the reasons disagree, and these reasons."""

    a: str
    b: str
    why: str


@dataclass(frozen=True, eq=False, repr=False)
class CausalGraph(Drawn):
    """What `pc` found: a graph that stands for all causal graphs the tests cannot tell apart.

    `separating_sets` has, for each pair that the tests took apart, the set that makes it independent, and
    `pvalues` the largest p-value of every tested pair; both go by `frozenset({a, b})`. `conflicts` says where
    reasons disagree and `ambiguous` which triples (a, middle, b) could not be decided. The graph itself is
    that of all rows with the variables in the given order; `over_orders` and `over_bootstrap` are the shares
    of runs in which a --> b, a --- b and a <-> b, in an array [a, b, mark].
    """

    names: Names
    edges: tuple[Edge, ...]
    separating_sets: dict[frozenset[str], tuple[str, ...]] = field(default_factory=dict)
    pvalues: dict[frozenset[str], float] = field(default_factory=dict)
    alpha: float = float("nan")
    n_tests: int = 0
    conflicts: tuple[Conflict, ...] = ()
    ambiguous: tuple[tuple[str, str, str], ...] = ()
    over_orders: Float[np.ndarray, "p p 3"] | None = None
    over_bootstrap: Float[np.ndarray, "p p 3"] | None = None
    n_orders: int = 1
    n_bootstrap: int = 0
    notes: tuple[str, ...] = ()  # what to know of the rows: in order, identifiers, how text was read

    @classmethod
    def from_dag(cls, names: Iterable[str], parents: Mapping[str, Iterable[str]]) -> Self:
        """All that any test could find out about a directed acyclic graph: its CPDAG.

        >>> print(CausalGraph.from_dag(["rain", "sprinkler", "wet"], {"wet": ["rain", "sprinkler"]}))
        CausalGraph of 3 variables, 2 edges (2 directed)
          rain --> wet
          sprinkler --> wet
        """
        names = tuple(names)
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"names has {twice[0]!r} more than once; name every variable once")
        arrows = np.zeros((len(names), len(names)), dtype=bool)
        for child, above in parents.items():
            for parent in above:
                arrows[_place(names, parent), _place(names, child)] = True
        if reachable(arrows).diagonal().any():
            raise ValueError("parents has a directed cycle; a DAG has none")
        adjacent = arrows | arrows.T
        verdicts: Verdicts = {
            (i, k, j): bool(arrows[i, k] and arrows[j, k]) for i, k, j in unshielded(adjacent)
        }
        found = directed(adjacent, verdicts, Background().resolved(names), names)
        return cls(names, edges_of(names, found.codes))

    @property
    def n_runs(self) -> int:
        """How many searches were made: of orders of the variables and of resamples of the rows."""
        return self.n_orders + self.n_bootstrap

    @property
    def counted(self) -> str:
        """What frequencies are shares of: "resamples" of the rows if there are any, else "orders"."""
        return RUNS["orders" if self.over_bootstrap is None else "bootstrap"]

    @property
    def varied(self) -> dict[str, str]:
        """What was searched more than once, as `over` of `frequency` calls it, and the word for it."""
        more = {"orders": self.n_orders > 1, "bootstrap": self.n_bootstrap > 0}
        return {over: word for over, word in RUNS.items() if more[over]}

    @property
    def frequencies(self) -> Float[np.ndarray, "p p 3"]:
        """[a, b, mark]: in what share the edge of a and b has this mark ("-->": a to b).

        Of the resamples of the rows, without the search of all rows; where there are none, of the orders.
        """
        if self.over_bootstrap is not None:
            return self.over_bootstrap
        return shares(self.adjacency()) if self.over_orders is None else self.over_orders

    def has(self, a: str, b: str) -> bool:
        """Whether the two are adjacent."""
        return self._edge(a, b) is not None

    def directed(self, a: str, b: str) -> bool:
        """Whether a --> b."""
        edge = self._edge(a, b)
        return edge is not None and edge.mark == "-->" and edge.a == a

    def frequency(self, a: str, b: str, mark: str | None = None, *, over: str | None = None) -> float:
        """In what share of runs the two are adjacent, or have this mark ("<--" is b --> a).

        `over` says of which: "orders" of the variables tell how arbitrary the graph is, the "bootstrap" of
        the rows how sure. By default the bootstrap, or orders where no rows were resampled.
        """
        tables = {None: self.frequencies, "orders": self.over_orders, "bootstrap": self.over_bootstrap}
        if over not in tables:
            raise ValueError(f"over must be one of 'orders', 'bootstrap' or None, but {over!r} was given")
        if tables[over] is None:
            raise ValueError(f"no {RUNS[str(over)]} were run; search with n_{over} > {over == 'orders':d}")
        table = np.asarray(tables[over])
        i, j = _place(self.names, a), _place(self.names, b)
        if mark is None:
            return float(table[i, j].sum() + table[j, i, 0])
        if mark == "<--":
            i, j, mark = j, i, "-->"
        if mark not in MARKS:
            words = ", ".join(map(repr, (*MARKS, "<--")))
            raise ValueError(f"mark must be one of {words}, but {mark!r} was given")
        return float(table[i, j, MARKS.index(mark)])

    def adjacency(self) -> Int[np.ndarray, "p p"]:
        """1 at [a, b] for a --> b; at [a, b] and [b, a] 1 for a --- b and 2 for a <-> b; else 0."""
        table = np.zeros((len(self.names), len(self.names)), dtype=int)
        for edge in self.edges:
            i, j = self.names.index(edge.a), self.names.index(edge.b)
            table[i, j] = 1 + (edge.mark == "<->")
            table[j, i] = 0 if edge.mark == "-->" else table[i, j]
        return table

    def table(self) -> list[dict[str, Any]]:
        """A row for each pair of variables, those that are adjacent most often first.

        `mark` is "" where the graph lacks the edge, and `given` then has the variables that separate the two
        (None where no test did); `frequency` is the share of resamples (else of orders) with an edge.
        `pd.DataFrame(graph.table())` makes a data frame.
        """
        rows: list[dict[str, Any]] = []
        for a, b in combinations(self.names, 2):
            edge, frequency = self._edge(a, b), self.frequency(a, b)
            given = None if edge else self.separating_sets.get(frozenset((a, b)))
            first, second = (edge.a, edge.b) if edge else (a, b)
            row: dict[str, Any] = {"a": first, "mark": edge.mark if edge else "", "b": second}
            row |= {"pvalue": self.pvalues.get(frozenset((a, b)), float("nan")), "frequency": frequency}
            row["given"] = None if given is None else list(given)
            for mark in ("-->", "<--", "---", "<->"):
                row[mark] = self.frequency(first, second, mark)
            rows.append(row)
        return sorted(rows, key=lambda row: (-row["frequency"], not row["mark"]))

    def to_dict(self) -> dict[str, Any]:
        """The graph in the words of docs/json.md."""
        separated = [
            {"pair": sorted(pair), "given": given, "pvalue": self.pvalues[pair]}
            for pair, given in self.separating_sets.items()
        ]
        payload = {
            "columns": self.names,
            "alpha": self.alpha,
            "edges": [vars(edge) for edge in self.edges],
            "pairs": self.table(),
            "separating_sets": separated,
            "conflicts": [conflict._asdict() for conflict in self.conflicts],
            "ambiguous": self.ambiguous,
            "tests": self.n_tests,
            "notes": self.notes,
            "orders": self.n_orders,
            "bootstrap": self.n_bootstrap,
        }
        return jsonable(payload)

    def shd(self, other: "CausalGraph") -> int:
        """The structural Hamming distance: how many pairs have another edge, or none, in the other graph."""
        if set(self.names) != set(other.names):
            raise ValueError(
                "other must be a graph of the same variables, but only one of the two has "
                + ", ".join(map(repr, sorted(set(self.names) ^ set(other.names))))
            )
        order = [other.names.index(name) for name in self.names]
        mine, theirs = self.adjacency(), other.adjacency()[np.ix_(order, order)]
        return int(np.triu((mine != theirs) | (mine != theirs).T).sum())

    def to_networkx(self) -> Any:
        """A `networkx.DiGraph`: edges that are not directed go both ways, and `mark` tells which they are."""
        try:
            import networkx as nx
        except ImportError:
            raise ImportError("to_networkx needs networkx; install it with `pip install networkx`") from None
        graph = nx.DiGraph()
        graph.add_nodes_from(self.names)
        for edge in self.edges:
            about = {name: value for name, value in vars(edge).items() if name not in ("a", "b")}
            ends = [(edge.a, edge.b)] if edge.mark == "-->" else [(edge.a, edge.b), (edge.b, edge.a)]
            graph.add_edges_from(ends, **about)
        return graph

    def _edge(self, a: str, b: str) -> Edge | None:
        _place(self.names, a), _place(self.names, b)
        return next((edge for edge in self.edges if {edge.a, edge.b} == {a, b}), None)

    def __repr__(self) -> str:
        marks = [edge.mark for edge in self.edges]
        counts = ", ".join(f"{marks.count(mark)} {word}" for mark, word in KINDS.items() if mark in marks)
        edges = f"{len(marks)} edge{'' if len(marks) == 1 else 's'}" + (f" ({counts})" if counts else "")
        parts = [f"CausalGraph of {len(self.names)} variables", edges]
        if self.n_tests:
            parts.append(f"{counted(self.n_tests, 'test')} at level {plain(self.alpha)}")
        parts += [f"{getattr(self, f'n_{over}')} {word}" for over, word in self.varied.items()]
        width = max((len(str(edge)) for edge in self.edges), default=0)
        lines = [", ".join(parts)]
        for edge in self.edges:
            evidence = [f"largest p = {plain(edge.pvalue, 2)}"] if not np.isnan(edge.pvalue) else []
            for over, word in self.varied.items():
                there, alike = (self.frequency(edge.a, edge.b, mark, over=over) for mark in (None, edge.mark))
                evidence.append(f"in {there:.0%} of {word}, with this mark in {alike:.0%}")
            lines.append(f"  {edge!s:{width}}  {'; '.join(evidence)}".rstrip())
        return "\n".join([*lines, *(f"  conflict: {one.why}" for one in self.conflicts)])


def edges_of(names: Names, codes: np.ndarray) -> tuple[Edge, ...]:
    """The edges of an adjacency matrix, in the order of the variables."""
    edges = []
    for i, j in np.argwhere(np.triu(codes + codes.T)).tolist():
        a, b = (i, j) if codes[i, j] else (j, i)
        edges.append(Edge(names[a], names[b], MARKS[codes[b, a]]))
    return tuple(edges)


def shares(codes: np.ndarray) -> Float[np.ndarray, "p p 3"]:
    """The frequencies of a single adjacency matrix: 1 at [a, b, mark] where the edge has this mark."""
    kinds = [(codes > 0) & np.equal(codes.T, back) for back in range(len(MARKS))]
    return np.stack(kinds, axis=2).astype(float)


def _place(names: Names, name: str) -> int:
    if name in names:
        return names.index(name)
    raise ValueError(f"the graph has no variable {name!r}; {likely(name, names, 1)}")
