"""Tasks with rows of their own: pooled in groups, then any regressor for each group."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from ctfa import _validation as check
from ctfa._collections import (
    TaskCollection,
    apart,
    as_array_of,
    is_lazy,
    means_of_strangers,
    predict_tasks,
    r2_of_tasks,
    to_numpy,
)
from ctfa._whole_fit import whole
from ctfa.core.types import FloatArray
from ctfa.estimators.explanation import Explanation, explain
from ctfa.estimators.heads import HEADS
from ctfa.estimators.merge_evidence import MergeEvidence
from ctfa.estimators.pooled_fit import PooledFit
from ctfa.estimators.saved import fields
from ctfa.estimators.view import FittedGroups

#: What is predicted for tasks that fit has not seen.
UNSEEN = ("error", "global", "nearest")


class PooledCTFARegressor(PooledFit):
    """Pool tasks that have rows of their own (pupils of schools), then fit a regressor a group.

    Tasks of a group share their slopes; each keeps an offset. A merge stacks the rows of two groups
    and costs Chow's F, what common slopes add to the residual, against the F at which pooling
    breaks even, exact for groups of any number of tasks and rows.

    Parameters
    ----------
    regressor : estimator, default=None
        Any scikit-learn regressor, cloned for each group; None is least squares, or
        ridge regression where ``n_samples <= n_features + 2``, columns at unit length.
    targets : TargetAggregator, "passthrough" or None, default=None
        How tasks are merged; None is ``TargetAggregator()``, "passthrough" leaves every task by
        itself. For the criterion "risk" or a callable. ``max_loss="auto"`` is the limit of the
        smallest error on folds of the rows of each task (``cv=10`` holds out a tenth of every task,
        see Notes; give a splitter for rows in time), by linear models with this head.
        ``connectivity`` is a graph of the tasks in the order of ``tasks_``; a callable receives
        their mean inputs as rows.
        ``scale`` is the unit of gains: ``"standard"`` the variance of the target within tasks, one
        for all, ``"center"`` the target's own; neither changes a decision, F having no unit.
        ``flip``, ``guard`` and ``solver="ridge"`` are not available.
    features : FeatureAggregator, "passthrough" or None, default=None
        Phase II, cloned for each group and run on its rows about their tasks' means; None and
        "passthrough" keep every feature.
    head : {"mean", "shrink"}, default="mean"
        ``"mean"``: the slopes of the group and the task's offset. ``"shrink"``: slopes of the
        task's own besides, shrunk towards the group's; how much is learned from all tasks of the
        group, input by input.
    unseen : {"error", "global", "nearest"}, default="error"
        What to do for tasks that ``fit`` has not seen: raise an error; predict by one model pooled
        over all tasks; or by the group whose mean inputs are nearest to those of the task's rows
        given to ``predict``, in units of each input's spread within tasks. Their offset is zero.
    n_jobs : int or None, default=None
        Groups and folds worked on at the same time, through joblib.

    Notes
    -----
    All tasks together need more rows than slopes and offsets, by three or more, for there to be
    evidence; ``targets="passthrough"`` needs none. There is no ``compare`` and no ``stability``
    here: cross-validate, with the ids as a column of ``X`` (see ``fit``).

    An integer ``cv`` deals the rows of each task to the folds in the order in which they come, once
    round all folds and then again, each time in another order of the folds. Rows in memory, in
    Dask's collections and in pieces (``partial_fit``) are dealt alike, in any chunks and any units
    of ``X`` and ``y``; rows in another order may choose another limit.

    Collections of Dask: everything is as for the same rows in memory. Regressors that are no least
    squares and features judged on folds need the rows, which are gathered up to 2 GiB.

    Attributes
    ----------
    tasks_ : ndarray of shape (n_tasks,)
        Ids of the tasks, in order.
    targets_ : TargetAggregator
        Phase I as fitted. Its ``partition_``, ``labels_``, ``n_groups_``, ``history_``,
        ``max_loss_``, ``loss_interval_`` and ``cv_curve_`` are here under the same names.
    features_ : list of FeatureAggregator
        Phase II as fitted, one a group.
    regressors_ : list of estimators
        One a group, fitted to the target less the task's offset.
    offsets_ : ndarray of shape (n_tasks,)
        What each task adds to its group's model: a random intercept, shrunk towards zero by how few
        rows the task has.
    coef_ : ndarray of shape (n_tasks, n_features)
        What ``head="shrink"`` adds to the slopes of the group, about the task's mean inputs; zero
        for ``head="mean"``.
    trust_ : ndarray of shape (n_tasks,)
        One less the share of its own degrees of freedom that a task uses under ``head="shrink"``.
    merges_ : DataFrame
        One row a merge: who joined whom, its loss, F and break-even F; ``gain``, predicted, summed
        over the tasks of both sides, with its standard error ``gain_error``; ``worst_gain``, of the
        task that gains least; the tasks predicted to lose. Gains are shares of the variance of the
        target within tasks for ``scale="standard"`` (0.05 is 5 %), in squared units of the target
        for ``"center"``.
    global_regressor_ : estimator
        The model of all tasks, for ``unseen="global"``.
    n_features_in_, feature_names_in_
        What was seen in fit.

    Examples
    --------
    >>> import numpy as np
    >>> from ctfa import PooledCTFARegressor
    >>> rng = np.random.default_rng(0)
    >>> school = np.repeat(["a", "b", "c"], [30, 12, 40])
    >>> X = rng.normal(size=(82, 2))
    >>> y = X[:, 0] * np.where(school == "c", -1.0, 1.0) + (school == "a") + rng.normal(size=82)
    >>> model = PooledCTFARegressor().fit(X, y, tasks=school)
    >>> model.labels_
    array([0, 0, 1])
    >>> model.predict(X[:2], tasks=["a", "c"]).shape
    (2,)
    """

    _shares = "slopes"
    _saved = PooledFit._saved | fields(
        "coef_ global_regressor_ offsets_ tasks_",
        names="_names",
        nearest="_nearest",
        task_column="_column",
        task_evidence="_pooled",
        task_ids="_ids",
        task_means="_centre",
    )

    def __init__(
        self,
        regressor: Any = None,
        *,
        targets: Any = None,
        features: Any = None,
        head: str = "mean",
        unseen: str = "error",
        n_jobs: int | None = None,
    ) -> None:
        self.regressor = regressor
        self.targets = targets
        self.features = features
        self.head = head
        self.unseen = unseen
        self.n_jobs = n_jobs

    @whole
    def fit(
        self, X: Any, y: Any, tasks: Any = None, sample_weight: Any = None, *, groups: Any = None
    ) -> Self:
        """Group the tasks and fit the regressors.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Dask's collections are read once, as sums by task and fold, see Notes.
        y : array of shape (n_samples,)
        tasks : array of shape (n_samples,), or a column of X
            The task of each row: numbers, strings, or anything hashable. Or the column of ``X``
            that holds them, a name in a data frame or a position in an array: then ``predict``
            finds it there, also inside ``cross_val_predict``, which hands nothing else on.
        sample_weight : array of shape (n_samples,), default=None
            Analytic weights, used in both phases and by the regressor.
        groups : array of shape (n_samples,), default=None
            Labels of the rows for splitters that choose ``max_loss="auto"``, such as
            ``GroupKFold``.

        Returns
        -------
        self
        """
        self._sums = None
        self._check_options()
        if is_lazy(X, y, tasks, sample_weight):
            return self._fit_chunks(X, y, tasks, sample_weight, groups)
        X, y, tasks, sample_weight = map(to_numpy, (X, y, tasks, sample_weight))
        self._column = tasks if check.is_column(tasks) else None
        X, tasks = apart(X, tasks)
        sample = check.read_task_sample(self, X, tasks, sample_weight)
        target = check.read_vector(y, sample)
        known = check.read_tasks(tasks, sample.n_given, sample.used)
        if sample.weights is not None:
            check.require_weighable(self._template)
        return self._fit_read(sample, target, known, groups)

    def _fit_chunks(self, X: Any, y: Any, tasks: Any, sample_weight: Any, groups: Any) -> Self:
        """Fit Dask's collections."""
        features, ids = apart(X, tasks)
        if ids is None:
            check.read_ids(ids, None)
        data = TaskCollection.of(features, y, ids, sample_weight)
        wanted, needs_rows = self._asks_of()
        if needs_rows is None:
            found = data.read(self, wanted, groups)
            if sample_weight is not None:
                check.require_weighable(self._template)
            self._fit_read(*found, groups)
        else:
            rows, ids = data.gathered(needs_rows)
            self.fit(rows.X, rows.Y, ids, rows.sample_weight, groups=groups)
        self._column = tasks if check.is_column(tasks) else None
        return self

    def _check_options(self) -> None:
        check.require(self.head, HEADS, "head")
        check.require(self.unseen, UNSEEN, "unseen")
        check.require_regressor(self._template)

    def predict(self, X: Any, tasks: Any = None) -> Any:
        """Predict the rows of each task.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
        tasks : array of shape (n_samples,) or a column of X, default=None
            The task of each row; None where ``fit`` was given a column.

        Returns
        -------
        ndarray of shape (n_samples,)
            A Dask array, not computed, for Dask's collections (with ``unseen="nearest"`` they are
            read once for the means of strangers); an array of the library of ``X`` for others.
        """
        check_is_fitted(self)
        features, ids = apart(X, self._column if tasks is None else tasks)
        check.require_not_one_id(features, tasks, self.n_features_in_)
        if not is_lazy(features, ids):
            predicted = self._predict_rows(to_numpy(features), to_numpy(ids))
            return as_array_of(X, predicted)
        read = partial(check.read_inputs, self, reset=False)
        return predict_tasks(self._predictor(features, ids), read, features, ids)

    def _predictor(self, features: Any, ids: Any) -> Callable[..., FloatArray]:
        """What predicts rows of Dask's collections, chunk by chunk."""
        if ids is None:
            check.read_ids(ids, None)
        nearest = None
        if self.unseen == "nearest":
            means = means_of_strangers(features, ids, frozenset(self._ids))
            nearest = {task: self._nearest.group_of(mean) for task, mean in means.items()}
        return partial(self._predict_rows, nearest=nearest)

    def _predict_rows(
        self, X: Any, tasks: Any, nearest: Mapping[Any, int] | None = None
    ) -> FloatArray:
        """Predict rows in memory; ``nearest`` are groups of strangers, where these were found."""
        inputs = check.read_inputs(self, X, reset=False)
        ids = check.read_ids(tasks, inputs.shape[0])
        position = {task: number for number, task in enumerate(self._ids)}
        index = np.array([position.get(task, -1) for task in ids], dtype=np.intp)
        seen = index >= 0
        group = np.where(seen, self.labels_[index], -1)
        if not seen.all():
            strangers = list(dict.fromkeys(task for task in ids if task not in position))
            if self.unseen == "error":
                check.require_seen(strangers, self._ids)
            if self.unseen == "nearest":
                if nearest is None:
                    nearest = self._nearest.groups_of(inputs, ids, strangers)
                others = np.flatnonzero(~seen)
                group[others] = [nearest[ids[row]] for row in others]
        predicted = np.empty(inputs.shape[0])
        for number in np.unique(group).tolist():
            at = group == number
            predicted[at] = self._predict_group(number, inputs[at])
        own = index[seen]
        about = inputs[seen] - self._centre[own]
        correction = np.einsum("ij,ij->i", about, self.coef_[own])
        predicted[seen] += self.offsets_[own] + correction
        return predicted

    def score(self, X: Any, y: Any, tasks: Any = None, sample_weight: Any = None) -> float:
        """R2 over all rows."""
        if is_lazy(X, y, tasks, sample_weight):
            check_is_fitted(self)
            features, ids = apart(X, self._column if tasks is None else tasks)
            predict = self._predictor(features, ids)
            return r2_of_tasks(predict, features, y, ids, sample_weight)
        X, y, tasks, sample_weight = map(to_numpy, (X, y, tasks, sample_weight))
        predicted = self.predict(X, tasks)
        weights = check.read_weights(sample_weight, predicted.size)
        true = check.read_targets(y, predicted.size, what="y").values
        check.require_rows(true, 2)
        return float(r2_score(true[:, 0], predicted, sample_weight=weights))

    def why(self, task: Any) -> Explanation:
        """Say why a task is in its group: print the answer."""
        check_is_fitted(self)
        position = check.read_task(task, self._ids)
        members = self.partition_.groups[int(self.labels_[position])]
        return explain(
            self._evidence,
            position,
            self.trust_,
            None,
            shrunk=self.head == "shrink",
            shares=self._shares,
            gain=self._pooled.gain_of(position, members),
        )

    @cached_property
    def _evidence(self) -> MergeEvidence:  # type: ignore[override]
        # The gain of one task at a time is worked out when it is asked for.
        merges = self._pooled.merges(self.history_)
        evidence = MergeEvidence.of(self.targets_, self._names, merges)
        return replace(evidence, terms=evidence.terms._replace(chosen=False))

    def __ctfa_view__(self) -> FittedGroups:
        """What is shown of the fitted model."""
        return FittedGroups(
            self,
            self.targets_,
            self._names,
            lambda: self._evidence,
            self._shares,
            gains_of=lambda: self._pooled.gains(self.partition_),
            trust=np.asarray(self.trust_) if self.head == "shrink" else None,
            parts={"task_ids": self._ids, "task_means": self._centre},
            template=self._template,
        )
