"""What commands share: options, each declared once in a dataclass a panel of `--help`."""

import csv
import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass
from itertools import filterfalse
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.models import OptionInfo

from kembed.cli.screen import Screen
from kembed.cli.words import UsageError

# The words of `kembed.learning.kernel_words`, which is too heavy for `--help`.
KERNELS = ("fused", "bkl", "ard", "paper", "median", "median-raw")
A_KERNEL = "|".join([*KERNELS, "NUMBER"])
ONE_KERNEL = A_KERNEL.replace("fused|", "auto|")


def _panel(title: str) -> Callable[..., Any]:
    """Options under one title of the help; those named without a metavar are flags."""

    def option(help: str, metavar: str | None = "", *names: str, **settings: Any) -> Any:
        return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=title, **settings)

    return option


data, method, output = _panel("Data"), _panel("Method"), _panel("Output")
known, runs = _panel("What is known beforehand"), _panel("How sure, how fast")

Text = str | None
Texts = list[str] | None
SampleA = Annotated[str, typer.Argument(metavar="A", help="A file, or - for standard input.")]
SampleB = Annotated[
    Text, typer.Argument(metavar="B", help="A second file; none with --group.", show_default=False)
]
OneFile = Annotated[str, typer.Argument(metavar="FILE", help="A file, or - for standard input.")]
TO_FILE = ("FILE", "--output", "-o")
Figure = Annotated[Path | None, output("Save the figure: .png, .svg or .pdf.", *TO_FILE)]
GraphFile = Annotated[Path | None, output("Save the graph: a figure (.png, .svg, .pdf) or .json.", *TO_FILE)]
Page = Annotated[Path, output("The page to write.", *TO_FILE)]
ByColumn = Annotated[bool, method("Also test every column individually.", "", "--by-column")]
Strata = Annotated[Text, data("Compare only within the values of this column (a site, a weekday).", "COLUMN")]
Target = Annotated[Text, data("Also ask: did this column change, given all others?", "COLUMN")]
Null = Annotated[
    Literal["permutation", "wild"],
    method("Permuted labels, or the wild bootstrap for time series (rows in order of time).", None),
]
SidedNull = Annotated[
    Literal["permutation", "wild", "shift"],
    method(
        "Permuted rows; for time series (rows in order of time) the wild bootstrap, or shifts of one side.",
        None,
    ),
]
Margin = Annotated[
    Text,
    method("Is the difference larger than 0.1 standard deviations, 2% of rows, or an MMD/√2?", "0.1sd|2%|D"),
]
Bayes = Annotated[bool, method("Also print the posterior probability of a difference.", "", "--bayes")]
Fast = Annotated[bool, method("Use random features: time linear in the rows.", "", "--fast")]


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How to read a file."""

    columns: Annotated[Text, data("Use only these columns.", "A,B,...")] = None
    exclude: Annotated[Text, data("Leave these columns out.", "A,B,...")] = None
    missing: Annotated[
        Literal["include", "omit", "raise"],
        data("Compare missing values too, leave out their rows, or stop with an error.", None),
    ] = "include"
    na: Annotated[Text, data("Further words and numbers that mean missing.", "A,B,...")] = None
    delimiter: Annotated[Text, data("Field separator; 'tab' for tabs.", "CHAR")] = None
    decimal_comma: Annotated[bool, data("Read 1,5 as 1.5.", "", "--decimal-comma")] = False
    as_text: Annotated[
        Text, data("Treat these columns as categories, whatever they look like.", "A,B,...", "--as-text")
    ] = None
    no_header: Annotated[bool, data("The first line is data, not column names.", "", "--no-header")] = False
    scheduler: Annotated[
        str,
        data("Read files with Dask: N local workers, or a scheduler's address.", "none|local[:N]|ADDRESS"),
    ] = "none"


@dataclass(frozen=True, kw_only=True)
class Complete(Reading):
    """How to read what can hold no missing values."""

    missing: Annotated[
        Literal["omit", "raise"], data("Leave out rows with missing values, or stop with an error.", None)
    ] = "raise"


@dataclass(frozen=True, kw_only=True)
class Grouping(Reading):
    """How to read two samples, from two files or from one."""

    group: Annotated[Text, data("Compare the groups of this column of one file.", "COLUMN")] = None
    groups: Annotated[Text, data("Which of its values to compare; all unless given.", "A,B")] = None
    max_rows: Annotated[int | None, data("Sample N rows from each.", "N", min=2)] = None


@dataclass(frozen=True, kw_only=True)
class Related:
    """Which rows go together, and how much they weigh."""

    weights: Annotated[Text, data("Weigh rows by this column, which is not compared.", "COLUMN")] = None
    unit: Annotated[
        Text, data("Column of clusters (a customer, a day); clusters are permuted as a whole.", "COLUMN")
    ] = None
    strata: Strata = None
    paired: Annotated[bool, method("Row i of A and row i of B are a pair.", "", "--paired")] = False
    paired_by: Annotated[Text, method("Rows with the same value of this column are a pair.", "COLUMN")] = None

    @property
    def pairs(self) -> bool | str:
        """True for rows in pairs, or the column by whose values they match."""
        return self.paired_by or self.paired

    @property
    def used(self) -> dict[str, Any]:
        """The options that were given."""
        return {f"--{name.replace('_', '-')}": value for name, value in vars(self).items() if value}


@dataclass(frozen=True, kw_only=True)
class Seeded:
    """Where random numbers start."""

    seed: Annotated[int, method("Random seed: the same seed gives the same answer.", "N", min=0)] = 0


@dataclass(frozen=True, kw_only=True)
class Testing(Seeded):
    """How to test."""

    kernel: Annotated[
        str, method("Many kernels in one test, one learned, the median rule, or a lengthscale.", A_KERNEL)
    ] = "fused"
    resamples: Annotated[int, method("Number of permutations.", "N", min=1)] = 999
    alpha: Annotated[float, method("Significance level.", "P")] = 0.05

    def __post_init__(self) -> None:
        check_level(self.alpha, self.resamples)
        kernel_of(self.kernel)

    def settings(self, progress: bool, fast: bool | None = None) -> dict[str, Any]:
        """The options as the library's functions call them; with `fast` also the statistic of a test."""
        how = {"kernel": kernel_of(self.kernel), "n_resamples": self.resamples, "rng": self.seed}
        how |= {} if fast is None else {"statistic": "features" if fast else "auto"}
        return how | {"progress": progress}

    @property
    def described(self) -> dict[str, Any]:
        """The options for machines."""
        return {"alpha": self.alpha, "kernel": self.kernel, "seed": self.seed}


@dataclass(frozen=True, kw_only=True)
class Searching(Seeded):
    """How to search for a causal graph."""

    test: Annotated[
        Literal["residuals", "fisher-z"],
        method("Kernel tests of regression residuals, or partial correlation.", None),
    ] = "residuals"
    kernel: Annotated[
        str,
        method(
            "Of the residuals: several, learned, the median rule, or a lengthscale in standard deviations.",
            "fused|bkl|paper|median|NUMBER",
        ),
    ] = "fused"
    resamples: Annotated[int, method("Number of random signs or permutations.", "N", min=1)] = 999
    alpha: Annotated[float, method("Significance level of every test.", "P")] = 0.05
    max_given: Annotated[int | None, method("Condition on at most N columns.", "N", min=0)] = None
    orientation: Annotated[
        Literal["majority", "conservative", "max-p", "first"],
        method("Which separating sets decide on arrows.", None),
    ] = "majority"
    time: Annotated[Text, method("Remove slow trends over this column of times first.", "COLUMN")] = None
    least_timescale: Annotated[
        float | None,
        method("With --time: keep what changes faster than this (of dates in days, 7 unless given).", "T"),
    ] = None
    tier: Annotated[Texts, known("Columns that no later --tier causes; can be repeated.", "A,B,...")] = None
    forbid: Annotated[Texts, known("A does not cause B; can be repeated.", "'A->B'")] = None
    require: Annotated[Texts, known("A causes B; can be repeated.", "'A->B'")] = None
    orders: Annotated[int, runs("Number of orders of the columns to try.", "N", min=1)] = 1
    bootstrap: Annotated[int, runs("Number of bootstrap samples of the rows.", "N", min=0)] = 0
    workers: Annotated[
        int | None, runs("Processes for --bootstrap; one per processor unless given.", "N", min=1)
    ] = None
    cache: Annotated[
        Path | None,
        runs("Keep p-values here: an interrupted search continues, a repeated one is instant.", "FOLDER"),
    ] = None

    def __post_init__(self) -> None:
        check_level(self.alpha, self.resamples if self.test == "residuals" else None)
        if self.test != "residuals":
            usual = {one.name: one.default for one in fields(self)}
            for name in ("kernel", "resamples", "time", "cache"):
                if getattr(self, name) != usual[name]:
                    raise UsageError(f"--{name} is for --test residuals; leave it out, or leave out --test")
        least = self.least_timescale
        if least is not None and self.time is None:
            raise UsageError("--least-timescale is about --time; name the column of times, or leave it out")
        if least is not None and not 0.0 < least < float("inf"):
            raise UsageError(f"--least-timescale must be a positive number, but {least:g} was given")


@dataclass(frozen=True, kw_only=True)
class Quiet:
    """How much to print."""

    quiet: Annotated[bool, output("Print only the answer.", "", "--quiet", "-q")] = False


@dataclass(frozen=True, kw_only=True)
class Printing(Quiet):
    """What to print."""

    json: Annotated[bool, output("Print one JSON object.", "", "--json")] = False


@dataclass(frozen=True, kw_only=True)
class Failing(Printing):
    """What to print, and the exit code."""

    fail: Annotated[
        bool,
        output(
            "Exit with 1 if a difference is found (with --margin: beyond it).", "", "--fail-on-difference"
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class FailingOnDependence(Printing):
    """The same where a dependence is looked for."""

    fail: Annotated[
        bool,
        output("Exit with 1 if a dependence is found.", "", "--fail-on-dependence", "--fail-on-difference"),
    ] = False


def command(printing: type[Quiet] = Printing) -> Callable[..., Callable[..., None]]:
    """Make a command of a function of a screen, of arguments and options, and of dataclasses full of options.

    If it returns True, `--fail-on-difference` means exit code 1.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., None]:
        named = [one.replace(kind=one.KEYWORD_ONLY) for one in _parameters(function) if one.name != "screen"]
        panels: dict[str, Any] = {one.name: one.annotation for one in named if is_dataclass(one.annotation)}
        own = [one for one in named if one.name not in panels]
        shared = [one for panel in (*panels.values(), printing) for one in _parameters(panel)]
        context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
        # Panels of help appear in the order of their first options: data, method, output.
        together = [context, *filterfalse(_is_option, own), *shared, *filter(_is_option, own)]

        def run(context: typer.Context, **given: Any) -> None:
            def packed(panel: type[Any]) -> Any:
                return panel(**{field.name: given.pop(field.name) for field in fields(panel)})

            printed = vars(packed(printing))
            fail = printed.pop("fail", False)
            screen = Screen(context.obj, **printed)
            panels_given = {name: packed(panel) for name, panel in panels.items()}
            with screen.resources:
                found = function(screen, **panels_given, **given)
            if found and fail:
                raise typer.Exit(1)

        run.__name__, run.__doc__ = function.__name__, function.__doc__
        run.__signature__ = inspect.Signature(together)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in together}
        return run

    return decorate


def _parameters(of: Callable[..., Any]) -> Iterable[inspect.Parameter]:
    return inspect.signature(of, eval_str=True).parameters.values()


def _is_option(parameter: inspect.Parameter) -> bool:
    return any(isinstance(each, OptionInfo) for each in getattr(parameter.annotation, "__metadata__", ()))


def check_level(alpha: float, resamples: int | None = None) -> None:
    """Refuse a level that is none, or that no p-value of so many resamples can reach."""
    from kembed.core import checks

    checks.level(alpha, "--alpha")
    if resamples is not None:
        checks.reachable(alpha, resamples, "--alpha", "--resamples ")


def split(text: str | None) -> Texts:
    """Names between commas; quotes around a name that has one.

    >>> split('age, "height, cm"')
    ['age', 'height, cm']
    """
    if text is None:
        return None
    try:
        parts = next(csv.reader([text], skipinitialspace=True), []) if '"' in text else text.split(",")
    except csv.Error:  # a line ends outside quotes
        parts = []
    names = [name.strip() for name in parts]
    if not names or not all(names):
        raise UsageError(f"names are given with commas between them, as in a,b,c, but {text!r} was given")
    return names


def arrow(text: str, option: str) -> tuple[str, str]:
    """Cause and effect.

    >>> arrow("rain -> wet street", "--require")
    ('rain', 'wet street')
    """
    ends = [name.strip() for name in re.split("-{1,2}>|→", text)]
    if len(ends) != 2 or not all(ends):
        hint = "; a shell needs quotes around it" if text.endswith("-") else ""
        raise UsageError(f"{option} takes a cause and an effect, as in 'a->b', but {text!r} was given{hint}")
    return ends[0], ends[1]


def kernel_of(text: str, words: tuple[str, ...] = KERNELS) -> Any:
    """One of the words, or a Gaussian with this lengthscale.

    >>> kernel_of("2.5")
    Gaussian(lengthscale=2.5)
    """
    if text in words:
        return text
    from kembed import Gaussian

    try:
        return Gaussian(float(text))
    except ValueError:
        wanted = f"--kernel takes {', '.join(words)} or a lengthscale such as 2.5"
        raise UsageError(f"{wanted}, but {text!r} was given") from None
