"""Tasks with rows of their own: schools with pupils, patients and raters."""

from __future__ import annotations

from typing import Any

import numpy as np

from ctfa.datasets._bunches import Form, require_count
from ctfa.datasets._files import DataFile, Record

#: The file has no names. These follow the published description of the data; which columns form a
#: block is seen in the data: they are zeros and ones that add up to one.
BLOCKS = {"year": 3, "percent_free_meals": 1, "percent_vr_band_1": 1, "gender": 2, "vr_band": 3,
          "ethnic_group": 11, "school_gender": 3, "school_denomination": 3}  # fmt: skip

SCHOOL = Record(
    name="school",
    loader="load_school()",
    title="School: exam scores in London",
    kind="own rows",
    shape="15362 samples (pupils), 139 tasks (schools) of 22 to 251, 27 features, one target.",
    about="Scores of pupils of 139 London secondary schools in the years 1985 to 1987, of the "
    "Inner London Education Authority. The features are the year, what is known about the pupil "
    "(gender, band of verbal reasoning, ethnic group) and about the school (share of pupils with "
    "free meals and in the first band, gender, denomination), most of them as zeros and ones.",
    files=(
        DataFile(
            "school/school.mat",
            "57fb3238fdd03a9aa17276e2ce18d9bbb5d128c3261e794fe6233b58b6909068",
            "https://raw.githubusercontent.com/jiayuzhou/MALSAR/"
            "ca3d55b878cc4113f0d9603e8ac46538aeb1ecd9/data/school.mat",
        ),
    ),
    source="data/school.mat of the repository jiayuzhou/MALSAR on GitHub.",
    licence="None stated for the data.",
    redistribution="Not stated: get your own copy.",
    citation="Bakker, B. and Heskes, T. (2003). Task clustering and gating for Bayesian multitask "
    "learning. Journal of Machine Learning Research 4, 83-99. The file: Zhou, J., Chen, J. and Ye, "
    "J. (2011). MALSAR: Multi-tAsk Learning via StructurAl Regularization.",
    facts="Pupils of two schools do not correspond: matching rows of schools, by number or by "
    "score, is not sound. The file's 28th column is a constant and is dropped. Of the 27 others "
    "six are constant in each school, and with an intercept their rank is 23, so the coefficients "
    "of one school are never unique. Scores are whole numbers from 1 to 70. The paper's smaller "
    "experiment is n_schools=27: 3073 pupils. The file does not name its columns.",
)


def load_school(
    *,
    n_schools: int | None = None,
    return_X_y: bool = False,
    as_frame: bool = False,
    data_home: Any = None,
    download_if_missing: bool = True,
) -> Any:
    """Load exam scores of 139 schools: tasks with pupils of their own.

    Parameters
    ----------
    n_schools : int, default=None
        Only the first schools of the file; the paper takes 27.
    return_X_y : bool, default=False
        Return ``(X, y, tasks)`` and no Bunch.
    as_frame : bool, default=False
        Give a data frame and series (needs pandas).
    data_home : path, default=None
        The folder of data; None takes the environment variable ``CTFA_DATA``, or ``~/ctfa_data``.
    download_if_missing : bool, default=True
        Download what is not there (needs pooch, ``pip install 'ctfa[datasets]'``).

    Returns
    -------
    Bunch
        With ``data`` (15362, 27), ``target`` (15362,), ``tasks`` (15362,), the number of each
        pupil's school from 0, ``feature_names``, ``target_names``, ``kind`` ("own rows"),
        ``filename`` and ``DESCR``.

    Examples
    --------
    >>> from ctfa import PooledCTFARegressor
    >>> from ctfa.datasets import load_school
    >>> X, y, tasks = load_school(n_schools=27, return_X_y=True)  # doctest: +SKIP
    >>> model = PooledCTFARegressor().fit(X, y, tasks=tasks)  # doctest: +SKIP
    """
    form = Form(SCHOOL, as_frame, return_X_y)
    if n_schools is not None:
        require_count("n_schools", n_schools, least=1, most=139)
    (file,) = form.files(data_home, download_if_missing)
    cells = file.matlab()
    inputs, scores = (cells[name].ravel()[:n_schools] for name in ("X", "Y"))
    sizes = [len(school) for school in inputs]
    return form.own_rows(
        np.concatenate(list(inputs))[:, :27].astype(np.float64),
        np.concatenate(list(scores)).ravel().astype(np.float64),
        np.repeat(np.arange(len(sizes)), sizes),
        feature_names=[
            f"{name}_{number}" if size > 1 else name
            for name, size in BLOCKS.items()
            for number in range(1, size + 1)
        ],
        target_names=["score"],
    )


ADDRESS = "https://raw.githubusercontent.com/GAA-UAM/R-MTGB/HEAD/Datasets"
SOURCE = "The folder Datasets of the repository GAA-UAM/R-MTGB on GitHub"


def _files(name: str, data: str, target: str) -> tuple[DataFile, DataFile]:
    first, second = (
        DataFile(f"mtl_classic/{name}_{part}.csv", checksum, f"{ADDRESS}/{name}/{name}_{part}.csv")
        for part, checksum in (("data", data), ("target", target))
    )
    return first, second


PARKINSON = Record(
    name="parkinson",
    loader="load_parkinson()",
    title="Parkinson: symptoms of patients by their voice",
    kind="own rows",
    shape="5875 samples (recordings), 42 tasks (patients) of 101 to 168, 19 features, one target.",
    about="42 people with early Parkinson's disease recorded their voice at home for half a year. "
    "The features are age, sex, time and 16 measures of the voice, the target is the total score "
    "of the rating scale UPDRS.",
    files=_files(
        "parkinson",
        "9ddddba61ea8eefd505413cb0e4d39fb54dec5eacd9936439fa28f8208481581",
        "62be46d9a9d15e982e63301110c8960e5683c80d53d6ea805179d2050bb05a01",
    ),
    source=f"{SOURCE}: parkinson/parkinson_data.csv and parkinson/parkinson_target.csv; originally "
    "the set Parkinsons Telemonitoring of the UCI Machine Learning Repository.",
    licence="LGPL-2.1, as the repository states.",
    redistribution="Under the terms of the repository.",
    citation="Tsanas, A., Little, M. A., McSharry, P. E. and Ramig, L. O. (2010). Accurate "
    "telemonitoring of Parkinson's disease progression by noninvasive speech tests. IEEE "
    "Transactions on Biomedical Engineering 57, 884-893.",
    facts="Scores between visits to the clinic are interpolated, so they are nearly a function of "
    "time: recordings of one day have one score, and a split of them at random leaks. Age and sex "
    "are constant for each patient. Measures of jitter and of shimmer are nearly copies of each "
    "other.",
)
COMPUTER = Record(
    name="computer",
    loader="load_computer()",
    title="Computer: how raters like computers",
    kind="own rows",
    shape="3800 samples (ratings), 190 tasks (raters) of 20, 13 features, one target.",
    about="190 people said of 20 computers each, from 0 to 10, how likely they were to buy it. The "
    "features are 13 attributes of a computer, -1 or 1.",
    files=_files(
        "computer",
        "8c9e5c8e1742a09aaea8f645a062b99a3a0d2c302357fc43cdc3ec0f6d3063de",
        "4b75124bf3771212385ae89e0e59bee013b1a0096ef945d9460c7b6cc49a4f91",
    ),
    source=f"{SOURCE}: computer/computer_data.csv and computer/computer_target.csv.",
    licence="LGPL-2.1, as the repository states.",
    redistribution="Under the terms of the repository.",
    citation="Lenk, P. J., DeSarbo, W. S., Green, P. E. and Young, M. R. (1996). Hierarchical "
    "Bayes conjoint analysis: recovery of partworth heterogeneity from reduced experimental "
    "designs. Marketing Science 15, 173-191.",
    facts="All raters saw the same computers: 20 rows for 13 features leave each rater little to "
    "go by. Some gave nearly all computers the same rating.",
)


def load_parkinson(
    *,
    return_X_y: bool = False,
    as_frame: bool = False,
    data_home: Any = None,
    download_if_missing: bool = True,
) -> Any:
    """Load symptoms of 42 patients: tasks with recordings of their own.

    Parameters
    ----------
    return_X_y : bool, default=False
        Return ``(X, y, tasks)`` and no Bunch.
    as_frame : bool, default=False
        Give a data frame and series (needs pandas).
    data_home : path, default=None
        The folder of data; None takes the environment variable ``CTFA_DATA``, or ``~/ctfa_data``.
    download_if_missing : bool, default=True
        Download what is not there (needs pooch, ``pip install 'ctfa[datasets]'``).

    Returns
    -------
    Bunch
        With ``data`` (5875, 19), ``target`` (5875,), ``tasks`` (5875,), the number of each
        patient, ``feature_names``, ``target_names``, ``kind`` ("own rows"), ``filename`` and
        ``DESCR``.

    Examples
    --------
    >>> from ctfa.datasets import load_parkinson
    >>> X, y, tasks = load_parkinson(return_X_y=True)  # doctest: +SKIP
    """
    form = Form(PARKINSON, as_frame, return_X_y)
    return _load(form, "total_UPDRS", data_home, download_if_missing)


def load_computer(
    *,
    return_X_y: bool = False,
    as_frame: bool = False,
    data_home: Any = None,
    download_if_missing: bool = True,
) -> Any:
    """Load ratings of computers by 190 people: tasks with ratings of their own.

    Parameters
    ----------
    return_X_y : bool, default=False
        Return ``(X, y, tasks)`` and no Bunch.
    as_frame : bool, default=False
        Give a data frame and series (needs pandas).
    data_home : path, default=None
        The folder of data; None takes the environment variable ``CTFA_DATA``, or ``~/ctfa_data``.
    download_if_missing : bool, default=True
        Download what is not there (needs pooch, ``pip install 'ctfa[datasets]'``).

    Returns
    -------
    Bunch
        With ``data`` (3800, 13), ``target`` (3800,), ``tasks`` (3800,), the number of each rater,
        ``feature_names``, ``target_names``, ``kind`` ("own rows"), ``filename`` and ``DESCR``.

    Examples
    --------
    >>> from ctfa.datasets import load_computer
    >>> X, y, tasks = load_computer(return_X_y=True)  # doctest: +SKIP
    """
    form = Form(COMPUTER, as_frame, return_X_y)
    return _load(form, "rating", data_home, download_if_missing)


def _load(form: Form, target: str, data_home: Any, download: bool) -> Any:
    files = form.files(data_home, download)
    columns = files[0].columns()
    tasks = np.array(columns.pop("task"), dtype=np.intp)
    (values,) = files[1].columns().values()
    return form.own_rows(
        np.column_stack([np.array(column, dtype=np.float64) for column in columns.values()]),
        np.array(values, dtype=np.float64),
        tasks,
        feature_names=list(columns),
        target_names=[target],
    )
