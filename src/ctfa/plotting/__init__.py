"""Pictures of fitted models. Each draws on a given axis and returns it.

Of the figure it changes nothing but the layout where that has none, since labels would be cut off;
``plot_comparison`` puts its legend below all axes.
"""

from ctfa.plotting._curves import plot_comparison, plot_cv_curve
from ctfa.plotting._data_flow import plot_data_flow
from ctfa.plotting._groups_map import plot_groups_map

__all__ = ["plot_comparison", "plot_cv_curve", "plot_data_flow", "plot_groups_map"]
