"""Has a new batch drifted from the reference? `DriftDetector`."""

import copy
from pathlib import Path
from typing import Any, Self

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from kembed.core import checks
from kembed.core.text import rows
from kembed.core.threads import few_rows_one_thread
from kembed.estimators.drift_file import read_detector, write_detector
from kembed.estimators.validation import validated_table
from kembed.testing.outcome import TestOutcome
from kembed.testing.sketch import Sketch
from kembed.testing.two_sample import mmd_test

MINIMUM_ROWS = 2  # that a test takes of either sample
# Rows of a reference from which on batches are compared with a sketch of it: a test of all rows takes longer.
MANY = 20_000


class DriftDetector(BaseEstimator):  # type: ignore[misc]
    """Keep a reference sample, and test whether new batches come from the same distribution.

    Each batch is one question with one answer: `predict(X)` is True if the batch as a whole drifted, unlike
    scikit-learn's outlier detectors, which label every row. The test is exact at any size of batch: over
    references and batches together at most a share `alpha` of batches that have not drifted is called so. For
    one given reference the share is near alpha only if the reference is much larger than the batches: a small
    one is itself a chance draw, and all its batches are compared with that.

    Of a reference of 20,000 rows and more a `Sketch` is made, and batches are compared with that, in a time
    that does not depend on its rows. `save` and `load` keep a detector in a file: the sketch, or the rows
    where they are fewer.

    Parameters
    ----------
    kernel
        As in `mmd_test`: `"fused"`, `"bkl"`, `"median"`, a kernel object, a function, or a list of these.
    alpha
        The share of false alarms per batch.
    n_resamples
        How many relabelings; the smallest p-value is 1/(n_resamples + 1).
    nan_policy
        `"raise"`, or `"omit"` to drop rows with missing values.
    random_state
        Seed of the relabelings; None is fresh entropy for every call.

    Attributes
    ----------
    reference_
        The reference sample; a loaded detector that has a sketch has none.
    sketch_
        The sketch of the reference; None where it has fewer than 20,000 rows.
    n_features_in_, feature_names_in_
        Its columns.

    Notes
    -----
    Tables are arrays or data frames; text and categories are compared as equal or not. With many batches
    false alarms add up: see the how-to page for corrections.

    Examples
    --------
    >>> import numpy as np
    >>> from kembed import DriftDetector
    >>> rng = np.random.default_rng(0)
    >>> detector = DriftDetector(random_state=0).fit(rng.normal(size=(300, 2)))
    >>> detector.predict(rng.normal(size=(100, 2))), detector.predict(rng.normal(size=(100, 2)) ** 3)
    (False, True)
    >>> detector.pvalue(rng.normal(size=(100, 2)) + [0.0, 1.0])
    0.001

    """

    def __init__(
        self,
        *,
        kernel: Any = "fused",
        alpha: float = 0.05,
        n_resamples: int = 999,
        nan_policy: str = "raise",
        random_state: Any = None,
    ) -> None:
        self.kernel, self.alpha, self.n_resamples = kernel, alpha, n_resamples
        self.nan_policy, self.random_state = nan_policy, random_state

    @few_rows_one_thread
    def fit(self, X: Any, y: Any = None) -> Self:
        """Keep X as the reference; y is not looked at."""
        checks.level(self.alpha, "alpha")
        checks.reachable(self.alpha, checks.resamples(self.n_resamples))
        table = self._table(X, reset=True)
        self.sketch_: Sketch | None = None
        if len(table) >= MANY:
            how: Any = {"kernel": self.kernel, "nan_policy": self.nan_policy}
            self.sketch_ = Sketch.of(table, rng=checks.as_rng(self.random_state), **how)
        self.reference_ = copy.deepcopy(table)
        return self

    @few_rows_one_thread
    def test(self, X: Any, *, by_column: bool = False) -> TestOutcome:
        """The test of the batch against the reference; with `by_column` also of every column by itself."""
        check_is_fitted(self, "reference_")
        if self.sketch_ is None:
            return mmd_test(*self._both(X), by_column=by_column, **self._options())
        options = {**self._options(), "kernel": self.sketch_.specification.kernel}
        return mmd_test(self.sketch_, self._table(X, reset=False), by_column=by_column, **options)

    def save(self, path: str | Path) -> Path:
        """Write the fitted detector to a file, atomically: arrays and JSON, no code."""
        check_is_fitted(self, "reference_")
        return write_detector(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The detector in a file that `save` has written; nothing in a file is run."""
        params, fitted = read_detector(path)
        made = cls(**params)
        made.__dict__.update(fitted)
        return made

    def _both(self, X: Any) -> tuple[Any, Any]:
        check_is_fitted(self, "reference_")
        if self.reference_ is None:
            kept = rows(self.sketch_.rows) if self.sketch_ else "its reference"
            seen = f"this detector was loaded with a sketch of {kept} and has no row of them"
            raise ValueError(f"{seen}; use test, predict or pvalue, or fit it on the reference again")
        return self.reference_, self._table(X, reset=False)

    def _options(self) -> dict[str, Any]:
        options = {name: getattr(self, name) for name in ("kernel", "n_resamples", "nan_policy")}
        return {**options, "rng": checks.as_rng(self.random_state)}

    def pvalue(self, X: Any) -> float:
        """The p-value of "this batch comes from the distribution of the reference"."""
        return float(self.test(X).pvalue)

    def predict(self, X: Any) -> bool:
        """Whether the batch drifted: its p-value is at most `alpha`."""
        return self.pvalue(X) <= self.alpha

    def witness(self, X: Any, **options: Any) -> Any:
        """Where the batch differs from the reference; options as in `kembed.witness`.

        Positive where the reference has more, negative where the batch has.
        """
        from kembed.comparing.witness import witness

        options = {"nan_policy": self.nan_policy, "rng": checks.as_rng(self.random_state), **options}
        return witness(*self._both(X), **options)

    def compare(self, X: Any, *, labels: tuple[str, str] = ("reference", "batch")) -> Any:
        """Test, witness, every column and a verdict in words, with `save_report`; see `kembed.compare`."""
        from kembed.comparing.compare import compare

        options = self._options()
        options["missing"] = options.pop("nan_policy")
        return compare(*self._both(X), labels=labels, alpha=self.alpha, **options)

    def _table(self, X: Any, reset: bool) -> Any:
        """A table as `mmd_test` reads it."""
        return validated_table(self, X, reset=reset, minimum=MINIMUM_ROWS)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = self.nan_policy == "omit"
        return tags
