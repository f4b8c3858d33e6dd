"""An effect size for people: the AUC of the witness, judged on rows it has not seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kembed.core.ordering import sorted_rows
from kembed.embeddings.empirical import empirical
from kembed.kernels.base import Kernel

if TYPE_CHECKING:
    from kembed.comparing.difference import Samples

ROWS = 2_000  # of each sample: the standard error of an AUC is then at most .01


def separation(samples: Samples, kernel: Kernel, seed: int) -> float:
    """The AUC (area under the ROC curve) of the witness w as a score that tells rows of x from rows of y.

    It is P{w(X) > w(Y)} + ½ P{w(X) = w(Y)} for a random row of either sample: given one row of each, how
    often their values tell which is which. ½ says that rows tell nothing, 1 that they always do. Rows are
    split at random into halves, each half is judged by the empirical witness of the other, and the two are
    averaged. At most 2,000 rows of each sample are used.
    """
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(seed)
    chosen = [sorted_rows(rows)[rng.permutation(len(rows))[:ROWS]] for rows in samples]
    found = []
    for fold in (0, 1):
        x, y = (rows[fold::2] for rows in chosen)
        mu, nu = (empirical(rows[1 - fold :: 2], kernel) for rows in chosen)
        judged = np.concatenate([x, y])
        is_x = np.arange(len(judged)) < len(x)
        found.append(roc_auc_score(is_x, mu.mean(judged) - nu.mean(judged)))
    return float(np.mean(found))
