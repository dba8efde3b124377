"""The merges of a model: which groups were joined, what each merge saved, what targets gain."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ctfa.core.history import MergeHistory
from ctfa.core.partition import Partition
from ctfa.core.types import FloatArray, IntArray
from ctfa.estimators.held_out import SAME
from ctfa.estimators.view import FittedGroups
from ctfa.plotting import _axes as draw
from ctfa.plotting._axes import CHOSEN, FAINT, INK, LINE_COLOURS, REGRESSORS

GIVE = "a fitted TargetAggregator or regressor with groups, or a MergeHistory"
#: Groups that are drawn, as branches, where not even one fits whole.
BRANCHED = 8
#: Beyond so many times the limit losses are drawn by their logarithm.
TALL = 8.0
#: Scans write an infinite loss as the largest number there is.
ENDLESS = 1e300
#: Standard errors are drawn for up to so many merges; more would be a grey wall.
WITH_ERRORS = 300
#: Amounts that differ by more than this factor are drawn by their logarithm.
WIDE = 30.0


def plot_merge_tree(
    model: Any,
    *,
    group: Any = None,
    max_loss: float | None = None,
    max_leaves: int = 60,
    ax: Any = None,
) -> Any:
    """Tree of the merges: two blocks are joined at the height of their loss.

    Heights are the running maximum of the losses, so that a line across the tree at any limit has
    under it the merges made by then. Merges within a group have its colour, those above the limit
    are grey, and a target that was never merged is a line by itself.

    Parameters
    ----------
    model : fitted model or MergeHistory
        Of a model, its merges and the limit it used. A history up to an infinite limit
        (``TargetAggregator(max_loss=inf)``) shows the whole tree.
    group : int, str, tuple or None, default=None
        Draw one group only: its number, or one of its members, by its name or as a cell of a grid.
    max_loss : float or None, default=None
        The limit that is drawn and that colours groups; None is that of the model, and for a
        history none. For the scan "best-first", whose merges do not depend on it.
    max_leaves : int, default=60
        With more targets than this the largest groups are drawn that fit whole; where none does,
        the uppermost merges of the largest, a leaf standing for several targets.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from ctfa import CTFARegressor
    >>> from ctfa.datasets import make_paper_synthetic
    >>> from ctfa.plotting import plot_merge_tree
    >>> X, Y = make_paper_synthetic(150, 20, random_state=0)
    >>> model = CTFARegressor().fit(X, Y)
    >>> ax = plot_merge_tree(model)  # doctest: +SKIP
    """
    if max_leaves < 2:
        raise ValueError(f"max_leaves={max_leaves}: a tree has two leaves or more.")
    history, limit, names, noun = _read(model)
    limit = limit if max_loss is None else float(max_loss)
    partition = history.partition(np.inf if limit is None else limit)
    tree = Tree.of(history)
    roots, title = tree.roots, draw.grouped(partition, noun)
    if draw.is_labelled(model) and isinstance(group, tuple | list):
        group = names[model.tasks.position(group)]
    if group is not None:
        number = _number(partition, names, group)
        members = partition.groups[number]
        roots, title = [tree.node_of(members)], f"group {number}: {draw.count(members.size, noun)}"
    shown, note = _choose(tree, roots, max_leaves, noun)
    leaves = tree.open(shown, max_leaves)
    ax = draw.axes(ax, width=float(np.clip(2.0 + 0.16 * len(leaves), 6.0, 12.0)))
    _draw(ax, tree, leaves, partition, limit)
    sizes, first = tree.size[leaves], tree.first[leaves]
    called = [names[k] if n == 1 else f"{n:,} {noun}s" for k, n in zip(first, sizes, strict=True)]
    draw.label_places(ax, "x", called)
    ax.set_xlim(-0.7, len(leaves) - 0.3)
    ax.set_title(title + note)
    draw.bare(ax, "top", "right", "bottom")
    if len(history):
        ax.set_ylabel("loss of the merge")
    else:
        draw.say(ax, "no merges")
    return ax


class Tree(NamedTuple):
    """Merges as nodes: the first are variables, then one per merge, as scipy numbers them."""

    n_variables: int
    children: IntArray  # (merges, 2): the two nodes that each joined, in the order of its block
    heights: FloatArray  # (merges,): running maximum of the losses
    first: IntArray  # (nodes,): the variable by which a node is known
    size: IntArray  # (nodes,): variables under it

    @classmethod
    def of(cls, history: MergeHistory) -> Tree:
        """The tree of all merges."""
        first = np.concatenate((np.arange(history.n_variables), history.block))
        size = np.concatenate((np.ones(history.n_variables, dtype=np.intp), history.size))
        node = np.arange(history.n_variables)
        pairs = np.empty((len(history), 2), dtype=np.intp)
        for step, pair in enumerate(zip(history.block, history.other, strict=True)):
            pairs[step] = node[list(pair)]
            node[pair[0]] = history.n_variables + step
        return cls(history.n_variables, pairs, np.maximum.accumulate(history.loss), first, size)

    @property
    def roots(self) -> list[int]:
        """Nodes that joined no other, the largest first."""
        left = np.setdiff1d(np.arange(self.size.size), self.children)
        found: list[int] = left[np.lexsort((self.first[left], -self.size[left]))].tolist()
        return found

    def node_of(self, members: IntArray) -> int:
        """The node under which just these are: known by one of them, and of their size."""
        just = (self.size == members.size) & np.isin(self.first, members)
        return int(np.flatnonzero(just)[0])

    def open(self, roots: list[int], most: int) -> list[int]:
        """Leaves of the picture: the uppermost merges opened until there are so many."""
        opened: set[int] = set()
        closed = [node for node in roots if node >= self.n_variables]
        while closed and len(roots) + len(opened) < most:
            latest = max(closed)  # and so the highest
            closed.remove(latest)
            opened.add(latest)
            below = self.children[latest - self.n_variables].tolist()
            closed += [node for node in below if node >= self.n_variables]
        leaves, waiting = [], roots[::-1]
        while waiting:
            node = waiting.pop()
            if node in opened:
                waiting.extend(self.children[node - self.n_variables][::-1].tolist())
            else:
                leaves.append(node)
        return leaves


def _read(model: Any) -> tuple[MergeHistory, float | None, list[str], str]:
    """The merges, the limit used, the names of what was merged, and what that is."""
    if isinstance(model, MergeHistory):
        named = range(model.n_variables) if model.names is None else model.names
        return model, None, [str(name) for name in named], "target"
    model = draw.require(model, ("history_", "max_loss_", "partition_"), GIVE)
    history, limit = model.history_, float(model.max_loss_)
    try:
        fitted = FittedGroups.of(model)
    except TypeError:  # of features: only a data frame has names
        plain = [f"x{k}" for k in range(history.n_variables)]
        names = [str(name) for name in getattr(model, "feature_names_in_", plain)]
        return history, limit, names, "feature"
    return history, limit, list(fitted.names), "task" if fitted.own_rows else "target"


def _number(partition: Partition, names: list[str], group: Any) -> int:
    """The group that is asked for by its number or by a member."""
    if isinstance(group, str):
        if group not in names:
            raise ValueError(f"group={group!r} is not a target: give a name, or a group's number.")
        return int(partition.labels[names.index(group)])
    if not 0 <= int(group) < partition.n_groups:
        raise ValueError(
            f"group={group!r}: there are {partition.n_groups} groups, numbered from 0."
        )
    return int(group)


def _choose(tree: Tree, roots: list[int], max_leaves: int, noun: str) -> tuple[list[int], str]:
    """Which trees are drawn, and what the title says of the others."""
    sizes = tree.size[roots]
    if sizes.sum() <= max_leaves:
        return roots, ""
    whole = int(np.searchsorted(np.cumsum(sizes), max_leaves, side="right"))
    if len(roots) == 1:
        return roots, f"\nthe uppermost {max_leaves - 1} of {sizes[0] - 1:,} merges shown"
    n_shown = whole or min(BRANCHED, len(roots))
    largest = "the largest" if n_shown == 1 else f"the {n_shown} largest"
    note = f"\nthe uppermost merges of {largest} shown"
    if whole:
        note = f"\n{largest} shown: {sizes[:whole].sum():,} {noun}s"
    return roots[:n_shown], note


def _draw(
    ax: Any, tree: Tree, leaves: list[int], partition: Partition, limit: float | None
) -> None:
    """Lines of the tree, from leaves to roots, and the limit."""
    # Endless losses are drawn above all others.
    known = tree.heights[tree.heights < ENDLESS]
    heights = np.minimum(tree.heights, 2.0 * max(float(known.max(initial=0.0)), 1.0))
    bottom = _set_heights(ax, heights, limit)
    place = {leaf: float(number) for number, leaf in enumerate(leaves)}
    top = dict.fromkeys(leaves, bottom)
    groups = partition.labels[tree.first].tolist()  # of each node
    order = dict.fromkeys(groups[leaf] for leaf in leaves)  # as they are drawn: neighbours differ
    colour = {group: LINE_COLOURS[k % len(LINE_COLOURS)] for k, group in enumerate(order)}
    merges: list[tuple[Any, str]] = []
    stems: list[tuple[Any, str]] = []  # of groups, from their last merge up to the limit
    for step, pair in enumerate(tree.children.tolist()):
        if pair[0] not in place or pair[1] not in place:
            continue
        node, height = tree.n_variables + step, float(heights[step])
        (a, b), (low_a, low_b) = (place[child] for child in pair), (top[child] for child in pair)
        joined = limit is None or tree.heights[step] <= limit
        shade = colour[groups[node]] if joined else FAINT
        merges.append(([(a, low_a), (a, height), (b, height), (b, low_b)], shade))
        for child in pair:
            if not joined and limit is not None and top[child] <= limit and tree.size[child] > 1:
                stem = [(place[child], top[child]), (place[child], limit)]
                stems.append((stem, colour[groups[child]]))
        place[node], top[node] = (a + b) / 2.0, height
    for lines in (merges, stems):
        shades = [shade for _, shade in lines]
        draw.lines(ax, [line for line, _ in lines], colors=shades, linewidths=1.6, capstyle="round")
    alone = [place[leaf] for leaf in leaves if leaf not in tree.children]
    ax.plot(alone, np.full(len(alone), bottom), "|", color=FAINT, markersize=9)
    if len(heights) and limit is not None and np.isfinite(limit):
        ax.axhline(limit, color=CHOSEN, linewidth=1.2, linestyle="--")
        across = ax.get_yaxis_transform()
        draw.note(ax, f"limit {limit:g}", (1.0, limit), colour=CHOSEN, pad=0.5, xycoords=across,
                  xytext=(0, 3), textcoords="offset points", ha="right")  # fmt: skip


def _set_heights(ax: Any, heights: FloatArray, limit: float | None) -> float:
    """Limits of the vertical axis, which has room for the limit; where leaves begin."""
    if not heights.size:
        ax.set_ylim(-0.1, 1.0)
        ax.set_yticks([])
        draw.bare(ax, "left")
        return 0.0
    known = limit if limit is not None and np.isfinite(limit) else None
    low = min(0.0, float(heights[0]))
    high = max(float(heights[-1]), -np.inf if known is None else known)
    unit = max(1.0, known or 1.0)
    if high > TALL * unit:
        bottom = low - 0.3 * unit
        ax.set_yscale("symlog", linthresh=unit)
        ax.set_ylim(bottom - 0.05 * unit, 2.0 * high)
        return bottom
    span = high - low or 1.0
    bottom = low - 0.1 * span
    ax.set_ylim(bottom - 0.02 * span, high + 0.12 * span)
    return bottom


def plot_merges(model: Any, *, ax: Any = None) -> Any:
    """Variance saved against bias paid, one dot per merge.

    A merge saves variance, having one model fewer to estimate, and pays bias, because its two sides
    differ. Above the diagonal it is predicted to gain; the faint bars are the standard errors of
    that gain. By the risk rule the loss of a merge is what it pays for each unit it saves, so the
    limit is a line too, and merges lie above it as far as they were judged by the same figures.

    Parameters
    ----------
    model : CTFARegressor, MultiInputCTFARegressor or PooledCTFARegressor
        Fitted.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from ctfa import CTFARegressor
    >>> from ctfa.datasets import make_paper_synthetic
    >>> from ctfa.plotting import plot_merges
    >>> X, Y = make_paper_synthetic(150, 20, random_state=0)
    >>> ax = plot_merges(CTFARegressor().fit(X, Y))  # doctest: +SKIP
    """
    fitted = draw.require_groups(model, "regressors_")
    columns = fitted.evidence.columns()
    saved, paid, gain, error = (
        np.asarray(columns[name], dtype=float)
        for name in ("variance_saved", "bias_paid", "gain", "gain_error")
    )
    known = np.isfinite(saved) & np.isfinite(paid)
    if saved.size and not known.any():
        raise ValueError(
            "the merges of this model have no variance saved and no bias paid: they were judged by "
            "penalised fits, which have no F. Fit with "
            "TargetAggregator(regressor=LinearRegression())."
        )
    ax = draw.axes(ax, width=6.5, height=5.0)
    n_known, pays = np.count_nonzero(known), np.count_nonzero(gain[known] > 0.0)
    title = f"{draw.count(gain.size, 'merge')}: {pays:,} predicted to gain, "
    title += f"{n_known - pays:,} to lose"
    if n_known < gain.size:
        title += f", {gain.size - n_known:,} not worked out"
    ax.set_title(title)
    draw.bare(ax)
    if not saved.size:
        ax.set_title(f"{draw.count(fitted.partition.n_variables, 'target')}, no merges")
        ax.set_axis_off()
        draw.say(ax, "no merges")
        return ax
    losers = np.array([len(who) > 0 for who in columns["losers"]])[known]
    saved, paid, error = saved[known], paid[known], error[known]
    span = _scales(ax, paid, saved)
    if saved.size <= WITH_ERRORS:
        # The gain is one less the other, and nearly all that is not known of it is the bias.
        ax.errorbar(paid, saved, xerr=np.nan_to_num(error), fmt="none", ecolor=FAINT, alpha=0.45,
                    elinewidth=0.9, zorder=1)  # fmt: skip
    _draw_limits(ax, span, fitted)
    size = 26.0 if saved.size <= 200 else 9.0
    ax.scatter(paid[~losers], saved[~losers], s=size, color=INK, linewidths=0, alpha=0.85, zorder=3,
               label="merge")  # fmt: skip
    if losers.any():
        ax.scatter(paid[losers], saved[losers], s=1.5 * size, marker="D", facecolors="none",
                   edgecolors=CHOSEN, linewidths=1.1, zorder=4,
                   label="merge that a member is predicted to lose by")  # fmt: skip
    unit = draw.unit_of(fitted.model, "share of a variance")
    ax.set_xlabel(f"bias paid ({unit})")
    ax.set_ylabel(f"variance saved ({unit})")
    ax.legend(frameon=False, fontsize="small", loc="best")
    return ax


def _scales(ax: Any, paid: FloatArray, saved: FloatArray) -> tuple[float, float]:
    """Set both scales alike; the lowest and the highest bias that lines are drawn for."""
    low, high = float(min(paid.min(), 0.0)), float(max(paid.max(), saved.max()))
    least = float(saved[saved > 0.0].min()) if (saved > 0.0).any() else 0.0
    if least > 0.0 and high > WIDE * least:
        # Bias below zero, by chance, has no logarithm: linear about zero.
        for scale in (ax.set_xscale, ax.set_yscale):
            scale("symlog", linthresh=least)
        ax.set_xlim(1.6 * low - 0.2 * least, 1.6 * high)
        ax.set_ylim(min(0.0, float(saved.min())), 1.6 * float(saved.max()))
        return 1.6 * low - 0.2 * least, 1.6 * high
    wide, tall = high - low, float(saved.max()) or 1.0
    right = max(float(paid.max()), 0.0) + 0.12 * wide
    ax.set_xlim(low - 0.08 * wide, max(right, 0.3 * tall))
    ax.set_ylim(min(0.0, float(saved.min())), 1.15 * tall)
    return low - 0.08 * wide, max(high, right)


def _draw_limits(ax: Any, span: tuple[float, float], fitted: FittedGroups) -> None:
    """Break-even, and the limit where that is a line too."""
    bias = np.concatenate(([0.0], np.geomspace(1e-6 * span[1] or 1e-6, 2.0 * span[1] or 1.0, 200)))
    ax.plot(bias, bias, color=INK, linewidth=1.0, label="break-even", zorder=2)
    limit = float(fitted.aggregator.max_loss_)
    facts = fitted.evidence.terms.facts
    if facts.weighs_bias and np.isfinite(limit) and limit > 0.0 and limit != 1.0:
        ax.plot(bias, bias / limit, color=CHOSEN, linewidth=1.2, linestyle="--", zorder=2,
                label=f"limit {limit:g}")  # fmt: skip


GIVE_GAINS = f"{REGRESSORS}, or the frame that its compare(X, y) returns"
#: What the frame of compare has.
COLUMNS = ("target", "gain", "predicted_gain", "single_task_error")
#: Up to so many targets are called by name.
NAMED = 60
PREDICTED, EVEN = "#56b4e9", "#9aa5ad"


class Gains(NamedTuple):
    """What is drawn of each target."""

    names: list[str]
    value: FloatArray
    error: FloatArray | None
    predicted: FloatArray | None
    unit: str
    on_folds: bool = False


def plot_gains(model: Any, *, ax: Any = None) -> Any:
    """Gain of each target over its own model, sorted, the worst on the left.

    Targets made worse are in the colour of warnings and counted in the title. Of a model these are
    gains with one standard error, on the folds that its groups were chosen on, each block judging
    groups that had not seen it; predicted ones, and the title says so, where no folds were asked.
    Of a comparison, and of labelled data with errors on held-out rows, they are the gains found
    there, with the predicted ones beside them.

    Parameters
    ----------
    model : fitted regressor with groups, LabelledFit or DataFrame
        A frame is what ``model.compare(X, y)`` returns.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from ctfa import CTFARegressor
    >>> from ctfa.datasets import make_paper_synthetic
    >>> from ctfa.plotting import plot_gains
    >>> X, Y = make_paper_synthetic(150, 20, random_state=0)
    >>> model = CTFARegressor().fit(X, Y)
    >>> ax = plot_gains(model)  # doctest: +SKIP
    >>> ax = plot_gains(model.compare(X, Y))  # doctest: +SKIP
    """
    gains = _gains(model)
    known = np.isfinite(gains.value)
    order = np.argsort(np.where(known, gains.value, np.inf), kind="stable")[: known.sum()]
    ax = draw.axes(ax, width=float(np.clip(2.0 + 0.2 * order.size, 6.0, 10.0)))
    ax.set_title(_counted(gains, known))
    ax.axhline(0.0, color=INK, linewidth=0.8)
    draw.bare(ax, "top", "right", "bottom")
    if not order.size:
        draw.say(ax, "no gain is known")
        return ax
    value, place = gains.value[order], np.arange(order.size)
    colour = np.where(value < 0.0, CHOSEN, np.where(value > 0.0, INK, EVEN))
    few = order.size <= NAMED
    if gains.predicted is None:
        if gains.error is not None:
            error = gains.error[order]
            ax.vlines(place, value - error, value + error, colors=colour, alpha=0.35,
                      linewidths=2.0 if few else 0.6)  # fmt: skip
        ax.scatter(place, value, s=26.0 if few else 5.0, c=colour, linewidths=0, zorder=3)
    else:
        predicted = gains.predicted[order]
        ax.bar(place, value, color=colour, width=0.72 if few else 1.0)
        ax.plot([], [], color=INK, linewidth=6.0, label="on held-out rows")
        ax.plot(place, predicted, "_" if few else ".", color=PREDICTED, alpha=1.0 if few else 0.6,
                markersize=9 if few else 3, markeredgewidth=2.2 if few else 0.5, zorder=3,
                label="predicted")  # fmt: skip
        ax.legend(frameon=False, fontsize="small", loc="upper left")
    ax.set_xlim(-0.8, order.size - 0.2)
    if few:
        draw.label_places(ax, "x", [gains.names[number] for number in order])
    else:
        ax.set_xticks([])
        ax.set_xlabel(f"{order.size:,} targets, the worst first")
    ax.set_ylabel(f"gain over a model of its own,\n{gains.unit}")
    return ax


def _gains(model: Any) -> Gains:
    if hasattr(model, "columns") and not hasattr(model, "fit"):
        missing = [name for name in COLUMNS if name not in model.columns]
        if missing:
            raise TypeError(f"the frame has no column {missing[0]!r}: give {GIVE_GAINS}.")
        names = [str(name) for name in model["target"]]
        found, predicted = (np.asarray(model[k], dtype=float) for k in ("gain", "predicted_gain"))
        return Gains(names, found, None, predicted, "share of variance")
    fitted = draw.require_groups(model, "regressors_", give=GIVE_GAINS)
    gain = fitted.evidence.gain if fitted.gains_of is None else fitted.gains_of()
    value, names = np.asarray(gain.value, dtype=float), list(fitted.names)
    held_out = getattr(model, "held_out", None) if draw.is_labelled(model) else None
    if held_out is not None:
        # Both in units of a variance, or the predicted ones are not shown.
        beside = np.where(draw.is_standardised(model), value, np.nan)
        return Gains(names, held_out.gain, None, beside, "share of variance")
    whole = "share of the variance within tasks" if fitted.own_rows else "share of variance"
    error = np.nan_to_num(np.asarray(gain.standard_error))
    on_folds = fitted.gains_of is None and fitted.evidence.held_out
    unit = f"{'on folds' if on_folds else 'predicted'}, {draw.unit_of(model, whole)}"
    return Gains(names, value, error, None, unit, on_folds)


def _counted(gains: Gains, known: Any) -> str:
    value = gains.value[known]
    same = 0.0 if gains.predicted is None else SAME
    helped, hurt = int(np.count_nonzero(value > same)), int(np.count_nonzero(value < -same))
    even = value.size - helped - hurt
    if gains.predicted is None:
        how = "on held-out folds" if gains.on_folds else "predicted"
        text = f"{how}: {helped:,} gain, {hurt:,} lose"
    else:
        text = f"on held-out rows: {helped:,} helped, {hurt:,} hurt"
    text += f", {even:,} unchanged" if even else ""
    unknown = gains.value.size - value.size
    return text + (f" ({unknown:,} without a model of their own to compare)" if unknown else "")
