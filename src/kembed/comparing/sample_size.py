"""How many rows a test needs: power at several numbers of rows, drawn from pilot data."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kembed.core import checks
from kembed.core.backend import Float
from kembed.core.drawing import Drawn
from kembed.core.progress import LONG, progress_bar, showing_progress
from kembed.core.threads import few_rows_one_thread
from kembed.core.writing import jsonable
from kembed.tables.reader import read, tables_of
from kembed.tables.source import SAMPLE, in_memory
from kembed.tables.table import Table
from kembed.testing.margin import Margin, read_margin
from kembed.testing.procedure import QUIETLY, read_procedure
from kembed.testing.two_sample import samples_test, with_margin

FEWEST = 10  # rows of a sample that is drawn
SIZES = 5  # numbers of rows that are tried unless they are given
PILOTS = "the difference of the pilot samples"
FREQUENT = 0.05  # share of the rows that have the same value
FAR = 10.0  # standard deviations by which a share of the rows is moved
MOST = 1e7  # rows: more are not asked for
Column = Float[np.ndarray, " n"]
# Curves: Φ(z {(n/h)^c - 1}), which is the level at n = 0 if z is its normal quantile, and .5 at n = h. Tests
# along one direction have c = .5, those of many directions c = 1 where their power is small.
# Verdicts at a margin are never reached with few rows, so that z is larger.
HALVES = np.linspace(np.log(2.0), np.log(MOST), 320)[:, None, None]
EXPONENTS = np.linspace(0.5, 1.0, 6)[:, None]
STEEP = np.geomspace(1.6, 8.0, 8)
LEVELS = np.array([0.05, 0.5, 0.95])


@dataclass(frozen=True)
class PowerCurve(Drawn):
    """How often a test succeeds, by the number of rows of either sample.

    `power` is the share of draws that succeeded at each of `rows`, or, where the pilot data have too few rows
    (`drawn` is False), a curve through the others; `standard_errors` are binomial, or the posterior standard
    deviation of the curve. `needed` are the rows of either sample for the power asked for (`target`), the
    median of the curve's posterior; `interval`, a 90% interval, knows of the draws, not of the pilot data's
    own sampling error. `alpha` is the level of the test, `question` what counts as a success, and `n_draws`
    the draws at every number of rows.
    """

    rows: tuple[int, ...]
    power: tuple[float, ...]
    standard_errors: tuple[float, ...]
    drawn: tuple[bool, ...]
    needed: int
    interval: tuple[int, int]
    target: float
    alpha: float
    question: str
    n_draws: int

    @property
    def words(self) -> str:
        """The answer in a sentence."""
        low, high = self.interval
        target = f"power {self.target:g} at level {self.alpha:g} ({self.question})"
        if self.needed < self.rows[0]:
            return f"Fewer than {self.rows[0]:,} rows per sample are enough for {target}"
        if high >= 0.5 * MOST:
            return f"At least {low:,} rows per sample are needed for {target}; give more pilot rows to know"
        middle = float(f"{self.needed:.2g}")
        answer = f"About {middle:,.0f} rows per sample are needed for {target}; 90% interval {low:,}-{high:,}"
        return f"{answer}, without the error of the pilot samples" if PILOTS in self.question else answer

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON types, with the keys of docs/json.md."""
        each = zip(self.rows, self.power, self.standard_errors, self.drawn, strict=True)
        keys = "rows", "power", "standard_error", "drawn"
        curve = [dict(zip(keys, point, strict=True)) for point in each]
        needed = {"rows_needed": self.needed, "rows_needed_interval": self.interval, "curve": curve}
        asked = {"target_power": self.target, "alpha": self.alpha, "success": self.question}
        return jsonable({**needed, **asked, "draws": self.n_draws})

    def __repr__(self) -> str:
        return f"{self.words}."


@few_rows_one_thread
def required_rows(
    x: Any,
    y: Any = None,
    *,
    shift: str | None = None,
    columns: Sequence[str] | None = None,
    margin: Any = None,
    rows: Sequence[int] | None = None,
    power: float = 0.8,
    alpha: float = 0.05,
    kernel: Any = "fused",
    n_draws: int = 100,
    n_resamples: int = 199,
    rng: Any = None,
    missing: str = "include",
    progress: bool | None = None,
) -> PowerCurve:
    """Estimate how many rows `mmd_test` needs, from pilot data.

    Rows are drawn from the pilot data without replacement and tested, at several numbers of rows. Copies of
    rows, as in a bootstrap, would be evidence of a difference. Beyond half of the pilot data a curve through
    the draws is extrapolated.

    Parameters
    ----------
    x, y : array, data frame, path, or any source that `mmd_test` takes
        Two pilot samples that differ as the samples to come will. Without `y`, one sample: two disjoint parts
        of it are drawn, and the second one is changed as `shift` says.
    shift : str, optional
        With `x` alone: `"0.3 sd"` moves the means of the columns by .3 standard deviations (counts by whole
        steps), `"2%"` moves 2% of the rows by 10 standard deviations.
    columns : list of str, optional
        The numeric columns that `shift` moves; all of them unless given.
    margin : str or float, optional
        As for `mmd_test`. Success is then a verdict at this margin, "different" or "equivalent", and without
        `y` and `shift` the verdict "equivalent" for samples that do not differ.
    rows : list of int, optional
        Numbers of rows of either sample; five up to half of the pilot data unless given.
    power : float, default 0.8
        Probability of success that is asked for.
    alpha, kernel, n_resamples, missing
        Of the test; `missing` is `nan_policy` of `mmd_test`.
    n_draws : int, default 100
        Draws at every number of rows.
    rng : int, numpy.random.Generator or None
        Seed of draws and tests.
    progress : bool, optional
        Whether to show a progress bar; None: on a terminal only.

    Returns
    -------
    PowerCurve
        Power at the numbers of rows, and how many rows are needed.

    Raises
    ------
    ValueError
        If there is nothing to find (one sample without `shift` or `margin`), or too few pilot rows.

    Notes
    -----
    Rows must be independent. At every number of rows the share of successes is an unbiased estimate of the
    power, over pilot samples and draws; draws from few pilot rows share these, so that small pilot samples
    that differ by chance promise too much.

    Examples
    --------
    >>> import numpy as np
    >>> from kembed import required_rows
    >>> pilot = np.random.default_rng(0).normal(size=(100, 2))
    >>> plan = required_rows(pilot, shift="0.8 sd", n_draws=20, rng=0)
    >>> print(plan.question)
    a shift of 0.8 sd in every numeric column at once is found
    >>> print(plan.words)  # doctest: +ELLIPSIS
    About ... rows per sample are needed for power 0.8 at level 0.05 (...); 90% interval ...

    """
    from scipy.special import ndtri

    alpha, power = checks.level(alpha, "alpha"), checks.level(power, "power")
    n_draws = checks.count(n_draws, "n_draws", 10)
    if power <= alpha:
        raise ValueError(f"power must be above alpha, got power={power:g} and alpha={alpha:g}")
    generator = checks.generator(rng)
    procedure = read_procedure("auto", "permutation", n_resamples, None, generator)
    checks.reachable(alpha, procedure.n_resamples)
    limit = None if margin is None else read_margin(margin)
    change = None if shift is None else read_margin(shift)
    if change is not None and change.kind == "MMD/√2":
        raise ValueError(f"shift must be such as '0.3 sd' or '2%', got {shift!r}")
    if y is not None and change is not None:
        raise ValueError("shift changes one pilot sample, but x and y were given; leave y or shift out")
    if y is None and change is None and limit is None:
        raise ValueError("one pilot sample does not differ from itself; give y, shift='0.3 sd' or margin=")
    if columns is not None and change is None:
        raise ValueError("columns says what shift moves, but there is no shift; leave columns out")
    values = {"x": x} if y is None else {"x": x, "y": y}
    with showing_progress(progress), np.errstate(**QUIETLY):
        sources = read(values, nan_policy=missing, minimum=2 * FEWEST)
        tables = [each.sample(SAMPLE)[0] for each in sources] if y is None else tables_of(sources)
        moved = None if change is None else _moved(tables[0], change, columns)
        available = min(len(table.values) for table in tables) // 2
        wanted = sorted({checks.count(size, "rows", FEWEST) for size in rows or ()})
        sizes = [size for size in wanted if size <= available]
        if len(sizes) < 3:  # too few for a curve
            spaced = np.geomspace(FEWEST, available, SIZES).round().astype(int)
            sizes = sorted({*sizes, *spaced.tolist()})

        def succeeds(size: int) -> bool:
            pair = _drawn(tables, size, moved, generator)
            result = samples_test(pair, kernel, procedure)
            if limit is None:
                return result.pvalue <= alpha
            decided = with_margin(result, pair, limit, alpha).margin
            assert decided is not None
            return decided.verdict != "undecided"

        hits = dict.fromkeys(sizes, 0)
        with progress_bar(n_draws * len(sizes), LONG, "drawing from the pilot data", "test") as bar:
            for size in np.repeat(sizes, n_draws).tolist():
                hits[size] += succeeds(size)
                bar.update(1)
    z = np.array([ndtri(1.0 - alpha)]) if limit is None else STEEP
    weights = _posterior(np.array(sizes), np.array(list(hits.values())), n_draws, z)
    shown = sorted({*sizes, *wanted})
    found = [
        _binomial(hits[size], n_draws) if size in hits else _extrapolated(size, weights, z) for size in shown
    ]
    low, needed, high = (round(each) for each in _needed(weights, power, z))
    return PowerCurve(
        rows=tuple(shown),
        power=tuple(share for share, _ in found),
        standard_errors=tuple(error for _, error in found),
        drawn=tuple(size in hits for size in shown),
        needed=needed,
        interval=(low, high),
        target=power,
        alpha=alpha,
        question=_question(change, columns, limit, y is not None),
        n_draws=n_draws,
    )


def _moved(table: Table, change: Margin, columns: Sequence[str] | None) -> Callable[..., Any]:
    """What changes drawn rows."""
    varies = ~table.categorical & (np.ptp(table.values, axis=0) > 0.0)
    numeric = [name for name, own in zip(table.names, varies, strict=True) if own]
    names = numeric if columns is None else [columns] if isinstance(columns, str) else list(columns)
    for name in names:
        if name not in numeric:
            raise ValueError(f"columns has {name!r}; name some of the numeric columns that vary, {numeric}")
    if not names:
        raise ValueError("shift moves numeric columns, and none varies; give y, a second pilot sample")
    places = [table.names.index(name) for name in names]
    pilot = table.values

    def moved(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        values, far = values.copy(), rng.random(len(values)) < change.amount
        for d in places:
            if change.kind == "sd":
                values[:, d] = shifted(values[:, d], pilot[:, d], change.amount, rng)
            else:
                values[far, d] += FAR * pilot[:, d].std()
        return values

    return moved


def shifted(values: Column, pilot: Column, amount: float, rng: np.random.Generator) -> Column:
    """Values whose mean is so many standard deviations higher, and that look like those of the pilot sample.

    Values off the pilot's grid, or its most frequent value elsewhere, would be found at once, whatever the
    shift. So counts move by whole steps of the grid, drawn at random; of two values the lower becomes the
    higher; and where a few values are frequent, these stay and the others move further.
    """
    by = amount * float(pilot.std())
    levels, counts = np.unique(pilot, return_counts=True)
    if len(levels) == 2:
        share = min(by / (levels[1] - levels[0]) / (counts[0] / counts.sum()), 1.0)
        return np.where((values == levels[0]) & (rng.random(len(values)) < share), levels[1], values)
    if len(levels) <= len(pilot) / 2:
        step = float(np.diff(levels).min())
        return values + step * np.floor(by / step + rng.random(len(values)))
    frequent = levels[counts > FREQUENT * len(pilot)]
    free = ~np.isin(values, frequent)
    return values + free * by / max(1.0 - float(np.isin(pilot, frequent).mean()), FREQUENT)


def _drawn(tables: list[Table], size: int, moved: Any, rng: np.random.Generator) -> list[Any]:
    """Two samples of this size, without replacement; of one table disjoint ones."""
    chosen = [rng.permutation(len(table.values))[: 2 * size // len(tables)] for table in tables]
    both = [table.values[rows] for table, rows in zip(tables, chosen, strict=True)]
    first, second = both if len(both) == 2 else np.split(both[0], 2)
    if moved is not None:
        second = moved(second, rng)
    labels = zip((first, second), "xy", strict=True)
    return [
        in_memory(replace(tables[0], values=each, rows=np.arange(size), given=size, label=label, index=None))
        for each, label in labels
    ]


def _curve(size: Any, z: Float[np.ndarray, " z"]) -> Float[np.ndarray, "S h c z"]:
    """Power at numbers of rows, for all halves and exponents."""
    from scipy.special import ndtr

    steps = np.log(np.atleast_1d(size))[:, None, None, None] - HALVES
    return ndtr(z * np.expm1(EXPONENTS * steps))


def _posterior(sizes: Any, hits: Any, n_draws: int, z: Float[np.ndarray, " z"]) -> Float[np.ndarray, "h c z"]:
    """Weights of all curves given binomial successes, under a flat prior."""
    p = np.clip(_curve(sizes, z), 1e-9, 1.0 - 1e-9)
    successes = hits[:, None, None, None]
    logs = (successes * np.log(p) + (n_draws - successes) * np.log1p(-p)).sum(axis=0)
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


def _needed(
    weights: Float[np.ndarray, "h c z"], power: float, z: Float[np.ndarray, " z"]
) -> Float[np.ndarray, " 3"]:
    """5%, 50% and 95% of the rows at which curves reach a power."""
    from scipy.special import ndtri

    rows = np.exp(HALVES + np.log1p(np.maximum(ndtri(power) / z, -1.0)) / EXPONENTS).ravel()
    order = np.argsort(rows)
    below = np.cumsum(weights.ravel()[order])
    return np.minimum(rows[order[np.searchsorted(below, LEVELS)]], MOST)


def _binomial(hits: int, n_draws: int) -> tuple[float, float]:
    """Power at rows that were drawn, and its standard error; 0 of 100 has one too."""
    share = (hits + 0.5) / (n_draws + 1.0)
    return hits / n_draws, float(np.sqrt(share * (1.0 - share) / (n_draws + 1.0)))


def _extrapolated(
    size: int, weights: Float[np.ndarray, "h c z"], z: Float[np.ndarray, " z"]
) -> tuple[float, float]:
    """Power at other numbers of rows, and the standard deviation of the curves there."""
    curve = _curve(size, z)[0]
    mean = float((weights * curve).sum())
    return mean, float(np.sqrt((weights * np.square(curve - mean)).sum()))


def _question(change: Margin | None, columns: Sequence[str] | None, limit: Margin | None, two: bool) -> str:
    """What counts as a success."""
    what = "no difference" if change is None else f"a shift of {change}"
    if change is not None and change.kind == "share":
        what = f"{change} of the rows far out"
    if change is not None and change.kind == "sd" and columns is None:
        what += " in every numeric column at once"
    if columns is not None and change is not None:
        what += f" in {columns if isinstance(columns, str) else ', '.join(columns)}"
    what = PILOTS if two else what
    return f"{what} is found" if limit is None else f"{what} is decided at the margin of {limit}"
