"""One thread of BLAS for few rows: its others spin while they wait, and small products never fill them.

A search for a graph among 333 rows took twice the time by the clock with two threads, and five times the
processor's.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# By the clock two threads took 1.3 times as long for a graph of 1,000 to 4,900 rows, and .9 to 1 times for a
# test of them.
FEW_ROWS = 5_000
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@contextmanager
def one_thread(rows: int | None) -> Iterator[None]:
    """Within this block matrix products of few rows take one thread; of many rows nothing changes.

    Nor does it where somebody has set a number of threads.

    >>> with one_thread(100):
    ...     pass
    """
    if rows is None or rows > FEW_ROWS or any(name in os.environ for name in THREADS):
        yield
        return
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with threadpool_limits(1):
        yield


def few_rows_one_thread(function: Callable[P, T]) -> Callable[P, T]:
    """Limit a public function to one thread of BLAS where its samples have few rows.

    The samples are the arguments without a name, or `data`.

    >>> @few_rows_one_thread
    ... def mean(x):
    ...     return sum(x) / len(x)
    >>> mean([1.0, 2.0])
    1.5
    """

    @wraps(function)
    def limited(*args: P.args, **kwargs: P.kwargs) -> T:
        values = (*args, kwargs.get("data"))
        sizes = [size for value in values if (size := _rows(value)) is not None]
        with one_thread(sum(sizes) if sizes else None):
            return function(*args, **kwargs)

    return limited


def _rows(value: Any) -> int | None:
    """The rows of a sample, or of several; None for what is read later, as files and lazy frames.

    >>> [_rows(value) for value in ([1.0, 2.0], {"u": [1.0]}, "a.csv", ([1.0], [2.0, 3.0]))]
    [2, 1, None, 3]
    """
    if isinstance(value, dict):
        value = next(iter(value.values()), ())
    if isinstance(value, list | tuple) and value and hasattr(value[0], "__len__"):
        return None if isinstance(value[0], str) else sum(_rows(each) or 0 for each in value)
    if isinstance(value, list | tuple):
        return len(value)
    rows = getattr(value, "given", None) or (getattr(value, "shape", None) or (None,))[0]  # of a source
    return rows if isinstance(rows, int) else None
