"""A data set on disk in the place of a panel in memory: the same numbers, from sums."""

import dataclasses
import os
import shutil

import cloudpickle
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pomdpfit as pf
from pomdpfit.streaming import _scan
from tests.small_hidden import DYNAMICS, ENGINE, GRID, PRIOR, TRUTH

AGENTS, PERIODS, SEED = 47, 13, 5
COLUMNS = {"agent": "agent", "time": "time", "observation": "z", "action": "a"}
MEANS = {"prior": PRIOR, "grid": GRID}


@pytest.fixture(scope="module")
def panel():
    return pf.simulate(ENGINE, TRUTH, agents=AGENTS, periods=PERIODS, seed=SEED, **MEANS)


@pytest.fixture(scope="module")
def scan(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stream") / "data"
    options = {"agents": AGENTS, "periods": PERIODS, "seed": SEED, "agents_per_file": 20}
    return pf.simulate_parquet(ENGINE, TRUTH, folder, **options, **MEANS)


@pytest.fixture(scope="module")
def streamed(scan):
    return pf.StreamedLikelihood(lambda part: pf.Likelihood(ENGINE, part, **MEANS), scan)


@pytest.fixture(scope="module")
def in_memory(panel):
    return pf.Likelihood(ENGINE, panel, **MEANS)


def same_panels(left, right):
    for field in dataclasses.fields(pf.Panel):
        if field.name in {"notes", "times", "covariates"}:
            continue
        assert np.array_equal(getattr(left, field.name), getattr(right, field.name)), field.name
    assert np.array_equal(left.times[left.present], right.times[right.present])
    assert left.covariates.keys() == right.covariates.keys()
    for name, values in left.covariates.items():
        assert np.array_equal(values[left.present], right.covariates[name][right.present])


def write(folder, frames, **options):
    folder.mkdir()
    for k, frame in enumerate(frames):
        pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), folder / f"{k}.parquet")
    return pf.Panel.scan_parquet(folder, **(COLUMNS | options))


# ---- the data set ----------------------------------------------------------------------------


def test_simulated_files_hold_the_agents_of_simulate(panel, scan):
    assert len(scan.partitions) == 3
    assert scan.agent_count == AGENTS
    assert (scan.rows, scan.periods) == (AGENTS * (PERIODS + 1), PERIODS + 1)
    assert (scan.nobs, scan.scored_transitions) == (panel.nobs, panel.scored_transitions)
    same_panels(scan.collect(), panel)


def test_small_blocks_make_the_same_panel(panel, scan, monkeypatch):
    monkeypatch.setattr(_scan, "CHUNK_ROWS", 40)
    same_panels(scan.collect(), panel)


def test_a_sample_has_whole_agents_once_each(panel, scan):
    sample = scan.sample(9, seed=1)
    assert len(set(sample.agents)) == 9
    places = [panel.agents.index(agent) for agent in sample.agents]
    assert places == sorted(places)
    same_panels(sample, panel.take(places))
    with pytest.raises(pf.PanelError, match="1 to 47 agents"):
        scan.sample(48, seed=1)


def ragged_frame(seed):
    """Agents of different lengths, with labels, dates of entry, a price and a group."""
    rng = np.random.default_rng(seed)
    rows = []
    for k in range(12):
        length = int(rng.integers(1, 9))
        begins = int(rng.integers(-3, 50))
        for t in range(length):
            rows.append(
                {
                    "agent": f"{seed}-{k:02d}",
                    "time": begins + t,
                    "z": ["low", "high", "top"][rng.integers(3)],
                    "a": None if t == length - 1 and k % 2 else ["keep", "new"][rng.integers(2)],
                    "price": float(rng.integers(1, 3)) / 4,
                    "line": "ab"[k % 2],
                }
            )
    return pd.DataFrame(rows)


RICH = {
    "observations": ["low", "high", "top"],
    "actions": ["keep", "new"],
    "covariates": ["price"],
    "group": "line",
    "groups": ["a", "b"],
}


@pytest.mark.parametrize("rows", [2**19, 7])
def test_labels_groups_covariates_and_lengths_are_read_as_from_a_frame(tmp_path, monkeypatch, rows):
    monkeypatch.setattr(_scan, "CHUNK_ROWS", rows)
    frames = [ragged_frame(seed) for seed in (1, 2, 3)]
    scan = write(tmp_path / "rich", frames, **RICH)
    assert all(part.clean for part in scan.partitions)
    known = pf.Panel.from_frame(pd.concat(frames, ignore_index=True), **COLUMNS, **RICH)
    same_panels(scan.collect(), known)


def test_rows_in_disorder_are_sorted_and_noted_as_from_a_frame(tmp_path, panel):
    frame = panel.to_frame()
    mixed = [frame[frame["agent"] < 20].sample(frac=1, random_state=0), frame[frame["agent"] >= 20]]
    scan = write(tmp_path / "mixed", mixed)
    assert [part.clean for part in scan.partitions] == [False, True]
    same_panels(scan.collect(), pf.Panel.from_frame(pd.concat(mixed), **COLUMNS))
    assert any("sorted" in note and note.startswith("0.parquet") for note in scan.notes)


def test_dates_are_read_as_from_a_frame(tmp_path):
    when = pd.period_range("2001-01", periods=4, freq="M").to_timestamp()
    frame = pd.DataFrame({"agent": [1] * 4, "time": when, "z": [0, 1, 2, 0], "a": [0, 0, 1, 0]})
    scan = write(tmp_path / "dates", [frame], freq="M")
    same_panels(scan.collect(), pf.Panel.from_frame(frame, **COLUMNS, freq="M"))


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda f: f.assign(z=f["z"].where(f.index != 3, -1)), "row 3 .*z -1"),
        (lambda f: f.drop(index=4), "time"),
        (lambda f: pd.concat([f, f.iloc[:1]]), "row"),
        (lambda f: f.rename(columns={"z": "Z"}), "no column 'z'"),
        (lambda f: f.iloc[:0], "empty"),
        (lambda f: f.assign(a=f["a"].where(f.index != 3)), "row 3"),
    ],
)
def test_bad_rows_are_refused_as_in_single_files(tmp_path, panel, spoil, says):
    frame = panel.to_frame().query("agent < 3")
    with pytest.raises(pf.PanelError, match=says) as refusal:
        write(tmp_path / "bad", [spoil(frame)])
    assert "0.parquet" in str(refusal.value)


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["agent", "time", "Z", "first", "a"], "0.parquet has no column 'z'"),
        (["agent", "time", "z", "z", "a"], "0.parquet has 2 columns 'z'"),
    ],
)
def test_no_other_column_is_taken_for_one_that_is_not_there(tmp_path, names, says):
    """Arrow takes the last column for one that it does not find, here an action in every row."""
    columns = [[1, 1, 2, 2], [0, 1, 0, 1], [2, 1, 2, 1], [0, 0, 0, 0], [0, 1, 1, 0]]
    (tmp_path / "data").mkdir()
    pq.write_table(pa.table(columns, names=names), tmp_path / "data" / "0.parquet")
    with pytest.raises(pf.PanelError, match=says):
        pf.Panel.scan_parquet(tmp_path / "data", **COLUMNS)


# ---- damaged files ---------------------------------------------------------------------------


@pytest.fixture
def copied(scan, tmp_path):
    """The data set again, and its first file."""
    folder = shutil.copytree(scan.path, tmp_path / "copy")
    return folder, sorted(folder.iterdir())[0]


def flip(file, place):
    """One bit of a file, in its last modified time too as it was."""
    there, content = file.stat(), bytearray(file.read_bytes())
    content[place // 8] ^= 1 << place % 8
    file.write_bytes(content)
    os.utime(file, ns=(there.st_atime_ns, there.st_mtime_ns))


def test_flipped_bits_change_no_number_and_refusals_name_the_file(copied, panel):
    """What a bit of a header that nothing reads may do is nothing: such files are read."""
    folder, file = copied
    whole, want = file.read_bytes(), panel.to_frame()
    outcomes = {"as it was": 0, "other numbers": 0, "by name": 0, "no name": 0}
    for place in np.random.default_rng(0).integers(0, 8 * len(whole), 60):
        file.write_bytes(whole)
        flip(file, int(place))
        try:
            found = pf.Panel.scan_parquet(folder, **COLUMNS).collect().to_frame()
        except Exception as error:
            named = isinstance(error, pf.PanelError) and str(file) in str(error)
            outcomes["by name" if named else "no name"] += 1
        else:
            outcomes["as it was" if found.equals(want) else "other numbers"] += 1
    assert outcomes["other numbers"] == 0, outcomes
    assert outcomes["no name"] == 0, outcomes
    assert outcomes["by name"] > 30, outcomes


def test_damage_to_any_page_is_found_at_the_next_reading_too(copied):
    """Its size and its time are those of the scan, so only the checksum of the page can tell."""
    folder, file = copied
    scan, whole = pf.Panel.scan_parquet(folder, **COLUMNS), file.read_bytes()
    group = pq.ParquetFile(file).metadata.row_group(0)
    for k in range(group.num_columns):
        column = group.column(k)
        begin = column.dictionary_page_offset or column.data_page_offset
        file.write_bytes(whole)
        flip(file, 8 * (begin + column.total_compressed_size - 1))
        os.utime(file, ns=(1, scan.partitions[0].modified))
        for read in (scan.collect, lambda: pf.read_panel(file, **COLUMNS)):
            with pytest.raises(pf.PanelError, match=f"{file} cannot be read as a Parquet file"):
                read()


def test_a_file_that_is_cut_short_is_named(copied):
    folder, file = copied
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(pf.PanelError, match=f"{file} cannot be read as a Parquet file"):
        pf.Panel.scan_parquet(folder, **COLUMNS)


def test_an_agent_in_two_files_is_refused(tmp_path, panel):
    frame = panel.to_frame().query("agent < 4")
    with pytest.raises(
        pf.PanelError, match=r"agent 1 has rows in .*0\.parquet and in .*1\.parquet"
    ):
        write(tmp_path / "twice", [frame.query("agent in (0, 1)"), frame.query("agent in (1, 2)")])


def test_files_that_overlap_in_ids_but_not_in_agents_are_fine(tmp_path, panel):
    frame = panel.to_frame().query("agent < 6")
    scan = write(tmp_path / "woven", [frame.query("agent % 2 == 0"), frame.query("agent % 2 == 1")])
    assert scan.collect().agents == (0, 2, 4, 1, 3, 5)


def test_what_is_not_there_is_said(tmp_path):
    with pytest.raises(pf.PanelError, match="is not there"):
        pf.Panel.scan_parquet(tmp_path / "no", **COLUMNS)
    with pytest.raises(pf.PanelError, match=r"no file whose name ends in \.parquet"):
        pf.Panel.scan_parquet(tmp_path, **COLUMNS)
    with pytest.raises(pf.PanelError, match="list the groups"):
        pf.Panel.scan_parquet(tmp_path, **COLUMNS, group="line")


def test_a_file_that_changes_after_the_scan_is_refused(tmp_path, panel):
    scan = write(tmp_path / "moving", [panel.to_frame()])
    os.utime(scan.partitions[0].path, (1, 1))
    with pytest.raises(pf.PanelError, match="has changed since the data set was scanned"):
        scan.collect()


def test_rows_of_a_scan_are_refused_with_advice(scan):
    with pytest.raises(pf.PanelError, match=r"scan\.sample"):
        _ = scan.present
    with pytest.raises(AttributeError):
        _ = scan.nothing


def test_a_data_set_is_not_written_over(tmp_path, scan):
    with pytest.raises(pf.PanelError, match="not empty"):
        pf.simulate_parquet(ENGINE, TRUTH, scan.path, agents=1, periods=1, seed=0, **MEANS)


# ---- the likelihood --------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [pytest.param(2**19, marks=pytest.mark.full), 60])
def test_terms_and_gradients_are_those_of_the_panel(streamed, in_memory, monkeypatch, rows):
    monkeypatch.setattr(_scan, "CHUNK_ROWS", rows)
    names = in_memory.space.free_leaves
    weights = np.random.default_rng(3).poisson(1.0, (AGENTS, 2)).astype(float)
    for given in (np.broadcast_to(1.0, (AGENTS, 2)), weights):
        known, slope = in_memory.pull(TRUTH, given, names)
        found, streamed_slope = streamed.pull(TRUTH, given, names)
        assert found.weighted(given) == pytest.approx(known.weighted(given), rel=1e-13)
        for name in names:
            assert np.allclose(streamed_slope[name], slope[name], rtol=1e-10, atol=1e-9)
    assert streamed.terms(TRUTH).total == pytest.approx(in_memory.terms(TRUTH).total, rel=1e-13)


@pytest.mark.full
def test_outer_products_of_scores_are_those_of_the_panel(streamed, in_memory):
    directions = in_memory.space.free_directions()
    weights = np.random.default_rng(3).poisson(1.0, AGENTS).astype(float)
    for counts in (np.broadcast_to(1.0, (AGENTS,)), weights):
        _, known = in_memory.weighed_scores(TRUTH, directions, counts)
        _, found = streamed.weighed_scores(TRUTH, directions, counts)
        p = known.shape[-1]
        assert found.shape == (2 * p, 2, p)
        outer = lambda rows: np.einsum("icp,idq->cdpq", rows, rows)
        assert np.allclose(outer(found), outer(known), rtol=1e-10, atol=1e-8)


@pytest.mark.full
def test_files_are_shared_by_processes_to_the_same_bits(scan, streamed):
    """What is sent once stays the same from theta to theta; every file's sums are its own."""
    make = lambda part: pf.Likelihood(ENGINE, part, **MEANS)
    several = pf.StreamedLikelihood(make, scan, n_jobs=2)
    names, ones = streamed.space.free_leaves, np.broadcast_to(1.0, (AGENTS, 2))
    sent = cloudpickle.dumps(several._work)
    for RC in (2.0, 2.5):
        theta = {**TRUTH, "RC": RC}
        here, slope = streamed.pull(theta, ones, names)
        there, their_slope = several.pull(theta, ones, names)
        assert there.total == here.total
        assert all(np.array_equal(their_slope[name], slope[name]) for name in names)
    streamed.pull(TRUTH, ones, names)
    assert cloudpickle.dumps(several._work) == sent
    assert len(cloudpickle.dumps(streamed._work)) < 2 * len(sent)  # nothing that was found since


@pytest.mark.full
def test_a_streamed_fit_is_the_fit_of_the_panel(panel, scan, tmp_path):
    means = {**MEANS, "fixed": DYNAMICS, "start": TRUTH, "starts": 2}
    for estimator in (pf.Joint(), pf.TwoStage()):
        known, found = (pf.fit(ENGINE, data, estimator, **means) for data in (panel, scan))
        assert found.converged == known.converged
        assert found.llf == pytest.approx(known.llf, rel=1e-12)
        assert np.allclose(found.params, known.params, rtol=1e-6)
        for kind in ("hessian", "opg", "sandwich"):
            assert np.allclose(found.cov_params(kind), known.cov_params(kind), rtol=1e-5), kind
        assert (found.nobs, found.aic) == (known.nobs, pytest.approx(known.aic))
    assert "47" in str(found.summary())
    assert len(found.predict(scan.sample(3, seed=0))) == 3 * (PERIODS + 1)
    found.save(tmp_path / "fit.zip")
    loaded = pf.load(tmp_path / "fit.zip")
    assert loaded.log_likelihood().total == pytest.approx(found.llf, rel=1e-12)


def test_a_streamed_fit_of_the_baseline_is_that_of_the_panel(panel, scan, tmp_path):
    bus = pf.baselines.BusEngine(6, 3, 0.9)
    known, found = (pf.fit(bus, data) for data in (panel, scan))
    assert np.allclose(found.params, known.params, rtol=1e-6)
    assert np.allclose(found.bse, known.bse, rtol=1e-5, equal_nan=True)
    assert found.panel.scored_agents == known.panel.scored_agents == AGENTS
    held = [pf.fit(bus, data, fixed={"RC": 2.5}) for data in (panel, scan)]
    # The sum of scores, which rows with the same outer products do not have.
    statistics = [pf.score_test(est).statistic for est in held]
    assert statistics[1] == pytest.approx(statistics[0], rel=1e-5)
    with pytest.raises(pf.EstimationError, match=r"scan\.sample"):
        pf.vuong_test(held[1], pf.fit(bus, scan, fixed={"RC": 3.0}))
    with pytest.raises(pf.PanelError, match=r"scan\.sample"):
        _ = found.llf_obs
    with pytest.raises(pf.EstimationError, match=r"scan\.sample"):
        found.predict()
    found.save(tmp_path / "fit.zip")
    loaded = pf.load(tmp_path / "fit.zip")
    assert np.array_equal(loaded.bse, found.bse)
    assert repr(loaded.panel) == repr(scan)


def test_impossible_rows_name_agent_and_time(tmp_path, panel):
    frame = panel.to_frame()
    low = (frame["agent"] == 2) & (frame["z"] <= 1) & (frame["time"] < PERIODS)
    frame.loc[frame.index[low][0] + 1, "z"] = 5  # further than any step leads
    scan = write(tmp_path / "jump", [frame])
    with pytest.raises(pf.ImpossibleObservationError, match="agent 2, time"):
        pf.StreamedLikelihood(lambda part: pf.Likelihood(ENGINE, part, **MEANS), scan).terms(TRUTH)


def test_priors_of_agents_are_refused(scan):
    with pytest.raises(pf.EstimationError, match=r"CommonPrior|collect"):
        pf.fit(ENGINE, scan, prior=pf.AgentPriors(), grid=GRID)


@pytest.mark.full
def test_known_priors_by_agent_and_stationary_ones_go_with_their_agents(panel, scan):
    rng = np.random.default_rng(8)
    share = rng.uniform(0.1, 0.9, AGENTS)
    by_agent = {i: [share[i], 1 - share[i]] for i in range(AGENTS)}
    for prior in (pf.KnownPrior(by_agent), pf.StationaryPrior()):
        make = lambda part, prior=prior: pf.Likelihood(ENGINE, part, prior=prior, grid=GRID)
        known, found = make(panel), pf.StreamedLikelihood(make, scan)
        names, ones = known.space.free_leaves, np.broadcast_to(1.0, (AGENTS, 2))
        assert found.terms(TRUTH).total == pytest.approx(known.terms(TRUTH).total, rel=1e-12)
        slopes = [each.pull(TRUTH, ones, names)[1] for each in (known, found)]
        for name in names:
            assert np.allclose(slopes[1][name], slopes[0][name], rtol=1e-9, atol=1e-8)
        rows = [
            each.push(TRUTH, known.space.free_directions())[1].sum(axis=1)
            for each in (known, found)
        ]
        assert np.allclose(rows[1].T @ rows[1], rows[0].T @ rows[0], rtol=1e-9, atol=1e-7)
