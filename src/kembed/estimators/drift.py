"""Has a new batch drifted from the reference? `DriftDetector`."""

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from kembed.core import checks
from kembed.core.store import FileError, read_store, write_store
from kembed.core.text import listing, printable
from kembed.core.threads import few_rows_one_thread
from kembed.estimators.validation import validated_table
from kembed.tables.reader import read, read_tables
from kembed.testing.margin import read_margin
from kembed.testing.outcome import TestOutcome
from kembed.testing.sketch import DETECTOR, Sketch
from kembed.testing.specification import known
from kembed.testing.two_sample import mmd_test, with_margin

MINIMUM_ROWS = 2  # that a test takes of either sample
# Rows of a reference from which on batches are compared with a sketch of it: a test of all rows takes longer.
MANY = 20_000
KEPT = 5_000  # rows that are kept of it beside the sketch
NAMES = ("n_features_in_", "feature_names_in_")  # what scikit-learn asks of later tables


class DriftDetector(BaseEstimator):  # type: ignore[misc]
    """Keep a reference sample, and test whether new batches come from the same distribution.

    Each batch is one question with one answer: `predict(X)` is True if the batch as a whole drifted, unlike
    scikit-learn's outlier detectors, which label every row. The test is exact at any size of batch: over
    references and batches together at most a share `alpha` of batches that have not drifted is called so. For
    one given reference the share is near alpha only if the reference is much larger than the batches: a small
    one is itself a chance draw, and all its batches are compared with that.

    Of a reference of 20,000 rows and more a `Sketch` is made, and batches are compared with that, in a time
    that does not depend on its rows. `save` and `load` keep a detector in a file: the sketch, or the rows
    where they are fewer. `compare` and `witness` explain an alarm, also of a loaded detector: a sketch keeps
    5,000 rows for pictures and regions.

    Parameters
    ----------
    kernel
        As in `mmd_test`: `"fused"`, `"bkl"`, `"median"`, a kernel object, a function, or a list of these.
    alpha
        The share of false alarms per batch.
    n_resamples
        How many relabelings; the smallest p-value is 1/(n_resamples + 1).
    strata
        The name of a column: batches are compared with the reference within its strata (a site, a weekday),
        as in `mmd_test`, whatever their shares are. The reference is then kept as rows.
    margin
        The largest difference that does not matter, as for `mmd_test`: a batch has drifted only if it differs
        beyond that. It needs the rows of the reference: a loaded detector that has a sketch refuses it.
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
        strata: str | None = None,
        margin: Any = None,
        nan_policy: str = "raise",
        random_state: Any = None,
    ) -> None:
        self.kernel, self.alpha, self.n_resamples, self.strata = kernel, alpha, n_resamples, strata
        self.margin, self.nan_policy, self.random_state = margin, nan_policy, random_state

    @few_rows_one_thread
    def fit(self, X: Any, y: Any = None) -> Self:
        """Keep X as the reference; y is not looked at."""
        checks.level(self.alpha, "alpha")
        checks.reachable(self.alpha, checks.resamples(self.n_resamples))
        if self.margin is not None:
            read_margin(self.margin)
        table = self._table(X, reset=True)
        self.sketch_: Sketch | None = None
        if self.strata is not None:
            self._without_strata(table)  # refuses what is no column
        elif len(table) >= MANY:
            how: Any = {"kernel": self.kernel, "nan_policy": self.nan_policy}
            self.sketch_ = Sketch.of(table, rng=checks.as_rng(self.random_state), keep_rows=KEPT, **how)
        self.reference_ = copy.deepcopy(table)
        return self

    @few_rows_one_thread
    def test(self, X: Any, *, by_column: bool = False) -> TestOutcome:
        """The test of the batch against the reference; with `by_column` also of every column individually."""
        check_is_fitted(self, "reference_")
        if self.margin is None:
            return self._test(X, by_column)
        margin = read_margin(self.margin)
        if self.reference_ is None:
            seen = f"margin={self.margin!r} needs the rows of the reference, and this detector has a sketch"
            raise ValueError(f"{seen}; use pvalue, set margin=None, or fit it on the reference again")
        given = dict(zip("xy", (self.reference_, self._table(X, reset=False)), strict=True))
        keep = [] if self.strata is None else [self.strata]
        sources = read(given, nan_policy=self.nan_policy, minimum=2, keep=keep)
        return with_margin(self._test(X, by_column), sources, margin, self.alpha, strata=self.strata)

    def _test(self, X: Any, by_column: bool) -> TestOutcome:
        return mmd_test(*self._both(X), by_column=by_column, **self._options())

    def save(self, path: str | Path) -> Path:
        """Write the fitted detector to a file, atomically: arrays and JSON, no code."""
        check_is_fitted(self, "reference_")
        if not isinstance(self.random_state, int | None):
            seen = f"random_state={self.random_state!r} cannot be written to a file"
            raise TypeError(f"{seen}; give a number, or None for fresh entropy")
        names = {name: np.asarray(getattr(self, name)).tolist() for name in NAMES if hasattr(self, name)}
        if self.sketch_ is not None:
            reference = self.sketch_.parts
        else:
            (table,), _ = read_tables({"reference": self.reference_}, self.nan_policy, minimum=1)
            reference = {"rows": replace(table, index=None)}
        parts = {"params": self.get_params(deep=False), "names": names, "sketched": self.sketch_ is not None}
        return write_store(path, DETECTOR, parts | reference, known())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The detector in a file that `save` has written; nothing in a file is run."""
        parts = read_store(path, DETECTOR, known())
        try:
            made = cls(**parts["params"])
            for name in set(NAMES) & set(parts["names"]):
                value = parts["names"][name]
                setattr(made, name, np.array(value, object) if isinstance(value, list) else value)
            made.sketch_ = Sketch.from_parts(parts, path) if parts["sketched"] else None
            made.reference_ = None if parts["sketched"] else parts["rows"]
        except (KeyError, TypeError, AttributeError, IndexError, ValueError):
            raise FileError(f"{printable(str(path))} does not hold a detector; make it again") from None
        return made

    def _both(self, X: Any) -> tuple[Any, Any]:
        """The reference as batches are compared with it, and a batch."""
        check_is_fitted(self, "reference_")
        return self.sketch_ or self.reference_, self._table(X, reset=False)

    def _options(self) -> dict[str, Any]:
        options = {name: getattr(self, name) for name in ("kernel", "n_resamples", "nan_policy")}
        if self.strata is not None:
            options["strata"] = self.strata
        if self.sketch_ is not None:
            options["kernel"] = self.sketch_.specification.kernel
        return {**options, "rng": checks.as_rng(self.random_state)}

    def pvalue(self, X: Any) -> float:
        """The p-value of "this batch comes from the distribution of the reference"."""
        return float(self._test(X, by_column=False).pvalue)

    def predict(self, X: Any) -> bool:
        """Whether the batch drifted: its p-value is at most `alpha`, and it differs beyond `margin`."""
        result = self.test(X)
        return result.pvalue <= self.alpha if result.margin is None else result.margin.verdict == "different"

    def witness(self, X: Any, **options: Any) -> Any:
        """Where the batch differs from the reference; options as in `kembed.witness`.

        Positive where the reference has more, negative where the batch has.
        """
        from kembed.comparing.witness import witness

        both = tuple(map(self._without_strata, self._both(X)))
        options = {"nan_policy": self.nan_policy, "rng": checks.as_rng(self.random_state), **options}
        return witness(*both, **options)

    def compare(self, X: Any, *, labels: tuple[str, str] = ("reference", "batch")) -> Any:
        """Test, witness, every column and a verdict in words, with `save_report`; see `kembed.compare`."""
        from kembed.comparing.compare import compare

        both, options = self._both(X), self._options()
        options["missing"] = options.pop("nan_policy")
        return compare(*both, labels=labels, alpha=self.alpha, margin=self.margin, **options)

    def _without_strata(self, table: Any) -> Any:
        """A sample without the column of strata, which is not compared."""
        if self.strata is None:
            return table
        (source,) = read({"X": table}, nan_policy="omit", keep=[self.strata])
        names = source.schema.names
        if self.strata not in names:
            seen = f"strata={self.strata!r} is not a column; X has {listing(names)}"
            raise ValueError(f"{seen}; name one of them")
        return source.table().columns([d for d, name in enumerate(names) if name != self.strata])

    def _table(self, X: Any, reset: bool) -> Any:
        """A table as `mmd_test` reads it."""
        return validated_table(self, X, reset=reset, minimum=MINIMUM_ROWS)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = self.nan_policy == "omit"
        return tags
