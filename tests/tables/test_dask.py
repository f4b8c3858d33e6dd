"""Dask: the same bits for any number of workers and after the death of one; clear errors."""

import os
import pickle
import re
import signal
import threading
import time

import dask
import dask.array as da
import numpy as np
import polars as pl
import pytest

from kembed.core.progress import showing_progress
from kembed.tables.dask import Dask, engine_of, local_engine
from kembed.tables.parts import InputError
from kembed.tables.reader import is_stored, read

N = 6_000
ROWS = 256


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    words = rng.choice(["a", "b", "c"], N)
    return pl.DataFrame({"u": rng.normal(size=N), "v": rng.normal(size=N), "w": words})


@pytest.fixture(scope="module")
def paths(table, tmp_path_factory):
    home = tmp_path_factory.mktemp("files")
    table.write_parquet(home / "a.parquet")
    table.write_csv(home / "a.csv")
    return home / "a.parquet", home / "a.csv"


@pytest.fixture(scope="module")
def workers():
    """A cluster of one worker at first."""
    with local_engine(1) as engine:
        yield engine


def sums(block, weights, folder=None):
    """Σ cos of mixtures and Σ row; with a folder, slowly, and leaving the number of the process there."""
    if folder is not None:
        with open(os.path.join(folder, str(os.getpid())), "w", encoding="utf-8"):
            time.sleep(0.02)
    return {
        "cos": np.cos(block.values @ weights).sum(axis=0),
        "rows": block.values.sum(axis=0),
        "n": len(block.values),
    }


WEIGHTS = np.random.default_rng(0).normal(size=(3, 20))


def same(one, other):
    assert pickle.dumps([one[key] for key in sorted(one)]) == pickle.dumps(
        [other[key] for key in sorted(other)]
    )


def close(one, other):
    for key in one:
        np.testing.assert_allclose(one[key], other[key], rtol=1e-10, atol=1e-10)


def test_same_bits_for_one_and_two_workers_and_after_a_death(paths, workers, tmp_path):
    client = workers.client
    (here,) = read({"x": paths[0]}, rows=ROWS)
    expected = here.fold(sums, WEIGHTS)
    (there,) = read({"x": paths[0]}, rows=ROWS, engine=workers)
    assert isinstance(there.engine, Dask)
    same(there.fold(sums, WEIGHTS), expected)
    client.cluster.scale(2)
    client.wait_for_workers(2, timeout=60)
    same(there.fold(sums, WEIGHTS), expected)
    before = set(client.run(os.getpid).values())
    assert len(before) == 2
    killer = threading.Thread(target=kill_one, args=(tmp_path,))
    killer.start()
    same(there.fold(sums, WEIGHTS, str(tmp_path)), expected)
    killer.join()
    after = {int(name) for name in os.listdir(tmp_path)}
    assert len(before & after) == 2  # both were at work
    client.wait_for_workers(2, timeout=60)
    assert set(client.run(os.getpid).values()) != before


def kill_one(folder):
    """End the first process that has finished a block, once another has begun too."""
    for _ in range(3_000):
        busy = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)
        if len(busy) >= 2:
            os.kill(int(busy[0].name), signal.SIGKILL)
            return
        time.sleep(0.01)


def test_files_of_text_and_parameters_of_many_megabytes(paths, workers):
    (here,) = read({"x": paths[1]}, rows=ROWS)
    (there,) = read({"x": paths[1]}, rows=ROWS, engine=workers)
    assert there.schema == here.schema
    same(there.fold(sums, WEIGHTS), here.fold(sums, WEIGHTS))
    large = np.ones((3, 500_000))  # 12 MB: in the graph they would be a warning, and here an error
    assert there.fold(first_of, large) == len(there.parts)


def first_of(block, weights):
    return weights[0, 0]


@pytest.mark.parametrize("scheduler", [None, "synchronous", "workers"])
def test_arrays(scheduler, workers):
    values = np.random.default_rng(0).normal(size=(N, 3))
    whole = da.from_array(values, chunks=(700, 2))
    part = whole[whole[:, 0] > 0]  # of chunks whose lengths nobody knows
    (expected,) = read({"x": values[values[:, 0] > 0]})
    assert is_stored(part)
    engine = workers if scheduler == "workers" else engine_of(scheduler)
    (source,) = read({"x": part}, engine=engine, rows=ROWS)
    assert source.size == expected.size
    close(source.fold(sums, WEIGHTS), expected.fold(sums, WEIGHTS))


@pytest.mark.parametrize("scheduler", ["synchronous", "workers"])
def test_data_frames(scheduler, workers, table):
    import dask.dataframe as dd

    frame = dd.from_pandas(table.to_pandas(), npartitions=5)
    frame = frame[frame.u > 0][["w", "u", "v"]]
    expected = read({"x": table.filter(pl.col("u") > 0), "y": table})
    engine = workers if scheduler == "workers" else engine_of(scheduler)
    found = read({"x": frame, "y": table.select("w", "u", "v")}, engine=engine, rows=ROWS)
    assert found[0].schema.levels == (("a", "b", "c"), (), ())
    assert found[0].schema == found[1].schema
    close(found[0].fold(turned, WEIGHTS), expected[0].fold(sums, WEIGHTS))


def turned(block, weights):
    return sums(block._replace(values=block.values[:, [1, 2, 0]]), weights)


def test_what_is_no_table():
    with pytest.raises(TypeError, match="x is a Dask Array of 3 dimensions"):
        read({"x": da.ones((2, 2, 2))})
    with pytest.raises(TypeError, match="x is a Dask Delayed"):
        read({"x": dask.delayed(3)})


def test_errors_name_the_source_and_the_block(paths, workers, tmp_path, table):
    (source,) = read({"x": paths[0]}, rows=ROWS, engine=workers)
    with pytest.raises(
        RuntimeError, match=r"block 3 of .*a.parquet \(rows 513 to 768\) failed \(ZeroDivisionError"
    ):
        source.fold(fail_at, 600)
    table.write_parquet(tmp_path / "b.parquet")
    (source,) = read({"x": tmp_path / "b.parquet"}, rows=ROWS, engine=workers)
    os.remove(tmp_path / "b.parquet")
    with pytest.raises(
        InputError, match=r"block \d+ of .*b.parquet .* cannot be read \(its file is not there\)"
    ):
        source.fold(fail_at, N)
    with pytest.raises(
        ConnectionError, match=r"no Dask scheduler answers at tcp://127.0.0.1:9; check the address"
    ):
        engine_of("tcp://127.0.0.1:9", patience=0.5)
    with pytest.raises(ValueError, match="there is no active Dask client"):
        engine_of("active")


def fail_at(block, row):
    return 1 // int(not block.first <= row < block.first + len(block.values))


def test_worker_after_worker_dies(paths, workers):
    client = workers.client
    (source,) = read({"x": paths[0]}, rows=ROWS, engine=workers)
    before = client.run_on_scheduler(allow_failures, 0)
    with pytest.raises(
        RuntimeError, match=r"a.parquet cannot be read: worker after worker died over .*block \d+ of"
    ):
        source.fold(die_at, 600)
    client.run_on_scheduler(allow_failures, before)  # other tests have the same workers
    client.wait_for_workers(1, timeout=60)


def allow_failures(count, dask_scheduler):
    """Set how many workers may die over a task, and say how many it was."""
    before, dask_scheduler.allowed_failures = dask_scheduler.allowed_failures, count
    return before


def die_at(block, row):
    if block.first <= row < block.first + len(block.values):
        os._exit(1)
    time.sleep(0.01)
    return 1


def test_a_lost_scheduler(paths):
    from distributed import Client, LocalCluster

    cluster = LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0", silence_logs=50
    )
    with cluster, Client(cluster, set_as_default=False) as client:
        (source,) = read({"x": paths[0]}, rows=ROWS, engine=engine_of(client))
        threading.Timer(0.3, cluster.close).start()
        with pytest.raises(
            ConnectionError, match=r"the scheduler .* was lost while .*a.parquet was read; check"
        ):
            source.fold(dawdle)


def dawdle(block):
    time.sleep(0.1)
    return 1


@pytest.mark.parametrize("engine", ["threads", "workers"])
def test_progress_by_rows(engine, workers, tmp_path, capsys):
    rows = 60_000
    np.save(tmp_path / "a.npy", np.zeros((rows, 1)))
    table = np.load(tmp_path / "a.npy", mmap_mode="r")
    engine = workers if engine == "workers" else engine_of("threads")
    (source,) = read({"x": table}, rows=1_000, engine=engine)
    with showing_progress(True):
        source.fold(dawdle_a_little)
    assert re.search(r"reading x: +\d+%.*\| [1-9]\d*000/60000 \[.*<.*row/s\]", capsys.readouterr().err)


def dawdle_a_little(block):
    time.sleep(0.02)
    return 1


def test_parts_of_a_task_are_added_as_single_ones(paths, workers):
    (source,) = read({"x": paths[0]}, rows=64, engine=workers)  # 94 parts
    assert workers.parts_of_a_task(len(source.parts)) > 1
    (here,) = read({"x": paths[0]}, rows=64)
    same(source.fold(sums, WEIGHTS), here.fold(sums, WEIGHTS))
