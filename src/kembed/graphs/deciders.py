"""The one interface between a graph search and any conditional test, and two simple tests behind it."""

import math
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np

from kembed.core.backend import Float, Int
from kembed.core.linalg import near_one

Set = tuple[int, ...]
Columns = Float[np.ndarray, "n p"]
# Shares of variance below this are rounding: the correlations themselves carry about 1e-15 per row.
NOTHING_LEFT = 1e-10
ROUNDING = 1e-15  # a range below this share of the numbers is some of their last digits


@runtime_checkable
class Decider(Protocol):
    """A conditional independence test of the numbered variables of one table."""

    names: tuple[str, ...]

    def pvalue(self, i: int, j: int, given: Set) -> float:
        """The p-value of "i and j are independent given these"; the same however these are ordered."""
        ...

    def on_rows(self, rows: Int[np.ndarray, " m"]) -> "Decider":
        """The same test on some of the rows."""
        ...


class FisherZ:
    r"""Partial correlation r of n rows given k columns: p = 2 Φ(-√(n - k - 3) |artanh r|).

    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=200)
    >>> x, y = z + rng.normal(size=200), z + rng.normal(size=200)
    >>> test = FisherZ(np.column_stack([x, y, z]), ("x", "y", "z"))
    >>> print(f"{test.pvalue(0, 1, ()):.4f} {test.pvalue(0, 1, (2,)):.4f}")
    0.0000 0.3923
    """

    def __init__(self, values: Columns, names: tuple[str, ...], *, resampled: bool = False) -> None:
        self.names, self.n_rows, self._values = names, len(values), values
        # What varies among all rows may not among some of them: it then tells nothing about anything.
        self._resampled = resampled
        ranges = np.ptp(values, axis=0)
        self._constant = ranges <= ROUNDING * np.abs(values).max(axis=0)
        centred = near_one(values)
        centred -= centred.mean(axis=0)
        spread = np.sqrt((centred**2).sum(axis=0))
        if self._constant.any() and not resampled:
            name = names[int(np.argmax(self._constant))]
            seen = f"column {name!r} is constant over {len(values)} rows, so it has no correlation"
            raise ValueError(f"{seen}; drop it")
        unit = centred / np.where(self._constant, 1.0, spread)
        self._correlation = unit.T @ unit

    def pvalue(self, i: int, j: int, given: Set) -> float:
        """The p-value of no partial correlation."""
        if self._constant[i] or self._constant[j]:
            return 1.0
        r, rank = self._partial(i, j, tuple(c for c in given if not self._constant[c]))
        freedom = self.n_rows - rank - 3
        if freedom <= 0:
            raise ValueError(
                f"{self.n_rows} rows are too few to test {self._titles((i, j))} given {self._titles(given)}: "
                f"Fisher's z needs at least {rank + 4}; set max_given to at most {self.n_rows - 4}, "
                "or give more rows"
            )
        return 0.0 if abs(r) >= 1.0 else math.erfc(math.sqrt(freedom / 2.0) * abs(math.atanh(r)))

    def on_rows(self, rows: Int[np.ndarray, " m"]) -> "FisherZ":
        """The same on some of the rows."""
        return FisherZ(self._values[rows], self.names, resampled=True)

    def _partial(self, i: int, j: int, given: Set) -> tuple[float, int]:
        """The correlation of what the given columns leave of i and j, and how many of these count."""
        ends, inner = [i, j], list(given)
        left = self._correlation[np.ix_(ends, ends)]
        rank = 0
        if inner:
            among, across = self._correlation[np.ix_(inner, inner)], self._correlation[np.ix_(inner, ends)]
            values, vectors = np.linalg.eigh(among)
            kept = values > NOTHING_LEFT * values[-1]  # redundant conditioners add nothing
            rank = int(kept.sum())
            part = (vectors[:, kept].T @ across) / np.sqrt(values[kept])[:, None]
            left = left - part.T @ part
        for place, end in enumerate(ends):
            if left[place, place] < NOTHING_LEFT:
                if self._resampled:
                    return 0.0, rank
                raise ValueError(
                    f"column {self.names[end]!r} is a linear function of {self._titles(given)}, so that "
                    "there is no partial correlation; drop one of these columns"
                )
        return float(left[0, 1] / math.sqrt(left[0, 0] * left[1, 1])), rank

    def _titles(self, columns: Set) -> str:
        return ", ".join(repr(self.names[c]) for c in columns) or "nothing"


class FunctionDecider:
    """A user's function test(x, y, given) of arrays (n, 1), (n, 1) and (n, k), as a `Decider`.

    It returns a p-value, or an object that has one as `.pvalue`.
    """

    def __init__(self, function: Callable[..., Any], values: Columns, names: tuple[str, ...]) -> None:
        self.names, self.n_rows = names, len(values)
        self._function, self._values = function, values

    def pvalue(self, i: int, j: int, given: Set) -> float:
        """What the function says about these columns."""
        x, y, inner = (self._values[:, list(columns)] for columns in ((i,), (j,), given))
        found = self._function(x, y, inner)
        found = getattr(found, "pvalue", found)
        try:
            return float(found)
        except (TypeError, ValueError):
            raise TypeError(
                "test must return a p-value or an object with .pvalue, but it returned "
                f"{found!r} for {self.names[i]!r} and {self.names[j]!r}"
            ) from None

    def on_rows(self, rows: Int[np.ndarray, " m"]) -> "FunctionDecider":
        """The same function on some of the rows."""
        return FunctionDecider(self._function, self._values[rows], self.names)


class Remembered:
    """The p-values of a `Decider`, each computed once and checked."""

    def __init__(self, decider: Decider) -> None:
        self.decider = decider
        self.known: dict[tuple[int, int, Set], float] = {}

    def pvalue(self, i: int, j: int, given: Set) -> float:
        """The p-value, asked for with the smaller number first and the set sorted."""
        key = (min(i, j), max(i, j), tuple(sorted(given)))
        if key not in self.known:
            found = float(self.decider.pvalue(*key))
            if not 0.0 <= found <= 1.0:
                names = self.decider.names
                inner = ", ".join(repr(names[c]) for c in key[2]) or "nothing"
                raise ValueError(
                    f"the test of {names[key[0]]!r} and {names[key[1]]!r} given {inner} returned {found:g}, "
                    "which is no p-value; it must lie between 0 and 1"
                )
            self.known[key] = found
        return self.known[key]
