"""`kembed graph`: which columns of a file cause which, as far as tests can tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kembed.cli import outputs
from kembed.cli.options import GraphFile, OneFile, Reading, Searching, arrow, command, kernel_of, split
from kembed.cli.screen import Screen
from kembed.cli.words import UsageError
from kembed.core.text import counted, listing, plain
from kembed.core.writing import write_text

if TYPE_CHECKING:
    from kembed.graphs.background import Background
    from kembed.graphs.graph import CausalGraph

FILES = (*outputs.FIGURES, ".json")  # by suffix: drawn, or for machines
KERNELS = ("fused", "bkl", "paper", "median")  # residuals have one unit, so that there is no raw rule
# Pairs that the graph lacks are reported if they are in so many resamples, or orders if there are none.
OFTEN = 0.25
# What the marks of edges mean, for those who see them for the first time.
MEANINGS = {
    "-->": "a --> b: the tests suggest that a causes b, and not the other way round.",
    "---": "a --- b: connected directly; the tests do not say which causes which.",
    "<->": "a <-> b: there are reasons for both directions; trust neither.",
}


@command()
def run_graph(
    screen: Screen, file: OneFile, *, reading: Reading, searching: Searching, output: GraphFile = None
) -> None:
    """Which columns of a file cause which? A causal graph from conditional tests."""
    kernel = kernel_of(searching.kernel, KERNELS)
    outputs.check_target(output, FILES, (file,))
    if searching.cache is not None:
        outputs.folder(searching.cache, "--cache")
    from kembed.cli import samples
    from kembed.conditional.tester import MINIMUM

    loaded, times = samples.load_variables(file, reading, screen, searching.time, minimum=MINIMUM)
    (source,), width = loaded.sources, len(loaded.columns)
    if width < 2:
        seen = f"a graph needs two columns that vary, but {loaded.labels[0]} has {listing(loaded.columns)}"
        raise UsageError(f"{seen}; name columns with --columns to use what was left out")
    if searching.test != "residuals" and any(source.schema.missing_of):
        seen = f"{loaded.labels[0]} has missing values in {listing(filter(None, source.schema.missing_of))}"
        raise UsageError(f"{seen}, and partial correlation has no place for them; use --missing omit")
    background = _background(searching, loaded.columns, loaded.labels[0])
    with screen.waiting(f"testing {width} columns of {source.size:,} rows") as bar:
        graph, prewhitened = _searched(source, times, kernel, background, searching, bar)
    residuals = searching.test == "residuals"
    sizes = (source.size,)
    sentence = loaded.with_left_out(_sentence(graph), sizes)
    screen.remark(graph.notes)
    payload = {
        "verdict": sentence,
        **loaded.described(sizes),
        **graph.to_dict(),
        "prewhitened": [vars(one) for one in prewhitened],
        "test": searching.test,
        "kernel": searching.kernel if residuals else None,
        "resamples": searching.resamples if residuals else None,
        "orientation": searching.orientation,
        "background": repr(background),
        "seed": searching.seed,
        "output": output,
    }
    if output is not None and output.suffix.lower() in outputs.FIGURES:
        outputs.save_plot(graph, output)
    elif output is not None:
        write_text(output, screen.as_json(payload) + "\n")
    screen.say(sentence)
    _print_graph(screen, graph)
    trends = [(one.name, one.lengthscale or "none", one.before, one.after) for one in prewhitened]
    correlations = {"neighbours correlate": ".2f", "after": ".2f"}
    screen.table({f"trend over {searching.time}": "", "timescale": ".3g", **correlations}, trends)
    known = repr(background).removeprefix("Background(").removesuffix(")")
    orders = f"{counted(graph.n_orders, 'order')} of the columns"
    resamples = f", {counted(graph.n_bootstrap, 'resample')} of the rows" if graph.n_bootstrap else ""
    level = f"at the {100 * graph.alpha:g}% level"
    facts = [*loaded.facts(sizes), ("tests", f"{graph.n_tests:,} {level}, {_how(searching)}")]
    facts += [("known before", known)] if background.names else []
    facts += [("runs", orders + resamples)] if graph.n_runs > 1 else []
    screen.facts(facts)
    screen.finish(payload)


def _searched(
    source: Any, times: Any, kernel: Any, background: Background, how: Searching, progress: bool
) -> tuple[CausalGraph, tuple[Any, ...]]:
    """The graph, and what pre-whitening did."""
    from kembed.cli.samples import variables_of
    from kembed.conditional.prewhitening import WEEK
    from kembed.conditional.tester import ConditionalTester, WholeTables
    from kembed.graphs.pc import pc
    from kembed.tables.frames import Labelled

    options: Any = {"alpha": how.alpha, "max_given": how.max_given, "orientation": how.orientation}
    options |= {"n_orders": how.orders, "n_bootstrap": how.bootstrap, "rng": how.seed}
    options |= {"background": background, "progress": progress}
    if how.test != "residuals":
        return pc(source, test=how.test, **options), ()
    tester = ConditionalTester(
        WholeTables(variables_of(source)),
        kernel=kernel,
        n_resamples=how.resamples,
        prewhiten=None if times is None else Labelled(times, f"--time {how.time!r}"),
        least_timescale=WEEK if how.least_timescale is None else how.least_timescale,
        cache=how.cache,
        rng=how.seed,
    )
    return pc(None, test=tester, n_jobs=how.workers or -1, **options), tester.prewhitened


def _background(searching: Searching, columns: list[str], name: str) -> Background:
    """What the options say about causes, all of it about columns of the file."""
    from kembed.graphs.background import Background
    from kembed.tables.files import checked

    forbidden = [arrow(text, "--forbid") for text in searching.forbid or ()]
    required = [arrow(text, "--require") for text in searching.require or ()]
    tiers = [split(text) or [] for text in searching.tier or ()]
    named = [column for group in (*forbidden, *required, *tiers) for column in group]
    checked(named, columns, f"the graph of {name}")
    return Background(forbidden=tuple(forbidden), required=tuple(required), tiers=tuple(map(tuple, tiers)))


def _sentence(graph: CausalGraph) -> str:
    p = len(graph.names)
    level = f"at the {100 * graph.alpha:g}% level"
    if not graph.edges:
        return f"No two of {p} columns are connected {level}. This does not prove independence."
    marks = [edge.mark for edge in graph.edges]
    kinds = {
        "-->": "with a direction",
        "---": "without one" if "-->" in marks else "without a direction",
        "<->": "with conflicting ones" if "-->" in marks else "with conflicting directions",
    }
    counts = ", ".join(f"{marks.count(mark)} {kind}" for mark, kind in kinds.items() if mark in marks)
    verb = "is" if len(marks) == 1 else "are"
    return f"{len(marks)} of {p * (p - 1) // 2} pairs of columns {verb} connected directly {level}: {counts}."


def _print_graph(screen: Screen, graph: CausalGraph) -> None:
    varied = graph.varied
    numbers = dict.fromkeys(("largest p", *varied.values()), ">")
    edges = []
    for edge in sorted(graph.edges, key=lambda edge: -edge.frequency):
        p = "known" if edge.pvalue != edge.pvalue else plain(edge.pvalue, 2)
        edges.append((str(edge), p, *(_shares(graph, edge.a, edge.b, kind, edge.mark) for kind in varied)))
    screen.table({"edge": "", **numbers}, edges)
    pairs = []
    for row in graph.table():
        if not row["mark"] and row["frequency"] >= OFTEN:
            a, b, p = row["a"], row["b"], plain(row["pvalue"], 2)
            pairs.append((f"{a}, {b}", p, *(_shares(graph, a, b, kind) for kind in varied)))
    screen.table({f"not connected, but in many {graph.counted}": "", **numbers}, pairs)
    if graph.conflicts:
        screen.more(*(f"conflict: {conflict.why}" for conflict in graph.conflicts))
    if graph.edges:
        marks = {edge.mark for edge in graph.edges}
        meanings = [meaning for mark, meaning in MEANINGS.items() if mark in marks]
        if varied:
            meanings.insert(
                0, f"{', '.join(varied.values())}: share of runs with the edge, and with its mark."
            )
        meanings.append("All this if nothing unmeasured causes two of the columns and the tests are right.")
        screen.more(*meanings, style="dim")


def _shares(graph: CausalGraph, a: str, b: str, kind: str, *marks: str) -> str:
    """How often a pair is connected over orders or resamples, and how often with a mark."""
    return ", ".join(f"{graph.frequency(a, b, mark, over=kind):.0%}" for mark in (None, *marks))


def _how(searching: Searching) -> str:
    if searching.test == "fisher-z":
        return "partial correlation"
    kernel = {
        "bkl": "learned kernels",
        "paper": "the published objective",
        "median": "the median rule",
        "fused": "several kernels",
    }
    chosen = kernel.get(searching.kernel, f"lengthscale {searching.kernel}")
    return f"{chosen}, {searching.resamples:,} resamples"
