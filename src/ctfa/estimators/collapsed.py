"""A fitted model with linear regressors as one table of coefficients in the units of its data."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn import linear_model, preprocessing
from sklearn.pipeline import Pipeline
from sklearn.svm import LinearSVR

from ctfa import _reading as check
from ctfa._errors import InputError
from ctfa.core.types import FloatArray
from ctfa.estimators.models import mean_of_groups
from ctfa.estimators.view import FittedGroups

#: Regressors whose prediction is ``X @ coef_ + intercept_``.
LINEAR_NAMES = (
    "ARDRegression BayesianRidge ElasticNet ElasticNetCV HuberRegressor Lars LarsCV Lasso LassoCV "
    "LassoLars LassoLarsCV LassoLarsIC LinearRegression OrthogonalMatchingPursuit "
    "OrthogonalMatchingPursuitCV QuantileRegressor Ridge RidgeCV SGDRegressor TheilSenRegressor"
)
LINEAR = (LinearSVR, *(getattr(linear_model, name) for name in LINEAR_NAMES.split()))
#: Numbers in the table at most: a gigabyte.
LARGEST = 2**27
#: What a collapsed model may differ by from the model itself, in units of the largest term.
ROUNDING = 1e-9


class Collapsed(NamedTuple):
    """``X @ coef.T + intercept``: every target from the columns of ``X``, in their own units.

    ``collapse`` returns it.

    Attributes
    ----------
    coef : array of shape (n_targets, n_features)
        The weight of each column of ``X`` in each target.
    intercept : array of shape (n_targets,)
        What each target has where all columns are zero.
    feature_names : tuple of str
        Names of the columns of ``X``.
    target_names : tuple of str
        Names of the targets.

    Examples
    --------
    >>> from ctfa import CTFARegressor
    >>> from ctfa.datasets import make_paper_synthetic
    >>> from ctfa.persistence import collapse
    >>> X, Y = make_paper_synthetic(n_samples=150, n_features=20, n_targets=6, random_state=0)
    >>> table = collapse(CTFARegressor().fit(X, Y))
    >>> table.predict(X[:2]).shape
    (2, 6)
    """

    coef: FloatArray
    intercept: FloatArray
    feature_names: tuple[str, ...]
    target_names: tuple[str, ...]

    def predict(self, X: Any) -> FloatArray:
        """Predict every target.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Without missing values.

        Returns
        -------
        array of shape (n_samples, n_targets)
        """
        return np.asarray(np.asarray(X, dtype=float) @ self.coef.T + self.intercept)


def collapse(model: Any) -> Collapsed:
    """Write a fitted model with linear regressors as one table of coefficients.

    Means of features, scales, offsets and signs of targets, and what ``head="levels"`` mixes in are
    all linear, so that a target is a weighted sum of the columns of ``X``: in their own units, for
    rows without missing values.

    Parameters
    ----------
    model : CTFARegressor, CTFARegressorCV, MultiInputCTFARegressor or PooledCTFARegressor
        Fitted, with linear models of scikit-learn as regressors, or pipelines of scalers before
        them. Of a ``PooledCTFARegressor`` each row of the table is a task.

    Returns
    -------
    Collapsed
        ``coef`` of shape (n_targets, n_features), ``intercept``, ``feature_names`` and
        ``target_names``. The model is asked a few rows: what is not linear is refused.

    Examples
    --------
    >>> import numpy as np
    >>> from ctfa import CTFARegressor
    >>> from ctfa.datasets import make_paper_synthetic
    >>> from ctfa.persistence import collapse
    >>> X, Y = make_paper_synthetic(n_samples=150, n_features=20, n_targets=6, random_state=0)
    >>> model = CTFARegressor().fit(X, Y)
    >>> table = collapse(model)
    >>> table.coef.shape
    (6, 20)
    >>> bool(np.allclose(X @ table.coef.T + table.intercept, model.predict(X)))
    True
    """
    if not (hasattr(type(model), "__ctfa_view__") and hasattr(model, "predict")):
        raise TypeError(
            f"collapse was given a {type(model).__name__}: give a fitted CTFARegressor, "
            "MultiInputCTFARegressor or PooledCTFARegressor."
        )
    fitted = FittedGroups.of(model)
    if getattr(fitted.aggregator, "confounds_means_", None) is not None:
        raise InputError(
            "the model was fitted with confounds",
            ", so that its predictions depend on more than the columns of X: use predict, or take "
            "the confounds off the data before fit.",
        )
    n_targets, n_features = fitted.partition.n_variables, int(model.n_features_in_)
    if n_targets * n_features > LARGEST:
        raise InputError(
            f"{n_targets} targets of {n_features} columns make a table of "
            f"{n_targets * n_features:,} coefficients, more than {LARGEST:,}: use predict, or the "
            "coefficients of regressors_, one per group."
        )
    found = _affine(fitted)
    names = getattr(model, "feature_names_in_", [f"x{k}" for k in range(n_features)])
    named = tuple(map(str, names)), tuple(fitted.names)
    table = Collapsed(np.ascontiguousarray(found[:, :-1]), found[:, -1].copy(), *named)
    _require_agreement(fitted, table)
    return table


def _affine(fitted: FittedGroups) -> FloatArray:
    """Coefficients and, in the last column, intercepts: ``(L, D + 1)``."""
    groups = _groups(fitted.model)
    if fitted.own_inputs:
        return _own_inputs(fitted, groups, int(fitted.model.n_features_in_))
    served = np.concatenate(groups)[fitted.partition.labels]
    return (_own_rows if fitted.own_rows else _shared)(fitted, served)


def _groups(model: Any) -> list[FloatArray]:
    """The groups' models, functions of means of features, as functions of the features: a row."""
    groups = []
    for at, features in enumerate(model.features_):
        reduced = _linear(model.regressors_[at], f"regressors_[{at}]")
        coef = features.partition_.share_out(reduced[:, :-1])
        groups.append(np.column_stack((coef, reduced[:, -1])))
    return groups


def coefficients(fitted: FittedGroups) -> tuple[FloatArray, FloatArray]:
    """Coefficients and intercepts in the units of the data; of what confounds leave.

    Where targets share their inputs the model is not asked whether it agrees.
    """
    is_less = getattr(fitted.aggregator, "confounds_means_", None) is not None
    if fitted.shares != "mean" and not (fitted.own_inputs and is_less):
        table = collapse(fitted.model)
        return table.coef, table.intercept
    found = _affine(fitted)
    return np.ascontiguousarray(found[:, :-1]), found[:, -1].copy()


def group_coefficients(fitted: FittedGroups) -> FloatArray:
    """Coefficients of the groups' models alone, in the units that targets were merged in.

    By slot where targets have inputs of their own; NaN for a slot the group does not have.
    """
    groups = _groups(fitted.model)
    coef = np.full((len(groups), len(fitted.features)), np.nan)
    for at, group in enumerate(groups):
        coef[at, fitted.columns(at)] = group[0, :-1]
    return np.asarray(coef + fitted.group_steps)


def _shared(fitted: FittedGroups, served: FloatArray) -> FloatArray:
    targets, signs = fitted.aggregator, fitted.aggregator.signs_[:, None]
    known = fitted.partition, targets.signs_, targets.target_weight_
    whole = _mixed(served * signs, fitted, known=known)
    added = fitted.parts["deviations"]
    if added is not None:
        slopes = added.group[fitted.partition.labels] + added.own
        level = added.level - slopes @ added.centre
        whole = whole + np.column_stack((slopes, level)) * signs
    return _in_own_units(whole, targets)


def _mixed(
    whole: FloatArray, fitted: FittedGroups, levels: FloatArray | None = None, known: Any = None
) -> FloatArray:
    """Models of targets' own mixed in; ``levels`` are added to what these say.

    ``known`` are the groups, by whose members' models they may be served, too.
    """
    singles = fitted.parts["single_models"]
    if singles is None or not singles.targets.size:
        return whole
    of = singles.targets
    models = [_linear(single, "a target's own model") for single in singles.models]
    own = np.concatenate(models).reshape(of.size, whole.shape[1])
    if levels is not None:
        own[:, -1] += levels[of]
    mixed = whole.copy()
    if singles.share < 1.0 and known is not None:
        every = whole.copy()
        every[of] = own
        mixed += (1.0 - singles.share) * (mean_of_groups(known, every.T).T - whole)
    share = fitted.model.trust_[of][:, None]
    mixed[of] = share * mixed[of] + (1.0 - share) * own
    return mixed


def _own_inputs(fitted: FittedGroups, groups: Sequence[FloatArray], width: int) -> FloatArray:
    models, steps = fitted.parts["group_models"], fitted.parts["deviations"]
    units, targets = fitted.parts["units"], fitted.aggregator
    has, layout, partition = models.has, fitted.model.layout_, fitted.partition
    n_targets, n_slots = layout.shape
    whole = np.zeros((n_targets, width + 1))
    coef, intercept = whole[:, :-1], whole[:, -1]
    weights = getattr(targets, "target_weight_", None)
    present = has * 1.0 if weights is None else has * weights[:, None]
    # A column in the units of its series, which its coefficient is to be divided by.
    scale, shift = 1.0 / units.scales[:, :-1], -units.offsets[:, :-1] / units.scales[:, :-1]
    for at, members in enumerate(partition.groups):
        slopes = np.zeros(n_slots)
        slopes[models.slots[at]] = groups[at][0, :-1]
        intercept[members] = groups[at][0, -1]
        if models.aggregate == "mean":
            # Every member is predicted from the mean inputs of all.
            total = present[members].sum(axis=0)
            shares = present[members] * (slopes / np.where(total > 0.0, total, 1.0))
            row = np.zeros(width)
            _add(row, layout[members], shares * scale[members])
            coef[members] += row
            intercept[members] += float((shares * shift[members]).sum())
            continue
        centre = models.centre[members]
        for member, own in zip(members.tolist(), centre, strict=True):
            share = np.where(has[member], slopes, 0.0)
            _add(coef[member], layout[member], share * scale[member])
            intercept[member] += share @ (shift[member] - own[:-1]) + own[-1]
    for target in np.flatnonzero(steps.coef.any(axis=1)).tolist():
        share = np.where(steps.has[target], steps.coef[target], 0.0)
        _add(coef[target], layout[target], share * scale[target])
        intercept[target] += share @ (shift[target] - steps.centre[target])
    return _in_own_units(whole, targets)


def _own_rows(fitted: FittedGroups, served: FloatArray) -> FloatArray:
    own, levels, whole = fitted.parts["slopes"], fitted.parts["levels"], served.copy()
    whole[:, -1] += fitted.model.offsets_
    if levels is not None:
        whole[:, -1] += levels.group[fitted.partition.labels]
        return _mixed(whole, fitted, levels.own)
    whole[:, :-1] += own
    whole[:, -1] -= np.einsum("ij,ij->i", own, fitted.parts["task_means"])
    return whole


def _add(row: FloatArray, columns: Any, values: FloatArray) -> None:
    """Add to columns that may be named twice; -1 for slots the target does not have."""
    known = columns >= 0
    np.add.at(row, columns[known], values[known])


def _in_own_units(whole: FloatArray, targets: Any) -> FloatArray:
    found = whole * targets.scales_[:, None]
    found[:, -1] += targets.offsets_
    return np.asarray(found)


def _linear(regressor: Any, where: str) -> FloatArray:
    """Coefficients and intercept of a fitted regressor; refused where it may not be linear."""
    if isinstance(regressor, Pipeline):
        steps: Sequence[Any] = [step for _, step in regressor.steps]
        found = _linear(steps[-1], where)
        for step in reversed(steps[:-1]):
            if step is not None and step != "passthrough":
                scale, shift = _scaling(step, where)
                coef, level = found[:, :-1], found[:, -1]
                found = np.column_stack((coef * scale, level + coef @ shift))
        return found
    if isinstance(regressor, linear_model.RANSACRegressor):
        return _linear(regressor.estimator_, where)
    if not isinstance(regressor, LINEAR):
        raise _not_linear(regressor, where)
    coef = np.atleast_2d(np.asarray(regressor.coef_, dtype=float))
    level = np.ravel(np.asarray(regressor.intercept_, dtype=float))
    return np.column_stack((coef, np.broadcast_to(level, len(coef))))


def _scaling(step: Any, where: str) -> tuple[FloatArray, FloatArray]:
    """Scale and shift of a transformer of single columns: ``x * scale + shift``."""
    if isinstance(step, preprocessing.MinMaxScaler) and not step.clip:
        return step.scale_, step.min_
    if isinstance(step, preprocessing.MaxAbsScaler) and not getattr(step, "clip", False):
        return 1.0 / step.scale_, np.zeros(step.scale_.size)
    if isinstance(step, (preprocessing.StandardScaler, preprocessing.RobustScaler)):
        scale = np.ones(step.n_features_in_) if step.scale_ is None else 1.0 / step.scale_
        if isinstance(step, preprocessing.StandardScaler):
            centre = step.mean_ if step.with_mean else 0.0  # known but not taken off
        else:
            centre = step.center_ if step.with_centering else 0.0
        return scale, -centre * scale
    raise _not_linear(step, where)


def _not_linear(part: Any, where: str) -> InputError:
    return InputError(
        f"{where} has a {type(part).__name__}, which is not known to be linear",
        ", so the model is not a table of coefficients: use a linear model of scikit-learn (a "
        "Pipeline may scale its features first), or keep the model with ctfa.persistence.save.",
    )


def _require_agreement(fitted: FittedGroups, table: Collapsed) -> None:
    """Ask the model itself: options that are not linear must not pass for ones that are."""
    rows = np.random.default_rng(0).normal(size=(3, table.coef.shape[1]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows without names
        predict = fitted.model.predict
        if fitted.own_rows:
            ids = fitted.parts["task_ids"]
            some = np.unique(np.linspace(0, len(ids) - 1, 20).astype(int)).tolist()
            said = np.column_stack([predict(rows, check.as_ids([ids[t]] * 3)) for t in some])
        else:
            some = list(range(table.coef.shape[0]))
            said = np.asarray(predict(rows)).reshape(3, -1)
    size = np.abs(rows) @ np.abs(table.coef[some]).T + np.abs(table.intercept[some])
    apart = np.abs(table.predict(rows)[:, some] - said)
    if not (apart <= ROUNDING * (size + 1.0)).all():
        raise InputError(
            "the model predicts something else than any table of coefficients made of it: an "
            "option of it is not linear; keep the model with ctfa.persistence.save."
        )
