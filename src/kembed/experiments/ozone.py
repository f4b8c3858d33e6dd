"""Ozone (Figure 4): causes of ozone by PC, with kernels learned or by the median rule.

The paper draws one graph. Here, beside the graphs under both rules: how often temperature causes ozone over
orders of the variables and resamples of the rows, over a sweep of lengthscales, with trends left in, and with
what is known beforehand. All settings were fixed before the study first ran.
"""

import json
from typing import Any

import numpy as np

from kembed.core.text import plain
from kembed.core.writing import jsonable
from kembed.experiments import ozone_study
from kembed.experiments.output import BLACK, BLUE, GREEN, ORANGE, SKY, VERMILION, legend, mosaic
from kembed.experiments.ozone_study import (
    ALPHA,
    CAUSE,
    EFFECT,
    KERNELS,
    MARKS,
    SEED,
    Plan,
    Study,
    mark,
    shares,
)
from kembed.graphs.graph import CausalGraph

GREY, PALE = "#767676", "#E8E8E8"
NAMES = {"median": "median rule", "bkl": "learned kernel"}
WORDS = {
    "-->": f"{CAUSE} → {EFFECT}",
    "<--": f"{EFFECT} → {CAUSE}",
    "---": "either way",
    "<->": "conflicting",
    "": "no edge",
}
COLOURS = {"-->": BLUE, "<--": ORANGE, "---": GREY, "<->": VERMILION, "": PALE}


run = ozone_study.measure


def plot(study: Study) -> Any:
    """The graphs under both rules, and how often the edge has which direction."""
    figure, panels = mosaic(["ABC"], width=4.6, height=4.2)
    for letter, kernel in zip("AB", KERNELS, strict=True):
        study.main[kernel].plot(ax=panels[letter], beside=study.main.values())
        panels[letter].set_title(f"{letter}. PC, {NAMES[kernel]}")
    _one_legend(figure, [panels[letter] for letter in "AB"])
    _plot_shares(panels["C"], study)
    return figure


def _one_legend(figure: Any, panels: list[Any]) -> None:
    """The legends of several graphs as one, below them."""
    handles: dict[Any, Any] = {}
    for axes in panels:
        drawn = axes.get_legend()
        if drawn is not None:
            handles |= {line.get_label(): line for line in drawn.legend_handles}
            drawn.remove()
    legend(figure, handles=list(handles.values()), loc="outside lower left", ncols=3)


def _plot_shares(axes: Any, study: Study) -> None:
    bars = frequencies(study)
    for place, found in enumerate(reversed(bars.values())):
        left = 0.0
        for one in MARKS:
            axes.barh(place, found[one], 0.7, left, color=COLOURS[one], edgecolor="white")
            if found[one] > 0.08:
                colour = BLACK if one in ("", "<--") else "white"
                text = axes.text(left + found[one] / 2, place, f"{found[one]:.0%}", color=colour)
                text.set(ha="center", va="center", fontsize="small")
            left += found[one]
    names = [name.replace(", ", ",\n") for name in reversed(bars)]
    axes.set_yticks(range(len(bars)), names, fontsize="small")
    axes.set(xlim=(0.0, 1.0), xticks=[], title=f"C. {CAUSE} and {EFFECT}: share of runs")
    axes.spines[:].set_visible(False)
    from matplotlib.patches import Patch

    handles = [Patch(facecolor=COLOURS[one], label=WORDS[one]) for one in MARKS]
    legend(axes, handles=handles, ncols=3, loc="upper center", bbox_to_anchor=(0.4, 0.0))


def plot_sweep(study: Study) -> Any:
    """One lengthscale for all residuals: the edge, its p-values; and what taking trends out does."""
    figure, panels = mosaic(["ABC"], width=4.4, height=3.6)
    edges, pvalues, trends = panels.values()
    scales = list(study.sweep)
    counts = [len(graph.edges) for graph in study.sweep.values()]
    edges.semilogx(scales, counts, color=BLACK, linewidth=0.8)
    for one in MARKS:
        here = [k for k, graph in enumerate(study.sweep.values()) if mark(graph) == one]
        if here:
            x, y = ([values[k] for k in here] for values in (scales, counts))
            edges.plot(x, y, "o", color=COLOURS[one], markeredgecolor=BLACK, markersize=9, label=WORDS[one])
    edges.set(ylabel="edges of the graph", ylim=(0, 1.35 * max(1, *counts)))
    edges.set_title(f"A. Edges; colour: {CAUSE} and {EFFECT}")
    largest = [_largest(graph) for graph in study.sweep.values()]
    pvalues.loglog(scales, largest, "o-", color=BLUE, label="largest of all sets tried")
    marginal = [study.marginal[f"{scale:g}"] for scale in scales]
    pvalues.loglog(scales, marginal, "s--", color=GREEN, label="nothing given")
    pvalues.axhline(ALPHA, color=BLACK, linewidth=0.8, linestyle=":", label=f"level {ALPHA}")
    pvalues.set(title=f"B. p-values of {CAUSE} and {EFFECT}", ylabel="p")
    for axes in (edges, pvalues):
        for kernel, colour in (("median", VERMILION), ("bkl", SKY)):
            centre = float(np.exp(np.mean(np.log(study.scales[kernel]))))
            axes.axvline(centre, color=colour, linewidth=1.0, label=f"{NAMES[kernel]}, nothing given")
        axes.set_xlabel("lengthscale / standard deviation")
        axes.set_xticks(scales, [f"{scale:.2g}" for scale in scales])
        axes.minorticks_off()
        axes.legend(framealpha=1.0, edgecolor="none", fontsize="x-small", ncols=2, loc="upper left")
    pvalues.set(ylim=(6e-4, 30.0), yticks=[1e-3, 1e-2, 1e-1, 1.0])  # above 1: room for the legend
    pvalues.minorticks_off()
    _plot_trends(trends, study)
    return figure


def _plot_trends(axes: Any, study: Study) -> None:
    names = [one.name for one in study.trends[0].columns]
    places = np.arange(len(names))[::-1]
    axes.plot([one.before for one in study.trends[0].columns], places, "o", color=BLACK, label="before")
    for trends, shape, colour in zip(study.trends, "s^", (BLUE, ORANGE), strict=True):
        after = [one.after for one in trends.columns]
        axes.plot(after, places, shape, color=colour, label=f"trends ≥ {trends.least:g} days out")
    axes.axvline(0.0, color=BLACK, linewidth=0.5)
    axes.set_yticks(places, names, fontsize="small")
    axes.set(title="C. Correlation of one day and the next", ylim=(-0.6, len(names) + 1.4))
    close = {"columnspacing": 0.8, "handletextpad": 0.1}
    legend(axes, fontsize="x-small", ncols=3, loc="upper center", **close)


def report(study: Study) -> list[str]:
    """What was measured, in words."""
    names = study.known.names
    sentences = [
        f"Ozone: {study.rows} days, {len(names)} variables, level {ALPHA}, seed {SEED};",
        "  all settings were fixed before the study first looked at the edge.",
        f"The paper: {CAUSE} --> {EFFECT} with learned kernels, and no such edge by the median rule.",
    ]
    for title, graphs in (
        (f"Trends over {study.trends[0].least:g} days or more taken out", study.main),
        ("Trends left in", study.raw),
    ):
        sentences.append(f"{title}:")
        sentences += [f"  {NAMES[kernel]}: {_edge(graphs[kernel])}" for kernel in KERNELS]
    sentences.append(
        "The paper's own rule, the published objective with τ² = 1, trends taken out (added later):"
    )
    for m, graph in study.published.items():
        scales = " and ".join(f"{one:.2f}" for one in study.scales[f"published, {m} landmarks"])
        sentences.append(f"  {m} landmarks, lengthscales {scales}: {_edge(graph)}")
    sentences.append(f"{CAUSE} and {EFFECT} over runs, trends taken out:")
    for name, found in frequencies(study).items():
        words = ", ".join(f"{WORDS[one]} {share:.0%}" for one, share in found.items() if share > 0.0)
        sentences.append(f"  {name}: {words}")
    sentences.append("One lengthscale for all residuals, in standard deviations:")
    sentences += [f"  {scale:.2f}: {_edge(graph)}" for scale, graph in study.sweep.items()]
    chosen = {kernel: " and ".join(f"{one:.2f}" for one in study.scales[kernel]) for kernel in KERNELS}
    scales = "; ".join(f"{NAMES[kernel]} {found}" for kernel, found in chosen.items())
    left = [f"{one.correlation:.2f} without trends over {one.least:g} days or more" for one in study.trends]
    sentences += [
        f"  (For {CAUSE} and {EFFECT} with nothing given: {scales}.)",
        f"Known beforehand that {EFFECT} causes nothing, {NAMES['bkl']}: {_edge(study.known)}",
        f"Correlation of {CAUSE} and {EFFECT}: {study.correlation:.2f}; {'; '.join(left)}.",
        "Timescale of the trend, and the correlation of one day and the next before and after:",
    ]
    for trends in study.trends:
        sentences.append(f"  trends over {trends.least:g} days or more:")
        sentences += [f"    {one!r}" for one in trends.columns]
    return [*sentences, *verdict(study)]


def frequencies(study: Study) -> dict[str, dict[str, float]]:
    """The shares of the marks by what was varied and by kernel."""
    found = {}
    for kernel, graph in study.textbook.items():
        found[f"{graph.n_orders} orders of the variables, {NAMES[kernel]}"] = shares(graph, graph.over_orders)
    for kernel, graph in study.main.items():
        title = f"{graph.n_bootstrap} resamples of the rows, {NAMES[kernel]}"
        found[title] = shares(graph, graph.over_bootstrap)
    return {name: one for name, one in found.items() if one}


def _largest(graph: CausalGraph) -> float:
    return graph.pvalues.get(frozenset((CAUSE, EFFECT)), float("nan"))


def _edge(graph: CausalGraph) -> str:
    given = graph.separating_sets.get(frozenset((CAUSE, EFFECT)))
    apart = "" if given is None else f" given {', '.join(given) or 'nothing'}"
    marks = [edge.mark for edge in graph.edges]
    found = f"{WORDS[mark(graph)]} (largest p {plain(_largest(graph), 2)}{apart})"
    edges = f"{len(marks)} edges, {marks.count('-->')} directed, {marks.count('<->')} conflicting"
    return f"{found}; {edges}; {graph.n_tests} tests"


def verdict(study: Study) -> list[str]:
    """What of the paper's statement holds."""
    learned, median = mark(study.main["bkl"]), mark(study.main["median"])
    often = {kernel: shares(graph, graph.over_bootstrap) for kernel, graph in study.main.items()}
    directed = "holds" if learned == "-->" else "does not hold"
    absent = "holds" if median == "" else "does not hold"
    sentences = [
        f"The paper's directed edge with learned kernels {directed} in this graph: {WORDS[learned]}.",
        f"Its absence by the median rule {absent} in this graph: {WORDS[median]}.",
    ]
    if all(often.values()):
        n = study.main["bkl"].n_bootstrap
        both = (often["bkl"]["-->"], 1.0 - often["bkl"][""], often["median"][""])
        found = f"{WORDS['-->']} in {both[0]:.0%} with learned kernels, adjacent in {both[1]:.0%}"
        sentences.append(f"Over {n} resamples: {found}; no edge in {both[2]:.0%} by the median rule.")
    hits = sum(mark(graph) == "-->" for graph in study.sweep.values())
    none = sum(mark(graph) == "" for graph in study.sweep.values())
    sentences.append(f"Of {len(study.sweep)} lengthscales {hits} give {WORDS['-->']}, and {none} no edge.")
    return sentences


def numbers(study: Study) -> str:
    """All numbers, as JSON."""

    def graph(one: CausalGraph) -> dict[str, Any]:
        return {
            "edge": mark(one),
            "largest_pvalue": _largest(one),
            "edges": [f"{edge}" for edge in one.edges],
            "pairs": one.table(),
            "conflicts": [conflict.why for conflict in one.conflicts],
            "separating_sets": {" ".join(sorted(pair)): given for pair, given in one.separating_sets.items()},
            "over_orders": shares(one, one.over_orders),
            "over_resamples": shares(one, one.over_bootstrap),
            "tests": one.n_tests,
            "orders": one.n_orders,
            "resamples": one.n_bootstrap,
        }

    whole = {
        "cause": CAUSE,
        "effect": EFFECT,
        "rows": study.rows,
        "alpha": ALPHA,
        "seed": SEED,
        "main": {kernel: graph(one) for kernel, one in study.main.items()},
        "trends_left_in": {kernel: graph(one) for kernel, one in study.raw.items()},
        "textbook": {kernel: graph(one) for kernel, one in study.textbook.items()},
        "sweep": {f"{scale:g}": graph(one) for scale, one in study.sweep.items()},
        "published_objective": {str(m): graph(one) for m, one in study.published.items()},
        "known_beforehand": graph(study.known),
        "pvalues_nothing_given": study.marginal,
        "lengthscales_nothing_given": study.scales,
        "correlation": study.correlation,
        "trends": [
            {"least_days": one.least, "correlation": one.correlation, "columns": list(map(vars, one.columns))}
            for one in study.trends
        ],
    }
    return json.dumps(jsonable(whole), indent=1) + "\n"


QUICK = {"plan": Plan(orders=3, resamples=3, lengthscales=(0.1, 0.6, 2.5), signs=199)}
FIGURES = {"ozone": plot, "ozone_sweep": plot_sweep}
TEXTS = {"ozone.json": numbers}

if __name__ == "__main__":
    from kembed.experiments import main

    main("ozone", __doc__)
