"""What pictures ask of a model, and what they say where it has not got it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

#: What most pictures are of.
REGRESSORS = "a fitted CTFARegressor, MultiInputCTFARegressor or PooledCTFARegressor"


def is_labelled(result: Any) -> bool:
    """Whether this is what ``ctfa.labelled.fit`` returns."""
    return hasattr(result, "report_material")


def model_of(result: Any) -> Any:
    """The estimator of what ``ctfa.labelled.fit`` returns; anything else as it is."""
    return result.estimator if is_labelled(result) else result


def values_of(values: Any, result: Any) -> Any:
    """Numbers of the targets in their order: by their labels where both have such."""
    if is_labelled(result):
        return result._tasks_first(values)[0]
    index: Any = getattr(values, "index", None)
    if index is not None and hasattr(values, "reindex") and hasattr(result, "get_params"):
        names = names_of(result)
        if set(names) <= set(index) and not index.has_duplicates:
            return values.loc[names]
    return np.asarray(values, dtype=float)


def require(model: Any, needed: Sequence[str], give: str = REGRESSORS) -> Any:
    """A fitted model with the attributes that a picture shows; else a sentence on what to give."""
    model = model_of(model)
    if isinstance(model, type):
        raise TypeError(f"{model.__name__} is a class: give {give}.")
    if hasattr(model, "fit"):  # anything else is named below
        check_is_fitted(model)
    missing = [name for name in needed if not hasattr(model, name)]
    if missing:
        raise TypeError(f"{type(model).__name__} has no {missing[0]}: give {give}.")
    return model


def names_of(model: Any) -> list[str]:
    """Names of the targets, or tasks, of a fitted model."""
    holder = model if hasattr(model, "_names") else model.targets_
    return [str(name) for name in holder._names]


def is_standardised(model: Any) -> bool:
    """Whether a unit of gain is a target's variance."""
    return bool(getattr(model, "targets_", model).scale == "standard")
