"""Input validation. Every message names the argument, what was found, and the remedy.

Values that JAX is tracing cannot be looked at; for them only shapes are checked.
"""

from typing import Any

import numpy as np

from kembed.core.backend import as_numpy, is_jax, is_traced, namespace
from kembed.core.text import counted, rows

MOST_RESAMPLES = 1_000_000  # of the fused test of 120 rows: a minute and 3 GB
# What NumPy's kinds of arrays hold that are no numbers.
_KINDS = {"U": "text", "S": "bytes", "M": "dates", "m": "time differences", "c": "complex numbers"}


def rectangular(value: Any, name: str, what: str = "table") -> np.ndarray:
    """Anything as an array; ragged nested lists are refused."""
    if hasattr(value, "toarray") and hasattr(value, "nnz"):
        remedy = f"give {name}.toarray() if it has few columns"
        raise TypeError(f"{name} is a sparse matrix, and kernels compare every entry; {remedy}")
    try:
        return np.asarray(as_numpy(value))
    except (RuntimeError, BufferError) as error:  # a device of its own
        raise TypeError(f"{name} cannot be read as an array ({error}); copy it to the CPU") from None
    except TypeError as error:  # a data frame whose columns have no type in common
        seen = f"{name} cannot be read as an array of one type ({str(error).partition('. ')[0]})"
        raise TypeError(f"{seen}; drop or encode the columns that are not numeric") from None
    except ValueError as error:
        seen = f"{name} is not a rectangular {what} ({error})"
        raise ValueError(f"{seen}; give every row the same number of columns") from None


def some_rows(value: Any, name: str) -> Any:
    """What scikit-learn is to check, as NumPy knows it; what is no table at all is refused by name."""
    found = rectangular(value, name) if isinstance(value, list | tuple) else as_numpy(value)
    if not hasattr(found, "__len__") and not hasattr(found, "__array__"):
        raise TypeError(f"{name} must be an array or a data frame, but {value!r} was given")
    return found


def shape(seen: tuple[int, ...], name: str) -> None:
    """Refuse the shape of what is no table with rows and columns."""
    if len(seen) != 2:
        wanted = f"{name} must have one row per observation and one column per variable"
        raise ValueError(f"{wanted}, but its shape is {tuple(seen)}; reshape it to two dimensions")
    if seen[1] == 0:
        raise ValueError(f"{name} has no columns (shape {tuple(seen)}); give at least one")


def size(left: int, minimum: int, name: str, dropped: str = "") -> None:
    """Refuse too few rows, before or after some were dropped."""
    if left < minimum:
        are = "are" if minimum > 1 else "is"
        remedy = "fill the gaps, or give more rows" if dropped else "give more rows"
        raise ValueError(f"{name} has {rows(left)}{dropped}; at least {minimum} {are} needed: {remedy}")


def _number_array(value: Any, name: str) -> np.ndarray:
    """Anything numeric as float64; text, objects and complex numbers are refused by name."""
    array = rectangular(value, name, "table of numbers")
    if array.dtype.kind in "biuf":
        return array.astype(float)  # a copy: results must not change when the caller's array does
    if array.dtype.kind == "O":
        if array.ndim == 0:
            raise TypeError(f"{name} must hold numbers, but {value!r} was given")
        for place, entry in np.ndenumerate(array):
            try:
                float("no number" if isinstance(entry, str) else entry)
            except (TypeError, ValueError):
                column = f"column {place[1]} of {name}" if len(place) == 2 else name
                missing = entry is None or str(entry) in ("<NA>", "NaT", "nan")
                raise TypeError(
                    f"{name} must hold numbers, but {column} holds "
                    f"{'a missing value' if missing else repr(entry)} (row {place[0]}); "
                    f"{'drop or impute those rows' if missing else 'drop or encode that column'}"
                ) from None
            except OverflowError:
                seen = f"{name} has a number beyond all floats (row {place[0]})"
                raise ValueError(f"{seen}; divide the column by a constant") from None
        return array.astype(float)
    seen = _KINDS.get(array.dtype.kind, f"values of type {array.dtype}")
    what = f"{name} must hold numbers, but it holds {seen}"
    raise TypeError(f"{what}; drop or encode the columns that are not numeric")


def numbers(value: Any, name: str) -> Any:
    """A float array: JAX arrays stay JAX arrays, everything else becomes a NumPy copy."""
    if not is_jax(value):
        return _number_array(value, name)
    if value.dtype.kind == "f":
        return value
    if value.dtype.kind in "biu":
        return value.astype(float)
    raise TypeError(f"{name} must hold numbers, but it holds values of type {value.dtype}")


def points(value: Any, name: str, *, dimension: int | None = None, minimum: int = 1) -> Any:
    """A finite (n, D) float array with at least `minimum` rows; a vector is n points of dimension 1."""
    if value is None:
        raise TypeError(f"{name} is None; give an array with one row per observation")
    array = numbers(value, name)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim == 0:
        raise TypeError(f"{name} must be a table of points, but the number {value!r} was given")
    shape(array.shape, name)
    size(len(array), minimum, name)
    if dimension is not None and array.shape[1] != dimension:
        raise ValueError(
            f"{name} has {counted(array.shape[1], 'column')} where {dimension} "
            f"{'were' if dimension != 1 else 'was'} expected; "
            "give the same variables in the same order everywhere"
        )
    return _finite(array, name)


def one_point(value: Any, name: str, *, dimension: int | None = None) -> Any:
    """One point, a number or a vector, as a (1, D) array."""
    array = numbers(value, name)
    if array.ndim > 1:
        seen = f"{name} must be one point, but its shape is {tuple(array.shape)}"
        raise ValueError(f"{seen}; use gram for tables of points")
    return points(array.reshape(1, -1), name, dimension=dimension)


def _finite(array: Any, name: str) -> Any:
    seen = np.zeros(1) if is_traced(array) else np.asarray(array)
    bad = np.flatnonzero(~np.isfinite(seen).all(axis=tuple(range(1, seen.ndim))))
    if len(bad):
        what = "missing values (NaN)" if np.isnan(seen).any() else "infinite values"
        said = f"{name} has {what} in {len(bad)} of {len(seen)} rows (first: row {bad[0]})"
        raise ValueError(f"{said}; drop or impute those rows")
    return array


def positive(value: Any, name: str, *, ndim: tuple[int, ...] = (0,)) -> Any:
    """A positive finite number (or array of the allowed number of axes)."""
    array = numbers(value, name)
    if array.ndim not in ndim:
        kinds = {0: "a number", 1: "a vector", 2: "a matrix"}
        wanted = f"{name} must be {' or '.join(kinds[axes] for axes in ndim)}"
        raise ValueError(f"{wanted}, but its shape is {tuple(array.shape)}")
    seen = np.ones(1) if is_traced(array) else np.asarray(array)
    if seen.size == 0:
        raise ValueError(f"{name} is empty; give at least one positive number")
    wrong = seen[~(np.isfinite(seen) & (seen > 0))]
    if wrong.size:
        raise ValueError(f"{name} must be positive and finite, but {wrong.flat[0]:g} was given")
    return array


def covariance_factor(value: Any, name: str) -> Any:
    """The lower Cholesky factor of a symmetric positive definite matrix."""
    if is_traced(value):
        return namespace(value).linalg.cholesky(value)
    matrix = _number_array(value, name)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"{name} must be a square matrix, but its shape is {tuple(matrix.shape)}")
    _finite(matrix, name)
    if not np.allclose(matrix, matrix.T, rtol=1e-10, atol=0.0):
        raise ValueError(f"{name} is not symmetric; use (C + C.T) / 2")
    try:
        return np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        seen = f"{name} is not positive definite (smallest eigenvalue {np.linalg.eigvalsh(matrix)[0]:.3g})"
        raise ValueError(f"{seen}; drop redundant columns or add to its diagonal") from None


def vector(value: Any, name: str, length: int) -> Any:
    """A finite vector of the given length."""
    array = numbers(value, name)
    if array.shape != (length,):
        raise ValueError(f"{name} must have shape ({length},), but its shape is {tuple(array.shape)}")
    return _finite(array, name)


def choice(value: Any, name: str, allowed: tuple[str, ...]) -> str:
    """One of the allowed words."""
    if isinstance(value, str) and value in allowed:
        return value
    words = ", ".join(repr(word) for word in allowed)
    raise ValueError(f"{name} must be one of {words}, but {value!r} was given")


def number(value: Any, name: str) -> float:
    """One finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"{name} must be a number, but {value!r} was given")
    if not np.isfinite(value):
        raise ValueError(f"{name} must be finite, but {value!r} was given")
    return float(value)


def level(value: Any, name: str = "level") -> float:
    """A probability strictly between 0 and 1."""
    probability = number(value, name)
    if not 0.0 < probability < 1.0:
        hint = f"; write {probability / 100:g} for {probability:g}%" if 1.0 < probability < 100.0 else ""
        raise ValueError(f"{name} must lie strictly between 0 and 1, but {probability:g} was given{hint}")
    return probability


def reachable(alpha: float, n_resamples: int, name: str = "alpha", count: str = "n_resamples=") -> None:
    """Refuse a level that no p-value of so many resamples can reach."""
    least = 1.0 / (n_resamples + 1)
    if alpha < least * (1.0 - 1e-9):
        seen = f"{name}={alpha:g} is less than {least:g}, the smallest p-value of {n_resamples:,} resamples"
        if alpha * (MOST_RESAMPLES + 1) < 1.0 - 1e-9:
            raise ValueError(f"{seen}; no more than {MOST_RESAMPLES:,} are drawn, so use a larger {name}")
        needed = int(np.ceil(1.0 / alpha - 1e-9)) - 1
        raise ValueError(f"{seen}; use {count}{needed} or more")


def count(value: Any, name: str, minimum: int = 1) -> int:
    """A whole number of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be a whole number, but {value!r} was given")
    if value < minimum:
        raise ValueError(f"{name} must be at least {minimum}, but {value} was given")
    return int(value)


def resamples(value: Any, name: str = "n_resamples") -> int:
    """How many resamples: at least one, and no more than anybody's memory holds."""
    number = count(value, name)
    if number > MOST_RESAMPLES:
        seen = f"{name} must be at most {MOST_RESAMPLES:,}, but {number:,} was given"
        raise ValueError(f"{seen}; p-values then go down to 1e-06, and more would not fit into memory")
    return number


def flag(value: Any, name: str) -> bool:
    """True or False."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise TypeError(f"{name} must be True or False, but {value!r} was given")


def as_rng(random_state: Any) -> Any:
    """scikit-learn's `random_state` as our `rng`: a `RandomState` gives a fresh seed and moves on.

    >>> as_rng(7), as_rng(np.random.RandomState(0)) == as_rng(np.random.RandomState(0))
    (7, True)
    """
    legacy = isinstance(random_state, np.random.RandomState)
    return int(random_state.randint(2**31 - 1)) if legacy else random_state


def generator(rng: Any) -> np.random.Generator:
    """A NumPy generator from None (fresh entropy), an integer seed or a generator."""
    if isinstance(rng, np.random.Generator):
        return rng
    if rng is None or (isinstance(rng, int | np.integer) and not isinstance(rng, bool) and rng >= 0):
        return np.random.default_rng(rng)
    wanted = "rng must be None, a non-negative integer seed or a numpy.random.Generator"
    raise TypeError(f"{wanted}, but {rng!r} was given")
