"""Objects of known classes: their state out, and back without calling anything from the file.

Which classes a file may name is a table, and a class joins by a line in it. Its state must be of
kinds that can be saved: the fields of a NamedTuple or a dataclass, the attributes of anything else.
Nothing else is ever imported, called or looked up for a file.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from functools import cache
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.linear_model import LinearRegression, Ridge

from ctfa.core.criteria import FEATURE_CRITERIA, TARGET_CRITERIA, criterion_of
from ctfa.persistence._checks import check_state, check_types, fields_of
from ctfa.persistence._codec import Kind, Place, Reader, Writer, damaged, refused, shown

#: Classes of ctfa, by module. Files call them by their names, or by what stands before a colon:
#: that stays when a class moves.
OURS = {
    "ctfa.estimators.shared": "CTFARegressor",
    "ctfa.estimators.cv": "CTFARegressorCV",
    "ctfa.estimators.multi_input": "MultiInputCTFARegressor",
    "ctfa.estimators.pooled": "PooledCTFARegressor",
    "ctfa.estimators.targets": "TargetAggregator",
    "ctfa.estimators.features": "FeatureAggregator",
    "ctfa.estimators.evidence": "MergeEvidence MergeSummary PooledEvidence Terms",
    "ctfa.estimators.models": "Deviations Nearest OwnModels OwnSteps SingleModels TaskLevels",
    "ctfa.core.calibration": "Calibration Known",
    "ctfa.core.confounds": "Lines",
    "ctfa.core.cut": "CutCurve Price",
    "ctfa.core.members": "Gain",
    "ctfa.core.history": "MergeHistory",
    "ctfa.core.moments": "Moments Summary",
    "ctfa.core.partition": "Partition",
    "ctfa.core.series": "Units",
    "ctfa.core.spaces.pooled": "Pool PooledSpace",
    "ctfa._reading.streaming": "RunningSums TaskSums",
    "ctfa._reading.data": "Targets",
    "ctfa._reading.folds": "BlockedKFold",
    # A layer above: named here, imported only when a file holds one.
    "ctfa.labelled._times": "Baseline:Seasons",
    "ctfa.labelled._form": "Form:DataForm",
    "ctfa.labelled._reading": "Plan Slot",
    "ctfa.labelled._places": "Geometry",
    "ctfa.labelled._result": "LabelledFit",
    "ctfa.labelled._tasks": "Coordinate Coordinates Tasks:LabelledTasks",
    "ctfa.report._material": "Coefficients GroupSeries HeldOut Parts",
}
#: Estimators and splitters of scikit-learn whose state is plain, by public module.
OF_SKLEARN = {
    "sklearn.linear_model": (
        "ARDRegression BayesianRidge ElasticNet ElasticNetCV HuberRegressor Lars LarsCV Lasso "
        "LassoCV LassoLars LassoLarsCV LassoLarsIC LinearRegression OrthogonalMatchingPursuit "
        "OrthogonalMatchingPursuitCV QuantileRegressor RANSACRegressor Ridge RidgeCV "
        "TheilSenRegressor"
    ),
    "sklearn.preprocessing": (
        "FunctionTransformer MaxAbsScaler MinMaxScaler Normalizer OneHotEncoder OrdinalEncoder "
        "PolynomialFeatures PowerTransformer QuantileTransformer RobustScaler SplineTransformer "
        "StandardScaler"
    ),
    "sklearn.model_selection": (
        "GroupKFold GroupShuffleSplit KFold LeaveOneGroupOut LeaveOneOut LeavePGroupsOut LeavePOut "
        "PredefinedSplit ShuffleSplit TimeSeriesSplit"
    ),
    "sklearn.compose": "ColumnTransformer TransformedTargetRegressor",
    "sklearn.cross_decomposition": "PLSRegression",
    "sklearn.decomposition": "PCA TruncatedSVD",
    "sklearn.dummy": "DummyRegressor",
    "sklearn.feature_selection": "VarianceThreshold",
    "sklearn.impute": "SimpleImputer",
    "sklearn.kernel_approximation": "Nystroem RBFSampler",
    "sklearn.kernel_ridge": "KernelRidge",
    "sklearn.neighbors": "KNeighborsRegressor RadiusNeighborsRegressor",
    "sklearn.pipeline": "FeatureUnion Pipeline",
    # Not SVR: its predictions are computed in C from arrays that are trusted to fit together.
    "sklearn.svm": "LinearSVR",
}
#: Where each class is, by the name that files call it.
TABLE = {
    called.partition(":")[0]: (module, called.rpartition(":")[2])
    for module, names in OURS.items()
    for called in names.split()
} | {
    f"{module}.{name}": (module, name)
    for module, names in OF_SKLEARN.items()
    for name in names.split()
}


#: The names of ours among these.
OURS_BY_NAME = frozenset(name for name in TABLE if "." not in name)


def classes() -> tuple[str, ...]:
    """Names of the classes whose objects can be saved.

    Returns
    -------
    tuple of str
        Those of ctfa by their names, those of scikit-learn with their modules.

    Examples
    --------
    >>> from ctfa.persistence import classes
    >>> "sklearn.linear_model.Ridge" in classes()
    True
    """
    return tuple(sorted(TABLE))


def name_of(kind: type) -> str | None:
    """What files call a class; None for one that they do not know."""
    if kind not in _NAMES:
        alike = (name for name, (_, called) in TABLE.items() if called == kind.__qualname__)
        _NAMES[kind] = next((name for name in alike if _resolved(name) is kind), None)
    return _NAMES[kind]


_NAMES: dict[type, str | None] = {}


@cache
def class_named(name: str) -> type:
    """The class that files call so; anything outside the table is refused unseen."""
    kind = _resolved(name) if name in TABLE else None
    if not isinstance(kind, type):
        raise damaged(
            f"it holds an object of the class {shown(name)}, which this version does not know"
        )
    return kind


def _resolved(name: str) -> Any:
    """What the table leads to; None where this version has no such class."""
    module, called = TABLE[name]
    try:
        return getattr(importlib.import_module(module), called, None)
    except ModuleNotFoundError:
        return None


#: What says with which versions a loaded model was saved.
SAVED_WITH = "_saved_with"
#: Fields of ours by the names that they had up to a schema.
RENAMED = {
    3: {
        "baseline": "confounds",
        "baseline_means_": "confounds_means_",
        "baseline_slopes_": "confounds_slopes_",
        "input_baseline": "input_confounds",
    },
    # Attributes, by the names they had then; most have only lost an underscore.
    1: {
        "_centre": "task_means",
        "_column": "task_column",
        "_ids": "task_ids",
        "_input_lines": "input_confounds",
        "_is_vector": "one_target",
        "_labels": "column_labels",
        "_library": "container",
        "_metadata_request": "routing",
        "_models": "group_models",
        "_pooled": "task_evidence",
        "_singles": "single_models",
        "_sklearn_output_config": "output",
        "_steps": "deviations",
    }
    | {
        f"_{name}": name
        for name in (
            "coordinates", "evidence", "metric", "names", "nearest", "pool", "prediction", "root",
            "sums", "units",
        )
    },
}  # fmt: skip
#: What judged merges in files of schemas 1 and 2, where None was least squares for these.
JUDGES = {"ols": LinearRegression, "ridge": Ridge}
LEAST_SQUARES = ("CTFARegressor", "CTFARegressorCV")
#: Fields of files made while sums could be subtracted from, which went by them.
GONE = {"RunningSums": ("largest", "pieces"), "TaskSums": ("most", "largest", "pieces")}


def state_of(value: Any) -> dict[str, Any]:
    """What an object is made of, by name, always in the same order."""
    kind = type(value)
    if hasattr(kind, "__ctfa_fields__"):
        return dict(value.__ctfa_fields__())
    # Of a NamedTuple or a dataclass without cached properties: they follow from the fields.
    return {name: getattr(value, name) for name in fields_of(kind) or sorted(vars(value))}


def _write_object(writer: Writer, value: Any, where: Place) -> Any:
    if getattr(value, "memory", None) is not None:
        raise refused(value.memory, (where, "memory"), ", where results are cached: use None")
    state = {name: writer.write(part, (where, name)) for name, part in state_of(value).items()}
    return {"class": name_of(type(value)), "state": state}


def _read_object(reader: Reader, node: Any, where: Place) -> Any:
    name, kind = node["class"], class_named(node["class"])
    state = {name: reader.read(part, (where, name)) for name, part in node["state"].items()}
    is_estimator = hasattr(kind, "__ctfa_restored__")
    if name in OURS_BY_NAME:
        state = _up_to_date(name, kind, state, reader.schema)
    elif not fields_of(kind):
        _require_attributes(kind, state)
    if fields_of(kind):
        state = _whole(kind, state)
        check_types(kind, state)
    else:
        # Parameters that a later version has added have the value they were given then.
        state = _parameters(kind) | state
    check_state(name, state)
    if is_estimator:
        return kind.__ctfa_restored__(state)  # type: ignore[attr-defined]
    if issubclass(kind, tuple):
        return tuple.__new__(kind, state.values())
    value: Any = object.__new__(kind)
    vars(value).update(state)
    return value


def _up_to_date(name: str, kind: type, state: dict[str, Any], schema: int) -> dict[str, Any]:
    """Fields of an older file as they are called now, and parameters that say what those said."""
    for last, names in RENAMED.items():
        if schema <= last:
            state = {names.get(field, field): part for field, part in state.items()}
    for gone in GONE.get(name, ()):
        state.pop(gone, None)
    if schema < 3:
        # Predictions do not depend on these.
        if state.get("head") == "shrink":
            state["head"] = "levels"
        judge = JUDGES.get(str(state.pop("solver", None)))
        if judge is not None and "regressor" in _parameters(kind):
            state["regressor"] = judge()
        if name in LEAST_SQUARES and state.get("regressor") is None:
            state["regressor"] = LinearRegression()
    return state


def _whole(kind: type, state: dict[str, Any]) -> dict[str, Any]:
    """All fields of a NamedTuple or a dataclass, those that may be left out with their defaults."""
    fields = fields_of(kind)
    known = vars(kind) if dataclasses.is_dataclass(kind) else kind._field_defaults  # type: ignore[attr-defined]
    optional = {name: known[name] for name in fields if name in known}
    wrong = set(state) - set(fields) or set(fields) - set(optional) - set(state)
    if wrong:
        raise damaged(f"{kind.__name__} has too much or too little: {', '.join(sorted(wrong))}")
    return {name: state.get(name, optional.get(name)) for name in fields}


def _require_attributes(kind: type, state: dict[str, Any]) -> None:
    """Refuse for an object of scikit-learn what would take the place of one of its methods."""
    for attribute in state:
        over = getattr(kind, attribute, None)
        if not attribute.isidentifier() or attribute.startswith("__") or callable(over):
            raise damaged(f"{kind.__name__} has no attribute {shown(attribute)}")


@cache
def _parameters(kind: type) -> dict[str, Any]:
    """Parameters of an estimator that have a default."""
    is_estimator = issubclass(kind, BaseEstimator)
    known = inspect.signature(kind).parameters.values() if is_estimator else ()
    return {p.name: p.default for p in known if p.default is not p.empty}


def _criteria() -> dict[str, Any]:
    """Criteria that an estimator of ours may hold, by the name that files call them."""
    registries = TARGET_CRITERIA, FEATURE_CRITERIA
    known = [criterion_of(name, one) for one in registries for name in one]
    losses = [loss for one in known for loss in (one.loss, one.ridge_loss) if loss is not None]
    return {loss.__name__: loss for loss in losses if hasattr(loss, "__name__")}


def _read_criterion(reader: Reader, node: Any, where: Place) -> Any:
    found = _criteria().get(node) if isinstance(node, str) else None
    if found is None:
        raise damaged(f"it holds the criterion {shown(node)}, which this version does not know")
    return found


OBJECTS = (
    Kind("object", lambda v: name_of(type(v)) is not None, _write_object, _read_object, True),
    Kind(
        "criterion",
        lambda v: any(criterion_of(v).loss is loss for loss in _criteria().values()),
        lambda w, v, at: criterion_of(v).loss.__name__,
        _read_criterion,
    ),
)
