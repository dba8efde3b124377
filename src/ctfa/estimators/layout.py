"""Inputs of many tasks in one table, and which column is whose."""

from __future__ import annotations

from typing import Any

import numpy as np

from ctfa.core.types import BoolArray, FloatArray, IntArray


def multi_input_layout(X3d: Any, layout: Any = None) -> tuple[FloatArray, IntArray]:
    """Lay inputs of shape (samples, tasks, slots) out as a table, a column for each task and slot.

    Lay out all dates once, or pass the first layout for later ones: which columns there are depends
    on what is observed, and two periods laid out apart may differ in them.

    Parameters
    ----------
    X3d : array-like of shape (n_samples, n_tasks, n_slots)
        ``X3d[:, task, slot]`` is one input of one task, say the rain of one basin. NaN in all
        samples means that the task has no such input.
    layout : array-like of int, shape (n_tasks, n_slots), default=None
        What this function returned for other samples: ``X`` then has the same columns, NaN where
        nothing is observed.

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
    >>> later = np.full((1, 2, 2), 9.0)
    >>> later[:, :, 1] = np.nan  # and no snow at all this year
    >>> multi_input_layout(later, layout)[0]
    array([[ 9., nan,  9.]])
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
    if layout is not None:
        return _as_before(values, exists, _read(layout, exists.shape))
    if not exists.any(axis=1).all():
        task = int(np.argmin(exists.any(axis=1)))
        raise ValueError(
            f"Task {task} of X3d is NaN throughout: it has no input at all. Leave it out, of the "
            "targets too."
        )
    columns = np.full((n_tasks, n_slots), -1, dtype=np.intp)
    columns[exists] = np.arange(np.count_nonzero(exists))
    # Selecting copies; a complete table need not be.
    table = values.reshape(n_samples, -1)
    return (table if exists.all() else table[:, exists.ravel()]), columns


def _as_before(
    values: FloatArray, exists: BoolArray, layout: IntArray
) -> tuple[FloatArray, IntArray]:
    """Later samples in the columns of earlier ones."""
    added = np.argwhere(exists & (layout < 0))
    if added.size:
        task, slot = added[0].tolist()
        raise ValueError(
            f"X3d has values for slot {slot} of task {task}, which has no column in layout: lay "
            "out all samples once, or set these values to NaN."
        )
    known = layout >= 0
    table = np.empty((values.shape[0], np.count_nonzero(known)))
    table[:, layout[known]] = values[:, known]
    return table, layout


def _read(layout: Any, shape: tuple[int, ...]) -> IntArray:
    """A layout that this module made, of tasks and slots like these."""
    columns = np.asarray(layout)
    if columns.shape != shape:
        raise ValueError(
            f"layout has shape {columns.shape} but X3d has {shape[0]} tasks and {shape[1]} slots: "
            "pass the same tasks and slots in the same order."
        )
    used = np.sort(columns[columns != -1]) if columns.dtype.kind in "iu" else None
    if used is None or not np.array_equal(used, np.arange(used.size)):
        raise ValueError(
            "layout must be one that multi_input_layout has returned: every column from 0 once, -1 "
            "for a slot that a task has not."
        )
    return columns.astype(np.intp)
