"""Words for people at a shell: what errors, columns and groups are called there."""

import os
import re
from typing import Any

from kembed.core.text import printable, visible

SAYS_LITTLE = 2  # letters: "m" and "f", "NY" and "LA" need the column beside them
ANSWERS = ("yes", "no", "true", "false", "none", "other")


class UsageError(ValueError):
    """What is wrong with a command, in one line with the remedy."""


def to_nowhere(stream: Any) -> None:
    """Let what a stream still holds, and what comes, disappear."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def readable(error: BaseException) -> str:
    r"""One line: what the operating system or the library said.

    >>> readable(ValueError("give rows\nor columns"))
    'give rows or columns'
    """
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        text = f"{where}{error.strerror[:1].lower()}{error.strerror[1:]}; check the place and its permissions"
    else:
        text = str(error) or type(error).__name__
    return visible(text)


def beside(sentence: str, more: dict[str, str]) -> str:
    """A verdict with what it leaves out.

    >>> beside("They differ.", {"Left out": "'name'"}), beside("They differ.", {"Left out": ""})
    ("They differ. Left out: 'name'.", 'They differ.')
    """
    start, end = sentence.rstrip(".:"), sentence[-1]  # a colon, where regions follow
    sentences = [start, *(f"{what}: {names}" for what, names in more.items() if names)]
    return ". ".join(sentences) + end


def of_columns(names: list[str]) -> str:
    """A few names and how many more.

    >>> of_columns(list("abcdefghi"))
    'a, b, c, d, e, f and 3 more'
    """
    shown = [printable(name) for name in names]
    return ", ".join(shown) if len(shown) <= 8 else f"{', '.join(shown[:6])} and {len(shown) - 6} more"


def short(label: str, labels: tuple[str, ...]) -> str:
    """A file by its last name, unless another has the same.

    >>> short("data/a.csv", ("data/a.csv", "data/b.csv")), short("x/a.csv", ("x/a.csv", "y/a.csv"))
    ('a.csv', 'x/a.csv')
    """
    last = [each.replace("\\", "/").rstrip("/").rpartition("/")[2] for each in labels]
    return last[labels.index(label)] if len(set(last)) == len(labels) else label


def of_groups(column: str, values: list[str]) -> tuple[str, ...]:
    """What groups are called: by their values, and by the column too where those say little.

    >>> of_groups("species", ["Adelie", "Gentoo"]), of_groups("survived", ["no", "yes"])
    (('Adelie', 'Gentoo'), ('survived=no', 'survived=yes'))
    """
    telling = all(len(value) > SAYS_LITTLE and value.lower() not in ANSWERS for value in values)
    plain = telling and not any(re.fullmatch(r"[-+.\d\s:eE]+", value) for value in values)
    return tuple(values) if plain else tuple(f"{column}={value}" for value in values)


def lengthscales(kernel: Any, spread: Any) -> list[list[float]]:
    """Every column's lengthscales in its own units."""
    import numpy as np

    if hasattr(kernel, "lengthscales"):  # several scales, the same in every column
        return [[float(one * unit) for one in kernel.lengthscales] for unit in spread]
    scales = np.broadcast_to(kernel.lengthscale, len(spread))
    return [[float(one * unit)] for one, unit in zip(scales, spread, strict=True)]
