"""`kembed independence`, `kembed when` and `kembed learn`: columns of one file."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from kembed.cli import options, outputs, words
from kembed.cli.options import command, split
from kembed.cli.outcomes import show_outcome, verdict
from kembed.cli.screen import Screen
from kembed.cli.words import UsageError

# What is learned, while one waits.
CHANGES = 10  # that are printed
FAMILIES = {"gaussian": "one lengthscale", "ard": "a lengthscale for every column", "auto": "best of five"}


@command(options.FailingOnDependence)
def run_independence(
    screen: Screen,
    file: options.OneFile,
    *,
    reading: options.Reading,
    testing: options.Testing,
    x: Annotated[str, typer.Option("--x", metavar="A,B,...", help="Columns of one side.")],
    y: Annotated[str, typer.Option("--y", metavar="C,D,...", help="Columns of the other.")],
    given: Annotated[
        str | None, typer.Option("--given", metavar="E,F,...", help="Columns to condition on.")
    ] = None,
    strata: options.Strata = None,
    null: options.SidedNull = "permutation",
    fast: options.Fast = False,
) -> bool:
    """Do columns of a file depend on others? An exact test; with --given, a conditional test."""
    named = {"x": split(x) or [], "y": split(y) or [], **({"given": split(given) or []} if given else {})}
    alone = (("--fast", fast), ("--strata", strata), (f"--null {null}", null != "permutation"))
    for option, used in alone:
        if given and used:
            raise UsageError(f"{option} is for the test without --given; leave out one of them")
    if reading.columns is not None:
        raise UsageError("--columns is not for independence; name columns with --x and --y")
    wanted = [column for names in named.values() for column in names] + ([strata] if strata else [])
    from kembed import conditional_test, hsic_test
    from kembed.cli import samples
    from kembed.conditional.tester import MINIMUM
    from kembed.tables.source import rows_of
    from kembed.testing import independence

    loaded = samples.load_table(
        file, reading, screen, wanted, minimum=MINIMUM if given else independence.MINIMUM
    )
    (table,) = loaded.sources
    if given and not table.held:  # regressions need all rows at once
        table = rows_of(table, samples.table_of(table, screen))
    with screen.waiting(f"pairing {loaded.given[0]:,} rows") as bar:
        if given:
            how = testing.settings(bar)
            how.pop("progress")
            result: Any = conditional_test(*named.values(), data=table, **how)
        else:
            how = testing.settings(bar, fast)
            result = hsic_test(*named.values(), data=table, null=null, strata=strata, **how)
    if null == "shift" and testing.alpha * result.sizes[0] < 1.0:
        seen = f"shifts of {result.sizes[0]} rows give no p-value below {1.0 / result.sizes[0]:.3g}"
        raise UsageError(f"{seen}, so nothing can be found at --alpha {testing.alpha:g}; give more rows")
    fixed = f" given {words.of_columns(named['given'])}" if given else ""
    yes, no = f"The two sides depend on each other{fixed}", f"No dependence was found{fixed}"
    sentence = loaded.with_left_out(verdict(result, testing.alpha, yes, no, "independence"), result.sizes)
    columns = [(side, words.of_columns(names)) for side, names in named.items()]
    facts = [loaded.facts(result.sizes)[0], *columns]
    if second := getattr(result, "second_opinion", None):
        facts.append(("second opinion", second))
    more: dict[str, Any] = {"given": [], **named}
    return show_outcome(screen, loaded, result, testing, sentence, facts, "dependent", **more)


@command(options.Failing)
def run_when(
    screen: Screen,
    file: options.OneFile,
    *,
    reading: options.Reading,
    order: Annotated[
        str | None, options.data("Sort rows by this column of dates or numbers first.", "COLUMN")
    ] = None,
    seeded: options.Seeded,
    block: Annotated[
        int, options.method("Permute blocks of N rows, where rows resemble their neighbours.", "N", min=1)
    ] = 1,
    min_segment: Annotated[
        int | None, options.method("Fewest rows between changes; a fiftieth of all unless given.", "N", min=1)
    ] = None,
    resamples: Annotated[int, options.method("Number of permutations of the rows.", "N", min=1)] = 999,
    alpha: Annotated[float, options.method("Significance level of all changes together.", "P")] = 0.05,
    output: Annotated[
        Path | None,
        options.output("Save the figure: .png, .svg or .pdf.", "FILE", "--output", "-o", "--plot"),
    ] = None,
) -> bool:
    """When did a table change? Changes over time with intervals, and the columns behind them."""
    options.check_level(alpha, resamples)
    outputs.check_target(output, outputs.FIGURES, (file,))
    from kembed import change_points
    from kembed.cli import samples

    wanted = split(reading.columns)
    columns = wanted if wanted is None or order is None else [*dict.fromkeys([*wanted, order])]
    loaded = samples.load_table(file, reading, screen, columns, keep=[] if order is None else [order])
    (source,) = loaded.sources
    with screen.waiting(f"looking for changes in {source.size:,} rows") as bar:
        how: Any = {"order": order, "block": block, "min_segment": min_segment, "alpha": alpha}
        found = change_points(source, n_resamples=resamples, rng=seeded.seed, progress=bar, **how)
        outputs.save_plot(found, output)
    size = (len(found.table.values),)
    sentence = loaded.with_left_out(found.verdict, size)
    screen.remark(found.notes)
    screen.say(sentence)
    shown = found.changes[:CHANGES]
    lines = [(change, one) for change in shown for one in (*change.columns, *change.pairs) or ("",)]
    screen.table(
        {"change": "", "95% interval": "", "p": ".3g", "what changed": ""},
        [(one.label, " to ".join(one.interval_label), one.pvalue, str(what)) for one, what in lines],
    )
    if len(found.changes) > CHANGES and not screen.quiet:
        screen.say(f"  and {len(found.changes) - CHANGES} more (--json has all)", "")
    loaded = replace(loaded, columns=[name for name in loaded.columns if name != found.times.name])
    screen.facts([*loaded.facts(size), ("p, no change at all", f"{found.pvalue:.3g}")])
    payload = {**found.to_dict(), **loaded.described(size), "verdict": sentence, "output": output}
    screen.finish(payload, f", {found.resamples:,} orders")
    return found.changed


@command()
def run_learn(
    screen: Screen,
    file: options.OneFile,
    *,
    reading: options.Complete,
    seeded: options.Seeded,
    family: Annotated[
        Literal["gaussian", "ard", "auto"],
        options.method("One lengthscale, one for every column, or the best of five families.", None),
    ] = "gaussian",
    output: options.Figure = None,
) -> None:
    """Which lengthscale fits best? Learned without labels, with every mode."""
    outputs.check_target(output, outputs.FIGURES, (file,))
    from kembed.cli import samples
    from kembed.learning.learn import MINIMUM_ROWS
    from kembed.tables import diagnostics

    loaded, _ = samples.load_variables(file, reading, screen, minimum=MINIMUM_ROWS, numeric=True)
    (source,), table = loaded.sources, loaded.sources[0].table()
    screen.remark(diagnostics.of_sides([table], ordered=True))
    with screen.waiting(f"learning from {source.size:,} rows ({FAMILIES[family]})"):
        from kembed.learning.evidence import typical_lengthscale

        learned, space = _learned(table, family, seeded.seed)
        outputs.save_plot(learned, output)
    one = len(loaded.columns) == 1
    unit = float(space.spread[0]) if one else 1.0
    best, median = unit * typical_lengthscale(learned.kernel), unit * space.median()
    spoken = f"a lengthscale of {best:.3g}{'' if one else ' spreads of the columns'}"
    sentence = f"The best fit is {spoken}; the median rule gives {median:.3g}."
    if learned.rivals:
        sentence += f" {learned.rivals}"
    sentence = loaded.with_left_out(sentence, (learned.n,))
    scaled = words.lengthscales(learned.kernel, space.spread)
    screen.say(sentence)
    rows, _ = loaded.facts((learned.n,))
    facts = [rows, ("family", learned.family), ("predictive score", f"{learned.log_evidence:.2f}")]
    families = sorted((learned.families or {}).items(), key=lambda item: -item[1])
    if families:
        facts.append(("families", ", ".join(f"{name} {score:.1f}" for name, score in families)))
    screen.facts(facts)
    scales = [" and ".join(f"{scale:.4g}" for scale in scales) for scales in scaled]
    spreads = list(zip(loaded.columns, space.spread, scales, strict=True))
    screen.table({"column": "", "spread": ".4g", "lengthscale": ">"}, spreads)
    modes = enumerate(learned.modes if len(learned.modes) > 1 else (), start=1)
    ranked = [(rank, typical_lengthscale(mode.kernel), mode.log_evidence) for rank, mode in modes]
    screen.table({"modes, best first": "", "lengthscale": ".3g", "predictive score": ".2f"}, ranked)
    payload = {
        "verdict": sentence,
        **loaded.described((learned.n,)),
        **learned.to_dict(),
        "lengthscale": best,
        "median": median,
        "by_column": [
            {"name": name, "spread": spread, "lengthscale": own[0] if len(own) == 1 else own}
            for name, spread, own in zip(loaded.columns, space.spread, scaled, strict=True)
        ],
        "seed": seeded.seed,
        "output": output,
    }
    del payload["rows"]  # with those of `samples`
    screen.finish(payload)


def _learned(table: Any, family: str, seed: int) -> tuple[Any, Any]:
    """The kernel in the coordinates that words for kernels mean, and the space that has them."""
    import numpy as np

    from kembed import Gaussian, learn_kernel
    from kembed.kernels.space import make_space

    space = make_space(table.values, table.categorical)
    pattern: Any = "auto" if family == "auto" else Gaussian()
    if family == "ard" and len(table.names) > 1:
        pattern = Gaussian(np.ones(len(table.names)))
    return learn_kernel(space.numeric, pattern, rng=seed), space
