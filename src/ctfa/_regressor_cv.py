"""Both phases with their limits chosen by cross-validation, the regressor included."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, RegressorMixin, clone

from ctfa import _validation as check
from ctfa._anomalies import Anomalies
from ctfa._collections import Collection, Wanted, is_collection, learns_from_sums
from ctfa._feature_aggregator import FeatureAggregator
from ctfa._heads import SingleModels, fit_singles
from ctfa._merging import PathPoint, solve_path
from ctfa._regressor import CTFARegressor
from ctfa._target_aggregator import TargetAggregator
from ctfa._whole_fit import whole
from ctfa.core.cut import without_rounding
from ctfa.core.partition import Partition
from ctfa.core.types import FloatArray, IntArray

#: Limits tried where none are given: of Phase I in units of break-even, of Phase II in F.
TARGET_LOSSES = (-np.inf, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 6.0, np.inf)
FEATURE_LOSSES = (-np.inf, 1.0, 2.0, 4.0, 8.0, 16.0)
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

    _takes_pieces = False  # folds of the search hold the rows themselves

    def __init__(
        self,
        regressor: Any = None,
        *,
        targets: Any = None,
        features: Any = None,
        target_losses: Any = None,
        feature_losses: Any = None,
        head: str = "mean",
        cv: Any = 5,
        scoring: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(regressor, targets=targets, features=features, head=head, n_jobs=n_jobs)
        self.target_losses = target_losses
        self.feature_losses = feature_losses
        self.cv = cv
        self.scoring = scoring

    @whole
    def fit(
        self,
        X: Any,
        Y: Any,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        baseline: None = None,
        target_weight: None = None,
    ) -> Self:
        """Choose the limits, then fit to all rows.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Also of Dask, read once and in chunks, and arrays of torch, CuPy or JAX: what a fit
            needs of them are sums.
        Y : array or data frame of shape (n_samples, n_targets) or (n_samples,)
        sample_weight : array of shape (n_samples,), default=None
            Analytic weights, used in both phases and by the regressor; scores are not weighted.
        groups : array of shape (n_samples,), default=None
            Labels of the rows for splitters such as ``GroupKFold``.
        baseline, target_weight : None
            Not available here: ``CTFARegressor(targets=TargetAggregator(max_loss="auto"))`` takes
            them.

        Returns
        -------
        self
        """
        check.refuse_in_search("baseline", baseline)
        check.refuse_in_search("target_weight", target_weight)
        data = None
        if is_collection(X, Y, sample_weight):
            self._check_options(weighed=sample_weight is not None)
            data = Collection.of(X, Y, sample_weight)
            needs_rows = self._search_needs_rows(weighed=sample_weight is not None)
            read = data.read_or_gather(self, [Wanted("search", self.cv)], groups, needs_rows)
            if read.rows is not None:
                return self.fit(*read.rows[:3], groups=groups)
            sample, targets = self._received(*read.found)
        else:
            sample, targets = self._read(X, Y, sample_weight)
        instead = "use CTFARegressor (its max_loss='auto' works with gaps)"
        check.require_complete(targets.values, "CTFARegressorCV", instead)
        phases = _Phases.of(self, sample.n_samples)
        splits = check.read_folds(self.cv, sample, targets.values, groups, purpose="search")
        scorer = check.read_scorer(self.scoring, _Predicted())
        check.require_varying(targets.values, targets.names)
        folds = Parallel(n_jobs=self.n_jobs)(
            delayed(_score_numbered)(number, self, phases, sample, targets, *split, scorer)
            for number, split in enumerate(splits)
        )
        self._settle_results(phases, folds)
        best = self.best_params_
        chosen = (
            None if phases.targets is None else _limited(phases.targets, best["targets__max_loss"]),
            None
            if phases.features is None
            else _limited(phases.features, best["features__max_loss"]),
        )
        return self._fit_read(sample, targets, *chosen, None, data)

    def _search_needs_rows(self, *, weighed: bool) -> str | None:
        """What in a search cannot be had from sums."""
        if not learns_from_sums(self._template):
            return f"a search with {type(self._template).__name__}()"
        if weighed:
            return "a search whose scores are not weighted as its rows are"
        if self.scoring not in OF_SUMS:
            return f"scoring={self.scoring!r}"
        phases = _Phases.of(self, 2)
        if phases.features is not None and phases.features.cv is not None:
            return "a search with folds inside its folds"
        return self._asks_of(phases[:2], 1)[1]

    def _settle_results(self, phases: _Phases, folds: Sequence[list[_Score]]) -> None:
        """Set what a search in scikit-learn would."""
        params = [
            {
                name: value
                for name, value, phase in (
                    ("targets__max_loss", target, phases.targets),
                    ("features__max_loss", feature, phases.features),
                )
                if phase is not None
            }
            for target, feature in phases.grid()
        ]
        scores = np.array([[entry.score for entry in fold] for fold in folds])
        mean = scores.mean(axis=0)
        results: dict[str, Any] = {"params": params}
        for name in params[0]:
            results[f"param_{name}"] = np.array([entry[name] for entry in params])
        for number, row in enumerate(scores):
            results[f"split{number}_test_score"] = row
        results["mean_test_score"] = mean
        results["std_test_score"] = scores.std(axis=0)
        ranks = rankdata(-np.mean([without_rounding(row) for row in scores], axis=0), method="min")
        results["rank_test_score"] = ranks.astype(int)
        for name in ("n_groups", "n_features"):
            counts = [[getattr(entry, name) for entry in fold] for fold in folds]
            results[f"mean_{name}"] = np.mean(counts, axis=0)
        self.cv_results_ = results
        # The first of those that are least in groups, then in features.
        sizes = results["mean_n_features"], results["mean_n_groups"]
        self.best_index_ = int(np.lexsort((*sizes, ranks))[0])
        self.best_params_ = params[self.best_index_]
        self.best_score_ = float(mean[self.best_index_])


class _Score(NamedTuple):
    """One pair of limits on one fold."""

    score: float
    n_groups: int
    n_features: float  # mean over groups


class _Phases(NamedTuple):
    """The aggregators, None where a phase is skipped, and the limits tried."""

    targets: TargetAggregator | None
    features: FeatureAggregator | None
    target_losses: list[float]
    feature_losses: list[float]

    @classmethod
    def of(cls, model: CTFARegressorCV, n_samples: int) -> _Phases:
        targets = check.read_phase(model.targets, TargetAggregator, "targets")
        features = check.read_phase(model.features, FeatureAggregator, "features")
        usual = sorted({*FEATURE_LOSSES, float(np.log(n_samples))})
        return cls(
            targets,
            features,
            check.read_grid(model.target_losses, targets, TARGET_LOSSES, "target_losses"),
            check.read_grid(model.feature_losses, features, usual, "feature_losses"),
        )

    def grid(self) -> Iterator[tuple[float, float]]:
        return ((one, two) for one in self.target_losses for two in self.feature_losses)


class _Predicted(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Predictions that are already there, as an estimator that a scorer can ask."""

    def __init__(self, values: Any = None) -> None:
        self.values = values

    def fit(self, X: Any, y: Any) -> Self:
        """Nothing to do."""
        return self

    def predict(self, X: Any) -> Any:
        """Hand them out."""
        return self.values


class _FoldModels:
    """Groups, features and regressors of one fold, each made once."""

    def __init__(
        self,
        model: CTFARegressorCV,
        phases: _Phases,
        sample: check.Sample,
        own: FloatArray,
        rows: FloatArray,
    ) -> None:
        self._model, self._phases, self._sample, self._own = model, phases, sample, own
        self._rows = rows  # to predict
        self._factored: Any = None
        self._predicted: dict[bytes, list[tuple[FloatArray, int]]] = {}
        self._singles: SingleModels | None = None

    def group(self, members: IntArray, signs: FloatArray) -> list[tuple[FloatArray, int]]:
        """Prediction for a group's mean and number of features, for each limit of Phase II."""
        key = members.tobytes() + signs.tobytes()
        if key not in self._predicted:
            mean = (self._own[:, members] * signs).mean(axis=1)
            self._predicted[key] = self._predict(mean)
        return self._predicted[key]

    def mix(self, predicted: FloatArray, trust: FloatArray) -> FloatArray:
        """Mix in the targets' own models."""
        if self._singles is None:
            everyone = np.zeros(self._own.shape[1])
            self._singles = fit_singles(
                self._model._template,
                self._sample.inputs,
                self._own,
                self._sample.weights,
                everyone,
                None,
            )
        return self._singles.mix(predicted, trust, self._rows)

    def _predict(self, mean: FloatArray) -> list[tuple[FloatArray, int]]:
        template = self._phases.features
        if template is None:
            return [(self._fit(None, mean), self._rows.shape[1])]
        if self._factored is None:
            self._factored = template._factor(self._sample, mean)
        problem = template._pose(self._factored, mean, "the mean of a group")
        made: dict[Partition, tuple[FloatArray, int]] = {}
        points = solve_path(problem, self._phases.feature_losses)
        for point in points:
            if point.partition not in made:
                made[point.partition] = (self._fit(point.partition, mean), point.n_groups)
        return [made[point.partition] for point in points]

    def _fit(self, partition: Partition | None, mean: FloatArray) -> FloatArray:
        inputs, rows = self._sample.inputs, self._rows
        if partition is not None:
            inputs, rows = partition.mean(inputs), partition.mean(rows)
        weights = self._sample.weights
        extra = {} if weights is None else {"sample_weight": weights}
        regressor = clone(self._model._template).fit(inputs, mean, **extra)
        return np.asarray(regressor.predict(rows)).reshape(-1)


def _score_numbered(number: int, *arguments: Any) -> list[_Score]:
    """Score one fold, and say which one it was where that cannot be done."""
    try:
        return _score_fold(*arguments)
    except ValueError as error:
        raise ValueError(f"fold {number} of cv: {error}") from error


def _score_fold(
    model: CTFARegressorCV,
    phases: _Phases,
    sample: check.Sample,
    targets: check.Targets,
    train: IntArray,
    test: IntArray,
    scorer: Any,
) -> list[_Score]:
    """Score every pair of limits on one fold, in the order of the grid."""
    learn, values = sample.take(train), targets.values
    aggregator = TargetAggregator(scale="none") if phases.targets is None else phases.targets
    aggregator = clone(aggregator)
    n_targets = values.shape[1]
    points: Sequence[PathPoint]
    if phases.targets is None:
        offsets, scales = np.zeros(n_targets), np.ones(n_targets)
        points = [PathPoint(-np.inf, Partition.singletons(n_targets), (-np.inf, np.inf))]
        risk = None
    else:
        part = targets._replace(values=values[train])
        posed = aggregator._pose(Anomalies.of(learn, part.values), part)
        offsets, scales, risk = posed.offsets, posed.scales, posed.fit.members
        points = solve_path(posed.problem, phases.target_losses)
    rows = sample.inputs[test]
    models = _FoldModels(model, phases, learn, (values[train] - offsets) / scales, rows)
    scores: list[_Score] = []
    # Rows that stand in for others count for them; scores of rows themselves are not weighted.
    weighed = {}
    if sample.counts is not None and sample.weights is not None:
        weighed = {"sample_weight": sample.weights[test]}
    for point in points:
        signs = np.ones(n_targets) if point.signs is None else point.signs
        groups = [models.group(members, signs[members]) for members in point.partition.groups]
        for at in range(len(phases.feature_losses)):
            means = np.column_stack([group[at][0] for group in groups])
            units = np.asarray(point.partition.spread(means)) * signs
            if model.head == "shrink" and risk is not None:
                units = models.mix(units, risk.flipped(signs).trust(point.partition))
            score = scorer(_Predicted(units * scales + offsets), rows, values[test], **weighed)
            n_features = float(np.mean([group[at][1] for group in groups]))
            score = check.read_score(score, model.scoring)
            scores.append(_Score(score, point.n_groups, n_features))
    return scores


def _limited(template: Any, max_loss: float) -> Any:
    return clone(template).set_params(max_loss=max_loss)
