"""A comparison as one HTML page that needs nothing else: no network, no scripts, no fonts."""

import datetime
from pathlib import Path

from kembed.comparing.compare import Comparison
from kembed.core.writing import write_text

__all__ = ["render", "save"]


def save(comparison: Comparison, path: str | Path, *, date: datetime.date | str | None = None) -> Path:
    """Write the page, whole or not at all, and return its path.

    >>> import tempfile, numpy as np, kembed
    >>> rng = np.random.default_rng(0)
    >>> found = kembed.compare(rng.normal(size=40), rng.normal(size=40), kernel="median")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(found, f"{folder}/report.html").read_text(encoding="utf-8")[:15]
    '<!doctype html>'
    """
    return write_text(path, render(comparison, date=date))


def render(comparison: Comparison, *, date: datetime.date | str | None = None) -> str:
    """The page as text; the same comparison and the same date give the same page.

    `date` is today unless given, a date or a string.
    """
    from kembed.report.page import fill

    date = datetime.date.today() if date is None else date
    return fill(comparison, date if isinstance(date, str) else f"{date:%d %B %Y}".lstrip("0"))
