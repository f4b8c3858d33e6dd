"""Second order: the covariance of whitened features, for heavy tails and rare clusters.

The square of the whitened kernel, (φ(x)ᵀφ(y))², is the kernel of all products φ_a φ_b.
"""

import numpy as np

from kembed.permutation.blocks import Blocks
from kembed.testing.members.group import Group, Named, alone
from kembed.testing.members.rows import Rows

RATIO, RIDGE = 2.0, 1e-2  # of the median distance, and of the trace
FEATURES = 20  # the largest; the rest adds nothing that `benchmarks/power.py` could see


def two_sample(rows: Rows) -> Group:
    """All products of the largest whitened features."""
    features = rows.embedded(RATIO * rows.median, RIDGE).columns
    kept = np.sort(np.argsort(-np.square(features).sum(axis=0), kind="stable")[:FEATURES])
    a, b = np.triu_indices(len(kept))
    products = features[:, kept[a]] * features[:, kept[b]]
    products *= np.where(a == b, 1.0, np.sqrt(2.0))
    products -= products.mean(axis=0)
    members = (Blocks(products, len(a), (len(a),), centred=True),)
    return alone("second order", members, (Named("covariance of whitened features"),), whole=True)
