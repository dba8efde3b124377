"""Which classes a file may name: a table.

A class joins by a line in it. Its state must be of kinds that can be saved: the fields of a
NamedTuple or a dataclass, the attributes of anything else. Nothing else is ever imported, called or
looked up for a file.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

from ctfa.persistence._codec import damaged, shown

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
    "Pool": "ctfa.core.pooling:Pool",
    "PooledSpace": "ctfa.core.spaces.pooled:PooledSpace",
    "MergeEvidence": "ctfa.estimators.merge_evidence:MergeEvidence",
    "MergeSummary": "ctfa.estimators.merge_evidence:MergeSummary",
    "Terms": "ctfa.estimators.merge_evidence:Terms",
    "RunningSums": "ctfa._streaming._sums:RunningSums",
    "TaskSums": "ctfa._streaming._sums:TaskSums",
    "Targets": "ctfa._validation.data:Targets",
    "Summary": "ctfa.core.stand_ins:Summary",
    "Moments": "ctfa.core.moments:Moments",
    "SingleModels": "ctfa.estimators.models:SingleModels",
    "OwnModels": "ctfa.estimators.models:OwnModels",
    "OwnSteps": "ctfa.estimators.models:OwnSteps",
    "PooledEvidence": "ctfa.estimators.merge_evidence:PooledEvidence",
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
