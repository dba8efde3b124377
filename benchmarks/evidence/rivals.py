"""Rivals that scikit-learn does not have: groups given or by Ward, and Curds and Whey."""

from __future__ import annotations

from typing import Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.cluster import FeatureAgglomeration
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold


class GroupMeans(RegressorMixin, BaseEstimator):
    """Least squares on the mean of each group of standardised targets; the groups are given."""

    def __init__(self, labels: np.ndarray) -> None:
        self.labels = labels

    def fit(self, X: np.ndarray, Y: np.ndarray) -> Self:
        self.offset_, self.scale_ = Y.mean(axis=0), Y.std(axis=0)
        _, self.members_ = np.unique(self.labels, return_inverse=True)
        share = np.eye(self.members_.max() + 1)[self.members_]
        means = (Y - self.offset_) / self.scale_ @ (share / share.sum(axis=0))
        self.model_ = LinearRegression().fit(X, means)
        self.n_groups_ = share.shape[1]
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        means = self.model_.predict(X).reshape(len(X), -1)
        return np.asarray(means[:, self.members_] * self.scale_ + self.offset_)


class WardGroups(RegressorMixin, BaseEstimator):
    """scikit-learn's way: Ward clusters of the targets, their number chosen on five folds."""

    def fit(self, X: np.ndarray, Y: np.ndarray) -> Self:
        n_targets = Y.shape[1]
        counts = np.unique(np.geomspace(1, n_targets, 8).round().astype(int))
        Z = (Y - Y.mean(axis=0)) / Y.std(axis=0)
        losses = np.zeros(counts.size)
        for train, test in KFold(5).split(X):
            kept = Z[train].std(axis=0) > 1e-8  # rare events may all lie in the fold left out
            for i, count in enumerate(counts):
                model = self._model(X[train], Z[train][:, kept], min(count, int(kept.sum())))
                losses[i] += np.sum((model.predict(X[test]) - Z[test][:, kept]) ** 2)
        self.model_ = self._model(X, Y, int(counts[np.argmin(losses)]))
        self.n_groups_ = self.model_.n_groups_
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.model_.predict(X)

    @staticmethod
    def _model(X: np.ndarray, Y: np.ndarray, count: int) -> GroupMeans:
        if count == Y.shape[1]:
            return GroupMeans(np.arange(count)).fit(X, Y)
        Z = (Y - Y.mean(axis=0)) / Y.std(axis=0)
        return GroupMeans(FeatureAgglomeration(n_clusters=count).fit(Z).labels_).fit(X, Y)


class CurdsAndWhey(RegressorMixin, BaseEstimator):
    """Breiman and Friedman (1997): least squares shrunk along the canonical coordinates of Y.

    A coordinate with canonical correlation c is multiplied by the positive part of
    ``(1-r)(c^2 - r) / ((1-r)^2 c^2 + r^2 (1-c^2))``, ``r = D/n``, which is generalised
    cross-validation. Every canonical correlation is one where L + D reaches n, so that with more
    than n/4 targets the coordinates are the principal axes of the fitted values instead, and c^2
    the R2 along each.
    """

    def fit(self, X: np.ndarray, Y: np.ndarray) -> Self:
        self.ols_ = LinearRegression().fit(X, Y)
        self.mean_ = Y.mean(axis=0)
        n_samples, n_targets = Y.shape
        fitted, centred = self.ols_.predict(X) - self.mean_, Y - self.mean_
        whiten = np.eye(n_targets)
        if n_targets <= n_samples / 4:
            spread, axes = np.linalg.eigh(centred.T @ centred)
            kept = spread > 1e-10 * spread[-1]
            whiten = axes[:, kept] / np.sqrt(spread[kept])
        _, _, turn = np.linalg.svd(fitted @ whiten, full_matrices=False)
        coordinates = whiten @ turn.T  # (L, k): targets -> coordinates
        explained = np.sum((fitted @ coordinates) ** 2, axis=0)
        total = np.sum((centred @ coordinates) ** 2, axis=0)
        c2 = explained / np.maximum(total, np.finfo(float).tiny)
        r = np.linalg.matrix_rank(X) / n_samples
        factor = (1 - r) * (c2 - r) / ((1 - r) ** 2 * c2 + r**2 * (1 - c2))
        self.shrink_ = (coordinates * np.maximum(factor, 0.0)) @ np.linalg.pinv(coordinates)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.asarray((self.ols_.predict(X) - self.mean_) @ self.shrink_ + self.mean_)
