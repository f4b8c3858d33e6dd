"""Repeated rows: copies in one sample change no density, but no other rows occur twice.

Which rows agree is known only with all of them in memory.
"""

import numpy as np

from kembed.core.backend import Bool, Float
from kembed.features.members import FeatureMember, Group, Named, OfSample, separate
from kembed.features.rows import Sample
from kembed.tables.diagnostics import fingerprints

TITLE = "repeated rows"
MOST_REPEATED = 0.5  # of the pooled rows: where more agree, values are rounded or few, and rows are no copies


def fit(sample: Sample) -> Group | None:
    """Whether a row occurs more than once among all rows; nothing where some of them are elsewhere."""
    if not sample.complete:
        return None
    repeated = is_repeated(sample.values).astype(float)
    if not 0.0 < repeated.mean() <= MOST_REPEATED:
        return None
    table = (repeated - repeated.mean())[:, None]
    return separate(TITLE, (FeatureMember(OfSample(table), 1, (1,)),), (Named(TITLE),))


def is_repeated(values: Float[np.ndarray, "N D"]) -> Bool[np.ndarray, " N"]:
    """Which rows occur more than once."""
    _, which, counts = np.unique(fingerprints(values), return_inverse=True, return_counts=True)
    return np.asarray(counts[which] > 1)
