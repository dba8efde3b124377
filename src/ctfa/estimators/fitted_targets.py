"""What every regressor with a fitted Phase I shows of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

from ctfa import _validation as check
from ctfa._collections import is_collection, r2_of_collection
from ctfa.core.types import FloatArray
from ctfa.estimators.held_out import r2_of_each
from ctfa.estimators.targets import TargetAggregator, names_of, read_again


def _of_targets(name: str, text: str) -> property:
    """Show an attribute of Phase I on the regressor."""
    return property(lambda self: getattr(self.targets_, name), doc=text)


class GroupsMixin:
    """Parameters and attributes of regressors with groups, of targets or of tasks."""

    regressor: Any
    targets_: TargetAggregator
    _require_stream: Callable[[], None]
    #: What None stands for, of the parameters that are estimators.
    #: Not of the regressor: None is more than any one of scikit-learn's.
    _defaults: ClassVar[dict[str, type]] = {"targets": TargetAggregator}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Get parameters; ``deep`` lists those of the estimators that None stands for, too."""
        params: dict[str, Any] = super().get_params(deep=deep)  # type: ignore[misc]
        if deep:
            for name, kind in self._defaults.items():
                if params[name] is None:
                    held = kind().get_params()
                    params |= {f"{name}__{nested}": value for nested, value in held.items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``targets__max_loss`` works on the default aggregator too."""
        for name in ("regressor", "targets", "features"):
            nested = [one for one in params if one.startswith(f"{name}__")]
            held = params.get(name, getattr(self, name))
            if nested and held is None and name in self._defaults:
                own = {one.partition("__")[2]: params.pop(one) for one in nested}
                params[name] = self._defaults[name]().set_params(**own)
            elif nested and (held is None or isinstance(held, str)):
                check.refuse_nested(nested[0], held)
        super().set_params(**params)  # type: ignore[misc]
        return self

    def __getattr__(self, name: str) -> Any:
        """Say how to get what is computed on request; called only for names that are not there."""
        kind = type(self).__name__
        # A property that fails for want of a fit ends up here too, its own error forgotten.
        if name.endswith("_") and not name.startswith("_") and "targets_" not in vars(self):
            raise NotFittedError(
                f"This {kind} instance is not fitted yet. Call 'fit' with appropriate arguments "
                "before using this estimator."
            )
        if name in ("stability_", "stability_labels_"):
            raise AttributeError(
                f"{kind}.{name} is computed on request: call stability(X, y) first."
            )
        if name in ("partial_fit", "forget"):
            self._require_stream()  # once more: the error that it had raised is lost here
        raise AttributeError(f"{kind!r} object has no attribute {name!r}")

    partition_ = _of_targets("partition_", "Groups.")
    labels_ = _of_targets("labels_", "Group of each target, or task.")
    n_groups_ = _of_targets("n_groups_", "Number of groups.")
    history_ = _of_targets("history_", "Merges.")
    max_loss_ = _of_targets("max_loss_", "The limit used in Phase I.")
    loss_interval_ = _of_targets("loss_interval_", "Where the groups stay the same.")
    cv_curve_ = _of_targets("cv_curve_", "How ``max_loss_`` was chosen; None for a number.")

    @property
    def _template(self) -> Any:
        """The regressor to clone."""
        return LinearRegression() if self.regressor is None else self.regressor


class FittedTargets(GroupsMixin):
    """Scores of regressors whose targets are columns."""

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, baseline: Any = None) -> float:
        """Mean over the targets of the R2 of each; over those observed in two rows or more."""
        scores = self.score_per_target(X, y, sample_weight, baseline=baseline)
        return float(np.nanmean(scores))

    def score_per_target(
        self, X: Any, y: Any, sample_weight: Any = None, *, baseline: Any = None
    ) -> FloatArray:
        """R2 of each target, in the order of the columns of ``y``.

        On the rows where it is observed (and, where inputs may be missing, can be predicted); NaN
        for a target with fewer than two of them. ``baseline`` as in ``predict``; what it explains
        counts.
        """
        if is_collection(X, y, sample_weight, baseline):
            scores = r2_of_collection(
                self.predict, X, y, sample_weight, baseline, require_same=self._require_same_targets
            )
            check.require_any_score(scores.tolist())
            return scores
        extra = {} if baseline is None else {"baseline": baseline}
        predicted = np.asarray(self.predict(X, **extra))
        true = read_again(self.targets_, y, predicted.shape[0]).values
        check.require_rows(true, 2)
        weights = check.read_weights(sample_weight, predicted.shape[0])
        predicted = predicted.reshape(true.shape)
        # Where inputs are missing nothing is predicted, and nothing judged.
        true = np.where(np.isnan(predicted), np.nan, true)
        return r2_of_each(true, np.nan_to_num(predicted), weights)

    def _require_same_targets(self, targets: check.Targets) -> None:
        """Refuse other targets than those of fit, whose values nobody has read yet."""
        named = hasattr(self.targets_, "target_names_in_")
        check.require_same_targets(targets, names_of(self.targets_), named=named)

    signs_ = _of_targets("signs_", "Sign with which each target enters its group's mean.")
    target_names_in_ = _of_targets("target_names_in_", "Names of the targets, where they had any.")
