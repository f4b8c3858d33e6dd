"""`kembed monitor`: take in a batch of a stream, and say whether anything has changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from kembed.cli import options, outputs, words
from kembed.cli.options import command, kernel_of, method, output, split
from kembed.cli.screen import Screen
from kembed.cli.sketches import SUFFIX, load_like
from kembed.cli.words import UsageError
from kembed.core.text import label, plain, rows
from kembed.core.writing import is_store

if TYPE_CHECKING:
    from kembed.testing.monitor import Monitor

StateFile = Annotated[Path, typer.Argument(metavar="STATE", help=f"The file of the monitor: {SUFFIX}.")]
Batch = Annotated[str, typer.Argument(metavar="BATCH", help="The new rows: a file, or - for standard input.")]


@command(options.Failing)
def run_monitor(
    screen: Screen,
    state: StateFile,
    batch: Batch,
    *,
    reading: options.Complete,
    reference: Annotated[
        options.Texts,
        options.data(
            "Rows from a normal period, read when STATE is made; can be repeated, a batch each.", "FILE"
        ),
    ] = None,
    batches: Annotated[
        options.Text, options.data("Column of the batch (a day) of every row of the reference.", "COLUMN")
    ] = None,
    by: Annotated[
        options.Text,
        options.data("Compare only within the values of this column (a weekday, a site).", "COLUMN"),
    ] = None,
    name: Annotated[
        options.Text, options.data("Name of the batch, such as its date.", "TEXT", "--label")
    ] = None,
    seeded: options.Seeded,
    unit: Annotated[
        Literal["row", "batch"] | None,
        method("What is exchangeable if nothing changes: rows or batches; row unless given.", None),
    ] = None,
    alpha: Annotated[
        float | None, method("Probability of any false alarm, ever; 0.05 unless given.", "P")
    ] = None,
    mean_time: Annotated[
        float | None, method("Instead of --alpha: average number of batches between false alarms.", "T")
    ] = None,
    kernel: Annotated[
        str | None, method("Many kernels in one test, one learned, or a lengthscale.", options.A_KERNEL)
    ] = None,
    resamples: Annotated[
        int | None, method("Number of permutations per test; 199 unless given.", "N", min=1)
    ] = None,
    plot: Annotated[Path | None, output("Save the evidence as a figure: .png, .svg or .pdf.", "FILE")] = None,
) -> bool:
    """Has a stream changed? Add a batch; false alarms stay rare, however long you watch."""
    outputs.check_target(state, (SUFFIX,), (batch, *(reference or ())), "")
    outputs.check_target(plot, outputs.FIGURES, (batch, *(reference or ())), "--plot ")
    if alpha is not None and mean_time is not None:
        raise UsageError("--alpha and --mean-time are two ways to say how rare false alarms are; give one")
    if alpha is not None:
        options.check_level(alpha)
    given = {"alpha": alpha, "mean_time": mean_time, "by": by, "unit": unit, "n_resamples": resamples}
    given |= {"kernel": None if kernel is None else kernel_of(kernel)}
    given = {option: value for option, value in given.items() if value is not None}
    if state.exists():
        monitor = _loaded(state, given)
    elif reference is None:
        raise UsageError(f"{label(state)} does not exist; start it with --reference FILE")
    else:
        monitor = _begun(reference, batches, given, reading, seeded, screen)
    keep = () if monitor.by is None else (monitor.by,)
    loaded = load_like(batch, monitor.specification.schema, reading, screen, keep, minimum=1)
    (source,) = loaded.sources
    with screen.waiting(f"comparing {rows(source.size)} with all before"):
        result = monitor.update(source, name)
        monitor.save(state)
    outputs.save_plot(monitor, plot)
    used = f"{source.size:,} of " if source.size < source.given else ""
    sentence = words.beside(result.verdict, {"Left out": words.of_columns(list(loaded.left_out))})
    screen.remark((*monitor.notes, *result.notes))
    screen.say(sentence)
    screen.facts(
        [
            (result.label, f"{used}{rows(source.given)}, p = {result.pvalue:.3g} by itself"),
            ("columns", words.of_columns(list(monitor.columns))),
            ("state", f"{label(state)}, {state.stat().st_size / 1e6:.1f} MB"),
        ]
    )
    order = sorted(result.by_column.items(), key=lambda each: -each[1])
    sure = {True: "yes", False: ""}
    table = [(column, plain(evidence, 3), sure[column in result.columns]) for column, evidence in order]
    screen.table({"column": "", "evidence": ">", "changed": ""}, table)
    loaded = replace(loaded, columns=list(monitor.columns))
    payload: dict[str, Any] = {**result.to_dict(), "verdict": sentence, **loaded.described((source.size,))}
    payload |= {"seed": seeded.seed, "output": plot}
    screen.finish(payload, repeatable=False)
    return result.alarm


def _loaded(state: Path, given: dict[str, Any]) -> Monitor:
    """The monitor in a file, if it was made with these options."""
    from kembed import Monitor

    monitor = Monitor.load(state)
    for option, value in given.items():
        if (own := getattr(monitor, option)) != value:
            seen = f"{label(state)} was made with {option}={own!r}, but {value!r} was given"
            raise UsageError(f"{seen}; leave --{option.replace('_', '-')} out, or start another state")
    return monitor


def _begun(
    reference: list[str],
    batches: str | None,
    given: dict[str, Any],
    reading: options.Complete,
    seeded: options.Seeded,
    screen: Screen,
) -> Monitor:
    """A new monitor."""
    from kembed import Monitor, Sketch
    from kembed.cli.samples import labelled, sources_of

    if len(reference) == 1 and is_store(reference[0]):
        return Monitor(Sketch.load(reference[0]), rng=seeded.seed, **given)
    keys = [name for name in (given.get("by"), batches) if name is not None]
    columns = split(reading.columns)
    how: dict[str, Any] = {"keep": keys, "columns": columns and [*columns, *keys], "minimum": 2}
    values = {f"reference[{k}]": labelled(file, screen) for k, file in enumerate(reference)}
    sources = sources_of(values, reading, screen, **how)
    rows_of_all = sources if len(sources) > 1 else sources[0]
    with screen.waiting("choosing features"):
        return Monitor(rows_of_all, batches=batches, nan_policy=reading.missing, rng=seeded.seed, **given)
