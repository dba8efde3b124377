"""A real cluster of processes, some of which are killed: the fit completes, or says what failed."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import KFold
from sklearn.tree import DecisionTreeRegressor

from ctfa import CTFARegressor, TargetAggregator
from ctfa.datasets import make_paper_synthetic

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

# What the cluster says of its own processes' ends is not ours to judge.
pytestmark = pytest.mark.filterwarnings("default")

N_CHUNKS = 12


@pytest.fixture(autouse=True)
def patience():
    """A cluster that never answers fails a test, and does not hold up the others."""

    def give_up(*_):
        raise TimeoutError("the cluster has not answered for four minutes")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(240)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def data():
    X, Y = make_paper_synthetic(600, n_features=12, n_targets=6, random_state=0)
    return X, Y, CTFARegressor(targets=TargetAggregator(cv=4)).fit(X, Y)


@pytest.fixture(scope="module")
def cluster():
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 2}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as started,
    ):
        yield started


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as connected:
        yield connected


def chunks(X, then=None):
    """X in chunks, each computed by a task that may do something first."""
    # A new name each time: a scheduler may still remember that a task of this name had failed.
    lazy = da.from_array(X, chunks=(len(X) // N_CHUNKS, -1), name=False)
    if then is None:
        return lazy
    return lazy.map_blocks(then, dtype=float, meta=np.empty((0, 0)))


def fit(X, Y, then=None):
    model = CTFARegressor(targets=TargetAggregator(cv=4))
    return model.fit(chunks(X, then), chunks(Y))


def same(one, two, X):
    assert one.partition_ == two.partition_
    np.testing.assert_allclose(one.history_.loss, two.history_.loss, rtol=1e-8)
    np.testing.assert_allclose(one.predict(X), two.predict(X), rtol=1e-8)


def number_of(block_info):
    return block_info[0]["chunk-location"][0]


def test_workers_in_other_processes_find_the_same_groups(client, data):
    X, Y, in_memory = data
    model = fit(X, Y)
    same(model, in_memory, X)
    np.testing.assert_allclose(model.predict(chunks(X)).compute(), in_memory.predict(X), rtol=1e-8)


def test_work_on_groups_and_subsamples_goes_to_the_workers(client, data):
    X, Y, _ = data
    model = CTFARegressor(DecisionTreeRegressor(max_depth=3, random_state=0), n_jobs=2)
    here = clone(model).fit(X, Y)
    with joblib.parallel_config(backend="dask"):
        there = clone(model).fit(chunks(X), chunks(Y))
        shares = there.stability(X, Y, cv=KFold(4))
    same(there, here, X)
    np.testing.assert_array_equal(shares, here.stability(X, Y, cv=KFold(4)))


@pytest.mark.more
def test_a_worker_that_is_killed_once_changes_nothing(client, data, tmp_path):
    X, Y, in_memory = data
    mark = str(tmp_path / "killed")

    def die_once(block, block_info=None):
        if number_of(block_info) == 7 and not os.path.exists(mark):
            with open(mark, "w") as file:
                file.write(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        return block

    model = fit(X, Y, die_once)
    assert os.path.exists(mark)
    same(model, in_memory, X)


@pytest.mark.more
def test_a_worker_killed_from_outside_in_the_middle_changes_nothing(client, data):
    X, Y, in_memory = data

    def slowly(block):
        time.sleep(0.15)
        return block

    victim = next(iter(client.run(os.getpid).values()))
    killer = threading.Timer(0.6, os.kill, (victim, signal.SIGKILL))
    killer.start()
    try:
        same(fit(X, Y, slowly), in_memory, X)
    finally:
        killer.join()


@pytest.mark.more
def test_a_chunk_that_kills_every_worker_ends_in_one_clear_error(client, data):
    X, Y, in_memory = data

    def die(block, block_info=None):
        if number_of(block_info) == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return block

    with pytest.raises(RuntimeError, match=r"could not be read in chunks \(KilledWorker"):
        fit(X, Y, die)
    same(fit(X, Y), in_memory, X)


class Asked(distributed.diagnostics.plugin.SchedulerPlugin):
    """The names of all tasks that a scheduler was asked for."""

    def __init__(self):
        self.names = set()

    def transition(self, key, start, finish, *args, **kwargs):
        self.names.add(str(key))


def test_fits_of_arrays_with_names_of_their_own_share_no_task(client, cluster, data):
    """A scheduler may remember a task that died beside a worker, and refuse whoever asks again."""
    X, Y, _ = data
    fits = [Asked(), Asked()]
    for asked in fits:
        cluster.scheduler.add_plugin(asked, name="asked")
        fit(X, Y)
        cluster.scheduler.remove_plugin(name="asked")
    first, second = (asked.names for asked in fits)
    assert first
    assert not first & second


def test_a_chunk_that_raises_ends_in_one_clear_error_and_keeps_the_model(client, data):
    X, Y, in_memory = data

    def fail(block, block_info=None):
        if number_of(block_info) == 5:
            raise OSError("the disk is gone")
        return block

    model = CTFARegressor(targets=TargetAggregator(cv=4)).fit(X, Y)
    with pytest.raises(RuntimeError, match=r"the disk is gone.*Nothing was fitted") as caught:
        model.fit(chunks(X[:, :5], fail), chunks(Y))
    assert isinstance(caught.value.__cause__, OSError)
    same(model, in_memory, X)


def test_bad_numbers_found_by_a_worker_are_named(client, data):
    X, Y, _ = data
    X = X.copy()
    X[333, 4] = np.nan
    with pytest.raises(ValueError, match="first NaN at row 333, column 4"):
        fit(X, Y)


@pytest.fixture
def apart(tmp_path):
    """A scheduler and a worker as processes of their own, and a client."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": tmp_path}
    command = [sys.executable, "-m"]
    scheduler = subprocess.Popen(
        [*command, "distributed.cli.dask_scheduler", "--port", str(port), "--no-dashboard"], **quiet
    )
    worker = subprocess.Popen(
        [*command, "distributed.cli.dask_worker", address, "--no-dashboard"], **quiet
    )
    client = None
    try:
        client = distributed.Client(address, timeout=60)
        client.wait_for_workers(1, timeout=60)
        yield scheduler, client
    finally:
        for process in (worker, scheduler):
            process.kill()
            process.wait()
        if client is not None:
            client.close(timeout=5)


def fails_when(what, X, Y):
    """Fit, and have something happen meanwhile."""
    soon = threading.Timer(1.0, what)
    soon.start()
    try:
        with pytest.raises(RuntimeError, match="could not be read in chunks"):
            fit(X, Y, lambda block: time.sleep(0.5) or block)
    finally:
        soon.join()


@pytest.mark.more
def test_a_restart_in_the_middle_ends_in_one_clear_error(apart, data):
    X, Y, in_memory = data
    _, client = apart
    # Without waiting for new workers, which a busy machine starts slowly.
    fails_when(lambda: client.restart(wait_for_workers=False), X, Y)
    with dask.config.set(scheduler="threads"):
        same(fit(X, Y), in_memory, X)


@pytest.mark.more
def test_a_scheduler_that_dies_ends_in_one_clear_error(apart, data):
    X, Y, in_memory = data
    scheduler, _ = apart
    fails_when(scheduler.kill, X, Y)
    with dask.config.set(scheduler="threads"):
        same(fit(X, Y), in_memory, X)
