"""The wild bootstrap of series: what it needs to know of two samples, and HSIC under it."""

import numpy as np

from kembed.kernels.space import make_space
from kembed.permutation.fusion import Values
from kembed.permutation.gram import Pairs, matrix_pairs, space_pairs
from kembed.permutation.labelings import column_sums
from kembed.permutation.pool import Pool
from kembed.permutation.series import Persistence, crossed, persistence, principal_features
from kembed.testing.procedure import Choice, Procedure

# Rows that remember so many times as long as their last steps show get a note: of 100 rows one in twenty
# autoregressions or fewer, and four in five that keep .95 of the last step under as much noise.
HIDDEN = 2.0


def persistence_of(pool: Pool, choice: Choice, paired: bool) -> list[Persistence]:
    """How two series remember, or the differences of pairs: as the kernel sees it.

    Of several kernels, as one at the median distance sees it, of all columns or of the one that remembers
    longest.
    """
    looks = [choice.one] if len(choice.kernels) == 1 else []
    if not looks:
        spaces = [pool.space]
        if len(pool.names) > 1:
            columns = zip(pool.space.values.T, pool.space.categorical, strict=True)
            spaces += [make_space(values[:, None], np.array([kind])) for values, kind in columns]
        looks = [space_pairs(space, np.array([space.median()])) for space in spaces]
    found = []
    for pairs in looks:
        x, y = np.split(principal_features(pairs), [pool.sizes[0]])
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


def _centred(pairs: Pairs, batch: int | None) -> Pairs:
    """The matrix HKH of one kernel."""
    ((_, sums),) = column_sums(pairs, np.zeros((pairs.size, 0)), batch)
    mean = (sums.rows + sums.diagonal) / pairs.size
    whole, diagonal = mean.mean(), sums.diagonal - 2.0 * mean + mean.mean()
    return matrix_pairs(lambda a, b: pairs.rectangles(a, b)[0] - mean[a, None] - mean[b] + whole, diagonal)


def product_pairs(left: Pairs, right: Pairs) -> Pairs:
    """The matrix K ∘ L of two kernels."""
    diagonal = left.diagonals[0] * right.diagonals[0]
    return matrix_pairs(lambda a, b: left.rectangles(a, b)[0] * right.rectangles(a, b)[0], diagonal)


def wild_values(left: Pairs, right: Pairs, procedure: Procedure) -> Values:
    """The biased HSIC, the sum of HKH ∘ HLH over n², with rows weighted by a wild process."""
    product = product_pairs(_centred(left, procedure.batch), _centred(right, procedure.batch))
    how = crossed(principal_features(left), principal_features(right))
    # Products of features are many: with the tails of a t rejections are too few (`benchmarks/series.py`).
    (W,) = procedure.wild_columns([product.size], [how], tails=False)
    ((quadratic, sums),) = column_sums(product, W, procedure.batch)
    values = (quadratic + sums.diagonal @ W**2) / product.size**2
    return Values(values[:, None], np.array([sums.usual]))
