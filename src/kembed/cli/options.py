"""Options that commands share, each declared once: a dataclass a panel of `--help`."""

from __future__ import annotations

import csv
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer
from typer.models import OptionInfo

from kembed.data.files import InputError

_DATA, _METHOD, _OUTPUT = "Data", "Method", "Output"
_KNOWN, _RUNS = "What is known beforehand", "How sure, how fast"


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How to read a file."""

    columns: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="Use only these columns.", rich_help_panel=_DATA),
    ] = None
    missing: Annotated[
        str,
        typer.Option(
            metavar="raise|omit",
            help="Rows with missing values: an error, or left out.",
            rich_help_panel=_DATA,
        ),
    ] = "raise"
    na: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="More words that mean missing.", rich_help_panel=_DATA),
    ] = None
    delimiter: Annotated[
        str | None,
        typer.Option(metavar="CHAR", help="What separates fields; 'tab' for tabs.", rich_help_panel=_DATA),
    ] = None
    decimal_comma: Annotated[
        bool,
        typer.Option("--decimal-comma", metavar="", help="Read 1,5 as a number.", rich_help_panel=_DATA),
    ] = False
    no_header: Annotated[
        bool,
        typer.Option(
            "--no-header", metavar="", help="The first line is data, not column names.", rich_help_panel=_DATA
        ),
    ] = False

    def __post_init__(self) -> None:
        if self.missing not in ("raise", "omit"):
            raise InputError(f"--missing takes 'raise' or 'omit', but {self.missing!r} was given")


@dataclass(frozen=True, kw_only=True)
class Grouping(Reading):
    """How to read two samples, from two files or from one."""

    group: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Compare the two groups of this column of one file.", rich_help_panel=_DATA
        ),
    ] = None
    groups: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Which two of its values, if it has more.", rich_help_panel=_DATA),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Seeded:
    """Where random numbers start."""

    seed: Annotated[
        int,
        typer.Option(
            min=0, metavar="N", help="Seed: the same seed gives the same answer.", rich_help_panel=_METHOD
        ),
    ] = 0


@dataclass(frozen=True, kw_only=True)
class Testing(Seeded):
    """How to test."""

    kernel: Annotated[
        str,
        typer.Option(
            metavar="fused|bkl|ard|median|NUMBER",
            help="Many kernels, one learned, the median rule, or a lengthscale.",
            rich_help_panel=_METHOD,
        ),
    ] = "fused"
    resamples: Annotated[
        int, typer.Option(min=1, metavar="N", help="How many permutations.", rich_help_panel=_METHOD)
    ] = 999
    alpha: Annotated[
        float, typer.Option(metavar="P", help="Level of the verdict.", rich_help_panel=_METHOD)
    ] = 0.05

    def __post_init__(self) -> None:
        check_level(self.alpha, self.resamples)


@dataclass(frozen=True, kw_only=True)
class Searching(Seeded):
    """How to search for a causal graph."""

    test: Annotated[
        Literal["residuals", "fisher-z"],
        typer.Option(
            help="What regressions leave, compared by kernels; or partial correlation.",
            rich_help_panel=_METHOD,
        ),
    ] = "residuals"
    kernel: Annotated[
        str,
        typer.Option(
            metavar="bkl|median|fused|NUMBER",
            help="Of the residuals: learned, the median rule, several, or a lengthscale in standard "
            "deviations.",
            rich_help_panel=_METHOD,
        ),
    ] = "bkl"
    resamples: Annotated[
        int, typer.Option(min=1, metavar="N", help="Random signs or permutations.", rich_help_panel=_METHOD)
    ] = 999
    alpha: Annotated[
        float, typer.Option(metavar="P", help="Level of every test.", rich_help_panel=_METHOD)
    ] = 0.05
    max_given: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="N", help="Condition on no more columns than this.", rich_help_panel=_METHOD
        ),
    ] = None
    orientation: Annotated[
        Literal["majority", "conservative", "max-p", "first"],
        typer.Option(help="Which sets that separate two columns decide on arrows.", rich_help_panel=_METHOD),
    ] = "majority"
    time: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Take slow changes over this time out of all columns first.",
            rich_help_panel=_METHOD,
        ),
    ] = None
    least_timescale: Annotated[
        float | None,
        typer.Option(
            metavar="T",
            help="With --time: what changes faster than this stays; dates count in days, 7 unless given.",
            rich_help_panel=_METHOD,
        ),
    ] = None
    tier: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A,B,...",
            help="Columns that nothing in a later --tier causes; give it again for the next.",
            rich_help_panel=_KNOWN,
        ),
    ] = None
    forbid: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'A->B'", help="A does not cause B; may be given again.", rich_help_panel=_KNOWN
        ),
    ] = None
    require: Annotated[
        list[str] | None,
        typer.Option(metavar="'A->B'", help="A causes B; may be given again.", rich_help_panel=_KNOWN),
    ] = None
    orders: Annotated[
        int, typer.Option(min=1, metavar="N", help="Orders of the columns to try.", rich_help_panel=_RUNS)
    ] = 1
    bootstrap: Annotated[
        int, typer.Option(min=0, metavar="N", help="Resamples of the rows to try.", rich_help_panel=_RUNS)
    ] = 0
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Processes for --bootstrap; as many as processors unless given.",
            rich_help_panel=_RUNS,
        ),
    ] = None
    cache: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Keep p-values there: an interrupted search goes on, a repeated one is instant.",
            rich_help_panel=_RUNS,
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.test == "residuals":
            check_level(self.alpha, self.resamples)
        else:
            check_level(self.alpha)
            usual = {one.name: one.default for one in fields(self)}
            for name in ("kernel", "resamples", "time", "cache"):
                if getattr(self, name) != usual[name]:
                    raise InputError(f"--{name} is for --test residuals; leave it out, or leave out --test")
        if self.least_timescale is not None and self.time is None:
            raise InputError("--least-timescale is about --time; name the column of times, or leave it out")


def check_level(alpha: float, resamples: int | None = None) -> None:
    """Refuse a level that is none, or that no p-value of so many resamples can reach."""
    if not 0.0 < alpha < 1.0:
        hint = ", 0.05 for 5%" if alpha >= 1.0 else ""
        raise InputError(f"--alpha is a number between 0 and 1{hint}, but {alpha:g} was given")
    if resamples is not None and (resamples + 1) * alpha < 1.0:
        least = 1.0 / (resamples + 1)
        raise InputError(
            f"with --resamples {resamples} no p-value is below {least:.3g}, so nothing can be found at "
            f"--alpha {alpha:g}; use --resamples {int(1.0 / alpha)} or more"
        )


@dataclass(frozen=True, kw_only=True)
class Printing:
    """What to print."""

    json: Annotated[
        bool, typer.Option("--json", metavar="", help="Print one JSON object.", rich_help_panel=_OUTPUT)
    ] = False
    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", metavar="", help="Print the verdict only.", rich_help_panel=_OUTPUT),
    ] = False


FailOnDifference = Annotated[
    bool,
    typer.Option(
        "--fail-on-difference",
        metavar="",
        help="Exit with 1 if a difference is found.",
        rich_help_panel=_OUTPUT,
    ),
]


Fast = Annotated[
    bool,
    typer.Option(
        "--fast", metavar="", help="Random features: time linear in the rows.", rich_help_panel=_METHOD
    ),
]


def sharing(**panels: type[Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the fields of these dataclasses as options; it receives the dataclasses."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        hints = get_type_hints(command, include_extras=True)
        own = [
            parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
            for name, parameter in inspect.signature(command).parameters.items()
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        of_panels = []
        for panel in panels.values():
            types = get_type_hints(panel, include_extras=True)
            of_panels += [
                inspect.Parameter(
                    field.name,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=field.default,
                    annotation=types[field.name],
                )
                for field in fields(panel)
            ]
        # Panels of help appear in the order of their first options: data, method, output.
        arguments = [parameter for parameter in own if not _is_option(parameter)]
        together = [*arguments, *of_panels, *filter(_is_option, own)]

        def run(**given: Any) -> Any:
            packed = {
                name: panel(**{field.name: given.pop(field.name) for field in fields(panel)})
                for name, panel in panels.items()
            }
            return command(**given, **packed)

        run.__name__, run.__doc__ = command.__name__, command.__doc__
        run.__signature__ = inspect.Signature(together)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in together}
        return run

    return decorate


def _is_option(parameter: inspect.Parameter) -> bool:
    return any(isinstance(each, OptionInfo) for each in getattr(parameter.annotation, "__metadata__", ()))


def split(text: str | None) -> list[str] | None:
    """Names between commas; quotes around a name that has one.

    >>> split('age, "height, cm"')
    ['age', 'height, cm']
    """
    if text is None:
        return None
    names = [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]
    if not names or not all(names):
        raise InputError(f"names are given with commas between them, as in a,b,c, but {text!r} was given")
    return names


def arrow(text: str, option: str) -> tuple[str, str]:
    """Cause and effect.

    >>> arrow("rain -> wet street", "--require")
    ('rain', 'wet street')
    """
    ends = [name.strip() for name in re.split("-{1,2}>|→", text)]
    if len(ends) != 2 or not all(ends):
        hint = "; a shell needs quotes around it" if text.endswith("-") else ""
        raise InputError(f"{option} takes a cause and an effect, as in 'a->b', but {text!r} was given{hint}")
    return ends[0], ends[1]


def kernel_of(text: str, words: tuple[str, ...] = ("fused", "bkl", "ard", "median")) -> Any:
    """One of the words, or a Gaussian with this lengthscale.

    >>> kernel_of("2.5")
    Gaussian(lengthscale=2.5)
    """
    if text in words:
        return text
    try:
        lengthscale = float(text)
    except ValueError:
        lengthscale = 0.0
    if not 0.0 < lengthscale < float("inf"):
        raise InputError(
            f"--kernel takes {', '.join(words)} or a lengthscale such as 2.5, but {text!r} was given"
        )
    from kembed import Gaussian

    return Gaussian(lengthscale)
