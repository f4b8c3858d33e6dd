"""Second order: the covariance of whitened features, for heavy tails and rare clusters.

The square of the whitened kernel, (φ(x)ᵀφ(y))², is the kernel of all products φ_a φ_b.
"""

from dataclasses import dataclass

import numpy as np

from kembed.core.backend import Float
from kembed.features.members import FeatureMember, Group, Named, separate
from kembed.features.rows import Rows, Sample
from kembed.features.segments import Segments

RATIO, RIDGE = 2.0, 1e-2  # of the median distance, and of the trace
FEATURES = 20  # the largest; the rest adds nothing that `benchmarks/power.py` could see


def fit(sample: Sample) -> Group:
    """All products of the largest whitened features."""
    spectrum = sample.spectrum(RATIO * sample.median)
    kept = spectrum.whitening(RIDGE)[:, -FEATURES:]  # the largest are those that vary most
    count = kept.shape[1] * (kept.shape[1] + 1) // 2
    member = FeatureMember(Covariance(RATIO * sample.median, spectrum.mean @ kept, kept), count, (count,))
    return separate("second order", (member,), (Named("covariance of whitened features"),), whole=True)


def _products(features: Float[np.ndarray, "N r"]) -> Float[np.ndarray, "N p"]:
    count = features.shape[1]
    twice = np.sqrt(2.0) * features
    products = np.empty((len(features), count * (count + 1) // 2))
    place = 0
    for j in range(count):  # a product with each of those after it counts twice
        np.multiply(features[:, j], features[:, j], out=products[:, place])
        np.multiply(features[:, j, None], twice[:, j + 1 :], out=products[:, place + 1 : place + count - j])
        place += count - j
    return products


@dataclass(frozen=True, eq=False)
class Covariance:
    """Products of whitened features about their mean."""

    lengthscale: float
    centre: Float[np.ndarray, " r"]  # of the whitened features
    linear: Float[np.ndarray, "m r"]

    def __call__(self, rows: Rows) -> Float[np.ndarray, "b p"]:
        """Of these rows."""
        return _products(self._whitened(rows))

    def sums(self, rows: Rows, segments: Segments) -> Float[np.ndarray, "k p"]:
        """Sums of the products by bin, which are not written out where bins have many rows."""
        if segments.few:
            return segments.sums(self(rows))
        found = segments.products(self._whitened(rows))
        j, k = np.triu_indices(found.shape[1])
        return found[:, j, k] * np.where(j == k, 1.0, np.sqrt(2.0))

    def _whitened(self, rows: Rows) -> Float[np.ndarray, "b r"]:
        found = rows.gaussian(self.lengthscale) @ self.linear
        found -= self.centre
        return found
