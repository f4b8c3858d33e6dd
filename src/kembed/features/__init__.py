"""The groups of the fused tests: each looks for another kind of difference.

One kernel, however chosen, cannot win everywhere, and a signal in few of many columns is drowned in a
distance over all of them. The groups were chosen on `SUITE` and `HELD_OUT` of `benchmarks/alternatives.py`;
`ACCIDENTS` of `benchmarks/accidents.py` judges them. A new group is one file and one entry in `GROUPS`.

A group is fitted on a sample of the pooled rows and never sees a label. Its function `fit` returns the
members of a two-sample test (a `Group`), `fit_pairs` those of an independence test (a `PairGroup`); None
where there is nothing to look at. The same members serve any number of rows; where the sample is all rows of
the test (`sample.complete`) a group may also use what needs all of them.
"""

import numpy as np

from kembed.features import (
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
from kembed.features.ensemble import Ensemble, Plan, merged
from kembed.features.members import Group, KernelPair, PairGroup
from kembed.features.rows import Sample

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
# Weights of groups in a two-sample test, those not named 1. A shift is the commonest change, and one group of
# many looks for no other. Of one column, second order and trees look at little that its ranks do not show.
# Chosen on SUITE and HELD_OUT.
WEIGHTS = {"means": 2.0}
OF_ONE_COLUMN = {"means": 1.5, "embeddings": 4.0, "second order": 0.5, "trees": 0.5}


def fused_ensemble(sample: Sample) -> Ensemble:
    """The members of every group of a two-sample test."""
    weights = OF_ONE_COLUMN if len(sample.names) == 1 else WEIGHTS
    parts = [
        Ensemble(group.members, group.kernels, _plan(group, weights.get(group.name, 1.0)))
        for group in (each.fit(sample) for each in GROUPS)
        if group is not None
    ]
    return merged(parts)._replace(learned=sample.learned, fused=True)


def fused_side(sample: Sample) -> Ensemble:
    """The kernels of one side of an independence test whose other side has kernels of the user's choice."""
    group = embeddings.side(sample)
    return Ensemble(group.members, group.kernels, _plan(group), sample.learned)


def fused_pairs(left: Sample, right: Sample) -> tuple[tuple[KernelPair, ...], Ensemble]:
    """The kernel pairs of two sides in every group, and what to call them."""
    fitted = [group.fit_pairs(left, right) for group in GROUPS if hasattr(group, "fit_pairs")]
    groups = [group for group in fitted if group is not None]
    whole = merged([Ensemble((), group.kernels, _plan(group)) for group in groups])
    learned = (*(left.learned or (None,)), *(right.learned or (None,)))
    whole = whole._replace(learned=learned if any(learned) else (), fused=True)
    return tuple(pair for group in groups for pair in group.pairs), whole


def _plan(group: Group | PairGroup, weight: float = 1.0) -> Plan:
    count = int(group.families.max()) + 1
    return Plan(group.families, np.zeros(count, dtype=int), np.array([group.whole]), np.array([weight]))
