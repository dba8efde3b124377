"""What all regressors with groups share: parameters, the result of Phase I, and methods on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import ShuffleSplit
from sklearn.utils.validation import check_is_fitted

from ctfa import _reading as check
from ctfa._errors import InputError
from ctfa._reading.streaming import Streaming, StreamingTargets
from ctfa._reading.sums import (
    OF_SUMS,
    Collection,
    Wanted,
    answers_lazily,
    is_collection,
    learns_from_sums,
    r2_of_collection,
)
from ctfa.core import progress
from ctfa.core.calibration import Calibration
from ctfa.core.criteria import TARGET_CRITERIA
from ctfa.core.partition import Partition
from ctfa.core.tasks.shared import Anomalies
from ctfa.core.types import FloatArray, IntArray
from ctfa.estimators.collapsed import coefficients, group_coefficients
from ctfa.estimators.evidence import Explanation, MergeEvidence, co_clustering, explain
from ctfa.estimators.features import FeatureAggregator
from ctfa.estimators.given import ReadsTables, Saved, fields
from ctfa.estimators.held_out import (
    Split,
    align,
    group_rows,
    held_out_errors,
    r2_of_each,
    refitted,
    together,
)
from ctfa.estimators.importance import importance
from ctfa.estimators.intervals import (
    HELD_OUT,
    MOST_ENTRIES,
    calibrated_by_some,
    calibrated_on_tables,
    require_calibration,
    tell_gaussian,
)
from ctfa.estimators.models import HEADS
from ctfa.estimators.shown import Shown
from ctfa.estimators.targets import (
    TargetAggregator,
    in_own_units,
    in_units,
    labels_of,
    names_of,
    read_again,
    require_same_targets,
)
from ctfa.estimators.view import FittedGroups
from ctfa.estimators.zeros import ZEROS, beside_zeros, read_zeros

#: What to do about missing features that only the regressor takes.
FOR_THE_REGRESSOR = (
    "the regressor accepts missing features, but merges cannot be judged with them; fill the gaps "
    "first, or merge nothing, with targets='passthrough', features='passthrough', head='mean'"
)


def _of_targets(name: str, text: str) -> property:
    """Show an attribute of Phase I on the regressor."""
    return property(lambda self: getattr(self.targets_, name), doc=text)


class ReducedTask(NamedTuple):
    """What the paper's algorithm returns for one group, in raw units."""

    target: Any  # (n,): mean of the group's targets
    features: Any  # (n, d): means of groups of features


class GroupsRegressor(Shown, Streaming, Saved, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A regressor with groups, of targets or of tasks."""

    targets_: TargetAggregator
    features_: Sequence[Any]
    trust_: FloatArray
    #: What intervals are made of; None where no rows were held out.
    calibration_: Calibration | None
    _evidence: MergeEvidence
    #: Whether a single target came as a vector.
    _is_vector = False
    #: What members of a group have in common, see ``evidence.SHARING``.
    _shares = "mean"
    #: What None stands for in the parameters that are estimators, except the regressor, for which
    #: None is more than any one of scikit-learn's.
    _defaults: ClassVar[dict[str, type]] = {"targets": TargetAggregator}
    #: Values of the parameters that are words.
    _choices: ClassVar[dict[str, tuple[str, ...]]] = {"head": HEADS}
    _saved = Saved._saved | fields(
        "calibration_ targets_ features_ regressors_ trust_", sums="_sums"
    )

    def __init__(
        self,
        regressor: Any = None,
        *,
        targets: Any = None,
        features: Any = None,
        head: str = "levels",
        n_jobs: int | None = None,
    ) -> None:
        self.regressor = regressor
        self.targets = targets
        self.features = features
        self.head = head
        self.n_jobs = n_jobs

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Get parameters; ``deep`` lists those of the estimators that None stands for, too.

        Parameters
        ----------
        deep : bool, default=True
            Whether parameters of nested estimators are listed, as ``targets__max_loss``.

        Returns
        -------
        dict
            Values by name.
        """
        params: dict[str, Any] = super().get_params(deep=deep)
        if deep:
            for name, kind in self._defaults.items():
                if params[name] is None:
                    held = kind().get_params()
                    params |= {f"{name}__{nested}": value for nested, value in held.items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``targets__max_loss`` works on the default aggregator too.

        Parameters
        ----------
        **params
            Values by name; ``targets__max_loss`` is the ``max_loss`` of ``targets``.

        Returns
        -------
        self
        """
        for name in ("regressor", "targets", "features"):
            nested = [one for one in params if one.startswith(f"{name}__")]
            held = params.get(name, getattr(self, name))
            if nested and held is None and name in self._defaults:
                own = {one.partition("__")[2]: params.pop(one) for one in nested}
                params[name] = self._defaults[name]().set_params(**own)
            elif nested and (held is None or isinstance(held, str)):
                check.refuse_nested(nested[0], held)
        super().set_params(**params)
        return self

    def __getattr__(self, name: str) -> Any:
        """Say how to get what is computed on request; called only for missing names."""
        kind = type(self).__name__
        # A property that fails because there was no fit ends here too; its own error is lost.
        if name.endswith("_") and not name.startswith("_") and "targets_" not in vars(self):
            raise NotFittedError(
                f"This {kind} instance is not fitted yet. Call 'fit' with appropriate arguments "
                "before using this estimator."
            )
        if name in ("stability_", "stability_labels_"):
            raise AttributeError(
                f"{kind}.{name} is computed on request: call stability(X, y) first."
            )
        if name in ("coef_", "intercept_", "group_coef_"):
            self._linear(name, group_coefficients if name == "group_coef_" else coefficients)
        if name == "partial_fit":
            self._require_stream()  # again: the error that it raised is lost here
        raise AttributeError(f"{kind!r} object has no attribute {name!r}")

    partition_ = _of_targets("partition_", "Groups.")
    labels_ = _of_targets("labels_", "Group of each target, or task.")
    n_groups_ = _of_targets("n_groups_", "Number of groups.")
    history_ = _of_targets("history_", "Merges.")
    max_loss_ = _of_targets("max_loss_", "The limit used in Phase I.")
    loss_interval_ = _of_targets("loss_interval_", "Limits that give the same groups.")
    cv_curve_ = _of_targets("cv_curve_", "How ``max_loss_`` was chosen; None for a number.")
    price_ = _of_targets("price_", "What wishes cost on held-out rows; None without wishes.")

    @property
    def merges_(self) -> Any:
        """Merges of targets, or tasks, and their evidence, one row each, as a pandas DataFrame."""
        check_is_fitted(self, "targets_")
        columns = self._evidence.columns()
        if "stability_" in vars(self):
            columns["together"] = co_clustering(self._evidence, self.stability_)
        return check.as_pandas(columns, "merges_")

    @property
    def coef_(self) -> FloatArray:
        """Coefficients of every target, or task, in the units of the data, where all is linear.

        ``(n_targets, n_features)``, or a vector if ``y`` was one. With confounds, coefficients of
        the residuals.
        """
        coef: FloatArray = self._linear("coef_", coefficients)[0]
        return coef[0] if self._is_vector else coef

    @property
    def intercept_(self) -> Any:
        """Intercept of every target, or task, in its own units."""
        intercept = self._linear("intercept_", coefficients)[1]
        return float(intercept[0]) if self._is_vector else intercept

    @property
    def group_coef_(self) -> FloatArray:
        """Coefficients of the groups' models alone, ``(n_groups, n_features)``.

        In the units that targets were merged in. Where inputs are shared, a member's coefficients
        are these times its entry of ``targets_.scales_`` and of ``signs_``, plus its deviation.
        """
        coef: FloatArray = self._linear("group_coef_", group_coefficients)
        return coef

    def _linear(self, name: str, told: Callable[[FittedGroups], Any]) -> Any:
        check_is_fitted(self)
        try:
            return told(self.__ctfa_view__())
        except InputError as error:  # a regressor that is not known to be linear, or confounds
            why = str(error.message.pieces[0]).rstrip(".")
            raise AttributeError(
                f"{type(self).__name__} has no {name}, because {why}: importance(X, y) says what "
                "each feature is worth."
            ) from error

    @property
    def _template(self) -> Any:
        """The regressor to clone."""
        return LinearRegression() if self.regressor is None else self.regressor

    def _check_options(self) -> None:
        """Refuse options that are not known."""
        for name, known in self._choices.items():
            check.require(getattr(self, name), known, name)
        check.require_regressor(self._template)
        self._phases()

    def _judge_of_own(self, template: TargetAggregator) -> Any:
        """What judges merges of tasks with rows or inputs of their own.

        The regressor that serves only where it has no closed form: linear ones are judged by least
        squares, and so are criteria of least squares.
        """
        criterion = check.read_criterion(template.criterion, TARGET_CRITERIA)
        asks = template.regressor is None and criterion.ridge_loss is not None
        return self.regressor if asks and not check.judges(self.regressor) else template.regressor

    def _phases(self) -> tuple[TargetAggregator | None, FeatureAggregator | None]:
        """The aggregators; None for a phase that is skipped."""
        features = self.features
        if features is None and "features" not in self._defaults:
            features = "passthrough"
        return (
            check.read_phase(self.targets, TargetAggregator, "targets"),
            check.read_phase(features, FeatureAggregator, "features"),
        )

    def __ctfa_asks__(self, n_targets: int) -> tuple[list[Wanted], str | None]:
        """Folds that a fit needs, and what in it cannot be computed from sums."""
        raise NotImplementedError

    def _asks_of_stream(self, n_targets: int = 1) -> list[Wanted]:
        self._check_options()
        wanted, needs_rows = self.__ctfa_asks__(n_targets)
        if not learns_from_sums(self._template):
            check.refuse_streamed_regressor(self._template, OF_SUMS)
        check.refuse_streaming(needs_rows)
        return wanted


class TargetsRegressor(MultiOutputMixin, GroupsRegressor, StreamingTargets, ReadsTables):  # type: ignore[misc]
    """A regressor whose targets are columns of one table, judged on the same rows."""

    _singles: Any
    #: Group the targets, and fit features and a regressor for each group:
    #: ``(template, features, sample, targets, groups, data)``.
    _fit_phases: Callable[..., None]
    _saved = GroupsRegressor._saved | fields(
        "stability_ stability_labels_",
        container="_library",
        one_target="_is_vector",
        single_models="_singles",
        evidence="_evidence",
    )

    signs_ = _of_targets("signs_", "Sign with which each target enters its group's mean.")
    target_names_in_ = _of_targets("target_names_in_", "Names of the targets, where they had any.")

    def _asks_of(self, data: Collection) -> tuple[list[Wanted], str | None]:
        asked = super()._asks_of(data)
        self._check_options()
        if data.weights is not None:
            check.require_weighable(self._template)
        return asked

    @property
    def _leaves_inputs(self) -> bool:
        """Whether inputs matter to the regressor alone."""
        return bool(self.targets == self.features == "passthrough" and self.head == "mean")

    def _read_rows(
        self, X: Any, y: Any, sample_weight: Any, confounds: Any
    ) -> tuple[check.Sample, check.Targets]:
        """Check options and data."""
        self._check_options()
        takes_gaps = check.takes_gaps(self._template)
        sample = check.read_sample(
            self,
            X,
            sample_weight,
            gaps=self._input_gaps or (takes_gaps and self._leaves_inputs and confounds is None),
            confounds=confounds,
            advice=FOR_THE_REGRESSOR if takes_gaps else check.FILL,
        )
        targets = check.read_targets(y, sample.n_given, used=sample.used, gaps=True)
        if sample.weights is not None:
            check.require_weighable(self._template)
        return sample, targets

    def _fit_stand_ins(
        self,
        sample: check.Sample,
        targets: check.Targets,
        data: Collection | None = None,
        groups: Any = None,
        phases: Sequence[Any] | None = None,
    ) -> None:
        """Fit to data that have been read; ``data`` are those that the sample stands in for."""
        template, features = self._phases() if phases is None else phases
        if sample.confounds is not None:
            check.require_in_sample(features)
        self._library, self._is_vector = targets.library, targets.is_vector
        for name in ("stability_", "stability_labels_"):
            self.__dict__.pop(name, None)
        with progress.part():
            self._fit_phases(template, features, sample, targets, groups, data)

    def __ctfa_fit__(
        self,
        sample: check.Sample,
        targets: check.Targets,
        names: Any = None,
        data: Collection | None = None,
    ) -> Self:
        """Fit to rows that stand in for others, with their folds.

        ``names`` are of the inputs; ``data`` are asked for rows where a regressor needs them.
        """
        check.tell_input_names(self, sample.inputs.shape[1], names)
        self._check_options()
        self._sums = None
        self._fit_stand_ins(sample, targets, data)
        return self

    def _anew(self) -> Any:
        """The same regressor, not fitted, for the same data as arrays without names."""
        made, template = clone(self), self._phases()[0]
        if template is not None:
            fitted = self.targets_
            pairs = check.without_names(template, names_of(fitted), labels_of(fitted))
            if pairs:
                made.set_params(targets=clone(template).set_params(**pairs))
        return made

    def _single_task(self) -> Any:
        """The same regressor for each target by itself, not fitted."""
        raise NotImplementedError

    def _grouping(
        self, sample: check.Sample, targets: check.Targets
    ) -> Callable[[IntArray], Partition]:
        """A function that finds the groups of some of the rows, with the limit that was used."""
        return partial(group_rows, self.targets_, sample, targets)

    def _require_observed(
        self, sample: check.Sample, targets: check.Targets, splits: Sequence[Split]
    ) -> None:
        """Refuse folds that leave a target too few rows."""
        left = Anomalies.of(sample, targets.values[:, :0])
        needed = left.judged.design.rank + left.n_spent + 3
        check.require_observed_in_folds(targets, splits, needed)

    def __ctfa_view__(self) -> FittedGroups:
        """The view of the fitted model for pages, pictures and files."""
        return FittedGroups(
            self,
            self.targets_,
            tuple(map(str, names_of(self.targets_))),
            lambda: self._evidence,
            self._shares,
            template=self._template,
            predict_values=self._predict_values,
            predict_bounds=self._bounds,
            read=self._read_again,
            require_observed=self._require_observed,
            anew=self._anew,
            alone=self._single_task,
        )

    @answers_lazily
    def predict(self, X: Any, *, confounds: Any = None) -> Any:
        """Predict every target.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            The features of ``fit``, in the same order.
        confounds : array of shape (n_samples, n_columns), default=None
            The confounds of these rows; needed where ``fit`` was given confounds.

        Returns
        -------
        array or data frame of shape (n_samples, n_targets), or (n_samples,)
            In the units of the targets, and in the kind of container that the targets of ``fit``
            came in; a vector if they were one. Not computed for Dask's collections. Where targets
            have inputs of their own and one that is needed is missing, NaN, with a warning.
        """
        values = self._predict_values(X, confounds)
        check.warn_if_unpredictable(values, names_of(self.targets_))
        labels = labels_of(self.targets_)
        return check.hand_back(values, labels, self._library, X, is_vector=self._is_vector)

    def predict_interval(
        self, X: Any, coverage: float = 0.9, *, confounds: Any = None
    ) -> tuple[Any, Any]:
        """Predict intervals that hold each target with a given probability.

        Intervals are calibrated on held-out blocks of rows: quantiles of the errors there, in units
        of each target's own size of error, are pooled within its group, and this size is shrunk
        towards the group's. Where the size of errors depends on the prediction, the confounds or
        the inputs, and held-out blocks agree, so do intervals. Coverage is right on average over
        rows like those of ``fit``, not for each single row.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            As in ``predict``; for Dask's collections the answer is not computed.
        coverage : float, default=0.9
            Probability that an interval holds the true value, above 0 and below 1.
        confounds : array of shape (n_samples, n_columns), default=None
            As in ``predict``.

        Returns
        -------
        lower, upper : as ``predict`` gives
            The ends of the intervals; NaN where nothing is predicted. Errors may be skewed: at a
            small coverage both ends can lie on one side of the prediction.

        Notes
        -----
        After ``partial_fit``, and where rows were read as sums, only the moments of errors are
        known: intervals are those of Gaussian errors, and a warning says so
        (``calibration_.how``).

        Examples
        --------
        >>> import numpy as np
        >>> from ctfa import CTFARegressor
        >>> from ctfa.datasets import make_paper_synthetic
        >>> X, Y = make_paper_synthetic(n_samples=400, n_features=20, n_targets=6, random_state=0)
        >>> model = CTFARegressor().fit(X[:300], Y[:300])
        >>> lower, upper = model.predict_interval(X[300:], coverage=0.9)
        >>> bool(abs(np.mean((lower <= Y[300:]) & (Y[300:] <= upper)) - 0.9) < 0.05)
        True
        """
        check_is_fitted(self)
        calibration, coverage = require_calibration(self, coverage)
        tell_gaussian(calibration)
        known = {} if confounds is None else {"confounds": confounds}
        if not is_collection(X, confounds):
            return self._intervals(X, coverage, **known)

        def end(at: int) -> Any:
            @answers_lazily
            def ask(self: Self, X: Any, *, confounds: Any = None) -> Any:
                return self._intervals(X, coverage, confounds)[at]

            return ask(self, X, **known)

        return end(0), end(1)

    def _intervals(self, X: Any, coverage: float, confounds: Any = None) -> tuple[Any, Any]:
        """Both ends, of rows in memory, in the container of the targets of fit."""
        ends = self._bounds(X, coverage, confounds)
        check.warn_if_unpredictable(ends[0], names_of(self.targets_))
        known = labels_of(self.targets_), self._library, X
        lower, upper = (check.hand_back(end, *known, is_vector=self._is_vector) for end in ends)
        return lower, upper

    def _bounds(
        self, X: Any, coverage: float, confounds: Any = None
    ) -> tuple[FloatArray, FloatArray]:
        """Both ends as arrays, NaN where a needed input is missing."""
        inputs, columns = self._read_inputs(X, confounds)
        calibration, coverage = require_calibration(self, coverage)
        return calibration.bounds(self._told(inputs, columns), coverage, inputs, columns)

    def _predict_values(self, X: Any, confounds: Any = None) -> FloatArray:
        """Predictions as an array, NaN where a needed input is missing."""
        return self._told(*self._read_inputs(X, confounds))

    def _read_inputs(self, X: Any, confounds: Any) -> tuple[FloatArray, FloatArray | None]:
        """Rows to predict, and their confounds."""
        check_is_fitted(self)
        seen = self.targets_.confounds_means_
        # Gaps that matter to the regressor alone.
        gaps = seen is None and check.takes_gaps(self._template)
        inputs = check.read_inputs(self, X, reset=False, gaps=self._input_gaps or gaps)
        return inputs, check.read_confounds_again(confounds, inputs.shape[0], seen)

    def _told(self, inputs: FloatArray, columns: FloatArray | None) -> FloatArray:
        """Predictions of rows that have been read, in the units of the targets."""
        return in_own_units(self.targets_, self._predict_units(inputs, columns), columns)

    def _predict_units(self, inputs: FloatArray, columns: FloatArray | None) -> FloatArray:
        """Every target in the units they were merged in; ``columns`` are of the confounds."""
        raise NotImplementedError

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, confounds: Any = None) -> float:
        """Mean R2 of the targets that are observed in two rows or more.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            As in ``predict``.
        y : array or data frame of shape (n_samples, n_targets) or (n_samples,)
            True values; NaN is a missing value.
        sample_weight : array of shape (n_samples,), default=None
            Weights of the rows.
        confounds : array of shape (n_samples, n_columns), default=None
            As in ``predict``.

        Returns
        -------
        float
            At most 1; every target counts the same.
        """
        scores = self.score_per_target(X, y, sample_weight, confounds=confounds)
        return float(np.nanmean(scores))

    def score_per_target(
        self, X: Any, y: Any, sample_weight: Any = None, *, confounds: Any = None
    ) -> FloatArray:
        """R2 of each target.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            As in ``predict``.
        y : array or data frame of shape (n_samples, n_targets) or (n_samples,)
            True values; NaN is a missing value.
        sample_weight : array of shape (n_samples,), default=None
            Weights of the rows.
        confounds : array of shape (n_samples, n_columns), default=None
            As in ``predict``; what they explain counts.

        Returns
        -------
        ndarray of shape (n_targets,)
            In the order of the columns of ``y``, each on the rows where the target is observed
            (and, where inputs may be missing, can be predicted); NaN for a target with fewer than
            two such rows.
        """
        if is_collection(X, y, sample_weight, confounds):
            same = partial(require_same_targets, self.targets_)
            scores = r2_of_collection(
                self.predict, X, y, sample_weight, confounds, require_same=same
            )
            check.require_any_score(scores.tolist())
            return scores
        extra = {} if confounds is None else {"confounds": confounds}
        predicted = np.asarray(self.predict(X, **extra))
        true = read_again(self.targets_, y, predicted.shape[0]).values
        check.require_rows(true, 2)
        weights = check.read_weights(sample_weight, predicted.shape[0])
        predicted = predicted.reshape(true.shape)
        # Where inputs are missing nothing is predicted, and nothing judged.
        true = np.where(np.isnan(predicted), np.nan, true)
        return r2_of_each(true, np.nan_to_num(predicted), weights)

    def importance(
        self, X: Any, y: Any, *, confounds: Any = None, n_repeats: int = 5, random_state: Any = None
    ) -> Any:
        """Permutation importance of each feature to each group.

        The R2 that a group's targets lose on average when the rows of a feature are shuffled,
        whatever the regressor. Features that Phase II averaged are shuffled together and named as
        their mean. Of two features that say the same each seems unimportant: the other replaces
        it.

        Parameters
        ----------
        X, y, confounds
            Rows to evaluate on. The rows of ``fit`` show what the model relies on, held-out rows
            what a feature is good for.
        n_repeats : int, default=5
            Number of times that each feature is shuffled.
        random_state : int, RandomState or None, default=None
            Seed of the shuffles.

        Returns
        -------
        DataFrame
            One row per group and feature: ``group``, ``feature``, ``importance`` and ``error``, its
            standard deviation over the shuffles.

        Examples
        --------
        >>> from ctfa import CTFARegressor
        >>> from ctfa.datasets import make_paper_synthetic
        >>> X, Y = make_paper_synthetic(n_samples=150, n_features=5, n_targets=6, random_state=0)
        >>> model = CTFARegressor().fit(X[:100], Y[:100])
        >>> model.importance(X[100:], Y[100:], random_state=0).columns.tolist()
        ['group', 'feature', 'importance', 'error']
        """
        X, y, _, confounds = self._gathered(
            (X, y, None, confounds), "importance", "Ask on fewer rows"
        )
        inputs, columns = self._read_inputs(X, confounds)
        true = read_again(self.targets_, y, inputs.shape[0]).values
        check.require_rows(true, 2)

        def losses(inputs: FloatArray) -> FloatArray:
            units = self._predict_units(inputs, columns)
            predicted = in_own_units(self.targets_, units, columns)
            known = np.where(np.isnan(predicted), np.nan, true)
            return 1.0 - r2_of_each(known, np.nan_to_num(predicted), None)

        return importance(self.__ctfa_view__(), inputs, losses, n_repeats, random_state)

    def reduce(self, X: Any, y: Any, *, confounds: Any = None) -> list[ReducedTask]:
        """Return what the paper's algorithm returns: each group's mean target and its features.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            The features of ``fit``, in the same order.
        y : array or data frame of shape (n_samples, n_targets)
            The targets of ``fit``, in the same order; NaN is a missing value.
        confounds : array of shape (n_samples, n_columns), default=None
            The confounds of these rows; the means are then of what they leave of the data.

        Returns
        -------
        list of ReducedTask
            One per group. ``target`` of shape (n_samples,) is, row by row, the mean of the members
            observed there, in raw units; targets that joined with a minus sign are negated.
            ``features`` of shape (n_samples, d) are as Phase II averages them; where targets have
            inputs of their own, the means of these. Data frames give series and frames named
            after the members of each mean.
        """
        known = X, y, None, confounds
        X, y, _, confounds = self._gathered(known, "reduce", "Reduce fewer rows at a time")
        inputs = check.read_inputs(self, X, reset=False, gaps=self._input_gaps)
        targets = read_again(self.targets_, y, inputs.shape[0])
        columns = None
        if confounds is not None:
            seen = self.targets_.confounds_means_
            columns = check.read_confounds_again(confounds, inputs.shape[0], seen)
        means, tables = self._reduced(inputs, targets, columns)
        names, library = self.targets_.get_group_names_out(), check.library_of(X)
        return [
            ReducedTask(
                check.as_series(targets.library, mean, name, y),
                check.as_frame(library, table, features.get_feature_names_out(), X),
            )
            for mean, name, table, features in zip(
                means, names, tables, self.features_, strict=True
            )
        ]

    def _reduced(
        self, inputs: FloatArray, targets: check.Targets, columns: FloatArray | None
    ) -> tuple[FloatArray, list[FloatArray]]:
        """Mean target of each group, and its features; less the confounds of these columns."""
        raise NotImplementedError

    def why(self, target: Any) -> Explanation:
        """Say why a target is in its group: print the answer.

        Parameters
        ----------
        target : str or int
            Its name, or its position where that is not a name: columns that are called by numbers,
            such as years, are names.

        Returns
        -------
        Explanation
            Printed, a few sentences: who is in the group, what each merge cost and could have
            cost, what the target gains, and which group it refused last.
        """
        check_is_fitted(self)
        position = check.read_target(target, names_of(self.targets_), labels_of(self.targets_))
        return explain(self, self._evidence, position, self._shares)

    def stability(
        self,
        X: Any,
        y: Any,
        *,
        cv: Any = None,
        sample_weight: Any = None,
        random_state: Any = None,
        confounds: Any = None,
    ) -> FloatArray:
        """Group the targets again on subsamples of rows with the same limit; sets ``stability_``.

        Parameters
        ----------
        X, y, sample_weight, confounds
            The data of fit; the confounds are found again on each subsample.
        cv : splitter or list of (train, test), default=None
            The subsamples are its training rows; None draws 80 % of the rows 50 times. For series
            give one that leaves out blocks, such as ``KFold(20)``.
        random_state : int, RandomState or None, default=None
            Seed of the draws.

        Returns
        -------
        ndarray of shape (n_targets, n_targets)
            Share of the subsamples in which two targets are in one group. ``stability_labels_``
            holds the groups of each subsample, numbered to overlap with ``labels_``.
        """
        if cv is None:
            cv = ShuffleSplit(50, train_size=0.8, random_state=random_state)
        known = X, y, sample_weight, confounds
        sample, targets, splits, _ = self._read_folds(known, cv, None)
        check.require_matrix_size(len(targets.names), "stability_")
        group = delayed(self._grouping(sample, targets))
        partitions = Parallel(n_jobs=self.n_jobs)(group(train) for train, _ in splits)
        self.stability_labels_ = align(partitions, self.partition_)
        self.stability_ = together(self.stability_labels_)
        return self.stability_

    def compare(
        self,
        X: Any,
        y: Any,
        *,
        cv: Any = 5,
        sample_weight: Any = None,
        groups: Any = None,
        confounds: Any = None,
        times: Any = None,
    ) -> Any:
        """Compare with single-task models, climatology and persistence on held-out rows.

        All are fitted again on the training rows of each fold: this model with everything it
        chooses, the same regressor for each target alone, and predictions without features.

        Parameters
        ----------
        X, y, sample_weight, confounds
            The data of ``fit``, or others of the same kind; regressions on the confounds are found
            on the training rows of each fold.
        cv : int, splitter or list of folds, default=5
            An integer gives contiguous folds.
        groups : array of shape (n_samples,), default=None
            Labels of the rows for splitters such as ``GroupKFold``, here and in the fits.
        times : array of shape (n_samples,), default=None
            Dates, or numbers, of the rows, which are then a series in this order. None takes the
            dates in the index of X or y; without any, rows are not treated as a series.

        Returns
        -------
        DataFrame
            One row per target: its group in this model, the mean squared errors of all on held-out
            rows in units of the target's variance (with confounds, of the residuals' variance),
            with ``head="levels"`` also that of the group's model alone, the gain, and the gain
            that the fit predicted. ``climatology_error`` is that of the mean of the training rows:
            with dates of two years or more, of each calendar month (of a smooth yearly cycle where
            steps are finer; of each hour); with confounds, of a regression on them.
            ``persistence_error`` is that of the value one step before, where rows are a series,
            and ``anomaly_persistence_error`` that of climatology plus the anomaly one step before.
            Where that value is missing climatology is used. ``skill`` is the share of the error of
            climatology that this model saves, ``skill_over_persistence`` that of persistence.
            ``attrs`` of the frame say what each is, or why there is no persistence.
        """
        known = X, y, sample_weight, confounds
        sample, targets, splits, labels = self._read_folds(known, cv, groups)
        models = {"": self._anew(), "single_task": self._single_task()}
        if self.head == "levels":
            models["group"] = self._anew().set_params(head="mean")
        zeros = read_zeros(times, X, y, sample)
        judged = held_out_errors(
            models, sample, targets.values, splits, zeros, labels, targets.weights
        )
        found = {name: judged.errors(name) for name in judged.squares}
        error, alone = found[""], found["single_task"]
        # In the units of the gains that were predicted.
        units = in_units(self.targets_, targets.values, sample.confounds)
        variance = np.nanvar(units, axis=0)
        columns = {
            "target": list(names_of(self.targets_)),
            "group": self.labels_,
            "error": error,
            **{f"{name}_error": found[name] for name in ("group", "single_task") if name in found},
            **beside_zeros(error, {name: found[name] for name in ZEROS if name in found}),
            "gain": alone - error,
            "predicted_gain": self._evidence.gain.value / variance,
            "trust": self.trust_,
        }
        frame = check.as_pandas(columns, "compare")
        frame.attrs |= {"climatology": zeros.climatology, "persistence": zeros.persistence_words}
        return frame

    def calibrate(
        self,
        X: Any,
        y: Any,
        *,
        cv: Any = 5,
        sample_weight: Any = None,
        groups: Any = None,
        confounds: Any = None,
    ) -> Self:
        """Calibrate ``predict_interval`` by fitting this model again without each fold.

        The model chooses everything again, as in ``compare``. ``fit`` already calibrates where that
        is cheap: where the model has a closed form, or its regressor was refitted to judge merges.
        A model of rows that were read as sums is not fitted again: it takes the shape of its errors
        from up to 200,000 rows, in one more pass over Dask's collections.

        Parameters
        ----------
        X, y, sample_weight, confounds
            The data of fit.
        cv : int, splitter or list of folds, default=5
            An integer gives contiguous folds, one fit per fold.
        groups : array of shape (n_samples,), default=None
            Labels of the rows for splitters such as ``GroupKFold``, here and in the fits.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        known, moments = (X, y, sample_weight, confounds), vars(self).get("calibration_")
        if is_collection(*known) and moments is not None and moments.how != HELD_OUT:
            rows = Collection.of(*known, gaps=self._input_gaps).some_rows(MOST_ENTRIES)
            sample, targets = self._read_again(*rows[:4])
            some = sample, targets.values
            labels = self.partition_.labels
            self.calibration_ = calibrated_by_some(moments, some, labels, self._told)
            return self
        sample, targets, splits, labels = self._read_folds(known, cv, groups)
        wrong = refitted(
            {"": self._anew()}, sample, targets.values, splits, labels, targets.weights
        )
        told = [
            (test, targets.values[test] - one[""][0])
            for (_, test), one in zip(splits, wrong, strict=True)
        ]
        layout = getattr(self, "layout_", None)
        self.calibration_ = calibrated_on_tables(
            sample, targets.values, self.partition_.labels, told, layout
        )
        return self

    def _gathered(self, known: Sequence[Any], what: str, instead: str) -> Sequence[Any]:
        """Inputs, targets, weights and confounds as rows in memory."""
        check_is_fitted(self)
        if not is_collection(*known):
            return known
        return Collection.of(*known, gaps=self._input_gaps).gathered(what, instead)[:4]

    def _read_folds(
        self, known: Sequence[Any], cv: Any, groups: Any
    ) -> tuple[check.Sample, check.Targets, Sequence[Split], Any]:
        """The data of fit again, folds of them that leave every target enough, and labels."""
        sample, targets = self._read_again(*known)
        splits = check.read_folds(cv, sample, targets.values, groups)
        self._require_observed(sample, targets, splits)
        return sample, targets, splits, check.read_labels(groups, sample)

    def _read_again(
        self, X: Any, y: Any, sample_weight: Any, confounds: Any = None
    ) -> tuple[check.Sample, check.Targets]:
        """Read data of the kind that fit has seen."""
        known = X, y, sample_weight, confounds
        X, y, sample_weight, confounds = self._gathered(known, "grouping again", "Use fewer rows")
        gaps = self._input_gaps
        inputs = check.read_inputs(self, X, reset=False, gaps=gaps)
        check.read_confounds_again(confounds, inputs.shape[0], self.targets_.confounds_means_)
        sample = check.read_sample(clone(self), X, sample_weight, gaps=gaps, confounds=confounds)
        return sample, read_again(self.targets_, y, sample.n_given, used=sample.used)
