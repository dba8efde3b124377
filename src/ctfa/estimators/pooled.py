"""Tasks with rows of their own: pooled in groups, then any regressor for each group."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.dummy import DummyRegressor
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from ctfa import _reading as check
from ctfa._reading.streaming import StreamingTasks
from ctfa._reading.sums import (
    Collection,
    Rows,
    Wanted,
    apart,
    as_array_of,
    deal_tasks,
    is_lazy,
    learns_from_sums,
    means_of_strangers,
    predict_tasks,
    r2_of_collection,
    splits_of,
)
from ctfa._threads import one_thread
from ctfa.core import progress
from ctfa.core.calibration import Calibration
from ctfa.core.criteria import TARGET_CRITERIA
from ctfa.core.cut import PREFERRED, CutCurve, middle_of_best
from ctfa.core.mixed import Drawn, estimate
from ctfa.core.offsets import random_intercepts
from ctfa.core.partition import Partition
from ctfa.core.tasks.base import Rule
from ctfa.core.tasks.out_of_fold import Crosswise
from ctfa.core.tasks.own_rows import MixedRows, TaskRows
from ctfa.core.types import FloatArray, IntArray
from ctfa.estimators import intervals
from ctfa.estimators.evidence import Explanation, MergeEvidence, PooledEvidence, explain
from ctfa.estimators.features import FeatureAggregator
from ctfa.estimators.given import asks_of, fields, whole
from ctfa.estimators.groups import GroupsRegressor
from ctfa.estimators.importance import importance
from ctfa.estimators.models import (
    Nearest,
    SingleModels,
    TaskLevels,
    keep_features,
    merge_features_within,
    reduced,
    within_a_fold,
)
from ctfa.estimators.own_refits import OwnTold, find_groups_by_refits, stacked, tell, units_of_rows
from ctfa.estimators.refits import Split, fewer_folds, fit_regressor
from ctfa.estimators.search import choose, keep_price, leave_apart, pose, read_rule, settle
from ctfa.estimators.targets import TargetAggregator
from ctfa.estimators.view import FittedGroups
from ctfa.kernels.devices import to_numpy

#: What is predicted for tasks that fit has not seen.
UNSEEN = ("error", "global", "nearest")


class PooledCTFARegressor(StreamingTasks, GroupsRegressor):
    """Pool tasks that have rows of their own (pupils of schools), then fit a regressor per group.

    Tasks of a group share their slopes; each keeps an offset. A merge stacks the rows of two groups
    and costs Chow's F (what common slopes add to the residual), compared with the F at which
    pooling breaks even, exact for any number of tasks and rows.

    Parameters
    ----------
    regressor : estimator, default=None
        Any scikit-learn regressor, cloned for each group; None is least squares, or
        ridge regression where ``n_samples <= n_features + 2``, columns at unit length. One without
        a closed form also judges the merges, see Notes.
    targets : TargetAggregator, "passthrough" or None, default=None
        How tasks are merged; None is ``TargetAggregator()``, "passthrough" leaves every task by
        itself. For the criterion "risk" or a callable. ``max_loss="auto"`` is the limit of the
        smallest error on folds of the rows of each task (``cv=10`` holds out a tenth of every task,
        see Notes; give a splitter for rows in time), by linear models with this head or by the
        regressor that judges. ``connectivity`` is a graph of the tasks in the order of ``tasks_``;
        a callable receives their mean inputs as rows.
        ``scale`` is the unit of gains: ``"standard"`` the variance of the target within tasks, one
        for all, ``"center"`` the target's own; neither changes a decision, because F has no unit.
        ``flip``, ``guard`` and a ``regressor`` that is penalised are not available.
    features : FeatureAggregator, "passthrough" or None, default=None
        Phase II, cloned for each group and run on its rows about their tasks' means; None and
        "passthrough" keep every feature.
    head : {"levels", "mean"}, default="levels"
        ``"mean"``: the slopes of the group and the task's offset. ``"levels"``: also slopes of
        the task's own; offset and slopes are shrunk towards the group's together, and how much is
        learned from all tasks, input by input. The origins and units of inputs do not matter.
    unseen : {"error", "global", "nearest"}, default="error"
        What to do for tasks that ``fit`` has not seen: raise an error; predict by one model pooled
        over all tasks; or by the group whose mean inputs are nearest to those of the task's rows
        given to ``predict``, in units of each input's spread within tasks. Their offset is zero.
    n_jobs : int or None, default=None
        Number of groups and folds processed in parallel, through joblib.

    Notes
    -----
    A regressor without a closed form (a forest, kernels, a pipeline) is fitted to every task
    without each fold of ``cv`` and each pair of folds, ten fits per task on four folds, and judges
    merges by predictions of a task's rows by models of other tasks: tasks may differ in their
    levels only. A task with too few rows for it is judged by its level. Models learn from targets
    about their tasks' levels, in the unit given. Missing features are left to a regressor that
    accepts them, without ``features`` and ``unseen="nearest"``.
    ``targets=TargetAggregator(regressor=LinearRegression())`` judges by linear models, for
    costly regressors: these are then fitted once per group.

    By linear models all tasks together need more rows than slopes and offsets, by three or more,
    for there to be evidence; ``targets="passthrough"`` needs none. There is no ``compare`` and no
    ``stability`` here: cross-validate, with the ids as a column of ``X`` (see ``fit``).

    An integer ``cv`` deals the rows of each task to the folds in turn, in the order given; each
    round takes the folds in another order. Rows in memory, in
    Dask's collections and in pieces (``partial_fit``) are dealt alike, in any chunks and any units
    of ``X`` and ``y``; another order of the rows may give another limit.

    Collections of Dask: everything is as for the same rows in memory. Regressors that are not least
    squares and features judged on folds need the rows, which are gathered up to 2 GiB.

    Attributes
    ----------
    tasks_ : ndarray of shape (n_tasks,)
        Ids of the tasks, in order.
    targets_ : TargetAggregator
        Phase I as fitted. Its ``partition_``, ``labels_``, ``n_groups_``, ``history_``,
        ``max_loss_``, ``loss_interval_`` and ``cv_curve_`` are here under the same names.
    features_ : list of FeatureAggregator
        Phase II as fitted, one per group.
    regressors_ : list of estimators
        One per group, fitted to the target less the task's offset; to the target about the task's
        level where the regressor has judged.
    offsets_ : ndarray of shape (n_tasks,)
        What each task adds to its group's model at its mean inputs; the fewer rows a task has, the
        more it is shrunk towards zero.
    coef_ : ndarray of shape (n_tasks, n_features)
        Coefficients of each task, in the units of the data, where everything is linear; with
        ``intercept_`` of shape (n_tasks,). What ``head="levels"`` adds is in them.
    group_coef_ : ndarray of shape (n_groups, n_features)
        Coefficients of the groups' models alone.
    trust_ : ndarray of shape (n_tasks,)
        One less the share of its own degrees of freedom that a task uses under ``head="levels"``;
        the weight of its group's model, one per group, where the regressor has judged.
    merges_ : DataFrame
        One row per merge: which groups merged, its loss, F and break-even F; ``gain``, predicted,
        summed over the tasks of both sides, with its standard error ``gain_error``; ``worst_gain``,
        of the task that gains least; the tasks predicted to lose. Gains are shares of the variance
        of the target within tasks for ``scale="standard"`` (0.05 is 5 %), in squared units of the
        target for ``"center"``.
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
    _choices: ClassVar[dict[str, tuple[str, ...]]] = {**GroupsRegressor._choices, "unseen": UNSEEN}
    #: What linear models knew of merges; None where a regressor was refitted to judge them.
    _pooled: PooledEvidence | None = None
    _levels: TaskLevels | None = None
    _singles: SingleModels | None = None
    _judged: MergeEvidence
    _saved = GroupsRegressor._saved | fields(
        "global_regressor_ offsets_ tasks_",
        coef_="_added",
        evidence="_judged",
        levels="_levels",
        single_models="_singles",
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
        head: str = "levels",
        unseen: str = "error",
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(regressor, targets=targets, features=features, head=head, n_jobs=n_jobs)
        self.unseen = unseen

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
            finds it there, also inside ``cross_val_predict``, which passes on nothing else.
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
        column = tasks if check.is_column(tasks) else None
        X, tasks = apart(X, tasks)
        read = None
        if is_lazy(X, y, tasks, sample_weight):
            if tasks is None:
                check.read_ids(tasks, None)
            wanted, needs_rows = self.__ctfa_asks__()
            data = Collection.of(X, y, sample_weight, None, tasks)
            found = data.read(self, wanted, groups, needs_rows)
            if isinstance(found, Rows):
                X, y, sample_weight, _, tasks, _ = found
            else:
                sample, targets, whose = found
                assert whose is not None
                read = sample, targets.values[:, 0], whose
        if read is None:
            X, y, tasks, sample_weight = map(to_numpy, (X, y, tasks, sample_weight))
            sample = check.read_task_sample(self, X, tasks, sample_weight, gaps=self._takes_gaps)
            target = check.read_vector(y, sample)
            read = sample, target, check.read_tasks(tasks, sample.n_given, sample.used)
        if sample_weight is not None:
            check.require_weighable(self._template)
        self._column = column
        with progress.part():
            return self._fit_read(*read, groups)

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
            read once for the mean inputs of unseen tasks); for arrays of another library, an array
            of that library.
        """
        features, ids = self._apart(X, tasks)
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
        """Predict rows in memory; ``nearest`` are groups of unseen tasks, where they were found."""
        inputs, ids, index, strangers = self._read_again(X, tasks)
        group, others = np.where(index >= 0, self.labels_[index], -1), np.flatnonzero(index < 0)
        if strangers and self.unseen == "error":
            check.require_seen(strangers, self._ids)
        if strangers and self.unseen == "nearest":
            if nearest is None:
                nearest = self._nearest.groups_of(inputs, ids, strangers)
            group[others] = [nearest[ids[row]] for row in others.tolist()]
        return self._predict_read(inputs, index, group)

    def _apart(self, X: Any, tasks: Any) -> tuple[Any, Any]:
        """Features and ids of tasks, where ids may be a column."""
        check_is_fitted(self)
        features, ids = apart(X, self._column if tasks is None else tasks)
        check.require_not_one_id(features, tasks, self.n_features_in_)
        return features, ids

    def _read_again(
        self, X: Any, tasks: Any
    ) -> tuple[FloatArray, Sequence[Any], IntArray, list[Any]]:
        """Rows in memory, the ids of their tasks, their numbers (-1 if unseen); unseen tasks."""
        gaps = self._levels is not None and check.takes_gaps(self._template)
        inputs = check.read_inputs(self, X, reset=False, gaps=gaps)
        ids = check.read_ids(tasks, inputs.shape[0])
        position = {task: number for number, task in enumerate(self._ids)}
        index = np.array([position.get(task, -1) for task in ids], dtype=np.intp)
        return inputs, ids, index, list(dict.fromkeys(one for one in ids if one not in position))

    def _predict_read(
        self, inputs: FloatArray, index: IntArray, group: IntArray | None = None
    ) -> FloatArray:
        """Predict rows of tasks by their numbers; of others, -1, by the group that is given."""
        group = self.labels_[index] if group is None else group
        predicted = np.empty(inputs.shape[0])
        for number in np.unique(group).tolist():
            at = group == number
            predicted[at] = self._predict_group(number, inputs[at])
        seen = index >= 0
        own = index[seen]
        predicted[seen] += self.offsets_[own]
        if self._levels is None:
            about = inputs[seen] - self._centre[own]
            predicted[seen] += np.einsum("ij,ij->i", about, self._added[own])
            return predicted
        assert self._singles is not None
        for task, model in zip(self._singles.targets.tolist(), self._singles.models, strict=True):
            at = index == task
            if at.any():
                alone = self._levels.own[task] + _said(model, inputs[at])
                predicted[at] += (1.0 - self.trust_[task]) * (alone - predicted[at])
        return predicted

    def predict_interval(
        self, X: Any, coverage: float = 0.9, *, tasks: Any = None
    ) -> tuple[Any, Any]:
        """Predict intervals that hold the target of each row with a given probability.

        Intervals are calibrated on held-out rows of each task; quantiles of errors are pooled
        within groups, so that tasks with few rows borrow those of others. An integer ``cv`` deals
        rows to folds at random: for rows in time give ``TargetAggregator`` a splitter. Tasks that
        ``fit`` has not seen have no intervals: the error of their level is not known.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
        coverage : float, default=0.9
            Probability that an interval holds the true value, above 0 and below 1.
        tasks : array of shape (n_samples,) or a column of X, default=None
            As in ``predict``.

        Returns
        -------
        lower, upper : ndarray of shape (n_samples,)
            Dask arrays, not computed, for Dask's collections. After ``partial_fit``, and where rows
            were read as sums, intervals are those of Gaussian errors, and a warning says so.

        Examples
        --------
        >>> import numpy as np
        >>> from ctfa import PooledCTFARegressor
        >>> rng = np.random.default_rng(0)
        >>> school = np.repeat(["a", "b", "c"], 40)
        >>> X = rng.normal(size=(120, 2))
        >>> model = PooledCTFARegressor().fit(X, X[:, 0] + rng.normal(size=120), tasks=school)
        >>> lower, upper = model.predict_interval(X[:2], tasks=["a", "c"])
        >>> bool((lower < upper).all())
        True
        """
        check_is_fitted(self)
        calibration, coverage = intervals.require_calibration(self, coverage)
        intervals.tell_gaussian(calibration)
        features, ids = self._apart(X, tasks)
        ends = [partial(self._interval_of_rows, calibration, coverage, end) for end in (0, 1)]
        if not is_lazy(features, ids):
            both = [as_array_of(X, end(to_numpy(features), to_numpy(ids))) for end in ends]
        else:
            if ids is None:
                check.read_ids(ids, None)
            read = partial(check.read_inputs, self, reset=False)
            both = [predict_tasks(end, read, features, ids) for end in ends]
        return both[0], both[1]

    def calibrate(
        self, X: Any, y: Any, tasks: Any = None, *, cv: Any = 5, sample_weight: Any = None
    ) -> Self:
        """Calibrate ``predict_interval`` by fitting this model again without each fold.

        ``fit`` already calibrates where that is cheap: where the regressor has a closed form.

        Parameters
        ----------
        X, y, tasks, sample_weight
            The data of fit.
        cv : int, splitter or list of folds, default=5
            An integer deals the rows of each task to folds, one fit per fold.

        Returns
        -------
        self
        """
        features, ids = self._apart(X, tasks)
        features, y, ids, sample_weight = map(to_numpy, (features, y, ids, sample_weight))
        sample = check.read_task_sample(clone(self), features, ids, sample_weight, gaps=True)
        target = check.read_vector(y, sample)
        known = check.read_tasks(ids, sample.n_given, sample.used)
        number = {task: at for at, task in enumerate(self._ids)}
        check.require_seen([task for task in known.ids if task not in number], self._ids)
        index = np.array([number[task] for task in known.ids], dtype=np.intp)[known.of_row]
        rows = TaskRows(sample.inputs, target, sample.weights, index, len(self._ids))
        every = check.as_ids([self._ids[task] for task in index.tolist()])

        def ask(train: IntArray, test: IntArray) -> FloatArray:
            weights = None if rows.weights is None else rows.weights[train]
            model = clone(self).fit(rows.inputs[train], target[train], every[train], weights)
            seen = np.isin(index[test], index[train])
            told = np.full(test.size, np.nan)
            told[seen] = model.predict(rows.inputs[test[seen]], every[test[seen]])
            return told

        told = intervals.told_on_folds(ask, _read_splits(cv, sample, rows, None))
        self.calibration_ = intervals.calibrated_on_rows(rows, self.labels_, told)
        return self

    def _interval_of_rows(
        self, calibration: Calibration, coverage: float, end: int, X: Any, tasks: Any
    ) -> FloatArray:
        """One end, of rows in memory."""
        inputs, _, index, strangers = self._read_again(X, tasks)
        if strangers:
            check.refuse_intervals_of_strangers(strangers)
        predicted = self._predict_read(inputs, index)
        return calibration.bounds(predicted, coverage, inputs, target=index)[end]

    def score(self, X: Any, y: Any, tasks: Any = None, sample_weight: Any = None) -> float:
        """R2 over all rows.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            As in ``predict``.
        y : array of shape (n_samples,)
            True values.
        tasks : array of shape (n_samples,) or a column of X, default=None
            As in ``predict``.
        sample_weight : array of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        float
            At most 1.
        """
        if is_lazy(X, y, tasks, sample_weight):
            features, ids = self._apart(X, tasks)
            predict = self._predictor(features, ids)
            return float(r2_of_collection(predict, features, y, sample_weight, ids=ids)[0])
        X, y, tasks, sample_weight = map(to_numpy, (X, y, tasks, sample_weight))
        predicted = self.predict(X, tasks)
        weights = check.read_weights(sample_weight, predicted.size)
        true = check.read_targets(y, predicted.size, what="y").values
        check.require_rows(true, 2)
        return float(r2_score(true[:, 0], predicted, sample_weight=weights))

    def importance(
        self, X: Any, y: Any, tasks: Any = None, *, n_repeats: int = 5, random_state: Any = None
    ) -> Any:
        """Permutation importance of each feature to each group.

        Rows are shuffled within each task, and the loss is a share of the variance within it: the
        mean over a group's tasks, whatever the regressor. Features that Phase II averaged are
        shuffled together and named as their mean.

        Parameters
        ----------
        X, y, tasks
            Rows to evaluate on, of tasks that ``fit`` has seen. The rows of ``fit`` show what the
            model relies on, held-out rows what a feature is good for.
        n_repeats : int, default=5
            Number of times that each feature is shuffled.
        random_state : int, RandomState or None, default=None
            Seed of the shuffles.

        Returns
        -------
        DataFrame
            One row per group and feature: ``group``, ``feature``, ``importance`` and ``error``, its
            standard deviation over the shuffles.
        """
        features, ids = self._apart(X, tasks)
        features, y, ids = map(to_numpy, (features, y, ids))
        inputs, _, of_row, strangers = self._read_again(features, ids)
        check.require_seen(strangers, self._ids)
        true = check.read_targets(y, inputs.shape[0], what="y").values[:, 0]

        def losses(inputs: FloatArray) -> FloatArray:
            squares = (true - self._predict_read(inputs, of_row)) ** 2
            found = np.full(len(self._ids), np.nan)
            for task in np.unique(of_row):
                at = of_row == task
                spread = np.var(true[at])
                if spread > 0.0:
                    found[task] = np.mean(squares[at]) / spread
            return found

        view = self.__ctfa_view__()
        return importance(view, inputs, losses, n_repeats, random_state, of_row)

    def why(self, task: Any) -> Explanation:
        """Say why a task is in its group: print the answer.

        Parameters
        ----------
        task : object
            Its id, as in ``tasks`` of ``fit``.

        Returns
        -------
        Explanation
            Printed, a few sentences: who is in the group, what each merge cost and could have
            cost, what the task gains, and which group it refused last.
        """
        check_is_fitted(self)
        position = check.read_task(task, self._ids)
        members = self.partition_.groups[int(self.labels_[position])]
        gain = None if self._pooled is None else self._pooled.gain_of(position, members)
        return explain(self, self._evidence, position, self._shares, gain)

    @cached_property
    def _evidence(self) -> MergeEvidence:  # type: ignore[override]
        if self._pooled is None:
            return self._judged
        # The gain of one task at a time is worked out when it is asked for.
        merges = self._pooled.merges(self.history_)
        evidence = MergeEvidence.of(self.targets_, self._names, merges)
        return replace(evidence, terms=evidence.terms._replace(chosen=False))

    def __ctfa_view__(self) -> FittedGroups:
        """The view of the fitted model for pages, pictures and files."""
        return FittedGroups(
            self,
            self.targets_,
            self._names,
            lambda: self._evidence,
            self._shares,
            gains_of=None if self._pooled is None else lambda: self._pooled.gains(self.partition_),  # type: ignore[union-attr]
            trust=np.asarray(self.trust_) if self.head == "levels" else None,
            parts={
                "task_ids": self._ids,
                "task_means": self._centre,
                "slopes": self._added,
                "levels": self._levels,
                "single_models": self._singles,
            },
            template=self._template,
        )

    def __ctfa_asks__(self, n_targets: int = 1) -> tuple[list[Wanted], str | None]:
        """Folds that a fit needs, and what in it cannot be computed from sums."""
        targets, features = self._phases()
        wanted = []
        if targets is not None:
            judge = self._judge_of_own(targets)
            self._rule(targets, judge)
            if not check.judges(judge):
                plain = clone(targets).set_params(connectivity=None)
                return asks_of(plain, features, 2, judge=judge)
            limit = check.read_limit(targets, TARGET_CRITERIA)
            wanted = [Wanted("limit", targets.cv)] if limit is None else []
        if not learns_from_sums(self._template):
            return wanted, f"regressor={type(self._template).__name__}()"
        if features is None:
            return wanted, None
        folded = None if features.cv is None else "cv of FeatureAggregator, with tasks,"
        return wanted, asks_of(None, features)[1] or folded

    def _fit_read(
        self, sample: check.Sample, target: FloatArray, known: check.TaskIds, groups: Any
    ) -> Self:
        """Fit data that are read, or rows that stand in for others."""
        template, features = self._phases()
        self._ids, self.tasks_ = known.ids, check.as_ids(known.ids)
        self._names = tuple(map(str, known.ids))
        rows = TaskRows(
            sample.inputs, target, sample.weights, known.of_row, len(known.ids), sample.counts
        )
        check.require_varying_within(rows.within(target), target)
        for name in ("_evidence", "global_regressor_", "_nearest", "_judged"):
            self.__dict__.pop(name, None)
        self._pooled = self._levels = self._singles = self.calibration_ = None
        aggregator = TargetAggregator(max_loss=-np.inf) if template is None else clone(template)
        check.copy_input_names(self, aggregator)
        rule = self._rule(aggregator, None if template is None else self._judge_of_own(template))
        # Single tasks concern their regressor alone, and an infinite limit judges nothing; one
        # model of all tasks needs offsets.
        max_loss, short = aggregator.max_loss, False
        is_refitted = rule.solver == "refits"
        if isinstance(max_loss, str) or np.isfinite(max_loss) or self.unseen == "global":
            short = not is_refitted and _are_short(rows, chosen=isinstance(max_loss, str))
        if rows.counts is None and not is_refitted:  # for sums the warning was given
            within = rows.within(rows.inputs)
            check.warn_if_slopes_are_doubtful(rows.inputs, within, rows.weights)
        graph = check.read_graph(aggregator.connectivity, rows.mean_inputs().T, "tasks")
        wished = self._names, self._ids, graph, rows.n_tasks, "tasks"
        rule = replace(rule, graph=graph, wishes=check.read_wishes(aggregator, *wished))
        if is_refitted:
            return self._fit_by_refits(aggregator, rule, features, sample, rows, groups)
        self._fit_targets(aggregator, rule, sample, rows, groups, short=short)
        self._fit_groups(features, rows)
        if check.judges(self.regressor):
            self.calibration_ = self._calibrated(features, sample, rows, groups)
        return self

    def _calibrated(
        self, features: FeatureAggregator | None, sample: check.Sample, rows: TaskRows, groups: Any
    ) -> Calibration | None:
        """Intervals, from what the model says of folds when it is fitted without them."""
        if not intervals.are_asked():
            return None
        splits, cv = list[Split](), intervals.few_blocks(self.targets_.cv)
        with suppress(ValueError, KeyError):  # of a splitter or folds that nothing else has used
            splits = _read_splits(cv, sample, rows, groups)
        ask = partial(self._told_without, within_a_fold(features, sample.folds), rows)
        told = intervals.told_on_folds(ask, splits)
        if not told:
            told = [(np.arange(rows.index.size), self._predict_read(rows.inputs, rows.index))]
        return intervals.calibrated_on_rows(rows, self.labels_, told)

    def _told_without(
        self, features: FeatureAggregator | None, rows: TaskRows, train: IntArray, test: IntArray
    ) -> FloatArray:
        """What the same groups say of rows that they were not fitted to; NaN of tasks without any.

        Features are grouped again.
        """
        kept = np.bincount(rows.index[train], minlength=rows.n_tasks) > 0
        twin = copy.copy(self)
        twin.unseen, twin.targets_ = "error", copy.copy(self.targets_)
        twin.targets_.partition_ = Partition(self.labels_[kept])
        twin.targets_.labels_ = twin.targets_.partition_.labels
        twin.targets_.n_groups_ = twin.targets_.partition_.n_groups
        twin._fit_groups(features, rows.take(train, kept))
        told, asked = np.full(test.size, np.nan), np.flatnonzero(kept[rows.index[test]])
        index = (np.cumsum(kept) - 1)[rows.index[test[asked]]]
        told[asked] = twin._predict_read(rows.inputs[test[asked]], index)
        return told

    @property
    def _takes_gaps(self) -> bool:
        """Whether missing features are the regressor's business alone: that of one that judges."""
        targets, features = self._phases()
        if targets is None or features is not None or targets.regressor is not None:
            return False
        alone = self.unseen != "nearest" and not callable(targets.connectivity)
        judge = self._judge_of_own(targets)
        return alone and not check.judges(judge) and check.takes_gaps(judge)

    def _fit_by_refits(
        self,
        aggregator: TargetAggregator,
        rule: Rule,
        features: FeatureAggregator | None,
        sample: check.Sample,
        rows: TaskRows,
        groups: Any,
    ) -> Self:
        """Find groups by predictions of held-out rows, then fit them."""
        limit = check.read_limit(aggregator, TARGET_CRITERIA)
        is_short = rows.counts is None and np.bincount(rows.index).max() < 2
        is_apart = limit == -np.inf and not check.wishes_of(aggregator)
        splits: Sequence[Split] = ()
        if rows.n_tasks > 1 and not is_apart and (limit is None or not is_short):
            splits = _read_splits(fewer_folds(aggregator.cv), sample, rows, groups)
        told = tell(
            partial(OwnTold.of_rows, rows, rule, self.n_jobs), splits, chooses=limit is None
        )
        found = find_groups_by_refits(self, aggregator, rule, told, self._names, self._names)
        self.targets_, self._judged = aggregator, found.evidence
        if aggregator.regressor is not None:
            self._fit_groups(features, rows)
            return self
        self._fit_levels(features, rows, None if told is None else told.table, found.trust)
        if found.said is not None:
            self.calibration_ = intervals.calibrated_on_rows(rows, self.labels_, found.said)
        return self

    def _rule(self, aggregator: TargetAggregator, judge: Any) -> Rule:
        """Check the options of Phase I; refuse those that need common rows.

        Without the graph, which may be a function of the tasks.
        """
        if check.read_criterion(aggregator.criterion, TARGET_CRITERIA).for_means:
            why = (
                "averages targets over common rows, which tasks with rows of their own do not have,"
            )
            check.refuse_option("criterion", aggregator.criterion, why, "use criterion='risk'")
        shrinks = self.head == "levels" and check.judges(judge)
        rule = read_rule(aggregator, judge, refits=True, tempers=(float(shrinks),))
        check.require_flag(aggregator.flip, "flip")
        intercept = "would give a group one intercept, and tasks keep an offset of their own"
        alone = "use regressor=None: tasks without degrees of freedom of their own may merge"
        missing = "is not available"
        for name, is_refused, why, instead in (
            ("scale", rule.scale == "none", intercept, "use 'standard' or 'center'"),
            ("flip", aggregator.flip, missing, "change the sign of those targets yourself"),
            ("guard", aggregator.guard is not None, missing, "use guard=None, and head='levels'"),
            ("regressor", rule.solver == "ridge", missing, alone),
        ):
            if is_refused:
                check.refuse_option(name, getattr(aggregator, name), why, instead)
        return replace(rule, judge=judge)

    def _begin_groups(
        self, template: FeatureAggregator | None, rows: TaskRows
    ) -> list[tuple[IntArray, FeatureAggregator]]:
        """Phase II of each group; returns groups, and all tasks where one model of all is used."""
        n_tasks = rows.n_tasks
        self.features_ = keep_features(self, self.n_groups_)
        if template is not None:
            template = clone(template)
            check.copy_input_names(self, template)
            self.features_ = Parallel(n_jobs=self.n_jobs)(
                delayed(merge_features_within)(rows.of_tasks(who), copy.deepcopy(template))
                for who in self.partition_.groups
            )
        self.offsets_, self.trust_ = np.zeros(n_tasks), np.ones(n_tasks)
        self._added = np.zeros((n_tasks, rows.inputs.shape[1]))
        self._centre = np.nan_to_num(rows.mean_inputs())
        if self.unseen == "nearest":
            self._nearest = Nearest.of(rows, self.labels_)
        groups = list(zip(self.partition_.groups, self.features_, strict=True))
        if self.unseen == "global":
            groups.append((np.arange(n_tasks), keep_features(self, 1)[0]))
        return groups

    def _fit_models(self, regressors: Sequence[Any], parts: Sequence[TaskRows]) -> list[Any]:
        """Fit a regressor for each group, then others; return those that belong to no group."""
        models = Parallel(n_jobs=self.n_jobs)(
            delayed(fit_regressor)(one, own.inputs, own.target, own.weights, own.n_samples)
            for one, own in zip(regressors, parts, strict=True)
        )
        self.regressors_, rest = models[: self.n_groups_], models[self.n_groups_ :]
        if self.unseen == "global":
            self.global_regressor_ = rest.pop(0)
        return list(rest)

    def _fit_levels(
        self,
        template: FeatureAggregator | None,
        rows: TaskRows,
        told: Crosswise | None,
        trust: FloatArray,
    ) -> None:
        """A regressor for each group and, where trust is not full, one for each member.

        They learn from targets about the levels of their tasks.
        """
        groups = self._begin_groups(template, rows)
        level = units_of_rows(rows, np.arange(rows.index.size)).level
        own = level[np.array([mine[0] for mine in rows.rows])]
        single = np.flatnonzero(trust < 1.0)
        alone = replace(rows, target=rows.target - level)
        together = replace(alone, target=alone.target + stacked(told, self.partition_)[rows.index])
        parts = []
        for number, (who, features) in enumerate(groups):
            if number == self.n_groups_:  # one group of all tasks
                all_together = Partition(np.zeros(rows.n_tasks, dtype=np.intp))
                target = alone.target + stacked(told, all_together)[rows.index]
                together = replace(alone, target=target)
            part = together.of_tasks(who)
            parts.append(replace(part, inputs=reduced(features, part.inputs)))
        parts += [alone.of_tasks(single[[at]]) for at in range(single.size)]
        # A task that is too small for the regressor is predicted by its level.
        is_lost = np.zeros(rows.n_tasks, dtype=bool) if told is None else told.counts == 0.0
        whose = [*(who for who, _ in groups), *single[:, None]]
        regressors = [DummyRegressor() if is_lost[who].all() else self.regressor for who in whose]
        self._singles = SingleModels(single, self._fit_models(regressors, parts))
        heights: list[float] = []
        models = [*self.regressors_, *([self.global_regressor_] if self.unseen == "global" else [])]
        for (who, _), part, model in zip(groups, parts, models, strict=False):
            if who.size == 1:
                heights.append(float(own[who[0]]))
                continue
            left = rows.of_tasks(who).target - _said(model, part.inputs)
            # Nothing but levels: what inputs say is gone.
            rest = replace(part, target=left, inputs=np.empty((left.size, 0)))
            found = random_intercepts(rest.summaries())
            heights.append(found.intercept)
            if len(heights) <= self.n_groups_:
                self.offsets_[who] = found.values
        self._levels, self.trust_ = TaskLevels(np.array(heights), own), trust

    @one_thread()
    def _fit_targets(
        self,
        aggregator: TargetAggregator,
        rule: Rule,
        sample: check.Sample,
        rows: TaskRows,
        groups: Any,
        *,
        short: bool,
    ) -> None:
        """Choose the limit, where none is given, and merge."""
        limit = check.read_limit(aggregator, TARGET_CRITERIA)
        curve = choice = None
        if limit is None and short:
            check.refuse_unasked(rule.wishes, rows.n_tasks)
            limit = -np.inf
        elif limit is None:
            served = rule.tempers
            if rule.wishes and served != (0.0,):  # groups' own models, for what wishes cost
                rule = replace(rule, tempers=(*served, 0.0))
            # By linear models, whatever the regressor.
            choice = choose(
                rows,
                rule,
                _read_splits(aggregator.cv, sample, rows, groups),
                _as_served,
                cv=aggregator.cv,
                n_jobs=self.n_jobs,
            )
            limit = PREFERRED if choice is None else choice.max_loss
            curve = None if choice is None else choice.curve
        problem = pose(rule, rows.space(), rows.variance)
        unit = float(np.average(rows.within(rows.target) ** 2, weights=rows.weights))
        counts = np.bincount(rows.index, rows.weights, rows.n_tasks)
        self._pooled = PooledEvidence(
            copy.deepcopy(problem.space),  # type: ignore[arg-type]
            1.0 + 1.0 / counts,
            unit if aggregator.scale == "standard" else 1.0,
        )
        if self.targets == "passthrough":
            leave_apart(aggregator, rows.n_tasks)
        else:
            settle(aggregator, problem, limit, self._names)
            keep_price(aggregator, rule, choice)
        aggregator.cv_curve_ = curve
        self.targets_ = aggregator

    def _fit_groups(self, template: FeatureAggregator | None, rows: TaskRows) -> None:
        """Features, offsets and a regressor for each group, then slopes of each task's own."""
        groups = self._begin_groups(template, rows)
        model, parts = None, []
        if self.head == "levels":
            with one_thread():
                model = MixedRows.of(rows)
                variance = estimate(model.moments, self.labels_)
        for number, (who, features) in enumerate(groups):
            part, of_all = rows.of_tasks(who), number == self.n_groups_
            own = replace(part, inputs=reduced(features, part.inputs))
            with one_thread():
                if model is None:
                    offsets = random_intercepts(own.summaries()).values
                    added = offsets[part.index]
                    if not of_all:
                        self.offsets_[who] = offsets
                else:
                    together = np.zeros(who.size, dtype=np.intp)
                    drawn_with = estimate(model.moments, together) if of_all else variance
                    added = model.added_in_group(part, drawn_with, features.partition_)
            parts.append(replace(own, target=part.target - added))
        self._fit_models([self.regressor] * len(parts), parts)
        if model is None:
            return
        # Offsets and slopes of each task's own, from what the regressor of its group leaves.
        left, of_row = np.empty(rows.target.size), self.labels_[rows.index]
        for group in range(self.n_groups_):
            at = of_row == group
            left[at] = rows.target[at] - self._predict_group(group, rows.inputs[at])
        with one_thread():
            rest = MixedRows.of(replace(rows, target=left), model._replace(level=0.0))
            drawn = Drawn.of(rest.moments, variance, labels=self.labels_)
            coef, self.trust_ = drawn.alone, drawn.trust
        self._added = coef[:, 1:] / model.units.scale
        about = self._centre - model.units.mean
        self.offsets_ = coef[:, 0] + np.einsum("ij,ij->i", about, self._added)

    def _predict_group(self, group: int, inputs: FloatArray) -> FloatArray:
        """What a group's model says; -1 is the one of all tasks."""
        regressor = self.global_regressor_ if group < 0 else self.regressors_[group]
        columns = inputs if group < 0 else reduced(self.features_[group], inputs)
        told = _said(regressor, columns)
        return told if self._levels is None else self._levels.group[group] + told


def _as_served(table: FloatArray, grid: FloatArray, n_groups: FloatArray) -> tuple[CutCurve, int]:
    """The middle limit of the smallest error of what tasks are served with."""
    curve = CutCurve(grid, table[:, :, 0], n_groups, -1)
    return replace(curve, chosen=middle_of_best(curve)), 0


def _said(regressor: Any, inputs: FloatArray) -> FloatArray:
    """What a model says of some rows."""
    means = np.asarray(regressor.predict(inputs)).reshape(-1, 1)
    check.require_finite_prediction(means, [regressor])
    return means[:, 0]


def _are_short(tasks: TaskRows, *, chosen: bool) -> bool:
    """Whether tasks leave nothing to judge a merge by, even if all share slopes.

    Says so, and refuses them unless the limit is ``chosen`` here.
    """
    n_rows, n_features = tasks.n_samples, tasks.inputs.shape[1]
    # The rank is worked out where the number of features alone does not settle it.
    if n_rows - n_features - tasks.n_tasks > check.SPARE:
        return False
    together = tasks.space([[0], range(1, tasks.n_tasks)]).evidence(0, np.array([1])).after
    rank = int(np.asarray(together.rank)[0])
    if n_rows - rank - tasks.n_tasks > check.SPARE:
        return False
    check.keep_apart(n_rows, n_features, rank, tasks.n_tasks, chosen=chosen)
    return True


def _read_splits(
    cv: Any, sample: check.Sample, tasks: TaskRows, groups: Any
) -> list[tuple[IntArray, IntArray]]:
    """Folds; a number of them divides the rows of each task."""
    if sample.folds is not None:  # rows that stand in for others were summed by fold
        return sample.folds["limit"]
    if groups is not None or not isinstance(cv, Integral):
        return check.read_folds(cv, sample, tasks.target, groups)
    longest = int(np.bincount(tasks.index).max())
    return splits_of(deal_tasks(tasks.index, check.read_fold_count(cv, longest)))
