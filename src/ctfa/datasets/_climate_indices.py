"""Monthly indices of the state of the climate, to join to other series."""

from __future__ import annotations

from typing import Any

import numpy as np

from ctfa.core.types import AnyArray, FloatArray
from ctfa.datasets._bunches import Form
from ctfa.datasets._files import DataFile, Found
from ctfa.datasets._record import Record

CLIMATE_INDICES = Record(
    name="climate_indices",
    loader="load_climate_indices()",
    title="NAO and Nino3.4: monthly climate indices",
    kind="extra features",
    shape="1891 samples (months), 2 features.",
    about="The North Atlantic Oscillation from January 1950 to July 2013, and the anomaly of the "
    "sea surface temperature in the region Nino3.4 of the Pacific from January 1856 to December "
    "2011.",
    files=(
        DataFile(
            "climate_indices/climate_indices.npz",
            "5fc2a64f44508ef3409c0a651e2b181b8a40984da2722d89991d7483478e943c",
            arrays=("nao", "nao_month", "nino34", "nino34_month"),
        ),
    ),
    source="The data sets NAO and NINO3.4 of the R package esd (repository metno/esd on GitHub), "
    "saved as an npz file with nao (763, float32) and nino34 (1872, float32), NaN where missing, "
    "and nao_month and nino34_month, texts such as '1950-01'.",
    licence="GPL, as the package states.",
    redistribution="Under the terms of the GPL.",
    citation="Benestad, R. E., Mezghani, A. and Parding, K. M. esd: climate analysis and empirical-"
    "statistical downscaling (R package), Norwegian Meteorological Institute.",
    facts="The first and the last month of Nino3.4 are missing. An index of the same month is not "
    "known in time for a forecast.",
)


def load_climate_indices(
    *, as_frame: bool = False, data_home: Any = None, download_if_missing: bool = True
) -> Any:
    """Load two monthly climate indices, NAO and Nino3.4, to join to other series by month.

    Parameters
    ----------
    as_frame : bool, default=False
        Give a data frame with the month as index (needs pandas).
    data_home : path, default=None
        The folder of data; None takes the environment variable ``CTFA_DATA``, or ``~/ctfa_data``.
    download_if_missing : bool, default=True
        As for every loader; of this set there is nothing to download.

    Returns
    -------
    Bunch
        With ``data`` (1891, 2), NaN where an index has no value, ``time`` (months),
        ``feature_names``, ``kind`` ("extra features"), ``filename`` and ``DESCR``.

    Examples
    --------
    >>> from ctfa.datasets import load_climate_indices
    >>> indices = load_climate_indices(as_frame=True).data  # doctest: +SKIP
    >>> indices.loc["1998-01"]  # doctest: +SKIP
    """
    form = Form(CLIMATE_INDICES, as_frame=as_frame)
    (file,) = CLIMATE_INDICES.find(data_home=data_home, download_if_missing=download_if_missing)
    with file.arrays() as arrays:
        known = [arrays[name].astype("M8[M]") for name in ("nao_month", "nino34_month")]
    every_month = np.concatenate(known)
    months = np.arange(every_month.min(), every_month.max() + 1)
    indices = indices_of(file, months)
    return form.series(
        np.column_stack(list(indices.values())),
        feature_names=list(indices),
        time=months,
        filename=str(file.path),
    )


def indices_of(file: Found, months: AnyArray) -> dict[str, FloatArray]:
    """Each index in these months; NaN where it has no value."""
    with file.arrays() as arrays:
        return {
            name: _joined(
                arrays[name].astype(np.float64), arrays[f"{name}_month"].astype("M8[M]"), months
            )
            for name in ("nao", "nino34")
        }


def _joined(values: FloatArray, own: AnyArray, months: AnyArray) -> FloatArray:
    joined = np.full(months.size, np.nan)
    _, here, there = np.intersect1d(months, own, return_indices=True)
    joined[here] = values[there]
    return joined
