"""An ensemble: the members that one test fuses, what each is called, and how they are combined."""

from typing import Any, NamedTuple

import numpy as np

from kembed.core.backend import Bool, Float, Int
from kembed.learning.evidence import Evidence


class Plan(NamedTuple):
    """Which kernels make up a family, which families a group, and which groups also enter the sum of groups.

    `weights` are those of the groups; None: all alike. `averaged` says that statistics are logarithms of
    Bayes factors, and that of all kernels is the logarithm of their mean.
    """

    family: Int[np.ndarray, " J"]
    group: Int[np.ndarray, " M"]
    added: Bool[np.ndarray, " G"]
    weights: Float[np.ndarray, " G"] | None = None
    averaged: bool = False

    @property
    def counts(self) -> Float[np.ndarray, " G"]:
        """The weights, 1 for each group if there are none."""
        return np.ones(len(self.added)) if self.weights is None else self.weights


class Ensemble(NamedTuple):
    """Members, what to call their kernels, how they are fused, and what was learned about scales."""

    members: tuple[Any, ...]
    kernels: tuple[Any, ...]
    plan: Plan
    learned: tuple[Evidence | None, ...] = ()
    fused: bool = False  # the word "fused" and nothing else
    statistic: str = ""  # what the statistic is called, where it is no MMD²

    @property
    def maps(self) -> tuple[Any, ...]:
        """Every feature map once."""
        return tuple(dict.fromkeys(each.map for each in self.members if each.map is not None))


def separate_plan(count: int) -> Plan:
    """So many kernels, each of them a group of its own."""
    return Plan(np.arange(count), np.arange(count), np.zeros(count, dtype=bool))


def merged(parts: list[Ensemble]) -> Ensemble:
    """Several ensembles as one: all of their groups side by side."""
    if len(parts) == 1:
        return parts[0]
    plans = [part.plan for part in parts]
    families = np.cumsum([0, *(len(plan.group) for plan in plans)])
    groups = np.cumsum([0, *(len(plan.added) for plan in plans)])
    plan = Plan(
        np.concatenate([plan.family + start for plan, start in zip(plans, families[:-1], strict=True)]),
        np.concatenate([plan.group + start for plan, start in zip(plans, groups[:-1], strict=True)]),
        np.concatenate([plan.added for plan in plans]),
        np.concatenate([plan.counts for plan in plans]),
    )
    return Ensemble(
        tuple(member for part in parts for member in part.members),
        tuple(kernel for part in parts for kernel in part.kernels),
        plan,
        next((part.learned for part in parts if part.learned), ()),
    )
