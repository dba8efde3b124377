"""A page that tells why targets were merged: one file, without a network or a plotting library."""

from ctfa.report._collect import collect
from ctfa.report._complete import Judging, complete
from ctfa.report._material import Coefficients, Given, GroupSeries, HeldOut, Material, Parts, Places
from ctfa.report._write import render, write

__all__ = [
    "Coefficients",
    "Given",
    "GroupSeries",
    "HeldOut",
    "Judging",
    "Material",
    "Parts",
    "Places",
    "collect",
    "complete",
    "render",
    "write",
]
