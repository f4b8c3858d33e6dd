"""One search among many: on all rows or on a resample of them, here or in another process."""

import pickle
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from kembed.core.progress import progress_bar, showing_progress
from kembed.graphs.background import Knowledge
from kembed.graphs.deciders import Remembered
from kembed.graphs.graph import shares
from kembed.graphs.orientation import Orientation, orient
from kembed.graphs.skeleton import Ledger, search

# Streams of random numbers that do not touch one another: more orders do not change the resamples.
ORDERS, RESAMPLES, TESTER = 0, 1, 2


def stream(seed: int, *key: int) -> np.random.Generator:
    """A stream of random numbers of its own for every key."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


class Search(NamedTuple):
    """What all runs have in common."""

    alpha: float
    max_given: int
    stable: bool
    rule: str
    knowledge: Knowledge
    seed: int
    orders: int

    def run(self, tests: Remembered, order: Any) -> tuple[Orientation, Ledger]:
        """One search, with the variables taken in this order."""
        how = self.alpha, self.max_given, self.stable, self.knowledge
        skeleton = search(tests, [int(i) for i in order], *how)
        return orient(skeleton, self.rule, tests.decider.names), skeleton.ledger

    def resample(self, decider: Any, k: int) -> np.ndarray:
        """The marks on the k-th resample: the distinct rows of a bootstrap draw."""
        draw = stream(self.seed, RESAMPLES, k)
        p, n = len(decider.names), decider.n_rows
        rows = np.unique(draw.integers(n, size=n))
        quick = hasattr(decider, "resampled")  # shares what is computed from all rows
        some = decider.resampled(rows, self.alpha) if quick else decider.on_rows(rows)
        order = draw.permutation(p) if self.orders > 1 else np.arange(p)
        return shares(self.run(Remembered(some), order)[0].codes)


def in_processes(searched: Search, decider: Any, resamples: range, n_jobs: int) -> np.ndarray:
    """The sum of the marks on these resamples; p-values meet in the cache, if there is one."""
    from joblib import Parallel, delayed, parallel_config  # type: ignore[import-untyped]

    key = uuid4().hex
    total = np.zeros((len(decider.names), len(decider.names), 3))
    jobs = (delayed(_in_process)(searched, decider, k, key) for k in resamples)
    # One thread of BLAS each, for many small matrices, and no files of arrays that an interrupt would leave.
    how: dict[str, Any] = {"inner_max_num_threads": 1, "max_nbytes": None}
    try:
        with (
            parallel_config("loky", n_jobs=min(n_jobs, len(resamples)), **how),
            progress_bar(len(resamples), float("inf"), "PC on resamples", "resample") as shown,
        ):
            with _interrupts_wait():
                found = Parallel(return_as="generator", batch_size=1)(jobs)
            for one in found:
                total = total + one
                shown.update(1)
    except pickle.PicklingError as error:
        seen = "test cannot be sent to other processes, as something in it cannot be pickled"
        raise TypeError(f"{seen}; use n_jobs=1") from error
    except KeyboardInterrupt:  # what they are at is not wanted any more; p-values are kept as they come
        from joblib.externals.loky import get_reusable_executor  # type: ignore[import-untyped]

        get_reusable_executor().shutdown(wait=False, kill_workers=True)
        raise
    return total


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Ctrl-C, which reaches all, waits until this is left; processes started here never hear it."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    from multiprocessing import resource_tracker as one

    from joblib.externals.loky.backend import resource_tracker as other  # type: ignore[import-untyped]

    for tracker in (one, other):  # those of Python 3.11 and joblib 1.4 unblock interrupts as they start
        tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # inherited
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _in_process(searched: Search, decider: Any, k: int, key: str) -> np.ndarray:
    """One resample; those of one search that meet in a process share what its test has computed."""
    if key not in _SEARCHES:
        _SEARCHES.clear()
        _SEARCHES[key] = decider
    with showing_progress(False):
        return searched.resample(_SEARCHES[key], k)


_SEARCHES: dict[str, Any] = {}  # the test of the last search that this process had a part in
