"""What any fitted model with groups of targets shows of itself, in one form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ctfa.core.gains import Gain
from ctfa.core.history import MergeHistory
from ctfa.core.partition import Partition
from ctfa.core.types import FloatArray, IntArray
from ctfa.estimators.explanation import Refusal, refusal_of
from ctfa.estimators.merge_evidence import MergeEvidence, Terms, co_clustering
from ctfa.estimators.multi_input import MultiInputCTFARegressor
from ctfa.estimators.own_evidence import in_words_of_sharing
from ctfa.estimators.pooled import PooledCTFARegressor
from ctfa.estimators.pooled_evidence import IN_WORDS_OF_TASKS
from ctfa.estimators.shared import CTFARegressor
from ctfa.estimators.targets import TargetAggregator

#: Up to so many tasks with rows of their own the gain of each is worked out.
TASK_BY_TASK = 1000
KINDS = (CTFARegressor, MultiInputCTFARegressor, PooledCTFARegressor, TargetAggregator)


@dataclass(frozen=True, eq=False)
class FittedGroups:
    """A fitted model, whatever its kind."""

    model: Any

    def __post_init__(self) -> None:
        if not isinstance(self.model, KINDS):
            known = ", ".join(kind.__name__ for kind in KINDS)
            raise TypeError(
                f"a report is made of a fitted model ({known}), a Material or the result of "
                f"ctfa.labelled.fit, not of {type(self.model).__name__}."
            )
        check_is_fitted(self.model)

    @property
    def is_aggregator(self) -> bool:
        """Whether there is a Phase I alone."""
        return isinstance(self.model, TargetAggregator)

    @property
    def aggregator(self) -> TargetAggregator:
        """Phase I."""
        found: TargetAggregator = self.model if self.is_aggregator else self.model.targets_
        return found

    @property
    def partition(self) -> Partition:
        """The groups."""
        found: Partition = self.aggregator.partition_
        return found

    @property
    def history(self) -> MergeHistory:
        """The merges up to the limit used."""
        found: MergeHistory = self.aggregator.history_
        return found

    @property
    def names(self) -> Sequence[str]:
        """What targets are called."""
        if isinstance(self.model, PooledCTFARegressor):
            return tuple(self.model._names)
        return tuple(map(str, self.aggregator._names))

    @property
    def shares(self) -> str:
        """What a group has in common: its "mean", its "coefficients" or its "slopes"."""
        if isinstance(self.model, PooledCTFARegressor):
            return "slopes"
        if isinstance(self.model, MultiInputCTFARegressor):
            return "mean inputs" if self.model.aggregate_ == "mean" else "coefficients"
        return "mean"

    @cached_property
    def evidence(self) -> MergeEvidence:
        """What is known of every merge; of an aggregator, that it was made."""
        if not self.is_aggregator:
            found: MergeEvidence = self.model._evidence
            return found
        rule = self.aggregator
        unknown = np.full(self.partition.n_variables, np.nan)
        terms = Terms(
            rule.criterion,
            rule.scan,
            rule.max_loss_,
            guarded=rule.guard is not None,
            standardised=rule.scale == "standard",
            gappy=False,
            chosen=rule.cv_curve_ is not None,
        )
        gain = Gain(unknown, unknown)
        return MergeEvidence(self.history, self.partition, self.names, [], gain, rule.signs_, terms)

    @cached_property
    def gain(self) -> Gain:
        """Predicted gain of each target over a model of its own; NaN where not worked out."""
        model = self.model
        n_targets = self.partition.n_variables
        if not isinstance(model, PooledCTFARegressor) or n_targets > TASK_BY_TASK:
            return self.evidence.gain
        gains: Gain = model._pooled.gains(self.partition)
        return gains

    @property
    def trust(self) -> FloatArray | None:
        """How far each target trusts its group, where that was worked out."""
        if self.is_aggregator:
            return None
        if isinstance(self.model, CTFARegressor) or self.model.head == "shrink":
            return np.asarray(self.model.trust_)
        return None

    @property
    def stability(self) -> FloatArray | None:
        """Share of subsamples in which a target is with each other member, on average."""
        together = vars(self.model).get("stability_")
        if together is None:
            return None
        labels = self.partition.labels
        same = (labels[:, None] == labels) & ~np.eye(labels.size, dtype=bool)
        count = same.sum(axis=1)
        return np.where(count > 0, (together * same).sum(axis=1) / np.maximum(count, 1), np.nan)

    @property
    def together(self) -> FloatArray | None:
        """The same for the two sides of each merge."""
        known = vars(self.model).get("stability_")
        return None if known is None else np.array(co_clustering(self.evidence, known))

    def refusal(self, group: int) -> Refusal:
        """The nearest candidate that a group refused, in the words of ``why``."""
        refusal = refusal_of(self.evidence, group)
        if self.shares == "coefficients":
            return in_words_of_sharing(refusal)
        if self.shares == "slopes":
            reason = IN_WORDS_OF_TASKS.get(refusal.reason, refusal.reason)
            return refusal._replace(reason=reason)
        return refusal

    def candidate(self, group: int) -> int:
        """The target that was refused, or that leads the group that was; -1 for nobody."""
        return int(self.history.refused[self.evidence.leader(group)])

    @property
    def features(self) -> Sequence[str]:
        """What features are called; slots, for targets with inputs of their own."""
        if self.is_aggregator:
            return ()
        if isinstance(self.model, MultiInputCTFARegressor):
            return self._slot_names()
        names = getattr(self.model, "feature_names_in_", None)
        n_features = int(self.model.n_features_in_)
        return [f"x{k}" for k in range(n_features)] if names is None else list(map(str, names))

    def _slot_names(self) -> list[str]:
        slots = self.model._models.slots
        found = [""] * slots.shape[1]
        for row, features in zip(slots, self.model.features_, strict=True):
            own = features.feature_names_in_
            for slot, name in zip(np.flatnonzero(row).tolist(), own, strict=True):
                found[slot] = str(name)
        return found

    @cached_property
    def means(self) -> IntArray | None:
        """Mean that each feature is in, of each group: ``(groups, features)``, -1 if in none."""
        if self.is_aggregator:
            return None
        n_groups, n_features = self.partition.n_groups, len(self.features)
        labels = np.full((n_groups, n_features), -1, dtype=np.intp)
        for group, features in enumerate(self.model.features_):
            labels[group, self.columns(group)] = features.partition_.labels
        return labels

    def variance(self, task: str) -> str:
        """What errors and gains are shares of, in words."""
        if getattr(self.aggregator, "baseline_slopes_", None) is None:
            return f"a {task}'s variance"
        return f"the variance of a {task}'s anomalies"

    @property
    def averages(self) -> bool:
        """Whether a group averages features."""
        if self.means is None:
            return False
        return bool((self.means.max(axis=1) + 1 < (self.means >= 0).sum(axis=1)).any())

    @property
    def is_single_task(self) -> bool:
        """Whether it is one model per target on all its features: nothing was merged."""
        return self.partition.n_groups == self.partition.n_variables and not self.averages

    def columns(self, group: int) -> IntArray:
        """Features that a group has."""
        if isinstance(self.model, MultiInputCTFARegressor):
            return np.flatnonzero(self.model._models.slots[group])
        return np.arange(len(self.features))
