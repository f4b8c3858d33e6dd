"""How well rows tell their samples apart: the AUC of the witness on rows that it has not seen."""

import numpy as np

from kembed.comparing.difference import Samples
from kembed.comparing.effects import superiority
from kembed.core.ordering import comes_before, sorted_rows
from kembed.embeddings.empirical import row_blocks
from kembed.kernels.base import Kernel

ROWS = 1_000  # of each sample: the standard error of an AUC is then at most .013
SPLITS = 10  # of the rows into halves: chance moves the mean of so many by a fraction of that
# Of the splits, whatever the seed of the test is: the AUC is a function of the samples.
SEED = 1_722_792_823


def separation(samples: Samples, kernel: Kernel, seed: int = SEED) -> float:
    """The AUC (area under the ROC curve) of the witness w as a score that tells rows of x from rows of y.

    It is P{w(X) > w(Y)} + ½ P{w(X) = w(Y)} for a random row of either sample: given one row of each, how
    often their values tell which is which. ½ says that rows tell nothing, 1 that they always do. Rows are
    split at random into halves, each half is judged by the empirical witness of the other, and this is
    averaged over ten splits. At most 1,000 rows of each sample are used. Neither the order of rows nor that
    of the samples matters, and the splits have a seed of their own.
    """
    parts = [sorted_rows(rows) for rows in samples]
    if comes_before(parts[1], parts[0]):  # both are judged alike, so the AUC of (y, x) is that of (x, y)
        parts = parts[::-1]
    rng = np.random.default_rng(seed)
    parts = [rows[np.sort(rng.permutation(len(rows))[:ROWS])] for rows in parts]
    n, m = map(len, parts)
    rows = np.concatenate(parts)
    second = np.hstack([_halves(n, rng), _halves(m, rng)])  # who is in the second half, split by split
    weights = np.empty((2 * SPLITS, n + m))
    for half, members in enumerate((~second, second)):
        own = members.astype(float)
        own[:, :n] /= own[:, :n].sum(axis=1, keepdims=True)
        own[:, n:] /= -own[:, n:].sum(axis=1, keepdims=True)
        weights[half::2] = own
    scores = np.concatenate([kernel._gram(rows[some], rows) @ weights.T for some in row_blocks(n + m, n + m)])
    found = []
    for split, places in enumerate(second):
        for half in (0, 1):  # judged by the other half
            judged = places if half == 0 else ~places
            score = scores[:, 2 * split + half]
            found.append(superiority(score[n:][judged[n:]], score[:n][judged[:n]]))
    return float(np.mean(found))


def _halves(count: int, rng: np.random.Generator) -> np.ndarray:
    """For every split, which rows are in the second half."""
    return np.stack([rng.permutation(count) % 2 == 1 for _ in range(SPLITS)])
