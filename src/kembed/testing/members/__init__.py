"""The members of the fused tests, in groups: each group looks for another kind of difference.

One kernel, however chosen, cannot win everywhere, and a signal in few of many columns is drowned in a
distance over all of them. The groups were chosen on `SUITE` and `HELD_OUT` of `benchmarks/alternatives.py`;
`ACCIDENTS` of `benchmarks/accidents.py` judges them. A new group is one file and one entry in `GROUPS`.

A group is fitted on the pooled, unordered rows and never sees a label. Its function `fit` returns the members
of a two-sample test (a `Group`), `fit_pairs` pairs of them for an independence test (a `Relation`); None
where there is nothing to look at. Members are feature maps (`Streamed`), which serve any number of rows;
where all rows of a test are at hand (`rows.complete`) a group may also return what needs all of them.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from kembed.permutation.blocks import Blocks
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
    fitted = [group.fit(rows) for group in GROUPS]
    kept = [
        replace(each, members=tuple(of_rows(member, rows) for member in each.members))
        for each in fitted
        if each
    ]
    learned = (rows.evidence,) if rows.evidence else ()
    return replace(together([_choice(each, rows) for each in kept]), learned=learned, fused=True)


def fit_group(group: Any, rows: Rows) -> Group | None:
    """A group with its members as a test of these rows uses them."""
    fitted: Group | None = group.fit(rows)
    return fitted and replace(fitted, members=tuple(of_rows(member, rows) for member in fitted.members))


def fit_relation(group: Any, left: Rows, right: Rows) -> Relation | None:
    """The same for pairs of members of two sides."""
    fitted: Relation | None = group.fit_pairs(left, right)
    return fitted and replace(
        fitted,
        meetings=tuple(
            Meeting(of_rows(meeting.left, left), of_rows(meeting.right, right), meeting.pairs)
            for meeting in fitted.meetings
        ),
    )


def of_rows(member: Any, rows: Rows) -> Any:
    """A member as a test of these rows uses it: a feature map becomes the features of the rows."""
    if not (isinstance(member, Streamed) and rows.complete):
        return member
    features = member.of(rows)
    mean = features.mean(axis=0)
    return Blocks(features - mean, member.width, member.cuts, centred=True)


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


def fused_relations(left: Rows, right: Rows) -> tuple[tuple[Meeting, ...], Choice]:
    """The meetings of two sides in every group, and what to call them."""
    groups = [group for group in GROUPS if hasattr(group, "fit_pairs")]
    kept = [fitted for group in groups if (fitted := fit_relation(group, left, right)) is not None]
    parts = [_choice(Group(each.name, (), each.kernels, each.voices, each.whole)) for each in kept]
    learned = (left.evidence, right.evidence) if left.evidence or right.evidence else ()
    whole = replace(together(parts), learned=learned, fused=True)
    return tuple(meeting for relation in kept for meeting in relation.meetings), whole
