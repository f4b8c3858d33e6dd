"""`kembed test`, `kembed witness` and `kembed report`: two samples."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kembed.cli import outputs, words
from kembed.cli.inputs import Pair, load_pair
from kembed.cli.options import Grouping, Printing, Seeded, Testing, kernel_of
from kembed.cli.screen import Screen
from kembed.data import files

if TYPE_CHECKING:
    from kembed.comparing.compare import Comparison
    from kembed.testing.outcome import TestOutcome

REGIONS, REGION_COLUMNS = 6, 3


def run_test(
    arguments: list[str],
    a: str,
    b: str | None,
    *,
    by_column: bool,
    fast: bool,
    reading: Grouping,
    testing: Testing,
    printing: Printing,
) -> bool:
    """Test two samples, print the outcome, and return whether they differ."""
    screen = Screen(json=printing.json, quiet=printing.quiet)
    kernel = kernel_of(testing.kernel)
    pair = load_pair(a, b, reading, screen)
    screen.patience(pair.x.height + pair.y.height, fast)
    from kembed import mmd_test

    with (
        screen.waiting(f"comparing {pair.x.height:,} + {pair.y.height:,} rows") as bar,
        words.calling(x=pair.labels[0], y=pair.labels[1]),
    ):
        result = mmd_test(
            pair.x,
            pair.y,
            kernel=kernel,
            statistic="features" if fast else "unbiased",
            n_resamples=testing.resamples,
            by_column=by_column,
            rng=testing.seed,
            nan_policy=reading.missing,
            progress=bar,
        )
    differ = result.pvalue <= testing.alpha
    sentence = words.verdict(
        result,
        testing.alpha,
        yes="The two samples differ",
        no="No difference was found",
        proof="sameness",
    )
    screen.say(sentence)
    screen.facts([*_about(pair, result.sizes), *words.evidence(result, testing.kernel)])
    if result.columns:
        _print_columns(screen, result)
    screen.repeat(arguments, testing.seed, words.resampling(result))
    screen.finish(
        {
            "command": "test",
            "verdict": sentence,
            "differ": differ,
            **_described(pair, result.sizes),
            **words.outcome(result, testing),
        }
    )
    return differ


def run_witness(
    arguments: list[str],
    a: str,
    b: str | None,
    *,
    kernel: str,
    level: float,
    output: Path | None,
    reading: Grouping,
    seeded: Seeded,
    printing: Printing,
) -> bool:
    """Tell where two samples differ, and return whether they do anywhere."""
    screen = Screen(json=printing.json, quiet=printing.quiet)
    if kernel == "fused":
        raise files.InputError("--kernel fused is many kernels, and a witness has one; use bkl or median")
    if not 0.0 < level < 1.0:
        raise files.InputError(f"--level is a number between 0 and 1, 0.9 for 90%, but {level:g} was given")
    chosen = kernel_of(kernel)
    figure = None if output is None else outputs.target(output, outputs.FIGURES, (a, b))
    pair = load_pair(a, b, reading, screen)
    from kembed import witness

    with screen.waiting(f"looking where {pair.labels[0]} and {pair.labels[1]} differ"):
        with words.calling(x=pair.labels[0], y=pair.labels[1]):
            found = witness(
                pair.x, pair.y, kernel=chosen, level=level, rng=seeded.seed, nan_policy=reading.missing
            )
            relevance = found.relevance
            order = [column.name for column in relevance]
            regions = [
                replace(region, box={name: region.box[name] for name in order}) for region in found.where()
            ]
        if figure is not None:
            outputs.save_plot(found, figure, labels=pair.names)
    sentence = _where(len(regions), level)
    screen.say(sentence)
    if not screen.quiet:
        for region in regions[:REGIONS]:
            screen.say(f"  {words.printable(region.describe(pair.names, REGION_COLUMNS))};", "")
            screen.say(f"    most clearly where {_point(region.peak, order)}", "")
        if len(regions) > REGIONS:
            screen.say(f"  and {len(regions) - REGIONS} more (--json has all)", "")
    screen.table(
        ("column", "influence", "lengthscale", "p, by itself", "p, of all columns"),
        [
            (
                words.printable(column.name),
                f"{column.sensitivity:.0%}",
                "" if column.lengthscale is None else f"{column.lengthscale:.3g}",
                f"{column.pvalue:.3g}",
                f"{column.adjusted_pvalue:.3g}",
            )
            for column in relevance
        ],
    )
    screen.facts([*_about(pair, found.sizes), ("kernel", words.of_kernel(found.kernel))])
    if figure is not None:
        screen.wrote([figure])
    screen.repeat(arguments, seeded.seed)
    screen.finish(
        {
            "command": "witness",
            "verdict": sentence,
            "differ": bool(regions),
            **_described(pair, found.sizes),
            "kernel": kernel,
            "kernel_used": repr(found.kernel),
            "level": level,
            "regions": [
                {
                    "more": pair.labels[0 if region.sign > 0 else 1],
                    "box": region.box,
                    "peak": region.peak,
                    "value": region.value,
                    "band": region.band,
                    "share_a": region.share_x,
                    "share_b": region.share_y,
                }
                for region in regions
            ],
            "by_column": [vars(column) for column in relevance],
            "figure": None if figure is None else str(figure),
            "seed": seeded.seed,
        }
    )
    return bool(regions)


def run_report(
    arguments: list[str],
    a: str,
    b: str | None,
    *,
    output: Path,
    reading: Grouping,
    testing: Testing,
    printing: Printing,
) -> bool:
    """Write the page, print its verdict, and return whether the samples differ."""
    screen = Screen(json=printing.json, quiet=printing.quiet)
    kernel = kernel_of(testing.kernel)
    page = outputs.target(output, outputs.PAGES, (a, b))
    pair = load_pair(a, b, reading, screen)
    from kembed import compare

    with (
        screen.waiting(f"comparing {pair.x.height:,} + {pair.y.height:,} rows") as bar,
        words.calling(x=pair.labels[0], y=pair.labels[1]),
    ):
        found = compare(
            pair.x,
            pair.y,
            labels=pair.names,
            kernel=kernel,
            alpha=testing.alpha,
            n_resamples=testing.resamples,
            nan_policy=reading.missing,
            rng=testing.seed,
            progress=bar,
        )
        found.save_report(page)
    screen.say(found.verdict)
    screen.facts([*_about(pair, found.test.sizes), *words.evidence(found.test, testing.kernel)])
    print_summaries(screen, found)
    screen.wrote([page])
    screen.repeat(arguments, testing.seed, words.resampling(found.test))
    screen.finish(
        {
            "command": "report",
            **_described(pair, found.test.sizes),
            **words.outcome(found.test, testing),
            **found.to_dict(),
            "report": str(page),
        }
    )
    return bool(found.differ)


def print_summaries(screen: Screen, found: Comparison) -> None:
    """What changed in every column, the clearest first."""
    screen.table(
        ("column", "p, of all columns", "change"),
        [
            (words.printable(column.name), f"{column.adjusted_pvalue:.3g}", words.printable(column.change))
            for column in found.columns
        ],
        words=(0, 2),
    )


def _where(regions: int, level: float) -> str:
    bands = f"with {100 * level:g}% bands that hold everywhere at once"
    if regions:
        return f"The two samples differ in {regions} region{'s' if regions > 1 else ''}, {bands}:"
    return f"No region was found where they differ, {bands}. That is not a proof of sameness."


def _point(peak: dict[str, Any], order: list[str]) -> str:
    """A point by its most relevant columns."""
    shown = [(name, peak[name]) for name in order[:REGION_COLUMNS]]
    return ", ".join(
        f"{words.printable(name)} is {value:.3g}" if isinstance(value, float) else f"{name} is {value}"
        for name, value in shown
    )


def _about(pair: Pair, sizes: tuple[int, ...]) -> list[tuple[str, str]]:
    frames = (pair.x, pair.y)
    rows = [
        (name, words.of_rows(used, frame.height))
        for name, used, frame in zip(pair.names, sizes, frames, strict=True)
    ]
    return [*rows, ("columns", words.of_columns(pair.columns))]


def _described(pair: Pair, sizes: tuple[int, ...]) -> dict[str, Any]:
    return {
        "samples": [
            {"name": label, "rows": frame.height, "used": used}
            for label, frame, used in zip(pair.labels, (pair.x, pair.y), sizes, strict=True)
        ],
        "columns": pair.columns,
        "left_out": pair.left_out,
    }


def _print_columns(screen: Screen, result: TestOutcome) -> None:
    columns = sorted(result.columns or (), key=lambda column: (column.adjusted_pvalue, column.pvalue))
    screen.table(
        ("column", "p, by itself", "p, of all columns"),
        [
            (words.printable(column.name), f"{column.pvalue:.3g}", f"{column.adjusted_pvalue:.3g}")
            for column in columns
        ],
    )
