"""Several statistics, one permutation test.

Each kernel's statistic is put on one scale: its distance from its mean over *all* labelings, the data's among
them, in standard deviations over the same labelings. A log-sum-exp, close to the largest, combines them, and
the combination is what is compared between the data and the resamples. Every step treats the data and the
resamples alike, so the test stays exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kembed.permutation import nulls
from kembed.testing.choice import Choice
from kembed.testing.outcome import MemberResult, TestOutcome

if TYPE_CHECKING:
    from jaxtyping import Float

# How sharply the log-sum-exp prefers the largest; chosen on the development suite.
SHARPNESS = 1.5
ROUNDING = 1e-14  # of an entry


def settled(values: Float[np.ndarray, "C J"], entry: Float[np.ndarray, " J"]) -> Float[np.ndarray, "C J"]:
    """The values with those that only rounding tells apart made equal, for ranking.

    A statistic is a mean of kernel entries; far below the size of a usual `entry` nothing is known.
    """
    out = values.copy()
    for j, size in enumerate(entry):
        order = np.argsort(values[:, j], kind="stable")
        ordered = values[order, j]
        starts = np.concatenate([[True], np.diff(ordered) > ROUNDING * size])
        out[order, j] = ordered[starts][np.cumsum(starts) - 1]
    return out


def standardised(values: Float[np.ndarray, "C J"]) -> Float[np.ndarray, "C J"]:
    """Every column less its mean, over its standard deviation; 0 where it is constant."""
    spread = values.std(axis=0)
    steady = spread > 1e-12 * np.abs(values).max(axis=0, initial=0.0)
    return np.where(steady, (values - values.mean(axis=0)) / np.where(steady, spread, 1.0), 0.0)


def fuse(values: Float[np.ndarray, "C J"], shares: Float[np.ndarray, " J"]) -> Float[np.ndarray, " C"]:
    """(1/t) log Σ_j w_j exp(t z_j) for every labeling."""
    z = standardised(values)
    top = z.max(axis=1, keepdims=True)
    return top[:, 0] + np.log(np.exp(SHARPNESS * (z - top)) @ shares) / SHARPNESS


class Values(NamedTuple):
    """Statistics of J kernels for the data (first row) and every resample, and the size of a kernel entry."""

    statistics: Float[np.ndarray, "C J"]
    entry: Float[np.ndarray, " J"]  # root mean square of what was summed


def outcome(
    name: str,
    sizes: tuple[int, ...],
    choice: Choice,
    values: Values,
    null: str,
    enumerated: bool,
) -> TestOutcome:
    """The result of a test from the statistics of the data and of every resample."""
    ranked = settled(values.statistics, values.entry)
    z = standardised(ranked)[0]
    members = tuple(
        MemberResult(kernel, float(value), float(out))
        for kernel, value, out in zip(choice.kernels, values.statistics[0], z, strict=True)
    )
    loudest = 0
    combined, shown = ranked[:, 0], values.statistics[:, 0]
    if len(members) > 1:
        combined = shown = fuse(ranked, choice.shares)
        loudest = int(np.argmax(z))
    return TestOutcome(
        statistic=float(shown[0]),
        pvalue=nulls.resampled_pvalue(float(combined[0]), combined[1:]),
        null_distribution=np.sort(shown) if enumerated else shown[1:],
        kernel=members[loudest].kernel,
        effect=members[loudest].statistic,
        name=name,
        null=null,
        sizes=sizes,
        members=members,
        learned=choice.learned,
        enumerated=enumerated,
    )
