"""What is known about causes beforehand: edges that must be, edges that cannot be, tiers of time."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kembed.core.backend import Bool

Pair = tuple[str, str]
Names = tuple[str, ...]


class Knowledge(NamedTuple):
    """Background knowledge about numbered variables; entry [i, j] is about i --> j."""

    allowed: Bool[np.ndarray, "p p"]
    required: Bool[np.ndarray, "p p"]
    tiered: Bool[np.ndarray, "p p"]  # j stands in a later tier than i


@dataclass(frozen=True)
class Background:
    """Background knowledge for `pc`.

    Parameters
    ----------
    forbidden, required
        Directed edges, `("a", "b")` for a --> b. A pair forbidden both ways is never adjacent; a required
        edge is never removed.
    tiers
        Groups of variables, earliest first: no edge goes from a later tier to an earlier one. Within a tier
        everything is possible, and a variable in no tier is free.

    Examples
    --------
    >>> Background(required=[("temperature", "ozone")], tiers=[("wind", "temperature"), ("ozone",)])
    Background(required: temperature --> ozone; tiers: wind, temperature | ozone)

    """

    forbidden: tuple[Pair, ...] = ()
    required: tuple[Pair, ...] = ()
    tiers: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "forbidden", _pairs(self.forbidden, "forbidden"))
        object.__setattr__(self, "required", _pairs(self.required, "required"))
        object.__setattr__(self, "tiers", _tiers(self.tiers))
        for a, b in self.required:
            if (a, b) in self.forbidden:
                seen = f"{a!r} --> {b!r} is both required and forbidden"
                raise ValueError(f"{seen}; take it out of one of them")
        place = {name: i for i, name in enumerate(self.names)}
        reach = reachable(_table(self.required, place))
        for a, b in self.required:
            if reach[place[b], place[a]]:
                seen = f"the required edges go round in a circle through {a!r} --> {b!r}"
                raise ValueError(f"{seen}; drop one of them")
        for early, late in self._in_time():
            if reach[place[late], place[early]]:
                seen = f"required edges lead from {late!r} to {early!r}, which stands in an earlier tier"
                raise ValueError(f"{seen}; drop one of them, or change the tiers")

    @property
    def names(self) -> Names:
        """Every variable that is spoken of, once."""
        ends = [name for pair in (*self.required, *self.forbidden) for name in pair]
        return tuple(dict.fromkeys([*ends, *(name for tier in self.tiers for name in tier)]))

    def resolved(self, names: Names) -> Knowledge:
        """The same about the variables of a table, by number; unknown names are refused."""
        for name in self.names:
            if name not in names:
                hint = likely(name, names, 3)
                raise ValueError(f"background names {name!r}, which is no variable of the data; {hint}")
        place = {name: i for i, name in enumerate(names)}
        every = (self.forbidden, self.required, self._in_time())
        forbidden, required, tiered = (_table(pairs, place) for pairs in every)
        # What is above another by required edges is not below it: that would be a cycle.
        above = (tiered | reachable(required)).T
        return Knowledge(~(np.eye(len(names), dtype=bool) | forbidden | above), required, tiered)

    def _in_time(self) -> list[Pair]:
        """Every pair of an earlier and a later variable; by the later one's tier, and then the earlier's."""
        tier = {name: rank for rank, group in enumerate(self.tiers) for name in group}
        return [(early, late) for late in tier for early in tier if tier[late] > tier[early]]

    def __repr__(self) -> str:
        known = {"required": self.required, "forbidden": self.forbidden}
        arrows = {word: ", ".join(f"{a} --> {b}" for a, b in pairs) for word, pairs in known.items()}
        arrows["tiers"] = " | ".join(", ".join(tier) for tier in self.tiers)
        words = "; ".join(f"{word}: {text}" for word, text in arrows.items() if text)
        return f"Background({words})"


def _table(pairs: Iterable[Pair], place: dict[str, int]) -> Bool[np.ndarray, "p p"]:
    """[i, j]: whether the i-th and the j-th are one of the pairs."""
    table = np.zeros((len(place), len(place)), dtype=bool)
    for a, b in pairs:
        table[place[a], place[b]] = True
    return table


def likely(name: Any, names: Names, most: int) -> str:
    """What an unknown name may have meant: at most so many others, or all."""
    near = " or ".join(map(repr, difflib.get_close_matches(str(name), names, most)))
    return f"did you mean {near}?" if near else f"there are {', '.join(map(repr, names))}"


def reachable(edges: np.ndarray) -> np.ndarray:
    """[i, j]: whether a directed path of one edge or more leads from i to j."""
    reach = edges.copy()
    for k in range(len(edges)):
        reach |= np.outer(reach[:, k], reach[k])
    return reach


def _groups(value: Any, argument: str, example: str) -> tuple[Names, ...]:
    """Groups of names as tuples."""
    wanted = f"{argument} must be {example}"
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TypeError(f"{wanted}, but {value!r} was given")
    groups = []
    for group in value:
        if isinstance(group, str) or not isinstance(group, Iterable):
            remedy = f"; write a tier of one as ({group!r},)" if argument == "tiers" else ""
            raise TypeError(f"{wanted}, but it holds {group!r}{remedy}")
        groups.append(tuple(group))
        for name in groups[-1]:
            if not isinstance(name, str):
                raise TypeError(f"{argument} must hold names of variables, but {name!r} is no text")
    return tuple(groups)


def _pairs(value: Any, argument: str) -> tuple[Pair, ...]:
    """Pairs of different names."""
    example = 'pairs of names, such as [("a", "b")]'
    pairs = []
    for pair in _groups(value, argument, example):
        if len(pair) != 2:
            raise TypeError(f"{argument} must be {example}, but it holds {pair!r}")
        if pair[0] == pair[1]:
            raise ValueError(f"{argument} has an edge from {pair[0]!r} to itself; drop it")
        pairs.append((pair[0], pair[1]))
    return tuple(dict.fromkeys(pairs))


def _tiers(value: Any) -> tuple[Names, ...]:
    """Groups of names, each name once."""
    tiers = _groups(value, "tiers", 'groups of names, earliest first, such as [("a", "b"), ("c",)]')
    listed = [name for tier in tiers for name in tier]
    for name in listed:
        if listed.count(name) > 1:
            raise ValueError(f"tiers has {name!r} more than once; name every variable in one tier only")
    return tiers
