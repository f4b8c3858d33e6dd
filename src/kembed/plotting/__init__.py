"""Figures of results, with matplotlib; nothing is computed here.

Every function takes `ax`, axes to draw in, and returns the axes it drew in; without `ax` it makes a figure
with pyplot. Results call these functions from their own `.plot()`.
"""

from kembed.plotting.comparison import plot_columns, plot_comparison, plot_pair, plot_test
from kembed.plotting.decisions import plot_balance, plot_power, plot_quantile_effects, plot_shift
from kembed.plotting.embedding import plot_embedding
from kembed.plotting.graphs import plot_graph
from kembed.plotting.learning import plot_learned, plot_samples
from kembed.plotting.style import axes_or_new
from kembed.plotting.time import plot_change_points, plot_monitor
from kembed.plotting.witness import plot_witness

__all__ = [
    "axes_or_new",
    "plot_balance",
    "plot_change_points",
    "plot_columns",
    "plot_comparison",
    "plot_embedding",
    "plot_graph",
    "plot_learned",
    "plot_monitor",
    "plot_pair",
    "plot_power",
    "plot_quantile_effects",
    "plot_samples",
    "plot_shift",
    "plot_test",
    "plot_witness",
]

# The picture of every kind of result, by the name of its class: what `result.plot()` calls.
PLOTS = {
    "Balance": plot_balance,
    "CausalGraph": plot_graph,
    "ChangePoints": plot_change_points,
    "Comparison": plot_comparison,
    "Embedding": plot_embedding,
    "KernelSamples": plot_samples,
    "LearnedKernel": plot_learned,
    "Monitor": plot_monitor,
    "PowerCurve": plot_power,
    "QuantileEffects": plot_quantile_effects,
    "Shift": plot_shift,
    "TestOutcome": plot_test,
    "Witness": plot_witness,
}
