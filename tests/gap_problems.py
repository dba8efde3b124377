"""Kinds of missing values, and what a refit on the rows that two groups have would answer."""

import numpy as np

import oracle

# -- Gaps, one function per kind: (rng, n, L) -> rows observed -------------------------------------


def at_random(rng, n, L):
    return rng.uniform(size=(n, L)) > 0.15


def half_at_random(rng, n, L):
    """Half of the targets complete, the others each with rows of its own."""
    return at_random(rng, n, L) | (np.arange(L) % 2 == 0)


def in_blocks(rng, n, L):
    """Stations that opened late or closed early, several at once."""
    start = rng.choice([0, n // 6, n // 4], size=L)
    end = rng.choice([n, n - n // 6], size=L)
    rows = np.arange(n)[:, None]
    return (rows >= start) & (rows < end)


def nested(rng, n, L):
    """Each target has the rows of another, less one."""
    return np.arange(n)[:, None] >= rng.permutation(L) % (n // 2)


def apart(rng, n, L):
    """The first two have no row in common, the third few with either."""
    observed = np.ones((n, L), dtype=bool)
    observed[n // 2 :, 0] = observed[: n // 2, 1] = False
    observed[: n // 2 - 3, 2] = observed[n // 2 + 3 :, 2] = False
    return observed


def completing(rng, n, L):
    """Two patterns that together are complete."""
    rows, first = np.arange(n)[:, None], rng.uniform(size=L) < 0.5
    return np.where(first, rows < n - n // 5, rows >= n // 5)


def scarce(rng, n, L):
    """Hardly enough rows, and often too few."""
    return rng.uniform(size=(n, L)) > 0.45


GAPS = {
    kind.__name__: kind
    for kind in (at_random, half_at_random, in_blocks, nested, apart, completing, scarce)
}


def with_gaps(problem, kind, seed=0):
    """Inputs, and targets scaled over their own rows with NaN in the gaps."""
    n, L = problem.Y.shape
    Y = np.where(GAPS[kind](np.random.default_rng([seed, n]), n, L), problem.Y, np.nan)
    return problem.X, (Y - np.nanmean(Y, axis=0)) / np.nanstd(Y, axis=0)


def random_weights(n, seed=0):
    return np.random.default_rng(seed).uniform(0.2, 3.0, size=n)


# -- The reference: refits on common rows ----------------------------------------------------------


def group_series(Y, block):
    """Mean of the observed members, row by row."""
    members = Y[:, list(block)]
    counts = (~np.isnan(members)).sum(axis=1)
    return np.where(counts > 0, np.nansum(members, axis=1) / np.maximum(counts, 1), np.nan)


def common(Y, block, other):
    first, second = group_series(Y, block), group_series(Y, other)
    rows = np.flatnonzero(~np.isnan(first) & ~np.isnan(second))
    return rows, first[rows], second[rows]


def refit_loss(X, Y, weights=None):
    def loss(block, other, rest=()):
        rows, first, second = common(Y, block, other)
        if rows.size < 3:
            return np.inf
        kept = None if weights is None else weights[rows]
        try:
            return oracle.target_risk_loss(X[rows], first, second, 1, 1, weights=kept)
        except ValueError:  # n <= rank + 2
            return np.inf

    return loss


def refit_correlation(Y, weights=None):
    def correlation(block, other):
        rows, *pair = common(Y, block, other)
        if rows.size < 3:
            return 0.0
        kept = None if weights is None else weights[rows]
        return oracle.correlation_of_means(np.column_stack(pair), kept, None)((0,), (1,))

    return correlation
