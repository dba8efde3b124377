"""Every method of the study, by name. Ours and the paper's come from the library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
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
#: Penalties tried by ridge regression, for inputs in standard deviations.
PENALTIES = np.logspace(-3, 5, 25)
ALL = ("synthetic", "paper", "real")
TRUTH_KNOWN = ("synthetic", "paper")
FEATURES = ("paper", "real")


@dataclass(frozen=True)
class Method:
    """How to make an estimator for a problem, given the limit of ours."""

    name: str
    make: Callable[[Problem, Any], Any]
    text: str
    kinds: tuple[str, ...] = ALL
    slow: bool = False
    ours: bool = False  # from the library: its results are of one version of it
    raw: bool = False  # receives the targets in their own units

    def applies(self, case: Case, seed: int) -> bool:
        """Whether this method runs on a seed of a case."""
        return case.kind in self.kinds and (seed < case.n_slow_seeds or not self.slow)

    def version(self, limit: Any) -> str:
        """What a stored result stands for: the library's source and the limit, where used."""
        return f"{source()} {limit}" if self.ours else ""


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


def lasso(problem: Problem, limit: Any) -> MultiTaskLassoCV:
    """Multi-task lasso over twenty penalties, from the smallest that removes everything down."""
    Z = (problem.Y - problem.Y.mean(axis=0)) / problem.Y.std(axis=0)
    strongest = np.linalg.norm(problem.X.T @ Z, axis=1).max() / len(Z)
    penalties = strongest * np.logspace(0, -3, 20)
    return MultiTaskLassoCV(alphas=penalties, cv=5, max_iter=2000, tol=1e-3)


def partial_least_squares(problem: Problem, limit: Any) -> GridSearchCV:
    """Partial least squares, the number of components on five folds."""
    most = min(problem.X.shape[1], len(problem.X) // 2)
    grid = {"n_components": [k for k in (1, 2, 3, 5, 8, 12) if k <= most]}
    search = PLSRegression(scale=False)
    return GridSearchCV(search, grid, scoring="neg_mean_squared_error", cv=KFold(5))


def true_groups(problem: Problem, limit: Any) -> GroupMeansRegressor:
    """Least squares on the groups that made the data."""
    if problem.labels is None:
        raise NotImplementedError("this family has no true groups")
    return GroupMeansRegressor(problem.labels)


def targets(limit: Any, **options: Any) -> TargetAggregator:
    """Phase I of ours."""
    return TargetAggregator(max_loss=limit, cv=10, **options)


def ours(
    limit: Any, regressor: Any = None, *, head: str = "mean", features: Any = None, **options: Any
) -> CTFARegressor:
    """Phase I by the risk criterion, then ``features`` (none unless given)."""
    return CTFARegressor(
        regressor,
        targets=targets(limit, **options),
        features="passthrough" if features is None else features,
        head=head,
    )


def paper(scale: str) -> CTFARegressor:
    """Phase I as the authors run it, in standardised or in raw units."""
    rule = TargetAggregator("mse", max_loss=0.0, scan="restart", scale=scale)
    return CTFARegressor(targets=rule, features="passthrough")


def features_only(rule: FeatureAggregator) -> CTFARegressor:
    """Phase II for every target by itself."""
    return CTFARegressor(targets="passthrough", features=rule)


def authors_features() -> FeatureAggregator:
    """Phase II as the authors run it: five contiguous folds, restart after each merge."""
    return FeatureAggregator("r2", max_loss=1e-4, scan="restart", min_correlation=-1.0, cv=5)


def rivals() -> list[Method]:
    """What a reader would use instead."""
    return [
        Method(REFERENCE, lambda p, m: LinearRegression(), "least squares, a model a target"),
        Method("ridge", lambda p, m: ridge(), "RidgeCV, a penalty a target"),
        Method("lasso", lasso, "MultiTaskLassoCV"),
        Method("pls", partial_least_squares, "PLSRegression, components on five folds"),
        Method("chain", lambda p, m: RegressorChain(ridge_one()), "RegressorChain of RidgeCV"),
        Method(
            "ward",
            lambda p, m: WardGroupsRegressor(),
            "Ward clusters of the targets, least squares",
        ),
        Method("forest", lambda p, m: forest(), "one random forest for all targets"),
        Method(
            "curds-whey",
            lambda p, m: CurdsAndWheyRegressor(),
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
            lambda p, m: MultiOutputRegressor(forest()),
            "a random forest a target",
            slow=True,
        ),
        Method(
            "mlp each",
            lambda p, m: MultiOutputRegressor(network()),
            "a network a target",
            slow=True,
        ),
    ]


def aggregations() -> list[Method]:
    """The paper's rule and ours."""

    def of(name: str, make: Callable[[Any], Any], text: str, **how: Any) -> Method:
        return Method(name, lambda p, m: make(m), text, ours=True, **how)

    return [
        of("paper", lambda m: paper("standard"), "the paper's Phase I, targets standardised"),
        of("paper raw", lambda m: paper("none"), "the paper's Phase I, raw units", raw=True),
        of("paper I+II", lambda m: nonlinctfa(), "the paper's both phases, raw units", raw=True),
        of("paper I+II std", lambda m: nonlinctfa(), "the same, targets standardised"),
        of("ours", ours, "risk criterion, mean head"),
        of("ours 1.5", lambda m: ours(1.5), "the same with max_loss=1.5"),
        of("ours shrink", lambda m: ours(m, head="shrink"), "shrink head"),
        of("ours flip", lambda m: ours(m, flip=True), "members may join with a minus"),
        of("ours guard", lambda m: ours(m, guard="member"), "no member may be predicted to lose"),
        of("ours I+II", lambda m: ours(m, features=FeatureAggregator()), "both phases"),
        of(
            "ours ridge",
            lambda m: ours(m, ridge_one(), solver="ridge"),
            "solver='ridge', RidgeCV on top",
        ),
        of(
            "ours ridge shrink",
            lambda m: ours(m, ridge_one(), solver="ridge", head="shrink"),
            "the same with the shrink head",
        ),
        of("ours, RidgeCV", lambda m: ours(m, ridge_one()), "least-squares groups, RidgeCV on top"),
        of("ours, forest", lambda m: ours(m, forest()), "a random forest a group", slow=True),
        of("ours, mlp", lambda m: ours(m, network()), "a network a group", slow=True),
        of(
            "II ours",
            lambda m: features_only(FeatureAggregator()),
            "Phase II alone, every target by itself",
            kinds=FEATURES,
        ),
        of(
            "II authors",
            lambda m: features_only(authors_features()),
            "the authors' Phase II, every target by itself",
            kinds=FEATURES,
        ),
    ]


def all_methods() -> list[Method]:
    """Every method; the reference comes first."""
    return rivals() + aggregations()
