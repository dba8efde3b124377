"""Options: names, numbers, orders, graphs and folds."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from inspect import Signature
from numbers import Integral, Real
from typing import Any, NoReturn, TypeVar

import numpy as np
from scipy import sparse
from sklearn.linear_model import LinearRegression, Ridge, RidgeCV
from sklearn.metrics import check_scoring, get_scorer_names
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from ctfa._errors import InputError, Message, Option
from ctfa.core.criteria import Criterion, criterion_of
from ctfa.core.fit import Evidence
from ctfa.core.graph import ORDERS
from ctfa.core.spaces.base import MergeSpace
from ctfa.core.types import FloatArray, IntArray

Phase = TypeVar("Phase")
#: What judges merges in closed form, as aggregators are told it.
BY_LEAST_SQUARES = "TargetAggregator(regressor=LinearRegression())"
BY_RIDGE = "TargetAggregator(regressor=RidgeCV())"
#: The other way to give a graph, in words.
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
    """Refuse options that a function does not have, and say what may have been meant."""
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
        raise InputError(f"scoring={scoring!r} is not a score of scikit-learn: use {hint}.")
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
    """Refuse a criterion without what another option needs of it."""
    if not getattr(criterion_of(option, registry), fact):
        raise InputError(
            f"{what} goes with criterion={either(registry, fact)} and not with {option!r}: use the "
            "one or change the other."
        )


def either(registry: Mapping[str, Any], fact: str) -> str:
    """Names of all in a registry of which something holds, in words."""
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
    """Refuse to set a parameter of an aggregator that is not there."""
    phase = name.partition("__")[0]
    raise InputError(
        f"Invalid parameter {name!r}: {phase}={held!r} has none to set. Set {phase} to an "
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
    """What a scorer gave for one fold, as a number that can be compared."""
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
    """A value as messages call it: an estimator by its class, which may hold long arrays."""
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
    """Refuse deviations from a mean of targets in their raw units."""
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
    """Whether a regressor has a use for missing features, by its own word."""
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
    """What in a fit needs rows where a regressor is fitted again to judge."""
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
