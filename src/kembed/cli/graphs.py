"""`kembed graph`: which columns of a file cause which, as far as tests can tell."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from kembed.cli import outputs, words
from kembed.cli.inputs import load_variables
from kembed.cli.options import Printing, Reading, Searching, arrow, kernel_of, split
from kembed.cli.screen import Screen
from kembed.core.text import plain
from kembed.core.writing import write_whole
from kembed.data import files

if TYPE_CHECKING:
    from kembed.graphs.background import Background
    from kembed.graphs.graph import CausalGraph, Edge

FILES = (*outputs.FIGURES, ".dot", ".json")
KERNELS = ("bkl", "median", "fused")
# Pairs that the graph lacks are told if they are in so many resamples, or orders if there are none.
OFTEN = 0.25
MEANINGS = {
    "-->": "a --> b: a is a direct cause of b.",
    "---": "a --- b: one is a direct cause of the other; the tests do not say which.",
    "<->": "a <-> b: there are reasons for both directions; trust neither.",
}


def run_graph(
    arguments: list[str],
    file: str,
    *,
    output: Path | None,
    reading: Reading,
    searching: Searching,
    printing: Printing,
) -> None:
    """Search for the graph, print it, and write it where asked."""
    screen = Screen(json=printing.json, quiet=printing.quiet)
    name = files.label(file)
    kernel = kernel_of(searching.kernel, KERNELS)
    target = None if output is None else outputs.target(output, FILES, (file,))
    if searching.cache is not None:
        outputs.folder(searching.cache, "--cache")
    frame, times, left_out = load_variables(file, searching.time, reading, screen)
    background = _background(searching, frame.columns, name)
    what = f"testing {frame.width} columns of {frame.height:,} rows"
    with screen.waiting(what) as bar, words.calling(data=name, **_called(searching)):
        graph, prewhitened = _searched(frame, times, kernel, background, searching, bar)
    sentence = _sentence(graph)
    payload = {
        "command": "graph",
        "verdict": sentence,
        "file": name,
        "rows": frame.height,
        "columns": frame.columns,
        "left_out": left_out,
        **_described(graph),
        "prewhitened": [vars(one) for one in prewhitened],
        "test": searching.test,
        "kernel": searching.kernel if searching.test == "residuals" else None,
        "orientation": searching.orientation,
        "background": repr(background),
        "seed": searching.seed,
        "output": None if target is None else str(target),
    }
    if target is not None:
        _write(graph, target, screen.as_json(payload) + "\n")
    screen.say(sentence)
    _print_graph(screen, graph)
    _print_whitening(screen, prewhitened, searching)
    screen.facts(
        [
            (words.short(name, (name,)), f"{frame.height:,} rows"),
            ("columns", words.of_columns(frame.columns)),
            ("tests", f"{graph.n_tests:,} at the {100 * graph.alpha:g}% level, {_how(searching)}"),
            *([("known before", _knowledge(background))] if background.names else []),
            *([("runs", _runs(graph))] if graph.n_runs > 1 else []),
        ]
    )
    if target is not None:
        screen.wrote([target])
    screen.repeat(arguments, searching.seed)
    screen.finish(payload)


# The search.


def _searched(
    frame: Any, times: Any, kernel: Any, background: Background, how: Searching, progress: bool
) -> tuple[CausalGraph, tuple[Any, ...]]:
    """The graph, and what pre-whitening did."""
    from kembed.conditional.prewhitening import WEEK
    from kembed.conditional.tester import ConditionalTester
    from kembed.graphs.pc import pc

    options: dict[str, Any] = {
        "alpha": how.alpha,
        "max_given": how.max_given,
        "orientation": how.orientation,
        "background": background,
        "n_orders": how.orders,
        "n_bootstrap": how.bootstrap,
        "rng": how.seed,
        "progress": progress,
    }
    if how.test != "residuals":
        return pc(frame, test=how.test, **options), ()
    with ConditionalTester(
        frame,
        kernel=kernel,
        n_resamples=how.resamples,
        prewhiten=times,
        least_timescale=WEEK if how.least_timescale is None else how.least_timescale,
        cache=how.cache,
        rng=how.seed,
    ) as tester:
        return pc(None, test=tester, n_jobs=how.workers or -1, **options), tester.prewhitened


def _background(searching: Searching, columns: list[str], name: str) -> Background:
    """What the options say about causes, all of it about columns of the file."""
    from kembed.graphs.background import Background

    forbidden = [arrow(text, "--forbid") for text in searching.forbid or ()]
    required = [arrow(text, "--require") for text in searching.require or ()]
    tiers = [split(text) or [] for text in searching.tier or ()]
    named = [column for group in (*forbidden, *required, *tiers) for column in group]
    files.checked(named, columns, f"the graph of {name}")
    return Background(
        forbidden=tuple(forbidden), required=tuple(required), tiers=tuple(tuple(tier) for tier in tiers)
    )


def _called(searching: Searching) -> dict[str, str]:
    """What the library's arguments are called here."""
    names = {"cache": "--cache", "least_timescale": "--least-timescale", "prewhiten": "--time"}
    if searching.time is not None:
        names["prewhiten"] = f"--time {searching.time!r}"
    return names


# The answer.


def _sentence(graph: CausalGraph) -> str:
    p = len(graph.names)
    level = f"at the {100 * graph.alpha:g}% level"
    if not graph.edges:
        return f"No two of {p} columns are connected {level}. That is not a proof of independence."
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
    if graph.edges:
        screen.table(
            ("edge", "largest p", *varied.values()),
            [
                (
                    words.printable(str(edge)),
                    "known" if edge.pvalue != edge.pvalue else plain(edge.pvalue, 2),
                    *(_both(graph, edge, kind) for kind in varied),
                )
                for edge in sorted(graph.edges, key=lambda edge: -edge.frequency)
            ],
        )
    often = [row for row in graph.table() if not row["mark"] and row["frequency"] >= OFTEN]
    if often:
        screen.table(
            (f"not connected, but in many {graph.counted}", "largest p", *varied.values()),
            [
                (
                    words.printable(f"{row['a']}, {row['b']}"),
                    plain(row["pvalue"], 2),
                    *(f"{graph.frequency(row['a'], row['b'], over=kind):.0%}" for kind in varied),
                )
                for row in often
            ],
        )
    if screen.quiet or screen.json:
        return
    if graph.conflicts:
        screen.out.print()
    for conflict in graph.conflicts:
        screen.say(words.printable(f"conflict: {conflict.why}"), "")
    if graph.edges:
        screen.out.print()
        if varied:
            screen.say(
                f"{', '.join(varied.values())}: share of runs with the edge, and with its mark.", "dim"
            )
        for mark, meaning in MEANINGS.items():
            if any(edge.mark == mark for edge in graph.edges):
                screen.say(meaning, "dim")
        screen.say("All this if nothing unmeasured causes two of the columns and the tests are right.", "dim")


def _both(graph: CausalGraph, edge: Edge, kind: str) -> str:
    """How often an edge is there over orders or resamples, and how often with its mark."""
    there, so = (graph.frequency(edge.a, edge.b, mark, over=kind) for mark in (None, edge.mark))
    return f"{there:.0%}, {so:.0%}"


def _print_whitening(screen: Screen, prewhitened: tuple[Any, ...], searching: Searching) -> None:
    if not prewhitened:
        return
    screen.table(
        (f"trend over {words.printable(str(searching.time))}", "timescale", "neighbours correlate", "after"),
        [
            (
                words.printable(one.name),
                "none" if one.lengthscale is None else f"{one.lengthscale:.3g}",
                f"{one.before:.2f}",
                f"{one.after:.2f}",
            )
            for one in prewhitened
        ],
    )


def _how(searching: Searching) -> str:
    if searching.test == "fisher-z":
        return "partial correlation"
    kernel = {"bkl": "learned kernels", "median": "the median rule", "fused": "several kernels"}
    chosen = kernel.get(searching.kernel, f"lengthscale {searching.kernel}")
    return f"{chosen}, {searching.resamples:,} resamples"


def _knowledge(background: Background) -> str:
    return words.printable(repr(background).removeprefix("Background(").removesuffix(")"))


def _runs(graph: CausalGraph) -> str:
    orders = f"{graph.n_orders} order{'' if graph.n_orders == 1 else 's'} of the columns"
    rows = f"{graph.n_bootstrap} resample{'' if graph.n_bootstrap == 1 else 's'} of the rows"
    return f"{orders}, {rows}" if graph.n_bootstrap else orders


def _described(graph: CausalGraph) -> dict[str, Any]:
    """The graph for machines."""
    return {
        "alpha": graph.alpha,
        "edges": [vars(edge) for edge in graph.edges],
        "pairs": graph.table(),
        "separating_sets": [
            {"pair": sorted(pair), "given": given, "pvalue": graph.pvalues[pair]}
            for pair, given in graph.separating_sets.items()
        ],
        "conflicts": [conflict._asdict() for conflict in graph.conflicts],
        "ambiguous": graph.ambiguous,
        "tests": graph.n_tests,
        "orders": graph.n_orders,
        "bootstrap": graph.n_bootstrap,
    }


def _write(graph: CausalGraph, target: Path, text: str) -> None:
    suffix = target.suffix.lower()
    if suffix in outputs.FIGURES:
        outputs.save_plot(graph, target)
    else:
        content = graph.to_dot() if suffix == ".dot" else text
        write_whole(target, lambda draft: draft.write_text(content, encoding="utf-8"))
