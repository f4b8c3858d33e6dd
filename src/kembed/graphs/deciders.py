"""The one interface between a graph search and any conditional test, and two simple tests behind it."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np

from kembed.conditional.linear import LEAST_FREEDOM, NOTHING_LEFT, correlations, fisher_z, left_over
from kembed.core.backend import Float, Int

Set = tuple[int, ...]
Columns = Float[np.ndarray, "n p"]


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
        self._resampled, self._correlation = resampled, correlations(values)
        constant = np.diagonal(self._correlation) == 0.0
        if constant.any() and not resampled:
            seen = f"column {names[int(np.argmax(constant))]!r} is constant over {len(values)} rows"
            raise ValueError(f"{seen}, so it has no correlation; drop it")

    def pvalue(self, i: int, j: int, given: Set) -> float:
        """The p-value of no partial correlation."""
        left, rank = left_over(self._correlation, [i, j], list(given))
        freedom = self.n_rows - rank - LEAST_FREEDOM
        if freedom <= 0:
            raise ValueError(
                f"{self.n_rows} rows are too few to test {self._titles((i, j))} given {self._titles(given)}: "
                f"Fisher's z needs at least {rank + 4}; set max_given to at most {self.n_rows - 4}, "
                "or give more rows"
            )
        if np.diagonal(left).min() >= NOTHING_LEFT:
            return fisher_z(left, freedom).pvalue
        if self._resampled:
            return 1.0
        name = self.names[(i, j)[int(np.argmin(np.diagonal(left)))]]
        raise ValueError(
            f"column {name!r} is a linear function of {self._titles(given)}, so that there is no partial "
            "correlation; drop one of these columns"
        )

    def on_rows(self, rows: Int[np.ndarray, " m"]) -> "FisherZ":
        """The same on some of the rows."""
        return FisherZ(self._values[rows], self.names, resampled=True)

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
