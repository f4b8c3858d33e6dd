"""The commands of `kembed`, in the order of its help; each is a function of the module that does its work."""

import re
import sys
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from kembed import __version__
from kembed.cli import graphs, monitor, one_sample, power, sketches, tour, two_samples
from kembed.cli.words import UsageError

# What stands below the help of every command, and of all.
CODES = (
    "Exit codes: 0 success; 1 a difference was found (with --fail-on-difference); 2 bad input; "
    "70 an internal error; 130 interrupted, 143 terminated."
)
FILES = (
    "Files: CSV, TSV, JSON, Excel, Parquet, Feather or Arrow; text may be gzipped; '-' is CSV "
    "on standard input."
)
COMMANDS = {
    "test": two_samples.run_test,
    "witness": two_samples.run_witness,
    "report": two_samples.run_report,
    "summarise": sketches.run_summarise,
    "monitor": monitor.run_monitor,
    "independence": one_sample.run_independence,
    "when": one_sample.run_when,
    "power": power.run_power,
    "graph": graphs.run_graph,
    "learn": one_sample.run_learn,
    "demo": tour.run_demo,
}

# What options take whose values are shown as these letters in the help.
NUMBERS = {"N": "a whole number", "P": "a number between 0 and 1", "T": "a number"}

HELP = {"help_option_names": ["-h", "--help"]}


class Light:
    """Converts only what needs it: newer Typers load all of pydantic for the first value."""

    def parse_args(self: Any, ctx: Any, args: list[str]) -> Any:
        """Read the command line."""
        for parameter in self.get_params(ctx):
            parameter.process_value = partial(_converted, parameter, parameter.process_value)
        return super().parse_args(ctx, args)  # type: ignore[misc]


class Command(Light, TyperCommand):
    """A command."""


class Commands(Light, TyperGroup):
    """All commands together."""


def _converted(parameter: Any, convert: Callable[..., Any], context: Any, value: Any) -> Any:
    """The value as it is if it was not given, or if it is text that should be text."""
    wanted = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    left_out = value is parameter.default and not parameter.required
    if parameter.multiple or not (left_out or (wanted is str and type(value) is str)):
        try:
            return convert(context, value)
        except Exception as error:
            if parameter.metavar in NUMBERS and hasattr(error, "format_message"):
                raise _no_number(parameter, value, error.format_message()) from None
            raise
    return value if parameter.callback is None else parameter.callback(context, parameter, value)


def _no_number(parameter: Any, value: Any, message: str) -> UsageError:
    """The error for an option that takes a number, in the same words for every version of Typer."""
    least = re.search(r"(?:equal to |>=)(\d+)", message)
    wanted = NUMBERS[parameter.metavar] + (f" of at least {least[1]}" if least else "")
    hint = ""
    if percent := re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*%\s*", str(value)):
        hint = f"; for {percent[1]}% write {float(percent[1]) / 100:g}"
    return UsageError(f"{max(parameter.opts, key=len)} must be {wanted}, got {value!r}{hint}")


app = typer.Typer(
    cls=Commands, rich_markup_mode="rich", pretty_exceptions_enable=False, context_settings=HELP
)
for _name, _function in COMMANDS.items():
    app.command(_name, cls=Command, epilog=CODES, context_settings=HELP)(_function)


def _version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"kembed {__version__}\n")  # echo tries the stream first, and hides that it is full
        raise typer.Exit


@app.callback(invoke_without_command=True, epilog=f"{FILES}\n\n{CODES}")
def kembed(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", metavar="", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Compare tables: whether they differ, where, and how sure that is."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), nl=False)
