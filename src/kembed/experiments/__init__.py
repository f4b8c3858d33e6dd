"""The paper's experiments, one module a figure: what it measures (`run`), says (`report`) and draws."""

import importlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kembed.core import checks
from kembed.core.backend import installed
from kembed.core.writing import write_text
from kembed.experiments import output

NAMES = ("figure1", "figure2", "figure3", "ozone")
LACKING = "figure3 draws kernels with NumPyro and ArviZ: pip install 'kembed[bayes]'"
QUICK_NOTE = "Quick run with few repetitions, not the numbers of the documentation"


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
    name : {"figure1", "figure2", "figure3", "ozone", "all"}
        `"all"` leaves out, and says so, what needs a package that is not installed.
    folder : path
        Where the files go; made if need be. `"ozone"` keeps its p-values there too (`cache`): what was
        interrupted goes on where it stopped, and a second run takes seconds.
    quick : bool
        Whether to draw the figures from fewer repetitions and draws. The text of every figure then begins
        with a note that its numbers are not those of the documentation.
    progress : bool, optional
        Whether to show progress bars; None: on a terminal only.
    say : callable
        Called with each measured sentence as soon as its figure is done.

    Returns
    -------
    list of pathlib.Path
        The files, in the order of writing. Every file is written whole or not at all.

    Raises
    ------
    ImportError
        If figure 3 is asked for and NumPyro or ArviZ is not installed.

    Examples
    --------
    >>> from kembed.experiments import reproduce
    >>> [path.name for path in reproduce("figure1", tempfile.mkdtemp(), say=lambda sentence: None)]
    ['figure1.png', 'figure1.txt']

    """
    checks.choice(name, "name", (*NAMES, "all"))
    names = list(NAMES if name == "all" else (name,))
    if "figure3" in names and not all(map(installed, ("jax", "numpyro", "arviz"))):
        if name != "all":
            raise ImportError(LACKING)
        names.remove("figure3")
        say(f"figure3 is left out: {LACKING}")
    target = _writable(folder)  # minutes of work are not to end in a folder that takes no files
    written = []
    for one in names:
        module = importlib.import_module(f"kembed.experiments.{one}")
        options = getattr(module, "QUICK", {}) if quick else {}
        sentences = [f"{QUICK_NOTE}: {one}."] if options else []
        if one == "ozone":
            options = {"cache": target / "cache", **options}
        result = module.run(progress=progress, **options)
        sentences += module.report(result)
        for file, draw in module.FIGURES.items():
            written.append(output.save(draw(result), target / f"{file}.png"))
        written.append(write_text(target / f"{one}.txt", "\n".join(sentences) + "\n"))
        for sentence in sentences:
            say(sentence)
    return written


def _writable(folder: Any) -> Path:
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
