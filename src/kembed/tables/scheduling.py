"""Where files are read: in this process, by workers on this machine, or by a Dask scheduler anywhere."""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
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
        from kembed.tables.dask import engine_of

        if (active := engine_of()).client is not None:
            return active
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
    engine: AbstractContextManager[Engine] = nullcontext(Here())
    if where != "none":
        from kembed.tables.dask import engine_of, local_engine

        if where == "local":
            engine = local_engine(workers)
        else:
            connected = engine_of(where)
            engine = closing(connected) if isinstance(where, str) else nullcontext(connected)
    with engine as chosen:
        token = _current.set(chosen)
        try:
            yield
        finally:
            _current.reset(token)
