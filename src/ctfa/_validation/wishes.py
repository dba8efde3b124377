"""Where merging stops, and what is asked of groups besides: how many, how large, who with whom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from ctfa._errors import InputError, Message, Option
from ctfa._validation.options import either, read_number, read_target
from ctfa.core.criteria import TARGET_CRITERIA, Criterion, criterion_of
from ctfa.core.graph import Wishes, fit_into
from ctfa.core.partition import Partition
from ctfa.core.scans import SCANS
from ctfa.core.types import IntArray

#: Parameters of an aggregator that are wishes, as they are where nothing is wished.
USUAL = {"n_groups": None, "tolerance": None, "min_size": 1, "together": None, "apart": None}
#: Members that an error names at most.
NAMED = 6


def wishes_of(aggregator: Any) -> dict[str, Any]:
    """What an aggregator wishes, by parameter: what is not as it is by default."""
    given = {name: getattr(aggregator, name, usual) for name, usual in USUAL.items()}
    return {
        name: value
        for name, value in given.items()
        if value is not USUAL[name] and not (isinstance(value, (list, tuple)) and not len(value))
    }


def read_cut(aggregator: Any) -> dict[str, Any]:
    """What an aggregator wishes; refuses wishes that do not go with other options."""
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
            raise InputError(wish[name], " is not a count: give a whole number from 1.")
    return given


def read_limit(phase: Any, registry: Mapping[str, Criterion]) -> float | None:
    """The largest loss at which a phase merges; None for "auto", where it can be chosen.

    Infinity where a number of groups is wished of what has no limit that could be chosen.
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
    """Pairs that an aggregator names, by position, for the same targets as arrays."""
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
    """Groups that come first: pairs that have one in common, and in a graph whoever is between."""
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
                f"apart holds {names[one]!r} and {names[other]!r} apart, and together joins them: "
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
    """The fewest neighbours that connect two, both included, and none held apart from them."""
    groups = labels[[one, other]]
    barred = {c for a, b in apart for c, d in ((a, b), (b, a)) if labels[d] in groups}
    open_to = np.array([k not in barred or labels[k] in groups for k in range(labels.size)])
    # Those that are joined already are not a step away.
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
    """Refuse groups that the merges have left otherwise than they were wished; says by whom."""
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
    """What has kept the groups from going on merging."""
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
