"""Where the relation of a target to its inputs changed: its difference at equal inputs along one of them."""

from typing import Any

from kembed.comparing.shift import Shift
from kembed.core.text import listing
from kembed.plotting.style import (
    AXIS_WIDTH,
    GREY,
    LABEL_WIDTH,
    VERMILION,
    axes_or_new,
    count_in,
    finished,
    literal,
)


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
    ax = axes_or_new(ax)
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
        count_in(ax.xaxis, groups[0].unit)
    target = literal(shift.target, AXIS_WIDTH)
    what = target if profile.level is None else f"{target} = {literal(profile.level)} (percentage points)"
    first_name, second_name = (literal(label, LABEL_WIDTH) for label in shift.labels)
    ylabel = f"{what}\n{second_name} less {first_name}"
    ax.set(xlabel=literal(profile.column, AXIS_WIDTH), ylabel=ylabel)
    return finished(ax)
