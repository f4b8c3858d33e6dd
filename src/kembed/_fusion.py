"""Several statistics, one permutation test.

Each kernel's statistic is put on one scale: its distance from its mean over *all* labelings, the data's among
them, in standard deviations over the same labelings. A log-sum-exp, close to the largest, combines them, and
the combination is what is compared between the data and the resamples. Every step treats the data and the
resamples alike, so the test stays exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kembed import nulls
from kembed._choice import Choice
from kembed.results import MemberResult, TestOutcome

if TYPE_CHECKING:
    from jaxtyping import Float

# How sharply the log-sum-exp prefers the largest; chosen on the development suite.
SHARPNESS = 2.0


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


def outcome(
    name: str,
    sizes: tuple[int, ...],
    choice: Choice,
    values: Float[np.ndarray, "C J"],
    null: str,
    enumerated: bool,
) -> TestOutcome:
    """The result of a test from the statistics of the data (first row) and of every resample."""
    z = standardised(values)[0]
    members = tuple(
        MemberResult(kernel, float(value), float(out))
        for kernel, value, out in zip(choice.kernels, values[0], z, strict=True)
    )
    loudest = 0
    combined = values[:, 0]
    if len(members) > 1:
        combined = fuse(values, choice.shares)
        loudest = int(np.argmax(z))
    draws = combined[1:]
    return TestOutcome(
        statistic=float(combined[0]),
        pvalue=nulls.resampled_pvalue(float(combined[0]), draws, enumerated=enumerated),
        null_distribution=draws,
        kernel=members[loudest].kernel,
        effect=members[loudest].statistic,
        name=name,
        null=null,
        sizes=sizes,
        members=members,
        learned=choice.learned,
        enumerated=enumerated,
    )
