"""`kembed test`, `kembed witness` and `kembed report`: two samples."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from kembed.cli import options, outputs, sketches, words
from kembed.cli.options import command, kernel_of, method
from kembed.cli.outcomes import PVALUES, evidence, resampling, show_outcome, verdict
from kembed.cli.screen import Screen
from kembed.cli.words import UsageError
from kembed.core.text import counted

if TYPE_CHECKING:
    from kembed.cli.samples import Samples
    from kembed.comparing.compare import Comparison

# What is printed of a witness: so many regions, by so many of their columns.
REGIONS, REGION_COLUMNS = 6, 3
CLEAR = 0.05  # adjusted p-value below which a column differs though no region does


@command(options.Failing)
def run_test(
    screen: Screen,
    a: options.SampleA,
    b: options.SampleB = None,
    *,
    reading: options.Grouping,
    testing: options.Testing,
    related: options.Related,
    null: options.Null = "permutation",
    by_column: options.ByColumn = False,
    margin: options.Margin = None,
    bayes: options.Bayes = False,
    fast: options.Fast = False,
) -> bool:
    """Do samples differ? An exact test, by files or by the groups of one file."""
    from kembed.testing.margin import read_margin

    limit = None if margin is None else read_margin(margin)
    special = {**related.used, **({"--null": null} if null != "permutation" else {})}
    if kept := sketches.sketches_in(a, b):
        of_rows = {**special, "--fast": fast, "--bayes": bayes, "--margin": margin}
        pair = sketches.load_against(screen, a, b, kept, reading, of_rows)
        return sketches.test_against(screen, pair, testing, by_column)
    from kembed import bayes_factor, mmd_test
    from kembed.cli import samples
    from kembed.testing.outcome import effect_to_dict
    from kembed.testing.two_sample import with_margin

    loaded = samples.load_samples(a, b, reading, screen, testing.seed, related=related, two=False)
    if bayes and special:
        raise UsageError(f"--bayes assumes independent rows of equal weight; leave {next(iter(special))} out")
    if limit is not None and null != "permutation":
        raise UsageError("--margin needs independent rows or clusters (--unit); leave out --margin or --null")
    if len(loaded.sources) > 2:
        special |= {"--bayes": bayes, "--by-column": by_column, "--margin": margin, "--fast": fast}
        together = ("--unit", "--strata")
        if used := [name for name, given in special.items() if given and name not in together]:
            raise UsageError(f"{used[0]} is for two samples; choose two with --groups a,b")
        loaded, _ = samples.exchanged(loaded, related)
        return _several(screen, loaded, testing, {"unit": related.unit, "strata": related.strata})
    loaded, rows = samples.exchanged(loaded, related)
    with screen.waiting(f"comparing {loaded.given[0]:,} + {loaded.given[1]:,} rows") as bar:
        how = testing.settings(bar, fast) | {"by_column": by_column, "null": null} | rows
        result = mmd_test(*loaded.sources, **how)
        if null == "permutation":
            result = with_margin(result, loaded.sources, limit, testing.alpha, **rows)
        probable = None
        if bayes:
            same: dict[str, Any] = {"n_resamples": testing.resamples, "rng": testing.seed, "progress": bar}
            probable = bayes_factor(*loaded.sources, **same)
    others = " in the others" if loaded.differences else ""
    yes, no = f"The two samples differ{others}", f"No difference was found{others}"
    sentence = verdict(result, testing.alpha, yes, no, "" if result.margin else "they are the same")
    if result.margin:
        whole = "This is about the table as a whole; kembed report judges single columns too."
        sentence = f"{result.margin.words}. {whole} {sentence}"
    sentence = loaded.with_left_out(loaded.schema + sentence, result.sizes)
    effect = [("effect size", result.effect.words)] if result.effect else []
    clusters = [("clusters", loaded.count_values(related.unit))] if related.unit else []
    facts = [*loaded.facts(result.sizes), *clusters, *effect, *(probable.facts if probable else [])]
    more: dict[str, Any] = {"by_pair_of_samples": None, "bayes": probable and probable.to_dict()}
    decided = result.margin
    beyond = decided and bool(decided.verdict == "different" or loaded.differences)
    more |= {**effect_to_dict(result), "beyond_margin": beyond}
    return show_outcome(screen, loaded, result, testing, sentence, facts, "differ", **more)


def _several(screen: Screen, loaded: Samples, testing: options.Testing, named: dict[str, Any]) -> bool:
    """More than two groups: all at once, then every pair."""
    from kembed import k_sample_test

    with screen.waiting(f"comparing {len(loaded.sources)} groups of {sum(loaded.given):,} rows") as bar:
        found = k_sample_test(*loaded.sources, labels=loaded.labels, **named, **testing.settings(bar))
    count = len(loaded.sources)
    yes, no = f"The {count} groups do not all follow one distribution", "No difference between them was found"
    sentence = loaded.with_left_out(verdict(found.test, testing.alpha, yes, no), found.test.sizes)
    without = dict.fromkeys(("bayes", "beyond_margin", "margin", "effect", "effect_size"))
    more: dict[str, Any] = {**found.to_dict(), **without}
    facts = loaded.facts(found.test.sizes)
    return show_outcome(screen, loaded, found.test, testing, sentence, facts, "differ", found.pairs, **more)


@command(options.Failing)
def run_witness(
    screen: Screen,
    a: options.SampleA,
    b: options.SampleB = None,
    *,
    reading: options.Grouping,
    seeded: options.Seeded,
    kernel: Annotated[
        str,
        method(
            "The scale with the clearest regions, a learned one, the median rule, or a number.",
            options.ONE_KERNEL,
        ),
    ] = "auto",
    level: Annotated[float, method("Confidence level of the bands.", "P")] = 0.9,
    output: options.Figure = None,
) -> bool:
    """Where do two samples differ? Regions where one is significantly higher, and which columns matter."""
    if kernel == "fused":
        raise UsageError("--kernel fused is many kernels, and a witness has one; use bkl or median")
    chosen = kernel_of(kernel, ("auto", *options.KERNELS[1:]))
    outputs.check_target(output, outputs.FIGURES, (a, b))
    from kembed import witness
    from kembed.cli import samples
    from kembed.kernels.words import in_words
    from kembed.tables.source import SAMPLE

    if kept := sketches.sketches_in(a, b):
        pair = sketches.load_against(screen, a, b, kept, reading)
    else:
        pair = samples.load_samples(a, b, reading, screen, seeded.seed)
    if not (kept or all(source.held for source in pair.sources)):
        screen.note(f"regions rest on {SAMPLE:,} rows of each sample, drawn at random")
    with screen.waiting(f"looking where {pair.labels[0]} and {pair.labels[1]} differ"):
        found = witness(*pair.sources, level=level, kernel=chosen, rng=seeded.seed)
        relevance = found.relevance
        order = [column.name for column in relevance]
        regions = [replace(one, box={name: one.box[name] for name in order}) for one in found.where()]
        outputs.save_plot(found, output, labels=pair.names)
    bands = f"with simultaneous {100 * level:g}% bands"
    sentence = f"No region was found where they differ, {bands}. This does not prove they are the same."
    clear = [column.name for column in relevance if column.adjusted_pvalue <= CLEAR]
    if clear and not regions:
        many = f"{words.of_columns(clear[:REGION_COLUMNS])} (p at most {CLEAR:g})"
        sentence = f"They differ in {many}, but no single region is significant, {bands}."
    if regions:
        sentence = f"The two samples differ in {counted(len(regions), 'region')}, {bands}:"
    sentence = pair.with_left_out(pair.schema + sentence, found.sizes)
    screen.remark(found.notes)
    screen.say(sentence)
    for region in regions[:REGIONS]:
        screen.say(f"  {region.describe(two(pair.names), REGION_COLUMNS)};", "")
        shown = ((name, region.shown(name, region.peak[name])) for name in order[:REGION_COLUMNS])
        point = ", ".join(f"{name} is {value}" for name, value in shown)
        screen.say(f"    most clearly where {point}", "")
    if len(regions) > REGIONS:
        screen.say(f"  and {len(regions) - REGIONS} more (--json has all)", "")
    shares = [(o.name, o.sensitivity, o.pvalue, o.adjusted_pvalue) for o in relevance]
    screen.table({"column": "", "influence": ".0%", **PVALUES}, shares)
    screen.facts([*pair.facts(found.sizes), ("kernel", in_words(found.kernel))])
    payload: dict[str, Any] = {
        "verdict": sentence,
        "differ": bool(regions or pair.differences),
        **pair.described(found.sizes),
        "kernel": kernel,
        "kernel_used": repr(found.kernel),
        "level": level,
        "regions": [region.to_dict(two(pair.labels)) for region in regions],
        "by_column": [vars(column) for column in relevance],
        "seed": seeded.seed,
        "output": output,
    }
    screen.finish(payload)
    return bool(payload["differ"])


@command(options.Failing)
def run_report(
    screen: Screen,
    a: options.SampleA,
    b: options.SampleB = None,
    *,
    reading: options.Grouping,
    testing: options.Testing,
    related: options.Related,
    margin: options.Margin = None,
    target: options.Target = None,
    output: options.Page = Path("report.html"),
) -> bool:
    """Everything about two samples on one page: verdict, columns, pictures, how to repeat it."""
    outputs.check_target(output, outputs.PAGES, (a, b))
    if target is not None and related.used:
        first = next(iter(related.used))
        raise UsageError(f"--target assumes independent rows of equal weight; leave {first} out")
    from kembed import compare
    from kembed.cli import samples

    rows: dict[str, Any] = {}
    if kept := sketches.sketches_in(a, b):
        pair = sketches.load_against(screen, a, b, kept, reading, {**related.used, "--target": target})
    else:
        pair = samples.load_samples(a, b, reading, screen, testing.seed, related=related, keep=(target,))
        pair, rows = samples.exchanged(pair, related)
    with screen.waiting(f"comparing {pair.given[0]:,} + {pair.given[1]:,} rows") as bar:
        how = testing.settings(bar) | {"target": target, "margin": margin} | rows
        found = compare(*pair.sources, labels=two(pair.names), alpha=testing.alpha, **how)
        screen.remark(found.test.notes)
        again = None if related.used else samples.in_python(a, b, reading, pair)
        about: Any = {"notes": screen.notes, "left_out": pair.left_out, "samples": again}
        found.save_report(output, command=screen.repeated(testing.seed), **about)
    sentence = pair.with_left_out(found.verdict, found.test.sizes)
    screen.say(sentence)
    facts = [("effect size", found.effect.words)] if found.effect else []
    facts += found.bayes.facts if found.bayes else []
    screen.facts([*pair.facts(found.test.sizes), *evidence(found.test, testing), *facts])
    if found.shift is not None:
        answers = [(name, answer, None if p != p else p) for name, answer, p in found.shift.answers]
        screen.table({"distribution": "", "answer": "", "p": ".3g"}, answers)
    print_summaries(screen, found)
    payload = {**found.to_dict(), **pair.described(found.test.sizes), **testing.described}
    payload |= {"verdict": sentence, "output": output}
    screen.finish(payload, resampling(found.test))
    return found.beyond_margin if found.margin_given else found.differ


def print_summaries(screen: Screen, found: Comparison) -> None:
    """What changed in every column, the clearest first."""
    header = {"column": "", "largest difference": ".3f", "p (adjusted)": ".3g", "change": ""}
    largest = [column.effect and column.effect.difference for column in found.columns]
    each = zip(found.columns, largest, strict=True)
    rows = [(one.name, most, one.adjusted_pvalue, one.change) for one, most in each]
    screen.table(header, rows)


def two(labels: tuple[str, ...]) -> tuple[str, str]:
    """The labels of two samples, for the type checker."""
    first, second = labels
    return first, second
