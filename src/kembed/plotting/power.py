"""Power over rows."""

from typing import Any

import numpy as np

from kembed.comparing.sample_size import PowerCurve
from kembed.plotting.style import BLUE, GREY, VERMILION, axes_or_new, finished


def plot_power(curve: PowerCurve, ax: Any = None) -> Any:
    """The power at every number of rows with standard errors, and the rows that are needed."""
    ax = axes_or_new(ax, (5.2, 3.4))
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
