"""How a group's model serves its members: alone, or mixed with each target's own model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

from ctfa._validation import Sample
from ctfa.core.types import FloatArray, IntArray
from ctfa.estimators.group_models import fit_observed, fit_regressor, is_least_squares

HEADS = ("mean", "shrink")


class SingleModels(NamedTuple):
    """Models of single targets, for those that do not trust their group entirely."""

    targets: IntArray
    models: Sequence[Any]  # one a target, or a single one for all of them

    def mix(self, predicted: FloatArray, trust: FloatArray, inputs: FloatArray) -> FloatArray:
        """``trust * group + (1 - trust) * own``, in the units the models were fitted in."""
        if not self.targets.size:
            return predicted
        own = np.column_stack(
            [
                np.asarray(model.predict(inputs)).reshape(inputs.shape[0], -1)
                for model in self.models
            ]
        )
        share = trust[self.targets]
        mixed = predicted.copy()
        mixed[:, self.targets] = share * predicted[:, self.targets] + (1.0 - share) * own
        return mixed


def fit_singles(
    regressor: Any, sample: Sample, values: FloatArray, trust: FloatArray, n_jobs: int | None
) -> SingleModels:
    """Fit a model of its own for each target whose trust is below one."""
    rest = sample.weights, sample.n_samples, sample.is_single
    targets = np.flatnonzero(trust < 1.0)
    own = values[:, targets]
    linear = regressor is None or is_least_squares(regressor)
    if targets.size and linear and not np.isnan(own).any():
        # Least squares fits each column by itself, so all at once is the same and much faster.
        return SingleModels(targets, [fit_regressor(regressor, sample.inputs, own, *rest)])
    models = Parallel(n_jobs=n_jobs)(
        delayed(fit_observed)(regressor, sample.inputs, column, *rest) for column in own.T
    )
    return SingleModels(targets, list(models))
