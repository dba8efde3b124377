"""Pictures of fitted models. Each draws on a given axis and returns it.

Of the figure it changes nothing but the layout where that has none: labels would be cut off.
"""

from ctfa.plotting._curves import plot_comparison, plot_cv_curve

__all__ = ["plot_comparison", "plot_cv_curve"]
