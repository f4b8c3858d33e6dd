"""The members of the fused tests, in groups: each group looks for another kind of difference.

One kernel, however chosen, cannot win everywhere, and a signal in few of many columns is drowned in a
distance over all of them. The groups were chosen on `SUITE` and `HELD_OUT` of `benchmarks/alternatives.py`;
`ACCIDENTS` of `benchmarks/accidents.py` judges them. A new group is one file and one entry in `GROUPS`.

A group is fitted on the pooled, unordered rows and never sees a label. Its function `two_sample` returns the
kernels of a two-sample test (a `Group`), `independence` pairs of them for an independence test (a
`Relation`); None where there is nothing to look at.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from kembed.permutation.fusion import Plan
from kembed.testing.members import (
    axes,
    columns,
    density,
    embeddings,
    means,
    neighbours,
    pairs,
    repeated,
    second_order,
    trees,
    triples,
)
from kembed.testing.members.fresh import Streamed
from kembed.testing.members.group import Group, Meeting, Relation
from kembed.testing.members.rows import Rows
from kembed.testing.procedure import Choice, together

GROUPS = (
    means,
    embeddings,
    second_order,
    columns,
    axes,
    pairs,
    triples,
    trees,
    neighbours,
    density,
    repeated,
)
# How much groups count, those not named 1. A shift is the commonest change, and one group of many looks for
# no other. Of one column, second order and trees look at little that its ranks do not show, and five voices
# alike would drown what only a kernel of the right width sees. Chosen on SUITE and HELD_OUT.
WEIGHTS = {"means": 2.0}
OF_ONE_COLUMN = {"means": 1.5, "embeddings": 4.0, "second order": 0.5, "trees": 0.5}


def fused_members(rows: Rows) -> Choice:
    """The members of every group of a two-sample test."""
    found = [group.two_sample(rows) for group in GROUPS]
    whole = together([_choice(group, rows) for group in found if group is not None])
    return replace(whole, learned=(rows.evidence,) if rows.evidence else (), fused=True)


def streamed_members(rows: Rows) -> tuple[Choice, tuple[Streamed, ...]]:
    """The members of every group for any number of rows, and what to call them."""
    found = [each for each in _streaming(rows) if each is not None]
    whole = together([_choice(group, rows) for group in found])
    members = tuple(member for group in found for member in group.members)
    learned = (rows.evidence,) if rows.evidence else ()
    return replace(whole, members=(), learned=learned, fused=True), members


def _streaming(rows: Rows) -> Iterator[Group | None]:
    groups: list[Any] = [group for group in GROUPS if hasattr(group, "streamed")]
    return (group.streamed(rows) for group in groups)


def _choice(group: Group, rows: Rows | None = None) -> Choice:
    """What a test does with a group; in a two-sample test of `rows` some count more or less than others."""
    count = int(group.voices.max()) + 1
    weights = {} if rows is None else OF_ONE_COLUMN if len(rows.names) == 1 else WEIGHTS
    own = np.array([weights.get(group.name, 1.0)])
    plan = Plan(group.voices, np.zeros(count, dtype=int), np.array([group.whole]), own)
    return Choice(group.members, group.kernels, plan)


def fused_side(rows: Rows) -> Choice:
    """The kernels of one side of an independence test whose other side has kernels of the user's choice."""
    return replace(_choice(embeddings.side(rows)), learned=(rows.evidence,) if rows.evidence else ())


def streamed_side(rows: Rows) -> tuple[Choice, tuple[Streamed, ...]]:
    """The same for any number of rows, and what to call them."""
    group: Any = embeddings.streamed_side(rows)
    learned = (rows.evidence,) if rows.evidence else ()
    return replace(_choice(group), members=(), learned=learned), group.members


def fused_relations(left: Rows, right: Rows) -> tuple[tuple[Meeting, ...], Choice]:
    """The meetings of two sides in every group, and what to call them."""
    found = [group.independence(left, right) for group in GROUPS if hasattr(group, "independence")]
    return _relations(found, left, right)


def streamed_relations(left: Rows, right: Rows) -> tuple[tuple[Meeting, ...], Choice]:
    """The same for any number of rows."""
    groups: list[Any] = [group for group in GROUPS if hasattr(group, "streamed_independence")]
    return _relations([group.streamed_independence(left, right) for group in groups], left, right)


def _relations(found: list[Relation | None], left: Rows, right: Rows) -> tuple[tuple[Meeting, ...], Choice]:
    kept = [relation for relation in found if relation is not None]
    parts = [_choice(Group(each.name, (), each.kernels, each.voices, each.whole)) for each in kept]
    learned = (left.evidence, right.evidence) if left.evidence or right.evidence else ()
    whole = replace(together(parts), learned=learned, fused=True)
    return tuple(meeting for relation in kept for meeting in relation.meetings), whole
