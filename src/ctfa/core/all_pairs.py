"""Scans among all pairs: ranked where they are asked, and refused at the end."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ctfa.core.backend import RankedQuestions
from ctfa.core.history import MergeHistory
from ctfa.core.judge import Judge
from ctfa.core.rows import RankedRows, Row
from ctfa.core.types import IntArray


def merge_ranked(judge: Judge, ranked: RankedQuestions, *, by_loss: bool) -> MergeHistory:
    """Merge the pair that comes first, by loss or by correlation, while one is accepted.

    By correlation only pairs that are accepted have a rank: a refused pair stays refused while its
    blocks stand, so that is the next merge of a scan that asks the strongest first.
    """
    ledger = judge.ledger
    ranked.rank_by(None if by_loss else judge.limit)

    def row(block: int) -> Row:
        judge.tick()
        ledger.n_comparisons += ranked.n_candidates(block)
        return ranked.row(block)

    def first_rows() -> Iterator[tuple[int, Row]]:
        for block, first in ranked.first_rows():
            judge.tick()
            ledger.n_comparisons += block
            yield block, first

    pairs = RankedRows(judge.space.n_variables, judge.losses, None, first_rows(), find=row)
    while (pair := pairs.smallest()) is not None:
        block, other, loss = pair.first, pair.second, pair.key
        if not by_loss:
            loss = float(judge.losses(block, np.array([other]))[0])
        elif loss > judge.limit:
            break
        judge.merge(block, other, loss, None)
        pairs.merged(block, other)
    refused, refused_loss = ledger.refusals()
    nearest = ranked.refusals()
    known = nearest.losses < np.inf
    refused_loss[nearest.blocks] = nearest.losses
    refused[nearest.blocks] = np.where(known, nearest.others, -1)
    ledger.best_refused = min(ranked.best_refused, float(nearest.losses.min(initial=np.inf)))
    return ledger.close()


def refuse_the_rest(judge: Judge, left: IntArray) -> MergeHistory:
    """Everybody left has refused everybody else; say so as they stand now."""
    ledger = judge.ledger
    for leader in map(int, left):
        ledger.forget_refusals(leader)
    nearest = np.full(judge.space.n_variables, np.inf)
    for leader in map(int, left):
        others = left[left > leader]
        if not others.size:
            continue
        losses = judge.all_losses(leader, others)
        ledger.refuse(leader, others, losses)
        closer = losses < nearest[others]
        nearest[others[closer]] = losses[closer]
        ledger.refuse_pairs(np.full(int(closer.sum()), leader), others[closer], losses[closer])
    return ledger.close()
