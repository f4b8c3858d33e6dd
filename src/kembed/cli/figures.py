"""`kembed reproduce`: the figures of the paper."""

from __future__ import annotations

from pathlib import Path

from kembed.cli import outputs
from kembed.cli.screen import Screen
from kembed.data.files import InputError


def run_reproduce(name: str, output: Path, *, quiet: bool) -> None:
    """Draw one figure, or all, into a folder and name the files."""
    screen = Screen(json=False, quiet=quiet)
    from kembed import experiments

    if name not in (*experiments.NAMES, "all"):
        raise InputError(f"there is no figure {name!r}; give {', '.join(experiments.NAMES)} or all")
    place = outputs.folder(output)
    with screen.waiting(f"computing {name}") as bar:
        files = experiments.reproduce(
            name, place, progress=bar, say=lambda sentence: screen.say(sentence, "")
        )
    screen.wrote(files)
