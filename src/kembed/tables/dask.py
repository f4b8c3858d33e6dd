"""Dask: arrays and data frames of it, and files that its workers read. No other file imports it.

One task a part; parameters are one node of the graph and no data travel in it. Results are added in the graph
by the tree of `tree_sum`, so that the number of workers, their order and their deaths change no bit.
"""

from __future__ import annotations

import pickle
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from kembed.tables.frames import column_of, frame_of, named_columns
from kembed.tables.parts import ROWS, Call, Engine, InputError, Part, Raw, reading, sliced
from kembed.tables.source import added, tree_sum

RETRIES = 2  # of a task that fails: a file server has its moments
SMALL = (
    2**20
)  # bytes of parameters that ride in the graph, which warns from ten times that on; more is scattered
TASKS = 8  # of every worker in a pass, at least, where there are parts enough
TOGETHER = 8  # parts of one task at most
PATIENCE = 10.0  # seconds to wait for a scheduler
INSTALL = "install kembed[dask]"
# Workers of Dask give freed memory back at once and ask for it again with every table of a chunk: the pass of
# sums takes twice as long. Tables up to 32 MiB, the most that glibc allows, are kept here, up to 256 MiB.
MEMORY = {
    f"distributed.nanny.pre-spawn-environ.MALLOC_{name}_THRESHOLD_": size
    for name, size in (("TRIM", 2**28), ("MMAP", 2**25))
}


@dataclass(frozen=True, eq=False)
class Chunk(Part):
    """One chunk of a Dask collection: lazy in the graph, there where it is read."""

    piece: Any = None
    rows: int = ROWS  # of a block

    def read(self, columns: tuple[str, ...]) -> Iterator[Raw]:
        import numpy as np

        piece: Any = self.piece
        if isinstance(piece, np.ma.MaskedArray) and piece.dtype.kind in "biuf":
            piece = np.ma.filled(piece.astype(float), np.nan)
        if isinstance(piece, np.ndarray):
            if piece.dtype.kind not in "biuf":
                seen = f"{self.file} has chunks of {piece.dtype}"
                raise InputError(f"{seen}; give an array of numbers, or a data frame")
            table = piece[:, None] if piece.ndim == 1 else piece
            found: Raw = [table[:, self.names.index(name)] for name in columns]
        else:
            with reading(self.refused):
                frame = frame_of(piece, self.file)
                found = [
                    column_of(frame.columns[frame.names.index(name)], f"column {name!r} of {self.file}")
                    for name in columns
                ]
        yield from sliced(found, self.rows)


def dask_parts(value: Any, argument: str, rows: int) -> tuple[tuple[str, ...], list[Any], bool]:
    """The columns of a Dask array or data frame, its chunks, and whether columns go by name."""
    dimensions = getattr(value, "ndim", None)
    if not isinstance(dimensions, int) or dimensions not in (1, 2):  # an attribute of Delayed is Delayed
        seen = f"{argument} is a Dask {type(value).__name__}"
        seen += f" of {dimensions} dimensions" if isinstance(dimensions, int) else ""
        raise TypeError(f"{seen}; give a Dask array of one or two dimensions, or a Dask data frame")
    if hasattr(value, "to_frame"):  # a series
        value = value.to_frame()
    framed = hasattr(value, "columns")
    if framed:
        names = named_columns(value.columns)
    else:
        names = tuple(f"column {d}" for d in range(1 if value.ndim == 1 else value.shape[1]))
        if value.ndim == 2 and value.numblocks[1] > 1:
            value = value.rechunk({1: -1})
    pieces = list(value.to_delayed()) if framed else list(value.to_delayed().ravel())
    return names, [Chunk(argument, names, n, piece, rows) for n, piece in enumerate(pieces, start=1)], framed


@dataclass(frozen=True, eq=False)
class Dask(Engine):
    """Parts are read by the workers of a client, or without one by the threads of this process."""

    client: Any = None
    scheduler: str = "threads"  # without a client: or "synchronous"

    def total(self, label: str, work: Callable[..., Any], calls: Sequence[Call], *params: Any) -> Any:
        import cloudpickle
        import dask

        shared = self._shared(cloudpickle.dumps((work, params)))
        ask_, add = dask.delayed(ask, pure=False), dask.delayed(added, pure=False)
        names: dict[str, str] = {}  # of tasks: the parts that errors name
        lazy = any(getattr(call.part, "piece", None) is not None for call in calls)
        together = 1 if lazy else self.parts_of_a_task(len(calls))  # chunks of a task are in memory together

        def tasks() -> Iterator[Any]:
            for start in range(0, len(calls), together):
                own = calls[start : start + together]
                pieces = [getattr(call.part, "piece", None) for call in own]
                sent = [
                    call if piece is None else call._replace(part=replace(call.part, piece=None))
                    for call, piece in zip(own, pieces, strict=True)
                ]
                task = ask_(sent, pieces, shared)
                names[task.key] = own[0].part.where
                yield task

        def sum_of(one: Any, other: Any) -> Any:
            both = add(one, other)
            names[both.key] = f"what was read up to {names[other.key].removeprefix('what was read up to ')}"
            return both

        total = tree_sum(tasks(), sum_of)
        if self.client is None:
            return dask.compute(total, scheduler=self.scheduler, optimize_graph=False)[0]
        return self._result(total, label, names)

    def parts_of_a_task(self, calls: int) -> int:
        """How many parts are one task: a power of 2, so that sums are added in the same tree.

        Few enough that every worker has many tasks, and the others can take over from a slow or dead one.
        """
        workers = 1 if self.client is None else max(1, len(self.client.nthreads()))
        return min(TOGETHER, 2 ** max(0, (calls // (TASKS * workers)).bit_length() - 1))

    def _shared(self, data: bytes) -> Any:
        """What all tasks need: one node of the graph, or sent to the workers beforehand."""
        import dask

        if self.client is None or len(data) <= SMALL:
            return dask.delayed(bytes, pure=False)(data)
        with connected(self.client, "the parameters were sent"):
            return self.client.scatter(data, broadcast=True, hash=False)

    def _result(self, total: Any, label: str, names: dict[str, str]) -> Any:
        from distributed import KilledWorker

        with connected(self.client, f"{label} was read"):
            future = self.client.compute(total, retries=RETRIES, optimize_graph=False)
            try:
                return future.result()
            except KilledWorker as error:
                block = names.get(str(error.args[0] if error.args else ""), "a block")
                seen = f"{label} cannot be read: worker after worker died over {block}"
                raise RuntimeError(f"{seen}; give the workers more memory, or make smaller blocks") from None
            finally:
                future.release()

    def close(self) -> None:
        if self.client is not None:
            self.client.close()


@contextmanager
def connected(client: Any, when: str) -> Iterator[None]:
    """A lost connection is one error that names the scheduler."""
    from asyncio import CancelledError as Cancelled
    from concurrent.futures import CancelledError

    address = getattr(getattr(client, "scheduler", None), "address", "of Dask")
    try:
        yield
    except InputError:
        raise
    except (OSError, TimeoutError, Cancelled, CancelledError):
        seen = f"the scheduler {address} was lost while {when}"
        raise ConnectionError(f"{seen}; check that it and its workers run, and run again") from None


@lru_cache(maxsize=4)
def _loaded(data: bytes) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    return pickle.loads(data)


def ask(calls: list[Call], pieces: list[Any], shared: bytes) -> Any:
    """What a worker does: some parts, one after the other; an error names the one it is about."""

    def results() -> Iterator[Any]:
        for call, piece in zip(calls, pieces, strict=True):
            part = call.part if piece is None else replace(call.part, piece=piece)
            try:
                work, params = _loaded(shared)
                yield work(part, *call.own, *params)
            except InputError:
                raise
            except Exception as error:
                raise RuntimeError(f"{part.where} failed ({type(error).__name__}: {error})") from None

    return tree_sum(results())


def engine_of(given: Any = None, patience: float = PATIENCE) -> Dask:
    """The engine for a client, an address, "active", "threads" or "synchronous".

    None is the active client; where there is none, the threads of this process read the parts.
    """
    if isinstance(given, Dask):
        return given
    try:
        import dask  # noqa: F401
        from distributed import Client, default_client
    except ImportError:
        raise ImportError(f"Dask is not installed, or without distributed; {INSTALL}") from None
    if given in ("threads", "synchronous"):
        return Dask(None, given)
    if isinstance(given, str) and given != "active":
        try:
            return Dask(Client(given, timeout=patience, set_as_default=False))
        except (OSError, TimeoutError, ValueError):
            seen = f"no Dask scheduler answers at {given}"
            raise ConnectionError(f"{seen}; check the address, and that it runs") from None
    if isinstance(given, Client):
        return Dask(given)
    try:
        return Dask(default_client())
    except ValueError:
        if given == "active":
            raise ValueError("there is no active Dask client; make one, or give an address") from None
        return Dask(None)


@contextmanager
def local_engine(workers: int = 2, memory: str = "auto") -> Iterator[Dask]:
    """Workers on this machine, each a process of one thread, for as long as the block runs."""
    import tempfile

    import dask
    from distributed import Client, LocalCluster

    with (
        tempfile.TemporaryDirectory(prefix="kembed-", ignore_cleanup_errors=True) as folder,
        dask.config.set({"temporary-directory": folder, **MEMORY}),
        _without_interrupts(
            LocalCluster,
            n_workers=workers,
            threads_per_worker=1,
            memory_limit=memory,
            dashboard_address=":0",
            silence_logs=50,  # what matters comes as an error
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield Dask(client)


def _without_interrupts(start: Callable[..., Any], **options: Any) -> Any:
    """What `start` returns; processes that it starts do not receive Ctrl-C, which goes to them as well.

    This process ends them. Threads and processes inherit the mask of signals; one that comes meanwhile waits.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        return start(**options)
    from multiprocessing.resource_tracker import ensure_running

    ensure_running()  # started later, it would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return start(**options)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
