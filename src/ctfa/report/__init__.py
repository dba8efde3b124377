"""A page that tells why targets were merged: one file, without a network or a plotting library."""

from ctfa.report._material import Coefficients, GroupSeries, HeldOut, Material, Places

__all__ = ["Coefficients", "GroupSeries", "HeldOut", "Material", "Places"]
