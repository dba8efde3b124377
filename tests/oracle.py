"""Algorithms 1 and 2 of the paper, line by line: the slow reference for testing the fast code.

Every comparison refits its regressions from the data. There are no closed forms, no running sums
and nothing is remembered between two questions, so a mistake in the fast code cannot be repeated
here. Three layers, each readable alone:

1. ``least_squares`` and the *criteria*: what one merge costs (Algorithm 1, ``Compute_threshold``);
2. the *scans*: who is asked next (Algorithm 2, ``Aggregation``);
3. ``phase_one``, ``phase_two``, and the whole method: ``authors`` and ``printed``.

One sign: a criterion returns a loss, and two blocks merge when ``loss <= max_loss``. A *block* is
a sorted tuple of variable indices, named by its smallest member, its representative.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

import numpy as np

Block = tuple[int, ...]
Loss = Callable[[Block, Block, list[Block]], float]

EPSILON = np.finfo(float).eps
# A column whose spread is below this fraction of what it was made from is rounding, not signal:
# the difference of two copies, or the mean of dummy variables that sum to one.
NEGLIGIBLE = 1e-10


# -- Least squares ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fit:
    """A linear regression with intercept, and its sums of squares over the rows used."""

    n_samples: int
    rank: int
    total: float
    explained: float
    residual: float
    coef: np.ndarray
    x_mean: np.ndarray
    y_mean: float

    @property
    def r2(self) -> float:
        """``1 - RSS/TSS``; 0 for a constant target, which has nothing to explain."""
        return 1.0 - self.residual / self.total if self.total > 0 else 0.0

    def noise(self, n_inputs: int) -> float:
        """``var_res`` of Algorithm 1: ``RSS / (n - n_inputs - 1)``."""
        degrees = self.n_samples - n_inputs - 1
        if degrees < 1:
            raise ValueError(
                f"{self.n_samples} samples and {n_inputs} inputs leave no degrees of freedom."
            )
        return self.residual / degrees

    def predict(self, X: np.ndarray) -> np.ndarray:
        return (X - self.x_mean) @ self.coef + self.y_mean


def used_rows(weights: np.ndarray | None, n_samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of positive weight, and their weights normalised to sum to their number n."""
    if weights is None:
        return np.arange(n_samples), np.ones(n_samples)
    weights = np.asarray(weights, dtype=float)
    rows = np.flatnonzero(weights > 0)
    return rows, weights[rows] * len(rows) / weights[rows].sum()


def weighted_mean(Z: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Mean of each column; a constant column has its constant as mean, without rounding."""
    constant = Z.max(axis=0) == Z.min(axis=0)
    return np.where(constant, Z[0], weights @ Z / weights.sum())


def least_squares(X: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> Fit:
    """Fit y on X with intercept: minimum norm on centred (weighted) data, cut-off max(n, D) eps."""
    rows, weights = used_rows(weights, len(y))
    X, y = np.asarray(X, dtype=float)[rows], np.asarray(y, dtype=float)[rows]
    x_mean, y_mean = weighted_mean(X, weights), float(weighted_mean(y, weights))
    root = np.sqrt(weights)
    centred_X, centred_y = root[:, None] * (X - x_mean), root * (y - y_mean)
    coef, _, rank, _ = np.linalg.lstsq(centred_X, centred_y, rcond=max(X.shape) * EPSILON)
    fitted = centred_X @ coef
    return Fit(
        n_samples=len(rows),
        rank=int(rank),
        total=float(np.sum(centred_y**2)),
        explained=float(np.sum(fitted**2)),
        residual=float(np.sum((centred_y - fitted) ** 2)),
        coef=coef,
        x_mean=x_mean,
        y_mean=y_mean,
    )


def held_out_r2(
    X: np.ndarray,
    y: np.ndarray,
    train: np.ndarray,
    test: np.ndarray,
    weights: np.ndarray | None = None,
) -> float:
    """Fit on the rows ``train``; R2 of the rows ``test`` about the mean of the test rows."""
    train, test = np.asarray(train), np.asarray(test)
    fit = least_squares(X[train], y[train], None if weights is None else weights[train])
    rows, test_weights = used_rows(None if weights is None else weights[test], len(test))
    test = test[rows]
    sse = float(test_weights @ (y[test] - fit.predict(X[test])) ** 2)
    sst = float(test_weights @ (y[test] - weighted_mean(y[test], test_weights)) ** 2)
    if sst == 0:  # the convention of sklearn.metrics.r2_score
        return 1.0 if sse == 0 else 0.0
    return 1.0 - sse / sst


# -- Criteria for targets: what averaging two blocks of targets costs ------------------------------


def mse_loss(X, mean_p, mean_j, a, b, *, weights=None) -> float:
    """``Compute_threshold_targets`` of Algorithm 1: the larger of its two thresholds.

    ``mean_p`` and ``mean_j`` are the means of two blocks of ``a`` and ``b`` targets.
    """
    # y_ag <- mean(y_P, y_j): the mean of all members (PAPER.md 3)
    mean_ag = (a * mean_p + b * mean_j) / (a + b)
    n_inputs = X.shape[1]

    def variance_and_signal(y):
        # R, sigma^2, sigma^2_f <- R2score(x, y), var_res(x, y), var(y) - var_res(x, y)
        fit = least_squares(X, y, weights)
        sigma2 = fit.noise(n_inputs)
        sigma2_f = fit.total / (fit.n_samples - 1) - sigma2
        return n_inputs / (fit.n_samples - 1) * sigma2, fit.r2 * sigma2_f

    variance_p, signal_p = variance_and_signal(mean_p)
    variance_j, signal_j = variance_and_signal(mean_j)
    variance_ag, signal_ag = variance_and_signal(mean_ag)
    threshold_1 = (variance_ag - variance_p) + (signal_p + signal_j) / 2 - signal_ag
    threshold_2 = (variance_ag - variance_j) + (signal_p + signal_j) / 2 - signal_ag
    # (threshold_1 <= epsilon) AND (threshold_2 <= epsilon)
    return max(threshold_1, threshold_2)


def corollary_loss(X, mean_p, mean_j, a, b, *, weights=None) -> float:
    """Eq. 6 as the corollary states it: ``var(psi) R2`` for the mean, ``var(f) R2`` for singles.

    ``var(f)`` is estimated by ``var(y) - s2``; the rank of X stands for D (PAPER.md 5).
    """
    mean_ag = (a * mean_p + b * mean_j) / (a + b)
    fit_p, fit_j, fit_ag = (least_squares(X, y, weights) for y in (mean_p, mean_j, mean_ag))

    def variance(fit):
        return fit.noise(fit.rank) * fit.rank / (fit.n_samples - 1)

    def signal(fit):
        return (fit.total / (fit.n_samples - 1) - fit.noise(fit.rank)) * fit.r2

    signal_ag = fit_ag.explained / (fit_ag.n_samples - 1)
    return (
        variance(fit_ag)
        - min(variance(fit_p), variance(fit_j))
        + (signal(fit_p) + signal(fit_j)) / 2
        - signal_ag
    )


def regression_f(X, mean_p, mean_j, weights=None) -> float:
    """F statistic of the regression of ``mean_p - mean_j`` on X; 0 when they are the same."""
    difference = least_squares(X, mean_p - mean_j, weights)
    scale = least_squares(X, mean_p, weights).total + least_squares(X, mean_j, weights).total
    if difference.total <= NEGLIGIBLE**2 * scale or difference.rank == 0:
        return 0.0
    noise = difference.noise(difference.rank)
    explained = difference.explained / difference.rank
    return explained / noise if noise > 0 else np.inf


def target_risk_loss(X, mean_p, mean_j, a, b, *, weights=None) -> float:
    """``(F - 1)(n - r - 2)/(n - 1)``: 1 where merging breaks even. The sizes cancel."""
    fit = least_squares(X, mean_p, weights)
    spare = fit.n_samples - fit.rank - 2
    if spare < 1:
        raise ValueError(
            f"{fit.n_samples} samples and rank {fit.rank}: the risk needs n - rank - 2 >= 1."
        )
    return (regression_f(X, mean_p, mean_j, weights) - 1) * spare / (fit.n_samples - 1)


TARGET_CRITERIA = {"mse": mse_loss, "corollary": corollary_loss, "risk": target_risk_loss}


# -- Criteria for features: what averaging two blocks of features costs one target -----------------


def block_mean(Z: np.ndarray, block: Block, sizes: np.ndarray | None = None) -> np.ndarray:
    """Mean of the members of a block; a column that is itself a mean of k counts k times."""
    members = list(block)
    sizes = np.ones(Z.shape[1]) if sizes is None else np.asarray(sizes, dtype=float)
    return Z[:, members] @ sizes[members] / sizes[members].sum()


def model_columns(
    X: np.ndarray, blocks: Iterable[Block], sizes: np.ndarray | None = None
) -> np.ndarray:
    """One column per block: its mean times sqrt(k), that is sum/sqrt(k).

    Where least squares has one solution the factor changes nothing. Where it has many, the
    minimum-norm one is then the minimum norm of the *original* coefficients, equal within blocks.
    """
    sizes = np.ones(X.shape[1]) if sizes is None else np.asarray(sizes, dtype=float)
    return np.column_stack(
        [np.sqrt(sizes[list(block)].sum()) * block_mean(X, block, sizes) for block in blocks]
    )


def r2_score_of(X, y, blocks, *, folds=None, weights=None, sizes=None) -> float:
    """``R2score`` of Algorithm 1: in sample, or the mean over folds of the held-out R2."""
    columns = model_columns(X, blocks, sizes)
    if folds is None:
        return least_squares(columns, y, weights).r2
    return float(np.mean([held_out_r2(columns, y, *fold, weights) for fold in folds]))


def r2_loss(X, y, before, after, *, folds=None, weights=None, sizes=None) -> float:
    """``Compute_threshold_features`` of Algorithm 1: ``R_sep - R_aggr``.

    ``before`` and ``after`` are the blocks of the model without and with the merge.
    """
    r_sep = r2_score_of(X, y, before, folds=folds, weights=weights, sizes=sizes)
    r_aggr = r2_score_of(X, y, after, folds=folds, weights=weights, sizes=sizes)
    return r_sep - r_aggr


def feature_mse_loss(X, y, before, after, *, folds=None, weights=None, sizes=None) -> float:
    """Eq. 7 for one feature less: ``var(f) (R2_before - R2_after) - s2/(n - 1)``."""
    fit_before = least_squares(model_columns(X, before, sizes), y, weights)
    fit_after = least_squares(model_columns(X, after, sizes), y, weights)
    s2 = fit_before.noise(fit_before.rank)
    var_f = fit_before.total / (fit_before.n_samples - 1) - s2
    return var_f * (fit_before.r2 - fit_after.r2) - s2 / (fit_before.n_samples - 1)


def feature_risk_loss(X, y, before, after, *, folds=None, weights=None, sizes=None) -> float:
    """F of the restriction: the rise of RSS over s2 of the model with all features separate."""
    original = least_squares(model_columns(X, singletons(X.shape[1]), sizes), y, weights)
    rise = (
        least_squares(model_columns(X, after, sizes), y, weights).residual
        - least_squares(model_columns(X, before, sizes), y, weights).residual
    )
    s2 = original.noise(original.rank)
    if s2 > 0:
        return rise / s2
    return np.inf if rise > 0 else 0.0


FEATURE_CRITERIA = {"r2": r2_loss, "feature-mse": feature_mse_loss, "risk": feature_risk_loss}


# -- Scans: who is asked next ----------------------------------------------------------------------


class Decision(NamedTuple):
    """One comparison: merge ``other`` into ``block``? Both are sorted tuples of members."""

    block: Block
    other: Block
    loss: float
    accepted: bool


@dataclass(frozen=True)
class Result:
    """A partition and every decision that led to it."""

    groups: list[list[int]]
    decisions: list[Decision]
    # Smallest gap between the pair a scan chose and its runner-up (best-first and correlation):
    # near zero, rounding chose the pair. Infinite for the scans that do not choose.
    order_gap: float = np.inf

    @property
    def labels(self) -> np.ndarray:
        """Group of each variable, groups numbered by first appearance."""
        labels = np.empty(sum(len(group) for group in self.groups), dtype=int)
        for number, group in enumerate(self.groups):
            labels[group] = number
        return labels

    def margin(self, max_loss: float) -> float:
        """Smallest ``|loss - max_loss|``: near zero, rounding may have decided a merge."""
        if np.isinf(max_loss):
            return np.inf
        return min((abs(decision.loss - max_loss) for decision in self.decisions), default=np.inf)


@dataclass
class Rules:
    """What every scan is told: who may be asked, what is accepted, and the log it keeps.

    ``correlation(block, other)`` is the signed correlation of the two block means. ``tie`` is the
    difference up to which two choices count as equal, so that the smallest indices decide.
    """

    n_variables: int
    loss: Loss
    max_loss: float
    order: Sequence[int] | None = None
    neighbours: np.ndarray | Iterable[tuple[int, int]] | None = None
    correlation: Callable[[Block, Block], float] | None = None
    min_correlation: float = -1.0
    tolerance: float = 0.0
    tie: float = 0.0
    decisions: list[Decision] = field(default_factory=list)
    order_gap: float = np.inf

    def __post_init__(self):
        self.order = list(range(self.n_variables)) if self.order is None else list(self.order)
        if sorted(self.order) != list(range(self.n_variables)):
            raise ValueError("order must be a permutation of the variables.")
        self.adjacency = adjacency_matrix(self.neighbours, self.n_variables)

    def may_ask(self, block: Block, other: Block) -> bool:
        """Some member of one next to some member of the other, and means correlated enough."""
        if self.adjacency is not None and not self.adjacency[np.ix_(block, other)].any():
            return False
        return self.min_correlation <= -1 or self.correlation(block, other) >= self.min_correlation

    def decide(self, block: Block, other: Block, loss: float) -> bool:
        accepted = bool(loss <= self.max_loss + self.tolerance)
        self.decisions.append(Decision(block, other, float(loss), accepted))
        return accepted

    def choose(self, values: Sequence[float]) -> int:
        """Position of the smallest value, the first of those equal to it."""
        ranked = sorted(values)
        if len(ranked) > 1 and ranked[0] < np.inf:
            self.order_gap = min(self.order_gap, ranked[1] - ranked[0])
        return next(i for i, value in enumerate(values) if value <= ranked[0] + self.tie)

    def result(self, blocks: Iterable[Block]) -> Result:
        groups = sorted(sorted(int(member) for member in block) for block in blocks)
        return Result(groups, self.decisions, float(self.order_gap))


def adjacency_matrix(neighbours, n_variables: int) -> np.ndarray | None:
    """A symmetric boolean matrix, from one or from unordered pairs."""
    if neighbours is None:
        return None
    if isinstance(neighbours, np.ndarray) and neighbours.shape == (n_variables, n_variables):
        return (neighbours != 0) | (neighbours != 0).T
    adjacency = np.zeros((n_variables, n_variables), dtype=bool)
    for pair in neighbours:
        i, j = pair
        adjacency[i, j] = adjacency[j, i] = True
    return adjacency


def singletons(n_variables: int) -> list[Block]:
    return [(variable,) for variable in range(n_variables)]


def merged(block: Block, other: Block) -> Block:
    return tuple(sorted(block + other))


def without(blocks: list[Block], *taken: Block) -> list[Block]:
    return [block for block in blocks if block not in taken]


def scan_from_seeds(rules: Rules, *, restart: bool) -> Result:
    """``Aggregation`` of Algorithm 2; ``restart`` is the one line in which the scans differ."""
    finished: list[Block] = []  # the partition
    free = list(rules.order)  # in order, not in V: taken ones are skipped (PAPER.md 8)
    while free:  # foreach i in {1..|z|}: if i not in V
        block: Block = (free.pop(0),)  # P <- {i}; V <- V + {i}
        position = 0
        while position < len(free):  # foreach j in {i+1..|z|}
            other: Block = (free[position],)
            accepted = False
            if rules.may_ask(block, other):
                # x_curr: finished means, the open block's mean (PAPER.md 9), every free variable
                rest = finished + without([(variable,) for variable in free], other)
                accepted = rules.decide(block, other, rules.loss(block, other, rest))
            if accepted:  # P <- P + {j}; V <- V + {j}
                block = merged(block, other)
                del free[position]  # the next free variable now stands at this position
                position = 0 if restart else position
            else:
                position += 1
        finished.append(block)
    return rules.result(finished)


def grow(n_variables: int, loss: Loss, max_loss: float, **options) -> Result:
    """Algorithm 2 as printed: one pass per seed.

    With neighbours it restarts: a variable refused for not touching the block may touch it later.
    """
    rules = Rules(n_variables, loss, max_loss, **options)
    return scan_from_seeds(rules, restart=rules.adjacency is not None)


def restart(n_variables: int, loss: Loss, max_loss: float, **options) -> Result:
    """The authors' code: after each merge the candidates start again from the first free one."""
    return scan_from_seeds(Rules(n_variables, loss, max_loss, **options), restart=True)


def best_first(n_variables: int, loss: Loss, max_loss: float, **options) -> Result:
    """Agglomerative: the pair of blocks of smallest loss merges, while that loss is allowed."""
    rules = Rules(n_variables, loss, max_loss, **options)
    blocks = singletons(n_variables)
    while True:
        # Blocks are sorted by representative, so the first of equal pairs has the smallest ones.
        pairs = [pair for pair in combinations(sorted(blocks), 2) if rules.may_ask(*pair)]
        if not pairs:
            return rules.result(blocks)
        losses = [loss(*pair, without(blocks, *pair)) for pair in pairs]
        chosen = rules.choose(losses)
        if not rules.decide(*pairs[chosen], losses[chosen]):
            return rules.result(blocks)
        blocks = [*without(blocks, *pairs[chosen]), merged(*pairs[chosen])]


def correlation(n_variables: int, loss: Loss, max_loss: float, **options) -> Result:
    """The authors' variant: the most correlated pair of block means is asked first.

    A refused pair is not asked again until one of its two blocks changes: a changed block is
    another tuple, so it is enough to remember the pairs refused.
    """
    rules = Rules(n_variables, loss, max_loss, **options)
    blocks = singletons(n_variables)
    refused: set[tuple[Block, Block]] = set()
    while True:
        pairs = [
            pair
            for pair in combinations(sorted(blocks), 2)
            if pair not in refused and rules.may_ask(*pair)
        ]
        if not pairs:
            return rules.result(blocks)
        pair = pairs[rules.choose([-rules.correlation(*pair) for pair in pairs])]
        if rules.decide(*pair, loss(*pair, without(blocks, *pair))):
            blocks = [*without(blocks, *pair), merged(*pair)]
        else:
            refused.add(pair)


SCANS = {"grow": grow, "restart": restart, "best-first": best_first, "correlation": correlation}


def correlation_of_means(Z: np.ndarray, weights: np.ndarray | None, sizes: np.ndarray | None):
    """The function (block, other) -> correlation of their means; 0 where a mean is constant."""
    rows, weights = used_rows(weights, len(Z))
    Z = Z[rows] - weighted_mean(Z[rows], weights)

    def spread(column):
        return float(weights @ column**2)

    def correlation_of(block: Block, other: Block) -> float:
        means = block_mean(Z, block, sizes), block_mean(Z, other, sizes)
        for mean, members in zip(means, (block, other), strict=True):
            if spread(mean) <= NEGLIGIBLE**2 * max(spread(Z[:, k]) for k in members):
                return 0.0
        product = float(weights @ (means[0] * means[1]))
        return float(np.clip(product / np.sqrt(spread(means[0]) * spread(means[1])), -1, 1))

    return correlation_of


# -- The two phases --------------------------------------------------------------------------------


def phase_one(
    X,
    Y,
    max_loss,
    *,
    criterion,
    scan,
    order=None,
    neighbours=None,
    weights=None,
    sizes=None,
    tolerance=0.0,
    tie=0.0,
) -> Result:
    """Groups of the columns of Y (n, L) that share the inputs X (n, D).

    Targets are centred, not scaled. ``sizes`` says that column i is already the mean of
    ``sizes[i]`` targets. ``criterion`` may be a function with the signature of ``mse_loss``.
    """
    X, Y, weights, sizes = _as_float(X, Y, weights, sizes)
    cost = criterion if callable(criterion) else TARGET_CRITERIA[criterion]
    rows, used_weights = used_rows(weights, len(Y))
    Y = Y - weighted_mean(Y[rows], used_weights)
    sizes = np.ones(Y.shape[1]) if sizes is None else sizes

    def loss(block: Block, other: Block, rest: list[Block]) -> float:
        mean_p, mean_j = block_mean(Y, block, sizes), block_mean(Y, other, sizes)
        a, b = sizes[list(block)].sum(), sizes[list(other)].sum()
        return cost(X, mean_p, mean_j, a, b, weights=weights)

    return _scan(scan)(
        Y.shape[1],
        loss,
        max_loss,
        order=order,
        neighbours=neighbours,
        correlation=correlation_of_means(Y, weights, sizes),
        tolerance=tolerance,
        tie=tie,
    )


def phase_two(
    X,
    y,
    max_loss,
    *,
    criterion,
    scan,
    folds=None,
    order=None,
    neighbours=None,
    min_correlation=-1.0,
    weights=None,
    sizes=None,
    tolerance=0.0,
    tie=0.0,
) -> Result:
    """Groups of the columns of X (n, D) in the regression of the one target y (n,).

    ``folds`` is a list of (train, test) row indices, for the criterion "r2" only. Columns are
    averaged in the units given. ``criterion`` may be a function with the signature of ``r2_loss``.
    """
    X, y, weights, sizes = _as_float(X, y, weights, sizes)
    if folds is not None:
        if criterion in ("feature-mse", "risk"):
            raise ValueError(f"criterion {criterion!r} is evaluated in sample, not on folds.")
        folds = list(folds)
    cost = criterion if callable(criterion) else FEATURE_CRITERIA[criterion]

    def loss(block: Block, other: Block, rest: list[Block]) -> float:
        before = [*rest, block, other]
        after = [*rest, merged(block, other)]  # x_curr \ {z_P, z_j} + {mean(z_P, z_j)}
        return cost(X, y, before, after, folds=folds, weights=weights, sizes=sizes)

    return _scan(scan)(
        X.shape[1],
        loss,
        max_loss,
        order=order,
        neighbours=neighbours,
        correlation=correlation_of_means(X, weights, sizes),
        min_correlation=min_correlation,
        tolerance=tolerance,
        tie=tie,
    )


def _as_float(*arrays):
    return (None if array is None else np.asarray(array, dtype=float) for array in arrays)


def _scan(name: str) -> Callable[..., Result]:
    return SCANS[name.replace("_", "-")]


# -- The whole method ------------------------------------------------------------------------------


@dataclass(frozen=True)
class LeastSquares:
    """Least squares with an intercept, columns at unit length.

    Not scikit-learn's, which since version 1.9 drops what is weaker than 1e-6 in the units given.
    """

    mean: np.ndarray
    coef: np.ndarray
    level: float

    @classmethod
    def fit(cls, X, y) -> "LeastSquares":
        mean, level = X.mean(axis=0), y.mean()
        length = np.linalg.norm(X - mean, axis=0)
        length[length < 1e-12 * np.linalg.norm(X, axis=0)] = np.inf
        unit = np.linalg.lstsq((X - mean) / length, y - level, rcond=None)[0]
        return cls(mean, unit / length, level)

    def predict(self, X) -> np.ndarray:
        return (X - self.mean) @ self.coef + self.level


@dataclass(frozen=True)
class TwoPhases:
    """``NonLinCTFA``'s output: reduced tasks, and for each its features and linear model."""

    targets: Result
    features: list[Result]
    models: list[LeastSquares]

    @property
    def target_groups(self) -> list[list[int]]:
        return self.targets.groups

    @property
    def feature_groups(self) -> list[list[list[int]]]:
        """For each group of targets, its groups of features."""
        return [result.groups for result in self.features]

    def predict(self, X) -> np.ndarray:
        """Every original target, predicted by its group's model of the mean target."""
        predictions = [
            model.predict(mean_columns(X, groups))
            for model, groups in zip(self.models, self.feature_groups, strict=True)
        ]
        return np.column_stack(predictions)[:, self.targets.labels]


def mean_columns(Z, groups: Iterable[Sequence[int]]) -> np.ndarray:
    """The mean of each group of columns, side by side."""
    Z = np.asarray(Z, dtype=float)
    return np.column_stack([Z[:, list(group)].mean(axis=1) for group in groups])


def contiguous_folds(n_samples: int, n_folds: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Unshuffled K folds; the first ``n_samples % n_folds`` have one row more."""
    rows = np.arange(n_samples)
    return [(np.setdiff1d(rows, test), test) for test in np.array_split(rows, n_folds)]


def both_phases(X, Y, epsilon_1, epsilon_2, *, scan, n_folds, order=None) -> TwoPhases:
    """The main function of Algorithm 1. ``n_folds=None`` takes R2 in sample.

    ``epsilon_1`` has the sign of the paper's tables: larger merges fewer targets (PAPER.md 1).
    """
    X, Y = np.asarray(X, dtype=float), np.asarray(Y, dtype=float)
    # PHASE I: task aggregations
    targets = phase_one(X, Y, -epsilon_1, criterion="mse", scan=scan, order=order)
    psi = mean_columns(Y, targets.groups)
    # PHASE II: feature aggregation for each task
    folds = None if n_folds is None else contiguous_folds(len(X), n_folds)
    features = [
        phase_two(X, psi_i, epsilon_2, criterion="r2", scan=scan, folds=folds) for psi_i in psi.T
    ]
    models = [
        LeastSquares.fit(mean_columns(X, result.groups), psi_i)
        for result, psi_i in zip(features, psi.T, strict=True)
    ]
    return TwoPhases(targets, features, models)


def authors(X, Y, epsilon_1=0.0, epsilon_2=1e-4, n_folds=5, *, order=None) -> TwoPhases:
    """The method as the authors' code runs it: restart after each merge (PAPER.md 8)."""
    return both_phases(X, Y, epsilon_1, epsilon_2, scan="restart", n_folds=n_folds, order=order)


def printed(X, Y, epsilon_1=0.0, epsilon_2=1e-4, n_folds=5, *, order=None) -> TwoPhases:
    """The method as Algorithm 2 prints it: one pass."""
    return both_phases(X, Y, epsilon_1, epsilon_2, scan="grow", n_folds=n_folds, order=order)
