"""Bootstrap: replicates against fits to repeated agents, seeds, checkpoints, and sudden death."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bootstrap_script
import pomdpfit as pf
from pomdpfit._sealed import sealed
from pomdpfit.inference import _bootstrap
from small_bus import TRUTH, bus_fit, draw_panel
from small_hidden import hidden_fit, hidden_panel

# Both climbs end where the promised gain is below 1e-8: within sqrt(2e-8) standard errors of the
# maximum each, by a quadratic model that is right to a few percent there.
NEAR = 2 * np.sqrt(2e-8) * 1.1


@pytest.fixture(scope="module")
def ragged():
    """Agents of unlike length, a last row without an action, choices and transitions left out."""
    panel = draw_panel(0, agents=40)
    rng = np.random.default_rng(0)
    lengths = rng.integers(4, 13, size=40)
    z = [row[:n] for row, n in zip(panel.z, lengths, strict=True)]
    a = [row[: n - (i % 3 == 0)] for i, (row, n) in enumerate(zip(panel.a, lengths, strict=True))]
    panel = pf.Panel.from_arrays(z, a, agents=[f"bus {i}" for i in range(40)])
    panel = panel.score(choice=rng.random(panel.z.shape) < 0.9)
    return panel.exclude_transitions(rng.random(panel.z.shape) < 0.05)


@pytest.fixture(scope="module")
def joint(ragged):
    return bus_fit(ragged)


@pytest.fixture(scope="module")
def staged(ragged):
    return bus_fit(ragged, pf.TwoStage())


@pytest.fixture(scope="module")
def five(joint):
    return pf.bootstrap(joint, 5, seed=3, chunk=2)


def drawn(seed, b, agents):
    """How often replicate b drew each agent: the seed and b say it all."""
    return np.random.default_rng([seed, b]).multinomial(agents, np.full(agents, 1 / agents))


def repeated(panel, counts):
    """The panel in which agent i is there counts[i] times, under names of their own."""
    rows = np.repeat(np.arange(panel.agent_count), counts)
    return pf.Panel(
        **{
            name: getattr(panel, name)[rows]
            for name in (
                "z",
                "a",
                "present",
                "acted",
                "score_observation",
                "score_choice",
                "informs",
                "entry",
                "times",
            )
        },
        agents=tuple(f"copy {k} of {panel.agents[i]}" for k, i in enumerate(rows)),
    )


# ---- replicates ---------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["joint", "staged"])
def test_a_replicate_is_the_fit_to_repeated_agents(which, request):
    est = request.getfixturevalue(which)
    found = pf.bootstrap(est, 3, seed=3)
    for b in range(3):
        counts = drawn(3, b, est.panel.agent_count)
        assert counts.max() > 1
        again = bus_fit(repeated(est.panel, counts), est.setting.estimator, start=est.theta)
        gap = (found.draws.loc[b] - again.params) / again.bse
        assert np.abs(gap).max() < NEAR
        # Each is below its maximum by at most the promised gain, stage by stage.
        assert found.info.loc[b, "llf"] == pytest.approx(again.llf, abs=4e-8)
        assert found.info.loc[b, "converged"]


def test_a_replicate_with_hidden_states_is_the_fit_to_repeated_agents():
    panel = hidden_panel()
    est = hidden_fit(panel, starts=1, skip_hessian=True)
    found = pf.bootstrap(est, 2, seed=1)
    counts = drawn(1, 1, panel.agent_count)
    again = hidden_fit(repeated(panel, counts), starts=1, start=est.theta, skip_hessian=True)
    assert np.abs((found.draws.loc[1] - again.params) / again.bse).max() < NEAR
    assert found.info.loc[1, "llf"] == pytest.approx(again.llf, abs=4e-8)


def test_draws_of_increments_are_weighted_shares():
    """Two stages, and mileage that never reaches the last bin: shares are the estimates."""
    model = pf.baselines.BusEngine(bins=30, increments=3, discount=0.9)
    panel = draw_panel(4, agents=30, periods=8, model=model, first=6)
    assert panel.z.max() < 27
    est = bus_fit(panel, pf.TwoStage(), model=model)
    steps = np.diff(panel.z, axis=1)
    kept = panel.a[:, :-1] == 0
    counts = np.stack([((steps == k) & kept).sum(axis=1) for k in range(3)], axis=1)
    found = pf.bootstrap(est, 4, seed=8)
    for b in range(4):
        total = drawn(8, b, 30) @ counts
        share = total / total.sum()
        se = np.sqrt(share * (1 - share) / total.sum())
        assert (np.abs(found.draws.loc[b].iloc[2:] - share) < NEAR * se).all()


def test_a_parametric_replicate_is_the_fit_to_a_simulated_panel(joint):
    found = pf.bootstrap(joint, 2, seed=3, parametric=True)
    assert found.parametric
    for b in range(2):
        seed = int(np.random.default_rng([3, b]).integers(2**31))
        again = bus_fit(joint.simulate(seed), start=joint.theta)
        assert np.abs((found.draws.loc[b] - again.params) / again.bse).max() < NEAR
        assert found.info.loc[b, "llf"] == pytest.approx(again.llf, abs=4e-8)


def test_simulated_panels_have_the_shape_of_the_data(joint, ragged):
    made = joint.simulate(5)
    assert made.agents == ragged.agents
    np.testing.assert_array_equal(made.z[:, 0], ragged.z[:, 0])
    for name in ("present", "acted", "score_choice", "entry", "times"):
        np.testing.assert_array_equal(getattr(made, name), getattr(ragged, name))
    # What was excluded because it could not be explained has been made by the model here.
    np.testing.assert_array_equal(made.informs, ragged.continues)
    np.testing.assert_array_equal(made.score_observation, ragged.continues)
    assert (made.z[~ragged.present] == 0).all()
    assert not np.array_equal(made.z, ragged.z)


def test_restrictions_and_fixed_values_hold_in_every_draw(ragged):
    est = bus_fit(ragged, fixed={"RC": 2.0}, constraints="increment[0] = increment[2]")
    found = pf.bootstrap(est, 3, seed=0)
    assert list(found.draws.columns) == list(est.params.index)
    np.testing.assert_allclose(found.draws["increment[0]"], found.draws["increment[2]"], atol=1e-14)
    np.testing.assert_allclose(found.draws.filter(like="increment").sum(axis=1), 1, atol=1e-14)


# ---- seeds --------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_bytes_and_another_one_others(joint, five):
    assert pf.bootstrap(joint, 5, seed=3, chunk=2).to_json() == five.to_json()
    assert not np.isclose(pf.bootstrap(joint, 2, seed=4).draws, five.draws.iloc[:2]).any()
    assert five.seed == 3


@pytest.mark.parametrize(("replicates", "chunk"), [(3, 3), (4, 1), (5, 100)])
def test_a_replicate_does_not_depend_on_the_others(joint, five, replicates, chunk):
    """In one process the same program runs on the same numbers: the same bits."""
    found = pf.bootstrap(joint, replicates, seed=3, chunk=chunk)
    pd.testing.assert_frame_equal(found.draws, five.draws.iloc[:replicates], check_exact=True)
    pd.testing.assert_frame_equal(found.info, five.info.iloc[:replicates], check_exact=True)


@pytest.mark.parametrize(
    ("batch", "message"), [(0, "batch must be at least 1"), (4, "leave batch=None")]
)
def test_batches_that_cannot_be_made_are_refused(joint, batch, message):
    with pytest.raises(pf.EstimationError, match=message):
        pf.bootstrap(joint, 2, batch=batch)


@pytest.mark.full
def test_processes_change_nothing_but_rounding(joint, five):
    """Libraries may use other threads in a worker, and so add up in another order.

    A relative eps in the gradient moves the end of a climb by eps times the log-likelihood's size
    (some hundreds) in standard errors; a hundred steps of arithmetic and a condition number of
    1e3 are well inside 1e-8.
    """
    found = pf.bootstrap(joint, 5, seed=3, chunk=2, n_jobs=2)
    gap = (found.draws - five.draws) / joint.bse
    assert np.abs(gap.to_numpy()).max() < 1e-8
    assert found.info["steps"].tolist() == five.info["steps"].tolist()


# ---- what is said of the draws ------------------------------------------------------------------


def test_summary_statistics_by_hand(joint, five):
    draws = five.draws.to_numpy()
    centred = draws - draws.mean(axis=0)
    np.testing.assert_allclose(five.cov_params(), centred.T @ centred / 4, rtol=1e-12, atol=1e-20)
    np.testing.assert_allclose(five.bse, np.sqrt(np.diag(five.cov_params())), rtol=1e-12)
    ends = np.sort(draws, axis=0)
    # The tenth part of four gaps: 0.4 of the first one.
    interval = five.conf_int(alpha=0.2)
    np.testing.assert_allclose(interval["lower"], 0.6 * ends[0] + 0.4 * ends[1], rtol=1e-12)
    np.testing.assert_allclose(interval["upper"], 0.6 * ends[4] + 0.4 * ends[3], rtol=1e-12)
    table = five.to_frame()
    np.testing.assert_allclose(table["bias"], draws.mean(axis=0) - joint.params, rtol=1e-10)
    assert list(table.index) == list(joint.params.index)


def test_an_estimate_takes_its_covariance_from_a_bootstrap(joint, five):
    V = joint.cov_params(five)
    assert list(V.index) == list(V.columns) == ["RC", "cost", "increment[0]", "increment[1]"]
    np.testing.assert_allclose(V, np.cov(five.draws.to_numpy()[:, :4].T), rtol=1e-12)
    np.testing.assert_allclose(joint.standard_errors(five), five.bse, rtol=1e-9)
    assert "bootstrap" in str(joint.summary(kind=five))


def test_intervals_stay_inside_the_bounds_and_the_share_on_them_is_told():
    """Two agents have seen the rare increment; a replicate without them ends on the bound."""
    panel = draw_panel(6, agents=30, theta=TRUTH | {"increment": np.array([0.4, 0.6, 0.0])})
    z = panel.z.copy()
    last_up = (z[:, 11] == z[:, 10] + 1) & (z[:, 11] < 5) & (panel.a[:, 10] == 0)
    rare = np.flatnonzero(last_up)[:2]
    z[rare, 11] += 1
    est = bus_fit(pf.Panel.from_arrays(z, panel.a), pf.TwoStage())
    name = "increment[2]"
    assert est.conf_int().loc[name, "lower"] < 0
    found = pf.bootstrap(est, 12, seed=0)
    assert (found.conf_int()["lower"] >= [-np.inf, -np.inf, 0, 0, 0]).all()
    assert found.conf_int().loc[name, "upper"] <= 1
    without = [drawn(0, b, 30)[rare].sum() == 0 for b in range(12)]
    assert 0 < sum(without) < 12
    assert found.at_bound[name] == pytest.approx(np.mean(without))
    assert found.at_bound.drop(name).max() == 0
    for b in range(12):
        assert (found.draws.loc[b, name] == 0) == without[b]
        assert found.info.loc[b, "boundary"] == ([name] if without[b] else [])
    assert found.info["converged"].all()


# ---- failures -----------------------------------------------------------------------------------


def strict(text):
    """JSON as the standard has it, without NaN and Infinity."""

    def refuse(name):
        raise ValueError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_a_replicate_that_raises_costs_no_other(joint, five, monkeypatch, tmp_path):
    original = _bootstrap.run_path

    def failing(likelihood, estimator, path, *rest):
        if path.origins == ("1",):
            raise pf.SolveError("the sky fell")
        return original(likelihood, estimator, path, *rest)

    monkeypatch.setattr(_bootstrap, "run_path", failing)
    found = pf.bootstrap(joint, 5, seed=3, chunk=2, checkpoint=tmp_path)
    assert found.failed.to_dict() == {1: "SolveError: the sky fell"}
    assert found.failures.loc["SolveError: the sky fell"].to_dict() == {"count": 1, "which": [1]}
    assert "1 of 5 replicates failed (1): SolveError: the sky fell" in str(found.summary())
    assert found.draws.loc[1].isna().all()
    assert list(found.used.index) == [0, 2, 3, 4]
    pd.testing.assert_frame_equal(found.used, five.draws.drop(1), check_exact=True)
    np.testing.assert_allclose(found.bse, five.draws.drop(1).std(), rtol=1e-12)
    told = strict(found.to_json())
    assert told["draws"][1] == [None] * 5
    assert told["info"][1]["reason"] == "SolveError: the sky fell"
    # A resumed run reads the failure as it was.
    again = pf.bootstrap(joint, 5, seed=3, chunk=2, checkpoint=tmp_path)
    assert again.to_json() == found.to_json()


@pytest.mark.filterwarnings("ignore::pomdpfit.ConvergenceWarning")
def test_replicates_that_do_not_converge_are_kept_apart(ragged):
    est = bus_fit(ragged, pf.TwoStage(pf.BHHH(max_steps=1)), start={"RC": 4.0, "cost": 100.0})
    assert not est.converged
    found = pf.bootstrap(est, 3, seed=0)
    assert not found.info["converged"].any()
    assert found.failed.str.startswith("MAX_STEPS").all()
    assert len(found.failed) == 3
    assert found.draws.isna().all(axis=None)
    assert len(found.used) == 0
    assert found.to_frame()["std err"].isna().all()
    strict(found.to_json())


# ---- checkpoints --------------------------------------------------------------------------------


@pytest.fixture
def folder(joint, tmp_path):
    pf.bootstrap(joint, 4, seed=3, chunk=2, checkpoint=tmp_path / "deep" / "down")
    return tmp_path / "deep" / "down"


def test_a_finished_run_is_read_and_not_done_again(joint, five, folder, monkeypatch):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert sorted(before) == ["chunk-00000.json", "chunk-00001.json", "manifest.json"]
    monkeypatch.setattr(_bootstrap, "_replicate", None)  # which nobody may call
    found = pf.bootstrap(joint, 4, seed=3, chunk=2, checkpoint=folder)
    pd.testing.assert_frame_equal(found.draws, five.draws.iloc[:4], check_exact=True)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_more_replicates_go_on_from_fewer(joint, five, folder):
    assert pf.bootstrap(joint, 5, seed=3, chunk=2, checkpoint=folder).to_json() == five.to_json()
    fewer = pf.bootstrap(joint, 3, seed=3, chunk=2, checkpoint=folder)
    pd.testing.assert_frame_equal(fewer.draws, five.draws.iloc[:3], check_exact=True)


def test_left_over_temporary_files_do_no_harm(joint, five, folder):
    (folder / "chunk-00001.json").rename(folder / ".chunk-00001.json.k3j2h1")
    (folder / ".manifest.json.abc").write_text('{"half')
    (folder / ".chunk-00002.json.xyz").write_bytes(b"")
    assert pf.bootstrap(joint, 5, seed=3, chunk=2, checkpoint=folder).to_json() == five.to_json()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seed": 4}, "seed"),
        ({"chunk": 3}, "chunk"),
        ({"parametric": True}, "parametric"),
    ],
)
def test_another_bootstrap_is_refused_by_name(joint, folder, change, named):
    options = {"seed": 3, "chunk": 2} | change
    with pytest.raises(pf.EstimationError, match=f"another bootstrap: {named} changed"):
        pf.bootstrap(joint, 4, checkpoint=folder, **options)


def test_another_estimate_is_refused_by_name(joint, staged, folder, ragged):
    run = lambda est: pf.bootstrap(est, 4, seed=3, chunk=2, checkpoint=folder)
    with pytest.raises(pf.EstimationError, match="estimator, estimate changed"):
        run(staged)
    mask = np.ones(ragged.z.shape, dtype=bool)
    mask[0, 0] = False
    with pytest.raises(pf.EstimationError, match="panel: scored choices, estimate changed"):
        run(bus_fit(ragged.score(choice=mask)))
    longer = pf.baselines.BusEngine(bins=7, increments=3, discount=0.9)
    with pytest.raises(pf.EstimationError, match="model, estimate changed"):
        run(bus_fit(ragged, model=longer))
    with pytest.raises(pf.EstimationError, match="restrictions"):
        run(bus_fit(ragged, constraints="increment[0] = increment[2]"))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[{",
        b"null",
        b"\xff\xfe",
        b'{"rows": []}',
        None,
        7,
        [1, 2],
        [{}, {}],
        {"a": 1, "b": 2},
        [{"replicate": 2, "reason": ""}, {"replicate": 3, "reason": ""}],
        [{"replicate": 2, "values": [1.0], "reason": ""}, {"replicate": 3, "reason": "x"}],
        [{"replicate": 2, "values": ["a"] * 5, "reason": ""}, {"replicate": 3, "reason": "x"}],
    ],
)
def test_a_damaged_chunk_is_refused(joint, folder, content):
    """As bytes, or as rows under a digest that is right."""
    path = folder / "chunk-00001.json"
    path.write_bytes(content if isinstance(content, bytes) else sealed({"rows": content}))
    with pytest.raises(pf.EstimationError, match=r"chunk-00001\.json is damaged"):
        pf.bootstrap(joint, 4, seed=3, chunk=2, checkpoint=folder)


def test_a_chunk_in_the_place_of_another_is_refused(joint, folder):
    (folder / "chunk-00001.json").write_bytes((folder / "chunk-00000.json").read_bytes())
    with pytest.raises(pf.EstimationError, match=r"chunk-00001\.json is damaged"):
        pf.bootstrap(joint, 4, seed=3, chunk=2, checkpoint=folder)


def test_a_damaged_manifest_is_refused(joint, folder):
    for content in ("{", "[1]"):
        (folder / "manifest.json").write_text(content)
        with pytest.raises(pf.EstimationError, match=r"manifest"):
            pf.bootstrap(joint, 4, seed=3, chunk=2, checkpoint=folder)


# ---- arguments and progress ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"replicates": 1}, "at least 2 replicates, not 1"),
        ({"replicates": 4, "chunk": 0}, "chunk"),
        ({"replicates": 4, "chunk": -2}, "chunk"),
        ({"replicates": 4, "seed": -1}, "seed"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(joint, options, message):
    with pytest.raises(pf.EstimationError, match=message):
        pf.bootstrap(joint, **options)


def test_a_bootstrap_of_another_estimate_is_no_covariance(ragged, five):
    other = bus_fit(ragged, fixed={"RC": 2.0})
    for kind in (five, 3):
        with pytest.raises(pf.EstimationError, match="a bootstrap of this estimate"):
            other.cov_params(kind)


def test_a_bootstrap_gives_errors_where_theory_has_none(joint, five):
    """As with a prior for each agent, whose number grows with the data."""
    est = dataclasses.replace(joint, incidental=40)
    assert est.bse.isna().all()
    assert est.to_frame()["P>|z|"].isna().all()
    frame = est.to_frame(kind=five)
    np.testing.assert_allclose(frame["std err"], five.bse, rtol=1e-9)
    z = joint.params / five.bse
    np.testing.assert_allclose(
        frame["P>|z|"][["RC", "cost"]], 2 * stats.norm.sf(z[["RC", "cost"]]), rtol=1e-6
    )
    assert frame["P>|z|"].filter(like="increment").isna().all()


def test_progress_rises_to_the_total(joint, tmp_path):
    heard = []
    tell = lambda what, done, total: heard.append((what, done, total))
    options = {"seed": 3, "chunk": 2, "checkpoint": tmp_path}
    pf.bootstrap(joint, 4, progress=tell, **options)
    assert [done for _, done, _ in heard] == [0, 1, 2]
    assert {total for *_, total in heard} == {2}
    assert len({what for what, *_ in heard}) == 1  # one bar, not one for each chunk
    heard.clear()
    pf.bootstrap(joint, 5, progress=tell, **options)
    assert heard[0][0].startswith("resumed: 2 of 3 chunks")
    assert [done for _, done, _ in heard[1:]] == [2, 3]
    assert {total for *_, total in heard[1:]} == {3}


# ---- files --------------------------------------------------------------------------------------


def test_what_was_saved_is_loaded_and_nothing_else(five, tmp_path):
    path = tmp_path / "five.json"
    rows = five.info.copy()
    rows.loc[1, ["llf", "converged", "reason"]] = [np.nan, False, "STALLED: no step rises."]
    draws = five.draws.copy()
    draws.loc[1] = np.nan
    failed = dataclasses.replace(five, draws=draws, info=rows.astype(five.info.dtypes))
    for want in (five, failed):
        want.save(path)
        found = pf.Bootstrap.load(path)
        pd.testing.assert_frame_equal(found.draws, want.draws, check_exact=True)
        pd.testing.assert_frame_equal(found.info, want.info, check_exact=True)
        pd.testing.assert_frame_equal(found.to_frame(), want.to_frame(), check_exact=True)
        assert found.to_json() == want.to_json()
    good = json.loads(five.to_json())
    del good["sha256"]
    for changes in (
        {"format": "pomdpfit-estimate"},
        {"draws": good["draws"][1:]},
        {"estimate": [*good["estimate"], 1.0]},
        {"draws": "drawn"},
        {"seed": "3"},
        {"info": [{**row, "converged": 1} for row in good["info"]]},
        {"info": [{}] * 5},
    ):
        path.write_bytes(sealed({**good, **changes}))
        with pytest.raises(pf.EstimationError, match=r"five\.json cannot be loaded"):
            pf.Bootstrap.load(path)
    path.write_text("[" * 10**5)
    with pytest.raises(pf.EstimationError, match="cannot be loaded"):
        pf.Bootstrap.load(path)
    with pytest.raises(FileNotFoundError):
        pf.Bootstrap.load(tmp_path / "none.json")


# ---- sudden death -------------------------------------------------------------------------------


def start(folder, out, moment=""):
    command = [sys.executable, bootstrap_script.__file__, folder, out, moment]
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(list(map(str, command)), env=os.environ | {"PYTHONPATH": path})


@pytest.mark.full
def test_killed_and_resumed_it_ends_in_the_same_bytes(tmp_path):
    """SIGKILL at seeded moments: in the middle of writing a file, and between two of them."""
    rng = np.random.default_rng(0)
    whole = start(tmp_path / "whole", tmp_path / "whole.json")
    folder, out = tmp_path / "broken", tmp_path / "broken.json"
    done = lambda: len(list(folder.glob("chunk-*.json")))
    moments = [f"replace {rng.integers(1, 3)}", f"fsync {rng.integers(2, 4)}", "", ""]
    kept = []
    for moment in moments:
        wanted = done() + rng.integers(1, 3)
        process = start(folder, out, moment)
        while not moment and done() < wanted and process.poll() is None:
            time.sleep(0.01)
        if not moment:
            time.sleep(rng.uniform(0, 0.1))
            process.kill()
        process.wait()
        assert process.returncode == -signal.SIGKILL
        kept.append(done())
        assert not out.exists()
    assert kept == sorted(kept)
    assert 2 <= kept[-1] < bootstrap_script.REPLICATES / bootstrap_script.CHUNK
    assert start(folder, out).wait() == 0
    assert whole.wait() == 0
    assert out.read_bytes() == (tmp_path / "whole.json").read_bytes()
    chunks = -(-bootstrap_script.REPLICATES // bootstrap_script.CHUNK)
    for k in range(chunks):
        name = f"chunk-{k:05d}.json"
        assert (folder / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert len(strict(out.read_text())["draws"]) == bootstrap_script.REPLICATES
    # What is in the bytes is what this process finds, too.
    here = pf.bootstrap(bootstrap_script.estimate(), 2, seed=bootstrap_script.SEED, chunk=2)
    np.testing.assert_allclose(
        strict(out.read_text())["draws"][:2], here.draws.to_numpy(), rtol=1e-9
    )
