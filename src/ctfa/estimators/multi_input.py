"""Targets that have inputs of their own: grouped, then any regressor for each group.

And the path of groups along the limit, of targets whose inputs are their own or shared.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.utils.validation import check_is_fitted

from ctfa import _reading as check
from ctfa._errors import InputError, Message, Option
from ctfa._reading.sums import Collection, Wanted, learns_from_sums
from ctfa._threads import one_thread
from ctfa.core.criteria import TARGET_CRITERIA, criterion_of
from ctfa.core.cut import PREFERRED
from ctfa.core.graph import some_vertices
from ctfa.core.partition import Partition
from ctfa.core.series import NO_COLUMN, Series, Units
from ctfa.core.tasks.base import PathPoint, Rule
from ctfa.core.tasks.own_inputs import AGGREGATES, TEMPERS, OwnFits, OwnInputs, fit_own, mean_series
from ctfa.core.tasks.shared import SharedInputs
from ctfa.core.types import BoolArray, FloatArray, IntArray
from ctfa.estimators import intervals
from ctfa.estimators.evidence import MergeEvidence, own_evidence
from ctfa.estimators.features import FeatureAggregator
from ctfa.estimators.given import asks_of, fields, searched_where_data_lie, whole
from ctfa.estimators.groups import TargetsRegressor
from ctfa.estimators.held_out import Split
from ctfa.estimators.models import (
    OwnModels,
    OwnSteps,
    fit_groups,
    fit_to_rows,
    slot_names,
    within_a_fold,
)
from ctfa.estimators.own_refits import OwnTold, find_groups_by_refits, tell
from ctfa.estimators.refits import fewer_folds, is_least_squares
from ctfa.estimators.search import (
    Choice,
    MergeProblem,
    choose,
    fewest_groups,
    keep_price,
    pose,
    read_rule,
    settle,
    smallest_error,
    solve_path,
)
from ctfa.estimators.targets import PhaseOne, TargetAggregator, keep_apart, keep_units
from ctfa.estimators.view import FittedGroups

#: Rows that least squares needs beyond the number of inputs, for a break-even F to exist.
SPARE_ROWS = 3
#: Largest number of targets used on folds: limits, ways and shares depend on the noise and the
#: likeness of targets, of which more targets say little new.
ASKED_ON_FOLDS = 2000
#: Fewest folds that use all targets where there are more, and a number of groups was wished.
FEWEST_ASKED = 6


class MultiInputCTFARegressor(TargetsRegressor):
    """Group targets that have inputs of their own, then fit one regressor per group.

    Each target has its own columns of ``X``, of the same kinds for all: rain, temperature and snow
    of its own basin, for example. Kinds are called slots. Merging averages targets and, slot by
    slot, their inputs (the paper's multi-input variant); or the members of a group keep their
    inputs and share coefficients.

    Parameters
    ----------
    layout : array of shape (n_targets, n_slots)
        ``layout[i, k]`` is the column of ``X`` that holds slot ``k`` of target ``i``: its position,
        or its name where ``X`` is a data frame. -1 (or None) where the target has no such input.
        ``ctfa.multi_input_layout`` makes one from an array ``(n_samples, n_targets, n_slots)``.
    regressor : estimator, default=None
        Any scikit-learn regressor, cloned for each group; None is least squares, or
        ridge regression where ``n_samples <= n_features + 2``, columns at unit length. One without
        a closed form also judges the merges, see Notes.
    targets : TargetAggregator, "passthrough" or None, default=None
        How targets are merged; None is ``TargetAggregator()``, "passthrough" leaves every target by
        itself. ``scale="standard"`` puts every series, inputs too, in units of its own spread;
        ``"center"`` takes off means only; ``"none"`` is the paper's predictor. ``max_loss="auto"``
        is chosen on blocks of consecutive rows (``cv``; give a splitter with gaps where rows are
        autocorrelated for long); of more than 2,000 targets on 2,000 of them, whole neighbourhoods
        where there is a graph. ``regressor=RidgeCV()`` judges merges by penalised fits and works
        for series shorter than their inputs. ``flip`` and ``guard`` are not available here.
    features : FeatureAggregator, "passthrough" or None, default=None
        Phase II: merges slots within each group. None and "passthrough" keep every slot.
    aggregate : {"auto", "mean", "pool"}, default="auto"
        ``"mean"``: mean target on mean inputs, one series of predictions per group. ``"pool"``:
        rows of a group are stacked, each target about its own mean; members share coefficients and
        keep their inputs. ``"auto"``: compared on held-out blocks of the training rows;
        ``"pool"`` unless the mean is better by two paired standard errors.
    head : {"levels", "mean"}, default="levels"
        ``"mean"``: a group's model serves its members alone. ``"levels"``: each target adds a
        linear correction in its own inputs, its coefficients pulled towards the group's; how much
        targets differ is learned from all of them, input by input, and tempered on held-out
        blocks.
    n_jobs : int or None, default=None
        Number of groups and folds processed in parallel, through joblib.

    Attributes
    ----------
    aggregate_ : {"mean", "pool"}
        The way of aggregating that was used.
    aggregate_errors_ : dict
        Held-out error of the best limit of each way that was compared, a mean square in units of
        each target's variance (its own units where ``scale`` is not "standard"); empty without
        folds.
    targets_ : TargetAggregator
        Phase I as fitted. Its ``partition_``, ``labels_``, ``n_groups_``, ``history_``,
        ``max_loss_``, ``loss_interval_`` and ``cv_curve_`` are here under the same names.
    features_ : list of FeatureAggregator
        Phase II as fitted, one per group, over the slots that the group has. Slots are named by
        what the names of their columns have in common, where ``X`` has names.
    regressors_ : list of estimators
        One per group, in the units of ``scale``.
    layout_ : ndarray of shape (n_targets, n_slots)
        The layout as positions.
    coef_ : ndarray of shape (n_targets, n_features)
        Coefficients of each target on every column of ``X``, where everything is linear, in the
        units of the data; with ``intercept_`` of shape (n_targets,). For complete rows
        ``X @ coef_.T + intercept_`` is what ``predict`` says.
    group_coef_ : ndarray of shape (n_groups, n_slots)
        Coefficients of the groups' models alone, in the units of ``scale``; NaN for a slot that a
        group does not have.
    trust_ : ndarray of shape (n_targets,)
        One less the share of its own degrees of freedom that a target uses under
        ``head="levels"``, or the weight of its group's model where the regressor has judged; 1 for
        ``head="mean"``.
    merges_ : DataFrame
        One row per merge: which groups merged, its F and break-even F, the predicted gain with its
        standard error (summed over the members, in units of a target's variance where ``scale`` is
        "standard"), the members predicted to lose (worked out for up to 1,000 targets). Gains are
        of the group's model alone and assume independent rows: for autocorrelated series they are
        too large. ``compare`` uses held-out rows.
    stability_ : ndarray of shape (n_targets, n_targets)
        Share of subsamples in which two targets are in one group; see ``stability``.
    n_features_in_, feature_names_in_, target_names_in_
        What was seen in fit.

    Notes
    -----
    NaN is a missing value, in ``X`` and in ``y``. Averaged: row by row a group has the mean of its
    observed members, two groups are compared on the rows where both have everything, and a group
    predicts where each of its slots is observed by some member. Shared: a target enters with the
    rows where it and its inputs are all observed. A slot that a target does not have is never
    filled in: the mean is over those that have it, and shared coefficients of it are learned from
    those. Predictions that lack an input are NaN, with a warning.

    With ``confounds`` residuals take the place of centred series, and the confounds' degrees of
    freedom are counted in F, break-even and shrinkage; with gaps, where each series is regressed
    over its own rows, they are not. ``group_coef_`` and ``regressors_`` are those of the residuals.

    A regressor without a closed form (a forest, kernels, a pipeline) is fitted to the complete rows
    of every target, in units of each series, without each fold of ``cv`` and each pair of folds:
    ten fits per target on four folds, which judge both ways of aggregating by what models say of
    rows that they have not seen. Of a slot that a target lacks its model knows nothing. For
    ``head="levels"`` the group's model is then mixed with one of each target's own, by one weight
    per group (``trust_``).
    ``targets=TargetAggregator(regressor=LinearRegression())`` judges by linear models, for
    costly regressors: these are then fitted once per group.

    Data that are read as sums (Dask's, or on a device) give the same groups, limits and
    predictions. Sums do not tell how squared errors scatter over rows: the error of a target's
    gain in ``why`` is then that of Gaussian rows. Memory grows with the square of the number of
    columns, inputs and targets, times the number of folds.

    Examples
    --------
    >>> from ctfa import MultiInputCTFARegressor
    >>> from ctfa.datasets import make_basins
    >>> basins = make_basins(n_basins=40, n_samples=120, n_features=4, n_regions=3, random_state=0)
    >>> model = MultiInputCTFARegressor(basins.layout).fit(basins.data[:80], basins.target[:80])
    >>> model.predict(basins.data[80:]).shape
    (40, 40)
    """

    _saved = TargetsRegressor._saved | fields(
        "aggregate_ aggregate_errors_ layout_",
        coef_="_added",
        deviations="_steps",
        members_models="_trusted",
        group_models="_models",
        units="_units",
    )
    _choices: ClassVar[dict[str, tuple[str, ...]]] = {
        **TargetsRegressor._choices,
        "aggregate": (*AGGREGATES, "auto"),
    }
    _input_gaps = True
    _models: OwnModels
    _steps: OwnSteps
    _units: Units
    features_: Sequence[FeatureAggregator]
    regressors_: Sequence[Any]
    _kept: Callable[..., MergeEvidence] | None
    #: Models of members' own, where a regressor has judged and they do not trust their group.
    _trusted: OwnModels | None = None

    def __init__(
        self,
        layout: Any,
        regressor: Any = None,
        *,
        targets: Any = None,
        features: Any = None,
        aggregate: str = "auto",
        head: str = "levels",
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(regressor, targets=targets, features=features, head=head, n_jobs=n_jobs)
        self.layout = layout
        self.aggregate = aggregate

    def __sklearn_tags__(self) -> Any:
        """Say that inputs may have gaps."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.target_tags.required = True
        return tags

    @searched_where_data_lie
    @whole
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        confounds: Any = None,
        target_weight: Any = None,
    ) -> Self:
        """Group the targets and fit the regressors.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            The inputs of all targets; NaN is a missing value. Dask's collections, and arrays of
            torch, CuPy or JAX, are read once as sums; missing values, merges judged by ridge and
            regressors that are not least squares need their rows, which are gathered. Arrays on a
            GPU are compared there where all pairs may merge.
        y : array or data frame of shape (n_samples, n_targets)
            NaN is a missing value.
        sample_weight : array of shape (n_samples,), default=None
            Analytic weights, used in both phases and by the regressor.
        groups : array of shape (n_samples,), default=None
            Labels of the rows for splitters that choose ``max_loss="auto"``, such as
            ``GroupKFold``.
        confounds : array of shape (n_samples, n_columns), default=None
            Seasons (indicators or harmonics) or a trend. Every input and every target is first
            regressed on them, with an intercept, on the training rows alone, in every fold too;
            the residuals are merged and fitted. ``predict`` needs the confounds of its rows.
        target_weight : array of shape (n_targets,), default=None
            How much each target counts in the means of its group and in the total risk: the areas
            of basins, for example. Only ratios matter; a weight of two is a target given twice.
            Members that share coefficients (``"pool"``) have no mean: their rows all count the
            same, and weights count in the risk alone, of merges and on held-out rows.

        Returns
        -------
        self
        """
        self._sums = None
        read = self.__ctfa_read__(X, y, sample_weight, confounds, target_weight, groups)
        self._fit_stand_ins(*read, groups)
        return self

    def _fit_phases(
        self,
        template: TargetAggregator | None,
        features: FeatureAggregator | None,
        sample: check.Sample,
        targets: check.Targets,
        groups: Any,
        data: Collection | None,
    ) -> None:
        self._trusted = self.calibration_ = None
        aggregator, rule, series = self._begin(template, sample, targets)
        check.copy_input_names(self, aggregator)
        if template is not None and rule.solver == "refits":
            self._fit_by_refits(aggregator, rule, series, features, sample, targets, groups)
            return
        posed = aggregator, rule, series, sample, targets, groups
        scaled, temper = self._fit_targets(*posed, alone=template is None)
        learns = data is None or sample.counts is None or learns_from_sums(self._template)
        self._serve(scaled, features, temper, sample.folds, None if learns else LinearRegression())
        if data is not None and not learns:
            rows_of = partial(self._rows_of_groups, self._models)
            own = fit_to_rows(self._template, self.features_, data, rows_of, self.n_jobs)
            self._models = self._models._replace(regressors=own)
            self.regressors_ = own
        if learns and check.judges(self.regressor) and intervals.are_asked():
            known = sample, targets.values
            in_fold = within_a_fold(features, sample.folds), temper
            ask = partial(self._told_without, in_fold, self._series(sample, targets), sample)
            told = intervals.told_on_folds(
                ask, intervals.blocks_of(self.targets_.cv, *known, groups)
            )
            if told:
                labels = self.partition_.labels
                self.calibration_ = intervals.calibrated_on_tables(
                    *known, labels, told, self.layout_
                )
            else:
                seen = self._told(sample.inputs, sample.confounds)
                spare = max(1.0 - (self.layout_.shape[1] + 1) / sample.n_samples, 0.1)
                self.calibration_ = intervals.calibrated_in_sample(
                    known[1], seen, sample.weights, spare
                )

    def _serve(
        self,
        scaled: Series,
        features: FeatureAggregator | None,
        temper: float = 0.0,
        folds: Any = None,
        regressor: Any = None,
    ) -> None:
        """Fit a regressor for each group, and what its members add to it."""
        fits: OwnFits | None = None
        added = None
        if temper > 0.0 and self.n_groups_ < scaled.n_tasks:
            with one_thread():
                fits = fit_own(None, scaled, self.aggregate_)
                added = fits.added(self.partition_, temper)
        # Shared coefficients are learned from the rows of all members, of which folds are none.
        folds = folds if self.aggregate_ == "mean" else None
        regressor = self.regressor if regressor is None else regressor
        rest = regressor, features, self._slot_names, self.n_jobs, folds, added
        models = fit_groups(scaled, self.partition_, self.aggregate_, *rest)
        self._models, self.features_, self.regressors_ = models, models.features, models.regressors
        self._added, self.trust_ = np.zeros(scaled.has.shape), np.ones(scaled.n_tasks)
        centre = self._added
        if fits is not None:
            fitted, centre = models.predict(scaled, self.partition_), fits.own.centre[:, :-1]
            with one_thread():
                self._added, self.trust_ = fits.steps(self.partition_, fitted, temper)
        self._steps = OwnSteps(self._added, self.trust_, centre, scaled.has)
        self._singles = self._steps if self.head == "levels" else None

    @property
    def _slot_names(self) -> list[str]:
        return slot_names(self.layout_, getattr(self, "feature_names_in_", None))

    def _told_without(
        self,
        known: tuple[FeatureAggregator | None, float],
        series: Series,
        sample: check.Sample,
        train: IntArray,
        test: IntArray,
    ) -> FloatArray:
        """What the same model, with its groups, says of a fold that it was not fitted to."""
        twin = copy.copy(self)
        twin.targets_ = targets = copy.copy(self.targets_)
        scaled, twin._units = series.take(train).standardised(targets.scale, overwrite=True)
        targets.offsets_, targets.scales_, lines = twin._units.of_targets()
        if lines is not None:
            targets.confounds_slopes_, targets.confounds_means_ = lines.slopes, lines.centre
        twin._serve(scaled, *known)
        columns = None if sample.confounds is None else sample.confounds[test]
        return twin._told(sample.inputs[test], columns)

    def _fit_by_refits(
        self,
        aggregator: TargetAggregator,
        rule: Rule,
        series: Series,
        features: FeatureAggregator | None,
        sample: check.Sample,
        targets: check.Targets,
        groups: Any,
    ) -> None:
        """Find groups by predictions of held-out rows, then fit them."""
        self._kept = splits = None
        limit, ways = check.read_limit(aggregator, TARGET_CRITERIA), self._ways(rule, series)
        if series.n_tasks > 1 and (limit != -np.inf or rule.wishes.shape_groups):
            known = fewer_folds(aggregator.cv), sample, series.values[:, -1].T, groups
            splits = check.read_cut_folds(*known, needed=limit is None, refits=True)
        make = partial(OwnTold.of_series, series, rule, ways, self.n_jobs)
        told = tell(make, splits or [], chooses=limit is None or len(ways) > 1)
        labels = None if targets.labels is None else targets.names
        found = find_groups_by_refits(
            self, aggregator, rule, told, targets.names, labels, ways, series.task_weights,
            complete=series.is_complete,
        )  # fmt: skip
        self.aggregate_, self.aggregate_errors_ = found.aggregate, found.errors
        scaled, self._units = series.standardised(aggregator.scale)
        keep_units(aggregator, targets, *self._units.of_targets())
        self.targets_, self.__dict__["_evidence"] = aggregator, found.evidence
        self._serve(scaled, features)
        self.trust_, some = found.trust, np.flatnonzero(found.trust < 1.0)
        if some.size:
            own, alone = scaled.of_tasks(some), Partition.singletons(some.size)
            rest = self.regressor, None, self._slot_names, self.n_jobs
            self._trusted = fit_groups(own, alone, "pool", *rest)
        if found.said is not None:
            rows = sample, targets.values, aggregator.labels_, found.said
            self.calibration_ = intervals.calibrated_on_tables(*rows, self.layout_)

    def _predict_units(self, inputs: FloatArray, columns: FloatArray | None) -> FloatArray:
        unknown = np.broadcast_to(np.nan, (inputs.shape[0], self.layout_.shape[0]))
        rows = self._series_again(inputs, unknown, columns).in_units(self._units, overwrite=True)
        predicted = self._models.predict(rows, self.partition_)
        self._steps.add(predicted, rows)
        if self._trusted is not None:
            some = np.flatnonzero(self.trust_ < 1.0)
            own = self._trusted.predict(rows.of_tasks(some), Partition.singletons(some.size))
            moved = (1.0 - self.trust_[some])[:, None] * (own - predicted[some])
            # Where a task lacks inputs of its own its group still serves it.
            predicted[some] += np.where(np.isnan(moved), 0.0, moved)
        return np.asarray(predicted.T)

    def _reduced(
        self, inputs: FloatArray, targets: check.Targets, columns: FloatArray | None
    ) -> tuple[FloatArray, list[FloatArray]]:
        series = self._series_again(inputs, targets.values, columns)
        if columns is not None:
            series = series.in_units(self._units._replace(scales=np.ones(series.values.shape[:2])))
        grouped = mean_series(series, self.partition_).values
        each = zip(grouped, self._models.slots, self.features_, strict=True)
        tables = [features.partition_.mean(own[:-1][slots].T) for own, slots, features in each]
        return grouped[:, -1], tables

    def _read_layout(self, n_columns: int, n_targets: int) -> IntArray:
        names = getattr(self, "feature_names_in_", None)
        return check.read_layout(self.layout, n_columns, n_targets, names)

    def _rows_of_groups(
        self, models: OwnModels, groups: list[int], confounds: Any, inputs: Any, values: Any
    ) -> FloatArray:
        """What regressors of some groups learn from, of any rows, targets after inputs."""
        inputs = np.asarray(inputs, dtype=np.float64)
        values = np.asarray(values, dtype=np.float64).reshape(inputs.shape[0], -1)
        rows = self._series_again(inputs, values, confounds)
        return models.table(rows.in_units(self._units, overwrite=True), self.partition_, groups)

    def _series_again(
        self, inputs: FloatArray, values: FloatArray, columns: FloatArray | None
    ) -> Series:
        """The same of rows like those of fit."""
        own = self.targets_.target_weight_
        return Series.of(inputs, self.layout_, values, confounds=columns, task_weights=own)

    def _series(self, sample: check.Sample, targets: check.Targets) -> Series:
        """The series of every target, as they were given."""
        return Series.of(
            sample.inputs,
            self.layout_,
            targets.values,
            sample.weights,
            sample.confounds,
            targets.weights,
            sample.counts,
        )

    @property
    def _shares(self) -> str:  # type: ignore[override]
        return "mean inputs" if self.aggregate_ == "mean" else "coefficients"

    @cached_property
    def _evidence(self) -> MergeEvidence:  # type: ignore[override]
        """What is known of every merge, and of every target's group.

        Worked out when first asked for: at 30,000 targets it takes as long as the fit.
        """
        check_is_fitted(self, "targets_")
        assert self._kept is not None
        evidence = self._kept(self.targets_, self.aggregate_)
        self._kept = None
        return evidence

    def _leave_data_behind(self) -> None:
        """Compute the evidence before its inputs are released."""
        if getattr(self, "_kept", None) is not None:
            self._evidence  # noqa: B018  # a cached property

    def __getstate__(self) -> dict[str, Any]:
        """State without the data."""
        self._leave_data_behind()
        return dict(super().__getstate__())

    def __ctfa_fields__(self) -> dict[str, Any]:
        """Parameters and fields, without the data."""
        self._leave_data_behind()
        return super().__ctfa_fields__()

    def __ctfa_view__(self) -> FittedGroups:
        """The view of the fitted model for pages, pictures and files."""
        return replace(
            super().__ctfa_view__(),
            trust=np.asarray(self.trust_) if self.head == "levels" else None,
            parts={"deviations": self._steps, "group_models": self._models, "units": self._units},
            learned_from=lambda *read: self._series(*read).in_units(self._units, overwrite=True),
        )

    def _single_task(self) -> Any:
        """The same regressor for each target by itself, not fitted, in the same units."""
        targets = self.targets
        if not isinstance(targets, str):
            scale, judge = self.targets_.scale, self.targets_.regressor
            # A graph without edges: without a graph every pair would be asked, and refused.
            no_edges = sparse.csr_array((len(self.layout_), len(self.layout_)))
            targets = TargetAggregator(
                max_loss=-np.inf, scale=scale, regressor=judge, connectivity=no_edges
            )
        return type(self)(
            self.layout_, self.regressor, targets=targets, aggregate="mean", head="mean"
        )

    def _anew(self) -> Any:
        """The same regressor, not fitted, for the same data as arrays without names."""
        return super()._anew().set_params(layout=self.layout_)

    def _grouping(
        self, sample: check.Sample, targets: check.Targets
    ) -> Callable[[IntArray], Partition]:
        rule = self._rule(self.targets_, targets, passthrough=False)
        known = self.targets_, rule, self.aggregate_
        return partial(_group_rows, *known, sample, self._series(sample, targets))

    def _require_observed(
        self, sample: check.Sample, targets: check.Targets, splits: Sequence[Split]
    ) -> None:
        """Refuse folds that leave a target too few rows."""
        series = self._series(sample, targets)
        fewest = self._fewest_rows(self._phases()[0], series)
        for fold, (train, _) in enumerate(splits):
            where = f"the training rows of fold {fold} of cv"
            check.require_series(series.take(train), targets.names, fewest=fewest, where=where)

    def __ctfa_asks__(self, n_targets: int) -> tuple[list[Wanted], str | None]:
        """Folds that a fit needs, and what in it cannot be computed from sums."""
        targets, features = self._phases()
        chooses = self.aggregate == "auto" or self.head == "levels"
        judge = None if targets is None else self._judge_of_own(targets)
        refits = None if check.judges(judge) else judge
        wanted, needs_rows = asks_of(targets, features, n_targets, judge=refits, chooses=chooses)
        needs, how = [needs_rows], Option("aggregate", self.aggregate)
        if refits is not None:
            needs = [check.needs_rows_to_judge(judge)]
        if self.aggregate != "mean" and features is not None and features.cv is not None:
            needs.append(Message("cv of FeatureAggregator with ", how))
        if not learns_from_sums(self._template):
            name = type(self._template).__name__
            if self.aggregate != "mean":
                needs.append(Message(how, f" with {name}()"))
            elif self.head == "levels":
                needs.append(Message(Option("head", "levels"), f" with {name}()"))
        return wanted, next(filter(None, needs), None)

    def _fitted_together(self, widths: tuple[int, int, int]) -> list[IntArray]:
        """Inputs that are in one fit, task by task."""
        layout = self._read_layout(*widths[1:])
        return [columns[columns != NO_COLUMN] for columns in layout]

    def _begin(
        self, template: TargetAggregator | None, sample: check.Sample, targets: check.Targets
    ) -> tuple[TargetAggregator, Rule, Series]:
        """Check what Phase I needs of its options and of the data."""
        self.layout_ = self._read_layout(sample.inputs.shape[1], targets.values.shape[1])
        series = self._series(sample, targets)
        judge = None if template is None else self._judge_of_own(template)
        if template is not None and check.judges(judge):
            template = _suited_to(template, series, targets.names)
        fewest = self._fewest_rows(template, series)
        check.require_series(series, targets.names, fewest=fewest)
        check.require_varying(targets.values, targets.names)
        aggregator = TargetAggregator() if template is None else clone(template)
        rule = self._rule(aggregator, targets, passthrough=template is None)
        check.require_levels(sample.confounds, rule.scale)
        if targets.weights is not None:
            own = aggregator.regressor if check.judges(judge) else judge
            check.refuse_for_target_weight(targets, aggregator, self.aggregate, own)
            merges = aggregator.max_loss != -np.inf  # otherwise no target is judged
            if merges and not (check.judges(judge) or series.is_complete):
                check.refuse_weights_of_gaps(judge)
        return aggregator, rule, series

    def _fewest_rows(self, template: Any, series: Series) -> int | None:
        """Rows that a target needs beyond its inputs; None where no least squares is judged."""
        judge = None if template is None else self._judge_of_own(template)
        if template is None or not check.judges(judge) or check.read_judge(judge) is not None:
            return None
        # With gaps the paper's rule is applied only to pairs with enough rows.
        all_columns = criterion_of(template.criterion, TARGET_CRITERIA).counts_columns
        return None if all_columns and not series.is_complete else SPARE_ROWS

    def _pose(self, sample: check.Sample, targets: check.Targets) -> MergeProblem:
        """The problem of Phase I, whatever its limit."""
        aggregator, rule, series = self._begin(self.targets, sample, targets)
        return _posed(aggregator, rule, self.aggregate, sample, series)

    @one_thread()
    def _fit_targets(
        self,
        aggregator: TargetAggregator,
        rule: Rule,
        series: Series,
        sample: check.Sample,
        targets: check.Targets,
        groups: Any,
        *,
        alone: bool,
    ) -> tuple[Series, float]:
        """Choose what is to be chosen, and merge; return series in those units, and the temper."""
        check.warn_if_own_inputs_are_doubtful(series, targets.names)
        if alone:
            aggregator.set_params(scale="none" if series.confounds is None else "center")
            aggregate = "pool" if self.aggregate == "pool" else "mean"
            choice = Choice(aggregate, -np.inf, 0.0, None, {})
        else:
            choice = self._choose_on_folds(aggregator, rule, sample, series, groups)
        self.aggregate_, self.aggregate_errors_ = choice.aggregate, choice.errors
        scaled, self._units = series.standardised(aggregator.scale, overwrite=True)
        if series.confounds is not None:
            left = np.nan_to_num(scaled.values[:, -1]) != 0.0
            check.require_more_than_confounds(left.any(axis=1), targets.names)
        judged = scaled.free_rows().compressed()
        if alone:
            keep_apart(aggregator, targets)
        else:
            problem = pose(rule, fit_own(rule, judged, choice.aggregate).space())
            names = None if targets.labels is None else targets.names
            chosen = choice.curve is not None and series.is_complete
            settle(aggregator, problem, choice.max_loss, names, chosen=chosen)
            aggregator.cv_curve_ = choice.curve
            keep_price(aggregator, rule, choice)
        keep_units(aggregator, targets, *self._units.of_targets())
        self.targets_ = aggregator
        # Inputs of the evidence, which is computed on request: the series, not the given data,
        # which may change after fit.
        self.__dict__.pop("_evidence", None)
        self._kept = partial(own_evidence, rule, judged, targets.names)
        return scaled, choice.temper

    def _choose_on_folds(
        self,
        aggregator: TargetAggregator,
        rule: Rule,
        sample: check.Sample,
        series: Series,
        groups: Any,
    ) -> Choice:
        """Choose what was not given: the limit, the way of aggregating, the shrinkage."""
        limit, cv = check.read_limit(aggregator, TARGET_CRITERIA), aggregator.cv
        aggregates = self._ways(rule, series)
        shrinks = len(rule.tempers) > 1
        given = PREFERRED if limit is None else limit
        fallback = Choice(aggregates[0], given, float(shrinks), None, {})
        # If nothing merges both ways are the same.
        merges = limit is None or limit > -np.inf or rule.wishes.shape_groups
        chooses = limit is None or (merges and (len(aggregates) > 1 or shrinks))
        if not chooses or series.n_tasks == 1:
            return fallback
        splits = check.read_cut_folds(cv, sample, series.values[:, -1].T, groups)
        if splits is None:
            return fallback
        asked = some_vertices(series.n_tasks, ASKED_ON_FOLDS, rule.graph)
        # A sample of targets does not tell what a number of groups of all of them costs; folds do.
        if asked.size < series.n_tasks and rule.wishes.n_groups is not None:
            count = max(FEWEST_ASKED, round(len(splits) * asked.size / series.n_tasks))
            at = np.linspace(0, len(splits) - 1, min(count, len(splits))).round().astype(int)
            splits = [splits[fold] for fold in at.tolist()]
        elif asked.size < series.n_tasks:
            series = series.of_tasks(asked)
            rule = rule.of(asked)
        fewest = None if rule.solver == "ridge" else SPARE_ROWS
        for fold, (train, _) in enumerate(splits):
            if not check.enough_rows(series.take(train), fewest):
                check.warn_if_own_folds_are_short(fold, _unchosen(limit, aggregates))
                return fallback
        # Rows without any target judge nothing: they are not evidence that errors are zero.
        observed = np.asarray(~np.isnan(series.values[:, -1]).all(axis=0))
        splits = [(train, test) for train, test in splits if observed[test].any()]
        choice = choose(
            OwnInputs(series, OwnInputs(series).spread(rule.scale)),
            rule,
            splits,
            # Where tasks move towards their own models a merge too many costs little, and the
            # smallest error decides; where groups serve their members alone, the safest limit.
            smallest_error((lambda curve: curve) if shrinks else fewest_groups),
            cv=cv,
            n_jobs=self.n_jobs,
            limits=None if limit is None else (limit,),
            aggregates=aggregates,
        )
        if choice is None:
            return fallback
        return choice if limit is None else choice._replace(curve=None)

    def _ways(self, rule: Rule, series: Series) -> tuple[str, ...]:
        """Ways of aggregating to be compared: those that know what was asked for."""
        if self.aggregate != "auto":
            return (self.aggregate,)
        # Penalised fits of coefficients in common, and regressors, know no weights of targets.
        weighed = series.task_weights is not None and rule.solver != "ols"
        only = rule.criterion.for_means or rule.scale == "none" or weighed
        return ("mean",) if only else ("pool", "mean")

    def _rule(
        self, aggregator: TargetAggregator, targets: check.Targets, *, passthrough: bool
    ) -> Rule:
        """Check the options of Phase I."""
        values, names, labels = targets.values, targets.names, targets.labels
        judge = self._judge_of_own(aggregator)
        shrinks = self.head == "levels" and not passthrough and check.judges(judge)
        rule = read_rule(aggregator, judge, refits=True, tempers=TEMPERS if shrinks else (0.0,))
        penalised = rule.solver == "ridge" or not is_least_squares(self._template)
        check.refuse_for_own_inputs(aggregator, self.aggregate, rule.criterion)
        graph = check.read_graph(aggregator.connectivity, values, "targets")
        wishes = check.read_wishes(aggregator, names, labels, graph, values.shape[1])
        return replace(rule, penalised=penalised, graph=graph, wishes=wishes, judge=judge)


def target_path(
    X: Any,
    Y: Any,
    max_losses: Iterable[float],
    *,
    sample_weight: Any = None,
    confounds: Any = None,
    target_weight: Any = None,
    layout: Any = None,
    aggregate: str = "mean",
    **options: Any,
) -> list[PathPoint]:
    """Groups of targets for each ``max_loss``, from one factorization.

    Parameters
    ----------
    X, Y, sample_weight, confounds, target_weight
        As in ``TargetAggregator.fit``.
    max_losses : iterable of float
        Values of ``max_loss``, in any order.
    layout : array of shape (n_targets, n_slots), default=None
        For targets with inputs of their own, as in ``MultiInputCTFARegressor``.
    aggregate : {"mean", "pool"}, default="mean"
        With a layout: average the inputs of a group, or share its coefficients.
    **options
        Parameters of ``TargetAggregator``: criterion, scan, order, connectivity, scale, ...

    Returns
    -------
    list of PathPoint
        One for each value, in the order given.

    Examples
    --------
    >>> from ctfa import target_path
    >>> from ctfa.datasets import make_paper_synthetic
    >>> X, Y = make_paper_synthetic(n_samples=150, n_features=20, n_targets=6, random_state=0)
    >>> [point.n_groups for point in target_path(X, Y, [-1.0, 1.5, float("inf")])]
    [6, 2, 1]
    """
    check.require_no_limit(options)
    aggregator = TargetAggregator(**options, max_loss=np.inf)  # no limit is chosen
    if layout is not None:
        check.require(aggregate, AGGREGATES, "aggregate")
        model = MultiInputCTFARegressor(layout, targets=aggregator, aggregate=aggregate)
        sample, targets, _ = model.__ctfa_read__(X, Y, sample_weight, confounds, target_weight)
        problem = model._pose(sample, targets)
        return solve_path(problem, check.read_losses(max_losses))
    sample, targets, _ = aggregator.__ctfa_read__(X, Y, sample_weight, confounds, target_weight)
    tasks = SharedInputs(sample, targets.values, targets.weights)
    problem = PhaseOne(aggregator, tasks, targets).pose()[2]
    return solve_path(problem, check.read_losses(max_losses))


def _suited_to(template: Any, series: Series, names: Sequence[str]) -> Any:
    """The same by ridge regression, where some target's rows do not carry least squares."""
    criterion = criterion_of(template.criterion, TARGET_CRITERIA)
    plain = check.read_judge(template.regressor) is None and criterion.ridge_loss is not None
    if not plain or series.counts is not None or check.enough_rows(series, SPARE_ROWS):
        return template
    if not check.enough_rows(series, None):
        return template
    check.warn_if_series_are_short(series, names, SPARE_ROWS)
    return clone(template).set_params(regressor=Ridge())


def _posed(
    aggregator: TargetAggregator, rule: Rule, aggregate: str, sample: check.Sample, series: Series
) -> MergeProblem:
    """The problem of Phase I."""
    if rule.solver != "refits":
        with one_thread():
            scaled = series.standardised(rule.scale, overwrite=True)[0].free_rows().compressed()
            return pose(rule, fit_own(rule, scaled, aggregate).space(overwrite=True))
    cv = aggregator.cv
    if not (isinstance(cv, Integral) or hasattr(cv, "split")):
        cv = TargetAggregator().cv  # lists of rows may be of others
    splits = check.read_cut_folds(fewer_folds(cv), sample, series.values[:, -1].T, None)
    if splits is None:
        raise InputError(
            f"{sample.n_samples} rows are too few to judge merges by models without a fold: give "
            "more, or judge by ",
            check.BY_LEAST_SQUARES,
            ".",
        )
    told = OwnTold.of_series(series, rule, (aggregate,), None, splits, chooses=False)
    fits = told.table.fits(rule, aggregate)
    return pose(rule, fits.space(), fits.variance)


def _group_rows(
    fitted: TargetAggregator,
    rule: Rule,
    aggregate: str,
    sample: check.Sample,
    series: Series,
    rows: IntArray,
) -> Partition:
    """Groups that some of the rows give."""
    posed = _posed(fitted, rule, aggregate, sample.take(rows), series.take(rows))
    return posed.wished(fitted.max_loss_)[1].partition


def _unchosen(limit: float | None, aggregates: Sequence[str]) -> dict[Option, Option]:
    """What folds should have chosen, and what is used without them."""
    chosen = {}
    if limit is None:
        chosen[Option("max_loss", "auto")] = Option("max_loss", PREFERRED)
    if len(aggregates) > 1:
        chosen[Option("aggregate", "auto")] = Option("aggregate", aggregates[0])
    return chosen


def multi_input_layout(X3d: Any, layout: Any = None) -> tuple[FloatArray, IntArray]:
    """Lay inputs of shape (samples, tasks, slots) out as a table, a column for each task and slot.

    Lay out all dates at once, or pass the first layout for later ones: the columns depend on what
    is observed, and may differ between two periods that are laid out separately.

    Parameters
    ----------
    X3d : array-like of shape (n_samples, n_tasks, n_slots)
        ``X3d[:, task, slot]`` is one input of one task, for example the rain of one basin. NaN in
        all samples means that the task has no such input.
    layout : array-like of int, shape (n_tasks, n_slots), default=None
        What this function returned for other samples: ``X`` then has the same columns, NaN where
        nothing is observed.

    Returns
    -------
    X : ndarray of shape (n_samples, n_columns)
        All slots of the first task, then of the second, and so on, those that exist.
    layout : ndarray of int, shape (n_tasks, n_slots)
        The column in ``X`` of each task's slot, -1 where it has none.

    Examples
    --------
    >>> import numpy as np
    >>> from ctfa import multi_input_layout
    >>> rain_and_snow = np.arange(8.0).reshape(2, 2, 2)
    >>> rain_and_snow[:, 1, 1] = np.nan  # no snow in the second basin
    >>> X, layout = multi_input_layout(rain_and_snow)
    >>> X
    array([[0., 1., 2.],
           [4., 5., 6.]])
    >>> layout
    array([[ 0,  1],
           [ 2, -1]])
    >>> later = np.full((1, 2, 2), 9.0)
    >>> later[:, :, 1] = np.nan  # and no snow at all this year
    >>> multi_input_layout(later, layout)[0]
    array([[ 9., nan,  9.]])
    """
    values = np.asarray(X3d)
    if values.ndim != 3:
        raise ValueError(
            f"X3d has shape {values.shape}: give inputs of shape (n_samples, n_tasks, n_slots), "
            "such as np.stack(list_of_one_table_per_task, axis=1)."
        )
    if 0 in values.shape:
        raise ValueError(f"X3d has shape {values.shape}: there is nothing to lay out.")
    try:
        values = values.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"X3d has values of type {values.dtype}, which are not all numbers."
        ) from error
    n_samples, n_tasks, n_slots = values.shape
    exists = ~np.isnan(values).all(axis=0)
    if layout is not None:
        return _as_before(values, exists, layout)
    if not exists.any(axis=1).all():
        task = int(np.argmin(exists.any(axis=1)))
        raise ValueError(
            f"Task {task} of X3d is NaN throughout: it has no input at all. Leave it out, of the "
            "targets too."
        )
    columns = np.full((n_tasks, n_slots), -1, dtype=np.intp)
    columns[exists] = np.arange(np.count_nonzero(exists))
    # Selecting makes a copy, which a complete table does not need.
    table = values.reshape(n_samples, -1)
    return (table if exists.all() else table[:, exists.ravel()]), columns


def _as_before(values: FloatArray, exists: BoolArray, layout: Any) -> tuple[FloatArray, IntArray]:
    """Later samples in the columns of earlier ones, which this module has laid out."""
    columns = np.asarray(layout)
    if columns.shape != exists.shape:
        raise ValueError(
            f"layout has shape {columns.shape} but X3d has {exists.shape[0]} tasks and "
            f"{exists.shape[1]} slots: pass the same tasks and slots in the same order."
        )
    used = np.sort(columns[columns != -1]) if columns.dtype.kind in "iu" else None
    if used is None or not np.array_equal(used, np.arange(used.size)):
        raise ValueError(
            "layout must be one that multi_input_layout has returned: every column from 0 once, -1 "
            "for a slot that a task does not have."
        )
    known = columns >= 0
    added = np.argwhere(exists & ~known)
    if added.size:
        task, slot = added[0].tolist()
        raise ValueError(
            f"X3d has values for slot {slot} of task {task}, which has no column in layout: lay "
            "out all samples once, or set these values to NaN."
        )
    table = np.empty((values.shape[0], np.count_nonzero(known)))
    table[:, columns[known]] = values[:, known]
    return table, columns.astype(np.intp)
