"""Phase I: a partition of the targets, each group replaced by its mean."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ctfa import _validation as check
from ctfa.core.criteria import TARGET_CRITERIA, mse
from ctfa.core.design import Design
from ctfa.core.history import Ledger, MergeHistory
from ctfa.core.partition import Partition
from ctfa.core.scans import SCANS
from ctfa.core.spaces.targets import TargetSpace
from ctfa.core.types import FloatArray

#: Losses this close to ``max_loss`` (relative to the scale of losses) are ties, and accepted.
TIE = 1e-10


class TargetAggregator(BaseEstimator):
    """Group targets whose difference the features cannot usefully predict (Phase I).

    Parameters
    ----------
    criterion : {"risk", "mse", "corollary"} or callable, default="risk"
        What a merge costs. ``"risk"``: the change of the total prediction risk, exact for groups
        of any size; ``"mse"``: the paper's rule as its code computes it; ``"corollary"``: Eq. 6 of
        the paper read literally. A callable takes an ``Evidence`` and returns a loss.
    max_loss : float, default=1.5
        Merge while the loss is at most this; larger merges more. Units of ``"risk"``: 1 is
        break-even in expectation. ``"mse"`` and ``"corollary"``: squared target units, the negative
        of the paper's epsilon_1.
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
        history, max_loss = self._pose(X, Y, sample_weight).solve(self.max_loss)
        self._settle(history.partition(), history, max_loss)
        return self

    def transform(self, Y: Any) -> Any:
        """Mean target of each group, in the units of ``scale``: ``(n, L) -> (n, n_groups)``."""
        check_is_fitted(self)
        targets = self._read_again(Y)
        units = (targets.values - self.offsets_) / self.scales_ * self.signs_
        means = self.partition_.mean(units)
        return check.frame_like(targets.container, means, self.get_group_names_out(), Y)

    def inverse_transform(self, Z: Any) -> Any:
        """Give each target its group's column, in its own units: ``(n, n_groups) -> (n, L)``."""
        check_is_fitted(self)
        groups = check.read_targets(Z, what="Z")
        if groups.values.shape[1] != self.n_groups_:
            raise ValueError(
                f"Z has {groups.values.shape[1]} columns but there are {self.n_groups_} groups."
            )
        spread = self.partition_.spread(groups.values) * self.signs_
        values = spread * self.scales_ + self.offsets_
        return check.frame_like(groups.container, values, self._names, Z)

    def get_group_names_out(self) -> list[str]:
        """Names of the groups, such as ``mean(basin_1, basin_7)``."""
        check_is_fitted(self)
        return group_names(self.partition_, self._names)

    def _pose(self, X: Any, Y: Any, sample_weight: Any) -> TargetProblem:
        """Check everything and factor the inputs once."""
        inputs = check.read_inputs(self, X, reset=True)
        targets = check.read_targets(Y, inputs.shape[0])
        weights = check.read_weights(sample_weight, inputs.shape[0])
        criterion = check.choose(self.criterion, TARGET_CRITERIA, "criterion")
        check.require(self.scan, list(SCANS), "scan")
        check.require(self.scale, ["standard", "center", "none"], "scale")
        for name, available in {"flip": False, "guard": None, "solver": "ols"}.items():
            check.not_yet(getattr(self, name), available, name)
        self._remember(targets)
        design = Design.of(inputs, weights)
        centred = design.centre(targets.values)
        check.require_varying(centred, targets.values, targets.names)
        if targets.values.shape[1] > 1:
            check.require_freedom(design)
            if criterion is mse:
                check.require_columns_freedom(design)
        check.warn_if_doubtful([design])
        self._set_units(targets.values, centred, design)
        space = TargetSpace.of(design, centred / self.scales_)
        graph = check.read_graph(self.connectivity, targets.values, "targets")
        rng = check_random_state(self.random_state)
        order = check.read_order(self.order, space, rng)
        # Losses of the paper's rules are in squared target units, the others have none.
        unit = 1.0 if self.criterion == "risk" else space.total_variance
        return TargetProblem(space, criterion, self.scan, order, graph, TIE * unit)

    def _set_units(self, values: FloatArray, centred: FloatArray, design: Design) -> None:
        n_targets = values.shape[1]
        self.signs_ = np.ones(n_targets)
        self.offsets_, self.scales_ = np.zeros(n_targets), np.ones(n_targets)
        if self.scale != "none":
            weights = np.zeros(values.shape[0])
            weights[design.used] = design.row_scale**2
            self.offsets_ = np.average(values, axis=0, weights=weights)
        if self.scale == "standard":
            self.scales_ = np.sqrt(np.einsum("ij,ij->j", centred, centred) / design.n_samples)

    def _fit_identity(self, X: Any, Y: Any) -> Self:
        """Leave every target by itself, in its own units."""
        check.read_inputs(self, X, reset=True)
        targets = check.read_targets(Y)
        self._remember(targets)
        n_targets = targets.values.shape[1]
        self.signs_, self.scales_ = np.ones(n_targets), np.ones(n_targets)
        self.offsets_ = np.zeros(n_targets)
        self._settle(Partition.singletons(n_targets), Ledger(n_targets).close(), -np.inf)
        return self

    def _remember(self, targets: check.Targets) -> None:
        self._names = targets.names
        if targets.container is not None:
            self.target_names_in_ = np.array(targets.names, dtype=object)
        elif hasattr(self, "target_names_in_"):
            del self.target_names_in_

    def _settle(self, partition: Partition, history: MergeHistory, max_loss: float) -> None:
        self.partition_, self.history_, self.max_loss_ = partition, history, max_loss
        self.labels_, self.n_groups_ = partition.labels, partition.n_groups
        self.loss_interval_ = history.loss_interval
        self.cv_curve_ = None

    def _read_again(self, Y: Any) -> check.Targets:
        targets = check.read_targets(Y)
        if targets.values.shape[1] != self.partition_.n_variables:
            raise ValueError(
                f"Y has {targets.values.shape[1]} targets but {self.partition_.n_variables} were "
                "seen in fit."
            )
        return targets


class TargetProblem:
    """A checked Phase I problem; can be solved for several values of ``max_loss``."""

    def __init__(
        self,
        space: TargetSpace,
        criterion: Callable[..., Any],
        scan: str,
        order: Any,
        graph: Any,
        tolerance: float,
    ) -> None:
        self.space, self.criterion, self.scan = space, criterion, scan
        self.order, self.graph, self.tolerance = order, graph, tolerance

    def solve(self, max_loss: Any, *, again: bool = False) -> tuple[MergeHistory, float]:
        """Run the scan; ``again`` keeps the space for another run."""
        if max_loss == "auto":
            raise NotImplementedError(
                "max_loss='auto' for targets is not in this version of ctfa yet; use a number: "
                "1.5 suits most data, 1 is break-even."
            )
        limit = check.read_number(max_loss, "max_loss")
        space = copy.deepcopy(self.space) if again else self.space
        history = SCANS[self.scan](
            space,
            self.criterion,
            max_loss=limit,
            order=self.order,
            neighbours=check.neighbours_of(self.graph),
            tolerance=self.tolerance,
        )
        return history, limit


def group_names(partition: Partition, names: Any) -> list[str]:
    """Name a group after its members: ``a``, or ``mean(a, b)``."""
    return [
        str(names[group[0]])
        if group.size == 1
        else "mean(" + ", ".join(str(names[member]) for member in group) + ")"
        for group in partition.groups
    ]
