"""`kembed summarise`: a reference kept as a file; and `kembed test` against one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kembed.cli import options, outputs, words
from kembed.cli.options import command, kernel_of, split
from kembed.cli.outcomes import show_outcome, verdict
from kembed.cli.screen import Screen
from kembed.cli.words import UsageError
from kembed.core.text import counted, label, listing, rows
from kembed.core.writing import is_store

if TYPE_CHECKING:
    from kembed.cli.samples import Samples
    from kembed.tables.schema import Schema
    from kembed.testing.sketch import Sketch

SUFFIX = ".kembed"
LEVELS = 6  # of a column that are shown

Files = Annotated[
    list[str], typer.Argument(metavar="FILE...", help="Tables or sketches; several are merged.")
]
Target = Annotated[Path | None, options.output(f"The sketch to write: {SUFFIX}.", *options.TO_FILE)]


@command()
def run_summarise(
    screen: Screen,
    files: Files,
    *,
    reading: options.Complete,
    seeded: options.Seeded,
    kernel: Annotated[
        str, options.method("For later tests: many kernels, one learned, or a lengthscale.", options.A_KERNEL)
    ] = "fused",
    keep_rows: Annotated[
        int,
        options.data("Rows to keep in the sketch, to explain a difference later; 0 for none.", "N", min=0),
    ] = 1_000,
    like: Annotated[
        Path | None, options.data("Use the features of this sketch, so that the two can be merged.", "FILE")
    ] = None,
    output: Target = None,
) -> None:
    """Save a sketch of a reference, to test later samples against without its rows; or show a sketch."""
    chosen = kernel_of(kernel)
    if chosen != "fused" and like is not None:
        raise UsageError("--kernel is for new features, and --like takes those of a sketch; leave one out")
    outputs.check_target(output, (SUFFIX,), files)
    tables = [file for file in files if not is_store(file)]
    if output is None and (tables or len(files) > 1):
        raise UsageError(f"name the sketch to write, as in -o reference{SUFFIX}")
    from kembed import Sketch
    from kembed.cli.samples import Samples

    # Tables have the features of --like, else of the first sketch among the files, else of the first table.
    models = [like] if like is not None else [file for file in files if is_store(file)]
    first = Sketch.load(models[0]) if models else None
    with screen.waiting(f"reading {counted(len(files), 'file')}") as bar:
        parts: list[Sketch] = []
        left_out: dict[str, str] = {}
        for file in files:
            if is_store(file):
                parts.append(Sketch.load(file))
                continue
            loaded = _load_like(file, first, reading, screen)
            how: Any = {"rng": seeded.seed, "keep_rows": keep_rows, "progress": bar}
            parts.append(Sketch.of(loaded.sources[0], kernel=chosen, like=first, **how))
            first, left_out = first or parts[-1], left_out | loaded.left_out
        whole = parts[0]
        for part in parts[1:]:
            whole = whole + part
        if output is not None:
            whole.save(output)
    sizes = tuple(part.rows for part in parts)
    every = Samples(tuple(parts), tuple(map(label, files)), list(whole.columns), left_out, sizes)
    size = (output or Path(files[0])).stat().st_size
    payload = whole.to_dict()
    sentence = _show(screen, every, payload, size)
    del payload["rows"]
    payload = {
        "verdict": sentence,
        **every.described(sizes),
        **payload,
        "bytes": size,
        "seed": seeded.seed if tables else None,
        "output": output,
    }
    screen.finish(payload)


def _show(screen: Screen, every: Samples, payload: dict[str, Any], size: int) -> str:
    """Print what is in a sketch, and return the sentence that says it."""
    made = f"A sketch of {rows(payload['rows'])} in {words.of_columns(every.columns)}"
    sentence = f"{made}; {rows(payload['held_out'])} were held out to fit features."
    sentence = words.beside(sentence, {"Left out": listing(every.left_out)})
    screen.say(sentence)
    facts = [
        *every.facts(every.given)[:-1],
        ("kernel", str(payload["kernel"])),
        ("features", f"{payload['features']:,}, fingerprint {payload['fingerprint']}"),
        ("bins", f"{payload['bins']:,}, of up to {rows(payload['largest_bin'])}"),
        ("kept", f"{rows(payload['kept'])} as they are (--keep-rows), for regions and pictures"),
        ("size", f"{size / 1e6:.1f} MB"),
    ]
    screen.facts(facts)
    shown = [
        (one["name"], one["kind"], listing(map(str, one["levels"] or ()), LEVELS))
        for one in payload["by_column"]
    ]
    screen.table({"column": "", "holds": "", "levels": ""}, shown)
    return sentence


def _load_like(file: str, like: Sketch | None, reading: options.Reading, screen: Screen) -> Samples:
    """A table; with the columns of a sketch where there is one, text where that has text."""
    from kembed.cli.samples import load_table

    wanted = split(reading.columns)
    if like is not None:
        for option, given in (("--columns", wanted), ("--as-text", reading.as_text)):
            if given is not None:
                seen = f"{option} is for new sketches, and this has the columns of another"
                raise UsageError(f"{seen}; leave it out")
        return load_like(file, like.specification.schema, reading, screen)
    loaded = load_table(file, reading, screen, wanted, minimum=2)
    screen.remark(loaded.sources[0].notes)
    return loaded


def load_like(
    file: str,
    schema: Schema,
    reading: options.Reading,
    screen: Screen,
    more: tuple[str, ...] = (),
    minimum: int = 2,
) -> Samples:
    """A table with the columns of a schema and `more`, text where that has text."""
    from kembed.cli.samples import load_table, options_of

    text = tuple(name for name, kind in zip(schema.names, schema.categorical, strict=True) if kind)
    how: dict[str, Any] = {"options": options_of(reading)._replace(as_text=text), "minimum": minimum}
    how |= {"nan_policy": "omit" if reading.missing == "omit" else "raise"}
    loaded = load_table(file, reading, screen, [*schema.names, *more], **how)
    (source,) = loaded.sources
    screen.remark(source.notes)
    known = (*loaded.columns, *(split(reading.exclude) or ()))
    others = [name for name in source.parts[0].names if name not in known]
    if others:
        they, are, them = ("column", "is", "it") if len(others) == 1 else ("columns", "are", "them")
        screen.note(f"{they} {listing(others)} {are} left out: only {source.label} has {them}")
    left_out = loaded.left_out | dict.fromkeys(others, f"only {source.label} has it")
    return replace(loaded, left_out=left_out)


def sketches_in(*files: str | None) -> dict[str, Sketch]:
    """The sketches among these files: those that were summarised, and those of drift detectors."""
    stores = [file for file in files if file is not None and is_store(file)]
    if not stores:
        return {}
    from kembed import Sketch
    from kembed.testing.sketch import load_reference

    found = {file: load_reference(file) for file in stores}
    return {file: each for file, each in found.items() if isinstance(each, Sketch)}


def load_against(
    screen: Screen,
    a: str,
    b: str | None,
    sketches: dict[str, Sketch],
    reading: options.Grouping,
    of_rows: dict[str, Any] | None = None,
) -> Samples:
    """Two samples of which one or both are kept as sketches; `of_rows` are options for rows."""
    if b is None or reading.group is not None or reading.groups is not None:
        raise UsageError("a sketch has no groups; give a second file, without --group and --groups")
    for option in ("columns", "as_text"):
        if getattr(reading, option) is not None:
            seen = f"--{option.replace('_', '-')} is not for sketches, whose columns are fixed"
            raise UsageError(f"{seen}; leave it out")
    for option, given in {**(of_rows or {}), "--max-rows": reading.max_rows}.items():
        if given:
            seen = f"{option} is for samples of rows, and a sketch has none"
            raise UsageError(f"{seen}; leave it out, or give the table")
    from kembed import Sketch
    from kembed.cli.samples import Samples

    sketch = next(iter(sketches.values()))
    sides: list[Any] = []
    left_out: dict[str, str] = {}
    for file in (a, b):
        if file in sketches:
            sides.append(sketches[file])
            continue
        loaded = _load_like(file, sketch, reading, screen)
        sides.append(loaded.sources[0])
        left_out |= loaded.left_out
    given = tuple(side.rows if isinstance(side, Sketch) else side.given for side in sides)
    return Samples(tuple(sides), (label(a), label(b)), list(sketch.columns), left_out, given)


def test_against(screen: Screen, pair: Samples, testing: options.Testing, by_column: bool) -> bool:
    """Test two samples of which one or both are kept as sketches."""
    from kembed import mmd_test

    with screen.waiting(f"comparing {pair.given[0]:,} + {pair.given[1]:,} rows") as bar:
        result = mmd_test(*pair.sources, by_column=by_column, **testing.settings(bar))
    sentence = verdict(result, testing.alpha, "The two samples differ", "No difference was found")
    sentence = pair.with_left_out(sentence, result.sizes)
    facts = pair.facts(result.sizes)
    without = "by_pair_of_samples", "bayes", "beyond_margin", "margin", "effect", "effect_size"
    more: dict[str, Any] = dict.fromkeys(without)
    return show_outcome(screen, pair, result, testing, sentence, facts, "differ", **more)
