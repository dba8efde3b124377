"""Interpretable aggregation of many related regression targets and their features."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ctfa._progress import progress
from ctfa.core.progress import ScanProgress, SearchStopped
from ctfa.estimators.cv import CTFARegressorCV
from ctfa.estimators.features import FeatureAggregator
from ctfa.estimators.layout import multi_input_layout
from ctfa.estimators.multi_input import MultiInputCTFARegressor
from ctfa.estimators.parity import nonlinctfa
from ctfa.estimators.path import feature_path, target_path
from ctfa.estimators.pooled import PooledCTFARegressor
from ctfa.estimators.shared import CTFARegressor
from ctfa.estimators.targets import TargetAggregator

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

__version__ = "0.1.0"

__all__ = [
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

_MODULES = (
    "datasets",
    "labelled",
    "persistence",
    "pieces",
    "plotting",
    "report",
    "testing",
    "theory",
)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"ctfa.{name}")
    raise AttributeError(f"module 'ctfa' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
