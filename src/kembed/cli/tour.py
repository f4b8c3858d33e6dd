"""`kembed demo`: a tour on real data shipped with scikit-learn.

442 diabetes patients (Efron et al. 2004), ten measurements at the start and how far the disease had
progressed a year later. Did patients whose disease progressed much differ at the start, and in what?
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kembed.cli import outputs
from kembed.cli.options import Quiet, command
from kembed.cli.outcomes import verdict
from kembed.cli.screen import Screen
from kembed.cli.two_samples import print_summaries
from kembed.core.writing import write_whole

if TYPE_CHECKING:
    import polars as pl

# What scikit-learn calls bp, s1, ... is named as in Efron et al.; the files come in the order of the tour.
COLUMNS = "age,sex,body mass,blood pressure,cholesterol,LDL,HDL,cholesterol/HDL,log triglycerides,blood sugar"
FILES = ("slow.csv", "fast.csv", "patients.csv", "report.html", "comparison.png", "witness.png")
SEED = 0  # of the demo, so that everybody sees the same


@command(Quiet)
def run_demo(
    screen: Screen,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for report and figures.")
    ] = Path("kembed-demo"),
) -> None:
    """A tour on real data: a verdict, a report and figures in a folder, in under a minute."""
    place = outputs.folder(output)
    files = {name: place / name for name in FILES}
    with screen.waiting("comparing 442 patients"):
        slow, fast = patients()
        whole = in_one(slow, fast)
        for name, table in (("slow", slow), ("fast", fast), ("patients", whole)):
            write_whole(files[f"{name}.csv"], table.write_csv)
        from kembed import compare, mmd_test

        found = compare(slow, fast, labels=("slow", "fast"), rng=SEED)
        found.save_report(files["report.html"])
        outputs.save_plot(found, files["comparison.png"])
        outputs.save_plot(found.witness, files["witness.png"], labels=found.labels)
        rows = whole.drop("progress").sample(fraction=1.0, shuffle=True, seed=SEED)
        halves = mmd_test(rows.head(slow.height), rows.tail(fast.height), rng=SEED)
    screen.say("442 diabetes patients: within a year the disease progressed more in one half", "")
    screen.say("(fast.csv) than in the other (slow.csv). Did they differ at the start?", "")
    screen.out.print()
    screen.say(found.verdict)
    print_summaries(screen, found)
    screen.out.print()
    both = "All patients in two random halves:"
    screen.say(verdict(halves, found.alpha, f"{both} they differ", f"{both} no difference was found"), "")
    screen.wrote(list(files.values()))
    screen.out.print()
    screen.say("Open the report in a browser, or ask yourself:", "dim")
    screen.say(f"  kembed test {files['slow.csv']} {files['fast.csv']} --by-column", "dim")


def patients() -> tuple[pl.DataFrame, pl.DataFrame]:
    """The patients below and above the median progression."""
    import numpy as np
    import polars as pl
    from sklearn.datasets import load_diabetes

    data = load_diabetes(scaled=False)
    table = pl.DataFrame(data.data, schema=COLUMNS.split(",")).with_columns(pl.col("sex").cast(pl.Int64))
    fast = data.target > np.median(data.target)
    return table.filter(~fast), table.filter(fast)


def in_one(slow: pl.DataFrame, fast: pl.DataFrame) -> pl.DataFrame:
    """All patients, and which half they are in."""
    import polars as pl

    halves = {"slow": slow, "fast": fast}
    return pl.concat([half.with_columns(progress=pl.lit(name)) for name, half in halves.items()])
