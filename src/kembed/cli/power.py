"""`kembed power`: how many rows a test needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from kembed.cli import options, outputs
from kembed.cli.options import command, method, split
from kembed.cli.screen import Screen
from kembed.cli.words import UsageError

Other = Annotated[
    options.Text,
    typer.Argument(metavar="B", help="A second file; none with --group or --shift.", show_default=False),
]


@dataclass(frozen=True, kw_only=True)
class Simulating(options.Testing):
    """How to test what is drawn."""

    resamples: Annotated[int, method("Number of permutations of every test.", "N", min=1)] = 199


@command()
def run_power(
    screen: Screen,
    a: options.SampleA,
    b: Other = None,
    *,
    reading: options.Grouping,
    testing: Simulating,
    rows: Annotated[options.Text, method("Numbers of rows per sample.", "N,N,...")] = None,
    power: Annotated[float, method("Power to reach.", "P")] = 0.8,
    shift: Annotated[
        options.Text, method("With A alone: how a second sample would differ.", "0.3sd|2%")
    ] = None,
    of: Annotated[options.Text, method("Columns of numbers that --shift moves.", "A,B,...")] = None,
    margin: options.Margin = None,
    draws: Annotated[int, method("Draws per number of rows.", "N", min=10)] = 100,
    output: options.Figure = None,
) -> None:
    """How many rows does a test need? Power by the number of rows, from pilot data."""
    outputs.check_target(output, outputs.FIGURES, (a, b))
    sizes = None
    if rows is not None:
        try:
            sizes = [int(each) for each in split(rows) or ()]
        except ValueError:
            raise UsageError(f"--rows takes whole numbers such as 500,2000, but {rows!r} was given") from None
    from kembed import required_rows
    from kembed.cli import samples

    if b is None and reading.group is None:
        loaded = samples.load_table(a, reading, screen, split(reading.columns))
    else:
        loaded = samples.load_samples(a, b, reading, screen, testing.seed)
    with screen.waiting(f"drawing from {' + '.join(f'{size:,}' for size in loaded.given)} rows") as bar:
        found = required_rows(
            *loaded.sources,
            shift=shift,
            columns=split(of),
            margin=margin,
            rows=sizes,
            power=power,
            n_draws=draws,
            alpha=testing.alpha,
            **testing.settings(bar),
        )
    outputs.save_plot(found, output)
    sentence = f"{found.words}."
    screen.say(sentence)
    screen.facts(loaded.facts(loaded.given))
    how = {True: "", False: "extrapolated"}
    each = zip(found.rows, found.power, found.standard_errors, found.drawn, strict=True)
    shown = [(f"{size:,}", share, error, how[drawn]) for size, share, error, drawn in each]
    screen.table({"rows per sample": ">", "power": ".2f", "s.e.": ".2f", "": ""}, shown)
    described = loaded.described(loaded.given)
    screen.finish(
        {**found.to_dict(), "verdict": sentence, **described, **testing.described, "output": output}
    )
