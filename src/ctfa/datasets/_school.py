"""Exam scores of pupils of London schools."""

from __future__ import annotations

from typing import Any

import numpy as np

from ctfa.datasets._bunches import Form
from ctfa.datasets._checks import require_count
from ctfa.datasets._files import DataFile
from ctfa.datasets._record import Record

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
    form = Form(SCHOOL, as_frame=as_frame, return_X_y=return_X_y)
    if n_schools is not None:
        require_count("n_schools", n_schools, least=1, most=139)
    (file,) = SCHOOL.find(data_home=data_home, download_if_missing=download_if_missing)
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
        filename=str(file.path),
    )
