"""Groups of targets that are given, or are Ward clusters, each with a model of its mean."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.cluster import FeatureAgglomeration
from sklearn.linear_model import LinearRegression

from ctfa import _reading as check
from ctfa.core.partition import Partition
from ctfa.core.types import FloatArray
from ctfa.estimators.refits import fit_regressor
from ctfa_study.baselines._shared import SharedRowsRegressor, contiguous_folds
from ctfa_study.baselines._tasks import read_count_up_to

#: Standard deviation on some rows, of targets that have 1 on all, below which they are constant.
FLAT = 1e-8
#: Numbers of groups that folds are asked about.
N_COUNTS = 8


class GroupMeans:
    """Models of the means of given groups."""

    def __init__(
        self, groups: Partition, models: list[Any], offset: FloatArray, scale: FloatArray
    ) -> None:
        self.groups, self.models, self.offset, self.scale = groups, models, offset, scale

    @classmethod
    def fit(
        cls, inputs: FloatArray, targets: FloatArray, groups: Partition, regressor: Any
    ) -> GroupMeans:
        """Fit a clone of the regressor to each mean of standardised targets."""
        Z, offset, scale = _standardised(targets)
        means = groups.mean(Z)
        if regressor is None:  # least squares factors the inputs once for all groups
            return cls(
                groups, [fit_regressor(LinearRegression(), inputs, means, None)], offset, scale
            )
        check.require_regressor(regressor)
        models = [fit_regressor(regressor, inputs, mean, None) for mean in means.T]
        return cls(groups, models, offset, scale)

    def predict(self, inputs: FloatArray) -> FloatArray:
        """Each target by its group's mean, in its own units."""
        means = np.column_stack([model.predict(inputs) for model in self.models])
        return np.asarray(self.groups.spread(means) * self.scale + self.offset)


class GroupsRegressor(SharedRowsRegressor):
    """A regressor that is a model of the mean of each group."""

    _model: GroupMeans

    def _settle(self, model: GroupMeans) -> None:
        self._model = model
        self.partition_ = model.groups
        self.labels_ = model.groups.labels
        self.n_groups_ = model.groups.n_groups
        self.regressors_ = model.models

    def _predict_shared(self, inputs: FloatArray) -> FloatArray:
        return self._model.predict(inputs)


class GroupMeansRegressor(GroupsRegressor):
    """A model of the mean of each group of standardised targets; the groups are given.

    Every member is predicted by its group's model, in its own mean and standard deviation: with
    the groups that made the data, what a perfect search would be worth.

    Parameters
    ----------
    labels : array-like of shape (n_targets,), default=None
        Group of each target; None puts all targets in one.
    regressor : estimator, default=None
        Any scikit-learn regressor, cloned for each group; None is ``LinearRegression()``.

    Attributes
    ----------
    partition_ : Partition
        The groups.
    labels_ : ndarray of shape (n_targets,)
        Group of each target, numbered in the order of their first members.
    n_groups_ : int
    regressors_ : list of estimators
        One per group; the default is one for all of them.

    Examples
    --------
    >>> from ctfa_study.baselines import GroupMeansRegressor
    >>> from ctfa.datasets import make_paper_synthetic
    >>> X, Y = make_paper_synthetic(60, 5, 4, random_state=0)
    >>> GroupMeansRegressor(["a", "b", "b", "a"]).fit(X, Y).labels_
    array([0, 1, 1, 0])
    """

    def __init__(self, labels: Any = None, regressor: Any = None) -> None:
        self.labels = labels
        self.regressor = regressor

    def _fit_shared(self, inputs: FloatArray, targets: FloatArray) -> None:
        groups = _read_labels(self.labels, targets)
        self._settle(GroupMeans.fit(inputs, targets, groups, self.regressor))


class WardGroupsRegressor(GroupsRegressor):
    """A model of the mean of each Ward cluster of standardised targets.

    What scikit-learn offers for averaging similar targets: the targets are clustered
    by their values (Ward 1963, "Hierarchical grouping to optimize an objective function", Journal
    of the American Statistical Association 58), which does not look at the features.

    Parameters
    ----------
    regressor : estimator, default=None
        Any scikit-learn regressor, cloned for each group; None is ``LinearRegression()``.
    n_groups : int or "cv", default="cv"
        Number of groups. ``"cv"``: of eight numbers from 1 to the number of targets, in equal
        ratios, that of least squared error of standardised targets on folds, where the targets are
        clustered again.
    n_folds : int, default=5
        Contiguous folds.

    Attributes
    ----------
    partition_, labels_, n_groups_, regressors_
        As in ``GroupMeansRegressor``.

    Examples
    --------
    >>> import numpy as np
    >>> from ctfa_study.baselines import WardGroupsRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(80, 4))
    >>> Y = X[:, [0, 0, 0, 1, 1]] + 0.3 * rng.normal(size=(80, 5))
    >>> WardGroupsRegressor(n_groups=2).fit(X, Y).labels_
    array([0, 0, 0, 1, 1])
    """

    def __init__(
        self, regressor: Any = None, *, n_groups: int | str = "cv", n_folds: int = 5
    ) -> None:
        self.regressor = regressor
        self.n_groups = n_groups
        self.n_folds = n_folds

    def _fit_shared(self, inputs: FloatArray, targets: FloatArray) -> None:
        n_targets = targets.shape[1]
        if isinstance(self.n_groups, str) and self.n_groups == "cv":
            count = self._choose(inputs, targets)
        else:
            count = read_count_up_to(self.n_groups, n_targets, "n_groups", "targets")
        self._settle(self._model_of(inputs, targets, count))

    def _choose(self, inputs: FloatArray, targets: FloatArray) -> int:
        """Number of groups of least squared error on the folds, the smallest among equals."""
        n_targets = targets.shape[1]
        counts = np.unique(np.geomspace(1, n_targets, N_COUNTS).round().astype(int))
        if counts.size == 1:
            return 1
        Z = _standardised(targets)[0]
        losses = np.zeros(counts.size)
        for train, test in contiguous_folds(self.n_folds, inputs.shape[0]).split(inputs):
            # Rare events may all lie in the fold left out.
            kept = Z[train].std(axis=0) > FLAT
            if not kept.any():
                continue
            for i, count in enumerate(counts.tolist()):
                few = min(count, int(kept.sum()))
                model = self._model_of(inputs[train], Z[train][:, kept], few)
                losses[i] += np.sum((model.predict(inputs[test]) - Z[test][:, kept]) ** 2)
        return int(counts[np.argmin(losses)])

    def _model_of(self, inputs: FloatArray, targets: FloatArray, count: int) -> GroupMeans:
        if count == targets.shape[1]:
            groups = Partition.singletons(count)
        else:
            Z = _standardised(targets)[0]
            groups = Partition(FeatureAgglomeration(n_clusters=count).fit(Z).labels_)
        return GroupMeans.fit(inputs, targets, groups, self.regressor)


def _standardised(targets: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Targets in standard deviations from their means, the means and the deviations."""
    offset, scale = targets.mean(axis=0), targets.std(axis=0)
    # The mean of a constant may be off by rounding, which must not become its unit: it has none,
    # and is predicted by its level whatever its group does.
    flat = ~check.is_varying(targets)
    offset[flat], scale[flat] = targets[0, flat], 0.0
    return (targets - offset) / np.where(flat, 1.0, scale), offset, scale


def _read_labels(labels: Any, targets: FloatArray) -> Partition:
    n_targets = targets.shape[1]
    if labels is None:
        return Partition(np.zeros(n_targets, dtype=np.intp))
    given = np.asarray(labels)
    if given.shape != (n_targets,):
        raise ValueError(
            f"labels has shape {given.shape} and there are {n_targets} targets: pass the group of "
            "each target."
        )
    return Partition(given)
