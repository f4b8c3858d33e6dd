"""Features in whole steps: sums of them are exact, in any order and on any machine, and small on disk.

A feature φ becomes step · round(φ/step), the same function of a row whoever asks. The step is a power of 2,
so that sums of whole numbers of steps have no rounding: a test against sums that were kept is exact to the
last digit, sketches add up without error, and a file holds whole numbers.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kembed.core.backend import Float
from kembed.testing.members.fresh import Fresh

DIGITS = 14  # binary ones of a feature's spread: a step is 1/16,384 of it, far below what a sample tells
# Of the largest feature beside it: what is fainter in these rows may be rounding, and as large as others in
# the next. Sums of eight billion rows are then whole numbers of 64 bits.
FAINTEST = 2.0**-16


@dataclass(frozen=True, eq=False)
class Rounded:
    """A map of features, each a whole number of its steps."""

    features: Any
    steps: Float[np.ndarray, " p"]

    def __call__(self, rows: Fresh) -> Any:
        """Of these rows."""
        found = self.features(rows)
        if hasattr(found, "toarray"):  # indicators are whole numbers already
            return found
        found = np.rint(found / self.steps)
        found *= self.steps
        return found


def rounded(features: Any, rows: Fresh) -> Rounded:
    """A map of features with steps that these rows decide."""
    found = features(rows)
    if hasattr(found, "toarray"):
        return Rounded(features, np.ones(found.shape[1]))
    spread = found.std(axis=0)
    size = np.abs(found).max(axis=0, initial=0.0)
    spread = np.where(spread > 1e-12 * size, spread, np.where(size > 0.0, size, 1.0))
    spread = np.maximum(spread, FAINTEST * size.max(initial=0.0))
    return Rounded(features, 2.0 ** (np.floor(np.log2(spread)) - DIGITS))
