"""Value types: partitions and histories."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster import hierarchy

from ctfa.core.history import Ledger
from ctfa.core.partition import Partition

labels = st.lists(st.integers(0, 5), min_size=1, max_size=12)


@given(labels)
def test_labels_count_groups_by_first_member(given_labels):
    partition = Partition(np.array(given_labels))
    first_seen = list(dict.fromkeys(partition.labels.tolist()))
    assert first_seen == list(range(partition.n_groups))
    assert Partition.from_groups(partition.groups) == partition


@given(labels, st.integers(0, 100))
def test_means_and_spreads_are_those_of_the_groups(given_labels, seed):
    partition = Partition(np.array(given_labels))
    columns = np.random.default_rng(seed).normal(size=(3, partition.n_variables))
    means = partition.mean(columns)
    for group, members in enumerate(partition.groups):
        np.testing.assert_allclose(means[:, group], columns[:, members].mean(axis=1))
        assert (partition.spread(means)[:, members] == means[:, [group]]).all()


def test_equal_groups_are_equal_partitions_whatever_their_labels():
    assert Partition(np.array([5, 2, 5])) == Partition(np.array([0, 1, 0]))
    assert hash(Partition(np.array([5, 2, 5]))) == hash(Partition(np.array([0, 1, 0])))
    assert Partition(np.array([0, 1, 1])) != Partition(np.array([0, 1, 0]))


def test_groups_that_miss_or_repeat_a_variable_are_refused():
    for groups in ([[0, 1], [1]], [[0], [2]]):
        with pytest.raises(ValueError, match="exactly once"):
            Partition.from_groups(groups)
    with pytest.raises(ValueError, match="one per variable"):
        Partition(np.zeros((2, 2), dtype=int))


def test_labels_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        Partition(np.array([0, 1])).labels[0] = 1


def history():
    ledger = Ledger(5)
    ledger.accept(3, 4, -0.5)
    ledger.accept(0, 2, 0.1)
    ledger.accept(0, 3, 0.7)
    ledger.refuse(0, np.array([1]), np.array([2.0]))
    return ledger.close()


def test_a_history_gives_its_partition_and_that_of_any_smaller_limit():
    assert history().partition().labels.tolist() == [0, 1, 0, 0, 0]
    assert history().partition(0.1).labels.tolist() == [0, 1, 0, 2, 2]
    assert history().interval(0.3) == (0.1, 0.7)
    assert history().loss_interval == (0.7, 2.0)
    assert history().refused[0] == 1


def test_a_history_is_a_linkage_that_scipy_can_draw():
    ledger = Ledger(4)
    for block, other, loss in [(0, 1, -0.5), (2, 3, -0.6), (0, 2, 3.0)]:
        ledger.accept(block, other, loss)
    linkage = ledger.close().linkage()
    assert hierarchy.is_valid_linkage(linkage)
    assert linkage[:, 3].tolist() == [2, 2, 4]
    assert linkage[:, 2].tolist() == [0.0, 0.0, 3.5]
    assert hierarchy.dendrogram(linkage, no_plot=True)["leaves"] == [0, 1, 2, 3]


def test_a_history_is_a_frame_of_merges():
    frame = history().to_frame()
    assert frame.columns.tolist() == ["block", "other", "loss", "size"]
    assert frame["size"].tolist() == [2, 2, 4]


def test_slopes_shared_out_to_members_predict_what_those_on_the_means_do():
    columns = np.random.default_rng(0).normal(size=(7, 5))
    partition, slopes = Partition([0, 1, 0, 2, 0]), np.array([[3.0, -1.0, 2.0], [0.0, 4.0, 1.0]])
    expected = partition.mean(columns) @ slopes.T
    np.testing.assert_allclose(columns @ partition.share_out(slopes).T, expected)
