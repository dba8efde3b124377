"""Both phases with their limits chosen by cross-validation, the regressor included."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, RegressorMixin, clone

from ctfa import _reading as check
from ctfa._reading.sums import Collection, Wanted, learns_from_sums
from ctfa.core.criteria import FEATURE_CRITERIA, TARGET_CRITERIA
from ctfa.core.cut import without_rounding
from ctfa.core.partition import Partition
from ctfa.core.ridge import AS_IT_IS
from ctfa.core.tasks.base import PathPoint
from ctfa.core.tasks.shared import SharedInputs
from ctfa.core.types import FloatArray, IntArray
from ctfa.estimators.features import FeatureAggregator, factor, pose_features
from ctfa.estimators.given import fields, whole
from ctfa.estimators.models import SingleModels, fit_singles, mean_of_groups
from ctfa.estimators.refits import OnFolds, fit_regressor, groups_on_folds
from ctfa.estimators.search import pose, solve_path
from ctfa.estimators.shared import CTFARegressor
from ctfa.estimators.targets import RATIOS, Found, PhaseOne, TargetAggregator, by_levels

#: Limits tried where none are given: of Phase I in units of break-even, of Phase II in F.
TARGET_LOSSES = (-np.inf, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 6.0, np.inf)
FEATURE_LOSSES = (-np.inf, 1.0, 2.0, 4.0, 8.0, 16.0)
#: Both aggregators, None where a phase is skipped, and the limits of both.
_Grids: TypeAlias = tuple[
    TargetAggregator | None, FeatureAggregator | None, list[float], list[float]
]
#: Scores that sums of rows know.
OF_SUMS = (None, "r2", "neg_mean_squared_error", "neg_root_mean_squared_error")


class CTFARegressorCV(CTFARegressor):
    """Choose ``max_loss`` of both phases by the score of the whole model on held-out rows.

    In each fold the inputs are factored once and one path serves all limits of a phase; limits
    that give the same groups share their regressors. The model is then fitted to all rows.

    Parameters
    ----------
    regressor, targets, features, head, n_jobs
        As in ``CTFARegressor``; the limits of the aggregators are replaced by those tried.
    target_losses : list of float, default=None
        Limits of Phase I; None tries nine from no merge to one group, for the criterion "risk".
    feature_losses : list of float, default=None
        Limits of Phase II; None tries six and ``log(n)``, for the criterion "risk".
    cv : int, splitter or list of folds, default=5
        An integer gives contiguous folds.
    scoring : str or callable, default=None
        A regression scorer; None is the mean R2 of the targets.
    error_score : float or "raise", default=np.nan
        Score of a fit that fails in one fold, as in ``GridSearchCV``: a warning says which and
        why, and limits with a mean of NaN come last. If no limits have a mean, the search raises an
        error. A target that is constant over the training rows of a fold is not a failure: there it
        is predicted as that constant.

    Attributes
    ----------
    cv_results_ : dict of lists and arrays
        As in scikit-learn's ``GridSearchCV``, with the mean number of groups and of features.
    best_params_ : dict
        ``targets__max_loss`` and ``features__max_loss`` of the best mean score; if scores differ by
        rounding alone, those that leave the fewest groups, and then the fewest features.
    best_score_ : float
        That score.
    best_index_ : int
        Its position in ``cv_results_``.

    All attributes of a ``CTFARegressor`` fitted with these limits are here too.

    Examples
    --------
    >>> from ctfa import CTFARegressorCV
    >>> from ctfa.datasets import make_paper_synthetic
    >>> X, Y = make_paper_synthetic(n_samples=150, n_features=20, n_targets=6, random_state=0)
    >>> model = CTFARegressorCV(features="passthrough").fit(X, Y)
    >>> model.n_groups_
    2
    """

    _saved = CTFARegressor._saved | fields("best_index_ best_params_ best_score_ cv_results_")

    def __init__(
        self,
        regressor: Any = None,
        *,
        targets: Any = None,
        features: Any = None,
        target_losses: Any = None,
        feature_losses: Any = None,
        head: str = "levels",
        cv: Any = 5,
        scoring: Any = None,
        n_jobs: int | None = None,
        error_score: Any = np.nan,
    ) -> None:
        super().__init__(regressor, targets=targets, features=features, head=head, n_jobs=n_jobs)
        self.target_losses = target_losses
        self.feature_losses = feature_losses
        self.cv = cv
        self.scoring = scoring
        self.error_score = error_score

    @whole
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        confounds: None = None,
        target_weight: None = None,
    ) -> Self:
        """Choose the limits, then fit to all rows.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Also Dask collections, read once and in chunks, and arrays of torch, CuPy or JAX: a fit
            needs only their sums.
        y : array or data frame of shape (n_samples, n_targets) or (n_samples,)
        sample_weight : array of shape (n_samples,), default=None
            Analytic weights, used in both phases and by the regressor; scores are not weighted.
        groups : array of shape (n_samples,), default=None
            Labels of the rows for splitters such as ``GroupKFold``.
        confounds, target_weight : None
            Not available here: ``CTFARegressor(targets=TargetAggregator(max_loss="auto"))`` takes
            them.

        Returns
        -------
        self
        """
        check.refuse_in_search("confounds", confounds)
        check.refuse_in_search("target_weight", target_weight)
        sample, targets, data = self.__ctfa_read__(X, y, sample_weight, groups=groups)
        instead = "use CTFARegressor (its max_loss='auto' works with gaps)"
        check.require_complete(targets.values, "CTFARegressorCV", instead)
        check.require_error_score(self.error_score)
        phases = self._grids(sample.n_samples)
        splits = check.read_folds(self.cv, sample, targets.values, groups, purpose="search")
        scorer = check.read_scorer(self.scoring, _Predicted())
        check.require_varying(targets.values, targets.names)
        judge = None if phases[0] is None else phases[0].regressor or self._usual_judge(phases[0])
        if judge is not None and check.judges(judge) and check.read_judge(judge) is None:
            # Least squares was asked for; on few rows ridge regression judges in its place.
            check.warn_if_any_is_short(sample, splits)
        folds = Parallel(n_jobs=self.n_jobs)(
            delayed(_score_fold)(number, self, phases, sample, targets, *split, scorer)
            for number, split in enumerate(splits)
        )
        self._settle_results(phases, folds)
        best = self.best_params_
        chosen = [
            None if phase is None else clone(phase).set_params(max_loss=best[f"{name}__max_loss"])
            for name, phase in zip(("targets", "features"), phases, strict=False)
        ]
        self._fit_stand_ins(sample, targets, data, phases=chosen)
        return self

    @property
    def _chooses_features(self) -> bool:
        """Whether folds decide if groups of features are used: the search has decided it."""
        return False

    def _require_stream(self) -> None:
        """Refuse pieces: there is no ``partial_fit``."""
        check.refuse_pieces_in_search(type(self).__name__)

    def _asks_of(self, data: Collection) -> tuple[list[Wanted], str | None]:
        """Folds of the search, and what in it cannot be computed from sums."""
        wanted, needs_rows = super()._asks_of(data)
        features = self._grids(2)[1]
        if not learns_from_sums(self._template):
            needs_rows = f"a search with {type(self._template).__name__}()"
        elif data.weights is not None:
            needs_rows = "a search whose scores are not weighted as its rows are"
        elif self.scoring not in OF_SUMS:
            needs_rows = f"scoring={self.scoring!r}"
        elif features is not None and features.cv is not None:
            needs_rows = "a search with folds inside its folds"
        # On these the model of the limits that were chosen is tempered.
        again = [one for one in wanted if one.purpose == "limit" and self.regressor is None]
        return [Wanted("search", self.cv), *again], needs_rows

    def _grids(self, n_samples: int) -> _Grids:
        """The aggregators, None where a phase is skipped, and the limits tried."""
        targets, features = self._phases()
        check.refuse_wishes_in_search(targets)
        check.refuse_wishes_in_search(features)
        judge = None if targets is None else targets.regressor or self._usual_judge(targets)
        usual = TARGET_LOSSES if check.judges(judge) else RATIOS
        known = targets, TARGET_CRITERIA, usual, "target_losses"
        target_losses = check.read_grid(self.target_losses, *known)
        most = sorted({*FEATURE_LOSSES, float(np.log(n_samples))})
        others = features, FEATURE_CRITERIA, most, "feature_losses"
        return targets, features, target_losses, check.read_grid(self.feature_losses, *others)

    def _settle_results(self, phases: _Grids, folds: Sequence[list[_Score]]) -> None:
        """Set the attributes that a search of scikit-learn sets."""
        names = ("targets__max_loss", "features__max_loss")
        params = [
            {
                name: value
                for name, value, phase in zip(names, values, phases[:2], strict=True)
                if phase is not None
            }
            for values in itertools.product(*phases[2:])
        ]
        failed = [[entry.error for entry in fold] for fold in folds]
        scores = np.array([[entry.score for entry in fold] for fold in folds])
        mean = scores.mean(axis=0)
        check.require_enough_fits(mean, failed, params, self.error_score)
        results: dict[str, Any] = {"params": params}
        for name in params[0]:
            results[f"param_{name}"] = np.array([entry[name] for entry in params])
        for number, row in enumerate(scores):
            results[f"split{number}_test_score"] = row
        results["mean_test_score"] = mean
        results["std_test_score"] = scores.std(axis=0)
        settled = np.mean([without_rounding(row) for row in scores], axis=0)
        # Limits that failed in a fold come last.
        settled = np.nan_to_num(settled, nan=np.nanmin(settled) - 1.0)
        ranks = rankdata(-settled, method="min")
        results["rank_test_score"] = ranks.astype(int)
        for name in ("n_groups", "n_features"):
            counts = [[getattr(entry, name) for entry in fold] for fold in folds]
            results[f"mean_{name}"] = np.mean(counts, axis=0)
        self.cv_results_ = results
        # The first of those with the fewest groups, then the fewest features.
        sizes = results["mean_n_features"], results["mean_n_groups"]
        self.best_index_ = int(np.lexsort((*sizes, ranks))[0])
        self.best_params_ = params[self.best_index_]
        self.best_score_ = float(mean[self.best_index_])


class _Score(NamedTuple):
    """One pair of limits on one fold."""

    score: float
    n_groups: float = np.nan
    n_features: float = np.nan  # mean over groups
    error: str = ""  # why it could not be fitted, where that is so


class _Predicted(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Predictions that are already made, as an estimator for a scorer."""

    def __init__(self, values: Any = None) -> None:
        self.values = values

    def fit(self, X: Any, y: Any) -> Self:
        """Nothing to do."""
        return self

    def predict(self, X: Any) -> Any:
        """Hand them out."""
        return self.values


class _Fold:
    """Groups, features and regressors of one fold, each made once, and their scores."""

    def __init__(
        self,
        model: CTFARegressorCV,
        phases: _Grids,
        sample: check.Sample,
        targets: check.Targets,
        train: IntArray,
        test: IntArray,
        scorer: Any,
    ) -> None:
        self._model, self._scorer = model, scorer
        template, self._features, target_losses, self._feature_losses = phases
        self._sample, self._rows = sample.take(train), sample.inputs[test]
        values, self._true = targets.values[train], targets.values[test]
        self._varies = check.is_varying(values)
        values = np.where(self._varies, values, values[:1])  # rounding is nothing to learn
        n_targets = values.shape[1]
        self._offsets, self._scales, self._risk = np.zeros(n_targets), np.ones(n_targets), None
        self._levels: Any = None
        #: How groups and members' models do on folds within this one, where these judge.
        self._on_folds: Callable[[PathPoint], OnFolds] | None = None
        #: Groups of targets for each limit of Phase I.
        self.points = [PathPoint(-np.inf, Partition.singletons(n_targets), (-np.inf, np.inf))]
        part = targets._replace(values=values)
        tasks = SharedInputs(self._sample, values, part.weights)
        if template is None and model.regressor is None and self._features is None:
            template, target_losses = TargetAggregator(max_loss=-np.inf, scale="none"), []
        if template is not None:
            is_given = template.regressor is not None
            if not is_given:
                template = clone(template).set_params(regressor=model._usual_judge(template))
            phase = PhaseOne(template, tasks, part)
            rule = phase.rule
            if check.judges(template.regressor):
                rule, fits, problem = phase.pose(in_fold=True)
                if check.judges(model.regressor):
                    self._risk = fits.fit.members
                self.points = solve_path(problem, target_losses) or self.points
            else:
                asks = n_targets > 1 and max(target_losses) > -np.inf
                fits, told, splits = phase.ask_refits(asks=asks, in_fold=True)
                if told is None:
                    self.points *= len(target_losses)
                else:
                    self.points = solve_path(pose(rule, fits.space()), target_losses)
                    if not is_given:
                        asked = model.regressor, tasks, rule, told, splits
                        self._on_folds = partial(groups_on_folds, *asked)
            if model.regressor is None:
                fits = by_levels(Found(fits, rule, fits.scales), tasks).fits
            self._offsets, self._scales, self._levels = fits.offsets, fits.scales, fits.levels
        # Constant over these rows, though not over all: nothing to scale, and a scale of zero
        # gives that constant back whatever its group says.
        self._own = (values - self._offsets) / np.where(self._scales > 0.0, self._scales, 1.0)
        # Rows that stand in for others count for them; scores of rows themselves are not weighted.
        self._weighed = {}
        if sample.counts is not None and sample.weights is not None:
            self._weighed = {"sample_weight": sample.weights[test]}
        self._factored: Any = None
        self._merged: dict[bytes, list[Partition | None]] = {}
        self._predicted: dict[tuple[bytes, Partition | None], tuple[FloatArray, int]] = {}

    def score(self, point: PathPoint, at: int) -> _Score:
        """Score the groups of one limit of Phase I, for one of Phase II."""
        model, partition = self._model, point.partition
        signs = np.ones(partition.n_variables) if point.signs is None else point.signs
        groups = [self._group(members, signs[members], at) for members in partition.groups]
        means = np.column_stack([predicted for predicted, _ in groups])
        levels = self._levels if model.regressor is None else None
        if levels is not None:
            parts = levels.parts(partition, signs)
            about = self._rows - levels.factored.mean
            if self._features is None:  # as served: with penalties that groups share
                level = np.average(self._own, axis=0, weights=self._sample.weights)
                means = about @ levels.group_coefficients(parts)
                means = means + partition.mean((level * signs)[None])
        units = np.asarray(partition.spread(means)) * signs
        if model.head == "levels" and levels is not None:
            units = units + about @ levels.deviations(parts) * signs
        elif model.head == "levels" and self._risk is not None:
            units = self._singles.mix(units, self._risk.flipped(signs).trust(partition), self._rows)
        elif (
            model.head == "levels"
            and self._on_folds is not None
            and partition.n_groups < partition.n_variables
        ):
            # Groups' models mixed with members', as folds within this one say.
            trust, share = self._on_folds(point).mixture(partition, None)
            mean = partial(mean_of_groups, (partition, point.signs, None))
            units = self._singles._replace(share=share).mix(units, trust, self._rows, mean)
        predicted = _Predicted(units * self._scales + self._offsets)
        found = self._scorer(predicted, self._rows, self._true, **self._weighed)
        n_features = float(np.mean([number for _, number in groups]))
        return _Score(check.read_score(found, model.scoring), point.n_groups, n_features)

    @cached_property
    def _singles(self) -> SingleModels:
        """Models of the targets' own, of every one."""
        everyone = np.zeros(self._own.shape[1])
        return fit_singles(self._model.regressor, self._sample, self._own, everyone, None)

    def _group(self, members: IntArray, signs: FloatArray, at: int) -> tuple[FloatArray, int]:
        """Prediction for a group's mean and number of features, for one limit of Phase II."""
        key = members.tobytes() + signs.tobytes()
        mean = (self._own[:, members] * signs).mean(axis=1)
        if not self._varies[members].any():
            # Nothing to explain: no features to merge, and any regressor predicts the constant.
            return np.full(len(self._rows), mean[0]), self._rows.shape[1]
        if key not in self._merged:
            self._merged[key] = [None]  # keeps every feature
            if self._features is not None:
                if self._factored is None:
                    self._factored = factor(self._features, self._sample, mean)
                problem = pose_features(self._features, self._factored, mean, "the mean of a group")
                path = solve_path(problem, self._feature_losses)
                self._merged[key] = [one.partition for one in path]
        partition = self._merged[key][at]
        if (key, partition) not in self._predicted:
            sample, inputs, rows = self._sample, self._sample.inputs, self._rows
            if partition is not None:
                inputs, rows = partition.mean(inputs), partition.mean(rows)
            rest = sample.weights, sample.n_samples, sample.is_single
            temper = AS_IT_IS if self._model.regressor is None else None
            regressor = fit_regressor(self._model.regressor, inputs, mean, *rest, temper=temper)
            said = np.asarray(regressor.predict(rows)).reshape(-1)
            self._predicted[key, partition] = said, inputs.shape[1]
        return self._predicted[key, partition]


def _score_fold(number: int, model: CTFARegressorCV, phases: _Grids, *data: Any) -> list[_Score]:
    """Score every pair of limits on one fold, in the order of the grid."""
    limits = range(len(phases[3]))
    with warnings.catch_warnings():
        # Warnings about few rows are given for all rows.
        for sentence in (check.SHORT, check.DOUBTFUL):
            warnings.filterwarnings("ignore", sentence, RuntimeWarning)
        try:
            fold = _Fold(model, phases, *data)
        except Exception as error:
            return [_failed(number, model, error)] * (len(phases[2]) * len(limits))
        scores = []
        for point, at in itertools.product(fold.points, limits):
            try:
                scores.append(fold.score(point, at))
            except Exception as error:
                scores.append(_failed(number, model, error))
    return scores


def _failed(number: int, model: CTFARegressorCV, error: Exception) -> _Score:
    """Score of a fit that failed; raises the error where that is asked for."""
    ours = isinstance(error, ValueError) and str(error)
    if isinstance(model.error_score, str):
        if ours:
            raise ValueError(f"fold {number} of cv: {error}") from error
        raise error
    why = str(error) if ours else f"{type(error).__name__}: {error}"
    return _Score(model.error_score, error=why)
