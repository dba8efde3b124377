"""Interpretable aggregation of many related regression targets and their features."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ctfa._feature_aggregator import FeatureAggregator
from ctfa._layout import multi_input_layout
from ctfa._multi_input import MultiInputCTFARegressor
from ctfa._parity import nonlinctfa
from ctfa._path import feature_path, target_path
from ctfa._pooled import PooledCTFARegressor
from ctfa._progress import progress
from ctfa._regressor import CTFARegressor
from ctfa._regressor_cv import CTFARegressorCV
from ctfa._target_aggregator import TargetAggregator
from ctfa.core.progress import ScanProgress, SearchStopped

if TYPE_CHECKING:
    from ctfa import (
        baselines,
        comparison,
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
    "baselines",
    "comparison",
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
    "reproduction",
    "target_path",
    "testing",
    "theory",
]

_MODULES = (
    "baselines",
    "comparison",
    "datasets",
    "labelled",
    "persistence",
    "pieces",
    "plotting",
    "report",
    "reproduction",
    "testing",
    "theory",
)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"ctfa.{name}")
    raise AttributeError(f"module 'ctfa' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
