"""What goes where on the page; the words and the layout are in `page.html`."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup

from kembed.report import figures, glyphs, words

if TYPE_CHECKING:
    from kembed.comparing.compare import Comparison
    from kembed.comparing.regions import Region

# Columns in tables, columns with a picture, regions and their columns: the rest is counted, and in the JSON.
COLUMNS, PICTURES, REGIONS, REGION_COLUMNS = 50, 3, 6, 4
# A region that covers more than this share of a column's range says nothing about it.
WIDE = 0.95


@dataclass(frozen=True)
class Place:
    """A region: which sample has more rows there, the shares of both, its ranges, how many were left out."""

    side: str
    more: str
    less: str
    mine: str
    other: str
    ranges: list[tuple[str, str]]
    hidden: int


def fill(comparison: Comparison, date: str) -> str:
    """The page."""
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: words.clean(value) if type(value) is str else value,
    )
    environment.filters.update(
        number=words.number,
        p=words.p_value,
        percent=words.percent,
        rows=words.rows,
        short=words.short,
        name=words.breakable,
        effect=words.effect,
    )
    return environment.from_string(_file("page.html")).render(
        style=Markup(_file("style.css")), date=date, c=comparison, **_parts(comparison)
    )


def _file(name: str) -> str:
    return resources.files("kembed.report").joinpath(name).read_text(encoding="utf-8")


def _parts(comparison: Comparison) -> dict[str, Any]:
    test, columns = comparison.test, comparison.columns
    if not comparison.differ:  # no order that would point at a column
        order = {name: d for d, name in enumerate(comparison.witness.names)}
        columns = tuple(sorted(columns, key=lambda column: order[column.name]))
    shown = columns[:COLUMNS]
    pictured = comparison.changed[:PICTURES] if comparison.differ and len(columns) > 1 else ()
    return {
        "labels": comparison.labels,
        "columns": shown,
        "hidden": len(columns) - len(shown),
        "numeric": [column for column in shown if not column.categorical],
        "categorical": [column for column in shown if column.categorical],
        "glyph": lambda column: glyphs.of_column(column, comparison.labels),
        "gauge": glyphs.gauge(comparison.separation),
        "of_p": words.of_p(test),
        "of_separation": words.of_separation(comparison.separation),
        "of_effect": words.of_effect(test),
        "joint": figures.joint(comparison),
        "single": len(columns) == 1,
        "pictures": [figures.of_column(comparison, column.name) for column in pictured],
        "regions": [_place(region, comparison) for region in comparison.regions[:REGIONS]],
        "evidence": figures.evidence(comparison),
        "scale": _scale(comparison),
        "null": figures.null(test),
        "method": _method(comparison),
        "python": _python(comparison),
        "shell": _shell(comparison),
        "versions": _versions(),
    }


def _place(region: Region, comparison: Comparison) -> Place:
    labels = comparison.labels
    more, less = labels if region.sign > 0 else labels[::-1]
    mine, other = (region.share_x, region.share_y) if region.sign > 0 else (region.share_y, region.share_x)
    wholes = _wholes(comparison)
    told = {name: span for name, span in region.box.items() if _narrower(span, wholes[name])}
    ranges = [words.of_range(name, span) for name, span in list(told.items())[:REGION_COLUMNS]]
    return Place(
        "a" if region.sign > 0 else "b",
        more,
        less,
        words.percent(mine),
        words.percent(other),
        ranges,
        len(told) - len(ranges),
    )


def _wholes(comparison: Comparison) -> dict[str, tuple[Any, ...]]:
    """The levels or the range of every column over both samples."""
    table = comparison.witness.tables[0]
    levels = dict(zip(table.names, table.levels, strict=True))
    return {
        column.name: levels[column.name]
        if column.categorical
        else (min(column.x["minimum"], column.y["minimum"]), max(column.x["maximum"], column.y["maximum"]))
        for column in comparison.columns
    }


def _narrower(span: tuple[Any, ...], whole: tuple[Any, ...]) -> bool:
    """Whether a region leaves out a part of a column that is worth telling."""
    if not isinstance(span[0], float):
        return len(span) < len(whole)
    return (
        whole[1] / 2 - whole[0] / 2 > 0.0
        and (span[1] / 2 - span[0] / 2) / (whole[1] / 2 - whole[0] / 2) < WIDE
    )


def _scale(comparison: Comparison) -> str | None:
    """The learned lengthscale in a sentence."""
    learned = comparison.witness.learned
    if learned is None:
        return None
    scale = f"{learned.peaks[0]:.2g}"
    if learned.unit:
        said = f"Rows that are about {scale} spreads apart or less count as alike."
    else:
        said = f"The kernel that was given has a lengthscale of {scale}."
    more = len(learned.peaks) - 1
    if more:
        said += (
            f" {more} other scale{'s' if more > 1 else ''} had a peak of evidence too; the best was taken."
        )
    return said


def _method(comparison: Comparison) -> list[tuple[str, str]]:
    from kembed.comparing.compare import MANY_ROWS

    test, w = comparison.test, comparison.witness
    fused = len(test.members) > 1
    many = sum(test.sizes) > MANY_ROWS
    name = f"{test.name}, {'random features' if many else 'unbiased'}"
    statistic = (
        f"{name}, {len(test.members)} kernels fused into one statistic: {words.number(abs(test.statistic))} "
        f"standard deviations {'above' if test.statistic >= 0.0 else 'below'} what chance gives"
        if fused
        else f"{name}: {words.number(test.statistic)}"
    )
    drawn = len(test.null_distribution)
    resamples = f"all {drawn:,} arrangements" if test.enumerated else f"{drawn:,} resamples"
    return [
        ("Test", f"two-sample test of kernel mean embeddings, level {comparison.alpha:g}"),
        ("Statistic", statistic),
        (
            "Effect",
            f"{test.name} = {words.number(test.effect)}{' with the strongest kernel' if fused else ''}",
        ),
        ("Null distribution", f"{test.null}, {resamples}"),
        ("Kernel of the test" + (", strongest" if fused else ""), repr(test.kernel)),
        ("Kernel of the witness", _kernels(w.kernel)),
        ("Bands", f"{w.level:.0%}, holding everywhere at once"),
        ("Columns", "each tested by itself with the same resamples, step-down maximum over all columns"),
        (
            "Seed",
            "not known: a random generator was given" if comparison.seed is None else str(comparison.seed),
        ),
    ]


def _kernels(kernel: Any) -> str:
    return f"{len(kernel)} kernels drawn from their posterior" if isinstance(kernel, list) else repr(kernel)


def _python(comparison: Comparison) -> str:
    """Code that makes this comparison again."""
    seed = "...,  # not known" if comparison.seed is None else f"{comparison.seed},"
    word = words.kernel_word(comparison)
    options = [
        f"labels={tuple(words.clean(label) for label in comparison.labels)!r},",
        {None: "kernel=...,  # as it was given", "fused": ""}.get(word, f'kernel="{word}",'),
        f"alpha={comparison.alpha:g},",
        f"n_resamples={comparison.n_resamples},",
        'nan_policy="omit",' if any(comparison.dropped) else "",
        f"rng={seed}",
    ]
    lines = "\n".join(f"    {option}" for option in options if option)
    return (
        'import kembed\nimport polars as pl\n\nx = pl.read_csv("A.csv")\ny = pl.read_csv("B.csv")\n'
        f'found = kembed.compare(\n    x,\n    y,\n{lines}\n)\nfound.save_report("report.html")'
    )


def _shell(comparison: Comparison) -> str | None:
    """The same at a shell; None where the seed is not known."""
    if comparison.seed is None:
        return None
    word = words.kernel_word(comparison)
    options = [
        f"--seed {comparison.seed}",
        {None: "--kernel ...", "fused": ""}.get(word, f"--kernel {word}"),
        f"--alpha {comparison.alpha:g}",
        f"--resamples {comparison.n_resamples}",
        "--missing omit" if any(comparison.dropped) else "",
    ]
    return " ".join(["kembed report A.csv B.csv", *filter(None, options)])


def _versions() -> str:
    import numpy

    from kembed import __version__

    return f"kembed {__version__}, NumPy {numpy.__version__}, Python {platform.python_version()}"
