"""Repeated rows: copies in one sample change no density, but no other rows occur twice.

Which rows agree is known only with all of them at hand, so there is no such member for rows beyond memory.
"""

import numpy as np

from kembed.core.backend import Bool, Float
from kembed.permutation.blocks import Blocks
from kembed.tables.diagnostics import fingerprints
from kembed.testing.members.group import Group, Named, alone
from kembed.testing.members.rows import Rows

TITLE = "repeated rows"
MOST_REPEATED = 0.5  # of the pooled rows: where more agree, values are rounded or few, and rows are no copies


def fit(rows: Rows) -> Group | None:
    """Whether a row occurs more than once among all rows; nothing where some of them are elsewhere."""
    if not rows.complete:
        return None
    repeated = is_repeated(rows.space.values).astype(float)
    if not 0.0 < repeated.mean() <= MOST_REPEATED:
        return None
    columns = (repeated - repeated.mean())[:, None]
    return alone(TITLE, (Blocks(columns, 1, (1,), centred=True),), (Named(TITLE),))


def is_repeated(values: Float[np.ndarray, "N D"]) -> Bool[np.ndarray, " N"]:
    """Which rows occur more than once."""
    _, which, counts = np.unique(fingerprints(values), return_inverse=True, return_counts=True)
    return np.asarray(counts[which] > 1)
