"""Every method of the study, by name. Ours and the paper's come from the library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.cross_decomposition import PLSRegression
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, MultiTaskLassoCV, RidgeCV
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.multioutput import MultiOutputRegressor, RegressorChain
from sklearn.neural_network import MLPRegressor

from ctfa import CTFARegressor, FeatureAggregator, TargetAggregator, nonlinctfa
from ctfa_study.baselines import CurdsAndWheyRegressor, GroupMeansRegressor, WardGroupsRegressor
from ctfa_study.comparison._harness import source
from ctfa_study.evidence.problem import Case, Problem

REFERENCE = "single"
#: What real sets are compared with: it needs to know their sizes.
OF_REAL = "ridge"
#: What users get, what they read of it, and what a target is told to gain by its group over.
DEFAULT, READABLE, ALONE = "default", "readable", "default, alone"
#: Penalties tried by ridge regression, for inputs in standard deviations.
PENALTIES = np.logspace(-3, 5, 25)
TRUTH_KNOWN = ("synthetic", "adversarial", "paper")
ALL = (*TRUTH_KNOWN, "real")
FEATURES = ("paper", "real")


@dataclass(frozen=True)
class Method:
    """How to make an estimator for a problem."""

    name: str
    make: Callable[[Problem], Any]
    text: str
    kinds: tuple[str, ...] = ALL
    slow: bool = False
    ours: bool = False  # from the library: its results are of one version of it
    raw: bool = False  # receives the targets in their own units
    needs_rows: bool = False  # more of them than inputs, for a noise to judge by

    def applies(self, case: Case, seed: int) -> bool:
        """Whether this method runs on a seed of a case."""
        return case.kind in self.kinds and (seed < case.n_slow_seeds or not self.slow)

    @property
    def version(self) -> str:
        """What a stored result stands for: the library's source, where used."""
        return source() if self.ours else ""


class ReadablePart(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """The groups' models of ``CTFARegressor()`` by themselves, without what members add to them."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        """Fit the whole model, to be read in part."""
        self.model_ = CTFARegressor().fit(X, y)
        self.centre_ = X.mean(axis=0)
        self.n_groups_ = self.model_.n_groups_
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Each target by the coefficients of its group."""
        of = self.model_.targets_
        units = (X - self.centre_) @ self.model_.group_coef_[of.labels_].T
        return np.asarray(of.offsets_ + of.scales_ * of.signs_ * units)

    def told(self) -> tuple[np.ndarray, np.ndarray]:
        """Gain of every target by its group and its standard error, as ``why`` tells them.

        NaN for targets by themselves.
        """
        said = [self.model_.why(target) for target in range(len(self.model_.labels_))]
        told = [(one.gain, one.gain_error, len(one.members) == 1) for one in said]
        gain, error, alone = np.array(told).T
        return np.where(alone, np.nan, gain), np.where(alone, np.nan, error)


def ridge() -> RidgeCV:
    """Ridge regression, a penalty for each target by leave-one-out."""
    return RidgeCV(PENALTIES, alpha_per_target=True)


def ridge_one() -> RidgeCV:
    """The same for one target."""
    return RidgeCV(PENALTIES)


def forest() -> RandomForestRegressor:
    """A random forest, the same wherever one is used."""
    return RandomForestRegressor(50, min_samples_leaf=3, max_features=1 / 3, random_state=0)


def network() -> MLPRegressor:
    """A small network, the same wherever one is used."""
    return MLPRegressor(
        hidden_layer_sizes=(16,), solver="lbfgs", alpha=1.0, max_iter=200, random_state=0
    )


def lasso(problem: Problem) -> MultiTaskLassoCV:
    """Multi-task lasso over twenty penalties, from the smallest that removes everything down."""
    Z = (problem.Y - problem.Y.mean(axis=0)) / problem.Y.std(axis=0)
    strongest = np.linalg.norm(problem.X.T @ Z, axis=1).max() / len(Z)
    penalties = strongest * np.logspace(0, -3, 20)
    return MultiTaskLassoCV(alphas=penalties, cv=5, max_iter=2000, tol=1e-3)


def partial_least_squares(problem: Problem) -> GridSearchCV:
    """Partial least squares, the number of components on five folds."""
    most = min(problem.X.shape[1], len(problem.X) // 2)
    grid = {"n_components": [k for k in (1, 2, 3, 5, 8, 12) if k <= most]}
    search = PLSRegression(scale=False)
    return GridSearchCV(search, grid, scoring="neg_mean_squared_error", cv=KFold(5))


def true_groups(problem: Problem) -> GroupMeansRegressor:
    """Least squares on the groups that made the data."""
    if problem.labels is None:
        raise NotImplementedError("this family has no true groups")
    return GroupMeansRegressor(problem.labels)


def ours(regressor: Any = None, **options: Any) -> CTFARegressor:
    """What users get, but for what is said."""
    return CTFARegressor(regressor, **options)


def least_squares(**options: Any) -> CTFARegressor:
    """Groups served by least squares of their means, as in the paper."""
    return ours(LinearRegression(), head="mean", **options)


def paper(scale: str) -> CTFARegressor:
    """Phase I as the authors run it, in standardised or in raw units."""
    rule = TargetAggregator("mse", max_loss=0.0, scan="restart", scale=scale)
    return least_squares(targets=rule, features="passthrough")


def features_only(rule: FeatureAggregator) -> CTFARegressor:
    """Phase II for every target by itself."""
    return least_squares(targets="passthrough", features=rule)


def authors_features() -> FeatureAggregator:
    """Phase II as the authors run it: five contiguous folds, restart after each merge."""
    return FeatureAggregator("r2", max_loss=1e-4, scan="restart", min_correlation=-1.0, cv=5)


def rivals() -> list[Method]:
    """What a reader would use instead."""
    return [
        Method(REFERENCE, lambda p: LinearRegression(), "least squares, a model per target"),
        Method("ridge", lambda p: ridge(), "RidgeCV, a penalty per target"),
        Method("lasso", lasso, "MultiTaskLassoCV"),
        Method("pls", partial_least_squares, "PLSRegression, components on five folds"),
        Method("chain", lambda p: RegressorChain(ridge_one()), "RegressorChain of RidgeCV"),
        Method(
            "ward",
            lambda p: WardGroupsRegressor(),
            "Ward clusters of the targets, their number on five folds, least squares",
        ),
        Method("forest", lambda p: forest(), "one random forest for all targets"),
        Method(
            "curds-whey",
            lambda p: CurdsAndWheyRegressor(),
            "Curds and Whey, the dense reference",
        ),
        Method(
            "true groups",
            true_groups,
            "least squares on the true groups",
            kinds=TRUTH_KNOWN,
        ),
        Method(
            "forest each",
            lambda p: MultiOutputRegressor(forest()),
            "a random forest per target",
            slow=True,
        ),
        Method(
            "mlp each",
            lambda p: MultiOutputRegressor(network()),
            "a network per target",
            slow=True,
        ),
    ]


def aggregations() -> list[Method]:
    """Ours and the paper's rule."""

    def of(name: str, make: Callable[[], Any], text: str, **how: Any) -> Method:
        return Method(name, lambda p: make(), text, ours=True, **how)

    return [
        of(DEFAULT, ours, "CTFARegressor(), as users get it"),
        of(READABLE, ReadablePart, "the same model's groups alone: what users read"),
        of(
            ALONE,
            lambda: ours(targets="passthrough", features="passthrough"),
            "neither phase: our ridge regression, a model per target",
        ),
        of("default, mean head", lambda: ours(head="mean"), "head='mean'"),
        of("Phase I only", lambda: ours(features="passthrough"), "features='passthrough'"),
        of(
            "least squares judged and served",
            lambda: least_squares(features="passthrough"),
            "Phase I only with LinearRegression() and head='mean'",
        ),
        of("with RidgeCV", lambda: ours(ridge_one()), "RidgeCV judges and serves"),
        of(
            "flip",
            lambda: ours(targets=TargetAggregator(flip=True)),
            "default, members may join with a minus",
        ),
        of(
            "guard",
            lambda: ours(targets=TargetAggregator(guard="member")),
            "default, no member may be predicted to lose",
        ),
        of("with forest", lambda: ours(forest()), "a random forest per group", slow=True),
        of("with network", lambda: ours(network()), "a network per group", slow=True),
        of(
            "paper",
            lambda: paper("standard"),
            "the paper's Phase I, targets standardised",
            needs_rows=True,
        ),
        of(
            "paper raw",
            lambda: paper("none"),
            "the paper's Phase I, raw units",
            raw=True,
            needs_rows=True,
        ),
        of(
            "paper I+II",
            nonlinctfa,
            "the paper's both phases, raw units",
            raw=True,
            needs_rows=True,
        ),
        of("paper I+II std", nonlinctfa, "the same, targets standardised", needs_rows=True),
        of(
            "II ours",
            lambda: features_only(FeatureAggregator()),
            "Phase II alone, every target by itself",
            kinds=FEATURES,
        ),
        of(
            "II authors",
            lambda: features_only(authors_features()),
            "the authors' Phase II, every target by itself",
            kinds=FEATURES,
        ),
    ]


def all_methods() -> list[Method]:
    """Every method; the reference comes first."""
    return rivals() + aggregations()
