"""`kembed summarise`: a reference kept as a file; and `kembed test` against one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kembed.cli import columns, options, outputs, words
from kembed.cli.inputs import load
from kembed.cli.large import is_large, open_files
from kembed.cli.loaded import Loaded
from kembed.cli.options import command, kernel_of, split
from kembed.cli.outcomes import show_outcome, verdict
from kembed.cli.screen import Screen
from kembed.core.text import counted, listing, rows
from kembed.core.writing import is_packed
from kembed.data.files import InputError, checked, label, picked

if TYPE_CHECKING:
    import polars as pl

    from kembed.testing.sketch import Sketch

SUFFIX = ".kembed"
LEVELS = 6  # of a column that are shown

Files = Annotated[
    list[str], typer.Argument(metavar="FILE...", help="Tables, or sketches; several are put together.")
]
Target = Annotated[Path | None, options.output(f"The sketch to write: {SUFFIX}.", *options.TO_FILE)]


@command()
def run_summarise(
    screen: Screen,
    files: Files,
    *,
    reading: options.Reading,
    seeded: options.Seeded,
    kernel: Annotated[
        str, options.method("Of later tests: many kernels, one learned, or a lengthscale.", options.A_KERNEL)
    ] = "fused",
    like: Annotated[
        Path | None, options.data("Take the features of this sketch, so that the two can be merged.", "FILE")
    ] = None,
    output: Target = None,
) -> None:
    """Keep a reference without its rows: a sketch to test later samples against. Or show what is in one."""
    chosen = kernel_of(kernel)
    if chosen != "fused" and like is not None:
        raise InputError("--kernel is for new features, and --like takes those of a sketch; leave one out")
    outputs.check_target(output, (SUFFIX,), files)
    tables = [file for file in files if not is_packed(file)]
    if output is None and (tables or len(files) > 1):
        raise InputError(f"name the sketch to write, as in -o reference{SUFFIX}")
    from kembed import Sketch

    # Tables have the features of --like, else of the first sketch among the files, else of the first table.
    models = [like] if like is not None else [file for file in files if is_packed(file)]
    first = Sketch.load(models[0]) if models else None
    with screen.waiting(f"reading {counted(len(files), 'file')}") as bar:
        parts: list[Sketch] = []
        left_out: dict[str, str] = {}
        for file in files:
            if is_packed(file):
                parts.append(Sketch.load(file))
                continue
            table, out = _table(file, first, reading, screen)
            how: Any = {"rng": seeded.seed, "nan_policy": reading.missing, "progress": bar}
            parts.append(Sketch.of(table, kernel=chosen, like=first, **how))
            first, left_out = first or parts[-1], left_out | out
        whole = parts[0]
        for part in parts[1:]:
            whole = whole + part
        if output is not None:
            whole.save(output)
    labels = tuple(map(label, files))
    counts = [(words.short(name, labels), rows(part.rows)) for name, part in zip(labels, parts, strict=True)]
    size = (output or Path(files[0])).stat().st_size
    told = whole.to_dict()
    sentence = _show(screen, whole, told, counts, size, left_out)
    del told["rows"]
    each = zip(labels, parts, strict=True)
    payload = {
        "verdict": sentence,
        "samples": [{"name": name, "rows": part.rows, "used": part.rows} for name, part in each],
        "columns": list(whole.columns),
        "left_out": left_out,
        **told,
        "bytes": size,
        "seed": seeded.seed if tables else None,
        "output": output,
    }
    screen.finish(payload)


def _show(
    screen: Screen,
    sketch: Sketch,
    told: dict[str, Any],
    counts: list[tuple[str, str]],
    size: int,
    left_out: dict[str, str],
) -> str:
    """Print what is in a sketch, and return the sentence that says it."""
    made = f"A sketch of {rows(sketch.rows)} in {words.of_columns(list(sketch.columns))}"
    sentence = f"{made}; {rows(told['set_aside'])} were set aside to choose features."
    sentence = words.beside(sentence, left_out)
    screen.say(sentence)
    facts = [
        *counts,
        ("kernel", str(told["kernel"])),
        ("features", f"{told['features']:,}, fingerprint {told['fingerprint']}"),
        ("bins", f"{told['bins']:,}, of up to {rows(told['largest_bin'])}"),
        ("size", f"{size / 1e6:.1f} MB"),
    ]
    screen.facts(facts)
    shown = [
        (one["name"], one["kind"], listing(map(str, one["levels"] or ()), LEVELS))
        for one in told["by_column"]
    ]
    screen.table({"column": "", "holds": "", "levels": ""}, shown)
    return sentence


def _table(
    file: str, like: Sketch | None, reading: options.Reading, screen: Screen
) -> tuple[Any, dict[str, str]]:
    """The columns of a table that can be compared; those of a sketch, where there is one."""
    from kembed.data.columns import Labelled

    name, wanted = label(file), split(reading.columns)
    if like is not None:
        for option, given in (("--columns", wanted), ("--as-text", reading.as_text)):
            if given is not None:
                seen = f"{option} is for new sketches, and this has the columns of another"
                raise InputError(f"{seen}; leave it out")
    if is_large(reading, [file]):
        (source,) = open_files([file], reading, screen, used=None if like is None else list(like.columns))
        return source, getattr(source, "left_out", {})
    if like is not None:
        frame, more = _as_in(like, file, reading, screen)
        return Labelled(frame, name), more
    frame = load(file, reading, screen)
    if wanted is not None:
        frame = picked(frame, checked(wanted, frame.columns, name))
    left_out = columns.row_numbers(frame) if wanted is None else {}
    kept = [column for column in frame.columns if column not in left_out]
    (frame,) = columns.understand([frame], [file], kept, reading, screen)
    named = wanted is not None
    left_out |= {series.name: why for series in frame if (why := columns.why_unfit([series], named))}
    if wanted is not None and left_out:
        column, why = next(iter(left_out.items()))
        raise InputError(f"column {column!r} cannot be compared: {why}; leave it out of --columns")
    columns.tell_left_out(left_out, screen)
    frame = picked(frame, [column for column in frame.columns if column not in left_out])
    if not frame.width:
        raise InputError(f"{name} has no column that can be compared; name columns with --columns")
    columns.tell_text([frame], screen)
    return Labelled(columns.check_complete(frame, name, reading, screen), name), left_out


def _as_in(
    sketch: Sketch, file: str, reading: options.Reading, screen: Screen
) -> tuple[pl.DataFrame, dict[str, str]]:
    """The columns of a sketch in a file, text where it has text; what else is there is left out, and told."""
    name, names = label(file), list(sketch.columns)
    text = [one["name"] for one in sketch.to_dict()["by_column"] if one["kind"] == "categories"]
    frame = load(file, reading, screen, text)
    missing = [column for column in names if column not in frame.columns]
    if missing:
        seen = f"{name} has no column {listing(missing)}, which the sketch has"
        raise InputError(f"{seen}; it has {listing(frame.columns)}")
    others = [column for column in frame.columns if column not in names]
    more = dict.fromkeys(others, f"only {name} has it")
    columns.tell_left_out(more, screen)
    (frame,) = columns.understand([picked(frame, names)], [file], names, reading, screen, text)
    return columns.check_complete(frame, name, reading, screen), more


def is_sketch(*files: str | None) -> bool:
    """Whether any of these is a sketch."""
    return any(file is not None and is_packed(file) for file in files)


def test_against(
    screen: Screen,
    a: str,
    b: str | None,
    reading: options.Grouping,
    testing: options.Testing,
    by_column: bool,
    **others: Any,
) -> bool:
    """Do two samples differ, of which one or both are kept as sketches; `others` are options for rows."""
    if b is None or reading.group is not None or reading.groups is not None:
        raise InputError("a sketch has no groups; give a second file, without --group and --groups")
    for option in ("columns", "as_text"):
        if getattr(reading, option) is not None:
            seen = f"--{option.replace('_', '-')} is not for sketches, whose columns are fixed"
            raise InputError(f"{seen}; leave it out")
    for option, given in {**others, "max_rows": reading.max_rows}.items():
        if given:
            seen = f"--{option.replace('_', '-')} is for samples of rows, and a sketch has none"
            raise InputError(f"{seen}; leave it out, or give the table")
    import polars as pl

    from kembed import Sketch, mmd_test
    from kembed.data.columns import Labelled

    sketches: dict[str, Sketch] = {file: Sketch.load(file) for file in (a, b) if is_packed(file)}
    sketch = next(iter(sketches.values()))
    samples: list[Any] = list(sketches.values())
    given = {file: each.rows for file, each in sketches.items()}
    left_out: dict[str, str] = {}
    for place, file in enumerate((a, b)):
        if file not in sketches:
            frame, left_out = _as_in(sketch, file, reading, screen)
            given[file] = frame.height
            samples.insert(place, Labelled(frame, label(file)))
    with screen.waiting(f"comparing {given[a]:,} + {given[b]:,} rows") as bar:
        how: Any = {"n_resamples": testing.resamples, "rng": testing.seed, "nan_policy": reading.missing}
        kernel = kernel_of(testing.kernel)
        result = mmd_test(*samples, by_column=by_column, kernel=kernel, progress=bar, **how)
    empty = pl.DataFrame(schema=list(sketch.columns))  # a sketch has columns and no rows
    pair = Loaded((empty,), (label(a), label(b)), left_out, (given[a], given[b]))
    sentence = verdict(result, testing.alpha, "The two samples differ", "No difference was found")
    sentence = pair.told(sentence)
    return show_outcome(screen, pair, result, testing, sentence, pair.facts(result.sizes), found="differ")
