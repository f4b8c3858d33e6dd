"""A line on standard error while something takes long; it steps aside for the library's progress bars."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

FRAMES = "|/-\\"
DELAY, STEP = 0.5, 0.1  # seconds: nothing is shown of what is done sooner
_CLEAR = "\r\x1b[K"


class Spinner(threading.Thread):
    """What is being done and for how many seconds, until the block is left."""

    def __init__(self, what: str) -> None:
        super().__init__(daemon=True)
        self.what, self.done, self.began = what, threading.Event(), time.monotonic()
        self.shown, self.lock = False, threading.Lock()

    def run(self) -> None:
        """Draw the line again and again."""
        self.done.wait(DELAY)
        step = 0
        while not self.done.is_set():
            if not _bars():
                seconds = time.monotonic() - self.began
                line = f"{FRAMES[step % len(FRAMES)]} {self.what} ({seconds:.0f} s)"
                with self.lock:
                    sys.stderr.write(f"\r{line[: shutil.get_terminal_size().columns - 1]}\x1b[K")
                    sys.stderr.flush()
                    self.shown = True
            step += 1
            self.done.wait(STEP)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Within, the line is away and another may be written."""
        with self.lock:
            if self.shown:
                sys.stderr.write(_CLEAR)
                sys.stderr.flush()
            yield

    def __enter__(self) -> Spinner:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.join()
        with self.aside():
            pass


def _bars() -> bool:
    """Whether the library is drawing a bar of its own."""
    tqdm = sys.modules.get("tqdm")
    return tqdm is not None and len(getattr(tqdm.tqdm, "_instances", ())) > 0
