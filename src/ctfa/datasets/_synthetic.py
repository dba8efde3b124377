"""Generators with a known truth."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ctfa import _reading as check
from ctfa.core.types import FloatArray
from ctfa.datasets._bunches import Form, numbered, require_numbers

#: From where to where coefficients lie in the paper's setting, by absolute value.
COEFFICIENTS = (0.5, 1.0)


def make_paper_synthetic(
    n_samples: int = 250,
    n_features: int = 100,
    n_targets: int = 10,
    *,
    noise: float = 7.5,
    noise_correlation: float = 0.0,
    return_X_y: bool = True,
    random_state: Any = None,
) -> Any:
    """Return the synthetic setting of the paper's experiments: two groups of similar tasks.

    The first feature is uniform; each next one is 0.7 uniform plus 0.3 of an earlier one chosen at
    random; all are standardised. Each target draws all its coefficients from U[0.5, 1] or, with
    probability one half, from U[-1, -0.5], and adds Gaussian noise. The paper's text says a noise
    of 10; its printed figures are those of 7.5.

    Parameters
    ----------
    n_samples, n_features, n_targets : int
        Sizes.
    noise : float, default=7.5
        Standard deviation of the noise.
    noise_correlation : float, default=0.0
        Correlation of the noise of any two targets, from 0 to 1; the paper's are independent.
    return_X_y : bool, default=True
        Return ``(X, Y)``; otherwise a Bunch that has the truth, too.
    random_state : int, RandomState or None, default=None
        Seed. Inputs and coefficients do not depend on the noise.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
    Y : ndarray of shape (n_samples, n_targets)
        Or, with ``return_X_y=False``, a Bunch with ``data``, ``target``, ``feature_names``,
        ``target_names``, ``kind`` ("shared"), ``coefficients`` (n_targets, n_features) and
        ``labels`` (n_targets,), the group of each target: 0 for negative coefficients, 1 for
        positive ones.

    Examples
    --------
    >>> from ctfa.datasets import make_paper_synthetic
    >>> X, Y = make_paper_synthetic(random_state=0)
    >>> X.shape, Y.shape
    ((250, 100), (250, 10))
    """
    require_numbers(2, n_samples=n_samples)
    require_numbers(1, n_features=n_features, n_targets=n_targets)
    require_numbers(0.0, whole=False, noise=noise)
    require_numbers(0.0, 1.0, whole=False, noise_correlation=noise_correlation)
    rng = check_random_state(random_state)
    X = 0.7 * rng.uniform(size=(n_samples, n_features))
    X[:, 0] /= 0.7
    for column in range(1, n_features):
        X[:, column] += 0.3 * X[:, rng.randint(column)]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    sign = np.where(rng.uniform(size=n_targets) < 0.5, -1.0, 1.0)
    coefficients = rng.uniform(*COEFFICIENTS, size=(n_features, n_targets)) * sign
    Y = X @ coefficients + noise * equicorrelated(n_samples, n_targets, noise_correlation, rng)
    return Form(return_X_y=return_X_y).give(
        "shared",
        X,
        Y,
        feature_names=numbered("feature", n_features),
        target_names=numbered("target", n_targets),
        coefficients=coefficients.T,
        labels=(sign > 0.0).astype(np.intp),
    )


def make_task_groups(
    n_samples: int = 100,
    n_features: int = 10,
    n_tasks: int = 12,
    n_groups: int = 3,
    *,
    noise: float = 1.0,
    within: float = 0.0,
    noise_correlation: float = 0.0,
    rows: str = "shared",
    return_X_y: bool = False,
    as_frame: bool = False,
    random_state: Any = None,
) -> Any:
    """Return tasks in groups that respond alike, with the truth.

    Inputs are independent and standard normal. A group's coefficients point into a random
    direction and explain a variance of one; a member's differ from them by ``within``. Each task
    has its own level.

    Parameters
    ----------
    n_samples : int, default=100
        Rows; with ``rows="own"`` those of a task on average.
    n_features, n_tasks, n_groups : int
        Sizes. Groups have equal numbers of tasks, up to one.
    noise : float, default=1.0
        Standard deviation of what the inputs do not explain.
    within : float, default=0.0
        Standard deviation of what a member's own coefficients add to the response of its group; 0
        makes members equal, and far above 1 nothing is left of groups.
    noise_correlation : float, default=0.0
        Correlation of the noise of any two tasks, from 0 to 1; for shared rows only.
    rows : {"shared", "own"}, default="shared"
        Whether all tasks are targets on the same rows, or each has rows of its own: from half to
        three halves of ``n_samples``.
    return_X_y : bool, default=False
        Return ``(X, Y)``, or ``(X, y, tasks)`` for own rows, and no Bunch.
    as_frame : bool, default=False
        Give data frames (needs pandas).
    random_state : int, RandomState or None, default=None
        Seed.

    Returns
    -------
    Bunch
        With ``data``, ``target`` and, for own rows, ``tasks``; ``feature_names``, ``target_names``,
        ``kind`` ("shared" or "own rows"); and the truth: ``labels`` (n_tasks,), the group of each
        task, ``coefficients`` (n_tasks, n_features), ``intercepts`` (n_tasks,) and
        ``group_coefficients`` (n_groups, n_features).

    Examples
    --------
    >>> from ctfa import TargetAggregator
    >>> from ctfa.datasets import make_task_groups
    >>> made = make_task_groups(random_state=0)
    >>> made.data.shape, made.target.shape, made.labels.shape
    ((100, 10), (100, 12), (12,))
    >>> TargetAggregator().fit(made.data, made.target).n_groups_
    3
    >>> X, y, tasks = make_task_groups(rows="own", random_state=0, return_X_y=True)
    >>> len(X) == len(y) == len(tasks)
    True
    """
    require_numbers(2, n_samples=n_samples)
    require_numbers(1, n_features=n_features, n_tasks=n_tasks)
    require_numbers(1, n_tasks, n_groups=n_groups)
    require_numbers(0.0, whole=False, noise=noise, within=within)
    require_numbers(0.0, 1.0, whole=False, noise_correlation=noise_correlation)
    check.require(rows, ("shared", "own"), "rows")
    if rows == "own" and noise_correlation:
        raise ValueError(
            f"noise_correlation={noise_correlation} with rows='own': rows of two tasks do not "
            "correspond, so their noise has no correlation. Use rows='shared', or 0."
        )
    form = Form(as_frame=as_frame, return_X_y=return_X_y)
    rng = check_random_state(random_state)
    labels = rng.permutation(np.arange(n_tasks) % n_groups)
    centres = rng.normal(size=(n_groups, n_features))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    wander = rng.normal(size=(n_tasks, n_features)) / np.sqrt(n_features)
    coefficients = centres[labels] + within * wander
    truth: dict[str, Any] = {
        "labels": labels,
        "coefficients": coefficients,
        "intercepts": rng.normal(size=n_tasks),
        "group_coefficients": centres,
        "feature_names": numbered("feature", n_features),
    }
    if rows == "shared":
        X = rng.normal(size=(n_samples, n_features))
        Y = truth["intercepts"] + X @ coefficients.T
        Y += noise * equicorrelated(n_samples, n_tasks, noise_correlation, rng)
        return form.give("shared", X, Y, target_names=numbered("task", n_tasks), **truth)
    sizes = rng.randint((n_samples + 1) // 2, 3 * n_samples // 2 + 1, size=n_tasks)
    tasks = np.repeat(np.arange(n_tasks), sizes)
    X = rng.normal(size=(tasks.size, n_features))
    y = truth["intercepts"][tasks] + np.einsum("ij,ij->i", X, coefficients[tasks])
    y += noise * rng.normal(size=tasks.size)
    return form.give("own rows", X, y, tasks, target_names=["y"], **truth)


MONTHS = ("dec", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov")
KINDS = ("temp", "rain")
#: What one unit of a season's temperature, and of its rain, does to the yearly flow in each region.
RESPONSE = {
    "alpine": (0.1, 0.9, 0.5, 0.0, 0.2, 0.3, 0.6, 0.1),
    "lowland": (0.0, -0.2, -0.8, -0.2, 0.9, 0.3, 0.1, 0.6),
    "coastal": (-0.3, 0.0, -0.2, 0.1, 0.3, 0.0, 0.0, 1.1),
}


def make_gauges(
    n_years: int = 120,
    n_gauges: int = 12,
    *,
    noise: float = 2.5,
    random_state: Any = None,
    as_frame: bool = False,
) -> Any:
    """Return yearly flows at river gauges in three regions, and the monthly weather before them.

    Months of one season move together and have one effect; gauges of one region respond alike and
    have their own mean flow. A method that averages should find seasons and regions.

    Parameters
    ----------
    n_years : int, default=120
        Samples.
    n_gauges : int, default=12
        Targets, dealt to the regions in turn.
    noise : float, default=2.5
        Standard deviation of what the weather does not explain.
    random_state : int, RandomState or None, default=None
        Seed.
    as_frame : bool, default=False
        Give ``data`` and ``target`` as pandas data frames.

    Returns
    -------
    Bunch
        ``data`` (n_years, 24), ``target`` (n_years, n_gauges), ``feature_names``,
        ``target_names``, ``kind`` ("shared") and ``region``, the truth for each gauge.

    Examples
    --------
    >>> from ctfa.datasets import make_gauges
    >>> gauges = make_gauges(random_state=0)
    >>> gauges.data.shape, gauges.target.shape
    ((120, 24), (120, 12))
    >>> gauges.feature_names[:2], gauges.target_names[0]
    (['temp_dec', 'temp_jan'], 'gauge_01')
    """
    if n_years < 1 or n_gauges < 1 or noise < 0:
        raise ValueError(
            f"n_years={n_years}, n_gauges={n_gauges} and noise={noise}: there must be at least one "
            "year and one gauge, and the noise is a standard deviation."
        )
    form = Form(as_frame=as_frame)
    rng = check_random_state(random_state)
    columns = []
    for _ in KINDS:
        season = rng.normal(size=(n_years, 4))
        columns.append(0.8 * np.repeat(season, 3, axis=1) + 0.6 * rng.normal(size=(n_years, 12)))
    data = np.hstack(columns)
    regions = [list(RESPONSE)[gauge % len(RESPONSE)] for gauge in range(n_gauges)]
    responses = np.array([RESPONSE[region] for region in regions]).T
    effect = np.repeat(responses, 3, axis=0)  # of a season on each of its months
    level = rng.uniform(20.0, 60.0, size=n_gauges)
    target = level + data @ effect + noise * rng.normal(size=(n_years, n_gauges))
    return form.give(
        "shared",
        data,
        target,
        feature_names=[f"{kind}_{month}" for kind in KINDS for month in MONTHS],
        target_names=[f"gauge_{gauge + 1:02d}" for gauge in range(n_gauges)],
        region=np.array(regions),
    )


def equicorrelated(n_samples: int, n_targets: int, correlation: float, rng: Any) -> FloatArray:
    """Standard normal noise, any two columns of which have this correlation."""
    own = rng.normal(size=(n_samples, n_targets))
    if not correlation:
        return np.asarray(own)
    common = rng.normal(size=(n_samples, 1))
    return np.asarray(np.sqrt(1.0 - correlation) * own + np.sqrt(correlation) * common)
