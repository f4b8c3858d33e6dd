"""The commands of `kembed`: their arguments and help; the work is in the modules they call."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from kembed import __version__
from kembed.cli import options
from kembed.cli.options import Grouping, Printing, Reading, Searching, Seeded, Testing, sharing

CODES = (
    "Exit codes: 0 it ran; 1 a difference was found, with --fail-on-difference; 2 bad input; "
    "70 a fault of kembed's own; 130 interrupted."
)
FILES = "Files: CSV, TSV, Parquet, Feather or Arrow; CSV may be gzipped; '-' is CSV on standard input."

app = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)

SampleA = Annotated[str, typer.Argument(metavar="A", help="A file, or - for standard input.")]
SampleB = Annotated[
    str | None, typer.Argument(metavar="B", help="Another; none with --group.", show_default=False)
]
OneFile = Annotated[str, typer.Argument(metavar="FILE", help="A file, or - for standard input.")]
FigureFile = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Save the figure: .png, .svg or .pdf.",
        rich_help_panel="Output",
    ),
]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kembed {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True, epilog=f"{FILES}\n\n{CODES}")
def kembed(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", metavar="", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Compare samples: whether they differ, where, and how sure that is."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), nl=False)


@app.command("test", epilog=CODES)
@sharing(reading=Grouping, testing=Testing, printing=Printing)
def compare_two(
    context: typer.Context,
    a: SampleA,
    b: SampleB = None,
    by_column: Annotated[
        bool,
        typer.Option(
            "--by-column", metavar="", help="Also test every column by itself.", rich_help_panel="Method"
        ),
    ] = False,
    fast: options.Fast = False,
    fail_on_difference: options.FailOnDifference = False,
    **shared: Any,
) -> None:
    """Do two samples differ? An exact test, by files or by the groups of one file."""
    from kembed.cli.two_samples import run_test

    _leave(run_test(context.obj, a, b, by_column=by_column, fast=fast, **shared) and fail_on_difference)


@app.command(epilog=CODES)
@sharing(reading=Grouping, seeded=Seeded, printing=Printing)
def witness(
    context: typer.Context,
    a: SampleA,
    b: SampleB = None,
    kernel: Annotated[
        str,
        typer.Option(
            metavar="bkl|ard|median|NUMBER",
            help="A kernel learned from the data, the median rule, or a lengthscale.",
            rich_help_panel="Method",
        ),
    ] = "bkl",
    level: Annotated[
        float, typer.Option(metavar="P", help="Level of the bands.", rich_help_panel="Method")
    ] = 0.9,
    output: FigureFile = None,
    fail_on_difference: options.FailOnDifference = False,
    **shared: Any,
) -> None:
    """Where do two samples differ? Regions where one surely has more rows, and which columns matter."""
    from kembed.cli.two_samples import run_witness

    _leave(
        run_witness(context.obj, a, b, kernel=kernel, level=level, output=output, **shared)
        and fail_on_difference
    )


@app.command(epilog=CODES)
@sharing(reading=Grouping, testing=Testing, printing=Printing)
def report(
    context: typer.Context,
    a: SampleA,
    b: SampleB = None,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", help="The page to write.", rich_help_panel="Output"),
    ] = Path("report.html"),
    fail_on_difference: options.FailOnDifference = False,
    **shared: Any,
) -> None:
    """Everything about two samples on one page: verdict, columns, pictures, how to repeat it."""
    from kembed.cli.two_samples import run_report

    _leave(run_report(context.obj, a, b, output=output, **shared) and fail_on_difference)


@app.command(epilog=CODES)
@sharing(reading=Reading, testing=Testing, printing=Printing)
def independence(
    context: typer.Context,
    file: OneFile,
    x: Annotated[str, typer.Option("--x", metavar="A,B,...", help="Columns of one side.")],
    y: Annotated[str, typer.Option("--y", metavar="C,D,...", help="Columns of the other.")],
    fast: options.Fast = False,
    fail_on_dependence: Annotated[
        bool,
        typer.Option(
            "--fail-on-dependence",
            "--fail-on-difference",
            metavar="",
            help="Exit with 1 if a dependence is found.",
            rich_help_panel="Output",
        ),
    ] = False,
    **shared: Any,
) -> None:
    """Do columns of a file depend on other columns of it? An exact test of independence."""
    from kembed.cli.one_sample import run_independence

    _leave(run_independence(context.obj, file, x, y, fast=fast, **shared) and fail_on_dependence)


@app.command(epilog=CODES)
@sharing(reading=Reading, searching=Searching, printing=Printing)
def graph(
    context: typer.Context,
    file: OneFile,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Save the graph: a figure (.png, .svg, .pdf), Graphviz (.dot) or .json.",
            rich_help_panel="Output",
        ),
    ] = None,
    **shared: Any,
) -> None:
    """Which columns of a file cause which? A causal graph by conditional tests, and how sure each edge is."""
    from kembed.cli.graphs import run_graph

    run_graph(context.obj, file, output=output, **shared)


@app.command(epilog=CODES)
@sharing(reading=Reading, seeded=Seeded, printing=Printing)
def learn(
    context: typer.Context,
    file: OneFile,
    family: Annotated[
        Literal["gaussian", "ard", "auto"],
        typer.Option(
            help="One lengthscale, one for every column, or the best of five families.",
            rich_help_panel="Method",
        ),
    ] = "gaussian",
    output: FigureFile = None,
    **shared: Any,
) -> None:
    """Which lengthscale do the data speak for? Learned without labels, every mode shown."""
    from kembed.cli.one_sample import run_learn

    run_learn(context.obj, file, family=family, output=output, **shared)


@app.command(epilog=CODES)
def reproduce(
    name: Annotated[str, typer.Argument(metavar="NAME", help="figure1, figure2, figure3, ozone or all.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for the figures.")
    ] = Path("kembed-figures"),
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", metavar="", help="Print the measured numbers only.")
    ] = False,
) -> None:
    """Draw figures of the paper again, from data made here or shipped."""
    from kembed.cli.figures import run_reproduce

    run_reproduce(name, output, quiet=quiet)


@app.command(epilog=CODES)
def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for report and figures.")
    ] = Path("kembed-demo"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", metavar="", help="Print the verdict only.")] = False,
) -> None:
    """A tour on real data: a verdict, a report and figures in a folder, in under a minute."""
    from kembed.cli.demo import run_demo

    run_demo(output, quiet=quiet)


def _leave(difference: bool) -> None:
    if difference:
        raise typer.Exit(1)
