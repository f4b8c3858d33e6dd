"""Before and after a decision: power, balance and effects of a treatment, where a relation changed."""

from typing import Any

import numpy as np

from kembed.comparing.sample_size import PowerCurve
from kembed.comparing.shift import Shift
from kembed.comparing.treatment import BALANCED, Balance, QuantileEffects
from kembed.core.text import listing
from kembed.plotting import style
from kembed.plotting.style import BLUE, GREY, VERMILION, finished, literal, percent

TOP = 30  # rows that fit one under the other


def plot_balance(balance: Balance, ax: Any = None, *, top: int = TOP) -> Any:
    """Draw a Love plot: absolute standardised mean differences, the largest on top."""
    rows = balance.columns[:top]
    ax = style.axes_or_new(ax, (5.4, 1.4 + 0.26 * max(len(rows), 3)))
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
    ax = style.axes_or_new(ax)
    x = effects.probabilities
    ends = np.concatenate([effects.lower, effects.upper, effects.effect])
    room = ends[np.isfinite(ends)]
    span = float(np.ptp(room)) or 1.0
    low, high = float(room.min()) - 0.1 * span, float(room.max()) + 0.1 * span
    band = (np.clip(end, low, high) for end in (effects.lower, effects.upper))
    ax.fill_between(x, *band, color=BLUE, alpha=0.2, linewidth=0.0, label=f"{percent(effects.level)} band")
    ax.plot(x, effects.effect, "o-", color=BLUE, markersize=3.0, label="effect")
    ax.axhline(0.0, color=GREY, linestyle=":", linewidth=1.0)
    name = literal(effects.name, style.LABEL_WIDTH)
    ax.set(xlabel="rank in the control group", ylabel=f"{name}: treated less control", ylim=(low, high))
    return finished(ax)


def plot_shift(shift: Shift, ax: Any = None, *, column: str | None = None) -> Any:
    """Draw the difference of the target at equal inputs along an input, with its simultaneous band.

    `column` is the input; by default the one along which the difference varies most.
    """
    if not shift.profiles:
        why = shift.relation.refusal or "no input has groups of enough rows of both samples"
        raise ValueError(f"there is nothing to draw: {why}")
    names = [profile.column for profile in shift.profiles]
    if column is not None and column not in names:
        seen = f"column must be an input, {listing(dict.fromkeys(names))}"
        raise ValueError(f"{seen}, but {column!r} was given")
    profile = shift.profiles[0 if column is None else names.index(column)]
    ax = style.axes_or_new(ax)
    groups, unit = profile.groups, 1.0 if profile.level is None else 100.0
    boxes = [group.box if group.numeric and group.box else (k, k) for k, group in enumerate(groups)]
    for group, (first, last) in zip(groups, boxes, strict=True):
        colour = VERMILION if group.sure else GREY
        low, high = (unit * end for end in group.interval)
        if first == last:
            ax.vlines(first, low, high, color=colour, alpha=0.35, linewidth=6.0)
            ax.plot([first], [unit * group.value], "o", color=colour, markersize=4.0)
        else:
            ax.fill_between((first, last), low, high, color=colour, alpha=0.25, linewidth=0.0)
            ax.plot((first, last), [unit * group.value] * 2, color=colour, linewidth=2.0)
    ax.axhline(0.0, color=GREY, linewidth=0.8, linestyle=":")
    if not groups[0].numeric:
        ax.set_xticks(range(len(groups)), [literal(group.box[0]) for group in groups if group.box])
    elif all(first == last for first, last in boxes) and not groups[0].unit:
        ax.set_xticks([first for first, _ in boxes])
    else:
        style.count_in(ax.xaxis, groups[0].unit)
    target = literal(shift.target, style.AXIS_WIDTH)
    what = target if profile.level is None else f"{target} = {literal(profile.level)} (percentage points)"
    first_name, second_name = (literal(label, style.LABEL_WIDTH) for label in shift.labels)
    ylabel = f"{what}\n{second_name} less {first_name}"
    ax.set(xlabel=literal(profile.column, style.AXIS_WIDTH), ylabel=ylabel)
    return finished(ax)


def plot_power(curve: PowerCurve, ax: Any = None) -> Any:
    """The power at every number of rows with standard errors, and the rows that are needed."""
    ax = style.axes_or_new(ax, (5.2, 3.4))
    rows, power, errors = map(np.array, (curve.rows, curve.power, curve.standard_errors))
    drawn = np.array(curve.drawn)
    ax.set_xscale("log")
    ax.plot(rows, power, color=BLUE, linewidth=1.2)
    ax.errorbar(rows[drawn], power[drawn], errors[drawn], fmt="o", color=BLUE, label="drawn")
    if not drawn.all():
        others = rows[~drawn], power[~drawn], errors[~drawn]
        ax.errorbar(*others, fmt="o", color=BLUE, markerfacecolor="white", label="extrapolated")
    ax.axhline(curve.target, color=GREY, linestyle="--", label=f"power {curve.target:g}")
    ax.axvspan(*curve.interval, color=VERMILION, alpha=0.12, linewidth=0.0, label="rows needed, 90% interval")
    ax.set_ylim(0.0, 1.02)
    ax.set_xlabel("rows per sample")
    ax.set_ylabel("power")
    return finished(ax, columns=2)
