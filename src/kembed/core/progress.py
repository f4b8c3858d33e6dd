"""A progress bar for long passes over a kernel matrix, and none for short ones."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

# Whether to show bars: True, False, or None for "if standard error is a terminal".
_wanted: ContextVar[bool | None] = ContextVar("_wanted", default=None)
# What goes away while a bar is shown: a spinner on the same line, for instance.
_aside: ContextVar[Callable[[], AbstractContextManager[object]]] = ContextVar("_aside", default=nullcontext)
# What is called when a stage of the work begins.
_on_stage: ContextVar[Callable[[str, float], object] | None] = ContextVar("_on_stage", default=None)
# A pass over fewer entries than this takes about a second or less.
LONG = 50_000_000


def showing_progress(progress: bool | None) -> AbstractContextManager[None]:
    """Show bars, or not, within this block."""
    return _within(_wanted, progress)


@contextmanager
def watched(
    aside: Callable[[], AbstractContextManager[object]], on_stage: Callable[[str, float], object]
) -> Iterator[None]:
    """Show every bar within `aside()`, and call `on_stage` where `stage` is called."""
    with _within(_aside, aside), _within(_on_stage, on_stage):
        yield


def stage(what: str, share: float) -> None:
    """Report what is done now, and which share of the work came before it."""
    if (on_stage := _on_stage.get()) is not None:
        on_stage(what, share)


@contextmanager
def _within(variable: ContextVar[Any], value: Any) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


@contextmanager
def progress_bar(total: int, entries: float, what: str, unit: str = "diagonal") -> Iterator[Any]:
    """A bar of `total` steps over a pass of so many matrix entries; its `update` takes finished steps.

    Where nothing is shown its `disable` is True.
    """
    wanted = _wanted.get()
    if wanted is None:
        wanted = sys.stderr is not None and sys.stderr.isatty()
    if not wanted or entries < LONG:
        yield SimpleNamespace(update=lambda count: None, disable=True)
        return
    from tqdm import tqdm

    with _aside.get()(), tqdm(total=total, desc=what, unit=unit, leave=False) as shown:
        yield shown
