"""One thread of BLAS for few rows: its others spin while they wait, and small products never fill them.

A search for a graph among 333 rows took twice the time by the clock with two threads, and five times the
processor's.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

# By the clock two threads took 1.3 times as long for a graph of 1,000 to 4,900 rows, and .9 to 1 times for a
# test of them.
FEW_ROWS = 5_000
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def is_for_one_thread(rows: int | None) -> bool:
    """Whether so many rows are few, and nobody set a number of threads: whoever does decides."""
    return rows is not None and rows <= FEW_ROWS and not any(name in os.environ for name in THREADS)


@contextmanager
def one_thread(rows: int | None) -> Iterator[None]:
    """Within this block matrix products of few rows take one thread; of many rows nothing changes.

    >>> with one_thread(100):
    ...     pass
    """
    if not is_for_one_thread(rows):
        yield
        return
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with threadpool_limits(1):
        yield
