"""Options: names, numbers, orders, graphs, limits, and wishes for groups."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from inspect import Signature
from numbers import Integral, Real
from typing import Any, NoReturn, TypeVar

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph
from sklearn.linear_model import LinearRegression, Ridge, RidgeCV
from sklearn.metrics import check_scoring, get_scorer_names
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from ctfa._errors import InputError, Message, Option
from ctfa.core.criteria import TARGET_CRITERIA, Criterion, criterion_of
from ctfa.core.fit import Evidence
from ctfa.core.graph import ORDERS, Wishes, fit_into
from ctfa.core.partition import Partition
from ctfa.core.scans import SCANS
from ctfa.core.spaces.base import MergeSpace
from ctfa.core.types import FloatArray, IntArray

Phase = TypeVar("Phase")
#: Closed-form judges of merges, as given to aggregators.
BY_LEAST_SQUARES = "TargetAggregator(regressor=LinearRegression())"
BY_RIDGE = "TargetAggregator(regressor=RidgeCV())"
#: The other form of a graph, in words.
PAIRS = "a list of neighbours as pairs of positions (i, j), whole numbers from 0"


def read_criterion(option: Any, registry: Mapping[str, Criterion]) -> Criterion:
    """A criterion by name, or a user's own, whose losses are checked."""
    chosen = criterion_of(option, registry)
    if chosen.name is not None:
        return chosen
    if not callable(option):
        known = ", ".join(map(repr, registry))
        raise InputError(f"criterion={option!r} is not known; use one of {known}, or a callable.")

    def checked(evidence: Evidence) -> FloatArray:
        shape = np.shape(evidence.after.residual)
        try:
            losses = np.broadcast_to(np.asarray(chosen.loss(evidence), dtype=np.float64), shape)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"criterion={option!r} did not return numbers that fit {shape} candidates "
                f"({error}): return one loss for each, computed from the arrays of the evidence."
            ) from error
        if np.isnan(losses).any():
            raise InputError(
                f"criterion={option!r} returned NaN: return a number, or infinity to refuse."
            )
        return losses

    return replace(chosen, loss=checked)


def require(value: Any, allowed: Iterable[str], what: str) -> None:
    """Refuse a value that is not on the list."""
    known = list(allowed)
    if not (isinstance(value, str) and value in known):
        names = ", ".join(map(repr, known))
        raise InputError(Option(what, value), f" is not known; use one of {names}.")


def refuse_unknown(
    given: Mapping[str, Any], signature: Signature, what: str, instead: Mapping[str, str]
) -> None:
    """Refuse options that a function does not have, and suggest what may be meant."""
    known = [p.name for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY]
    for name in given:
        if name in instead:
            raise TypeError(f"{what} has no option {name!r}: {instead[name]}.")
        close = difflib.get_close_matches(name.lower(), known, n=1)
        meant = f" (did you mean {close[0]!r}?)" if close else ""
        raise TypeError(f"{what} has no option {name!r}{meant}: it has {', '.join(known)}.")


def read_scorer(scoring: Any, model: Any) -> Any:
    """A regression scorer; scikit-learn's own error would list every score there is."""
    if isinstance(scoring, str) and scoring not in get_scorer_names():
        close = difflib.get_close_matches(scoring, get_scorer_names(), n=3)
        hint = " or ".join(map(repr, close)) if close else "'r2' or 'neg_mean_squared_error'"
        raise InputError(f"scoring={scoring!r} is not a scikit-learn score: use {hint}.")
    return check_scoring(model, scoring=scoring)


def require_flag(value: Any, what: str) -> None:
    """Refuse what is neither true nor false."""
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(Option(what, value), " is not known; use True or False.")


def read_coverage(coverage: Any) -> float:
    """The probability with which intervals are to hold."""
    number = read_number(coverage, "coverage", " above 0 and below 1")
    if not 0.0 < number < 1.0:
        raise InputError(
            f"coverage={coverage!r} is not a probability above 0 and below 1: give 0.9 for "
            "intervals that hold nine targets in ten."
        )
    return number


def require_fact(option: Any, registry: Mapping[str, Criterion], fact: str, what: str) -> None:
    """Refuse a criterion that lacks what another option needs."""
    if not getattr(criterion_of(option, registry), fact):
        raise InputError(
            f"{what} goes with criterion={either(registry, fact)} and not with {option!r}: change "
            "one of the two."
        )


def either(registry: Mapping[str, Any], fact: str) -> str:
    """Names of all entries of a registry with a property, in words."""
    return " or ".join(repr(name) for name, one in registry.items() if getattr(one, fact))


def require_curve(model: Any) -> Any:
    """The curve by which a fitted model chose its limit."""
    curve = getattr(model, "cv_curve_", None)
    if curve is None:
        raise InputError(
            f"{type(model).__name__} has no curve to show: fit it with ",
            Option("max_loss", "auto"),
            " for the targets.",
        )
    return curve


def require_complete(values: FloatArray, what: str, instead: str) -> None:
    """Refuse missing values for an option that cannot work with them."""
    if np.isnan(values).any():
        n_missing = int(np.isnan(values).sum())
        raise InputError(
            f"y has {n_missing} missing values (NaN), which {what} cannot work with: {instead}, "
            "fill the gaps, or drop those rows."
        )


def read_number(value: Any, what: str, hint: str = "") -> float:
    """A real number, infinities allowed."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputError(Option(what, value), f" is not a number: pass a number{hint}.")
    number = float(value)
    if np.isnan(number):
        raise InputError(f"{what} is NaN: pass a number{hint}.")
    return number


def read_losses(max_losses: Any) -> list[float]:
    """Several values of ``max_loss``."""
    if isinstance(max_losses, str) or not isinstance(max_losses, Iterable):
        raise TypeError(
            f"max_losses={max_losses!r} is not a list of numbers: pass one number for each point "
            "of the path."
        )
    return [read_number(value, "max_losses") for value in max_losses]


def read_grid(
    losses: Any,
    aggregator: Any,
    registry: Mapping[str, Criterion],
    usual: Sequence[float],
    what: str,
) -> list[float]:
    """Limits to try for one phase; a single one where it is skipped."""
    if aggregator is None:
        if losses is not None:
            raise InputError(f"{what} was given for a phase that is 'passthrough': leave it out.")
        return [-np.inf]
    if losses is None:
        require_fact(aggregator.criterion, registry, "has_auto", f"{what}=None")
        return list(usual)
    values = [] if isinstance(losses, str) else read_losses(losses)
    if not values:
        raise InputError(f"{what}={losses!r} holds no limits: pass a list of numbers, or None.")
    return values


def require_no_limit(options: Mapping[str, Any]) -> None:
    """Refuse one ``max_loss`` beside several."""
    if "max_loss" in options:
        raise TypeError("a path takes max_losses, several values: leave max_loss out.")


def read_phase(option: Any, kind: type[Phase], what: str) -> Phase | None:
    """The aggregator of one phase, the default one for None; None for "passthrough"."""
    if option is None:
        return kind()
    if isinstance(option, kind):
        return option
    if isinstance(option, str) and option == "passthrough":
        return None
    error = ValueError if isinstance(option, str) else TypeError
    raise error(
        f"{what}={option!r} is not known; use a {kind.__name__}, 'passthrough' to skip this phase, "
        "or None for the default."
    )


def refuse_nested(name: str, held: Any) -> None:
    """Refuse to set a parameter of an aggregator that is None or a word."""
    phase = name.partition("__")[0]
    raise InputError(
        f"Invalid parameter {name!r}: {phase}={held!r} has no parameters. Set {phase} to an "
        f"estimator, which can be done in the same call: set_params({phase}=..., {name}=...)."
    )


def read_target(target: Any, names: Sequence[str], labels: Sequence[Any]) -> int:
    """Position of a target given by its label, which may be a number, by name or by position."""
    for position, label in enumerate(labels):
        if isinstance(label, type(target)) and label == target:
            return position
    if isinstance(target, Integral):
        if not -len(names) <= int(target) < len(names):
            raise InputError(
                f"target {target} does not exist: there are {len(names)}, 0 to {len(names) - 1}."
            )
        return int(target) % len(names)
    if str(target) not in names:
        close = difflib.get_close_matches(str(target), names, n=3)
        hint = f"did you mean {' or '.join(map(repr, close))}?" if close else "use a name of y."
        raise InputError(f"target {target!r} is not one of the {len(names)} of fit: {hint}")
    return list(names).index(str(target))


def read_order(order: Any, space: MergeSpace, rng: Any) -> IntArray:
    """The order in which variables are taken, as a permutation."""
    if isinstance(order, str) and order in ORDERS:
        return ORDERS[order](space, rng)
    n_variables = space.n_variables
    try:
        permutation = np.asarray(order)
        is_permutation = np.array_equal(np.sort(permutation), np.arange(n_variables))
    except (TypeError, ValueError):
        is_permutation = False
    if not is_permutation:
        known = ", ".join(repr(name) for name in ORDERS)
        raise InputError(
            f"order={order!r} is not an order of {n_variables} variables: use one of {known}, or "
            f"an array holding each of 0 to {n_variables - 1} once."
        )
    return permutation.astype(np.intp)


def read_graph(connectivity: Any, variables: FloatArray, what: str) -> Any:
    """The neighbour graph of the columns of ``variables``, checked; None lets any two meet."""
    if connectivity is None:
        return None
    if callable(connectivity):
        connectivity = connectivity(variables.T)
    n_variables = variables.shape[1]
    connectivity = _edges_as_matrix(connectivity, n_variables, what)
    try:
        graph: Any = sparse.csr_array(connectivity, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"connectivity of type {type(connectivity).__name__} is not a graph: pass a sparse or "
            f"dense matrix of numbers, {PAIRS}, or a callable that returns one of these."
        ) from error
    if graph.ndim != 2 or graph.shape[0] != graph.shape[1]:
        raise InputError(
            f"connectivity has shape {graph.shape}, which is not square: pass one row and one "
            f"column for each of the {n_variables} {what}, or {PAIRS}."
        )
    if graph.shape[0] != n_variables:
        raise InputError(
            f"connectivity is {graph.shape[0]} x {graph.shape[0]} but there are {n_variables} "
            f"{what}: pass one row and one column for each."
        )
    if not np.isfinite(graph.data).all():
        raise InputError("connectivity contains NaN or infinity: use 0 for no edge.")
    edges: Any = sparse.csr_array(graph != 0)
    # Searches of scipy before 1.13 take indices of 32 bits alone.
    edges.indices, edges.indptr = (one.astype(np.int32) for one in (edges.indices, edges.indptr))
    if (edges != edges.T).nnz:
        raise InputError(
            "connectivity is not symmetric: some variable is a neighbour of another but not the "
            "other way round. Use graph.maximum(graph.T)."
        )
    return edges


def _edges_as_matrix(connectivity: Any, n_variables: int, what: str) -> Any:
    """A list of pairs of neighbours as a symmetric matrix; anything else as it is."""
    if sparse.issparse(connectivity) or hasattr(connectivity, "columns"):
        return connectivity
    try:
        pairs = np.asarray(connectivity)
    except ValueError:
        return connectivity
    if not pairs.size:
        raise InputError(
            f"connectivity is empty: pass {PAIRS}, or None to let any two of the {what} meet."
        )
    # Two pairs of two variables would be a matrix of two by two, and are taken for one.
    is_list = pairs.ndim == 2 and pairs.shape[1] == 2 and pairs.shape != (n_variables,) * 2
    if not is_list or pairs.dtype.kind not in "iu":
        return connectivity
    if pairs.min() < 0 or pairs.max() >= n_variables:
        raise InputError(
            f"connectivity has an edge to {int(pairs.max() if pairs.min() >= 0 else pairs.min())} "
            f"but there are {n_variables} {what}: number them from 0 to {n_variables - 1}."
        )
    both = np.concatenate((pairs, pairs[:, ::-1]))
    shape = (n_variables, n_variables)
    return sparse.csr_array((np.ones(len(both)), (both[:, 0], both[:, 1])), shape=shape)


def read_score(score: Any, scoring: Any) -> float:
    """A scorer's result for one fold, as a number that can be compared."""
    try:
        number = float(score)
    except (TypeError, ValueError):
        number = np.nan
    if np.isnan(number):
        raise InputError(
            f"scoring={scoring!r} gave {score!r}: use a scorer that returns one number per fold."
        )
    return number


def called(value: Any) -> str:
    """A value as shown in messages: an estimator by its class, because it may hold long arrays."""
    return f"{type(value).__name__}()" if hasattr(value, "get_params") else repr(value)


def read_judge(regressor: Any) -> tuple[float, ...] | None:
    """Penalties of the ridge regression that judges merges; None where least squares does."""
    if not judges(regressor):
        raise InputError(
            f"regressor={regressor!r} of TargetAggregator cannot judge merges in closed form: use "
            "LinearRegression(), Ridge() or RidgeCV() with an intercept (of RidgeCV without cv and "
            "scoring), or None."
        )
    if type(regressor) is Ridge:
        return _penalties(regressor.alpha, "alpha")
    return _penalties(regressor.alphas, "alphas") if type(regressor) is RidgeCV else None


def _penalties(alphas: Any, name: str) -> tuple[float, ...]:
    """Penalties of a ridge regression, as scikit-learn would take them."""
    try:
        found = np.ravel(alphas).astype(float)
    except (TypeError, ValueError):
        found = np.empty(0)
    if not found.size or not (np.isfinite(found) & (found >= 0.0)).all():
        raise InputError(
            f"{name}={alphas!r} of the regressor that judges merges: pass finite numbers of zero "
            "or more."
        )
    return tuple(found.tolist())


def refuse_levels_without_units() -> NoReturn:
    """Refuse deviations from a mean of targets in raw units."""
    raise InputError(
        Option("head", "levels"),
        " measures how far targets deviate from their group's mean, and scale='none' averages them "
        "in raw units: use scale='standard' or 'center', or ",
        Option("head", "mean"),
        ".",
    )


def judges(regressor: Any) -> bool:
    """Whether a regressor judges merges in closed form; None stands for one that does.

    Any other has to be fitted, to rows without those that it is judged on.
    """
    usual = getattr(regressor, "fit_intercept", True) and not getattr(regressor, "positive", False)
    kind = type(regressor)
    if regressor is None or not usual:
        return regressor is None
    if kind is Ridge:
        return np.ndim(regressor.alpha) == 0
    return kind is LinearRegression or (
        kind is RidgeCV and regressor.cv is None and regressor.scoring is None
    )


def require_regressor(regressor: Any) -> None:
    """Refuse what cannot be cloned, fitted and asked to predict."""
    if isinstance(regressor, type) or not hasattr(regressor, "fit"):
        raise TypeError(
            f"regressor={regressor!r} is not an estimator: pass an instance such as RidgeCV(), or "
            "None for LinearRegression()."
        )
    if not hasattr(regressor, "predict"):
        raise TypeError(
            f"regressor={regressor!r} cannot predict: pass a regressor such as RidgeCV() first, "
            "and aggregators as targets= and features=."
        )


def takes_gaps(regressor: Any) -> bool:
    """Whether a regressor says that it accepts missing features."""
    if isinstance(regressor, type) or not hasattr(regressor, "__sklearn_tags__"):
        return False  # no regressor, or one of another library, which does not say
    return bool(get_tags(regressor).input_tags.allow_nan)


def require_weighable(regressor: Any) -> None:
    """Refuse weights for a regressor that would ignore them."""
    if not has_fit_parameter(regressor, "sample_weight"):
        raise InputError(
            f"sample_weight was given but {type(regressor).__name__}.fit does not take it: use "
            "another regressor (of a pipeline, its last step, with the others in front of this "
            "estimator) or leave the weights out."
        )


def needs_rows_to_judge(judge: Any) -> Message:
    """What needs rows in a fit whose regressor is fitted again to judge."""
    what = f"regressor={called(judge)}, which judges row by row, and "
    return Message(what, BY_LEAST_SQUARES, " does not,")


def refuse_streaming(why: str | None) -> None:
    """Refuse options that need the rows themselves."""
    if why is not None:
        raise InputError(
            why,
            " needs the rows themselves, and partial_fit keeps only their sums: use fit on "
            "all rows, or an option that sums can answer (LinearRegression() as regressor of "
            "TargetAggregator, connectivity as a matrix).",
        )


def refuse_streamed_regressor(regressor: Any, known: Sequence[type]) -> None:
    """Refuse a regressor that learns from rows."""
    names = ", ".join(f"{kind.__name__}()" for kind in known)
    raise InputError(
        f"regressor={type(regressor).__name__}() learns from the rows themselves, and partial_fit "
        f"keeps only their sums: use one of {names}, or fit on all rows."
    )


def refuse_pieces_in_search(kind: str) -> NoReturn:
    """Refuse to stream rows through a search over limits of both phases."""
    raise AttributeError(
        f"{kind} takes no pieces: the folds of its search hold the rows themselves. Use "
        "CTFARegressor, whose max_loss='auto' is chosen on the folds of a stream."
    )


# -- Where merging stops, and wishes for groups


#: Parameters of an aggregator that are wishes, with their defaults.
USUAL = {"n_groups": None, "tolerance": None, "min_size": 1, "together": None, "apart": None}
#: Largest number of members that an error names.
NAMED = 6


def wishes_of(aggregator: Any) -> dict[str, Any]:
    """Wishes of an aggregator by parameter: those that are not the default."""
    given = {name: getattr(aggregator, name, usual) for name, usual in USUAL.items()}
    return {
        name: value
        for name, value in given.items()
        if value is not USUAL[name] and not (isinstance(value, (list, tuple)) and not len(value))
    }


def read_cut(aggregator: Any) -> dict[str, Any]:
    """Wishes of an aggregator; refuses those that contradict other options."""
    given = wishes_of(aggregator)
    if not given:
        return {}
    wish = {name: Option(name, value) for name, value in given.items()}
    limit = Option("max_loss", aggregator.max_loss)
    if not SCANS[aggregator.scan].has_auto:
        named = [piece for name in given for piece in (" and ", Option(name))]
        raise InputError(
            *named[1:],
            f": goes with scan={either(SCANS, 'has_auto')} and not with {aggregator.scan!r}: use "
            "the one or leave the other out.",
        )
    cuts: list[str] = [name for name in ("n_groups", "tolerance") if name in given]
    if cuts and not (isinstance(limit.value, str) and limit.value == "auto"):
        cuts.append("max_loss")
    if len(cuts) > 1:
        one, other = (wish.get(name, limit) for name in cuts[:2])
        raise InputError(one, " and ", other, " both say where to stop merging: give one of them.")
    if "tolerance" in given:
        allowed = read_number(given["tolerance"], "tolerance", ": 0.01 is one per cent")
        if not 0.0 <= allowed < np.inf:
            raise InputError(
                wish["tolerance"],
                " is not a share of an error: give zero or more, 0.01 for one per cent.",
            )
    for name in ("n_groups", "min_size"):
        value = given.get(name, 1)
        if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
            raise InputError(wish[name], " is not a count: give a whole number, 1 or more.")
    return given


def read_limit(phase: Any, registry: Mapping[str, Criterion]) -> float | None:
    """The largest loss at which a phase merges; None for "auto", where it can be chosen.

    Infinity where a number of groups is wished and no limit can be chosen.
    """
    counted = "n_groups" in read_cut(phase)
    if not (isinstance(phase.max_loss, str) and phase.max_loss == "auto"):
        return read_number(phase.max_loss, "max_loss", " or 'auto'")
    of_targets = registry is TARGET_CRITERIA
    if not criterion_of(phase.criterion, registry).has_auto:
        if counted:
            return np.inf
        advice = "the paper's epsilon_2, for criterion 'r2', is 1e-4"
        if of_targets:
            advice = "the paper's epsilon_1 = 0 is max_loss=0 for criterion 'mse'"
        raise InputError(
            Option("max_loss", "auto"),
            f" goes with criterion={either(registry, 'has_auto')} and not with "
            f"{phase.criterion!r}: give a number ({advice}).",
        )
    if of_targets and not SCANS[phase.scan].has_auto:
        raise InputError(
            Option("max_loss", "auto"),
            f" goes with scan={either(SCANS, 'has_auto')} and not with {phase.scan!r}, whose "
            "groups depend on the order of the targets: give a number (1.5 suits most data).",
        )
    return None


def read_wishes(
    aggregator: Any,
    names: Sequence[str] | None,
    labels: Sequence[Any] | None,
    graph: Any,
    n_variables: int,
    what: str = "targets",
) -> Wishes:
    """Wishes of groups of these variables, checked against each other and the graph."""
    given = read_cut(aggregator)
    if not given:
        return Wishes()
    known = [str(k) for k in range(n_variables)] if names is None else list(names)
    labels = known if labels is None else labels
    pairs = {
        name: _read_pairs(given.get(name), name, known, labels) for name in ("together", "apart")
    }
    tolerance = given.get("tolerance")
    wishes = Wishes(
        None if "n_groups" not in given else int(given["n_groups"]),
        None if tolerance is None else float(tolerance),
        int(given.get("min_size", 1)),
        apart=tuple(pairs["apart"]),
    )
    joined = _joined(pairs["together"], pairs["apart"], graph, known)
    components = np.zeros(n_variables, dtype=np.intp)
    if graph is not None:
        components = csgraph.connected_components(graph, directed=False)[1].astype(np.intp)
    _require_room(wishes, joined, components, known, what)
    return Wishes(wishes.n_groups, wishes.tolerance, wishes.min_size, joined, wishes.apart)


def without_names(
    aggregator: Any, names: Sequence[str], labels: Sequence[Any]
) -> dict[str, list[tuple[int, int]]]:
    """Pairs of an aggregator by position, for the same targets as arrays."""
    given = {name: getattr(aggregator, name) for name in ("together", "apart")}
    return {
        name: _read_pairs(pairs, name, names, labels)
        for name, pairs in given.items()
        if pairs is not None
    }


def _read_pairs(
    given: Any, name: str, known: Sequence[str], labels: Sequence[Any]
) -> list[tuple[int, int]]:
    """Pairs of variables as positions."""
    advice = f"{name} is a list of pairs, such as {name}=[({known[0]!r}, {known[-1]!r})]"
    if given is None:
        return []
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InputError(f"{name}={given!r} is not a list: {advice}.")
    pairs = []
    for pair in given:
        two = () if isinstance(pair, (str, bytes)) or not isinstance(pair, Iterable) else (*pair,)
        if len(two) != 2:
            raise InputError(f"{name} holds {pair!r}, which is not a pair: {advice}.")
        try:
            one, other = (read_target(_plain(target), known, labels) for target in two)
        except ValueError as error:
            raise InputError(f"{name}: {error}") from error
        if one == other:
            raise InputError(f"{name} pairs {known[one]!r} with itself: name two.")
        pairs.append((min(one, other), max(one, other)))
    return sorted(set(pairs))


def _plain(target: Any) -> Any:
    """A label of Python's own kind, as JSON would give it."""
    return target.item() if isinstance(target, np.generic) else target


def _joined(
    together: Sequence[tuple[int, int]],
    apart: Sequence[tuple[int, int]],
    graph: Any,
    names: Sequence[str],
) -> tuple[tuple[int, ...], ...]:
    """Groups that are joined first: pairs with a common member; in a graph, also those between."""
    labels = np.arange(len(names))
    for one, other in together:
        between = (
            [one, other] if graph is None else _between(one, other, labels, apart, graph, names)
        )
        for member in between[1:]:
            labels[labels == labels[member]] = labels[one]
    for one, other in apart:
        if labels[one] == labels[other]:
            raise InputError(
                f"apart separates {names[one]!r} and {names[other]!r}, and together joins them: "
                "leave one of the two out."
            )
    return tuple(tuple(group.tolist()) for group in Partition(labels).groups if group.size > 1)


def _between(
    one: int,
    other: int,
    labels: IntArray,
    apart: Sequence[tuple[int, int]],
    graph: Any,
    names: Sequence[str],
) -> list[int]:
    """The fewest neighbours that connect two, both included, none of them held apart from these."""
    groups = labels[[one, other]]
    barred = {c for a, b in apart for c, d in ((a, b), (b, a)) if labels[d] in groups}
    open_to = np.array([k not in barred or labels[k] in groups for k in range(labels.size)])
    # Vertices that are joined already are no step apart.
    inside = np.isin(labels, groups)
    links = sparse.coo_array(graph)
    both = open_to[links.row] & open_to[links.col]
    cost = np.where(inside[links.row] & inside[links.col], 1e-6, 1.0)[both]
    ways = sparse.csr_array((cost, (links.row[both], links.col[both])), shape=graph.shape)
    found = csgraph.dijkstra(ways, indices=[one], return_predecessors=True)
    length, before = found[0][0], found[1][0]
    if not np.isfinite(length[other]):
        whole = csgraph.connected_components(graph, directed=False)[1]
        why = Message(
            "no chain of neighbours connects them: ",
            "connectivity leaves",
            " them in two components",
        )
        if whole[one] == whole[other]:
            why = Message(
                "every chain of neighbours between them has one that is held apart from them"
            )
        raise InputError(
            f"together joins {names[one]!r} and {names[other]!r}, but ",
            why,
            ". Leave the pair out, or change the neighbours.",
        )
    chain = [other]
    while chain[-1] != one:
        chain.append(int(before[chain[-1]]))
    return chain[::-1]


def _require_room(
    wishes: Wishes,
    joined: Sequence[tuple[int, ...]],
    components: IntArray,
    names: Sequence[str],
    what: str,
) -> None:
    """Refuse a number and a size of groups that these variables cannot have."""
    n_groups, least, n_variables = wishes.n_groups, wishes.min_size, components.size
    sizes = np.bincount(components)
    smallest = Option("min_size", least)
    if int(sizes.min()) < least:
        members = np.flatnonzero(components == int(sizes.argmin()))
        whom = Message(f"there are {n_variables} ", what)
        if sizes.size > 1:
            named = _named(members, names)
            whom = Message(f"a component of the neighbours has {members.size}: {named}")
        raise InputError(
            smallest, " is more than there can be: ", whom, ". Lower ", Option("min_size"), "."
        )
    if n_groups is None:
        return
    wished = Option("n_groups", n_groups)
    if n_groups > n_variables:
        raise InputError(wished, f" is more than the {n_variables} ", what, " there are.")
    if n_groups < sizes.size:
        raise InputError(
            wished,
            f", but the graph of neighbours has {sizes.size} components, which are never joined: "
            "give ",
            Option("n_groups", sizes.size),
            " or more, or connect them.",
        )
    blocks = n_variables - sum(len(group) - 1 for group in joined)
    if n_groups > blocks:
        raise InputError(
            wished,
            f", but together leaves at most {blocks} ",
            "groups",
            f" of the {n_variables} ",
            what,
            ": lower ",
            Option("n_groups"),
            ", or leave out pairs of together.",
        )
    most = int((sizes // least).sum())
    if n_groups > most:
        raise InputError(
            wished,
            " and ",
            smallest,
            f" do not go together: {n_variables} ",
            what,
            f" make at most {most} such ",
            "groups",
            ". Lower one of them.",
        )
    _require_room_apart(n_groups, wishes.apart, joined, names)


def _require_room_apart(
    n_groups: int,
    pairs: Sequence[tuple[int, int]],
    joined: Sequence[tuple[int, ...]],
    names: Sequence[str],
) -> None:
    """Refuse fewer groups than those held apart need."""
    first = {member: group[0] for group in joined for member in group}
    apart: dict[int, set[int]] = {}
    for pair in pairs:
        one, other = (first.get(member, member) for member in pair)
        apart.setdefault(one, set()).add(other)
        apart.setdefault(other, set()).add(one)
    needed = next(k for k in range(n_groups, n_groups + len(apart) + 1) if fit_into(apart, k))
    if needed > n_groups:
        said = "; ".join(f"{names[a]!r} and {names[b]!r}" for a, b in pairs[:NAMED])
        more = f" and {len(pairs) - NAMED} more pairs" if len(pairs) > NAMED else ""
        raise InputError(
            Option("n_groups", n_groups),
            f", but apart holds {said}{more} apart, which takes {needed} ",
            "groups",
            " or more: give ",
            Option("n_groups", needed),
            " or more, or leave pairs out.",
        )


def require_wished(
    aggregator: Any,
    wishes: Wishes,
    partition: Partition,
    graph: Any,
    names: Sequence[str] | None,
) -> None:
    """Refuse groups that are not as wished after the merges; tells what prevented it."""
    known = [f"y{k}" for k in range(partition.n_variables)] if names is None else names
    wished, smallest = Option("n_groups", wishes.n_groups), Option("min_size", wishes.min_size)
    small = np.flatnonzero(partition.sizes < wishes.min_size)
    if wishes.n_groups is not None and partition.n_groups > wishes.n_groups:
        said = Message(wished, f", but the merges end at {partition.n_groups} ", "groups")
        advice = Message("give ", Option("n_groups", partition.n_groups), " or more")
    elif small.size:
        members = partition.groups[int(small[0])]
        counted = Message() if wishes.n_groups is None else Message(" with ", wished)
        left = f" of {members.size}: {_named(members, known)}"
        said = Message(smallest, counted, ", but the merges leave ", "a group", left)
        advice = Message("lower ", Option("min_size"))
        if wishes.n_groups is not None:
            advice = Message(advice, " or ", Option("n_groups"))
    else:
        return
    causes = _causes(aggregator, wishes, partition, known)
    why = f" ({'; '.join(causes)})" if causes else ""
    raise InputError(said, f"{why}: ", advice, ", or ask less of the ", "groups", ".")


def refuse_unasked(wishes: Wishes, n_variables: int) -> None:
    """Refuse wishes of groups where there is nothing to judge merges by."""
    asked = wishes.n_groups not in (None, n_variables) or wishes.min_size > 1 or wishes.together
    if asked and n_variables > 1:
        raise InputError(
            Option("n_groups"),
            ", ",
            Option("min_size"),
            " and together need ",
            "targets",
            " to merge, and there is nothing to judge merges by: pass more rows, or leave them "
            "out.",
        )


def _causes(
    aggregator: Any, wishes: Wishes, partition: Partition, names: Sequence[str]
) -> list[str]:
    """What kept the groups from merging further."""
    causes = []
    labels = partition.labels
    held = [(a, b) for a, b in wishes.apart if labels[a] != labels[b]]
    if held:
        pairs = [f"{names[a]!r} from {names[b]!r}" for a, b in held]
        more = f" and {len(pairs) - NAMED} more" if len(pairs) > NAMED else ""
        causes.append(f"apart keeps {', '.join(pairs[:NAMED])}{more}")
    if getattr(aggregator, "guard", None) is not None:
        causes.append(f"guard={aggregator.guard!r} refuses what a member would lose by")
    lowest = getattr(aggregator, "min_correlation", -1.0)
    if lowest > -1.0:
        causes.append(f"min_correlation={lowest:g} refuses the rest, and -1 would not")
    return causes


def _named(members: IntArray, names: Sequence[str]) -> str:
    """The first of some variables by name."""
    some = ", ".join(repr(names[member]) for member in members[:NAMED].tolist())
    return f"{some} and {members.size - NAMED} more" if members.size > NAMED else some


def refuse_wishes_in_search(aggregator: Any) -> None:
    """Refuse a number of groups, and a tolerance, where limits are what is searched."""
    for name, value in wishes_of(aggregator).items():
        if name in ("n_groups", "tolerance"):
            raise InputError(
                Option(name, value),
                " says where to stop merging, and CTFARegressorCV searches for that: use "
                "CTFARegressor, or leave it out.",
            )
