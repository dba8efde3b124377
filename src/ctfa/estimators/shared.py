"""Both phases, then any regressor for each group."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

from ctfa import _reading as check
from ctfa._errors import Message, Option
from ctfa._reading.sums import Collection, Wanted, learns_from_sums
from ctfa._threads import one_thread
from ctfa.core.calibration import Calibration
from ctfa.core.criteria import TARGET_CRITERIA, criterion_of
from ctfa.core.design import row_scales, weighted_mean
from ctfa.core.levels import NOTHING, TEMPERS, Tempers
from ctfa.core.members import Gain
from ctfa.core.partition import Partition
from ctfa.core.small_fits import observed_mean
from ctfa.core.tasks.base import Rule
from ctfa.core.tasks.shared import SharedInputs, TargetFits
from ctfa.core.types import FloatArray, IntArray
from ctfa.estimators.evidence import MergeEvidence, MergeSummary
from ctfa.estimators.features import FeatureAggregator, usual_limit
from ctfa.estimators.given import asks_of, fields, whole
from ctfa.estimators.groups import TargetsRegressor
from ctfa.estimators.held_out import (
    FoldEvidence,
    deviations_of,
    group_rows,
    look_at_folds,
    seen_by_refits,
    share_of_deviations,
)
from ctfa.estimators.intervals import (
    are_asked,
    blocks_of,
    calibrated_by_some,
    calibrated_in_sample,
    calibrated_on_tables,
    told_on_folds,
)
from ctfa.estimators.models import (
    Deviations,
    features_pay,
    fit_features,
    fit_singles,
    fit_to_rows,
    keep_features,
    mean_of_groups,
    reduced,
    soft_group,
)
from ctfa.estimators.refits import Stop, fit_regressor, groups_on_folds, linear, warn_stopped
from ctfa.estimators.targets import (
    ALONE,
    Found,
    PhaseOne,
    TargetAggregator,
    by_levels,
    group_means,
    in_units,
    keep_apart,
    level_of,
    names_of,
)
from ctfa.estimators.view import FittedGroups


class CTFARegressor(TargetsRegressor):
    """Aggregate targets, then features for each group, then fit one regressor per group.

    Every original target is predicted by its group's regressor plus the target's own deviation.

    Parameters
    ----------
    regressor : estimator, default=None
        Any scikit-learn regressor, cloned for each group. It also judges the merges; where it has
        no closed form, by predictions of held-out rows (see ``TargetAggregator``).
        None is ridge regression with the penalty of the greatest restricted likelihood, whatever
        the number of rows and features.
        Any other gets features in the units given: scikit-learn's trees treat values closer than
        1e-7 as equal, so put a ``StandardScaler`` in front of them where values are small.
    targets : TargetAggregator, "passthrough" or None, default=None
        Phase I; None is ``TargetAggregator()``, "passthrough" leaves every target by itself.
    features : FeatureAggregator, "passthrough" or None, default=None
        Phase II for each group. An aggregator is always applied: features of a group have one
        coefficient. None averages features only where held-out rows prefer it, by a standard error,
        to keeping all of them, and never for a regressor without a closed form; for
        ``regressor=None`` and ``head="levels"`` single features may then deviate from their mean.
        "passthrough" keeps every feature.
    head : {"levels", "mean"}, default="levels"
        How a group's model predicts its members. ``"mean"``: alone, one readable model per group.
        ``"levels"``: plus each member's deviation, shrunk as much as the data of the group
        suggest; a given regressor is mixed with a model of each member's own, by one weight per
        group. Where the regressor was refitted to judge, a group is predicted by its own model, by
        the mean of its members' models, or by a mixture of both, as held-out rows decide.
    n_jobs : int or None, default=None
        Number of folds that choose ``max_loss="auto"``, and of groups, processed in parallel
        through joblib. The result is the same for any number.

    Attributes
    ----------
    targets_ : TargetAggregator
        Phase I as fitted. Its ``partition_``, ``labels_``, ``n_groups_``, ``history_``,
        ``max_loss_``, ``loss_interval_`` and ``cv_curve_`` are here under the same names.
    features_ : list of FeatureAggregator
        Phase II as fitted, one per group.
    regressors_ : list of estimators
        One per group, of its means of features.
    coef_, intercept_ : ndarray of shape (n_targets, n_features) and (n_targets,)
        Of everything together in the units of the data, where it is linear.
    group_coef_ : ndarray of shape (n_groups, n_features)
        Of the groups' models alone, for targets in the units they were merged in.
    trust_ : ndarray of shape (n_targets,)
        How far each target relies on its group, from 0 to 1, one value per group.
    merges_ : DataFrame
        One row per merge of targets: which groups merged, F and break-even F, the gain predicted
        as for a pair fixed in advance, the members predicted to lose, and the score on the folds
        that chose the limit.
    stability_ : ndarray of shape (n_targets, n_targets)
        Share of subsamples in which two targets are in one group; see ``stability``.
    n_features_in_, feature_names_in_, target_names_in_
        What was seen in fit.

    Notes
    -----
    With ``confounds`` (see ``fit``) residuals take the place of centred series, and their degrees
    of freedom are counted in F and break-even of both phases; where targets have gaps, and each is
    regressed over its own rows, they are not.

    Examples
    --------
    >>> from ctfa import CTFARegressor
    >>> from ctfa.datasets import make_paper_synthetic
    >>> X, Y = make_paper_synthetic(n_samples=150, n_features=20, n_targets=6, random_state=0)
    >>> model = CTFARegressor().fit(X[:100], Y[:100])
    >>> model.predict(X[100:]).shape
    (50, 6)
    >>> model.n_groups_
    2
    """

    #: By levels where nothing else was asked for and every group has all rows.
    _deviations: Deviations | None = None
    #: Rows of folds, and what a regressor that has judged says of them when not fitted to them.
    _told_by_refits: Sequence[tuple[IntArray, FloatArray]] | None = None
    _defaults: ClassVar[dict[str, type]] = {
        **TargetsRegressor._defaults,
        "features": FeatureAggregator,
    }
    _saved = TargetsRegressor._saved | fields(
        input_confounds="_input_lines", deviations="_deviations"
    )

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
        """Run both phases and fit the regressors.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Also Dask collections, read once and in chunks, and arrays of torch, CuPy or JAX: a fit
            needs only their sums. Missing features are passed to a regressor that accepts them
            where neither phase merges anything, and in ``predict``.
        y : array or data frame of shape (n_samples, n_targets) or (n_samples,)
            NaN is a missing value; a group is trained on the rows where any member is observed.
        sample_weight : array of shape (n_samples,), default=None
            Analytic weights, used in both phases and by the regressor.
        groups : array of shape (n_samples,), default=None
            Labels of the rows for splitters that choose ``max_loss="auto"``, such as
            ``GroupKFold``.
        confounds : array of shape (n_samples, n_columns), default=None
            Seasons (indicators or harmonics) or a trend. Every feature and every target is first
            regressed on them, with an intercept, on the training rows alone, in every fold too;
            the residuals are merged and fitted. ``predict`` needs the confounds of its rows.
        target_weight : array of shape (n_targets,), default=None
            How much each target counts in its group's mean and in the total risk, areas for
            example. Only ratios matter; a weight of two is a target given twice. Not with missing
            values.

        Returns
        -------
        self
        """
        self._sums = None
        read = self.__ctfa_read__(X, y, sample_weight, confounds, target_weight, groups, few=True)
        self._fit_stand_ins(*read, groups)
        return self

    def _predict_units(self, inputs: FloatArray, columns: FloatArray | None) -> FloatArray:
        inputs = self._residual(inputs, columns)
        means = self._predict_groups(inputs)
        check.require_finite_prediction(means, self.regressors_)
        units: FloatArray = self.partition_.spread(means) * self.signs_
        if self._deviations is not None:
            units = self._deviations.add(means, self.partition_, inputs) * self.signs_
        if self._singles is not None:
            known = self.partition_, self.signs_, self.targets_.target_weight_
            mean = partial(mean_of_groups, known)
            units = self._singles.mix(units, self.trust_, inputs, mean)
            check.require_finite_prediction(units, names_of(self.targets_))
        return units

    def _predict_groups(self, inputs: FloatArray) -> FloatArray:
        """Mean of each group, of inputs less what confounds say of them."""
        each = zip(self.features_, self.regressors_, strict=True)
        said = [one.predict(reduced(features, inputs)) for features, one in each]
        return np.column_stack([np.asarray(mean).reshape(-1) for mean in said])

    def _reduced(
        self, inputs: FloatArray, targets: check.Targets, columns: FloatArray | None
    ) -> tuple[FloatArray, list[FloatArray]]:
        values = targets.values
        if columns is not None:
            inputs = self._residual(inputs, columns)
            values = values - level_of(self.targets_, columns)
        turned = values * self.targets_.signs_
        means = observed_mean(self.targets_.partition_, turned, targets.weights)
        return means.T, [reduced(features, inputs) for features in self.features_]

    def _rows_of_groups(
        self, groups: list[int], confounds: Any, inputs: Any, values: Any
    ) -> FloatArray:
        """Features of some groups, each with its mean target as the last column, of other rows."""
        inputs = np.asarray(inputs, dtype=np.float64)
        values = np.asarray(values, dtype=np.float64).reshape(inputs.shape[0], -1)
        inputs, means = self._learned_from(inputs, values, confounds)
        parts = [(reduced(self.features_[group], inputs), means[:, [group]]) for group in groups]
        return np.hstack([column for part in parts for column in part])

    def _learned_from(
        self, inputs: FloatArray, values: FloatArray, columns: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """Inputs, and the mean of each group, as regressors learn from them."""
        units = in_units(self.targets_, values, columns)
        return self._residual(inputs, columns), group_means(self.targets_, units)

    def _residual(self, inputs: FloatArray, columns: FloatArray | None) -> FloatArray:
        """Inputs less what the confounds say of them."""
        if columns is None or self._input_lines is None:
            return inputs
        return inputs - self._input_lines.at(columns)

    def __ctfa_asks__(self, n_targets: int) -> tuple[list[Wanted], str | None]:
        """Folds that a fit needs, and what in it cannot be computed from sums."""
        targets, features = self._phases()
        if self.regressor is None:  # penalties are tempered on folds, whatever else is given
            targets = TargetAggregator(max_loss=-np.inf) if targets is None else targets
            wanted, needs_rows = asks_of(targets, features, max(n_targets, 2), chooses=True)
        else:
            judge = self._usual_judge(targets)
            wanted, needs_rows = asks_of(targets, features, n_targets, judge=judge)
        if self.head == "levels" and not learns_from_sums(self._template):
            name = type(self._template).__name__
            needs_rows = needs_rows or Message(Option("head", "levels"), f" with {name}()")
        return wanted, needs_rows

    def _check_options(self) -> None:
        """Refuse options that are not known, or do not go together."""
        super()._check_options()
        targets, _ = self._phases()
        by_levels = self.regressor is None and self.head == "levels"
        if by_levels and targets is not None and targets.scale == "none":
            check.refuse_levels_without_units()

    def _asks_of_stream(self, n_targets: int = 1) -> list[Wanted]:
        self._check_options()
        check.require_weighable(self._template)
        return super()._asks_of_stream(n_targets)

    def _fit_phases(
        self,
        template: TargetAggregator | None,
        features: FeatureAggregator | None,
        sample: check.Sample,
        targets: check.Targets,
        groups: Any,
        data: Collection | None,
    ) -> None:
        tasks = SharedInputs(sample, targets.values, targets.weights)
        self._singles = self._deviations = None
        by_rows = data is not None and sample.counts is not None
        is_fitted = by_rows and not learns_from_sums(self._template)
        with one_thread(*tasks.shapes):
            left = tasks.left
            self._input_lines = left.inputs
            found, temper, share = self._fit_targets(template, tasks, targets, groups)
            _, judged = self._means_of_groups(tasks)
            is_soft = False  # whether single features may part from their means
            if features is not None and self._chooses_features:
                features = self._features_that_pay(found, tasks, features, temper)
                is_soft = features is not None and self.head == "levels"
            if features is None:
                self.features_ = keep_features(self, self.n_groups_)
            else:
                names = self.targets_.get_group_names_out()
                known = left.judged, judged, names, self.n_jobs
                self.features_ = fit_features(self, features, *known)
            if self.regressor is None:
                assert found is not None
                if found.fits.levels is None:
                    share = share_of_deviations(found, tasks)
                form = temper, share, features is not None, is_soft
                serve = partial(self._serve_by_levels, *form)
                serve(self, tasks, found.fits)
                self.calibration_ = self._calibrated(found, serve, tasks, groups)
                return
        if data is not None and is_fitted:
            self.regressors_ = fit_to_rows(
                self._template, self.features_, data, self._rows_of_groups, self.n_jobs
            )
        serve = partial(self._serve_by_regressor, share, is_fitted=is_fitted)
        serve(self, tasks, None)
        self.calibration_, told = None, self.__dict__.pop("_told_by_refits", None)
        if told is not None:
            self.calibration_ = calibrated_on_tables(sample, targets.values, self.labels_, told)
        elif check.judges(self.regressor) and not is_fitted:
            self.calibration_ = self._calibrated(found, serve, tasks, groups)

    @staticmethod
    def _serve_by_regressor(
        share: float,
        model: CTFARegressor,
        tasks: SharedInputs,
        fits: TargetFits | None,
        *,
        is_fitted: bool,
    ) -> None:
        """A regressor for each group, unless these are there, and models of members' own."""
        left = tasks.left
        values = in_units(model.targets_, tasks.values, tasks.sample.confounds)
        inputs, means = left.sample.inputs, group_means(model.targets_, values)
        rest = left.sample.weights, left.sample.n_samples, left.sample.is_single
        if not is_fitted:
            model.regressors_ = Parallel(n_jobs=model.n_jobs)(
                delayed(fit_regressor)(model.regressor, reduced(features, inputs), mean, *rest)
                for features, mean in zip(model.features_, means.T, strict=True)
            )
        if model.head == "levels":
            merged = model.partition_.sizes[model.labels_] > 1
            known = left.sample, values, model.trust_, model.n_jobs, share, merged
            model._singles = fit_singles(model.regressor, *known)

    @staticmethod
    def _serve_by_levels(
        temper: Tempers,
        share: float,
        by_means: bool,
        is_soft: bool,
        model: CTFARegressor,
        tasks: SharedInputs,
        fits: TargetFits,
    ) -> None:
        """Serve groups by ridge regressions of their means, and members by what they add.

        ``share`` is that of the variance of members with gaps; ``by_means`` of groups of features.
        """
        left, levels, partition = tasks.left, fits.levels, model.partition_
        means, judged = model._means_of_groups(tasks)
        sample, n_features = left.sample, left.sample.inputs.shape[1]
        _, row_scale = row_scales(len(means), sample.weights, sample.n_samples)
        centre, height = weighted_mean(sample.inputs, row_scale), weighted_mean(means, row_scale)
        n_groups, n_targets = partition.n_groups, partition.n_variables
        group, own = np.zeros((n_groups, n_features)), np.zeros((n_targets, n_features))
        level, parts = np.zeros(n_targets), None
        if levels is not None:
            parts = levels.parts(partition, model.signs_)
        if levels is not None and parts is not None and not by_means:
            coef = levels.group_coefficients(parts, temper.mean)
            penalty = levels.factored.average(parts.mean_penalty, temper.mean)
            height = height - centre @ coef
            model.regressors_ = [
                linear(coef[:, [k]], height[[k]], True, penalty[[k]]) for k in range(n_groups)
            ]
        elif is_soft:
            model.regressors_ = []
            for k, (one, mean) in enumerate(zip(model.features_, judged.T, strict=True)):
                soft = soft_group(left.judged, mean, one.partition_, temper.mean)
                group[k] = soft.apart
                about = height[[k]] - one.partition_.mean(centre[None])[0] @ soft.coef
                model.regressors_.append(linear(soft.coef[:, None], about, True))
        else:
            rest = sample.weights, sample.n_samples
            model.regressors_ = [
                fit_regressor(None, reduced(one, sample.inputs), mean, *rest, temper=temper.mean)
                for one, mean in zip(model.features_, means.T, strict=True)
            ]
        if model.head == "levels" and levels is not None and parts is not None:
            own = levels.deviations(parts, temper.apart).T
            model.trust_ = levels.trust(parts, temper.apart)
        elif model.head == "levels":  # with gaps, each on the rows where it is observed
            turned = in_units(model.targets_, tasks.values, tasks.sample.confounds) * model.signs_
            rest_of_it = turned - partition.spread(model._predict_groups(sample.inputs))
            added = deviations_of(sample, rest_of_it, partition.labels, share)
            alone = partition.sizes[partition.labels] == 1
            own = np.where(alone[:, None], 0.0, added.coef)
            level = np.einsum("ij,ij->i", own, centre - added.centre)
            model.trust_ = np.where(alone, 1.0, added.trust)
        model._deviations = Deviations(group, own, level, centre)

    def _means_of_groups(self, tasks: SharedInputs) -> tuple[FloatArray, FloatArray]:
        """Means of the groups' targets in the units of merging, and as merges are judged by."""
        left = tasks.left
        means = group_means(
            self.targets_, in_units(self.targets_, tasks.values, tasks.sample.confounds)
        )
        if left.judged is left.sample:
            return means, means
        return means, group_means(self.targets_, left.judged_values / self.targets_.scales_)

    def _calibrated(
        self, found: Found | None, serve: Any, tasks: SharedInputs, groups: Any
    ) -> Calibration | None:
        """Intervals, from what the model says of folds when it is fitted without them.

        Its groups, its features and its tempers are those of all rows. Where no fold was asked for
        anything else some are asked for this.
        """
        if not are_asked():
            return None
        sample, labels = tasks.sample, self.partition_.labels
        splits: Sequence[Any] = () if found is None else found.folds
        splits = splits or blocks_of(self.targets_.cv, sample, tasks.values, groups)
        told = told_on_folds(partial(self._told_without, found, serve, tasks), splits)
        if told:
            moments = calibrated_on_tables(sample, tasks.values, labels, told)
        else:
            seen = self._told(sample.inputs, sample.confounds)
            spare = max(1.0 - (sample.inputs.shape[1] + 1) / sample.n_samples, 0.1)
            moments = calibrated_in_sample(tasks.values, seen, sample.weights, spare)
        return calibrated_by_some(moments, sample.some, labels, self._told)

    def _told_without(
        self,
        found: Found | None,
        serve: Callable[..., None],
        tasks: SharedInputs,
        train: IntArray,
        test: IntArray,
        *known: Any,
    ) -> FloatArray:
        """What the same model says of a fold that it was not fitted to."""
        twin, rule = copy.copy(self), Rule(TARGET_CRITERIA["risk"], "best-first", "none")
        rule = replace(rule, scale=self.targets_.scale) if found is None else found.rule
        rows, asked, _ = tasks.fold(rule, train, test, *known)
        lines, twin.targets_ = rows.left.targets, copy.copy(self.targets_)
        offsets, scales, *_ = rows.in_units(rule)
        twin.targets_.offsets_ = offsets if lines is None else offsets + lines.levels
        twin.targets_.scales_ = np.where(scales > 0.0, scales, 1.0)
        twin.targets_.confounds_slopes_ = None if lines is None else lines.slopes
        twin.targets_.confounds_means_ = None if lines is None else lines.centre
        twin._input_lines = rows.left.inputs
        serve(twin, rows, None if found is None else rows.fits(rule))
        return twin._told(asked.sample.inputs, asked.sample.confounds)

    def _features_that_pay(
        self, found: Found | None, tasks: SharedInputs, features: FeatureAggregator, temper: Tempers
    ) -> FeatureAggregator | None:
        """Phase II where it was not asked for; None where Phase I's folds do not speak for it.

        Without folds, because limit and regressor were given, nothing does. A regressor that is not
        linear may tell apart what least squares takes for alike.
        """
        is_asked = self.regressor is None
        if not is_asked:
            is_asked = check.judges(self.regressor) and tasks.left.inputs is None
        if found is None or not is_asked or np.isnan(tasks.values).any():
            return None
        # Folds protect from chance, so any two features may be asked.
        features = clone(features).set_params(max_loss=usual_limit(tasks.left.judged.n_samples))
        pays = features_pay(found, tasks, features, temper, self.head, self.regressor)
        return features if pays else None

    @property
    def _chooses_features(self) -> bool:
        """Whether folds decide if groups of features serve at all."""
        return self.features is None

    def _fit_targets(
        self,
        template: TargetAggregator | None,
        tasks: SharedInputs,
        targets: check.Targets,
        groups: Any,
    ) -> tuple[Found | None, Tempers, float]:
        """Phase I and its evidence; each target by itself where there is no template.

        What was found is told where groups are to be served by levels; and the share that groups'
        own models have in what serves them.
        """
        left, judge = tasks.left, self._judge(template, targets)
        known = tasks, targets, groups, self.n_jobs
        alone, scale = template is None, "none" if left.targets is None else "center"
        if template is None:
            template = TargetAggregator(max_loss=-np.inf, scale=scale)
        aggregator = TargetAggregator(scale=scale) if alone else clone(template)
        check.copy_input_names(self, aggregator)
        if alone:
            if left.n_spent:
                something = np.nan_to_num(left.values) != 0.0
                check.require_more_than_confounds(something.any(axis=0), targets.names)
            keep_apart(aggregator, targets, left.targets)
            if self.regressor is not None:  # the regressor alone uses inputs: nothing is judged
                self.targets_ = aggregator
                self._tell_evidence(None, None, Tempers(), targets)
                return None, Tempers(), 1.0
            found = PhaseOne(template, *known).apart()
        else:
            phase = PhaseOne(aggregator, *known, judge)
            found = phase.find(ask_folds=self.regressor is None)
        self.targets_ = aggregator
        if found.rule.solver == "refits" and self.regressor is not None:
            asks = template.regressor is None
            return None, Tempers(), self._tell_of_refits(found, tasks, targets, asks=asks)
        if self.regressor is None and not found.rule.levels:
            found = by_levels(found, tasks)
        tempers: Sequence[Any] = (found.temper,)
        if found.rule.levels and self.regressor is None:
            tempers = TEMPERS if self.head == "levels" else ALONE
        seen = look_at_folds(found, tasks, tempers, self.n_jobs)
        temper = Tempers() if seen is None else seen.chosen
        price = aggregator.price_ if found.free_points and tempers is TEMPERS else None
        if seen is not None and price is not None:
            free = found._replace(points=found.free_points)
            other = look_at_folds(free, tasks, tempers, self.n_jobs)
            assert other is not None
            whole = {"whole_error": seen.error, "free_whole_error": other.error}
            aggregator.price_ = replace(price, **whole)
        self._tell_evidence(None if alone else found, seen, temper, targets)
        if not check.judges(self.regressor):
            # A linear model that has judged does not know how far to trust its groups: they serve.
            self.trust_ = np.ones(tasks.n_tasks)
        return found, temper, 1.0

    def _tell_of_refits(
        self, found: Found, tasks: SharedInputs, targets: check.Targets, *, asks: bool
    ) -> float:
        """Tell evidence of groups that a regressor has judged by predictions of unseen rows.

        If it ``asks`` the regressor that serves has judged, and folds tell how far its groups are
        to be trusted; otherwise groups serve by themselves, one fit each.
        """
        told, on_folds = found.told, None
        if told is not None and asks:
            self._told_by_refits = [
                (fold[1], asked.told)
                for fold, (_, asked) in zip(found.folds, told.folds, strict=True)
            ]
        if told is not None and asks and self.n_groups_ < tasks.n_tasks:
            known = found.rule, told, found.folds, found.points
            try:
                on_folds = groups_on_folds(self.regressor, tasks, *known, self.n_jobs)
            except Stop:
                warn_stopped("groups serve their members by themselves")
        if on_folds is None:
            if self.n_groups_ < tasks.n_tasks:
                self._told_by_refits = None
            self._tell_evidence(found, None, Tempers(), targets)
            self.trust_ = np.ones(tasks.n_tasks)
            return 1.0
        self._tell_evidence(found, seen_by_refits(found, on_folds), Tempers(), targets)
        self.trust_, share = on_folds.mixture(self.partition_, tasks.weights)
        is_mixed = self.head == "levels"
        said = on_folds.told(self.trust_, share) if is_mixed else on_folds.told(1.0, 1.0)
        self._told_by_refits = [(fold[1], one) for fold, one in zip(found.folds, said, strict=True)]
        served = on_folds.served(self.trust_, share)
        mixed = seen_by_refits(found, on_folds, served).gain(Tempers(), self.partition_)
        self._evidence = replace(
            self._evidence,
            served=mixed if self.head == "levels" else None,
            # Groups for a limit that is given are those of all rows, and have seen these.
            held_out=self.cv_curve_ is not None,
        )
        return share

    def _judge(self, template: TargetAggregator | None, targets: check.Targets) -> Any:
        """What judges merges where Phase I does not say; None for the linear reading.

        Criteria of least squares are judged by it, whatever the regressor. So are targets with gaps
        where the regressor is a penalised linear one.
        """
        judge = self._usual_judge(template)
        is_penalised = check.judges(judge) and check.read_judge(judge) is not None
        return None if is_penalised and np.isnan(targets.values).any() else judge

    def _usual_judge(self, template: TargetAggregator | None) -> Any:
        """The same for targets without gaps."""
        criterion = "risk" if template is None else template.criterion
        if criterion_of(criterion, TARGET_CRITERIA).ridge_loss is None:
            return None
        return self.regressor

    @property
    def _leaves_inputs(self) -> bool:
        """Whether inputs are the regressor's business alone: that of one that judges by itself."""
        targets, features = self._phases()
        judge = self.regressor
        if targets is not None:
            judge = self._usual_judge(targets) if targets.regressor is None else targets.regressor
        return check.takes_gaps(judge) and (features is None or self.features is None)

    def _grouping(
        self, sample: check.Sample, targets: check.Targets
    ) -> Callable[[IntArray], Partition]:
        """A function that finds the groups of some of the rows, with the limit that was used."""
        judge = self._judge(self.targets_, targets)
        return partial(group_rows, self.targets_, sample, targets, judge=judge)

    def _tell_evidence(
        self,
        found: Found | None,
        seen: FoldEvidence | None,
        temper: Tempers,
        targets: check.Targets,
    ) -> None:
        """Set what is known of every merge and member; without anything found, of no merge."""
        aggregator, gappy = self.targets_, bool(np.isnan(targets.values).any())
        is_refitted = found is not None and found.told is not None
        partition, n_targets = aggregator.partition_, len(targets.names)
        merges: list[MergeSummary] = []
        gain = served = Gain(*np.zeros((2, n_targets)))
        self.trust_ = np.ones(n_targets)
        if found is not None:
            risk, history = found.fits.fit.members, aggregator.history_
            if aggregator.flip:
                risk = risk.flipped(aggregator.signs_)
            gain, self.trust_ = risk.gain_over_single(partition), risk.trust(partition)
            scores = np.full(len(history), np.nan)
            if seen is not None:
                counts = np.ones(n_targets) if targets.weights is None else targets.weights
                if not gappy:
                    scores = seen.scores(history, aggregator.signs_, counts)
                gain = seen.gain(temper._replace(apart=NOTHING), partition)
                served = seen.gain(temper, partition)
            merges = [
                MergeSummary.of(
                    made.total, made.members, made.gain, made.f_statistic, made.f_star, score
                )
                for made, score in zip(risk.along(history), scores.tolist(), strict=True)
            ]
        is_held_out = found is not None and seen is not None
        self._evidence = MergeEvidence.of(
            aggregator, targets.names, merges, gain, gappy=gappy,
            served=served if is_held_out and self.regressor is None else None, held_out=is_held_out,
            refitted=is_refitted,
            judge="" if is_refitted or check.judges(self.regressor) else "linear",
        )  # fmt: skip

    def __ctfa_view__(self) -> FittedGroups:
        """The view of the fitted model for pages, pictures and files."""
        return replace(
            super().__ctfa_view__(),
            judge=self._usual_judge(self.targets_),
            trust=np.asarray(self.trust_),
            parts={"single_models": self._singles, "deviations": self._deviations},
            learned_from=lambda sample, targets: self._learned_from(
                sample.inputs, targets.values, sample.confounds
            ),
        )

    def _single_task(self) -> CTFARegressor:
        """The same regressor for each target by itself, not fitted; tempered on the same folds."""
        targets: Any = "passthrough"
        if self.regressor is None and self.targets_.cv != TargetAggregator().cv:
            targets = TargetAggregator(max_loss=-np.inf, cv=self.targets_.cv)
        return CTFARegressor(self.regressor, targets=targets, features="passthrough", head="mean")
