"""Reduced-rank regression: all targets from a few linear combinations of the features."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ctfa.core.types import FloatArray
from ctfa_study.baselines._numbers import read_at_least_zero, read_count_up_to
from ctfa_study.baselines._shared import (
    RidgeFit,
    SharedRowsLinear,
    contiguous_folds,
)


class ReducedRankRegressor(SharedRowsLinear):
    """Least squares or ridge regression with coefficients of limited rank.

    Minimises ``|Y - XB|^2 + alpha |B|^2`` over coefficients of the rank given, in closed form: the
    coefficients without the limit times the projection on the leading right singular vectors of
    their fitted values. Izenman (1975), "Reduced-rank regression for the multivariate linear
    model", Journal of Multivariate Analysis 5(2), with the identity for weights; with a penalty
    Mukherjee and Zhu (2011), "Reduced rank ridge regression and its kernel extensions",
    Statistical Analysis and Data Mining 4(6).

    Parameters
    ----------
    rank : int or "cv", default="cv"
        Rank of the coefficients. ``"cv"``: that of least squared error on folds, the smallest
        among equals; there the rank may be 0, and every target is predicted by its mean.
    alpha : float or sequence of floats, default=0.0
        Penalty, as in ``Ridge``. Of several the folds choose one, together with the rank.
    n_folds : int, default=5
        Contiguous folds, where there is something to choose.

    Attributes
    ----------
    rank_ : int
        The rank used.
    alpha_ : float
        The penalty used.
    errors_ : ndarray of shape (n_alphas, n_ranks)
        Mean squared error of each choice on the folds, for ranks 0, 1, ...; only where there was
        something to choose.
    coef_ : ndarray of shape (n_targets, n_features)
    intercept_ : ndarray of shape (n_targets,)

    Notes
    -----
    Errors of all targets are added up in the units given: scale targets of different units first.

    Examples
    --------
    >>> import numpy as np
    >>> from ctfa_study.baselines import ReducedRankRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(80, 6))
    >>> Y = X[:, :1] @ rng.normal(size=(1, 5)) + rng.normal(size=(80, 5))
    >>> ReducedRankRegressor().fit(X, Y).rank_
    1
    """

    def __init__(self, rank: int | str = "cv", *, alpha: Any = 0.0, n_folds: int = 5) -> None:
        self.rank = rank
        self.alpha = alpha
        self.n_folds = n_folds

    def _fit_shared(self, inputs: FloatArray, targets: FloatArray) -> None:
        alphas = _read_penalties(self.alpha)
        largest = min(inputs.shape[1], targets.shape[1])
        by_folds = isinstance(self.rank, str) and self.rank == "cv"
        if by_folds:
            ranks = np.arange(largest + 1)
        else:
            ranks = np.array([read_count_up_to(self.rank, largest, "rank", "features or targets")])
        self.__dict__.pop("errors_", None)
        choice = (0, 0)
        if by_folds or len(alphas) > 1:
            errors = self._fold_errors(inputs, targets, alphas)
            self.errors_ = errors
            best = int(np.argmin(errors[:, ranks]))  # alphas by ranks, the first among equals
            choice = (best // ranks.size, best % ranks.size)
        self.alpha_, self.rank_ = alphas[choice[0]], int(ranks[choice[1]])
        fit = RidgeFit.of(inputs, targets, self.alpha_)
        leading = _axes(fit)[: self.rank_]
        self.coef_ = fit.coef(leading.T @ leading)
        self.intercept_ = fit.intercept(self.coef_)

    def _fold_errors(
        self, inputs: FloatArray, targets: FloatArray, alphas: list[float]
    ) -> FloatArray:
        """Mean squared error on the folds of each penalty and rank from 0 up, (A, R + 1)."""
        errors = np.zeros((len(alphas), min(inputs.shape[1], targets.shape[1]) + 1))
        for train, test in contiguous_folds(self.n_folds, inputs.shape[0]).split(inputs):
            for number, alpha in enumerate(alphas):
                fit = RidgeFit.of(inputs[train], targets[train], alpha)
                left = targets[test] - fit.mean_targets
                axes = _axes(fit)
                # In coordinates along the axes a rank r fit predicts the first r, and 0 for others.
                true = left @ axes.T
                predicted = (inputs[test] - fit.mean_inputs) @ fit.coef(axes.T).T
                won = np.cumsum(np.sum(true**2 - (true - predicted) ** 2, axis=0))
                # Fewer axes than the largest rank: the fold's training rows do not have that many.
                won = np.pad(won, (1, 0))
                won = np.pad(won, (0, errors.shape[1] - won.size), mode="edge")
                errors[number] += np.sum(left**2) - won
        return errors / targets.size


def _axes(fit: RidgeFit) -> FloatArray:
    """Right singular vectors of the fitted values of the penalised problem, (k, T)."""
    # Ridge is least squares on rows [X; sqrt(alpha) I]: its fitted values have inner products
    # Y'X (X'X + alpha I)^-1 X'Y, those of the half fit.
    return np.asarray(np.linalg.svd(fit.half_fit, full_matrices=False)[2])


def _read_penalties(alpha: Any) -> list[float]:
    if not isinstance(alpha, Iterable) or isinstance(alpha, str):
        return [read_at_least_zero(alpha, "alpha")]
    penalties = [read_at_least_zero(value, "alpha") for value in alpha]
    if not penalties:
        raise ValueError("alpha holds no penalties: pass a number, or several to choose among.")
    return penalties
