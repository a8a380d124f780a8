"""The same work on every engine: the same bits, shipped once, compiled once; and deaths."""

import os
import signal
import sys
from collections import Counter

import jax.numpy as jnp
import joblib
import numpy as np
import pandas as pd
import psutil
import pytest
from joblib.externals import loky

import engine_tasks
import pomdpfit as pf
from engines import Engines, dask_cluster, ray_cluster
from pomdpfit._engine import _make_ray_backend, find_engine
from pomdpfit._parallel import run_all, run_as_finished, run_parallel
from small_bus import bus_fit, draw_panel
from small_hidden import ENGINE, PRIOR, TRUTH, hidden_fit, hidden_panel

EVERY = ["loky", "dask", "ray"]
FINE = 1.0 + 2.0**-40  # lost in 32 bits
OPTIONS = {"seed": 3, "chunk": 1, "batch": 1}


@pytest.fixture(scope="module")
def dask_engine(tmp_path_factory):
    with dask_cluster(tmp_path_factory.mktemp("dask")) as client:
        yield client


@pytest.fixture(scope="module")
def ray_engine():
    with ray_cluster():
        yield joblib.parallel.BACKENDS["ray"]()  # pomdpfit has told joblib of it


@pytest.fixture
def on(request):
    return Engines(request)


@pytest.fixture(scope="module")
def estimate():
    return bus_fit(draw_panel(0, agents=40), skip_hessian=True)


@pytest.fixture(scope="module")
def alone(estimate):
    """The bootstrap in this process."""
    return pf.bootstrap(estimate, 8, n_jobs=1, **OPTIONS)


def workers():
    """Loky's processes."""
    children = psutil.Process().children(recursive=True)
    return [child.pid for child in children if "popen_loky" in " ".join(child.cmdline())]


# ---- the same work ------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("engine", EVERY)
def test_a_bootstrap_ends_in_the_same_bits(engine, on, estimate, alone):
    """Nobody hands over n_jobs: what joblib is configured for is enough."""
    heard = []
    with on(engine):
        found = pf.bootstrap(estimate, 8, **OPTIONS, progress=lambda *what: heard.append(what))
    pd.testing.assert_frame_equal(found.draws, alone.draws, check_exact=True)
    pd.testing.assert_frame_equal(found.info, alone.info, check_exact=True)
    assert found.to_json() == alone.to_json()
    assert heard == [("bootstrap", done, 8) for done in range(9)]


@pytest.mark.full
@pytest.mark.parametrize("engine", EVERY)
def test_shared_things_are_opened_once_in_each_worker(engine, on, tmp_path):
    """Whatever the number of tasks and of calls; and 64-bit floats arrive as such."""
    pf.models.Tiger().example()  # switches 64-bit floats on here; a new process starts without
    log = tmp_path / "opened.txt"
    shared = engine_tasks.Witnessed(log, jnp.array([FINE]))
    tasks = [(k,) for k in range(12)]
    with on(engine):
        for _ in range(2):
            found = list(run_parallel(engine_tasks.seen, (shared,), tasks, None))
            assert [row[1:] for row in found] == [("float64", FINE, k) for k in range(12)]
            assert os.getpid() not in {row[0] for row in found}
    opened = Counter(log.read_text().split())
    assert set(opened.values()) == {1}
    assert 1 <= len(opened) <= 2


@pytest.mark.full
@pytest.mark.parametrize("engine", EVERY)
def test_a_worker_compiles_once(engine, on):
    panel = pf.Panel.from_arrays([[0, 1, 2], [1, 2, 3]], [[0, 0], [0, 0]])
    likelihood = pf.Likelihood(ENGINE, panel, prior=PRIOR, grid=pf.Linear(5))
    tasks = [(TRUTH | {"stay": np.array([0.8, 0.7 + 0.02 * k])},) for k in range(6)]
    with on(engine):
        found = run_all(engine_tasks.evaluate, (likelihood,), tasks, None, lambda done: None)
        found += run_all(engine_tasks.evaluate, (likelihood,), tasks, None, lambda done: None)
    for worker in {row[0] for row in found}:
        mine = sorted((before, after) for pid, before, after, _ in found if pid == worker)
        assert mine[0][1] > mine[0][0]  # the first task compiles
        assert {after for _, after in mine} == {mine[0][1]}  # and no other
    want = [engine_tasks.evaluate(likelihood, *task)[-1] for task in tasks]
    assert [row[-1] for row in found] == want * 2


@pytest.mark.full
@pytest.mark.parametrize("engine", [*EVERY, "threading"])
def test_no_result_waits_for_a_slower_one(engine, on, tmp_path):
    """The slow task ends when the driver has heard of another: held back, it would never."""
    go, heard = tmp_path / "go", []
    with on(engine):
        tasks = [(k,) for k in range(4)]
        for number, result in run_as_finished(engine_tasks.wait_for, (str(go),), tasks, None):
            assert number == result
            heard.append(number)
            go.touch()
    assert heard[0] != 0
    assert sorted(heard) == [0, 1, 2, 3]


@pytest.mark.full
@pytest.mark.parametrize("engine", EVERY)
def test_work_inside_a_task_stays_in_its_process(engine, on):
    with on(engine):
        for pid, inner in run_parallel(engine_tasks.inside, (), [(0,), (1,)], None):
            assert inner == [pid, pid]


@pytest.mark.full
@pytest.mark.parametrize("engine", EVERY)
def test_an_error_of_a_task_is_raised_here_and_the_engine_serves_on(engine, on):
    with on(engine):
        with pytest.raises(ArithmeticError, match="task 0 cannot be done"):
            list(run_parallel(engine_tasks.fail, (), [(0,)], None))
        assert len(list(run_parallel(engine_tasks.where, (), [(0,), (1,)], None))) == 2


@pytest.mark.full
@pytest.mark.parametrize("engine", EVERY)
def test_starts_of_a_fit_go_to_workers_and_are_kept_here(engine, on, tmp_path, monkeypatch):
    """Also where the folder has a relative name, and workers stand elsewhere."""
    monkeypatch.chdir(tmp_path)
    panel = draw_panel(0, agents=40)
    options = {"starts": 3, "seed": 5, "skip_hessian": True}
    whole = bus_fit(panel, **options)
    with on(engine):
        found = bus_fit(panel, **options, checkpoint="kept")
    pd.testing.assert_frame_equal(found.starts, whole.starts, check_exact=True)
    pd.testing.assert_series_equal(found.params, whole.params, check_exact=True)
    finished = sorted(path.name for path in (tmp_path / "kept").glob("stage-1-*.zip"))
    assert finished == [f"stage-1-start-00{k}.zip" for k in (1, 2, 3)]
    (tmp_path / "kept" / finished[0]).unlink()
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "kept").glob("stage-*.zip")}
    with on(engine):
        again = bus_fit(panel, **options, checkpoint="kept")
    pd.testing.assert_frame_equal(again.starts, whole.starts, check_exact=True)
    assert (tmp_path / "kept" / finished[0]).exists()
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps  # read, not climbed again


@pytest.mark.full
@pytest.mark.parametrize("engine", EVERY)
def test_a_study_ends_in_the_same_bits(engine, on):
    bus = pf.baselines.BusEngine(bins=12, increments=3, discount=0.9)
    theta = {"RC": 60.0, "cost": 1.0, "increment": np.array([0.3, 0.5, 0.2]), "discount": 0.9}
    options = {
        "agents": [20],
        "periods": [2, 4],
        "replications": 4,
        "chunk": 2,
        "estimator": pf.TwoStage(),
        "fixed": {"RC": 60.0, "cost": 1.0},
        "skip_hessian": True,
        "information": 0,
        "seed": 1,
    }
    alone = pf.design(bus, theta, **options, n_jobs=1)
    with on(engine):
        found = pf.design(bus, theta, **options)
    assert found.to_json() == alone.to_json()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files") / "data"
    means = {"agents": 9, "periods": 5, "seed": 1, "agents_per_file": 3, "prior": PRIOR}
    return pf.simulate_parquet(ENGINE, TRUTH, folder, grid=pf.Linear(3), **means)


@pytest.mark.full
@pytest.mark.parametrize("engine", EVERY)
def test_files_are_summed_to_the_same_bits(engine, on, files):
    """Workers read the files themselves, and sums come back in the order of the files."""
    make = lambda part: pf.Likelihood(ENGINE, part, prior=PRIOR, grid=pf.Linear(3))
    ones, alone = np.ones((9, 2)), pf.StreamedLikelihood(make, files, n_jobs=1)
    names = alone.space.free_leaves
    terms, slope = alone.pull(TRUTH, ones, names)
    with on(engine):
        found, their_slope = pf.StreamedLikelihood(make, files).pull(TRUTH, ones, names)
    assert found.total == terms.total
    assert all(np.array_equal(their_slope[name], slope[name]) for name in names)


@pytest.fixture(scope="module", params=[1, 4])
def side_by_side(request):
    """A bootstrap with hidden states in this process, one after the other and in batches."""
    est = hidden_fit(hidden_panel(), starts=1, skip_hessian=True)
    options = {"seed": 3, "chunk": 4, "batch": request.param}
    return est, options, pf.bootstrap(est, 12, n_jobs=1, **options)


@pytest.mark.full
@pytest.mark.parametrize("engine", EVERY)
def test_a_bootstrap_with_hidden_states_ends_in_the_same_bits(engine, on, side_by_side):
    est, options, alone = side_by_side
    with on(engine):
        found = pf.bootstrap(est, 12, **options)
    assert found.to_json() == alone.to_json()


# ---- which engine -------------------------------------------------------------------------------


def test_without_a_configuration_work_is_done_here():
    assert find_engine(None).here
    assert list(run_parallel(engine_tasks.where, (), [(0,)], None)) == [os.getpid()]
    with joblib.parallel_config(backend="loky", n_jobs=2):
        assert not find_engine(None).here
        assert find_engine(1).here
        assert find_engine(3).jobs == 3
    assert find_engine(2).jobs == 2
    assert find_engine(-1).jobs == joblib.cpu_count()


@pytest.mark.parametrize("n_jobs", [0, 1.5, "two"])
def test_what_is_no_number_of_processes_is_refused(n_jobs, estimate):
    with pytest.raises(pf.EstimationError, match=f"n_jobs must be at least 1.*{n_jobs!r}"):
        pf.bootstrap(estimate, 2, n_jobs=n_jobs)


def test_a_backend_that_forks_is_refused(estimate):
    with (
        joblib.parallel_config(backend="multiprocessing", n_jobs=2),
        pytest.raises(pf.EstimationError, match=r"forks this process.*loky"),
    ):
        pf.bootstrap(estimate, 2)


@pytest.mark.full
def test_each_thread_has_its_own_copy_of_what_is_shared():
    """A likelihood remembers what it has found: two threads must not do that to the same one."""
    with joblib.parallel_config(backend="threading", n_jobs=2):
        tasks = [(k,) for k in range(8)]
        found = list(run_parallel(engine_tasks.thread_of, (np.arange(3.0),), tasks, None))
    assert len({copy for copy, _ in found}) == 2
    assert all(content == [0.0, 1.0, 2.0] for _, content in found)


def test_an_engine_that_is_not_installed_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(joblib.parallel.BACKENDS, "ray", _make_ray_backend)
    monkeypatch.setitem(sys.modules, "ray.util.joblib.ray_backend", None)
    with pytest.raises(pf.MissingExtraError, match=r"pip install 'pomdpfit\[ray\]'"):
        joblib.parallel_config(backend="ray")


@pytest.mark.full
def test_what_loky_was_sent_is_removed(tmp_path):
    shared = np.arange(1000.0)
    loky.get_reusable_executor().shutdown()  # which would go on using its first folder
    files = lambda: [path for path in tmp_path.rglob("*") if path.is_file()]
    with joblib.parallel_config(backend="loky", n_jobs=2, temp_folder=tmp_path):
        results = run_parallel(engine_tasks.thread_of, (shared,), [(k,) for k in range(6)], None)
        next(results)
        assert len(files()) == 1  # for all tasks
        assert len(list(results)) == 5
    assert files() == []


# ---- deaths -------------------------------------------------------------------------------------


@pytest.mark.full
def test_when_a_process_of_loky_dies_what_was_finished_is_kept(estimate, alone, tmp_path):
    def kill(what, done, total):
        if done == 1:
            os.kill(workers()[0], signal.SIGKILL)

    run = lambda **more: pf.bootstrap(estimate, 8, n_jobs=2, **OPTIONS, checkpoint=tmp_path, **more)
    with pytest.raises(pf.WorkerError, match=r"worker process died.*finished before.*fewer"):
        run(progress=kill)
    kept = sorted(path.name for path in tmp_path.glob("chunk-*.json"))
    assert 1 <= len(kept) < 8
    heard = []
    found = run(progress=lambda *what: heard.append(what))
    assert heard[0][0].startswith(f"resumed: {len(kept)} of 8")
    assert found.to_json() == alone.to_json()


@pytest.mark.full
def test_when_a_worker_of_dask_dies_the_result_is_the_same(dask_engine, estimate, alone):
    """Its supervisor starts another, and the scheduler gives that the work again."""
    pids = list(dask_engine.run(os.getpid).values())
    assert len(pids) == 2

    def kill(what, done, total):
        if done == 1:
            os.kill(pids[0], signal.SIGKILL)

    with joblib.parallel_config(backend="dask"):
        found = pf.bootstrap(estimate, 8, **OPTIONS, progress=kill)
    assert found.to_json() == alone.to_json()
    assert not psutil.pid_exists(pids[0])


@pytest.mark.full
def test_when_all_workers_of_dask_die_the_result_is_the_same(dask_engine, estimate, alone):
    """What tasks share died with them, and is shipped again."""
    dask_engine.wait_for_workers(2, timeout=120)
    pids = list(dask_engine.run(os.getpid).values())

    def kill(what, done, total):
        if done == 1:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)

    with joblib.parallel_config(backend="dask"):
        found = pf.bootstrap(estimate, 8, **OPTIONS, progress=kill)
    assert found.to_json() == alone.to_json()


@pytest.mark.full
def test_a_task_that_kills_every_worker_of_dask_is_told(dask_engine):
    dask_engine.wait_for_workers(2, timeout=120)
    with (
        joblib.parallel_config(backend="dask"),
        pytest.raises(pf.WorkerError, match="Dask gave a task up"),
    ):
        list(run_parallel(engine_tasks.die, (), [(0,)], None))


@pytest.mark.full
def test_when_a_worker_of_ray_dies_the_result_is_the_same(ray_engine, estimate, alone):
    with joblib.parallel_config(backend="ray"):
        pids = list(run_parallel(engine_tasks.where, (), [(0,), (1,)], None))

        def kill(what, done, total):
            if done == 1:
                os.kill(pids[0], signal.SIGKILL)

        found = pf.bootstrap(estimate, 8, **OPTIONS, progress=kill)
    assert found.to_json() == alone.to_json()
    assert not psutil.pid_exists(pids[0])


@pytest.mark.full
def test_a_task_that_kills_every_worker_of_ray_is_told(ray_engine):
    args = {"max_restarts": 0, "max_task_retries": 0}
    with (
        joblib.parallel_config(backend="ray", ray_remote_args=args),
        pytest.raises(pf.WorkerError, match="Ray started a worker again"),
    ):
        list(run_parallel(engine_tasks.die, (), [(0,)], None))
