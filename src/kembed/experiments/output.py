"""Where figures go: whole files or none, with the same look everywhere."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Okabe & Ito's colours: told apart by colour-blind readers and, by lightness, in print.
BLACK, ORANGE, SKY, GREEN, BLUE, VERMILION = "#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00"
DPI = 120  # sharp at the width of a page, and small


def main(name: str, description: str | None) -> None:
    """Reproduce one figure in the folder named by `--output`, and say what was measured."""
    from kembed.experiments import reproduce

    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--output", type=Path, default=Path("build/figures"), help="folder for the figure")
    paths = reproduce(name, parser.parse_args().output)
    print("Files:", *paths)


def writable(folder: Any) -> Path:
    """A folder that takes files, made if need be."""
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=target).close()
    except OSError as problem:
        raise type(problem)(
            f"folder must take files, but {str(target)!r} does not ({problem.strerror}); name another"
        ) from None
    return target


def wanted(progress: bool | None) -> bool:
    """Whether to show progress: as told, else on a terminal only."""
    if progress is not None:
        return progress
    return sys.stderr is not None and sys.stderr.isatty()


def new_figure(columns: int, width: float = 4.2, height: float = 3.4) -> tuple[Any, Any]:
    """A row of panels, without a display."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height), layout="constrained", dpi=DPI)
    return figure, figure.subplots(1, columns, squeeze=False)[0]


def mosaic(plan: list[str], width: float, height: float) -> tuple[Any, Any]:
    """Panels laid out by letters, one string a row; width and height in inches of one cell."""
    from matplotlib.figure import Figure

    size = (width * len(plan[0]), height * len(plan))
    figure = Figure(figsize=size, layout="constrained", dpi=DPI)
    return figure, figure.subplot_mosaic([list(row) for row in plan])


def save(figure: Any, path: Path) -> Path:
    """Write a figure, whole."""

    def write(name: str) -> None:
        from PIL import Image

        figure.savefig(name)
        with Image.open(name) as image:  # 256 colours are enough for lines and maps, in half the bytes
            image.convert("RGB").quantize(256, kmeans=1).save(name, optimize=True)

    return _whole(path, write)


def save_text(text: str, path: Path) -> Path:
    """Write a text, whole."""
    return _whole(path, lambda name: Path(name).write_text(text, encoding="utf-8"))


def _whole(path: Path, write: Callable[[str], object]) -> Path:
    """Write under a temporary name in the same folder and move it into place."""
    handle, name = tempfile.mkstemp(suffix=path.suffix, dir=path.parent)
    os.close(handle)
    try:
        write(name)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return path
