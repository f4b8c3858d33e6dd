"""Repetitions on every core (or KEMBED_WORKERS of them), and what all studies of power share."""

import multiprocessing
import os
import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

B = int(os.environ.get("KEMBED_RESAMPLES", "299"))
LEVEL, SEED = 0.05, 2026


def seeded(name: str, repetition: int) -> np.random.Generator:
    """The generator of one repetition of a set."""
    return np.random.default_rng([SEED, zlib.crc32(name.encode()), repetition])


def spread(function: Callable[[Any], Any], jobs: Iterable[Any]) -> list[Any]:
    """function(job) for every job, in order."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"  # inherited by the workers, which have not loaded a BLAS yet
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    workers = int(os.environ.get("KEMBED_WORKERS", os.cpu_count() or 1))
    if workers == 1:  # in this process; set OMP_NUM_THREADS=1
        return [function(job) for job in jobs]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        return list(pool.map(function, jobs, chunksize=4))
