"""The paper's algorithm in the authors' configuration."""

from __future__ import annotations

from typing import Any

from sklearn.linear_model import LinearRegression

from ctfa import _reading as check
from ctfa.estimators.features import FeatureAggregator
from ctfa.estimators.multi_input import MultiInputCTFARegressor
from ctfa.estimators.shared import CTFARegressor
from ctfa.estimators.targets import TargetAggregator

#: The authors' code starts again after each merge; Algorithm 2 as printed makes one pass.
ALGORITHMS = {"authors": "restart", "printed": "grow"}


def nonlinctfa(
    epsilon_1: float = 0.0,
    epsilon_2: float = 1e-4,
    *,
    layout: Any = None,
    regressor: Any = None,
    algorithm: str = "authors",
    cv: Any = 5,
    order: Any = "given",
    random_state: Any = None,
) -> CTFARegressor | MultiInputCTFARegressor:
    """NonLinCTFA as its authors run it, as a ``CTFARegressor``.

    Phase I by Eq. 6 as coded (R2 counted twice), raw centred targets, one intercept per group;
    Phase II by the mean R2 of contiguous folds. Features are averaged in the units given: the
    authors standardise them first.

    Parameters
    ----------
    epsilon_1 : float, default=0.0
        Propensity to keep targets apart, in squared target units and in the sign of the paper's
        tables: targets merge when the gain is at least this, so larger merges less.
    epsilon_2 : float, default=1e-4
        R2 that averaging two features may cost: larger merges more.
    layout : array of shape (n_targets, n_slots), default=None
        Columns of each target's own inputs: the multi-input variant, a ``MultiInputCTFARegressor``.
        The most correlated two targets are asked first, targets and inputs are averaged in one
        phase, and ``epsilon_2``, ``algorithm``, ``cv`` and ``order`` play no part (Phase II on the
        slots of each group: ``set_params(features=FeatureAggregator(...))``).
    regressor : estimator, default=None
        Regressor for each group; None is ``LinearRegression()``.
    algorithm : {"authors", "printed"}, default="authors"
        The scan of the authors' code, or the single pass of Algorithm 2.
    cv : int, splitter or None, default=5
        Folds of Phase II; an integer gives contiguous ones, None judges in sample.
    order : {"given", "random", "correlation"} or array, default="given"
        Order of the targets.
    random_state : int, RandomState or None, default=None
        Seed of ``order="random"``.

    Returns
    -------
    CTFARegressor or MultiInputCTFARegressor

    Examples
    --------
    >>> from ctfa import nonlinctfa
    >>> from ctfa.datasets import make_paper_synthetic
    >>> X, Y = make_paper_synthetic(random_state=0)
    >>> nonlinctfa().fit(X, Y).n_groups_
    2
    """
    check.require(algorithm, ALGORITHMS, "algorithm")
    scan = "correlation" if layout is not None else ALGORITHMS[algorithm]
    limit = 0.0 - check.read_number(epsilon_1, "epsilon_1")
    targets = TargetAggregator(
        "mse",
        max_loss=limit,
        scan=scan,
        order=order,
        scale="none",
        regressor=LinearRegression(),
        random_state=random_state,
    )
    model = LinearRegression() if regressor is None else regressor
    if layout is not None:
        return MultiInputCTFARegressor(
            layout, model, targets=targets, aggregate="mean", head="mean"
        )
    limit = check.read_number(epsilon_2, "epsilon_2")
    features = FeatureAggregator("r2", max_loss=limit, scan=scan, min_correlation=-1.0, cv=cv)
    return CTFARegressor(model, targets=targets, features=features, head="mean")
