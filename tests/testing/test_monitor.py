"""Monitors: false alarms at any time, changes that are found, states that come back."""

import signal
import subprocess
import sys
from collections import Counter
from itertools import permutations

import numpy as np
import polars as pl
import pytest
from tests.testing.alike import all_have

from kembed import Gaussian, Monitor, Sketch
from kembed.core.store import FileError
from kembed.permutation.designs import Draws, contrasts
from kembed.permutation.reservoir import Binned, pooled
from kembed.testing.stream import bin_batch

KERNEL = Gaussian(1.0)  # of tests of the level, which holds for all kernels: a few milliseconds a batch


def batches(monitor, draw, count, start=0):
    """The monitor after so many batches."""
    for k in range(start, start + count):
        monitor.update(draw(k))
    return monitor


def mixed(rng, n, shift=0.0, new=0.0, day="Mon"):
    """A table of numbers and text, of which a share has a level that is not in the reference."""
    status = rng.choice(["ok", "retry", "fail"], n, p=[0.8, 0.15, 0.05]).astype(object)
    status[rng.random(n) < new] = "unknown"
    load = rng.normal(shift, 1.0, n)
    columns = {"load": load, "heat": load + rng.normal(size=n), "status": status.tolist()}
    return pl.DataFrame(columns | {"weekday": [day] * n})


def refused(words, call, kind=ValueError):
    with pytest.raises(kind) as caught:
        call()
    all_have(words, str(caught.value))


# Exactness.


@pytest.mark.parametrize("fixed", [False, True])
def test_pvalues_of_successive_batches_are_uniform_and_independent(rng, fixed):
    """Of all orders of five rows: three of the reference, then two batches. Not with a fixed reference."""
    monitor = Monitor(rng.normal(size=(40, 1)), kernel=KERNEL)
    monitor.update(rng.normal(size=(9, 1)))  # so that bins are single rows
    source, names, _ = monitor._read(rng.normal(size=(5, 1)))
    rows = bin_batch(source, names, monitor.state.strata, monitor.specification, "row", rng)[""].bins
    found = Counter()
    for order in permutations(range(5)):
        table = rows[list(order)]
        first, second = (Binned(table[[k]], 0.0 * table[0]) for k in (3, 4))
        past = Binned(table[:3], 0.0 * table[0])
        p, size = monitor._test([(past, first)], None, rng)
        later = past if fixed else past.absorbing(first, rng)
        q, other = monitor._test([(later, second)], None, rng)
        found[round(p[0] * size), round(q[0] * other)] += 1
    if fixed:
        assert max(found.values()) > 8
    else:
        assert found == {(j, k): 6 for j in range(1, 5) for k in range(1, 6)}


def test_bins_that_change_sides_are_rows_that_do(rng):
    """The statistic of exchanged labels is that of exchanged bins."""
    monitor = Monitor(rng.normal(size=(200, 2)))
    monitor.update(rng.normal(size=(64, 2)))
    source, names, _ = monitor._read(rng.normal(size=(64, 2)) + 0.5)
    block = bin_batch(source, names, monitor.state.strata, monitor.specification, "row", rng)[""]
    past = monitor.state.strata[""].pasts[0]

    def statistics(past, block, swap):
        table, design = pooled([(past, block)])
        labels, exchanged = design.labels.copy(), [3, len(past.bins) + 1 + 2]
        if swap:
            labels[exchanged] = labels[exchanged[::-1]]
        W = contrasts(labels[:, None], table[:, 0], design.strata)
        return monitor._values(table, Draws(((1.0, W),))).statistics

    relabelled = statistics(past, block, True)
    one, other = past.bins.copy(), block.bins.copy()
    one[3], other[2] = block.bins[2], past.bins[3]
    exchanged = statistics(Binned(one, past.rest), Binned(other, block.rest), False)
    assert relabelled == pytest.approx(exchanged, rel=1e-9, abs=1e-13)


# The level. A single kernel on few rows: the laws hold for all.


def null_stream(seed, count, *, fixed=False, **options):
    """A monitor after batches of 40 rows that do not differ from its 60."""
    rng = np.random.default_rng(seed)
    how = {"kernel": KERNEL, "n_resamples": 99, "rng": seed} | options
    monitor = Monitor(rng.normal(size=(60, 1)), **how)
    monitor.update(rng.normal(size=(40, 1)))
    first = monitor.state.strata
    for _ in range(count - 1):
        monitor.update(rng.normal(size=(40, 1)))
        if fixed:  # what batches are compared with stays the reference, and the first of them
            monitor.state = monitor.state._replace(strata=first)
    return monitor


def pvalues(monitors):
    return np.array([monitor.state.processes[0].pvalues for monitor in monitors])


@pytest.fixture(scope="module")
def null_streams():
    return [null_stream(seed, 40) for seed in range(25)]


def test_null_pvalues_are_uniform_and_independent(null_streams):
    """Of 25 streams of 40 batches. Those against a fixed reference share its error."""
    p, control = pvalues(null_streams), pvalues([null_stream(seed, 25, fixed=True) for seed in range(12)])

    def of_means(p):
        """The variance of the mean of a stream: of independent ones 1, with an s.e. of √(2/24) = .29."""
        return p.mean(axis=1).var(ddof=1) * p.shape[1] * 12.0

    assert abs(p.mean() - 0.505) < 4.0 * 0.289 / np.sqrt(p.size)
    for level in (0.05, 0.2, 0.5, 0.8):
        assert abs((p <= level).mean() - level) < 4.0 * np.sqrt(level * (1.0 - level) / p.size)
    lagged = np.corrcoef(p[:, :-1].ravel(), p[:, 1:].ravel())[0, 1]
    assert abs(lagged) < 4.0 / np.sqrt(p[:, 1:].size)
    assert of_means(p) < 1.0 + 3.0 * 0.29
    assert of_means(control) > 1.0 + 3.0 * 0.29


def test_false_alarms(null_streams):
    """At most 5 of 100 streams ever alarm at .05: of 25 more than 5 once in 1,000 times."""
    assert sum(monitor.result.alarm for monitor in null_streams) <= 5
    assert all(monitor.result.began is None for monitor in null_streams if not monitor.result.alarm)


def test_the_time_between_false_alarms():
    """A mean of at least 8 batches: of 16 runs, cut off at 24, less two standard errors."""
    runs = []
    for seed in range(16):
        monitor = null_stream(seed, 24, mean_time=8)
        assert monitor.threshold == 16.0
        crossed = np.flatnonzero(monitor.evidence >= monitor.threshold)
        runs.append(crossed[0] + 1 if len(crossed) else 24)
    assert np.mean(runs) + 2.0 * np.std(runs) / np.sqrt(16) >= 8.0
    assert min(runs) < 24


def test_the_fused_test_with_its_learned_direction_raises_no_more_false_alarms():
    """Of 10 streams of two columns and a category, 16 batches each."""
    found = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        monitor = Monitor(mixed(rng, 80), n_resamples=39, rng=seed)
        found.append(batches(monitor, lambda k, rng=rng: mixed(rng, 20), 16))
    assert sum(monitor.result.alarm for monitor in found) <= 3
    learned = np.array([monitor.state.processes[-1].pvalues for monitor in found])
    for level in (0.05, 0.2, 0.5):
        assert (learned <= level).mean() < level + 4.0 * np.sqrt(level * (1.0 - level) / learned.size)


# What is found.


def test_a_change_at_batch_200_is_found(rng):
    monitor = Monitor(rng.normal(size=(200, 1)), kernel=KERNEL)
    batches(monitor, lambda k: rng.normal(size=(20, 1)), 200)
    assert not monitor.result.alarm
    batches(monitor, lambda k: rng.normal(1.0, 1.0, size=(20, 1)), 12)
    assert monitor.result.alarm
    assert int(monitor.result.began.split()[1]) in range(195, 206)
    assert int(monitor.result.since.split()[1]) > 200


def test_a_column_that_changed_is_named_and_no_other():
    """Of 4 streams in which one of three columns changes."""
    named = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        monitor = batches(Monitor(mixed(rng, 300), n_resamples=99), lambda k, rng=rng: mixed(rng, 60), 3)
        batches(monitor, lambda k, rng=rng: mixed(rng, 60).with_columns(pl.col("heat") * 2.0), 5)
        assert monitor.result.alarm
        named += monitor.result.columns
    assert set(named) == {"heat"}
    assert len(named) >= 3


def test_a_new_level_is_evidence(rng):
    """A level that is not in the reference, in 3% of 200 rows a batch."""
    monitor = Monitor(mixed(rng, 1_500))
    batches(monitor, lambda k: mixed(rng, 200), 2)
    batches(monitor, lambda k: mixed(rng, 200, new=0.03), 10)
    assert monitor.result.alarm
    assert monitor.result.columns in ((), ("status",))
    evidence = dict(monitor.result.by_column)
    assert evidence.pop("status") > max(evidence.values())


# Strata and units.


def week(rng, k, n=40):
    """Batches of a week whose days have their own levels."""
    return mixed(rng, n, shift=1.0 * (k % 3), day=["Mon", "Tue", "Wed"][k % 3])


def test_strata_hold_the_level_where_weekdays_differ(rng):
    reference = pl.concat([week(rng, k) for k in range(12)])
    within = batches(Monitor(reference, by="weekday"), lambda k: week(rng, k), 24)
    across = batches(Monitor(reference.drop("weekday")), lambda k: week(rng, k).drop("weekday"), 24)
    assert across.result.alarm
    assert not within.result.alarm
    assert within.columns == ("load", "heat", "status")
    batches(within, lambda k: week(rng, k).with_columns(pl.col("load") + 1.0), 9, start=24)
    assert within.result.alarm


def test_a_stratum_without_a_past_begins_one(rng):
    monitor = Monitor(pl.concat([week(rng, k) for k in range(4)]), by="weekday")
    batches(monitor, lambda k: week(rng, 0), 2)
    result = monitor.update(mixed(rng, 40, day="Sun"))
    assert result.pvalue == 1.0
    assert monitor.update(mixed(rng, 40, shift=3.0, day="Sun")).pvalue < 0.05


def test_strata_within_a_batch(rng):
    """Batches with rows of two sites: what differs is compared within sites."""
    both = [pl.concat([mixed(rng, 30, day="a"), mixed(rng, 30, 4.0, day="b")]) for _ in range(12)]
    monitor = Monitor(pl.concat(both[:6]), by="weekday")
    for batch in both[6:]:
        monitor.update(batch)
    assert not monitor.result.alarm
    # More rows of the one site are no change.
    monitor.update(pl.concat([mixed(rng, 10, day="a"), mixed(rng, 80, 4.0, day="b")]))
    assert monitor.result.pvalue > 0.01


def days(rng, count, sd=0.5, n=30):
    """Days that differ among themselves."""
    return [rng.normal(size=(n, 2)) + rng.normal(0.0, sd, 2) for _ in range(count)]


def test_batches_as_units(rng):
    monitor = Monitor(days(rng, 44), unit="batch")
    for batch in days(rng, 24):
        monitor.update(batch)
    assert not monitor.result.alarm
    assert monitor.state.processes[0].sizes[0] == 34  # 33 days that are not held out, and the new one
    assert monitor.state.processes[0].pvalues.min() >= 1 / 57
    for batch in days(rng, 12):
        monitor.update(batch + 1.5)
    assert monitor.result.alarm


# Guards.


def test_rows_are_refused_as_units_where_days_differ(rng):
    words = ("batches of the reference differ among themselves: row by row", "have p ≤ 0.05", "unit='batch'")
    refused(words, lambda: Monitor(days(rng, 16), n_resamples=99))
    table = pl.concat(
        [pl.DataFrame({"a": day[:, 0], "b": day[:, 1], "day": k}) for k, day in enumerate(days(rng, 16))]
    )
    refused(words, lambda: Monitor(table, batches="day", n_resamples=99))


def test_days_that_are_alike_are_taken(rng):
    monitor = Monitor(days(rng, 12, sd=0.0), n_resamples=99)
    assert monitor.notes == ()
    assert monitor.columns == ("column 0", "column 1")
    few = Monitor(days(rng, 12), unit="batch", kernel=KERNEL)
    assert few.notes == ("the reference has 12 batches; from 40 on alarms come sooner",)


def test_weekdays_are_no_day_effect_within_strata(rng):
    parts = [week(rng, k).with_columns(day=pl.lit(k)) for k in range(12)]
    refused("differ among themselves", lambda: Monitor(pl.concat(parts).drop("weekday"), batches="day"))
    monitor = Monitor(pl.concat(parts), by="weekday", batches="day")
    assert monitor.columns == ("load", "heat", "status")


def test_rows_in_order_are_noted(rng):
    def walk(n):
        steps = rng.normal(size=n)
        return np.array([steps[: k + 1] @ 0.9 ** np.arange(k, -1, -1) for k in range(n)])[:, None]

    note = "neighbouring rows of {} are alike in 'column 0'"
    monitor = Monitor(walk(300), kernel=KERNEL)
    assert monitor.notes[0].startswith(note.format("reference"))
    result = monitor.update(walk(100))
    assert result.notes[0].startswith(note.format("batch"))
    assert "compare whole batches (unit='batch')" in result.notes[0]


# States.


def state_bytes(monitor, folder):
    return monitor.save(folder / "state.kembed").read_bytes()


@pytest.mark.parametrize("strata", [False, True])
def test_a_loaded_monitor_goes_on_bit_by_bit(rng, tmp_path, strata):
    how = {"by": "weekday"} if strata else {}
    monitor = Monitor(pl.concat([week(rng, k) for k in range(6)]), **how)
    for start in (0, 3, 6):
        other = Monitor.load(monitor.save(tmp_path / "a.kembed"))
        assert other.result is None if start == 0 else other.result.verdict == monitor.result.verdict
        for k in range(start, start + 3):
            batch = week(rng, k)
            assert monitor.update(batch).to_dict() == other.update(batch).to_dict()
        assert state_bytes(monitor, tmp_path) == state_bytes(other, tmp_path)


def test_a_damaged_or_other_file_is_refused(rng, tmp_path):
    monitor = Monitor(rng.normal(size=(60, 1)), kernel=KERNEL)
    monitor.update(rng.normal(size=(20, 1)))
    path = monitor.save(tmp_path / "a.kembed")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    refused("damaged", lambda: Monitor.load(path), FileError)
    refused("does not exist", lambda: Monitor.load(tmp_path / "b.kembed"), FileError)
    sketch = Sketch.of(rng.normal(size=(60, 1)), kernel=KERNEL)
    refused("holds a sketch", lambda: Monitor.load(sketch.save(tmp_path / "c.kembed")), FileError)
    monitor.state = monitor.state._replace(peaks=np.zeros(9))
    refused("does not hold a monitor", lambda: Monitor.load(monitor.save(path)), FileError)


KILLED = """
import os, signal, sys
import numpy as np
from kembed import Monitor
monitor = Monitor.load(sys.argv[1])
monitor.update(np.zeros((20, 1)))
write = np.savez_compressed
def killed(file, **entries):
    write(file, **{name: entries[name] for name in list(entries)[:3]})
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
np.savez_compressed = killed
monitor.save(sys.argv[1])
"""


def test_a_process_that_is_killed_while_it_writes_leaves_the_old_state(rng, tmp_path):
    monitor = Monitor(rng.normal(size=(60, 1)), kernel=KERNEL)
    monitor.update(rng.normal(size=(20, 1)))
    path = monitor.save(tmp_path / "a.kembed")
    before = path.read_bytes()
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_bytes() == before
    assert Monitor.load(path).labels == ("batch 1",)


def test_what_cannot_be_used_leaves_the_monitor_as_it_was(rng, tmp_path):
    monitor = Monitor(mixed(rng, 200), by="weekday")
    monitor.update(mixed(rng, 40), label="first")
    before, good = state_bytes(monitor, tmp_path), mixed(rng, 40)
    cases = [
        ("has no 'heat'; rename", good.drop("heat"), ValueError),
        ("no column 'weekday'", good.drop("weekday"), ValueError),
        ("at least 1 is needed", good[:0], ValueError),
        ("text where the reference has numbers", good.with_columns(load=pl.lit("a")), TypeError),
        ("missing values", good.with_columns(load=pl.lit(None, dtype=pl.Float64)), ValueError),
        ("infinite", good.with_columns(load=pl.lit(np.inf)), ValueError),
    ]
    for words, batch, kind in cases:
        refused(words, lambda batch=batch: monitor.update(batch), kind)
    refused("has seen 'first' already; give every batch once", lambda: monitor.update(good, label="first"))
    assert state_bytes(monitor, tmp_path) == before
    assert monitor.update(good, label=2).label == "2"
    monitor.restart(mixed(rng, 200))
    assert monitor.labels == ()
    assert monitor.result is None
    refused("has seen 'first' already", lambda: monitor.update(good, label="first"))


def test_a_date_is_no_number(rng):
    moments = pl.datetime_range(pl.datetime(2026, 1, 1), pl.datetime(2026, 2, 9), "1h", eager=True)
    numbers = rng.normal(size=len(moments))
    monitor = Monitor(pl.DataFrame({"v": numbers, "at": moments.shuffle(seed=1)}))
    refused(
        "numbers where the reference has",
        lambda: monitor.update({"v": [0.0, 1.0], "at": [0.0, 1.0]}),
        TypeError,
    )


def test_wrong_options_are_refused(rng):
    rows = rng.normal(size=(100, 2))
    refused("alpha must lie", lambda: Monitor(rows, alpha=1.5))
    refused("mean_time", lambda: Monitor(rows, mean_time=0.5))
    refused("unit must be one of", lambda: Monitor(rows, unit="day"))
    refused("does not say what these are; name their column", lambda: Monitor(rows, unit="batch"))
    refused("has 4 batches, and unit='batch' needs at least 8", lambda: Monitor([rows] * 4, unit="batch"))
    refused("no column 'site'", lambda: Monitor(mixed(rng, 50), by="site"))
    refused("no column is left", lambda: Monitor(mixed(rng, 50).select("weekday"), by="weekday"))
    refused("a sketch has no strata", lambda: Monitor(Sketch.of(rows), by="column 0"))
    refused("names a column; leave batches out", lambda: Monitor([rows] * 4, batches="column 1"))
    refused("at least 16 are needed", lambda: Monitor(rows[:9]))
    two = [pl.concat([mixed(rng, 9, day="a"), mixed(rng, 9, day="b")])] * 9
    refused("a batch has rows in two strata, 'a' and 'b'", lambda: Monitor(two, unit="batch", by="weekday"))


def test_a_sketch_can_be_the_reference(rng):
    rows = rng.normal(size=(400, 2))
    monitor = Monitor(Sketch.of(rows, rng=1))
    batches(monitor, lambda k: rng.normal(size=(40, 2)), 3)
    assert not monitor.result.alarm
    batches(monitor, lambda k: rng.normal(size=(40, 2)) + 1.0, 6)
    assert monitor.result.alarm


def test_batches_of_other_sizes(rng):
    """A first batch of a few rows, then many: bins grow; then too few to fill one, which join the past."""
    monitor = Monitor(rng.normal(size=(2_000, 1)), kernel=KERNEL)
    powers = []
    for n in (5, 2_000, 1):
        monitor.update(rng.normal(size=(n, 1)))
        powers.append(monitor.state.strata[""].power)
    assert powers == [0, 5, 5]
    assert monitor.result.pvalue == 1.0
    past = monitor.state.strata[""].pasts[0]
    assert past.rows == 1_500 + 2_006
    assert set(past.bins[:, 0]) == {32.0}


def test_what_a_monitor_says(rng):
    monitor = Monitor(mixed(rng, 300).drop("weekday"))
    assert repr(monitor) == "Monitor of 'load', 'heat', 'status': no batch yet, alarm at 20"
    result = monitor.update(mixed(rng, 50), label="2026-05-16")
    assert result.verdict == f"No alarm after 1 batch: evidence {result.evidence:.3g}, alarm at 20."
    assert "column 'weekday' is left out: the reference does not have it" in result.notes
    for day in range(17, 22):
        result = monitor.update(mixed(rng, 50, shift=2.0).drop("weekday"), label=f"2026-05-{day}")
    found = result.to_dict()
    assert found["alarm"] is True
    assert found["changed_columns"] == list(result.columns)
    assert [column["name"] for column in found["by_column"]] == ["load", "heat", "status"]
    assert result.verdict.startswith(f"ALARM since {result.since}: evidence ")
    assert f"(alarm at 20). The change began about {result.began}" in result.verdict
    assert result.verdict.endswith("If nothing had changed, at most 5% of such monitors would ever alarm.")
    timed = Monitor(mixed(rng, 300), mean_time=30)
    for _ in range(4):
        result = timed.update(mixed(rng, 100, shift=3.0))
    assert result.verdict.endswith("such monitors would alarm once in 30 batches or more, on average.")
