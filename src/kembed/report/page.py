"""What goes where on the page; the words and the layout are in `page.html`."""

import platform
from typing import Any

import jinja2
import numpy as np

from kembed import __version__
from kembed.comparing.compare import Comparison
from kembed.comparing.regions import Region
from kembed.core.text import counted, rows
from kembed.report import figures, words
from kembed.testing.effect import rounded
from kembed.testing.outcome import fused_evidence

# Columns in tables, columns with a picture, regions and their columns: the rest is counted, and in the JSON.
COLUMNS, PICTURES, REGIONS, REGION_COLUMNS = 50, 6, 6, 4
PAIRS = 2  # of columns with a picture; more are reported in words
# A region that covers more than this share of a column's range says nothing about it.
WIDE = 0.95
# Functions that the template calls by their names.
NUMBERS = (words.number, words.of_unit, words.p_value, words.percent, rows, rounded, fused_evidence)
SENTENCES = (words.short, words.of_p, words.of_auc)
EFFECTS = (words.of_mean, words.of_difference, words.of_shift)
DRAWINGS = (figures.alt_of, figures.ticks)


def template(name: str) -> Any:
    """A template of this package; what is put into it is escaped, and harms no page."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("kembed", "report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: words.clean(value) if type(value) is str else value,
    )
    environment.filters |= {made.__name__: made for made in (*NUMBERS, *SENTENCES, *EFFECTS, *DRAWINGS)}
    return environment.get_template(name)


def fill(comparison: Comparison, samples: str | None, **about: Any) -> str:
    """The page; `samples` is code that reads x and y, and `about` has names of the template."""
    columns, names = comparison.columns, [one.name for one in comparison.test.columns or ()]
    w = comparison.witness
    if not (comparison.differ or comparison.margin_given):  # no order that would point at a column
        columns = tuple(sorted(columns, key=lambda column: names.index(column.name)))
    pictured = comparison.changed if comparison.differ else ()
    return template("page.html").render(
        c=comparison,
        columns=columns[:COLUMNS],
        hidden=len(columns[COLUMNS:]),
        pairs=[figures.of_pair(comparison, pair) for pair in comparison.pairs[:PAIRS]] if w else [],
        pictures=[figures.of_witness(w, comparison.labels)] if w else [],
        pictured=pictured[:PICTURES],
        gaps=[column for column in comparison.columns if column.missing_pvalue is not None][:COLUMNS],
        regions=_places(comparison),
        evidence=figures.evidence(comparison),
        shifted=figures.of_shift(comparison.shift) if comparison.shift else [],
        scale=_scale(comparison),
        null=figures.null(comparison.test),
        python=in_python(comparison, samples),
        **about,
        versions=f"kembed {__version__}, NumPy {np.__version__}, Python {platform.python_version()}",
    )


def _places(comparison: Comparison) -> list[tuple[Region, list[tuple[str, str]], int]]:
    """The first regions, the ranges of columns that each does not cover whole, how many were left out."""
    if comparison.witness is None:
        return []
    levels = dict(zip(comparison.witness.names, comparison.witness.tables[0].levels, strict=True))
    columns = {column.name: column for column in comparison.columns}

    def narrower(name: str, span: tuple[Any, ...]) -> bool:
        if not isinstance(span[0], float):
            return len(span) < len(levels[name])
        sides = columns[name].x, columns[name].y
        low, high = min(side["minimum"] for side in sides), max(side["maximum"] for side in sides)
        width, whole = span[1] / 2 - span[0] / 2, high / 2 - low / 2  # halves of 1e308 stay numbers
        return whole > 0.0 and width / whole < WIDE

    found = []
    for region in comparison.regions[:REGIONS]:
        spans = [(name, span) for name, span in region.box.items() if narrower(name, span)]
        ranges = [words.of_range(*one, region.units.get(one[0], "")) for one in spans[:REGION_COLUMNS]]
        found.append((region, ranges, len(spans) - len(ranges)))
    return found


def _scale(comparison: Comparison) -> str | None:
    """The learned lengthscale in a sentence."""
    if comparison.witness is None or (learned := comparison.witness.learned) is None:
        return None
    scale, wider = f"{learned.peaks[0]:.2g}", comparison.witness.widened
    unit = f" robust standard deviation{'' if scale == '1' else 's'}" if learned.unit else ""
    said = f"Rows that are about {scale}{unit} apart or less count as alike."
    if not isinstance(comparison.kernel, str):
        said = f"The kernel that was given has a lengthscale of {scale}."
    if wider > 1.0:
        said += f" The difference is shown at a scale {wider:.2g} times as wide, where it is clearest."
    if others := len(learned.peaks) - 1:
        scales = counted(others, "other scale")
        said += f" {scales} had a local maximum of the predictive score too; the best was taken."
    return said


def in_python(comparison: Comparison, samples: str | None = None) -> str:
    """Code that makes this comparison again; `samples` reads x and y."""
    c, kernel = comparison, ""
    if c.kernel != "fused":
        kernel = f'kernel="{c.kernel}",' if isinstance(c.kernel, str) else "kernel=...,  # as it was given"
    options = [
        f"labels={tuple(words.clean(label) for label in c.labels)!r},",
        kernel,
        f"alpha={c.alpha:g},",
        f'margin="{c.margin.margin}",' if c.margin and c.margin_given else "",
        f"n_resamples={c.n_resamples},",
        f"target={c.shift.target!r}," if c.shift else "",
        'missing="omit",' if any(c.dropped) else "",
        "rng=...,  # not known" if c.seed is None else f"rng={c.seed},",
    ]
    lines = "\n".join(f"    {option}" for option in options if option)
    read = samples or '\nx, y = "A.csv", "B.csv"'
    call = f"found = kembed.compare(\n    x,\n    y,\n{lines}\n)"
    return f'import kembed\n{read}\n{call}\nfound.save_report("report.html")'
