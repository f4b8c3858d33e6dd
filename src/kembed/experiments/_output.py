"""Where figures go: whole files or none, with the same look everywhere."""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

# Okabe & Ito's colours: told apart by colour-blind readers and, by lightness, in print.
BLACK, ORANGE, SKY, GREEN, BLUE, VERMILION = "#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00"


def parse_output(description: str | None) -> Path:
    """The folder named by `--output`, made if need be."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--output", type=Path, default=Path("build/figures"), help="folder for the figure")
    folder: Path = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def new_figure(columns: int, width: float = 4.2, height: float = 3.4) -> tuple[Any, Any]:
    """A row of panels, without a display."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height), layout="constrained", dpi=150)
    return figure, figure.subplots(1, columns, squeeze=False)[0]


def save(figure: Any, path: Path) -> Path:
    """Write a figure under a temporary name in the same folder and move it into place."""
    handle, name = tempfile.mkstemp(suffix=path.suffix, dir=path.parent)
    os.close(handle)
    try:
        figure.savefig(name)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return path
