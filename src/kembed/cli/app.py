"""The commands of `kembed`, in the order of its help; each is a function of the module that does its work."""

import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from kembed import __version__
from kembed.cli import graphs, one_sample, sketches, tour, two_samples

# What stands below the help of every command, and of all.
CODES = (
    "Exit codes: 0 it ran; 1 a difference was found, with --fail-on-difference; 2 bad input; "
    "70 a fault of kembed's own; 130 interrupted, 143 terminated."
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
    "independence": one_sample.run_independence,
    "graph": graphs.run_graph,
    "learn": one_sample.run_learn,
    "reproduce": tour.run_reproduce,
    "demo": tour.run_demo,
}

HELP = {"help_option_names": ["-h", "--help"]}


class Command(TyperCommand):
    """A command that converts only what needs it: newer Typers load all of pydantic for the first value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line."""
        _convert_less(self.get_params(ctx))
        return super().parse_args(ctx, args)


class Commands(TyperGroup):
    """The same of all commands together."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line."""
        _convert_less(self.get_params(ctx))
        return super().parse_args(ctx, args)


def _convert_less(parameters: Iterable[Any]) -> None:
    for parameter in parameters:
        parameter.process_value = partial(_converted, parameter, parameter.process_value)


def _converted(parameter: Any, convert: Callable[..., Any], context: Any, value: Any) -> Any:
    """The value as it is if it was not given, or if it is text that should be text."""
    wanted = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    left_out = value is parameter.default and not parameter.required
    if parameter.multiple or not (left_out or (wanted is str and type(value) is str)):
        return convert(context, value)
    return value if parameter.callback is None else parameter.callback(context, parameter, value)


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
    """Compare samples: whether they differ, where, and how sure that is."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), nl=False)
