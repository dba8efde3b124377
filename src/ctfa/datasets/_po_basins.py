"""Sub-basins of the Po: vegetation from rain, temperature, snow and lakes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ctfa.core.types import FloatArray
from ctfa.datasets._bunches import Form, require_choice
from ctfa.datasets._files import DataFile, Record

WEEKS = (1, 4, 8, 12, 16, 24)
#: Lakes by the basin they belong to. Lugano drains into Maggiore.
LAKES = {"adda": "LagoComo", "oglio": "LagoIseo", "ticino": "Maggiore"}
UPPER_LAKES = {"ticino": "Lugano"}
FILES = {
    "anomalies": DataFile(
        "po_basins/dataset_feature_anomalie.csv",
        "debc6b9c7bcbcd9b07b03e87725bbb9cc5c2564ea2f49d460f8ecdb87803052f",
    ),
    "normal": DataFile(
        "po_basins/dataset_feature_normali.csv",
        "cc4274c8b8b94fddb3fb57473b814d3740c449fc38728867b02d5c848440d6bd",
    ),
}
#: What every figure on these data should be read with.
LEAK = (
    "Rows to be predicted leak a little into rows to learn from: the anomalies are from the mean "
    "of each week over all years, and the index, seen every 16 days, was interpolated to weeks."
)

PO_BASINS = Record(
    name="po_basins",
    loader="load_po_basins()",
    title="Po: vegetation of ten sub-basins",
    kind="own inputs",
    shape="1038 samples (weeks), 10 targets (sub-basins), 12 to 29 features each.",
    about="Weekly values of ten sub-basins of the river Po, from February 2000 to January 2020. "
    "The target is a vegetation index seen by satellite (NDVI): its anomaly, or the index itself. "
    "The inputs of a basin are its precipitation and temperature over 1 to 24 weeks; for seven "
    "basins also the depth of snow, and for three the levels of their lakes (Ticino has two).",
    files=tuple(FILES.values()),
    source="The repository climateintelligence/Droughts on GitHub, folder final_Lorenzo/Estrazioni "
    "dati e preprocessing: dataset_feature+anomalie.csv and dataset_feature+normali.csv. Write an "
    "underscore for the plus in their names.",
    licence="Apache-2.0, as the repository states since June 2025.",
    redistribution="Allowed by the licence, with its text and notices.",
    citation="Bonetti, P. and others, repository Droughts: drought detection in the Po river "
    "basin.",
    facts=f"{LEAK} Leave a gap beside blocks to be predicted, and read small gains as such. "
    "Basins have different inputs: layout is -1 and inputs is NaN for those that a basin has "
    "not. Means over 4 to 24 weeks overlap, so rows near each other are alike: split by blocks of "
    "time. Of the anomalies three weeks of the snow of Ticino are missing. The anomalies have no "
    "snow of one week; the other file has no precipitation and temperature of one week for Adda. "
    "The files spell basins in several ways (piemonte nord, Piemonte-nord, Oglio-Iseo): names here "
    "are unified. Which lake belongs to which basin is our reading of the map.",
)


def load_po_basins(
    *,
    values: str = "anomalies",
    lakes: bool = True,
    return_X_y: bool = False,
    as_frame: bool = False,
    data_home: Any = None,
    download_if_missing: bool = True,
) -> Any:
    """Load ten sub-basins of the Po, weekly: targets of which some have inputs others lack.

    Parameters
    ----------
    values : {"anomalies", "normal"}, default="anomalies"
        Deviations from the mean of each week over all years, or the values themselves.
    lakes : bool, default=True
        Whether levels of lakes are inputs.
    return_X_y : bool, default=False
        Return ``(X, Y, layout)`` and no Bunch.
    as_frame : bool, default=False
        Give data frames with the date as index (needs pandas).
    data_home : path, default=None
        The folder of data; None takes the environment variable ``CTFA_DATA``, or ``~/ctfa_data``.
    download_if_missing : bool, default=True
        As for every loader; of this set there is nothing to download.

    Returns
    -------
    Bunch
        With ``data`` (1038, n_columns), ``layout`` (10, n_slots), ``inputs`` (1038, 10, n_slots),
        ``target`` (1038, 10), ``slot_names`` ("precipitation_4w", ...), ``feature_names``,
        ``target_names``, ``time``, ``kind`` ("own inputs"), ``filename`` and ``DESCR``.

    Notes
    -----
    Both files leak a little from rows to be predicted to rows to learn from: the anomalies are
    from means over all years, and NDVI seen every 16 days was interpolated to weeks.

    Examples
    --------
    >>> from ctfa import MultiInputCTFARegressor
    >>> from ctfa.datasets import load_po_basins
    >>> X, Y, layout = load_po_basins(return_X_y=True)  # doctest: +SKIP
    >>> model = MultiInputCTFARegressor(layout).fit(X[:700], Y[:700])  # doctest: +SKIP
    """
    form = Form(PO_BASINS, as_frame, return_X_y)
    require_choice("values", values, FILES)
    (file,) = form.files(data_home, download_if_missing, [FILES[values]])
    columns = file.columns()
    table = {_plain(name): entries for name, entries in columns.items()}
    basins = [name.removeprefix("anomalia_") for name in columns if name.startswith("anomalia_")]
    target = "anomalia" if values == "anomalies" else "ndvi"
    return form.own_inputs(
        _slots(table, basins, lakes=lakes),
        np.column_stack([_numbers(table[f"{target}_{basin}"]) for basin in basins]),
        target_names=basins,
        time=np.array(table["date"], dtype="datetime64[D]"),
    )


def _slots(table: dict[str, list[str]], basins: list[str], *, lakes: bool) -> dict[str, FloatArray]:
    """Every kind of input over every number of weeks, those that the table has for any basin."""
    slots = {}
    for kind in ("precipitation", "temperature", "snow_depth", "lake_level", "upper_lake_level"):
        if kind.endswith("lake_level") and not lakes:
            continue
        for week in WEEKS:
            own = [_column(kind, basin, week) for basin in basins]
            nothing = [""] * len(table["date"])
            if any(name in table for name in own):
                slots[f"{kind}_{week}w"] = np.column_stack(
                    [_numbers(table.get(name, nothing)) for name in own]
                )
    return slots


def _column(kind: str, basin: str, week: int) -> str:
    """The plain name of a column, whichever of the two files it is in."""
    if kind in ("precipitation", "temperature"):
        return f"{kind[:4]}{week}w_{basin}"
    if kind == "snow_depth":
        return f"{basin}_snowdepth_{week}w"
    lake = (LAKES if kind == "lake_level" else UPPER_LAKES).get(basin, "")
    return f"{lake.lower()}_altezza_{week}w"


def _plain(name: str) -> str:
    """Names without what is spelled now so and then so: of anomalies, of basins and of means."""
    name = name.lower().replace(" ", "_").replace("-", "_")
    if name.startswith("anomalia_"):
        return name
    name = name.replace("garda_mincio", "garda").replace("oglio_iseo", "oglio")
    name = name.replace("_anomalia_", "_").replace("_anomalia", "_")
    return name.replace("snowdepth_mean", "snowdepth").replace("snowdepthmean", "snowdepth")


def _numbers(entries: list[str]) -> FloatArray:
    return np.array([float(entry) if entry else np.nan for entry in entries])
