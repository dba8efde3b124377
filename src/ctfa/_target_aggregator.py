"""Phase I: a partition of the targets, each group replaced by its mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import TransformerTags, check_random_state
from sklearn.utils.validation import check_is_fitted

from ctfa import _validation as check
from ctfa._merging import TIE, MergeProblem, group_names, loss_unit, settle, settle_history
from ctfa.core.criteria import TARGET_CRITERIA, mse
from ctfa.core.design import weighted_mean
from ctfa.core.history import Ledger
from ctfa.core.scans import SCANS
from ctfa.core.spaces.targets import TargetSpace
from ctfa.core.types import FloatArray


class TargetAggregator(BaseEstimator):  # type: ignore[misc]
    """Group targets whose difference the features cannot usefully predict (Phase I).

    Parameters
    ----------
    criterion : {"risk", "mse", "corollary"} or callable, default="risk"
        What a merge costs. ``"risk"``: the change of the total prediction risk, exact for groups
        of any size; ``"mse"``: the paper's rule as its code computes it; ``"corollary"``: Eq. 6 of
        the paper read literally. A callable takes an ``Evidence`` (``ctfa.core.fit``), whose fits
        hold an entry a candidate, and returns a loss for each.
    max_loss : float, default=1.5
        Merge while the loss is at most this; larger merges more (groups are nested for the scan
        "best-first"; in the others an early merge changes later questions). Units of ``"risk"``:
        1 is break-even in expectation. ``"mse"`` and ``"corollary"``: squared target units, the
        negative of the paper's epsilon_1.
    scan : {"best-first", "correlation", "grow", "restart"}, default="best-first"
        Who is asked next. ``"best-first"``: the pair of smallest loss; ``"correlation"``: the most
        correlated pair; ``"grow"``: Algorithm 2 as printed; ``"restart"``: the authors' loop.
    order : {"given", "random", "correlation"} or array, default="given"
        The order of targets for the scans "grow" and "restart".
    connectivity : sparse matrix, array or callable, default=None
        Symmetric neighbour graph of the targets: without an edge no merge, groups stay connected.
        A callable receives the targets as rows.
    scale : {"standard", "center", "none"}, default="standard"
        Merge and average targets in these units; ``inverse_transform`` restores each target's own
        offset and scale. ``"none"`` is the paper's predictor, one intercept a group.
    flip, guard, solver, cv
        Reserved: only the default values are available in this version.
    random_state : int, RandomState or None, default=None
        Seed of ``order="random"``.

    Attributes
    ----------
    partition_ : Partition
        The groups.
    labels_ : ndarray of shape (n_targets,)
        Group of each target, numbered by first member.
    n_groups_ : int
        Number of groups.
    history_ : MergeHistory
        Every merge with its loss, the nearest refusals, and the number of comparisons.
    max_loss_ : float
        The limit used.
    loss_interval_ : tuple of float
        Any ``max_loss`` from the first up to (not including) the second gives these groups.
    signs_, offsets_, scales_ : ndarray of shape (n_targets,)
        How each target enters its group's mean.
    target_names_in_ : ndarray of str
        Column names, where the targets came as a data frame.

    Examples
    --------
    >>> import numpy as np
    >>> from ctfa import TargetAggregator
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 3))
    >>> signal = np.column_stack([X[:, 0], X[:, 0], -X[:, 1]])
    >>> Y = signal + rng.normal(size=(60, 3))
    >>> TargetAggregator().fit(X, Y).labels_
    array([0, 0, 1])
    """

    def __init__(
        self,
        criterion: str | Callable[..., Any] = "risk",
        *,
        max_loss: float = 1.5,
        scan: str = "best-first",
        order: Any = "given",
        connectivity: Any = None,
        scale: str = "standard",
        flip: bool = False,
        guard: str | None = None,
        solver: str = "ols",
        cv: Any = 10,
        random_state: Any = None,
    ) -> None:
        self.criterion = criterion
        self.max_loss = max_loss
        self.scan = scan
        self.order = order
        self.connectivity = connectivity
        self.scale = scale
        self.flip = flip
        self.guard = guard
        self.solver = solver
        self.cv = cv
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        """Say that targets are needed, and may be several."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.transformer_tags = TransformerTags(preserves_dtype=[])
        return tags

    def fit(self, X: Any, Y: Any, sample_weight: Any = None) -> Self:
        """Find the groups.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
        Y : array or data frame of shape (n_samples, n_targets)
        sample_weight : array of shape (n_samples,), default=None
            Analytic weights, normalised to sum to the number of rows with a positive one.

        Returns
        -------
        self
        """
        sample = check.read_sample(self, X, sample_weight)
        return self._fit_sample(sample, check.read_targets(Y, sample.n_given, used=sample.used))

    def transform(self, Y: Any) -> Any:
        """Mean target of each group, in the units of ``scale``: ``(n, L) -> (n, n_groups)``."""
        check_is_fitted(self)
        targets = self._read_again(Y)
        means = self._mean(targets.values)
        return check.as_frame(targets.library, means, self.get_group_names_out(), Y)

    def inverse_transform(self, Z: Any) -> Any:
        """Give each target its group's column, in its own units: ``(n, n_groups) -> (n, L)``."""
        check_is_fitted(self)
        groups = check.read_targets(Z, what="Z")
        check.require_width(groups.values, self.n_groups_, "Z", "groups")
        return check.as_frame(groups.library, self._spread(groups.values), self._labels, Z)

    def get_group_names_out(self) -> list[str]:
        """Names of the groups, such as ``mean(basin_1, basin_7)``."""
        check_is_fitted(self)
        return group_names(self.partition_, self._names)

    def _fit_sample(self, sample: check.Sample, targets: check.Targets) -> Self:
        """Find the groups in data that have been read."""
        limit = check.read_target_limit(self.max_loss)
        names = None if targets.labels is None else targets.names
        settle(self, self._pose(sample, targets), limit, names)
        return self

    def _fit_identity(self, targets: check.Targets) -> Self:
        """Leave every target by itself, in its own units."""
        self._remember(targets)
        n_targets = targets.values.shape[1]
        self._set_units(np.zeros(n_targets), np.ones(n_targets))
        settle_history(self, Ledger(n_targets).close(), -np.inf)
        return self

    def _pose(self, sample: check.Sample, targets: check.Targets) -> MergeProblem:
        """Check everything and factor the inputs once."""
        criterion = check.read_criterion(self.criterion, TARGET_CRITERIA)
        check.require(self.scan, SCANS, "scan")
        check.require(self.scale, ["standard", "center", "none"], "scale")
        check.not_yet(self.flip, False, "flip")
        check.not_yet(self.guard, None, "guard")
        check.not_yet(self.solver, "ols", "solver")
        values = targets.values
        graph = check.read_graph(self.connectivity, values, "targets")
        self._remember(targets)
        check.require_varying(values, targets.names)
        design = sample.design
        if values.shape[1] > 1:
            check.require_freedom(design)
            if criterion is mse:
                check.require_columns_freedom(design)
        centred = design.centre(values)
        offsets, scales = np.zeros(values.shape[1]), np.ones(values.shape[1])
        if self.scale != "none":
            offsets = weighted_mean(values, design.row_scale)
        if self.scale == "standard":
            scales = np.sqrt(np.einsum("ij,ij->j", centred, centred) / design.n_samples)
            centred /= scales
        self._set_units(offsets, scales)
        space = TargetSpace.of(design, centred)
        return MergeProblem(
            space,
            criterion,
            self.scan,
            check.read_order(self.order, space, check_random_state(self.random_state)),
            graph,
            tolerance=TIE * loss_unit(criterion, space.total_variance),
        )

    def _set_units(self, offsets: FloatArray, scales: FloatArray) -> None:
        self.signs_, self.offsets_, self.scales_ = np.ones(offsets.size), offsets, scales

    def _mean(self, values: FloatArray) -> FloatArray:
        """Mean of each group, in the units of ``scale``."""
        units = values - self.offsets_
        units /= self.scales_ * self.signs_
        return np.asarray(self.partition_.mean(units))

    def _spread(self, means: FloatArray) -> FloatArray:
        """Each target from its group's mean, in its own units."""
        values = np.asarray(self.partition_.spread(means))
        values *= self.scales_ * self.signs_
        values += self.offsets_
        return values

    def _remember(self, targets: check.Targets) -> None:
        self._names = targets.names
        self._labels = targets.names if targets.labels is None else targets.labels
        if targets.labels is not None:
            # Filled, not converted: labels that are tuples would become a table.
            self.target_names_in_ = np.empty(len(targets.labels), dtype=object)
            self.target_names_in_[:] = list(targets.labels)
        elif hasattr(self, "target_names_in_"):
            del self.target_names_in_

    def _read_again(self, Y: Any, n_samples: int | None = None) -> check.Targets:
        targets = check.read_targets(Y, n_samples)
        named = hasattr(self, "target_names_in_")
        check.require_same_targets(targets, self._names, named=named)
        return targets
