"""Where files are read: in this process, by workers on this machine, or by a Dask scheduler anywhere."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from kembed.core import checks
from kembed.tables.parts import Engine, Here

_current: ContextVar[Engine | None] = ContextVar("_current", default=None)


def current_engine() -> Engine:
    """The scheduler that was asked for, the client that is active, or this process."""
    found = _current.get()
    if found is not None:
        return found
    if "distributed" in sys.modules:
        from kembed.tables.dask import active_engine

        return active_engine() or Here()
    return Here()


@contextmanager
def scheduler(where: Any = "local", workers: int = 2) -> Iterator[None]:
    """Read files with a Dask scheduler within this block.

    `where` is `"local"` (so many worker processes on this machine, for as long as the block runs), the
    address of a scheduler, a `distributed.Client`, or `"none"` for this process. Data stay where they are
    read: what travels are functions of kilobytes, and sums. Files must be where the workers can read them.

    >>> import kembed
    >>> with kembed.scheduler("none"):
    ...     pass
    """
    checks.count(workers, "workers", 1)
    if isinstance(where, str) and where == "none":
        with _using(Here()):
            yield
        return
    from kembed.tables.dask import engine_of, local_engine

    if isinstance(where, str) and where == "local":
        with local_engine(workers) as engine, _using(engine):
            yield
        return
    engine = engine_of(where)
    try:
        with _using(engine):
            yield
    finally:
        if isinstance(where, str):  # a connection of our own
            engine.close()


@contextmanager
def _using(engine: Engine) -> Iterator[None]:
    token = _current.set(engine)
    try:
        yield
    finally:
        _current.reset(token)
