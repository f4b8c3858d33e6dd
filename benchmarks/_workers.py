"""Repetitions on every core, or KEMBED_WORKERS of them: one process a core, one thread each."""

import multiprocessing
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from typing import Any


def spread(function: Callable[[Any], Any], jobs: Iterable[Any]) -> list[Any]:
    """function(job) for every job, in order."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"  # inherited by the workers, which have not loaded a BLAS yet
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    workers = int(os.environ.get("KEMBED_WORKERS", os.cpu_count() or 1))
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        return list(pool.map(function, jobs, chunksize=4))
