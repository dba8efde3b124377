"""What can be merged, and what a merge does to the least-squares fits."""

from ctfa.core.spaces.base import MergeSpace
from ctfa.core.spaces.features import FeatureSpace, FoldedFeatureSpace
from ctfa.core.spaces.gappy import GappyTargetSpace
from ctfa.core.spaces.gappy_paired import GappyPairedSpace, PenalisedPairedSpace
from ctfa.core.spaces.paired import PairedSpace
from ctfa.core.spaces.pooled import PenalisedPooledSpace, PooledSpace
from ctfa.core.spaces.targets import TargetSpace

__all__ = [
    "FeatureSpace",
    "FoldedFeatureSpace",
    "GappyPairedSpace",
    "GappyTargetSpace",
    "MergeSpace",
    "PairedSpace",
    "PenalisedPairedSpace",
    "PenalisedPooledSpace",
    "PooledSpace",
    "TargetSpace",
]
