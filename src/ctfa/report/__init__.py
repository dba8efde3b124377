"""A page that tells why targets were merged: one file, without a network or a plotting library."""

from ctfa.report._collect import collect
from ctfa.report._from_data import complete
from ctfa.report._from_sums import Judging, complete_from_sums, fit_stand_ins
from ctfa.report._given import Given
from ctfa.report._material import Coefficients, GroupSeries, HeldOut, Material, Places
from ctfa.report._render import render
from ctfa.report._write import write

__all__ = [
    "Coefficients",
    "Given",
    "GroupSeries",
    "HeldOut",
    "Judging",
    "Material",
    "Places",
    "collect",
    "complete",
    "complete_from_sums",
    "fit_stand_ins",
    "render",
    "write",
]
