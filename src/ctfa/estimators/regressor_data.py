"""What a regressor with both phases asks of its data, and how it reads them."""

from __future__ import annotations

from typing import Any

from ctfa import _validation as check
from ctfa._collections import OF_SUMS, Wanted, learns_from_sums
from ctfa.estimators.feature_aggregator import FeatureAggregator
from ctfa.estimators.heads import HEADS
from ctfa.estimators.target_aggregator import TargetAggregator

#: What to do about missing features that only the regressor takes.
FOR_THE_REGRESSOR = (
    "the regressor takes missing features and what judges merges does not; fill the gaps first, or "
    "hand them on without merging, with targets='passthrough', features='passthrough', head='mean'"
)


class RegressorData:
    """Reading of rows, in memory or as sums."""

    targets: Any
    features: Any
    head: str
    _template: Any

    def _read(
        self, X: Any, y: Any, sample_weight: Any, baseline: Any = None
    ) -> tuple[check.Sample, check.Targets]:
        """Check options and data."""
        self._check_options(weighed=False)
        takes_gaps = check.takes_gaps(self._template)
        sample = check.read_sample(
            self,
            X,
            sample_weight,
            gaps=takes_gaps and baseline is None and self._judges_nothing,
            baseline=baseline,
            advice=FOR_THE_REGRESSOR if takes_gaps else check.FILL,
        )
        targets = check.read_targets(y, sample.n_given, used=sample.used, gaps=True)
        if sample.weights is not None:
            check.require_weighable(self._template)
        return self._received(sample, targets)

    @property
    def _judges_nothing(self) -> bool:
        """Whether rows are the regressor's business alone."""
        return self.targets == self.features == "passthrough" and self.head == "mean"

    def _check_options(self, *, weighed: bool) -> None:
        check.require(self.head, HEADS, "head")
        check.require_regressor(self._template)
        if weighed:
            check.require_weighable(self._template)

    def _received(
        self, sample: check.Sample, targets: check.Targets
    ) -> tuple[check.Sample, check.Targets]:
        """Remember what predictions are handed back in."""
        self._library, self._is_vector = targets.library, targets.is_vector
        return sample, targets

    def _phases(self) -> tuple[TargetAggregator | None, FeatureAggregator | None]:
        return (
            check.read_phase(self.targets, TargetAggregator, "targets"),
            check.read_phase(self.features, FeatureAggregator, "features"),
        )

    def _asks_of_stream(self, n_targets: int) -> list[Wanted]:
        self._check_options(weighed=True)
        if not learns_from_sums(self._template):
            check.refuse_streamed_regressor(self._template, OF_SUMS)
        wanted, needs_rows = self._asks_of(self._phases(), n_targets)
        check.refuse_streaming(needs_rows)
        return wanted

    def _asks_of(
        self, phases: tuple[TargetAggregator | None, FeatureAggregator | None], n_targets: int
    ) -> tuple[list[Wanted], str | None]:
        """Folds that a fit will want of its data, and what in it cannot be had from sums."""
        targets, features = phases
        wanted: list[Wanted] = []
        if targets is not None:
            wanted += targets._folds_wanted(n_targets)
        if features is not None:
            wanted += features._folds_wanted()
        needs = [phase._needs_rows() for phase in phases if phase is not None]
        if self.head == "shrink" and not learns_from_sums(self._template):
            needs.append(f"head='shrink' with {type(self._template).__name__}()")
        return wanted, next(filter(None, needs), None)
