"""Tasks with rows of their own: schools with pupils, patients and raters."""

from __future__ import annotations

from typing import Any

import numpy as np

from ctfa.datasets._bunches import Form, require_count

#: The file has no names. These follow the published description of the data; which columns form a
#: block is seen in the data: they are zeros and ones that add up to one.
BLOCKS = {"year": 3, "percent_free_meals": 1, "percent_vr_band_1": 1, "gender": 2, "vr_band": 3,
          "ethnic_group": 11, "school_gender": 3, "school_denomination": 3}  # fmt: skip


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
    form = Form("school", as_frame=as_frame, return_X_y=return_X_y)
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
    form = Form("parkinson", as_frame=as_frame, return_X_y=return_X_y)
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
    form = Form("computer", as_frame=as_frame, return_X_y=return_X_y)
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
