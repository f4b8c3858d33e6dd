"""Watch a stream of batches for a change, with evidence that holds at any time: `Monitor`."""

from copy import copy
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from kembed.core import checks
from kembed.core.backend import Float
from kembed.core.drawing import Drawn
from kembed.core.store import FileError, read_store, write_store
from kembed.core.text import listing, printable
from kembed.core.threads import few_rows_one_thread
from kembed.permutation import nulls
from kembed.permutation.designs import Draws
from kembed.permutation.fusion import Values, combined, fuse
from kembed.permutation.reservoir import Binned, Bins, joined, pooled
from kembed.permutation.sums import StoredSums
from kembed.tables.source import Source
from kembed.testing.anytime import EvidenceProcess
from kembed.testing.direction import Training, coordinates, directions, projected, split
from kembed.testing.engine import evaluate
from kembed.testing.monitor_result import MonitorResult
from kembed.testing.outcome import subjects
from kembed.testing.procedure import QUIETLY
from kembed.testing.sketch import Sketch, as_rows
from kembed.testing.specification import Specification, known, left_out
from kembed.testing.stream import (
    ENOUGH_BATCHES,
    WHOLE,
    Reference,
    Strata,
    Stratum,
    begin,
    bin_batch,
    is_several,
    of_order,
    of_sketch,
    read_reference,
    texts_of,
    width_of,
)

SCALES = ((1, 1 / 2), (4, 1 / 4), (16, 1 / 4))  # batches of a block, and its share of the level
DIRECTED = 1 / 2  # the share of tests in a learned direction, one for each batch
WHOLE_SHARE = 1 / 2  # of the level for all columns together; half of the rest for each, half for pairs
UNITS = ("row", "batch")
RESAMPLES, FINER = 199, 5  # of a test; and times as many where none of them reaches the data
# Of the batches of a reference so many are tried; they differ where chance would do it once in 1,000, and may
# differ where it would once in 20.
LEAST_TRIED, MOST_TRIED = 2, 32
SURE, LEVEL = 0.001, 0.05
LARGEST = 690.0  # logarithm of the largest evidence that is shown: a number of 300 digits
KIND = "monitor"  # of file
PARTS = (  # of a monitor in a file, beside its state
    *("alpha", "mean_time", "by", "unit", "kernel", "n_resamples", "nan_policy"),
    *("seed", "counter", "earlier", "notes", "specification"),
)


class State(NamedTuple):
    """All that changes with a batch."""

    strata: Strata
    processes: tuple[EvidenceProcess, ...]
    labels: tuple[str, ...]  # of the batches since the reference
    evidence: Float[np.ndarray, " t"]  # logarithm, after each of them
    peaks: Float[np.ndarray, " Q"]  # the largest so far, of every hypothesis


class Monitor(Drawn):
    """Watch batches of rows for a change since a reference: few false alarms however long one watches.

    Every batch is compared with everything before it, reference and earlier batches, by an exact permutation
    test under fresh randomness; so are the last 4 and the last 16 batches together. The p-values become
    evidence that holds at any time: if nothing ever changes, the probability that it *ever* reaches 1/alpha
    is at most alpha. With `mean_time` it reaches its threshold once in so many batches on average, or less
    often.

    That holds if rows are exchangeable while nothing changes: no order within a batch, no effect of the batch
    (a day) on all of its rows. Give the batches of the reference (`batches=`), and this is checked. Where
    days differ among themselves take whole batches as units (`unit="batch"`); where weekdays do, compare
    within these (`by=`). The number of rows of a batch must not depend on what is in them.

    Parameters
    ----------
    reference : array_like, data frame, path, Sketch, or list of tables
        Rows from when all was well. A list of tables, or of files, is one batch each. Columns and levels are
        those of the reference; a level that it does not have is evidence.
    alpha : float
        The probability of ever raising a false alarm.
    mean_time : float, optional
        In place of alpha: the mean number of batches between false alarms.
    by : str, optional
        A column, such as the weekday or a site: rows are compared with those of the same value.
    unit : {"row", "batch"}
        What is exchangeable while nothing changes: rows, or only whole batches. The latter needs the batches
        of the reference, 40 or more.
    batches : str, optional
        The column of the reference that says which batch a row belongs to; it is not compared.
    kernel : str, Kernel, callable or list
        As in `mmd_test`.
    n_resamples : int
        Relabelings of a test; five times as many where none of them reaches the data.
    nan_policy : {"raise", "omit"}
        With `"omit"` rows with missing values count for nothing.
    rng : int or numpy.random.Generator
        Seed; tests count on from it, so that no random number is used twice.

    Attributes
    ----------
    result : MonitorResult or None
        That of the last batch.
    notes : tuple of str
        What to know of the reference.

    References
    ----------
    Vovk (2021), "Testing randomness online", Statistical Science 36. Ville (1939), "Étude critique de la
    notion de collectif". Shiryaev (1963), "On optimum methods in quickest detection problems".

    Examples
    --------
    >>> import numpy as np
    >>> from kembed import Monitor
    >>> rng = np.random.default_rng(0)
    >>> monitor = Monitor(rng.normal(size=(500, 2)))
    >>> for day in range(8):
    ...     result = monitor.update(rng.normal(size=(50, 2)), label=f"day {day}")
    >>> print(result)
    No alarm after 8 batches: evidence 0.25, alarm at 20.
    >>> for day in range(8, 12):
    ...     result = monitor.update(rng.normal(size=(50, 2)) + [0.0, 1.0], label=f"day {day}")
    >>> print(result.alarm, result.began, result.columns)
    True day 6 ('column 1',)

    """

    def __init__(
        self,
        reference: Any,
        *,
        alpha: float = 0.05,
        mean_time: float | None = None,
        by: str | None = None,
        unit: str = "row",
        batches: str | None = None,
        kernel: Any = "fused",
        n_resamples: int = RESAMPLES,
        nan_policy: str = "raise",
        rng: Any = 0,
    ) -> None:
        self.alpha = checks.level(alpha, "alpha")
        self.mean_time = None if mean_time is None else checks.number(mean_time, "mean_time")
        if self.mean_time is not None and self.mean_time < 1.0:
            raise ValueError(f"mean_time is a number of batches of at least 1, but {mean_time!r} was given")
        self.by, self.unit = by, checks.choice(unit, "unit", UNITS)
        self.kernel, self.n_resamples = kernel, checks.resamples(n_resamples)
        self.nan_policy = checks.choice(nan_policy, "nan_policy", ("raise", "omit"))
        self.seed, self.counter = int(checks.generator(rng).integers(2**62)), 0
        self.earlier: tuple[str, ...] = ()  # labels of batches before the last restart
        self._begin(reference, batches)

    def _begin(self, reference: Any, batches: str | None) -> None:
        """Fit the features, and start without evidence."""
        rng = self._generator()
        with np.errstate(**QUIETLY):
            if isinstance(reference, Sketch):
                if self.by is not None or self.unit == "batch" or batches is not None:
                    raise ValueError("a sketch has no strata and no batches; give the rows of the reference")
                self._start(reference.specification, {WHOLE: of_sketch(reference)}, ())
            elif self.by is None and batches is None and not is_several(reference) and self.unit == "row":
                source = as_rows(reference, "reference", self.nan_policy)
                sketch = Sketch.of(source, kernel=self.kernel, rng=rng)
                notes = (*source.notes, *of_order(source))
                self._start(sketch.specification, {WHOLE: of_sketch(sketch)}, notes)
            else:
                rows = read_reference(reference, self.by, batches, self.nan_policy)
                notes = (*rows.source.notes, *self._of_batches(rows))
                self._start(*begin(rows, self.unit, self.kernel, rng), notes)

    def _of_batches(self, rows: Reference) -> tuple[str, ...]:
        """What to know of the batches of a reference; refused if they differ and rows are the units.

        The later half of them is watched with the earlier half for a reference.
        """
        from scipy.special import gammaincc

        batches = np.zeros(1, dtype=int) if rows.batches is None else rows.batches
        count = int(batches.max()) + 1
        if self.unit == "batch":
            few = f"the reference has {count} batches; from {ENOUGH_BATCHES} on alarms come sooner"
            return (few,) if count < ENOUGH_BATCHES else ()
        if count < 2 * LEAST_TRIED:
            return of_order(rows.source)
        tried = range(count - min(count // 2, MOST_TRIED), count)
        trial, rng = copy(self), self._generator()
        trial._start(*begin(rows.some(batches < tried[0]), self.unit, self.kernel, rng), ())
        for k in tried:
            batch = rows.some(batches == k)
            trial.state = trial._after(batch.source, batch.strata, str(k), rng)
        pvalues = trial.state.processes[0].pvalues
        small = f"{int((pvalues <= LEVEL).sum())} of {len(pvalues)} have p ≤ {LEVEL} against those before"
        chance = float(gammaincc(len(pvalues), -np.log(pvalues).sum()))  # Fisher's combination
        remedy = (
            f"compare whole batches (unit='batch', {ENOUGH_BATCHES} of them or more), or within strata (by=)"
        )
        if chance <= SURE:
            seen = f"batches of the reference differ among themselves: row by row {small}"
            raise ValueError(f"{seen}, and every batch would be an alarm; {remedy}")
        if chance <= LEVEL:
            seen = f"batches of the reference may differ among themselves ({small}, p = {chance:.2g} in all)"
            return (f"{seen}: alarms may come too often; {remedy}", *of_order(rows.source))
        return of_order(rows.source)

    def _start(self, specification: Specification, strata: Strata, notes: tuple[str, ...]) -> None:
        """Begin with these features and this past, and no evidence."""
        self._specified(specification, notes)
        hypotheses, restarting = 1 + len(self._subjects), self.mean_time is not None
        periods = list(SCALES)
        if self._coordinates is not None:
            periods = [*((period, share * (1.0 - DIRECTED)) for period, share in SCALES), (1, DIRECTED)]
        processes = tuple(
            EvidenceProcess.begun(share, period, restarting, hypotheses) for period, share in periods
        )
        self.state = State(strata, processes, (), np.empty(0), np.full(hypotheses, -np.inf))
        self.result: MonitorResult | None = None

    def _specified(self, specification: Specification, notes: tuple[str, ...]) -> None:
        """Keep the features."""
        self.specification, self.notes = specification, notes
        self._subjects, self._places = subjects(specification.fitted.ensemble.kernels)
        self._coordinates = coordinates(specification, self._subjects) if self.unit == "row" else None
        # The hypotheses but the first are about one column each, or a pair.
        self._single = single = np.array([len(names) == 1 for names in self._subjects], dtype=bool)
        self._family = np.where(single, single.sum(), (~single).sum())
        rest = (1.0 - WHOLE_SHARE) / max(len(np.unique(single)), 1) / self._family
        self._log_shares = np.log([WHOLE_SHARE if len(rest) else 1.0, *rest])

    def _generator(self) -> np.random.Generator:
        """Random numbers that nothing else has used."""
        self.counter += 1
        return np.random.default_rng([self.seed, self.counter])

    @property
    def threshold(self) -> float:
        """The evidence at which the monitor alarms.

        Between alarms: the share of sequences of tests that reach a multiple λ of their mean by batch n is at
        most n/λ for all together, which makes the mean time λ/2 or more.
        """
        return 1.0 / self.alpha if self.mean_time is None else 2.0 * self.mean_time

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are compared."""
        return self.specification.schema.names

    @property
    def labels(self) -> tuple[str, ...]:
        """The batches since the reference."""
        return self.state.labels

    @property
    def evidence(self) -> Float[np.ndarray, " t"]:
        """The evidence after each of them."""
        return np.exp(np.minimum(self.state.evidence, LARGEST))

    @few_rows_one_thread
    def update(self, batch: Any, label: Any = None) -> MonitorResult:
        """Take in a batch, and say whether anything has changed.

        Parameters
        ----------
        batch : array_like, data frame or path
            Rows with the columns of the reference. Where it cannot be used the monitor stays as it was.
        label : optional
            What to call the batch, such as its date; each only once. Unless given, its number.

        Returns
        -------
        MonitorResult
            Alarm or not, the evidence, since when, and which columns.

        Raises
        ------
        ValueError
            If the label has been seen, the batch is empty, has missing values or lacks a column.
        TypeError
            If a column holds another kind of values than in the reference.

        """
        label = f"batch {len(self.labels) + 1}" if label is None else str(label)
        if label in self.labels or label in self.earlier:
            raise ValueError(
                f"the monitor has seen {label!r} already; give every batch once, under its own label"
            )
        rng = np.random.default_rng([self.seed, self.counter + 1])
        with np.errstate(**QUIETLY):
            source, strata_of_rows, notes = self._read(batch)
            state = self._after(source, strata_of_rows, label, rng)
        self.counter += 1
        self.state = state
        self.result = self._result(notes)
        return self.result

    def _read(self, batch: Any) -> tuple[Source, np.ndarray, tuple[str, ...]]:
        """The rows of a batch, the stratum of each, and notes."""
        names = self.columns if self.by is None else (*self.columns, self.by)
        source = as_rows(batch, "batch", self.nan_policy, names, 1)
        strata = np.full(source.size, WHOLE) if self.by is None else texts_of(source, self.by)
        ordered = of_order(source) if self.unit == "row" else ()
        return source, strata, (*source.notes, *left_out(source, names, "reference"), *ordered)

    def _after(self, source: Source, names: np.ndarray, label: str, rng: np.random.Generator) -> State:
        """The state after a batch."""
        old, rows = self.state, self.unit == "row"
        places = None if self._coordinates is None else self._coordinates.places
        sizes = [period if rows else 1 for period, _ in SCALES]
        strata, width = dict(old.strata), width_of(self.specification)
        for name, count in zip(*np.unique(names, return_counts=True), strict=True):
            stratum, units = strata.get(name, Stratum.without_rows(width)), int(count) if rows else 1
            if not stratum.pasts:
                stratum = stratum.begun(units, sizes, places, rng)
            strata[name] = stratum.fitting(units)
        binned = bin_batch(source, names, strata, self.specification, self.unit, rng)
        for name in (name for name, stratum in strata.items() if stratum.pasts):
            strata[name] = strata[name].joined(binned.get(name), places, len(old.labels) % SCALES[-1][0] + 1)
        learned = None
        if self._coordinates is not None:
            training = [each.training for each in strata.values() if each.training is not None]
            learned = directions(training, self._coordinates.subject, len(self._subjects))
        number, processes = len(old.labels) + 1, list(old.processes)
        for k, process in enumerate(processes):
            if number % process.period:
                continue
            pairs = {}
            for name, each in strata.items():
                if each.pasts and places is not None and k == len(SCALES):
                    pairs[name] = each.pasts[k], split(each.recent[-1], places)[1]
                elif each.pasts:
                    pairs[name] = each.pasts[k], joined(each.recent[-process.period :]).coarser(sizes[k])
            direction = learned if k == len(SCALES) else None
            processes[k] = process.after(*self._test(list(pairs.values()), direction, rng))
            for name, (_, block) in pairs.items():
                strata[name] = strata[name].absorbed(k, block, rng)
        log_evidence = np.max([process.log_evidence for process in processes], axis=0)
        evidence = np.append(old.evidence, (log_evidence + self._log_shares).max())
        peaks = np.maximum(old.peaks, log_evidence)
        return State(strata, tuple(processes), (*old.labels, label), evidence, peaks)

    def _test(
        self,
        pairs: list[tuple[Binned, Binned]],
        learned: Float[np.ndarray, "q Q"] | None,
        rng: np.random.Generator,
    ) -> tuple[Float[np.ndarray, " Q"], int]:
        """P-values of all hypotheses: blocks against their pasts; and the size of the grid they are on.

        With `learned` directions the statistics are differences of means along these. Where no resample
        reaches the data, `FINER` times as many are drawn: p is then their rank among these, else as at first.
        """
        made = pooled(pairs)
        if made is None:  # nothing to compare with
            return np.ones(1 + len(self._subjects)), 1
        draws = made[1].draw(made[0][:, 0], self.n_resamples, rng)
        pvalues = self._ranked(made[0], draws, learned)
        if draws.enumerated:
            return pvalues, draws.terms[0][1].shape[1]
        size = FINER * (self.n_resamples + 1)
        largest = pvalues < 1.5 / (self.n_resamples + 1)
        if largest.any():  # a second look: no smaller p-value is reached more often than it may be
            draws = made[1].draw(made[0][:, 0], size - 1, rng)
            pvalues = np.where(largest, self._ranked(made[0], draws, learned), pvalues)
        return np.ceil(pvalues * size - 1e-6) / size, size

    def _ranked(
        self, table: Bins, draws: Draws, learned: Float[np.ndarray, "q Q"] | None
    ) -> Float[np.ndarray, " Q"]:
        """The p-values of all hypotheses on these draws."""
        if learned is not None:
            T = projected(table, draws, learned)
        else:
            fused = fuse(self._values(table, draws), self.specification.fitted.ensemble.plan)
            T = np.column_stack([fused.statistic, combined(fused.kernels, self._places)])
        return nulls.column_pvalues(T[0], T[1:])

    def _values(self, table: Bins, draws: Draws) -> Values:
        """The statistics of all kernels from a table of bins."""
        fitted = self.specification.fitted
        starts = np.cumsum([1, *(len(each.steps) for each in fitted.ensemble.maps)])
        parts = zip(fitted.ensemble.maps, starts[:-1], starts[1:], strict=True)
        sums = StoredSums(table[:, 0], {each: table[:, start:end] for each, start, end in parts})
        return evaluate(*fitted, sums, draws)

    def _result(self, notes: tuple[str, ...]) -> MonitorResult:
        """The result after the last batch."""
        state, limit = self.state, np.log(self.threshold)
        crossed = np.flatnonzero(state.evidence >= limit)
        alarm = len(crossed) > 0
        peaks = dict(zip(self._subjects, state.peaks[1:].tolist(), strict=True))
        limits = np.where(alarm, limit + np.log(self._family), np.inf)
        sure = [names for names, least in zip(peaks, limits, strict=True) if peaks[names] >= least]
        columns = tuple(names[0] for names in sure if len(names) == 1)
        return MonitorResult(
            label=state.labels[-1],
            batches=len(state.labels),
            alarm=alarm,
            evidence=float(self.evidence[-1]),
            threshold=self.threshold,
            since=state.labels[crossed[0]] if alarm else None,
            began=state.labels[self._beginning(limit)] if alarm else None,
            columns=columns,
            pairs=tuple((a, b) for a, *rest in sure for b in rest if not {a, b} & {*columns}),
            pvalue=float(state.processes[0].pvalues[-1]),
            by_column={
                names[0]: float(np.exp(min(peak, LARGEST)))
                for names, peak in peaks.items()
                if len(names) == 1
            },
            alpha=self.alpha if self.mean_time is None else None,
            mean_time=self.mean_time,
            notes=notes,
        )

    def _beginning(self, limit: float) -> int:
        """The batch at which the change began, by the finest sequence of tests that is sure of one."""
        processes, shares = [each for each in self.state.processes if len(each.sizes)], self._log_shares
        leading = np.max([process.log_evidence for process in processes], axis=0) + shares
        hypothesis = int(np.argmax(leading))
        found = [process.beginning(hypothesis) for process in processes]
        sure = (batch for evidence, batch in found if evidence + shares[hypothesis] >= limit)
        return next(sure, max(found)[1])

    def restart(self, reference: Any, batches: str | None = None) -> None:
        """Start again with a new reference: features, past and evidence; labels that were seen stay so."""
        made = copy(self)
        made._begin(reference, batches)
        made.earlier += self.labels
        self.__dict__ = made.__dict__

    def save(self, path: str | Path) -> Path:
        """Write the monitor to a file, atomically: arrays and JSON, no code."""
        parts = {name: getattr(self, name) for name in PARTS}
        return write_store(path, KIND, parts | self.state._asdict(), _known())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read the monitor in a file that `save` has written; it goes on as if it had never been away.

        Raises
        ------
        FileError
            If the file is missing or damaged, or holds something else.

        """
        parts = read_store(path, KIND, _known())
        try:
            made = cls.__new__(cls)
            for name in PARTS:
                setattr(made, name, parts[name])
            made._specified(parts["specification"], parts["notes"])
            made.state = State(**{name: parts[name] for name in State._fields})
            made.result = made._result(()) if made.labels else None
            widths = [width_of(made.specification)] * len(SCALES)
            widths += [] if made._coordinates is None else [len(made._coordinates.places)]
            pasts = [[past.bins.shape[1] for past in own.pasts] for own in made.state.strata.values()]
            fits = (
                made.specification.works
                and all(each in ([], widths) for each in pasts)
                and len(made.state.processes) == len(widths)
                and len(made.labels) == len(made.evidence) == len(made.state.processes[0].sizes)
            )
        except Exception:  # whatever forged parts lead to
            fits = False
        if not fits:
            raise FileError(f"{printable(str(path))} does not hold a monitor; make it again")
        return made

    def __repr__(self) -> str:
        if self.result is None:
            return f"Monitor of {listing(self.columns)}: no batch yet, alarm at {self.threshold:,.0f}"
        return repr(self.result)


def _known() -> dict[str, Any]:
    """What a file may hold."""
    own = (EvidenceProcess, Binned, Stratum, Training)
    return known() | {each.__name__: each for each in own}
