"""Tasks with their own inputs, and tasks with their own rows: every comparison refits from data.

The scans are those of ``oracle``; only what a merge costs is written here, as slowly as it reads.
"""

from typing import NamedTuple

import numpy as np

import oracle

#: A merge that no m pays for.
HOPELESS = 1e6


# -- Own inputs: mean target on mean inputs --------------------------------------------------------


def mean_task(X, Y, block):
    """Mean inputs (n, D) and mean target (n,) of a block of tasks; X is (tasks, n, D)."""
    members = list(block)
    x, y = X[members].mean(axis=0), Y[:, members].mean(axis=1)
    # Columns that cancelled in the mean are rounding, not signal.
    spread = np.abs(x - x.mean(axis=0)).max(axis=0)
    parts = np.abs(X[members] - X[members].mean(axis=1, keepdims=True)).max(axis=(0, 1))
    return np.where(spread > oracle.NEGLIGIBLE * parts, x, 0.0), y


def group_value(X, Y, block, m):
    """``k (explained - r s F_star(m))`` of a block, from one fit."""
    fit = oracle.least_squares(*mean_task(X, Y, block))
    n, r = fit.n_samples, fit.rank
    f_star = 1.0 + m * (n - 1) / (n - r - 2)
    return len(block) * (fit.explained - r * fit.residual / (n - r - 1) * f_star)


def paired_gain(X, Y, block, other, m):
    union = oracle.merged(block, other)
    parts = group_value(X, Y, block, m) + group_value(X, Y, other, m)
    return group_value(X, Y, union, m) - parts


def paired_risk_loss(X, Y, block, other):
    """The m at which the gain of a merge is zero: it is a straight line in m."""
    (x, y), (their_x, their_y) = mean_task(X, Y, block), mean_task(X, Y, other)
    n, r = len(y), oracle.least_squares(x, y).rank
    if np.allclose(x, their_x, rtol=1e-12) and np.allclose(y, their_y, rtol=1e-12):
        return -(n - r - 2) / (n - 1)  # copies: F is zero
    at_zero, at_one = (paired_gain(X, Y, block, other, m) for m in (0.0, 1.0))
    slope = at_one - at_zero
    if slope <= 0.0:
        return HOPELESS if at_one < 0.0 else -HOPELESS
    return min(-at_zero / slope, HOPELESS)


def paired_paper_loss(criterion):
    """The paper's rules, which only see the three fits; ``oracle``'s are for shared inputs."""

    def loss(X, Y, block, other):
        tasks = [mean_task(X, Y, b) for b in (block, other, oracle.merged(block, other))]
        p, j, ag = (oracle.least_squares(*task) for task in tasks)
        n = p.n_samples
        n_inputs = X.shape[2] if criterion == "mse" else ag.rank

        def noise(fit):
            return fit.residual / (n - (X.shape[2] if criterion == "mse" else fit.rank) - 1)

        def signal(fit):
            return fit.r2 * (fit.total / (n - 1) - noise(fit))

        mean_signal = signal(ag) if criterion == "mse" else ag.explained / (n - 1)
        variance = [fit.residual / (n - n_inputs - 1) * n_inputs / (n - 1) for fit in (p, j, ag)]
        return variance[2] - min(variance[:2]) + (signal(p) + signal(j)) / 2 - mean_signal

    return loss


PAIRED_CRITERIA = {
    "risk": paired_risk_loss,
    "mse": paired_paper_loss("mse"),
    "corollary": paired_paper_loss("corollary"),
}


def paired_groups(X, Y, max_loss, *, criterion, scan, **options):
    cost = PAIRED_CRITERIA[criterion]
    return oracle.SCANS[scan](
        X.shape[0],
        lambda block, other, rest: cost(X, Y, block, other),
        max_loss,
        correlation=oracle.correlation_of_means(Y, None, None),
        **options,
    )


# -- Own rows: common slopes, one intercept a task -------------------------------------------------


class Pooled(NamedTuple):
    residual: float
    rank: int
    n_samples: int
    n_tasks: int
    coef: np.ndarray

    @property
    def dof(self):
        return self.n_samples - self.rank - self.n_tasks


def pool(inputs, targets, block):
    """Regress the rows of all members on their inputs and one dummy variable a task."""
    rows = np.vstack([inputs[task] for task in block])
    y = np.concatenate([targets[task] for task in block])
    lengths = [len(targets[task]) for task in block]
    dummies = np.repeat(np.eye(len(block)), lengths, axis=0)
    within = np.vstack([inputs[task] - inputs[task].mean(axis=0) for task in block])
    spread = np.sqrt((within**2).sum(axis=0))
    scale = np.where(spread > 1e-10 * np.abs(rows).max(axis=0), spread, np.inf)
    rank = int(np.linalg.matrix_rank(within / scale, tol=1e-10))
    # About the grand mean and in unit columns: the cut-off of scikit-learn 1.9 (1e-6) is too
    # coarse for a mean of a million or units from 1e-4 to 1e4.
    columns = rows - rows.mean(axis=0)
    design = np.hstack([columns / scale, dummies])
    coef = np.linalg.lstsq(design, y, rcond=1e-13)[0]
    left = y - design @ coef
    return Pooled(float(left @ left), rank, len(y), len(block), coef[: rows.shape[1]] / scale)


def pooled_f_star(p, q, union, weight_p, weight_q):
    """Break-even F by moments of Wishart matrices; weights are sums of ``1 + 1/n`` over tasks."""
    shared = p.rank + q.rank - union.rank
    v_p, v_q = p.dof + shared, q.dof + shared
    v = v_p + v_q
    w_p = weight_p * (p.n_samples - p.n_tasks - 1) / (v_p - 1)
    w_q = weight_q * (q.n_samples - q.n_tasks - 1) / (v_q - 1)
    beta = v_p * v_q / (v * (v - 1) * (v + 2))  # covariance of two entries of the beta matrix
    inverse_trace = (v * shared - 2) / (v - shared - 1)
    bias_p = v_q / v - beta * (v + 1) + beta + beta * inverse_trace
    bias_q = v_p / v - beta * (v + 1) + beta + beta * inverse_trace
    rise = v * beta * (v - shared)
    saved = w_p / (v_p - shared - 1) + w_q / (v_q - shared - 1) - (w_p + w_q) / (v - shared - 1)
    return 1.0 + rise * saved / (w_p * bias_p + w_q * bias_q)


def pooled_risk_loss(inputs, targets, block, other):
    """``(F - 1)/(F_star - 1)``, F of Chow."""
    p, q, union = (pool(inputs, targets, b) for b in (block, other, oracle.merged(block, other)))
    shared = p.rank + q.rank - union.rank
    if shared == 0:
        return 0.0
    weights = [sum(1.0 + 1.0 / len(targets[task]) for task in b) for b in (block, other)]
    noise = (p.residual + q.residual) / (p.dof + q.dof)
    chow = (union.residual - p.residual - q.residual) / (shared * noise)
    return (chow - 1.0) / (pooled_f_star(p, q, union, *weights) - 1.0)


def pooled_correlation(inputs, targets):
    """Correlation of two blocks' predictions over the centred rows of all tasks."""
    within = np.vstack([x - x.mean(axis=0) for x in inputs])

    def correlation(block, other):
        first, second = (within @ pool(inputs, targets, b).coef for b in (block, other))
        return float(first @ second / np.sqrt((first @ first) * (second @ second)))

    return correlation


def pooled_groups(inputs, targets, max_loss, *, scan, **options):
    return oracle.SCANS[scan](
        len(inputs),
        lambda block, other, rest: pooled_risk_loss(inputs, targets, block, other),
        max_loss,
        correlation=pooled_correlation(inputs, targets),
        **options,
    )
