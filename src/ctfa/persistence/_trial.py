"""Whether a model that was read can be used: it is asked for one prediction, and one reason.

Its state was set without its constructor, so a file that was changed by hand may hold arrays that
are sound each by itself and do not go together. A list of what belongs together would never be
whole; predicting is what it is for.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from joblib import parallel_config
from sklearn.base import BaseEstimator

from ctfa.core.types import FloatArray
from ctfa.estimators import collapsed
from ctfa.persistence._codec import PersistenceError, damaged

State = dict[str, Any]

#: Linear models of scikit-learn whose predictions are ``X @ coef_.T + intercept_``. Thirty thousand
#: of them are looked at, because asking each would take as long as reading them.
LINEAR = {kind.__name__ for kind in collapsed.LINEAR}
#: Others that take any row of finite numbers and make no more of it than their arrays hold. Not
#: those that may refuse a row which is made up (encoders, logarithms), nor those whose options say
#: how much they make of it (polynomials, unions): of a hostile file they could ask for anything.
HARMLESS = (
    "DummyRegressor KNeighborsRegressor KernelRidge MaxAbsScaler MinMaxScaler Normalizer Nystroem "
    "PCA PLSRegression Pipeline QuantileTransformer RANSACRegressor RBFSampler RobustScaler "
    "SimpleImputer StandardScaler TruncatedSVD VarianceThreshold"
)
TRIED = LINEAR | set(HARMLESS.split())


def try_out(model: Any) -> None:
    """Refuse a fitted model that cannot predict, or cannot say why."""
    if type(model).__name__ == "LabelledFit":
        try_out(model.estimator)
        if model.plan is not None:
            _used(str, model)
    elif type(model).__name__ in _USES:
        fields = model.__ctfa_fields__()
        if "partition_" in fields or "targets_" in fields:
            _used(_USES[type(model).__name__], model, fields)


def _used(use: Any, *model: Any) -> None:
    # No workers, whatever the file says of them, and no warnings about rows that are made up.
    with (
        warnings.catch_warnings(),
        np.errstate(all="ignore"),
        parallel_config(backend="sequential"),
    ):
        warnings.simplefilter("ignore")
        try:
            use(*model)
        except (PersistenceError, MemoryError):
            raise
        except ImportError:  # of the library its predictions are handed back in
            return
        except Exception as error:
            what = f"{type(error).__name__}: {error}".rstrip(".")
            raise damaged(f"its model cannot be used ({what})") from error


def _phase(model: Any, fields: State) -> None:
    """Ask either phase to reduce a row, and to spread it again."""
    row: Any = np.zeros((1, model.partition_.n_variables))
    of_targets = hasattr(model, "get_group_names_out")
    if "target_names_in_" in fields:
        import pandas  # noqa: PLC0415 - only models of data frames need it

        row = pandas.DataFrame(row, columns=fields["column_labels"])
    known = {"confounds": _confounds(model)} if of_targets else {}
    _require_finite(model.transform(row, **known))
    _require_finite(model.inverse_transform(np.zeros((1, model.n_groups_)), **known))
    _texts(model.get_group_names_out() if of_targets else model.get_feature_names_out())


def _shared_inputs(model: Any, fields: State) -> None:
    silent = _silenced(model.features_, model.regressors_)
    singles = fields["single_models"]
    if singles is not None and singles.targets.size:
        n_own = singles.targets.size
        outputs = [n_own] if len(singles.models) == 1 else [1] * n_own
        _try_regressors(singles.models, [model.n_features_in_] * len(outputs), outputs)
        silent["single_models"] = singles._replace(models=[_Zeros(n_own)])
    _predicts(model, fields | silent, model.n_features_in_)


def _own_inputs(model: Any, fields: State) -> None:
    models = fields["group_models"]
    silent = _silenced(models.features, models.regressors)
    silent["group_models"] = models._replace(regressors=silent["regressors_"])
    # As wide as the columns that are used: how many there were beside them is only said.
    width = silent["n_features_in_"] = int(model.layout_.max(initial=0)) + 1
    named = {name: value for name, value in fields.items() if name != "feature_names_in_"}
    _predicts(model, named | silent, width)


def _own_rows(model: Any, fields: State) -> None:
    silent = _silenced(model.features_, model.regressors_)
    n_groups = len(model.regressors_)
    inputs, task = np.zeros((1, model.n_features_in_)), np.empty(1, dtype=object)
    if model.unseen == "global":
        _try_regressors([model.global_regressor_], [model.n_features_in_])
    if model.unseen == "nearest":
        nearest = fields["nearest"]
        _require(0 <= nearest.group_of(inputs[0]) < n_groups == len(nearest.means))
    tried = type(model).__ctfa_restored__(fields | silent)
    task[0] = fields["task_ids"][0]
    _require_finite(tried.predict(inputs, task))
    _texts(fields["names"])
    str(tried.why(task[0]))


def _silenced(features: Sequence[Any], regressors: Sequence[Any]) -> dict[str, Any]:
    """What takes the place of the regressors of groups, once these were tried."""
    widths = [one.partition_.n_groups for one in features]
    _try_regressors(regressors, widths)
    return {"regressors_": [_Zeros()] * len(widths)}


def _predicts(model: Any, fields: State, width: int) -> None:
    """Ask for a row, the names of targets and features, and why the first target is where it is."""
    tried = type(model).__ctfa_restored__(fields)
    _require_finite(tried.predict(np.zeros((1, width)), confounds=_confounds(model.targets_)))
    _texts(model.targets_.__ctfa_fields__()["names"])
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
            rows, values = vars(part)["_fit_X"], vars(part)["_y"]
            n_known = rows.shape[0]
            _require(type(part.n_neighbors) is int and 1 <= part.n_neighbors <= n_known)
            _require(part.n_samples_fit_ == n_known == len(values))
            _require_finite(rows)
            _require_finite(values)


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


def _confounds(targets: Any) -> FloatArray | None:
    """A row of the confounds' columns, where fit had one."""
    means = targets.confounds_means_
    return None if means is None else np.asarray(means, dtype=np.float64).reshape(1, -1)


def _texts(names: Any) -> None:
    _require(all(isinstance(name, str) for name in names))


def _require_finite(values: Any) -> None:
    _require(np.isfinite(np.asarray(values, dtype=np.float64)).all())


def _require(holds: Any) -> None:
    if not holds:
        raise damaged("its model would predict nothing, or no finite numbers")


_USES = {
    "TargetAggregator": _phase,
    "FeatureAggregator": _phase,
    "CTFARegressor": _shared_inputs,
    "CTFARegressorCV": _shared_inputs,
    "MultiInputCTFARegressor": _own_inputs,
    "PooledCTFARegressor": _own_rows,
}
