"""A comparison as one HTML page that needs nothing else: no network, no scripts, no fonts."""

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kembed.comparing.compare import Comparison
from kembed.core.progress import stage
from kembed.core.writing import write_text

__all__ = ["render", "save"]


def save(comparison: Comparison, path: str | Path, **about: Any) -> Path:
    """Write the page, whole or not at all, and return its path; `about` as for `render`.

    >>> import tempfile, numpy as np, kembed
    >>> rng = np.random.default_rng(0)
    >>> found = kembed.compare(rng.normal(size=40), rng.normal(size=40), kernel="median")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(found, f"{folder}/report.html").read_text(encoding="utf-8")[:15]
    '<!doctype html>'
    """
    return write_text(path, render(comparison, **about))


def render(
    comparison: Comparison,
    *,
    date: datetime.date | str | None = None,
    command: str | None = None,
    notes: Sequence[str] = (),
    left_out: Mapping[str, str] | None = None,
    samples: str | None = None,
) -> str:
    """The page as text; the same comparison, the same date and the same words about it give the same page.

    `date` is today unless given, a date or a string. `command` is what was typed at a shell, `notes` are
    sentences that the reader should see, `left_out` has columns that were not compared, and why; `samples`
    is the code that reads x and y.
    """
    from kembed.report.page import fill

    stage("drawing", 0.75)
    date = datetime.date.today() if date is None else date
    date = date if isinstance(date, str) else f"{date:%d %B %Y}".lstrip("0")
    shown: dict[str, Any] = {"date": date, "command": command, "not_compared": left_out or {}}
    # Notes of the caller hold the result's as well.
    return fill(comparison, samples, notes=tuple(notes) or comparison.test.notes, **shown)
