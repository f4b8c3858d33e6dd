"""Tables, and lists of them, checked as scikit-learn does and read as kembed does."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_array, column_or_1d, validate_data

from kembed.core import checks
from kembed.core.backend import Float
from kembed.core.text import counted, listing
from kembed.core.text import rows as counted_rows
from kembed.tables.bags import Bags
from kembed.tables.reader import read_tables


def validated_table(estimator: Any, X: Any, *, reset: bool, minimum: int) -> Any:
    """A table as the reader takes it, checked as scikit-learn does where it holds numbers alone."""
    checks.choice(estimator.nan_policy, "nan_policy", ("raise", "omit"))
    X = checks.some_rows(X, "X")
    if isinstance(X, dict):  # a table that scikit-learn does not know
        return read_tables({"X": X}, estimator.nan_policy, minimum=minimum) and X
    if hasattr(X, "columns") or _has_text(X):
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        read_tables({"X": X}, estimator.nan_policy, minimum=minimum)
        return X
    finite = True if estimator.nan_policy == "raise" else "allow-nan"
    options = {"ensure_all_finite": finite, "ensure_min_samples": minimum}
    with np.errstate(invalid="ignore", over="ignore"):  # scikit-learn looks for gaps by adding up
        return validate_data(estimator, X, reset=reset, dtype=np.float64, **options)


def as_tables(X: Any) -> list[Any] | None:
    """The bags as they were given; None if X is itself a table, one point a bag."""
    if isinstance(X, np.ndarray) and X.ndim != 1:
        return list(X) if X.ndim == 3 else None
    if not isinstance(X, list | tuple | np.ndarray) or not len(X):
        return None
    try:
        ndims = {np.ndim(bag) for bag in X}
    except ValueError:  # a ragged bag: scikit-learn says so
        return None
    if 2 in ndims:
        if ndims != {2}:
            i = next(i for i, bag in enumerate(X) if np.ndim(bag) != 2)
            seen = f"X[{i}] has {np.ndim(X[i])} dimension(s) where other bags are (n_i, D) tables"
            raise ValueError(f"{seen}; give every bag as a table, x.reshape(-1, 1) if it has one column")
        return list(X)
    if ndims == {1} and all(isinstance(bag, np.ndarray) for bag in X):
        remedy = "write [x.reshape(-1, 1) for x in X] for bags, np.array(X) for one point a bag"
        raise ValueError(f"X is a list of vectors, which may be bags of numbers or points; {remedy}")
    return None


def _has_text(X: Any) -> bool:
    """Whether lists or arrays hold text; not what scikit-learn refuses (sparse matrices, ragged lists)."""
    if getattr(getattr(X, "dtype", None), "kind", "O") in "biufc" or hasattr(X, "nnz"):
        return False
    try:
        entries = np.asarray(X, dtype=object)
    except ValueError:  # ragged: scikit-learn says so
        return False
    return any(isinstance(entry, str) for entry in entries.ravel())


def targets_of(y: Any, bags: Bags, listed: bool) -> Float[np.ndarray, " B"]:
    """One number a bag, from one for each bag or each row, or from a dictionary or Series of named bags.

    Where bags are not `listed` but named by a column, numbers without names may be meant in another order.
    """
    count, rows = len(bags.names), len(bags.given)
    if hasattr(y, "iloc") and hasattr(y, "index") and len(y) != rows and not listed:
        y = dict(zip(y.index, y, strict=True))
    if isinstance(y, dict):
        missing = [name for name in bags.names if name not in y]
        if missing:
            raise ValueError(f"y has no value for {listing(missing, 3)}; give one for every bag")
        return _numbers([y[name] for name in bags.names])
    values = _numbers(y)
    if len(values) == count and (listed or count == rows or list(bags.names) == sorted(bags.names)):
        return values
    if len(values) == rows and not listed:
        first = values[np.unique(bags.given, return_index=True)[1]]
        other = np.flatnonzero(values != first[bags.given])
        if len(other):
            name, both = bags.names[bags.given[other[0]]], (first[bags.given[other[0]]], values[other[0]])
            seen = f"y has {both[0]:g} and {both[1]:g} in bag {name!r}"
            raise ValueError(f"{seen}; give one value a bag, such as their mean")
        return first
    if len(values) == count:
        seen = f"y has one value for each of {counted(count, 'bag')}, but not which bag each belongs to"
        raise ValueError(f"{seen}; give a dictionary {{bag: value}}, or the name of a column")
    wanted = f"X has {counted(count, 'bag')}" + ("" if listed else f" of {counted_rows(rows)} in all")
    raise ValueError(f"y has {counted(len(values), 'value')}, but {wanted}; give one value a bag")


def _numbers(y: Any) -> Float[np.ndarray, " k"]:
    return column_or_1d(check_array(y, ensure_2d=False, dtype=np.float64, input_name="y"), warn=True)
