"""Files that commands write: the place is checked before work begins, and a file is whole or not there."""

import os
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import Any

from kembed.cli.words import UsageError
from kembed.core.text import label
from kembed.core.writing import place_of, write_whole

FIGURES = (".png", ".svg", ".pdf")  # what matplotlib writes and browsers and papers show
PAGES = (".html", ".htm")


def check_target(
    path: Path | None, suffixes: tuple[str, ...], inputs: Iterable[str | None] = (), option: str = "-o "
) -> None:
    """Refuse a place where no file of this kind can be written, or that is one of the inputs."""
    if path is None:
        return
    name = f"{option}{label(path)}"
    if path.suffix.lower() not in suffixes:
        raise UsageError(f"{name} must end in {' or '.join(suffixes)}; change its ending")
    if path.is_dir():
        raise UsageError(f"{name} is a folder; name a file in it")
    place = place_of(path)
    if not place.parent.is_dir():
        raise UsageError(f"the folder of {name} does not exist; make it, or choose another place")
    pipe = place.exists() and not place.is_file()
    if not os.access(place if pipe else place.parent, os.W_OK):
        what = f"{name}" if pipe else f"the folder of {name}"
        raise UsageError(f"{what} cannot be written to; choose another place")
    if any(source and Path(source).exists() and path.exists() and path.samefile(source) for source in inputs):
        raise UsageError(f"{name} is one of the inputs; choose another name")


def folder(path: Path, option: str = "-o") -> Path:
    """A folder to write into, made if need be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise UsageError(f"{option} {label(path)} is, or lies in, a file; choose another name") from None
    except OSError as error:
        seen = f"{option} {label(path)} cannot be made ({error.strerror})"
        raise UsageError(f"{seen}; choose another place") from None
    return path


def save_plot(result: Any, path: Path | None, **options: Any) -> None:
    """The figure of a result, drawn without a display, if a place for it was given."""
    if path is None:
        return
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    drawn = result.plot(**options)
    while isinstance(drawn, list | tuple) or hasattr(drawn, "flat"):  # panels of one figure
        drawn = next(iter(getattr(drawn, "flat", drawn)))
    figure = getattr(drawn, "figure", None) or drawn
    whole = BytesIO()  # drawn before any file is made
    figure.savefig(whole, dpi=150, format=path.suffix[1:].lower())
    plt.close(figure)
    write_whole(path, lambda draft: draft.write_bytes(whole.getvalue()))
