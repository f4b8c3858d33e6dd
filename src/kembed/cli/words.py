"""Words for people at a shell: what errors, kernels and p-values are called there."""

import re
from collections.abc import Collection
from typing import Any

from kembed.core.text import listing, printable, shortened, visible

SAYS_LITTLE = 2  # letters: "m" and "f", "NY" and "LA" need the column beside them
ANSWERS = ("yes", "no", "true", "false", "none", "other")
# What the library's arguments are called at a shell.
_OPTIONS = {
    r"nan_policy='omit'": "--missing omit",
    r"nan_policy": "--missing",
    r"n_resamples": "--resamples",
    r"by_column=True|\bby_column\b": "--by-column",
    r"weights\[0\]": "--weights of the first sample",
    r"weights\[1\]": "--weights of the second sample",
    r"\bweights( goes with| out\b)": r"--weights\1",
    r"statistic='features'": "--fast",
    r"kernel='(\w+)'": r"--kernel \1",
    r"\brng\b": "--seed",
    r"and null='wild' is for those, unit=": "and --null wild of kembed test is for those, in Python unit=",
    r"and null='shift' is for those, unit=": (
        "and --null shift of kembed independence is for those, in Python unit="
    ),
    r"null='(permutation|wild|shift)'": r"--null \1",
    r"or a kernel object": "or a lengthscale",
    r"and prewhiten= is for those": "and --time takes slow changes out",
    r"and prewhiten= and memory= are for those": "and conditional_test in Python has prewhiten= and memory=",
    r"and unit= of mmd_test is for those": "and mmd_test in Python has unit= for those",
    r"use paired=True": "use --paired of kembed test",
    r"make them missing if": "name them with --na if",
    r"make it categories, as by astype\('category'\)": "compare it as text with --as-text",
    r" \(see \.plot\(\)\)": "",
}


def readable(error: BaseException) -> str:
    r"""One line: what the operating system or the library said, in the words of the shell.

    >>> readable(ValueError("give rows\nor use nan_policy='omit'"))
    'give rows or use --missing omit'
    """
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        text = f"{where}{error.strerror[:1].lower()}{error.strerror[1:]}; check the place and its permissions"
    else:
        text = str(error) or type(error).__name__
    for words, option in _OPTIONS.items():
        text = re.sub(words, option, text)
    return visible(text)


def beside(sentence: str, left_out: Collection[str]) -> str:
    """A verdict with the columns it does not speak of.

    >>> beside("They differ.", ["name"]), beside("They differ.", [])
    ("They differ. Left out: 'name'.", 'They differ.')
    """
    if not left_out:
        return sentence
    start, end = sentence.rstrip(".:"), sentence[-1]  # a colon, where regions follow
    return f"{start}. Left out: {listing(left_out)}{end}"


def of_columns(names: list[str]) -> str:
    """A few names and how many more.

    >>> of_columns(list("abcdefghi"))
    'a, b, c, d, e, f and 3 more'
    """
    shown = [printable(name) for name in names]
    return ", ".join(shown) if len(shown) <= 8 else f"{', '.join(shown[:6])} and {len(shown) - 6} more"


def of_kernel(kernel: Any) -> str:
    """A kernel in a few words; lengthscales as a range.

    >>> import kembed
    >>> of_kernel(kembed.Gaussian([1.0, 2.5]))
    'Gaussian, lengthscales 1 to 2.5'
    """
    from kembed import Delta, Gaussian, OnColumns, Product

    if isinstance(kernel, tuple):
        return " with ".join(of_kernel(part) for part in kernel)
    if hasattr(kernel, "ridge"):
        return f"whitened {of_kernel(kernel.kernel)}"
    if isinstance(kernel, Gaussian):
        import numpy as np

        scales = np.ravel(kernel.lengthscale)
        if np.ptp(scales) == 0.0:
            return f"Gaussian, lengthscale {scales[0]:.3g}"
        return f"Gaussian, lengthscales {scales.min():.3g} to {scales.max():.3g}"
    if isinstance(kernel, OnColumns):
        return "equality of text" if isinstance(kernel.kernel, Delta) else of_kernel(kernel.kernel)
    if isinstance(kernel, Product):
        return " and ".join(of_kernel(part) for part in kernel.kernels)
    return shortened(repr(kernel), 70)


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
