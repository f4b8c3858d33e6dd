"""The paper's experiments, one module a figure; each runs as `python -m kembed.experiments.<name>`."""

import argparse
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kembed.core import checks
from kembed.core.backend import installed
from kembed.core.writing import write_text
from kembed.experiments import output

NAMES = ("figure1", "figure2", "figure3", "ozone")
# What a figure needs beyond a plain installation, and how to get it.
NEEDS = {
    "figure3": (
        ("jax", "numpyro", "arviz"),
        "figure3 draws kernels with NumPyro and ArviZ: pip install 'kembed[bayes]'",
    ),
}
QUICK_NOTE = "Quick run with few repetitions, not the numbers of the documentation"
# These keep what they compute in a folder beside their files, and go on from there after an interruption.
KEEPING = ("ozone",)


def reproduce(
    name: str,
    folder: Any,
    *,
    quick: bool = False,
    progress: bool | None = None,
    say: Callable[[str], object] = print,
) -> list[Path]:
    """Measure one of the paper's figures anew and write it: pictures, and a text with the numbers.

    Parameters
    ----------
    name
        `"figure1"`, `"figure2"`, `"figure3"`, `"ozone"`, or `"all"`, which leaves out, and says so, what
        needs a package that is not installed.
    folder
        Where the files go; made if need be. `"ozone"` keeps its p-values there too (`cache`): what was
        interrupted goes on where it stopped, and a second run takes seconds.
    quick
        Whether to draw the figures from fewer repetitions and draws. The text of every figure then begins
        with a note that its numbers are not those of the documentation.
    progress
        Whether to show progress bars; None: on a terminal only.
    say
        Called with each measured sentence as soon as its figure is done; `print` unless given.

    Returns the paths of the files, in the order of writing. Every file is written whole or not at all.

    Examples
    --------
    >>> import tempfile
    >>> from kembed.experiments import reproduce
    >>> [path.name for path in reproduce("figure1", tempfile.mkdtemp(), say=lambda sentence: None)]
    ['figure1.png', 'figure1.txt']

    """
    checks.choice(name, "name", (*NAMES, "all"))
    names: tuple[str, ...] = NAMES if name == "all" else (name,)
    for one, (packages, lacking) in NEEDS.items():
        if one in names and not all(map(installed, packages)):
            if name != "all":
                raise ImportError(lacking)
            names = tuple(other for other in names if other != one)
            say(f"{one} is left out: {lacking}")
    target = output.writable(folder)  # minutes of work are not to end in a folder that takes no files
    written = []
    for one in names:
        module = importlib.import_module(f"kembed.experiments.{one}")
        kept = {"cache": target / "cache"} if one in KEEPING else {}
        fewer = getattr(module, "QUICK", {}) if quick else {}
        result = module.run(progress=progress, **kept, **fewer)
        sentences = [*([f"{QUICK_NOTE}: {one}."] if fewer else []), *module.report(result)]
        for file, draw in module.FIGURES.items():
            written.append(output.save(draw(result), target / f"{file}.png"))
        for file, write in getattr(module, "TEXTS", {}).items():
            written.append(write_text(target / file, write(result)))
        written.append(write_text(target / f"{one}.txt", "\n".join(sentences) + "\n"))
        for sentence in sentences:
            say(sentence)
    return written


def main(name: str, description: str | None) -> None:
    """Reproduce one figure in the folder named by `--output`, and say what was measured."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--output", type=Path, default=Path("build/figures"), help="folder for the figure")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    given = parser.parse_args()
    print("Files:", *reproduce(name, given.output, quick=given.quick))
