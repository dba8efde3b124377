"""The order of pairs, with the ties that balanced data have."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from ctfa import FeatureAggregator
from ctfa.core.agenda import NearestPairs, PairList, RankedPairs


def pairs_of(slots):
    return [(a, b) for k, a in enumerate(slots) for b in slots[k + 1 :]]


@given(seed=st.integers(0, 100_000), levels=st.integers(1, 6), chunk=st.sampled_from([1, 3, 64]))
@settings(max_examples=150, deadline=None)
def test_ranked_pairs_come_strongest_first_then_by_index_whatever_ties(seed, levels, chunk):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 9))
    strength = {pair: float(rng.integers(levels)) for pair in pairs_of(range(n))}
    first, second = map(np.array, zip(*strength, strict=True))
    ranked = RankedPairs(n, PairList(np.array(list(strength.values())), first, second))
    alive = list(range(n))
    while True:
        expected = sorted(strength, key=lambda pair: (-strength[pair], *pair))
        shown = list(zip(*(part.tolist() for part in ranked.peek(chunk)), strict=True))
        assert shown == expected[:chunk]
        if not shown:
            break
        n_dropped = int(rng.integers(1, len(shown) + 1))
        for pair in shown[:n_dropped]:
            del strength[pair]
        ranked.drop(n_dropped)
        if rng.uniform() < 0.6:  # the last of them is accepted and merges
            block, other = shown[n_dropped - 1]
            alive.remove(other)
            partners = np.array([slot for slot in alive if slot != block], dtype=int)
            new = rng.integers(levels, size=partners.size).astype(float)
            strength = {p: s for p, s in strength.items() if not {block, other} & set(p)}
            for partner, value in zip(partners.tolist(), new, strict=True):
                strength[(min(block, partner), max(block, partner))] = value
            ranked.merged(block, other, partners, new)


@given(seed=st.integers(0, 100_000), levels=st.integers(1, 6))
@settings(max_examples=150, deadline=None)
def test_nearest_pairs_are_the_smallest_then_the_first_whatever_ties(seed, levels):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 10))
    key = {pair: float(rng.integers(levels)) for pair in pairs_of(range(n))}

    def keys(block, others):
        return np.array([key[(min(block, o), max(block, o))] for o in others.tolist()])

    nearest = NearestPairs(n, keys, None)
    while key:
        block, other, value = nearest.smallest()
        assert (block, other) == min(key, key=lambda pair: (key[pair], *pair))
        assert value == key[(block, other)]
        key = {pair: v for pair, v in key.items() if other not in pair}
        for pair in key:
            if block in pair:
                key[pair] = float(rng.integers(levels))
        nearest.merged(block, other)
    assert nearest.smallest() is None


@pytest.mark.parametrize("min_correlation", [-1.0, 0.2])
def test_threshold_coded_factors_whose_correlations_tie_are_merged_as_by_refitting(min_correlation):
    compared = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        levels = np.array(np.meshgrid(*[range(4)] * 3)).reshape(3, -1).T
        X = np.column_stack([levels[:, [f]] >= k for f in range(3) for k in (1, 2, 3)]).astype(
            float
        )
        y = X @ rng.choice([0.0, 1.0], size=9) + rng.normal(size=len(X))
        found = FeatureAggregator(max_loss=4.0, min_correlation=min_correlation).fit(X, y)
        expected = oracle.phase_two(
            X,
            y,
            4.0,
            criterion="risk",
            scan="correlation",
            min_correlation=min_correlation,
            tie=1e-9,
        )
        if expected.margin(4.0) > 1e-8:
            compared += 1
            assert found.labels_.tolist() == list(expected.labels)
    assert compared >= 30
