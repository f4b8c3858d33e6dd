"""The wild bootstrap of series: what it needs to know of two samples, and HSIC under it."""

import numpy as np

from kembed.core.backend import Float
from kembed.features.kernel import KernelMatrix, kernel_matrix
from kembed.kernels.discrete import space_kernel
from kembed.permutation.fusion import Values
from kembed.permutation.pool import Pool
from kembed.permutation.series import Persistence, crossed, persistence, principal_features
from kembed.testing.procedure import Procedure

# Rows that remember so many times as long as their last steps show get a note: of 100 rows one in twenty
# autoregressions or fewer, and four in five that keep .95 of the last step under as much noise.
HIDDEN = 2.0


def persistence_of(pool: Pool, matrices: tuple[KernelMatrix, ...], paired: bool) -> list[Persistence]:
    """How two series remember, or the differences of pairs: as the kernel sees it.

    Of several kernels, as one at the median distance sees it, of all columns or of the one that remembers
    longest.
    """
    if len(matrices) != 1:
        spaces = [pool.space]
        if len(pool.names) > 1:
            spaces += [pool.space.column(c) for c in range(len(pool.names))]
        matrices = tuple(kernel_matrix(space_kernel(each, each.median()), each.values) for each in spaces)
    found = []
    for matrix in matrices:
        x, y = np.split(principal_features(matrix), [pool.sizes[0]])
        found.append([persistence(x - y)] if paired else [persistence(x), persistence(y)])
    return [max(of_one, key=lambda how: how.mean_variance) for of_one in zip(*found, strict=True)]


def hidden_notes(series: list[Persistence], labels: list[str]) -> tuple[str, ...]:
    """What to know where a noise on top of something slow hides how long rows remember."""
    names = labels if len(series) == 2 else ["the differences of pairs"]
    slow = [name for name, how in zip(names, series, strict=True) if how.hidden >= HIDDEN]
    if not slow:
        return ()
    seen = f"rows of {' and '.join(slow)} remember longer than neighbours show, as under noise"
    return (f"{seen}; p-values of null='wild' are then too small, so test means of several rows in a row",)


def wild_values(left: KernelMatrix, right: KernelMatrix, procedure: Procedure) -> Values:
    """The biased HSIC, the sum of HKH ∘ HLH over n², with rows weighted by a wild process."""
    product = _centred(left.whole()) * _centred(right.whole())
    how = crossed(principal_features(left), principal_features(right))
    # Products of features are many: with the tails of a t rejections are too few (`benchmarks/series.py`).
    (W,) = procedure.wild_columns([len(product)], [how], tails=False)
    values = np.einsum("ic,ic->c", W, product @ W) / len(product) ** 2
    return Values(values[:, None], np.array([float(np.sqrt(np.mean(np.square(product))))]))


def _centred(K: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
    """HKH."""
    mean = K.mean(axis=0)
    return K - mean - mean[:, None] + mean.mean()
