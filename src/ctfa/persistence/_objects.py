"""Objects of known classes: their state out, and back without calling anything from the file.

Which classes a file may name is a table, and a class joins by a line in it. Its state must be of
kinds that can be saved: the fields of a NamedTuple or a dataclass, the attributes of anything else.
Nothing else is ever imported, called or looked up for a file.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Sequence
from functools import cache
from typing import Any

from sklearn.base import BaseEstimator

from ctfa.core.criteria import FEATURE_CRITERIA, TARGET_CRITERIA, criterion_of
from ctfa.persistence._checks import check_state, check_types
from ctfa.persistence._codec import Kind, Place, Reader, Writer, damaged, refused, shown

#: Classes of ctfa, by the name that files call them: it stays when a class moves.
OURS = {
    "CTFARegressor": "ctfa.estimators.shared:CTFARegressor",
    "CTFARegressorCV": "ctfa.estimators.cv:CTFARegressorCV",
    "MultiInputCTFARegressor": "ctfa.estimators.multi_input:MultiInputCTFARegressor",
    "PooledCTFARegressor": "ctfa.estimators.pooled:PooledCTFARegressor",
    "TargetAggregator": "ctfa.estimators.targets:TargetAggregator",
    "FeatureAggregator": "ctfa.estimators.features:FeatureAggregator",
    "Partition": "ctfa.core.partition:Partition",
    "MergeHistory": "ctfa.core.history:MergeHistory",
    "CutCurve": "ctfa.core.cut:CutCurve",
    "Gain": "ctfa.core.gains:Gain",
    "Lines": "ctfa.core.baseline:Lines",
    "Units": "ctfa.core.series:Units",
    "Pool": "ctfa.core.spaces.pooled:Pool",
    "PooledSpace": "ctfa.core.spaces.pooled:PooledSpace",
    "MergeEvidence": "ctfa.estimators.evidence:MergeEvidence",
    "MergeSummary": "ctfa.estimators.evidence:MergeSummary",
    "Terms": "ctfa.estimators.evidence:Terms",
    "RunningSums": "ctfa._streaming:RunningSums",
    "TaskSums": "ctfa._streaming:TaskSums",
    "Targets": "ctfa._validation.data:Targets",
    "Summary": "ctfa.core.stand_ins:Summary",
    "Moments": "ctfa.core.moments:Moments",
    "SingleModels": "ctfa.estimators.models:SingleModels",
    "OwnModels": "ctfa.estimators.models:OwnModels",
    "OwnSteps": "ctfa.estimators.models:OwnSteps",
    "PooledEvidence": "ctfa.estimators.evidence:PooledEvidence",
    "Nearest": "ctfa.estimators.models:Nearest",
    # A layer above: named here, imported only when a file holds one.
    "LabelledFit": "ctfa.labelled._result:LabelledFit",
    "Plan": "ctfa.labelled._gather:Plan",
    "Slot": "ctfa.labelled._gather:Slot",
    "Tasks": "ctfa.labelled._tasks:Tasks",
    "Coordinates": "ctfa.labelled._tasks:Coordinates",
    "Coordinate": "ctfa.labelled._tasks:Coordinate",
    "Form": "ctfa.labelled._form:DataForm",
    "Baseline": "ctfa.labelled._baseline:Seasons",
    "Geometry": "ctfa.labelled._geometry:Geometry",
    "HeldOut": "ctfa.report._material:HeldOut",
    "Coefficients": "ctfa.report._material:Coefficients",
    "GroupSeries": "ctfa.report._material:GroupSeries",
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
TABLE = OURS | {
    f"{module}.{name}": f"{module}:{name}"
    for module, names in OF_SKLEARN.items()
    for name in names.split()
}


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
        _NAMES[kind] = _find_name(kind)
    return _NAMES[kind]


_NAMES: dict[type, str | None] = {}


def _find_name(kind: type) -> str | None:
    for name, path in TABLE.items():
        if path.rpartition(":")[2] == kind.__qualname__ and _resolved(path) is kind:
            return name
    return None


@cache
def class_named(name: str) -> type:
    """The class that files call so; anything outside the table is refused unseen."""
    if name in TABLE:
        kind = _resolved(TABLE[name])
        if isinstance(kind, type):
            return kind
    raise damaged(
        f"it holds an object of the class {shown(name)}, which this version does not know"
    )


def _resolved(path: str) -> Any:
    """What a path of the table leads to; None where this version has no such class."""
    module, _, name = path.partition(":")
    try:
        return getattr(importlib.import_module(module), name, None)
    except ModuleNotFoundError:
        return None


#: What says with which versions a loaded model was saved.
SAVED_WITH = "_saved_with"
#: Fields of estimators in files of schema 1, which held attributes by the names they had then.
SCHEMA_1 = {
    "_centre": "task_means",
    "_column": "task_column",
    "_coordinates": "coordinates",
    "_evidence": "evidence",
    "_ids": "task_ids",
    "_input_lines": "input_baseline",
    "_is_vector": "one_target",
    "_labels": "column_labels",
    "_library": "container",
    "_metadata_request": "routing",
    "_metric": "metric",
    "_models": "group_models",
    "_names": "names",
    "_nearest": "nearest",
    "_pool": "pool",
    "_pooled": "task_evidence",
    "_prediction": "prediction",
    "_root": "root",
    "_singles": "single_models",
    "_sklearn_output_config": "output",
    "_steps": "deviations",
    "_sums": "sums",
    "_units": "units",
}
#: Fields of files made while sums could be subtracted from, which went by them.
GONE = {"RunningSums": ("largest", "pieces"), "TaskSums": ("most", "largest", "pieces")}


def state_of(value: Any) -> dict[str, Any]:
    """What an object is made of, by name, always in the same order."""
    kind = type(value)
    if hasattr(kind, "__ctfa_fields__"):
        return dict(value.__ctfa_fields__())
    if issubclass(kind, tuple):
        return dict(value._asdict())
    if dataclasses.is_dataclass(kind):
        # Without cached properties: they follow from the fields.
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(kind)}
    return {name: vars(value)[name] for name in sorted(vars(value))}


def _write_object(writer: Writer, value: Any, where: Place) -> Any:
    if getattr(value, "memory", None) is not None:
        raise refused(value.memory, (where, "memory"), ", where results are cached: use None")
    state = {name: writer.write(part, (where, name)) for name, part in state_of(value).items()}
    return {"class": name_of(type(value)), "state": state}


def _read_object(reader: Reader, node: Any, where: Place) -> Any:
    kind = class_named(node["class"])
    state = {name: reader.read(part, (where, name)) for name, part in node["state"].items()}
    if hasattr(kind, "__ctfa_restored__"):
        if reader.schema == 1:
            state = {SCHEMA_1.get(name, name): part for name, part in state.items()}
        # Parameters that a later version has added have the value they were given then.
        state = _parameters(kind) | state
        check_state(node["class"], state)
        return kind.__ctfa_restored__(state)
    defaults = _defaults(kind)
    if defaults is None:
        return _with_attributes(node["class"], kind, state)
    fields, optional = defaults
    for name in GONE.get(node["class"], ()):
        state.pop(name, None)
    wrong = set(state) - set(fields) or set(fields) - set(optional) - set(state)
    if wrong:
        raise damaged(f"{kind.__name__} has too much or too little: {', '.join(sorted(wrong))}")
    state = {name: state.get(name, optional.get(name)) for name in fields}
    check_types(kind, state)
    check_state(node["class"], state)
    if issubclass(kind, tuple):
        return tuple.__new__(kind, state.values())
    value: Any = object.__new__(kind)
    for name, part in state.items():
        object.__setattr__(value, name, part)
    return value


def _with_attributes(name: str, kind: type, state: dict[str, Any]) -> Any:
    """An object of scikit-learn with this state; no method of its class is called."""
    for attribute in state:
        over = getattr(kind, attribute, None)
        if not attribute.isidentifier() or attribute.startswith("__") or callable(over):
            raise damaged(f"{kind.__name__} has no attribute {shown(attribute)}")
    state = _parameters(kind) | state
    check_state(name, state)
    value: Any = object.__new__(kind)
    vars(value).update(state)
    return value


def _defaults(kind: type) -> tuple[Sequence[str], dict[str, Any]] | None:
    """Fields of a NamedTuple or a dataclass, and the values of those that may be left out."""
    if issubclass(kind, tuple):
        return kind._fields, kind._field_defaults  # type: ignore[attr-defined]
    if dataclasses.is_dataclass(kind):
        known = dataclasses.fields(kind)
        given = {f.name: f.default for f in known if f.default is not dataclasses.MISSING}
        return [f.name for f in known], given
    return None


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


def _is_criterion(value: Any) -> bool:
    return any(criterion_of(value).loss is loss for loss in _criteria().values())


def _read_criterion(reader: Reader, node: Any, where: Place) -> Any:
    known = _criteria()
    if not (isinstance(node, str) and node in known):
        shown = repr(node[:100]) if isinstance(node, str) else f"of type {type(node).__name__}"
        raise damaged(f"it holds the criterion {shown}, which this version does not know")
    return known[node]


OBJECTS = (
    Kind(
        "object",
        lambda value: name_of(type(value)) is not None,
        _write_object,
        _read_object,
        shared=True,
    ),
    Kind(
        "criterion",
        _is_criterion,
        lambda w, value, at: criterion_of(value).loss.__name__,
        _read_criterion,
    ),
)
