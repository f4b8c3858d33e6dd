"""Searches for causal graphs in several processes, which meet in one cache.

Nothing comes back from the processes: every p-value is on disk once it is computed. Whoever asked searches
again afterwards and finds all of them there, also those of a run that was interrupted.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from kembed.core.progress import progress_bar
from kembed.graphs.pc import pc

if TYPE_CHECKING:
    from jaxtyping import Int

    from kembed.conditional.tester import ConditionalTester

LOOK = 0.2  # seconds between two looks at how far the processes are
ALONE = 4.0  # seconds of our own work before there are processes: more than reading from a cache takes


@dataclass(frozen=True)
class Job:
    """Searches of the same rows, each a kernel and further options of `pc`; regressions are shared.

    `resample` is the number of one resample of the rows, which alone is searched: for each resample of a
    bootstrap its own job. None stands for all rows.
    """

    tester: ConditionalTester
    searches: tuple[tuple[Any, dict[str, Any]], ...]
    resample: int | None = None


class StoppedError(Exception):
    """The process that asked does not want the answer any more."""


@dataclass
class _Part:
    """A test that is made on all rows or on one resample; what is not asked for passes for independent."""

    tester: ConditionalTester
    kernel: Any
    resample: int | None
    check: Callable[[], None]
    kept: dict[int, ConditionalTester]  # made for another kernel
    made: int = field(default=0)  # resamples seen so far

    @property
    def names(self) -> tuple[str, ...]:
        return self.tester.names

    @property
    def n_rows(self) -> int:
        return self.tester.n_rows

    def pvalue(self, i: int, j: int, given: tuple[int, ...]) -> float:
        return 1.0

    def on_rows(self, rows: Int[np.ndarray, " m"]) -> Any:
        number, self.made = self.made, self.made + 1
        if number != self.resample:
            return self
        if number not in self.kept:
            self.kept[number] = self.tester.on_rows(rows)
        return _Checked(self.kept[number].with_kernel(self.kernel), self.check)


@dataclass
class _Checked:
    """A test that asks before each answer whether to go on."""

    tester: ConditionalTester
    check: Callable[[], None]

    @property
    def names(self) -> tuple[str, ...]:
        return self.tester.names

    @property
    def n_rows(self) -> int:
        return self.tester.n_rows

    def pvalue(self, i: int, j: int, given: tuple[int, ...]) -> float:
        self.check()
        return self.tester.pvalue(i, j, given)

    def on_rows(self, rows: Int[np.ndarray, " m"]) -> Any:
        return _Checked(self.tester.on_rows(rows), self.check)


def perform(job: Job, check: Callable[[], None], done: Callable[[], object]) -> None:
    """Make all tests of a job; `done` is called after each search."""
    kept: dict[int, ConditionalTester] = {}
    for kernel, options in job.searches:
        test: Any = _Part(job.tester, kernel, job.resample, check, kept)
        if job.resample is None:
            test = _Checked(job.tester.with_kernel(kernel), check)
        pc(None, test=test, progress=False, **options)
        done()


def share(jobs: Sequence[Job], workers: int, what: str) -> None:
    """Fill the cache of the jobs' testers, in so many processes; a bar shows the searches that are done."""
    total = sum(len(job.searches) for job in jobs)
    with progress_bar(total, np.inf, what, "search") as shown:
        left = list(jobs)
        if workers > 1 and len(jobs) > 1:
            left = _begun(left, shown)
            left = _spread(left, workers, shown) if len(left) > 1 else left
        for job in left:
            perform(job, lambda: None, lambda: shown.update(1))


def _begun(jobs: list[Job], shown: Any) -> list[Job]:
    """Do what can be done in a moment, which is everything if it was done before; the rest is returned."""
    end = time.process_time() + ALONE

    def check() -> None:
        if time.process_time() > end:
            raise StoppedError

    for place, job in enumerate(jobs):
        searches = 0

        def done() -> None:
            nonlocal searches
            searches += 1

        try:
            perform(job, check, done)
        except StoppedError:
            return jobs[place:]
        shown.update(searches)
    return []


def processors() -> int:
    """How many processors this process may use."""
    affinity: Callable[[int], Iterable[int]] | None = getattr(os, "sched_getaffinity", None)
    return os.cpu_count() or 1 if affinity is None else len(set(affinity(0)))


# The other processes.


def _spread(jobs: list[Job], workers: int, shown: Any) -> list[Job]:
    """Let processes do the jobs; returned are those that were not done because the processes died."""
    from concurrent.futures import ProcessPoolExecutor, wait
    from concurrent.futures.process import BrokenProcessPool

    context = multiprocessing.get_context("spawn")  # a fork would inherit the locks of BLAS threads
    stop, searches = context.Event(), context.Value("l", 0)
    seen, asked = 0, {}
    pool = ProcessPoolExecutor(min(workers, len(jobs)), context, _enter, (stop, searches))
    try:
        asked = {pool.submit(_work, job): job for job in jobs}
        pending = set(asked)
        while pending:
            finished, pending = wait(pending, timeout=LOOK)
            shown.update(searches.value - seen)
            seen = searches.value
            for future in finished:
                future.result()
    except BrokenProcessPool:
        warnings.warn("the other processes ended; going on with one", UserWarning, stacklevel=3)
        return [job for future, job in asked.items() if not future.done() or future.exception() is not None]
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)
    return []


_stop: Any = None
_searches: Any = None


def _enter(stop: Any, searches: Any) -> None:
    """The first thing in a new process: one thread of BLAS, and an end when the asking process ends."""
    global _stop, _searches
    import scipy.linalg  # noqa: F401  its BLAS must be there to be limited
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the asking process says when to stop
    threadpool_limits(1)
    _stop, _searches = stop, searches
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    from multiprocessing.connection import wait

    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _work(job: Job) -> None:
    perform(job, _go_on, _count)


def _go_on() -> None:
    if _stop.is_set():
        raise StoppedError


def _count() -> None:
    with _searches.get_lock():
        _searches.value += 1
