"""The laws that spaces, criteria, scans and linear models obey, to test your own by.

Each function raises an ``AssertionError`` that names the law that failed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from sklearn.base import clone

from ctfa.core.criteria import Loss
from ctfa.core.fit import Evidence, Fit
from ctfa.core.graph import Neighbours
from ctfa.core.history import MergeHistory
from ctfa.core.scans import Scan
from ctfa.core.spaces.base import MergeSpace
from ctfa.core.types import FloatArray, IntArray

Groups = Sequence[Sequence[int]]


def check_space(
    build: Callable[[Groups], MergeSpace], n_variables: int, *, seed: int = 0, rtol: float = 1e-7
) -> None:
    """Check the laws of a space.

    Parameters
    ----------
    build : callable
        ``build(groups)`` makes a space in which each of the groups is one variable already, known
        by its position in the list: for targets from the groups' means and sizes, for features
        from their columns' sums.
    n_variables : int
        Number of variables; ``build`` is called with groups of ``0 .. n_variables - 1``.
    seed : int, default=0
        Seed of the merges that are tried.
    rtol : float, default=1e-7
        Tolerance, relative to the largest sum of squares that is compared.

    Examples
    --------
    >>> import numpy as np
    >>> from ctfa.core.design import Design
    >>> from ctfa.core.spaces.targets import TargetSpace
    >>> from ctfa.testing import check_space
    >>> rng = np.random.default_rng(0)
    >>> design, Y = Design.of(rng.normal(size=(50, 3)), None), rng.normal(size=(50, 5))
    >>> def build(groups):
    ...     means = np.column_stack([Y[:, group].mean(axis=1) for group in groups])
    ...     return TargetSpace.of(design, design.centre(means), sizes=[len(g) for g in groups])
    >>> check_space(build, 5)
    """
    rng = np.random.default_rng(seed)
    singletons = [[i] for i in range(n_variables)]
    space = build(singletons)
    everyone = np.arange(n_variables)
    _asking_changes_nothing(space, everyone, rtol)
    _many_equals_one_by_one(space, everyone, rtol)
    groups: dict[int, list[int]] = {i: [i] for i in range(n_variables)}
    for _ in range(min(4, n_variables - 2)):
        block, other = rng.choice(sorted(groups), size=2, replace=False)
        _foreseeing_equals_merging(space, int(block), np.array(sorted(groups)), rtol)
        space.merge(int(block), int(other))
        groups[int(block)] += groups.pop(int(other))
        rebuilt = build([sorted(groups[slot]) for slot in sorted(groups)])
        slots = np.array(sorted(groups))
        _asking_changes_nothing(space, slots, rtol)
        for position, slot in enumerate(slots):
            rest = np.delete(np.arange(slots.size), position)
            _same(
                space.evidence(int(slot), slots[rest]),
                rebuilt.evidence(position, rest),
                rtol,
                "merging then asking differs from rebuilding then asking",
            )


def check_criterion(criterion: Loss, evidence: Evidence, *, degree: int) -> None:
    """Check that a criterion vectorizes, is a number, and scales as stated.

    Parameters
    ----------
    criterion : callable
        Takes an ``Evidence``, returns a loss for each candidate.
    evidence : Evidence
        About several candidates.
    degree : int
        Power of the target's unit that the loss has: 2 for squared target units, 0 for none.

    Examples
    --------
    >>> import numpy as np
    >>> from ctfa.core.criteria import target_risk
    >>> from ctfa.core.design import Design
    >>> from ctfa.core.spaces.targets import TargetSpace
    >>> from ctfa.testing import check_criterion
    >>> rng = np.random.default_rng(0)
    >>> design, Y = Design.of(rng.normal(size=(50, 3)), None), rng.normal(size=(50, 5))
    >>> space = TargetSpace.of(design, design.centre(Y))
    >>> check_criterion(target_risk, space.evidence(0, np.arange(1, 5)), degree=0)
    """
    losses = np.asarray(criterion(evidence), dtype=float)
    assert losses.ndim == 1, "a criterion returns one loss per candidate"
    assert not np.isnan(losses).any(), "a loss is never NaN"
    for k, loss in enumerate(losses):
        alone = np.asarray(criterion(_map(evidence, partial(_pick, k=k))), dtype=float)
        assert np.allclose(alone, loss, rtol=1e-12, atol=0.0), "asking one by one differs"
    scaled = np.asarray(criterion(_map(evidence, lambda v: v, factor=9.0)), dtype=float)
    assert np.allclose(scaled, losses * 3.0**degree, rtol=1e-9, atol=1e-12), (
        "the loss does not scale with the target's unit as stated"
    )


def check_scan(
    scan: Scan,
    make_space: Callable[[], MergeSpace],
    criterion: Loss,
    *,
    max_loss: float,
    graph: Any = None,
) -> MergeHistory:
    """Check the laws of a scan on one problem.

    Parameters
    ----------
    scan : Scan
        What is checked; called as ``SCANS`` are.
    make_space : callable
        ``make_space()`` gives a fresh space of the problem.
    criterion : callable
        Takes an ``Evidence``, returns a loss for each candidate.
    max_loss : float
        The limit.
    graph : sparse matrix or array of shape (n_variables, n_variables), default=None
        Neighbours, symmetric; None lets any two meet.

    Returns
    -------
    MergeHistory
        The merges made at ``max_loss``.

    Examples
    --------
    >>> import numpy as np
    >>> from ctfa.core.criteria import target_risk
    >>> from ctfa.core.design import Design
    >>> from ctfa.core.scans import SCANS
    >>> from ctfa.core.spaces.targets import TargetSpace
    >>> from ctfa.testing import check_scan
    >>> rng = np.random.default_rng(0)
    >>> design, Y = Design.of(rng.normal(size=(50, 3)), None), rng.normal(size=(50, 5))
    >>> def make_space():
    ...     return TargetSpace.of(design, design.centre(Y))
    >>> history = check_scan(SCANS["best-first"], make_space, target_risk, max_loss=1.5)
    >>> history.partition().n_groups
    1
    """
    edges = None if graph is None else sparse.csr_array(graph)
    n_variables = make_space().n_variables

    def run(limit: float) -> MergeHistory:
        neighbours = None if edges is None else Neighbours(edges)
        order = np.arange(n_variables)
        return scan(make_space(), criterion, max_loss=limit, order=order, neighbours=neighbours)

    components = 1 if edges is None else connected_components(edges.toarray(), directed=False)[0]
    assert run(np.inf).partition().n_groups == components, (
        "an infinite max_loss must leave one group per component"
    )
    assert len(run(-np.inf)) == 0, "max_loss of minus infinity must merge nothing"
    history = run(max_loss)
    assert (history.loss <= max_loss).all(), "an accepted loss was above max_loss"
    if edges is not None:
        for group in history.partition().groups:
            within = edges[group][:, group].toarray()
            assert connected_components(within, directed=False)[0] == 1, "a group is in pieces"
    low, high = history.loss_interval
    assert low <= max_loss < high, "max_loss is outside the interval it belongs to"
    # A hair above the worst accepted loss: at that loss itself rounding would decide.
    inside = low + min(1e-9 * (1.0 + abs(low)), 0.5 * (high - low)) if len(history) else max_loss
    assert run(inside).partition() == history.partition(), (
        "the partition changed inside its interval"
    )
    return history


def check_units(
    model: Any,
    X: FloatArray,
    y: FloatArray,
    *,
    one_factor: bool = False,
    seed: int = 0,
    rtol: float = 1e-6,
    sample_weight: Any = None,
    **metadata: Any,
) -> None:
    """Check that a linear model does not depend on the units of its data.

    Columns of ``X`` and ``y`` get other units, up to a factor of 1e10 apart, and other origins, a
    hundred standard deviations away. Groups must stay the same, and predictions must follow in the
    new units.

    Parameters
    ----------
    model : estimator
        A regressor or aggregator that is linear in its inputs; of an aggregator only the groups
        are compared. A penalty given by the user, as in ``Ridge(alpha=1)``, has units and fails.
    X, y : arrays
        Data of a fit, in units that lose nothing to rounding.
    one_factor : bool, default=False
        Whether all columns of ``X`` get the same factor. Means of features, Phase II, are means in
        the units given: they obey only this.
    seed : int, default=0
        Seed of the units that are tried.
    rtol : float, default=1e-6
        Tolerance of predictions, in standard deviations of their targets.
    sample_weight : array, default=None
        Weights of the rows, for ``fit``.
    **metadata
        What else ``fit`` and ``predict`` take, such as ``tasks``.

    Examples
    --------
    >>> import numpy as np
    >>> from ctfa import CTFARegressor
    >>> from ctfa.testing import check_units
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 3))
    >>> y = X @ rng.normal(size=(3, 4)) + rng.normal(size=(60, 4))
    >>> check_units(CTFARegressor(features="passthrough"), X, y)
    """
    rng = np.random.default_rng(seed)
    given = (
        dict(metadata) if sample_weight is None else {**metadata, "sample_weight": sample_weight}
    )
    inputs = X * (10.0 ** rng.uniform(-5.0, 5.0) if one_factor else _factors(X.shape[1], rng))
    inputs = inputs + 100.0 * np.nanstd(inputs, axis=0) * rng.normal(size=X.shape[1])
    n_targets = 1 if y.ndim == 1 else y.shape[1]
    units = _factors(n_targets, rng)
    origins = 100.0 * units * np.nanstd(y, axis=0) * rng.normal(size=n_targets)
    before = clone(model).fit(X, y, **given)
    after = clone(model).fit(
        inputs, (y.reshape(len(y), -1) * units + origins).reshape(y.shape), **given
    )
    assert np.array_equal(before.labels_, after.labels_), "groups depend on units"
    if not hasattr(before, "predict"):
        return
    expected = np.asarray(before.predict(X, **metadata)).reshape(len(y), -1)
    found = np.asarray(after.predict(inputs, **metadata)).reshape(len(y), -1)
    assert np.array_equal(np.isnan(found), np.isnan(expected)), "what is predicted depends on units"
    spread = np.nanstd(y, axis=0)
    gap = np.abs((found - origins) / units - expected) / spread
    assert not (gap > rtol).any(), f"predictions depend on units, by {np.nanmax(gap):.1e}"


def _factors(n_columns: int, rng: np.random.Generator) -> FloatArray:
    """Factors from 1e-5 to 1e5, in random order."""
    return 10.0 ** rng.permutation(np.linspace(-5.0, 5.0, n_columns))


def _asking_changes_nothing(space: MergeSpace, slots: IntArray, rtol: float) -> None:
    first, others = int(slots[0]), slots[1:]
    before = space.evidence(first, others)
    for slot in slots:
        space.evidence(int(slot), slots[slots != slot])
    _same(before, space.evidence(first, others), rtol, "asking changed an answer")


def _many_equals_one_by_one(space: MergeSpace, slots: IntArray, rtol: float) -> None:
    first, others = int(slots[0]), slots[1:]
    many = space.evidence(first, others)
    pairs = space.evidence(np.full(others.size, first), others)
    _same(many, pairs, rtol, "asking in pairs differs from asking a row")
    for k in range(others.size):
        one = space.evidence(first, others[k : k + 1])
        picked = _map(many, partial(_pick_one, k=k))
        _same(picked, one, rtol, "asking about many differs from asking one by one")


def _foreseeing_equals_merging(space: MergeSpace, block: int, slots: IntArray, rtol: float) -> None:
    if not space.foresees or slots.size < 4:
        return
    rest = slots[slots != block]
    sequence, others = rest[:2], rest[2:]
    foreseen = space.foresee(block, sequence, others)
    stepwise = copy.deepcopy(space)
    for k in range(3):
        row = _map(foreseen, partial(_row, k=k))
        _same(row, stepwise.evidence(block, others), rtol, "foreseeing differs from merging")
        if k < 2:
            stepwise.merge(block, int(sequence[k]))
    at_once = copy.deepcopy(space)
    at_once.absorb(block, sequence)
    _same(
        at_once.evidence(block, others),
        stepwise.evidence(block, others),
        rtol,
        "absorbing at once differs from merging one by one",
    )


def _same(left: Evidence, right: Evidence, rtol: float, law: str) -> None:
    # The noise behind a difference of features is that of the model the space was built with, which
    # changes when the space is rebuilt: only what the difference explains is compared.
    fits = [*zip(left.before, right.before, strict=True), (left.after, right.after)]
    pairs = [(a, b) for x, y in fits for a, b in zip(_sums(x), _sums(y), strict=True)]
    pairs.append((np.asarray(left.difference.explained), np.asarray(right.difference.explained)))
    scale = max(float(np.abs(b).max(initial=0.0)) for _, b in pairs)
    for a, b in pairs:
        assert np.allclose(a, b, rtol=rtol, atol=rtol * scale), law


def _sums(fit: Fit) -> tuple[FloatArray, FloatArray]:
    return np.asarray(fit.explained), np.asarray(fit.residual)


def _map(evidence: Evidence, change: Callable[[Any], Any], factor: float = 1.0) -> Evidence:
    def changed(fit: Fit) -> Fit:
        new = Fit(*map(change, fit))
        return new._replace(explained=new.explained * factor, residual=new.residual * factor)

    return Evidence(
        tuple(changed(fit) for fit in evidence.before),
        changed(evidence.after),
        changed(evidence.difference),
        lambda: change(evidence.f_star),
    )


def _pick(value: Any, k: int) -> Any:
    return value if np.ndim(value) == 0 or np.size(value) == 1 else np.asarray(value)[k]


def _pick_one(value: Any, k: int) -> Any:
    return np.atleast_1d(_pick(value, k))


def _row(value: Any, k: int) -> Any:
    return value[min(k, len(value) - 1)] if np.ndim(value) == 2 else value
