"""A fitted model with linear regressors as one table of coefficients in the units of its data."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn import linear_model, preprocessing
from sklearn.pipeline import Pipeline
from sklearn.svm import LinearSVR

from ctfa import _validation as check
from ctfa._errors import InputError
from ctfa.core.types import FloatArray
from ctfa.estimators.models import SingleModels, mean_of_groups
from ctfa.estimators.view import FittedGroups

#: Regressors whose prediction is ``X @ coef_ + intercept_``.
LINEAR_NAMES = (
    "ARDRegression BayesianRidge ElasticNet ElasticNetCV HuberRegressor Lars LarsCV Lasso LassoCV "
    "LassoLars LassoLarsCV LassoLarsIC LinearRegression OrthogonalMatchingPursuit "
    "OrthogonalMatchingPursuitCV QuantileRegressor Ridge RidgeCV SGDRegressor TheilSenRegressor"
)
LINEAR = (
    LinearSVR,
    *(getattr(linear_model, name) for name in LINEAR_NAMES.split()),
)
#: Numbers in the table at most: a gigabyte.
LARGEST = 2**27
#: What a collapsed model may differ by from the model itself, in units of the largest term.
ROUNDING = 1e-9


class Collapsed(NamedTuple):
    """``X @ coef.T + intercept``: every target from the columns of ``X``, in their own units."""

    coef: FloatArray  # (L, D)
    intercept: FloatArray  # (L,)
    feature_names: tuple[str, ...]
    target_names: tuple[str, ...]

    def predict(self, X: Any) -> FloatArray:
        """Every target, ``(n, L)``."""
        return np.asarray(np.asarray(X, dtype=float) @ self.coef.T + self.intercept)


class _Affine(NamedTuple):
    """``x @ coef.T + intercept``; ``(k, d)`` and ``(k,)``."""

    coef: FloatArray
    intercept: FloatArray


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
    groups = _groups(model)
    if fitted.own_inputs:
        found = _own_inputs(fitted, groups, n_features)
    else:
        labels = fitted.partition.labels
        served = _Affine(
            np.stack([group.coef[0] for group in groups])[labels],
            np.array([group.intercept[0] for group in groups])[labels],
        )
        found = (_own_rows if fitted.own_rows else _shared)(fitted, served)
    names = getattr(model, "feature_names_in_", [f"x{k}" for k in range(n_features)])
    table = Collapsed(*found, tuple(map(str, names)), tuple(fitted.names))
    _require_agreement(fitted, table)
    return table


def _groups(model: Any) -> list[_Affine]:
    """The groups' models, functions of means of features, as functions of the features."""
    groups = []
    for at, features in enumerate(model.features_):
        reduced = _linear(model.regressors_[at], f"regressors_[{at}]")
        groups.append(reduced._replace(coef=features.partition_.share_out(reduced.coef)))
    return groups


def coefficients(fitted: FittedGroups) -> tuple[FloatArray, FloatArray]:
    """Coefficients and intercepts in the units of the data; of what confounds leave.

    Where targets share their inputs the model is not asked whether it agrees.
    """
    if fitted.own_inputs and getattr(fitted.aggregator, "confounds_means_", None) is not None:
        found = _own_inputs(fitted, _groups(fitted.model), int(fitted.model.n_features_in_))
        return found.coef, found.intercept
    if fitted.shares != "mean":
        table = collapse(fitted.model)
        return table.coef, table.intercept
    groups, labels = _groups(fitted.model), fitted.partition.labels
    coef = np.stack([group.coef[0] for group in groups])
    level = np.array([group.intercept[0] for group in groups])
    found = _shared(fitted, _Affine(coef[labels], level[labels]))
    return found.coef, found.intercept


def group_coefficients(fitted: FittedGroups) -> FloatArray:
    """Coefficients of the groups' models alone, in the units that targets were merged in.

    By slot where targets have inputs of their own; NaN for one that a group has not.
    """
    groups = _groups(fitted.model)
    coef = np.full((len(groups), len(fitted.features)), np.nan)
    for at, group in enumerate(groups):
        coef[at, fitted.columns(at)] = group.coef[0]
    return np.asarray(coef + fitted.group_steps)


def _shared(fitted: FittedGroups, served: _Affine) -> _Affine:
    targets, singles = fitted.aggregator, fitted.parts["single_models"]
    coef, intercept = served.coef * targets.signs_[:, None], served.intercept * targets.signs_
    known = fitted.partition, targets.signs_, targets.target_weight_
    _mix(coef, intercept, singles, fitted.model.trust_, known=known)
    added = fitted.parts["deviations"]
    if added is not None:
        slopes = (added.group[fitted.partition.labels] + added.own) * targets.signs_[:, None]
        coef = coef + slopes
        intercept = intercept + added.level * targets.signs_ - slopes @ added.centre
    return _in_own_units(_Affine(coef, intercept), targets.offsets_, targets.scales_)


def _mix(
    coef: FloatArray,
    intercept: FloatArray,
    singles: SingleModels | None,
    trust: FloatArray,
    levels: FloatArray | None = None,
    known: Any = None,
) -> None:
    """Mix models of targets' own in, in place; ``levels`` are added to what these say.

    ``known`` are the groups, by whose members' models they may be served, too.
    """
    if singles is None or not singles.targets.size:
        return
    models = [_linear(single, "a target's own model") for single in singles.models]
    of = singles.targets
    share = trust[of]
    own = np.concatenate([single.coef for single in models]).reshape(of.size, coef.shape[1])
    level = np.concatenate([single.intercept for single in models])
    level = level if levels is None else level + levels[of]
    if singles.share < 1.0 and known is not None:
        whole = np.column_stack((coef, intercept))
        every = whole.copy()
        every[of] = np.column_stack((own, level))
        whole += (1.0 - singles.share) * (mean_of_groups(known, every.T).T - whole)
        coef[:], intercept[:] = whole[:, :-1], whole[:, -1]
    coef[of] = share[:, None] * coef[of] + (1.0 - share)[:, None] * own
    intercept[of] = share * intercept[of] + (1.0 - share) * level


def _own_inputs(fitted: FittedGroups, groups: Sequence[_Affine], width: int) -> _Affine:
    models, steps = fitted.parts["group_models"], fitted.parts["deviations"]
    units, targets = fitted.parts["units"], fitted.aggregator
    has, layout, partition = models.has, fitted.model.layout_, fitted.partition
    n_targets, n_slots = layout.shape
    coef, intercept = np.zeros((n_targets, width)), np.zeros(n_targets)
    weights = getattr(targets, "target_weight_", None)
    present = has * 1.0 if weights is None else has * weights[:, None]
    # A column in the units of its series, which its coefficient is to be divided by.
    scale, shift = 1.0 / units.scales[:, :-1], -units.offsets[:, :-1] / units.scales[:, :-1]
    for at, members in enumerate(partition.groups):
        slopes = np.zeros(n_slots)
        slopes[models.slots[at]] = groups[at].coef[0]
        intercept[members] = groups[at].intercept[0]
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
    return _in_own_units(_Affine(coef, intercept), targets.offsets_, targets.scales_)


def _own_rows(fitted: FittedGroups, served: _Affine) -> _Affine:
    own, level = fitted.parts["slopes"], served.intercept + fitted.model.offsets_
    levels = fitted.parts["levels"]
    if levels is not None:
        coef, level = served.coef.copy(), level + levels.group[fitted.partition.labels]
        _mix(coef, level, fitted.parts["single_models"], fitted.model.trust_, levels.own)
        return _Affine(coef, level)
    level = level - np.einsum("ij,ij->i", own, fitted.parts["task_means"])
    return _Affine(served.coef + own, level)


def _add(row: FloatArray, columns: Any, values: FloatArray) -> None:
    """Add to columns that may be named twice; those that a target has not are -1."""
    known = columns >= 0
    np.add.at(row, columns[known], values[known])


def _in_own_units(units: _Affine, offsets: FloatArray, scales: FloatArray) -> _Affine:
    return _Affine(units.coef * scales[:, None], units.intercept * scales + offsets)


def _linear(regressor: Any, where: str) -> _Affine:
    """A fitted regressor as coefficients; refused where it is not known to be linear."""
    if isinstance(regressor, Pipeline):
        steps: Sequence[Any] = [step for _, step in regressor.steps]
        found = _linear(steps[-1], where)
        for step in reversed(steps[:-1]):
            if step is not None and step != "passthrough":
                scale, shift = _scaling(step, where)
                found = _Affine(found.coef * scale, found.intercept + found.coef @ shift)
        return found
    if isinstance(regressor, linear_model.RANSACRegressor):
        return _linear(regressor.estimator_, where)
    if not isinstance(regressor, LINEAR):
        raise _not_linear(regressor, where)
    coef = np.atleast_2d(np.asarray(regressor.coef_, dtype=float))
    level = np.ravel(np.asarray(regressor.intercept_, dtype=float))
    return _Affine(coef, np.broadcast_to(level, coef.shape[0]))


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
