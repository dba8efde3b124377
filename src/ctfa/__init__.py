"""Interpretable aggregation of many related regression targets and their features."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ctfa import (
        datasets,
        labelled,
        persistence,
        pieces,
        plotting,
        report,
        testing,
        theory,
    )
    from ctfa._progress import progress
    from ctfa._reading import BlockedKFold
    from ctfa.core.lags import lagged
    from ctfa.core.progress import ScanProgress, SearchStopped
    from ctfa.estimators.cv import CTFARegressorCV
    from ctfa.estimators.features import FeatureAggregator, feature_path
    from ctfa.estimators.multi_input import MultiInputCTFARegressor, multi_input_layout, target_path
    from ctfa.estimators.parity import nonlinctfa
    from ctfa.estimators.pooled import PooledCTFARegressor
    from ctfa.estimators.shared import CTFARegressor
    from ctfa.estimators.targets import TargetAggregator

__version__ = "0.1.0"

__all__ = [
    "BlockedKFold",
    "CTFARegressor",
    "CTFARegressorCV",
    "FeatureAggregator",
    "MultiInputCTFARegressor",
    "PooledCTFARegressor",
    "ScanProgress",
    "SearchStopped",
    "TargetAggregator",
    "datasets",
    "feature_path",
    "labelled",
    "lagged",
    "multi_input_layout",
    "nonlinctfa",
    "persistence",
    "pieces",
    "plotting",
    "progress",
    "report",
    "target_path",
    "testing",
    "theory",
]

#: Where a public name is defined; any other is a module of the package. Each is imported when it is
#: first asked for, so that what needs no estimator, such as ``ctfa --version``, waits for none.
_HOMES = {
    "BlockedKFold": "_reading",
    "CTFARegressor": "estimators.shared",
    "CTFARegressorCV": "estimators.cv",
    "FeatureAggregator": "estimators.features",
    "MultiInputCTFARegressor": "estimators.multi_input",
    "PooledCTFARegressor": "estimators.pooled",
    "ScanProgress": "core.progress",
    "SearchStopped": "core.progress",
    "TargetAggregator": "estimators.targets",
    "feature_path": "estimators.features",
    "lagged": "core.lags",
    "multi_input_layout": "estimators.multi_input",
    "nonlinctfa": "estimators.parity",
    "progress": "_progress",
    "target_path": "estimators.multi_input",
}
#: Packages of our own that are found as attributes, too, without being offered.
_INSIDE = ("core", "estimators", "kernels")
#: Packages that have left for the study.
_OF_THE_STUDY = ("baselines", "comparison", "reproduction")


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        found = getattr(importlib.import_module(f"ctfa.{_HOMES[name]}"), name)
        globals()[name] = found
        return found
    if name in __all__ or name in _INSIDE:
        return importlib.import_module(f"ctfa.{name}")
    if name in _OF_THE_STUDY:
        raise AttributeError(f"ctfa.{name} is ctfa_study.{name} now: from ctfa_study import {name}")
    raise AttributeError(f"module 'ctfa' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
