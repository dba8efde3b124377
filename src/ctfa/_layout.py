"""Inputs of many tasks in one table, and which column is whose."""

from __future__ import annotations

from typing import Any

import numpy as np

from ctfa.core.types import FloatArray, IntArray


def multi_input_layout(X3d: Any) -> tuple[FloatArray, IntArray]:
    """Lay inputs of shape (samples, tasks, slots) out as a table, a column for each task and slot.

    Parameters
    ----------
    X3d : array-like of shape (n_samples, n_tasks, n_slots)
        ``X3d[:, task, slot]`` is one input of one task, say the rain of one basin. NaN in all
        samples means that the task has no such input.

    Returns
    -------
    X : ndarray of shape (n_samples, n_columns)
        All slots of the first task, then of the second, and so on, those that exist.
    layout : ndarray of int, shape (n_tasks, n_slots)
        The column in ``X`` of each task's slot, -1 where it has none.

    Examples
    --------
    >>> import numpy as np
    >>> from ctfa import multi_input_layout
    >>> rain_and_snow = np.arange(8.0).reshape(2, 2, 2)
    >>> rain_and_snow[:, 1, 1] = np.nan  # no snow in the second basin
    >>> X, layout = multi_input_layout(rain_and_snow)
    >>> X
    array([[0., 1., 2.],
           [4., 5., 6.]])
    >>> layout
    array([[ 0,  1],
           [ 2, -1]])
    """
    values = np.asarray(X3d)
    if values.ndim != 3:
        raise ValueError(
            f"X3d has shape {values.shape}: give inputs of shape (n_samples, n_tasks, n_slots), "
            "such as np.stack(list_of_one_table_a_task, axis=1)."
        )
    if 0 in values.shape:
        raise ValueError(f"X3d has shape {values.shape}: there is nothing to lay out.")
    try:
        values = values.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"X3d has values of type {values.dtype}, which are not all numbers."
        ) from error
    n_samples, n_tasks, n_slots = values.shape
    exists = ~np.isnan(values).all(axis=0)
    if not exists.any(axis=1).all():
        task = int(np.argmin(exists.any(axis=1)))
        raise ValueError(
            f"Task {task} of X3d is NaN throughout: it has no input at all. Leave it out, of the "
            "targets too."
        )
    layout = np.full((n_tasks, n_slots), -1, dtype=np.intp)
    layout[exists] = np.arange(np.count_nonzero(exists))
    # Selecting copies; a complete table need not be.
    table = values.reshape(n_samples, -1)
    return (table if exists.all() else table[:, exists.ravel()]), layout
