"""Which variables are adjacent: the first half of the PC algorithm, and a ledger of every test made.

Two variables are separated once some set of neighbours of either makes them independent. With `stable` the
neighbours are those at the start of a level, so that the answer does not depend on the order of variables
(Colombo & Maathuis 2014); without it a removal counts at once, as in the original algorithm.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations, permutations
from math import comb

import numpy as np

from kembed.core.backend import Bool
from kembed.core.progress import progress_bar
from kembed.graphs.background import Knowledge
from kembed.graphs.deciders import Remembered, Set

Pair = tuple[int, int]
UNKNOWN = float("inf")  # nobody knows beforehand how long a test takes, so that every level shows its bar


def pair_of(i: int, j: int) -> Pair:
    """The two, smaller number first."""
    return (i, j) if i < j else (j, i)


@dataclass
class Ledger:
    """Every test of one search: for each pair the sets tried, in order, with their p-values."""

    tests: Remembered
    alpha: float
    tried: dict[Pair, dict[Set, float]] = field(default_factory=dict)

    def separates(self, i: int, j: int, given: Sequence[int]) -> bool:
        """Whether i and j pass for independent given these."""
        pair, inner = pair_of(i, j), tuple(sorted(given))
        p = self.tests.pvalue(*pair, inner)
        self.tried.setdefault(pair, {})[inner] = p
        return p > self.alpha

    def first(self, pair: Pair) -> list[Set]:
        """The separating set that was found first, if any was."""
        return [inner for inner, p in self.tried.get(pair, {}).items() if p > self.alpha][:1]

    def largest(self, i: int, j: int) -> tuple[float, Set] | None:
        """The largest p-value of the pair and its set (the first of equals); None if it was never tested."""
        tried = self.tried.get(pair_of(i, j))
        return max(((p, inner) for inner, p in tried.items()), key=lambda one: one[0]) if tried else None

    @property
    def n_tests(self) -> int:
        """How many different tests were made."""
        return sum(len(sets) for sets in self.tried.values())


@dataclass(frozen=True, eq=False)
class Skeleton:
    """The adjacent pairs, and the tests they rest on; `max_given` and `order` are those of the search."""

    adjacent: Bool[np.ndarray, "p p"]
    ledger: Ledger
    knowledge: Knowledge
    max_given: int
    order: tuple[int, ...]

    def sets(self, i: int, j: int) -> list[Set]:
        """Every set that may separate the two: of neighbours of i or of j, small ones first."""
        sides = [candidates(self.adjacent, self.knowledge, self.order, *ends) for ends in ((i, j), (j, i))]
        sizes = range(min(self.max_given, max(map(len, sides))) + 1)
        every = (
            tuple(sorted(inner)) for size in sizes for side in sides for inner in combinations(side, size)
        )
        return list(dict.fromkeys(every))


def candidates(adjacent: np.ndarray, knowledge: Knowledge, order: Sequence[int], i: int, j: int) -> Set:
    """The neighbours of i that a set separating it from j may hold.

    If i and j are not adjacent then the parents of one of them separate them. So a variable that is known to
    be a parent of neither, such as one in a later tier than both, is never needed.
    """
    possible = knowledge.allowed[:, i] | knowledge.allowed[:, j]
    return tuple(k for k in order if k != j and adjacent[i, k] and possible[k])


def search(
    tests: Remembered,
    order: Sequence[int],
    alpha: float,
    max_given: int,
    stable: bool,
    knowledge: Knowledge,
) -> Skeleton:
    """The skeleton: pairs that no set of at most `max_given` neighbours separates.

    Pairs forbidden both ways start apart, and required edges are never tested. `order` is the order in which
    variables are taken.
    """
    adjacent = knowledge.allowed | knowledge.allowed.T
    fixed = knowledge.required | knowledge.required.T
    ledger = Ledger(tests, alpha)
    for level in range(max_given + 1):
        seen = adjacent.copy() if stable else adjacent  # what counts as a neighbour
        pairs = [(i, j) for i, j in permutations(order, 2) if seen[i, j] and not fixed[i, j]]
        work = [(i, j) for i, j in pairs if len(candidates(seen, knowledge, order, i, j)) >= level]
        if not work:
            break
        most = sum(comb(int(seen[i].sum()) - 1, level) for i, _ in work)
        with progress_bar(most, UNKNOWN, f"PC, sets of {level}", "test") as shown:
            for i, j in work:
                if not adjacent[i, j]:
                    continue
                for inner in combinations(candidates(seen, knowledge, order, i, j), level):
                    shown.update(1)
                    if ledger.separates(i, j, inner):
                        adjacent[i, j] = adjacent[j, i] = False
                        break
    return Skeleton(adjacent, ledger, knowledge, max_given, tuple(order))
