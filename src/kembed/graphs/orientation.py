"""Which way the edges point: the second half of the PC algorithm.

Unshielded colliders by one of four rules, then background knowledge, then Meek's four rules. Everything is
decided for all edges at once and never overwritten, so that no step depends on the order of variables; an
edge that two reasons point in opposite ways is marked as conflicting.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from kembed.core.backend import Bool
from kembed.graphs.background import Knowledge, Names, reachable
from kembed.graphs.deciders import Set
from kembed.graphs.skeleton import Ledger, Pair, Skeleton, pair_of

RULES = ("majority", "conservative", "max-p", "first")
Triple = tuple[int, int, int]  # i - k - j with i < j, the middle one second
Verdicts = dict[Triple, bool | None]  # of unshielded triples: a collider, none, or ambiguous


@dataclass
class Orientation:
    """Arrowheads: `heads[i, j]` says that the edge of i and j has one at j; both ends mean a conflict."""

    adjacent: Bool[np.ndarray, "p p"]
    heads: Bool[np.ndarray, "p p"]
    verdicts: Verdicts
    conflicts: dict[tuple[int, int], str] = field(default_factory=dict)  # why, in the words of the names

    @property
    def ambiguous(self) -> tuple[Triple, ...]:
        """The triples that the rule could not decide."""
        return tuple(triple for triple, verdict in self.verdicts.items() if verdict is None)

    @property
    def arrows(self) -> np.ndarray:
        """[i, j]: i --> j without a conflict."""
        return self.heads & ~self.heads.T

    @property
    def codes(self) -> np.ndarray:
        """1 at [i, j] for i --> j; at [i, j] and [j, i] 1 for i --- j and 2 for i <-> j; else 0."""
        return np.where(self.heads & self.heads.T, 2, self.adjacent & ~self.heads.T)

    def plain(self, i: int, j: int) -> bool:
        """Whether the two are adjacent, without any arrowhead."""
        return bool(self.adjacent[i, j] and not (self.heads[i, j] or self.heads[j, i]))

    def no_collider(self, i: int, k: int, j: int) -> bool:
        """Whether i - k - j is an unshielded triple that was found to be no collider."""
        return self.verdicts.get((i, k, j) if i < j else (j, k, i)) is False

    def disagree(self, i: int, j: int, why: str) -> None:
        """Mark an edge as conflicting."""
        self.heads[i, j] = self.heads[j, i] = True
        self.conflicts.setdefault(pair_of(i, j), why)


def unshielded(adjacent: np.ndarray) -> Iterator[Triple]:
    """Every i - k - j whose ends are not adjacent."""
    for k in range(len(adjacent)):
        for i, j in combinations(np.flatnonzero(adjacent[k]).tolist(), 2):
            if not adjacent[i, j]:
                yield i, k, j


def orient(skeleton: Skeleton, rule: str, names: Names) -> Orientation:
    """The graph of a skeleton, as far as tests and background can say."""
    triples = list(unshielded(skeleton.adjacent))
    pairs = dict.fromkeys((i, j) for i, _, j in triples)
    apart = {pair: _separating(skeleton, rule, pair) for pair in pairs}
    verdicts = {(i, k, j): _verdict(skeleton.ledger, rule, (i, j), k, apart[i, j]) for i, k, j in triples}
    return directed(skeleton.adjacent, verdicts, skeleton.knowledge, names)


def _separating(skeleton: Skeleton, rule: str, pair: Pair) -> list[Set]:
    """The sets that separate a pair: all of them, or the first that was found."""
    ledger = skeleton.ledger
    if rule != "first":
        return [inner for inner in skeleton.sets(*pair) if ledger.separates(*pair, inner)]
    if known := ledger.first(pair):
        return known
    # What background knowledge took apart has not been tested yet.
    return next(([inner] for inner in skeleton.sets(*pair) if ledger.separates(*pair, inner)), [])


def _verdict(ledger: Ledger, rule: str, pair: Pair, k: int, sets: list[Set]) -> bool | None:
    """Whether i --> k <-- j: whether k is outside the sets that separate i and j; None if one cannot tell."""
    if rule == "max-p" and sets:  # of equal p-values, the smallest sets
        tried = ledger.tried[pair]
        best = max((tried[inner], -len(inner)) for inner in sets)
        sets = [inner for inner in sets if (tried[inner], -len(inner)) == best]
    holding = sum(k in inner for inner in sets)
    if rule == "majority":
        return None if 2 * holding == len(sets) else 2 * holding < len(sets)
    return {0: True, len(sets): False}.get(holding) if sets else None


def directed(adjacent: np.ndarray, verdicts: Verdicts, knowledge: Knowledge, names: Names) -> Orientation:
    """Colliders, then background knowledge, then Meek's rules."""
    graph = Orientation(adjacent, np.zeros(adjacent.shape, dtype=bool), verdicts)
    known = adjacent & knowledge.allowed & ~knowledge.allowed.T
    refused = _colliders(graph, known, names)
    graph.heads |= known
    firm = known & (knowledge.required | knowledge.tiered)
    for fixed in (known, firm):  # forbidden edges alone may leave no way round a circle of adjacent pairs
        _break_cycles(graph, np.argwhere(graph.arrows & ~fixed).tolist(), names)
    _meek(graph, names)
    for (i, k, j), verdict in verdicts.items():
        if verdict is False and graph.arrows[i, k] and graph.arrows[j, k]:
            why = f"{_collider(names, i, k, j)} follows, but the tests of {names[i]} and {names[j]} deny it"
            refused.append((pair_of(i, k), why))
    for pair, why in refused:  # nothing points the other way, so that these edges keep their direction
        graph.conflicts.setdefault(pair, why)
    return graph


def _colliders(graph: Orientation, known: np.ndarray, names: Names) -> list[tuple[Pair, str]]:
    """Arrowheads of all colliders at once; returned are those that background knowledge denies."""
    refused = []
    reasons: dict[tuple[int, int], Triple] = {}
    for (i, k, j), verdict in graph.verdicts.items():
        if not verdict:
            continue
        denied = [end for end in (i, j) if known[k, end]]
        said = f"the tests say {_collider(names, i, k, j)}, but by background"
        refused += [(pair_of(k, end), f"{said} {names[k]} --> {names[end]}") for end in denied]
        if not denied:
            for end in (i, j):
                graph.heads[end, k] = True
                reasons.setdefault((end, k), (i, k, j))
    for i, j in np.argwhere(np.triu(graph.heads & graph.heads.T)).tolist():
        one, other = (_collider(names, *reasons[edge]) for edge in ((i, j), (j, i)))
        graph.disagree(i, j, f"{one} and {other} disagree")
    return refused


def _collider(names: Names, i: int, k: int, j: int) -> str:
    return f"{names[i]} --> {names[k]} <-- {names[j]}"


def _break_cycles(graph: Orientation, suspects: Iterable[Iterable[int]], names: Names) -> None:
    """Those of the arrows that lie on a directed cycle are in conflict."""
    reach = reachable(graph.arrows)
    for i, j in [(i, j) for i, j in suspects if reach[j, i]]:
        graph.disagree(i, j, f"{names[i]} --> {names[j]} would close a directed cycle")


def _meek(graph: Orientation, names: Names) -> None:
    """Point edges where the other way would make a cycle or a new collider, until nothing more follows."""
    while True:
        arrows, edges = graph.arrows, np.argwhere(graph.adjacent).tolist()
        follows = [(a, b) for a, b in edges if graph.plain(a, b) and _follows(graph, arrows, a, b)]
        if not follows:
            return
        split = {(a, b) for a, b in follows if (b, a) in follows}
        fresh = [edge for edge in follows if edge not in split]
        # Two that point into the middle of a triple known to be no collider cannot both be right.
        clash = {
            edge
            for (a, b), (c, d) in combinations(fresh, 2)
            if b == d and graph.no_collider(a, b, c)
            for edge in ((a, b), (c, d))
        }
        for a, b in fresh:
            graph.heads[a, b] = True
        for a, b in sorted(split | clash):
            graph.disagree(a, b, f"the other edges ask for {names[a]} --> {names[b]} and against it")
        _break_cycles(graph, [edge for edge in fresh if edge not in clash], names)


def _follows(graph: Orientation, arrows: np.ndarray, a: int, b: int) -> bool:
    """Whether one of the four rules of Meek (1995) makes the plain edge of a and b an arrow a --> b."""
    into_b = np.flatnonzero(arrows[:, b]).tolist()
    # 1: c --> a - b, no collider. 2: a --> c --> b.
    into_a = np.flatnonzero(arrows[:, a]).tolist()
    if any(graph.no_collider(c, a, b) for c in into_a) or any(arrows[a, c] for c in into_b):
        return True
    # 3: a - c --> b and a - d --> b, where c - a - d is no collider.
    beside = [c for c in into_b if graph.plain(a, c)]
    if any(graph.no_collider(c, a, d) for c, d in combinations(beside, 2)):
        return True
    # 4: a - c --> d --> b, a and d adjacent, where c - a - b is no collider.
    return any(
        graph.plain(a, c) and graph.no_collider(c, a, b)
        for d in into_b
        if graph.adjacent[a, d]
        for c in np.flatnonzero(arrows[:, d]).tolist()
    )
