"""Whether a model that was read can be used: it is asked for one prediction, and one reason.

Its state was set without its constructor, so a file that was changed by hand may hold arrays that
are sound each by itself and do not go together. A list of what belongs together would never be
whole; predicting is what it is for.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from joblib import parallel_config
from sklearn.base import BaseEstimator

from ctfa.core.types import FloatArray
from ctfa.persistence._classes import OF_SKLEARN
from ctfa.persistence._errors import PersistenceError, damaged

#: Linear models of scikit-learn whose predictions are ``X @ coef_.T + intercept_``. Thirty thousand
#: of them are looked at, because asking each would take as long as reading them.
LINEAR = {*OF_SKLEARN["sklearn.linear_model"].split(), "LinearSVR"} - {"RANSACRegressor"}
#: Others that take any row of finite numbers and make no more of it than their arrays hold. Not
#: those that may refuse a row which is made up (encoders, logarithms), nor those whose options say
#: how much they make of it (polynomials, unions): of a hostile file they could ask for anything.
TRIED = LINEAR | {
    "DummyRegressor",
    "KNeighborsRegressor",
    "KernelRidge",
    "MaxAbsScaler",
    "MinMaxScaler",
    "Normalizer",
    "Nystroem",
    "PCA",
    "PLSRegression",
    "Pipeline",
    "QuantileTransformer",
    "RANSACRegressor",
    "RBFSampler",
    "RobustScaler",
    "SimpleImputer",
    "StandardScaler",
    "TruncatedSVD",
    "VarianceThreshold",
}


def try_out(model: Any) -> None:
    """Refuse a fitted model that cannot predict, or cannot say why."""
    if type(model).__name__ == "LabelledFit":
        try_out(model.estimator)
        if model.plan is not None:
            _used(str, model)
    elif "partition_" in vars(model) or "targets_" in vars(model):
        _used(_USES.get(type(model).__name__, _nothing), model)


def _used(use: Any, model: Any) -> None:
    # No workers, whatever the file says of them, and no warnings about rows that are made up.
    with (
        warnings.catch_warnings(),
        np.errstate(all="ignore"),
        parallel_config(backend="sequential"),
    ):
        warnings.simplefilter("ignore")
        try:
            use(model)
        except (PersistenceError, MemoryError):
            raise
        except ImportError:  # of the library its predictions are handed back in
            return
        except Exception as error:
            what = f"{type(error).__name__}: {error}".rstrip(".")
            raise damaged(f"its model cannot be used ({what})") from error


def _nothing(model: Any) -> None:
    pass


def _targets(model: Any) -> None:
    n = model.partition_.n_variables
    columns = _baseline(model)
    _require_finite(model.transform(_table(model, n, "target_names_in_"), baseline=columns))
    groups = np.zeros((1, model.n_groups_))
    _require_finite(model.inverse_transform(groups, baseline=columns))
    _texts(model.get_group_names_out())


def _features(model: Any) -> None:
    _require_finite(model.transform(np.zeros((1, model.partition_.n_variables))))
    _require_finite(model.inverse_transform(np.zeros((1, model.n_groups_))))
    _texts(model.get_feature_names_out())


def _shared_inputs(model: Any) -> None:
    widths = [features.partition_.n_groups for features in model.features_]
    _try_regressors(model.regressors_, widths)
    tried = copy.copy(model)
    tried.regressors_ = [_Zeros()] * len(widths)
    singles = model._singles
    if singles is not None and singles.targets.size:
        n_own = singles.targets.size
        outputs = [n_own] if len(singles.models) == 1 else [1] * n_own
        _try_regressors(singles.models, [model.n_features_in_] * len(outputs), outputs)
        tried._singles = singles._replace(models=[_Zeros(n_own)])
    inputs = np.zeros((1, model.n_features_in_))
    _require_finite(tried.predict(inputs, baseline=_baseline(model.targets_)))
    _names(model)


def _own_inputs(model: Any) -> None:
    models = model._models
    widths = [features.partition_.n_groups for features in models.features]
    _try_regressors(models.regressors, widths)
    tried = copy.copy(model)
    tried._models = models._replace(regressors=[_Zeros()] * len(widths))
    # As wide as the columns that are used: how many there were beside them is only said.
    tried.n_features_in_ = int(model.layout_.max(initial=0)) + 1
    vars(tried).pop("feature_names_in_", None)
    inputs = np.zeros((1, tried.n_features_in_))
    _require_finite(tried.predict(inputs, baseline=_baseline(model.targets_)))
    _names(model)


def _own_rows(model: Any) -> None:
    widths = [features.partition_.n_groups for features in model.features_]
    _try_regressors(model.regressors_, widths)
    inputs, task = np.zeros((1, model.n_features_in_)), np.empty(1, dtype=object)
    if model.unseen == "global":
        _try_regressors([model.global_regressor_], [model.n_features_in_])
    if model.unseen == "nearest":
        _require(0 <= model._nearest.group_of(inputs[0]) < len(widths))
        _require(len(model._nearest.means) == len(widths))
    tried = copy.copy(model)
    tried.regressors_ = [_Zeros()] * len(widths)
    task[0] = model._ids[0]
    _require_finite(tried.predict(inputs, task))
    _texts(model._names)
    str(tried.why(model._ids[0]))


def _names(model: Any) -> None:
    """Ask what says the names of targets and features, and why the first target is where it is."""
    _texts(model.targets_._names)
    _texts(model.targets_.get_group_names_out())
    for features in model.features_:
        names = getattr(features, "feature_names_in_", None)
        _require(names is None or np.shape(names) == (features.partition_.n_variables,))
    str(model.why(0))


def _try_regressors(
    regressors: Sequence[Any], widths: Sequence[int], outputs: Sequence[int] | None = None
) -> None:
    """Refuse regressors that do not give finite numbers, as many as they should."""
    outputs = [1] * len(widths) if outputs is None else outputs
    for regressor, width, n_outputs in zip(regressors, widths, outputs, strict=True):
        if type(regressor).__name__ in LINEAR:
            _look_at_linear(regressor, width, n_outputs)
        else:
            _require(hasattr(regressor, "predict"))
            if all(type(part).__name__ in TRIED for part in _parts(regressor)):
                _require_options(regressor, n_outputs)
                found = np.asarray(regressor.predict(np.zeros((2, width))))
                _require(found.size == 2 * n_outputs)
                _require_finite(found)


def _look_at_linear(regressor: Any, width: int, n_outputs: int) -> None:
    coef, level = regressor.coef_, regressor.intercept_
    shapes = ((width,), (1, width)) if n_outputs == 1 else ((n_outputs, width),)
    _require(isinstance(coef, np.ndarray) and coef.dtype.kind == "f" and coef.shape in shapes)
    if type(level) is not float:
        level = np.asarray(level)
        _require(level.dtype.kind in "fi" and level.shape in ((), (1,), (n_outputs,)))
        level = level.sum()
    _require(np.isfinite(level) and (np.isfinite(coef.sum()) or np.isfinite(coef).all()))
    known = vars(regressor).get("n_features_in_", width)
    _require(type(known) is int and known == width)


def _require_options(regressor: Any, n_outputs: int) -> None:
    """Refuse numbers that say how much is made, where no array does."""
    for part in _parts(regressor):
        kind = type(part).__name__
        _require(isinstance(vars(part).get("n_jobs"), (int, type(None))))
        if kind == "DummyRegressor":
            _require(part.n_outputs_ == n_outputs)
        if kind == "KNeighborsRegressor":
            n_known = part._fit_X.shape[0]
            _require(type(part.n_neighbors) is int and 1 <= part.n_neighbors <= n_known)
            _require(part.n_samples_fit_ == n_known == len(part._y))
            _require_finite(part._fit_X)
            _require_finite(part._y)


def _parts(value: Any) -> Iterator[Any]:
    """A regressor and every estimator within it."""
    if isinstance(value, BaseEstimator):
        yield value
        yield from _parts(list(vars(value).values()))
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from _parts(entry)


class _Zeros:
    """In the place of regressors that were tried already."""

    def __init__(self, n_outputs: int = 1) -> None:
        self._n_outputs = n_outputs

    def predict(self, inputs: FloatArray) -> FloatArray:
        return np.zeros((inputs.shape[0], self._n_outputs))


def _baseline(targets: Any) -> FloatArray | None:
    """A row of the baseline's columns, where fit had one."""
    means = targets.baseline_means_
    return None if means is None else np.asarray(means, dtype=np.float64).reshape(1, -1)


def _table(model: Any, n_columns: int, names: str) -> Any:
    """A row of zeros, named as the data of fit were."""
    row = np.zeros((1, n_columns))
    if names not in vars(model):
        return row
    import pandas  # noqa: PLC0415 - only models of data frames need it

    return pandas.DataFrame(row, columns=model._labels)


def _texts(names: Any) -> None:
    _require(all(isinstance(name, str) for name in names))


def _require_finite(values: Any) -> None:
    _require(np.isfinite(np.asarray(values, dtype=np.float64)).all())


def _require(holds: Any) -> None:
    if not holds:
        raise damaged("its model would predict nothing, or no finite numbers")


_USES = {
    "TargetAggregator": _targets,
    "FeatureAggregator": _features,
    "CTFARegressor": _shared_inputs,
    "CTFARegressorCV": _shared_inputs,
    "MultiInputCTFARegressor": _own_inputs,
    "PooledCTFARegressor": _own_rows,
}
