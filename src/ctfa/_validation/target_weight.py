"""How much each target counts, and what cannot be weighed."""

from __future__ import annotations

from typing import Any

import numpy as np

from ctfa._validation.data import Targets, refuse_extreme_weights, require_plain_numbers
from ctfa.core.types import FloatArray


def read_target_weight(target_weight: Any, targets: Targets) -> Targets:
    """Targets with a weight for each, of mean one; None where all are equal."""
    if target_weight is None:
        return targets
    require_plain_numbers(target_weight, "target_weight")
    n_targets = targets.values.shape[1]
    try:
        weights = np.asarray(target_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"target_weight holds something that is not a number ({error}): pass one number for "
            "each target, such as the area it stands for."
        ) from error
    if weights.shape != (n_targets,):
        raise ValueError(
            f"target_weight has shape {weights.shape} but y has {n_targets} columns: pass one "
            "weight for each target."
        )
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights > 0.0)))
    if bad.size:
        first = int(bad[0])
        raise ValueError(
            f"target_weight of target {targets.names[first]!r} is {weights[first]:g}: weights must "
            "be positive and finite; leave out a target that is to count for nothing."
        )
    refuse_extreme_weights(weights, "target_weight")
    return targets._replace(weights=normalised(weights))


def normalised(weights: FloatArray) -> FloatArray | None:
    """Weights of mean one, or None where all are equal."""
    relative = weights / weights.max()
    return None if (relative == 1.0).all() else relative / relative.mean()


def refuse_for_target_weight(targets: Targets, aggregator: Any, aggregate: str = "mean") -> None:
    """Refuse options that would not honour weights, where there are any."""
    if targets.weights is None:
        return
    for is_given, option, instead in (
        (
            aggregate != "mean" and aggregator.solver == "ridge",
            f"aggregate={aggregate!r} with solver='ridge'",
            "aggregate='mean' or solver='ols'",
        ),
        (aggregator.flip, "flip=True", "flip=False"),
        (aggregator.guard is not None, f"guard={aggregator.guard!r}", "guard=None"),
        (
            isinstance(aggregator.order, str) and aggregator.order == "correlation",
            "order='correlation'",
            "order='given'",
        ),
    ):
        if is_given:
            raise ValueError(
                f"target_weight was given but {option} counts every target alike: use {instead}, "
                "or leave the weights out."
            )


def refuse_weighed_gaps(targets: Targets) -> None:
    """Refuse gaps in weighed targets that share their inputs."""
    if targets.weights is not None and np.isnan(targets.values).any():
        raise ValueError(
            "target_weight was given but y contains missing values, and groups of targets with "
            "shared inputs and gaps count every target alike: fill the gaps, leave the weights "
            "out, or use MultiInputCTFARegressor with the same columns for every target."
        )
