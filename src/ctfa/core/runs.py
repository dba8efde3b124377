"""Growing one block by runs of predicted merges, each verified before it is made.

Nothing here changes a decision: it is the loop of ``scans`` with the arithmetic of many steps done
at once.
"""

from __future__ import annotations

import numpy as np

from ctfa.core.judge import FIRST_CHUNK, Judge
from ctfa.core.spaces.base import MergeSpace
from ctfa.core.types import IntArray

#: Merges predicted at once: at first, and at most while predictions come true.
FIRST_RUN, LONGEST_RUN = 12, 32
#: Candidates among which they are looked for, at most.
WIDEST_RUN = 256


def grow_by_runs(
    judge: Judge, space: MergeSpace, block: int, queue: IntArray, *, restart: bool
) -> IntArray:
    """Grow one block from a queue of free variables; return those it took.

    Prediction: the candidates that are acceptable now will be taken in their order. The space
    answers for all the states of that run at once, and the run is cut at the first state in which
    the scan would have done otherwise; so the decisions are those of one step at a time.
    """
    ledger = judge.ledger
    members: list[IntArray] = []
    start, width, length = 0, judge.width, FIRST_RUN
    while (hit := judge.first_acceptable(block, queue[start:], width)) is not None:
        predicted = start + hit.positions[:length]
        taken, losses = _verified_run(judge, space, block, queue, predicted, restart=restart)
        came_true = taken.size >= predicted.size
        width = min(WIDEST_RUN, 2 * width) if came_true else FIRST_CHUNK
        length = min(LONGEST_RUN, 2 * length) if came_true else FIRST_RUN
        run = queue[taken]
        space.absorb(block, run)
        ledger.accept_run(block, run, [hit.loss, *losses])
        if restart:
            ledger.forget_refusals(block)
        members.append(run)
        start = 0 if restart else int(taken[-1]) + 1 - taken.size
        left = np.ones(queue.size, dtype=bool)
        left[taken] = False
        queue = queue[left]
    return np.concatenate(members) if members else queue[:0]


def _verified_run(
    judge: Judge,
    space: MergeSpace,
    block: int,
    queue: IntArray,
    predicted: IntArray,
    *,
    restart: bool,
) -> tuple[IntArray, list[float]]:
    """Positions in the queue that the scan takes in turn, and the losses of all but the first."""
    if predicted.size == 1:
        return predicted, []
    first = 0 if restart else int(predicted[0]) + 1
    columns = np.arange(first, int(predicted[-1]) + 1)
    evidence = space.foresee(block, queue[predicted], queue[columns])
    losses = np.asarray(judge.criterion(evidence))[1:]
    # State k has absorbed the first k+1 predicted; a single pass has also gone beyond them.
    if restart:
        gone = np.zeros(losses.shape, dtype=bool)
        for state, position in enumerate(predicted):
            gone[state:, position] = True
    else:
        gone = columns <= predicted[:, None]
    open_to = (losses <= judge.limit) & ~gone
    hits = open_to.argmax(axis=1)
    found = open_to[np.arange(hits.size), hits]
    as_predicted = found[:-1] & (hits[:-1] == predicted[1:] - first)
    wrong = np.flatnonzero(~as_predicted)
    states = int(wrong[0]) + 1 if wrong.size else predicted.size
    # The state in which the prediction ends was asked correctly too; use what it answered.
    states -= not found[states - 1]
    hits = hits[:states]
    asked = ~gone[:states] & (np.arange(columns.size) <= hits[:, None])
    judge.ledger.n_comparisons += int(np.count_nonzero(asked))
    asked[np.arange(states), hits] = False
    refused = np.where(asked, losses[:states], np.inf)
    nearest = int(refused.argmin()) if refused.size else 0
    if refused.size and refused.flat[nearest] < np.inf:
        other = queue[columns[nearest % columns.size]]
        judge.ledger.refuse(block, np.array([other]), refused.flat[nearest : nearest + 1])
    taken = np.concatenate((predicted[:1], hits + first))
    return taken, losses[np.arange(states), hits].tolist()
