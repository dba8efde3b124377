"""Targets that share their rows: what methods that mix targets stand on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.model_selection import KFold
from sklearn.utils.validation import check_is_fitted

from ctfa import _validation as check
from ctfa.core.types import FloatArray

#: Share of the largest singular value of the inputs below which least squares leaves a direction
#: out, as scikit-learn's does; a penalty looks after such directions itself.
NEGLIGIBLE = 1e-6
#: The same, a row or a feature, for what is not there at all.
ROUNDING = float(np.finfo(float).eps)


class SharedRowsRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A regressor of several targets observed on the same rows.

    A method implements ``_fit_shared(inputs, targets)`` and ``_predict_shared(inputs)``.
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Fit all targets.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples, n_targets) or (n_samples,)
            A column for each target.
        """
        inputs = check.read_inputs(self, X, reset=True)
        targets = check.read_targets(y, inputs.shape[0], what="y")
        self._is_vector = targets.is_vector
        self._fit_shared(inputs, targets.values)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Predict all targets, one column each."""
        check_is_fitted(self)
        predicted = self._predict_shared(check.read_inputs(self, X, reset=False))
        return predicted[:, 0] if self._is_vector else predicted

    def _fit_shared(self, inputs: FloatArray, targets: FloatArray) -> None:
        raise NotImplementedError

    def _predict_shared(self, inputs: FloatArray) -> FloatArray:
        raise NotImplementedError


class SharedRowsLinear(SharedRowsRegressor):
    """Targets with coefficients of their own: ``coef_`` (T, D) and ``intercept_`` (T,)."""

    coef_: FloatArray
    intercept_: FloatArray

    def _predict_shared(self, inputs: FloatArray) -> FloatArray:
        return np.asarray(inputs @ self.coef_.T + self.intercept_)


@dataclass(frozen=True, eq=False)
class RidgeFit:
    """Ridge regression of all targets in the singular vectors of the centred inputs.

    ``|Y - XB|^2 + alpha |B|^2``, which is scikit-learn's convention; alpha = 0 is least squares of
    least norm. The hat matrix is ``U diag(weights) U'``, and what a method does to the fitted
    values it does to the few rows of ``scores`` instead of all n.
    """

    axes: FloatArray  # (k, D), right singular vectors of the centred inputs
    singular: FloatArray  # (k,)
    weights: FloatArray  # (k,), s^2 / (s^2 + alpha)
    scores: FloatArray  # (k, T), U'Y
    mean_inputs: FloatArray  # (D,)
    mean_targets: FloatArray  # (T,)
    n_rows: int
    rank: int  # of the centred inputs, also where least squares leaves directions out

    @classmethod
    def of(cls, inputs: FloatArray, targets: FloatArray, alpha: float = 0.0) -> RidgeFit:
        """Factor the inputs and project the targets."""
        mean, level = inputs.mean(axis=0), targets.mean(axis=0)
        U, s, axes = np.linalg.svd(inputs - mean, full_matrices=False)
        there = s > ROUNDING * max(inputs.shape) * s.max(initial=0.0)
        rank = int(there.sum())
        kept = s > NEGLIGIBLE * s.max(initial=0.0) if alpha == 0.0 else there
        U, s, axes = U[:, kept], s[kept], axes[kept]
        scores = U.T @ (targets - level)
        return cls(axes, s, s**2 / (s**2 + alpha), scores, mean, level, inputs.shape[0], rank)

    @property
    def freedom(self) -> float:
        """Trace of the hat matrix."""
        return float(self.weights.sum())

    @property
    def half_fit(self) -> FloatArray:
        """``H^(1/2) Y`` in the singular vectors: (k, T), with inner products ``Y'HY``."""
        return np.asarray(np.sqrt(self.weights)[:, None] * self.scores)

    @property
    def fitted(self) -> FloatArray:
        """``HY`` in the singular vectors: (k, T)."""
        return np.asarray(self.weights[:, None] * self.scores)

    def coef(self, mixing: FloatArray | None = None) -> FloatArray:
        """Coefficients (T, D), of the fitted values times a (T, T) matrix where one is given."""
        fitted = self.fitted if mixing is None else self.fitted @ mixing
        return np.asarray((fitted / self.singular[:, None]).T @ self.axes)

    def intercept(self, coef: FloatArray) -> FloatArray:
        """Intercepts that go with coefficients."""
        return np.asarray(self.mean_targets - coef @ self.mean_inputs)


def contiguous_folds(n_folds: Any, n_rows: int) -> KFold:
    """Folds of neighbouring rows, no more than there are rows."""
    number = check.read_number(n_folds, "n_folds")
    if number != int(number) or number < 2:
        raise ValueError(f"n_folds={n_folds!r} is no number of folds: pass a whole number from 2.")
    return KFold(min(int(number), n_rows))
