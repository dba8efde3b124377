"""Pictures of fitted models. Each draws on a given axis and returns it.

The layout of a figure is changed only if it has none, so that labels are not cut off;
``plot_comparison`` puts its legend below all axes, and a scale of colours adds a bar.
"""

from ctfa.plotting._curves import plot_comparison, plot_cv_curve, plot_path
from ctfa.plotting._data_flow import plot_data_flow
from ctfa.plotting._groups_map import plot_groups_map
from ctfa.plotting._matrices import plot_coefficients, plot_stability, plot_windows
from ctfa.plotting._merges import plot_gains, plot_merge_tree, plot_merges

__all__ = [
    "plot_coefficients",
    "plot_comparison",
    "plot_cv_curve",
    "plot_data_flow",
    "plot_gains",
    "plot_groups_map",
    "plot_merge_tree",
    "plot_merges",
    "plot_path",
    "plot_stability",
    "plot_windows",
]
