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


# -- Own inputs by name, some of them missing: refits on the rows that two blocks share ------------


class Task(NamedTuple):
    """Mean inputs and mean target of a block, over all rows, and the columns it was given."""

    x: np.ndarray
    y: np.ndarray
    complete: np.ndarray
    parts: np.ndarray  # largest value that went into each column


def mean_series(values, block):
    """Mean over the members observed, row by row; values are (tasks, slots + 1, n), target last."""
    members = values[list(block)]
    seen = ~np.isnan(members)
    count = seen.sum(axis=0)
    mean = np.where(seen, members, 0.0).sum(axis=0) / np.where(count, count, np.nan)
    has = seen[:, :-1].any(axis=(0, 2))  # a slot that no member ever has is no column
    x, y = mean[:-1][has].T, mean[-1]
    parts = np.where(seen, np.abs(members), 0.0).max(axis=(0, 2))[:-1][has]
    return Task(x, y, ~np.isnan(np.column_stack((x, y))).any(axis=1), parts)


def fits_on_common_rows(values, block, other, weights=None):
    """Three fits on the rows where both blocks are complete, and the columns of each."""
    tasks = [mean_series(values, b) for b in (block, other, oracle.merged(block, other))]
    rows = tasks[0].complete & tasks[1].complete
    if weights is not None:
        rows = rows & (weights > 0)
    if rows.sum() < 2:
        return None
    fits = []
    for task in tasks:
        x = task.x[rows]
        spread = np.abs(x - x.mean(axis=0)).max(axis=0, initial=0.0)
        x = np.where(spread > oracle.NEGLIGIBLE * task.parts, x, 0.0)
        scale = np.where(x.std(axis=0) > 0.0, x.std(axis=0), 1.0)  # rank must not feel units
        fits.append(
            oracle.least_squares(
                x / scale, task.y[rows], None if weights is None else weights[rows]
            )
        )
    return fits, [task.x.shape[1] for task in tasks], [task.y[rows] for task in tasks]


def series_gain(values, block, other, m, weights=None):
    """Gain of a merge as ``paired_gain`` has it, or None for too few rows."""
    found = fits_on_common_rows(values, block, other, weights)
    if found is None or any(fit.n_samples <= fit.rank + 2 for fit in found[0]):
        return None
    worth = []
    for fit, size in zip(found[0], (len(block), len(other), len(block + other)), strict=True):
        n, r = fit.n_samples, fit.rank
        f_star = 1.0 + m * (n - 1) / (n - r - 2)
        worth.append(size * (fit.explained - r * fit.residual / (n - r - 1) * f_star))
    return worth[2] - worth[0] - worth[1]


def series_risk_loss(values, block, other, weights=None):
    """The m at which the gain is zero; infinite for too few rows."""
    at_zero, at_one = (series_gain(values, block, other, m, weights) for m in (0.0, 1.0))
    if at_zero is None:
        return np.inf
    fits, _, targets = fits_on_common_rows(values, block, other, weights)
    copies = np.allclose(targets[0], targets[1], rtol=1e-12) and at_one == at_zero == 0.0
    if copies or not any(fit.rank for fit in fits):  # inputs tell nothing apart: F is zero
        return -(fits[2].n_samples - max(fits[2].rank, 1) - 2) / (fits[2].n_samples - 1)
    slope = at_one - at_zero
    if slope <= 0.0:
        return HOPELESS if at_one < 0.0 else -HOPELESS
    return float(np.clip(-at_zero / slope, -HOPELESS, HOPELESS))


def series_mse_loss(values, block, other, weights=None):
    """The paper's rule, which counts columns; infinite where these leave no degree of freedom."""
    found = fits_on_common_rows(values, block, other, weights)
    if found is None:
        return np.inf
    fits, columns, _ = found
    n, n_inputs = fits[2].n_samples, columns[2]
    if n <= n_inputs + 1 or any(n <= fit.rank + 2 for fit in fits):
        return np.inf
    signal = [
        fit.r2 * (fit.total / (n - 1) - fit.noise(given))
        for fit, given in zip(fits, columns, strict=True)
    ]
    variance = [fit.noise(n_inputs) * n_inputs / (n - 1) for fit in fits]
    return variance[2] - min(variance[:2]) + (signal[0] + signal[1]) / 2 - signal[2]


SERIES_CRITERIA = {"risk": series_risk_loss, "mse": series_mse_loss}


def series_correlation(values, weights=None):
    """Correlation of two mean targets over the rows where both are observed."""

    def correlation(block, other):
        first, second = (mean_series(values, b).y for b in (block, other))
        rows = ~np.isnan(first) & ~np.isnan(second)
        w = np.ones(rows.size) if weights is None else weights
        rows &= w > 0
        if not rows.any():
            return 0.0
        products = []
        for series in (first, second):
            centred = series[rows] - np.average(series[rows], weights=w[rows])
            if np.abs(centred).max() <= oracle.NEGLIGIBLE * np.nanmax(np.abs(values[:, -1])):
                return 0.0
            products.append(np.sqrt(w[rows]) * centred)
        left, right = products
        return float(left @ right / np.sqrt((left @ left) * (right @ right)))

    return correlation


def series_groups(values, max_loss, *, criterion, scan, weights=None, **options):
    cost = SERIES_CRITERIA[criterion]
    return oracle.SCANS[scan](
        values.shape[0],
        lambda block, other, rest: cost(values, block, other, weights),
        max_loss,
        correlation=series_correlation(values, weights),
        **options,
    )


# -- Own rows: common slopes, one intercept per task -----------------------------------------------


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


# -- Ridge regression judged by generalised cross-validation ---------------------------------------

PENALTIES = np.logspace(-6.0, 4.0, 41)


class Penalised(NamedTuple):
    total: float  # both sums of squares as if each row were left out
    residual: float
    used: float
    n_samples: int
    coef: np.ndarray


def penalised_fit(x, y, levels):
    """Ridge on unit columns of rows that are centred already; the best penalty, the strongest of
    those that do equally well."""
    n = len(y)
    length = np.sqrt((x**2).sum(axis=0))
    scale = np.where(length > 0.0, length, np.inf)
    left, values, right = np.linalg.svd(x / scale, full_matrices=False)
    best = None
    for penalty in PENALTIES:
        kept = values**2 / (values**2 + penalty)
        rest = y - left @ (kept * (left.T @ y))
        slack = max(1.0 - (kept.sum() + levels) / n, 1e-10)
        error = float(rest @ rest) / slack**2
        if best is None or error <= (1.0 + 1e-10) * best[0]:
            smallest = error if best is None else min(error, best[0])
            best = smallest, error, kept, penalty
    _, error, kept, penalty = best
    shrunk = np.where(values > 0.0, kept / np.where(values > 0.0, values, 1.0), 0.0)
    coef = right.T @ (shrunk * (left.T @ y)) / scale
    total = float(y @ y) / max(1.0 - levels / n, 1e-10) ** 2
    return Penalised(total, error, float(kept.sum()), n, coef)


def centred(columns, weights):
    """About weighted means, times the roots of the weights; constant columns are zero."""
    w = np.ones(len(columns)) if weights is None else weights
    about = columns - np.average(columns, axis=0, weights=w)
    rounding = np.abs(about).max(axis=0) <= oracle.NEGLIGIBLE * np.abs(columns).max(axis=0)
    return np.where(rounding, 0.0, about) * np.sqrt(w / w.mean())[:, None]


def penalised_fits_on_common_rows(values, block, other, weights=None):
    """Three fits as ``fits_on_common_rows`` has them, None for fewer than three rows."""
    tasks = [mean_series(values, b) for b in (block, other, oracle.merged(block, other))]
    rows = tasks[0].complete & tasks[1].complete
    if weights is not None:
        rows = rows & (weights > 0)
    if rows.sum() < 3:
        return None
    fits = []
    for task in tasks:
        table = np.column_stack((task.x, task.y))[rows]
        parts = np.append(task.parts, np.nanmax(np.abs(values[:, -1])))
        table = centred(table, None if weights is None else weights[rows])
        table[:, np.abs(table).max(axis=0) <= oracle.NEGLIGIBLE * parts] = 0.0
        fits.append(penalised_fit(table[:, :-1], table[:, -1], 1))
    return fits, [task.y[rows] for task in tasks], [task.x[rows] for task in tasks]


def penalised_series_loss(values, block, other, weights=None):
    """One where the value ``k (total - residual)`` of both together is that of the two apart."""
    found = penalised_fits_on_common_rows(values, block, other, weights)
    if found is None:
        return np.inf
    (p, q, both), targets, inputs = found
    n, a, b = p.n_samples, len(block), len(other)
    share = a * b / (a + b)
    alike = np.allclose(targets[0], targets[1], rtol=1e-12)
    if alike and inputs[0].shape == inputs[1].shape and np.allclose(*inputs[:2], rtol=1e-12):
        return 1.0 - (n - 1)  # copies
    total = (a * p.total + b * q.total - (a + b) * both.total) / share
    residual = (a * p.residual + b * q.residual - (a + b) * both.residual) / share
    if p.used == q.used == both.used == 0.0:
        return 1.0
    if residual <= 1e-12 * abs(total):
        return HOPELESS if total > residual else -HOPELESS
    loss = 1.0 + (n - 1) / max(both.used, 1.0) * (total - residual) / residual
    return float(np.clip(loss, -HOPELESS, HOPELESS))


def penalised_series_groups(values, max_loss, *, scan, weights=None, **options):
    return oracle.SCANS[scan](
        values.shape[0],
        lambda block, other, rest: penalised_series_loss(values, block, other, weights),
        max_loss,
        correlation=series_correlation(values, weights),
        **options,
    )


def penalised_pool(inputs, targets, block, row_weights=None):
    """Ridge of the rows of all members, each task about its own means."""
    tables = []
    for task in block:
        table = np.column_stack((inputs[task], targets[task]))
        w = np.ones(len(table)) if row_weights is None else row_weights[task]
        table, w = table[w > 0], w[w > 0]
        tables.append(centred(table, w) * np.sqrt(w.mean()))
    rows = np.vstack(tables)
    return penalised_fit(rows[:, :-1], rows[:, -1], len(block))


def penalised_pooled_loss(inputs, targets, block, other, row_weights=None):
    """One where rows left out are predicted as well together; in units of the freed variance."""
    p, q, both = (
        penalised_pool(inputs, targets, b, row_weights)
        for b in (block, other, oracle.merged(block, other))
    )
    if any(fit.n_samples <= len(b) for fit, b in ((p, block), (q, other))):
        return 0.0  # rows without a second one to their intercept move no slope
    apart = p.residual + q.residual
    freed = max(p.used + q.used - both.used, 1.0)
    return 1.0 - (apart - both.residual) / (apart / (both.n_samples - 1) * freed)


def penalised_pooled_correlation(inputs, targets):
    """Correlation of two blocks' predictions over the centred rows of all tasks."""
    within = np.vstack([centred(x, None) for x in inputs])

    def correlation(block, other):
        first, second = (within @ penalised_pool(inputs, targets, b).coef for b in (block, other))
        return float(first @ second / np.sqrt((first @ first) * (second @ second)))

    return correlation


def penalised_pooled_groups(inputs, targets, max_loss, *, scan, **options):
    return oracle.SCANS[scan](
        len(inputs),
        lambda block, other, rest: penalised_pooled_loss(inputs, targets, block, other),
        max_loss,
        correlation=penalised_pooled_correlation(inputs, targets),
        **options,
    )
