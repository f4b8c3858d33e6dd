"""Measure the paper's figures anew: `python -m experiments figure1|figure2|figure3|ozone|all`.

A module a figure: `run` measures, `report` says what was measured, `plot` draws it; `QUICK` is a smaller run.
"""

import argparse
import importlib
from pathlib import Path

NAMES = ("figure1", "figure2", "figure3", "ozone")
QUICK_NOTE = "Quick run with few repetitions, not the numbers of the documentation"


def reproduce(name: str, folder: Path, quick: bool = False) -> list[str]:
    """Write one picture, and beside it the sentences that are returned."""
    module = importlib.import_module(f"experiments.{name}")
    options = getattr(module, "QUICK", {}) if quick else {}
    sentences = [f"{QUICK_NOTE}: {name}."] if options else []
    folder.mkdir(parents=True, exist_ok=True)
    if name == "ozone":  # an interrupted study goes on where it stopped
        options = {"cache": folder / "cache", **options}
    result = module.run(**options)
    sentences += module.report(result)
    module.plot(result).savefig(folder / f"{name}.png")
    (folder / f"{name}.txt").write_text("\n".join(sentences) + "\n", encoding="utf-8")
    return sentences


def main(arguments: list[str] | None = None) -> None:
    """Read the command line, and print what was measured."""
    parser = argparse.ArgumentParser(prog="python -m experiments", description="The paper's figures.")
    parser.add_argument("name", choices=(*NAMES, "all"))
    parser.add_argument("--output", metavar="DIR", type=Path, default=Path("figures"))
    parser.add_argument("--quick", action="store_true", help="few repetitions: about two minutes for all")
    given = parser.parse_args(arguments)
    for name in NAMES if given.name == "all" else (given.name,):
        print(*reproduce(name, given.output, given.quick), sep="\n", flush=True)


if __name__ == "__main__":
    main()
