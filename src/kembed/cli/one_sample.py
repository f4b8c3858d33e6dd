"""`kembed independence` and `kembed learn`: columns of one file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kembed.cli import outputs, words
from kembed.cli.inputs import load_columns, load_numbers
from kembed.cli.options import Printing, Reading, Seeded, Testing, kernel_of, split
from kembed.cli.screen import Screen
from kembed.data import files
from kembed.learning.evidence import typical_lengthscale

FAMILIES = {"gaussian": "one lengthscale", "ard": "a lengthscale for every column", "auto": "best of five"}


def run_independence(
    arguments: list[str],
    file: str,
    x: str,
    y: str,
    *,
    fast: bool,
    reading: Reading,
    testing: Testing,
    printing: Printing,
) -> bool:
    """Test columns against columns, print the outcome, and return whether they depend on each other."""
    screen = Screen(json=printing.json, quiet=printing.quiet)
    kernel, name = kernel_of(testing.kernel), files.label(file)
    sides = split(x) or [], split(y) or []
    if reading.columns is not None:
        raise files.InputError("--columns is not for independence; name columns with --x and --y")
    both = [column for column in sides[0] if column in sides[1]]
    if both:
        raise files.InputError(f"column {both[0]!r} is in --x and in --y; leave it out of one")
    frame = load_columns(file, [*sides[0], *sides[1]], reading, screen)
    screen.patience(frame.height, fast)
    from kembed import hsic_test

    with (
        screen.waiting(f"pairing {frame.height:,} rows") as bar,
        words.calling(x=f"the x side of {name}", y=f"the y side of {name}"),
    ):
        result = hsic_test(
            frame.select(sides[0]),
            frame.select(sides[1]),
            kernel=kernel,
            statistic="features" if fast else "unbiased",
            n_resamples=testing.resamples,
            rng=testing.seed,
            nan_policy=reading.missing,
            progress=bar,
        )
    depend = result.pvalue <= testing.alpha
    sentence = words.verdict(
        result,
        testing.alpha,
        yes="The two sides depend on each other",
        no="No dependence was found",
        proof="independence",
    )
    screen.say(sentence)
    screen.facts(
        [
            (words.short(name, (name,)), words.of_rows(result.sizes[0], frame.height)),
            ("x", words.of_columns(sides[0])),
            ("y", words.of_columns(sides[1])),
            *words.evidence(result, testing.kernel),
        ]
    )
    screen.repeat(arguments, testing.seed, words.resampling(result))
    screen.finish(
        {
            "command": "independence",
            "verdict": sentence,
            "dependent": depend,
            "file": name,
            "rows": frame.height,
            "used": result.sizes[0],
            "x": sides[0],
            "y": sides[1],
            **words.outcome(result, testing),
        }
    )
    return depend


def run_learn(
    arguments: list[str],
    file: str,
    *,
    family: str,
    output: Path | None,
    reading: Reading,
    seeded: Seeded,
    printing: Printing,
) -> None:
    """Learn a kernel from the columns in units of their spreads, as the tests do, and print it."""
    screen = Screen(json=printing.json, quiet=printing.quiet)
    name = files.label(file)
    figure = None if output is None else outputs.target(output, outputs.FIGURES, (file,))
    frame = load_numbers(file, reading, screen)
    with screen.waiting(f"learning from {frame.height:,} rows ({FAMILIES[family]})"):
        with words.calling(x=name):
            learned, space = _learned(frame, family, reading.missing, seeded.seed)
        if figure is not None:
            outputs.save_plot(learned, figure)
    scales = words.lengthscales(learned.kernel, space.spread)
    one = frame.width == 1
    unit = "" if one else " spreads of the columns"
    best = typical_lengthscale(learned.kernel) * (float(space.spread[0]) if one else 1.0)
    median = space.median() * (float(space.spread[0]) if one else 1.0)
    sentence = f"The data speak for a lengthscale of {best:.3g}{unit}; the median rule gives {median:.3g}."
    screen.say(sentence)
    screen.facts(
        [
            (words.short(name, (name,)), words.of_rows(learned.n, frame.height)),
            ("family", learned.family),
            ("log evidence", f"{learned.log_evidence:.2f}"),
            ("noise", f"{learned.noise:.3g}"),
            ("background", f"{learned.background:.1%} of rows"),
            *([] if learned.families is None else [("families", words.scores(learned.families))]),
        ]
    )
    screen.table(
        ("column", "spread", "lengthscale"),
        [
            (words.printable(column), f"{spread:.4g}", " and ".join(f"{one:.4g}" for one in scale))
            for column, spread, scale in zip(frame.columns, space.spread, scales, strict=True)
        ],
    )
    if len(learned.modes) > 1:
        screen.table(
            ("modes, best first", "lengthscale", "log evidence"),
            [
                (str(rank), f"{typical_lengthscale(mode.kernel):.3g}", f"{mode.log_evidence:.2f}")
                for rank, mode in enumerate(learned.modes, start=1)
            ],
        )
    if figure is not None:
        screen.wrote([figure])
    screen.repeat(arguments, seeded.seed)
    screen.finish(
        {
            "command": "learn",
            "verdict": sentence,
            "file": name,
            "rows": frame.height,
            "used": learned.n,
            "family": learned.family,
            "lengthscale": best,
            "median": median,
            "columns": [
                {"name": column, "spread": spread, "lengthscale": scale[0] if len(scale) == 1 else scale}
                for column, spread, scale in zip(frame.columns, space.spread, scales, strict=True)
            ],
            "noise": learned.noise,
            "log_evidence": learned.log_evidence,
            "background": learned.background,
            "modes": [
                {"kernel": repr(mode.kernel), "noise": mode.noise, "log_evidence": mode.log_evidence}
                for mode in learned.modes
            ],
            "families": learned.families,
            "figure": None if figure is None else str(figure),
            "seed": seeded.seed,
        }
    )


def _learned(frame: Any, family: str, missing: str, seed: int) -> tuple[Any, Any]:
    """The kernel, and the space whose spreads it is in units of."""
    import numpy as np

    from kembed import Gaussian, learn_kernel
    from kembed.data.space import make_space
    from kembed.data.tables import read_tables
    from kembed.learning.learn import MINIMUM_ROWS

    (table,), _ = read_tables(
        {"x": frame}, nan_policy=missing, same_columns=False, paired=False, minimum=MINIMUM_ROWS
    )
    space = make_space(table.values, table.categorical)
    columns = table.values.shape[1]
    pattern: Any = "auto" if family == "auto" else Gaussian()
    if family == "ard" and columns > 1:
        pattern = Gaussian(np.ones(columns))
    return learn_kernel(space.numeric, pattern, rng=seed), space
