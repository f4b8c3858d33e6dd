"""Two groups of an experiment: balance before and after weighting, and quantile effects with their band."""

from typing import Any

import numpy as np

from kembed.comparing.treatment import BALANCED, Balance, QuantileEffects
from kembed.plotting.style import BLUE, GREY, LABEL_WIDTH, VERMILION, axes_or_new, finished, literal, percent

TOP = 30  # rows that fit one under the other


def plot_balance(balance: Balance, ax: Any = None, *, top: int = TOP) -> Any:
    """Draw a Love plot: absolute standardised mean differences, the largest on top."""
    rows = balance.columns[:top]
    ax = axes_or_new(ax, (5.4, 1.4 + 0.26 * max(len(rows), 3)))
    places = np.arange(len(rows))
    before = [abs(one.smd) for one in rows]
    if balance.weighted:
        after = [abs(one.weighted_smd or 0.0) for one in rows]
        ax.hlines(places, before, after, color=GREY, linewidth=0.8)
        ax.plot(after, places, "o", color=BLUE, label="weighted")
    label = "unweighted" if balance.weighted else "difference"
    ax.plot(before, places, "o", color=VERMILION, markerfacecolor="none", label=label)
    ax.axvline(BALANCED, color=GREY, linestyle=":", linewidth=1.0)
    ax.set_yticks(places, [literal(one.name) for one in rows])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    rest = len(balance.columns) - len(rows)
    more = f"\n({rest} more not shown)" if rest else ""
    ax.set_xlabel(f"absolute standardised mean difference{more}")
    ax.set_xlim(left=0.0)
    ax.tick_params(axis="y", length=0)
    return finished(ax)


def plot_quantile_effects(effects: QuantileEffects, ax: Any = None) -> Any:
    """Draw the effect on every quantile, with its simultaneous band."""
    ax = axes_or_new(ax)
    x = effects.probabilities
    ends = np.concatenate([effects.lower, effects.upper, effects.effect])
    room = ends[np.isfinite(ends)]
    span = float(np.ptp(room)) or 1.0
    low, high = float(room.min()) - 0.1 * span, float(room.max()) + 0.1 * span
    band = (np.clip(end, low, high) for end in (effects.lower, effects.upper))
    ax.fill_between(x, *band, color=BLUE, alpha=0.2, linewidth=0.0, label=f"{percent(effects.level)} band")
    ax.plot(x, effects.effect, "o-", color=BLUE, markersize=3.0, label="effect")
    ax.axhline(0.0, color=GREY, linestyle=":", linewidth=1.0)
    name = literal(effects.name, LABEL_WIDTH)
    ax.set(xlabel="rank in the control group", ylabel=f"{name}: treated less control", ylim=(low, high))
    return finished(ax)
