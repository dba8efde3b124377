"""Labelled data in, labelled results out: xarray, pandas, polars and geopandas.

``fit`` finds target and features in the data, groups the tasks into regions and returns a
``LabelledFit`` whose regions, coefficients, errors and predictions carry the labels they came with.
"""

from ctfa.labelled._files import FileError, read, write
from ctfa.labelled._fit import fit
from ctfa.labelled._result import LabelledFit
from ctfa.persistence import load

__all__ = ["FileError", "LabelledFit", "fit", "load", "read", "write"]
