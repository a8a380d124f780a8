"""Design of studies: shares of draws, padding, resumption, enlargement, failures, answers."""

import re
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import pomdpfit as pf
from pomdpfit._sealed import read_sealed, sealed
from pomdpfit.studies import _study
from pomdpfit.studies._law import fitted_laws
from pomdpfit.studies._panels import padded
from small_hidden import ENGINE, GRID, PRIOR, TRUTH, hidden_panel

mpl.use("Agg")

SHARES = np.array([0.3, 0.5, 0.2])
# Nobody replaces and no bin is the last: the estimates of a first stage are shares of N T draws.
MODEL = pf.baselines.BusEngine(bins=12, increments=3, discount=0.9)
THETA = {"RC": 60.0, "cost": 1.0, "increment": SHARES, "discount": 0.9}
OPTIONS = {
    "estimator": pf.TwoStage(),
    "fixed": {"RC": 60.0, "cost": 1.0},
    "seed": 1,
    "skip_hessian": True,
    "information": 400,
}
CELLS = {"agents": [30, 60], "periods": [2, 5]}
R = 16


def study(**options):
    return pf.design(MODEL, THETA, **({**CELLS, "replications": R, "chunk": 8} | OPTIONS | options))


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return tmp_path_factory.mktemp("design") / "kept"


@pytest.fixture(scope="module")
def found(kept):
    return study(checkpoint=kept)


def binomial(table):
    """The standard error of each share, sqrt(p (1 - p) / (N T))."""
    share = pd.Series(SHARES, [f"increment[{k}]" for k in range(3)])
    p = table["parameter"].map(share)
    return np.sqrt(p * (1 - p) / (table["agents"] * table["periods"]))


# ---- what is found ------------------------------------------------------------------------------


def test_moments_and_coverage_are_those_of_shares(found):
    table = found.table
    assert len(table) == 4 * 3
    assert (table["used"] == R).all()
    want = binomial(table)
    # Each within four standard errors of a Monte Carlo of R replications; shares of 60 draws and
    # more have close to normal fourth moments.
    assert (np.abs(table["sd"] / want - 1) < 4 / np.sqrt(2 * (R - 1))).all()
    assert (np.abs(table["bias"]) < 4 * want / np.sqrt(R)).all()
    np.testing.assert_allclose(table["mean"], table["truth"] + table["bias"], rtol=1e-12)
    # Outer products of few agents' scores scatter by 1 / sqrt(2 N), and their mean by less.
    assert (np.abs(table["se"] / want - 1) < 4 / np.sqrt(2 * table["agents"] * R) + 0.08).all()
    assert (np.abs(table["information_se"] / want - 1) < 4 / np.sqrt(2 * 400)).all()
    # A binomial of R x 12 intervals with 0.95, not independent: within a cell they share draws.
    held = (table["coverage"] * table["intervals"]).sum() / table["intervals"].sum()
    assert abs(held - 0.95) < 4 * np.sqrt(0.95 * 0.05 / (4 * R)) + 0.02
    assert list(found.draws.index.names) == ["agents", "periods", "replication"]


def test_a_replication_is_the_fit_to_a_panel_of_its_own(found):
    """The seed, the cell and the number say it all, and shares are what is estimated."""
    seed = int(np.random.default_rng([1, 60, 5, 7]).integers(2**31))
    likelihood = pf.baselines.NFXPLikelihood(MODEL, blank(60, 5))
    panel = likelihood.simulate(THETA, seed)
    steps = np.diff(panel.z, axis=1)
    share = [(steps == k).mean() for k in range(3)]
    # The climb ends within sqrt(2e-8) standard errors of the maximum.
    np.testing.assert_allclose(found.draws.loc[(60, 5, 7)], share, atol=2e-4 * 0.03)


def blank(agents, periods):
    z = np.zeros((agents, periods + 1), dtype=int)
    return pf.Panel.from_arrays(z, np.zeros((agents, periods), dtype=int))


def test_the_law_and_the_answer(found):
    law = found.law
    assert (np.abs(law["b"] - 0.5) < 4 * law["b_se"]).all()
    assert (law["misfit"] > 1e-4).all()
    answer = found.agents_for("increment[1]", se=0.01, periods=5)
    want = 0.25 / (5 * 0.01**2)  # p (1 - p) / (T se^2)
    wide = found.agents_for("increment[1]", se=0.01, periods=5, alpha=1e-4)
    assert wide["lower"] < want < wide["upper"]
    assert answer["lower"] < answer["agents"] < answer["upper"]
    assert abs(answer["information"] / want - 1) < 2 * 4 / np.sqrt(2 * 400)
    # Twice the error needs a quarter of the agents.
    half = found.agents_for("increment[1]", se=0.02, periods=5)
    assert half["agents"] == pytest.approx(answer["agents"] / 4, abs=1.01)
    with pytest.raises(pf.EstimationError, match=r"'increment\[9\]' was not estimated; there are"):
        found.agents_for("increment[9]", se=0.01, periods=5)
    with pytest.raises(pf.EstimationError, match="must be positive"):
        found.agents_for("increment[1]", se=0.0, periods=5)


def test_the_law_is_exact_where_the_cells_follow_it():
    rows = [
        {"agents": N, "periods": T, "parameter": "k", "sd": 3.0 * N**-0.5 * T**-0.7, "used": 51}
        for N in (10, 40)
        for T in (3, 9, 20)
    ]
    law = fitted_laws(pd.DataFrame(rows)).loc["k"]
    np.testing.assert_allclose([law["c"], law["b"], law["misfit"]], [3.0, 0.7, 1.0], rtol=1e-10)
    # Two cells, one residual fewer than none: the errors are those of a line through two points.
    two = fitted_laws(pd.DataFrame([rows[0], rows[2]])).loc["k"]
    each = 1 / np.sqrt(2 * 50)
    np.testing.assert_allclose(two["b_se"], np.sqrt(2) * each / np.log(20 / 3), rtol=1e-10)
    one = fitted_laws(pd.DataFrame(rows[:1])).loc["k"]
    assert np.isnan(one["b"])
    np.testing.assert_allclose(one["c"], 3.0 * 3**-0.7, rtol=1e-12)


def test_it_is_told_in_words_and_drawn(found):
    text = str(found)
    assert "increment[1]: sd = " in text
    assert "N = 60, T = 5" in text
    axes = found.plot(["increment[0]", "increment[2]"], se=0.02)
    assert [ax.get_title() for ax in axes] == ["increment[0]", "increment[2]"]
    assert {"T = 2", "T = 5", "wanted: 0.02"} <= set(axes[0].get_legend_handles_labels()[1])
    drawn = axes[0].containers[0].lines[0].get_ydata()
    rows = found.table.query("parameter == 'increment[0]' and periods == 2")
    np.testing.assert_array_equal(drawn, rows["sd"])


# ---- checkpoints --------------------------------------------------------------------------------


def forbid(monkeypatch):
    """Nobody may estimate anything."""
    monkeypatch.setattr(_study, "fit", None)


def test_a_finished_study_is_read_and_not_done_again(found, kept, monkeypatch):
    forbid(monkeypatch)
    told = []
    again = study(checkpoint=kept, progress=lambda *words: told.append(words))
    assert again.to_json() == found.to_json()
    assert (f"resumed: {4 * R} of {4 * R} replications of the design are in {kept}", 1, 1) in told


def test_a_study_may_be_enlarged_and_made_smaller(found, kept, monkeypatch):
    done = []
    original = _study.Study.replications

    def counted(self, cell, part):
        done.extend((*cell, r) for r in part)
        return original(self, cell, part)

    monkeypatch.setattr(_study.Study, "replications", counted)
    larger = study(checkpoint=kept, agents=[30, 60, 90], periods=[2], replications=R + 2)
    new = {(N, 2, r) for N in (30, 60) for r in (R, R + 1)} | {(90, 2, r) for r in range(R + 2)}
    assert set(done) == new
    shared = found.draws.index[found.draws.index.get_level_values("periods") == 2]
    pd.testing.assert_frame_equal(larger.draws.loc[shared], found.draws.loc[shared])
    done.clear()
    smaller = study(checkpoint=kept, agents=[60], replications=10)
    assert not done
    pd.testing.assert_frame_equal(
        smaller.draws, found.draws.loc[[(60, T, r) for T in (2, 5) for r in range(10)]]
    )


@pytest.mark.full
def test_stopped_and_resumed_it_ends_in_the_same_bytes(found, tmp_path):
    def stopping(what, done, total):
        if what == "replications" and done >= 16:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        study(checkpoint=tmp_path, progress=stopping)
    assert len(list(tmp_path.glob("chunk-agents-*.json"))) == 2
    assert study(checkpoint=tmp_path).to_json() == found.to_json()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"seed": 2}, "seed"),
        ({"z0": 1}, "z0"),
        ({"estimator": pf.Joint()}, "estimator"),
        ({"fixed": {"RC": 60.0}}, "fixed"),
        ({"starts": 2}, "starts"),
        ({"chunk": 4}, "chunk"),
    ],
)
def test_another_study_is_refused_by_name(found, kept, changes, named):
    with pytest.raises(pf.EstimationError, match=f"another design: {named} changed"):
        study(checkpoint=kept, **changes)


def test_a_truth_that_no_replication_could_fit_is_refused():
    with pytest.raises(pf.ModelError, match=r"discount is given as 0.5, but the model fixes it at"):
        pf.design(MODEL, THETA | {"discount": 0.5}, **(CELLS | OPTIONS), replications=2)


def test_another_truth_and_another_version_are_refused(found, kept, tmp_path):
    other = {**THETA, "RC": 61.0}
    with pytest.raises(pf.EstimationError, match="another design: theta changed"):
        pf.design(MODEL, other, **CELLS, replications=R, chunk=8, checkpoint=kept, **OPTIONS)
    manifest = read_sealed(kept / "manifest.json", 10**6)["manifest"]
    older = sealed({"manifest": {**manifest, "version": "0.0.1"}})
    (tmp_path / "manifest.json").write_bytes(older)
    with pytest.raises(pf.EstimationError, match="another design: version changed"):
        study(checkpoint=tmp_path)


def test_a_damaged_file_is_refused(found, kept, tmp_path):
    for path in kept.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    path = tmp_path / "chunk-agents-30-periods-2-from-00000.json"
    other = tmp_path / "chunk-agents-60-periods-2-from-00000.json"
    for content in (path.read_bytes()[:-1], other.read_bytes(), sealed({"rows": [1]})):
        path.write_bytes(content)
        with pytest.raises(pf.EstimationError, match=r"from-00000\.json is damaged: .*Delete it"):
            study(checkpoint=tmp_path)


# ---- failures and files -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def with_failures():
    original = _study.Study._estimate

    def failing(self, panel):
        found = original(self, panel)
        if panel.agent_count == 30 and found.params.iloc[0] > 0.3:
            raise pf.SolveError("the sky fell")
        return found

    heard = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_study.Study, "_estimate", failing)
        tell = lambda what, done, total, failed=0: heard.append((what, done, total, failed))
        made = study(periods=[5], replications=8, progress=tell)
    return made, heard


def test_failed_replications_stand_in_the_summary_with_their_reason(found, with_failures):
    made, heard = with_failures
    first = found.draws.xs((30, 5), level=("agents", "periods"))["increment[0]"].iloc[:8]
    lost = [(30, 5, int(r)) for r in first.index[first > 0.3]]
    assert 0 < len(lost) < 8
    assert made.failures.loc["SolveError: the sky fell"].to_dict() == {
        "count": len(lost),
        "which": lost,
    }
    assert f"{len(lost)} of 16 replications failed ((30, 5, " in str(made).replace("\n  ", " ")
    rows = made.table.set_index(["agents", "parameter"]).loc[(30, "increment[0]")]
    assert (rows["used"], rows["failed"]) == (8 - len(lost), len(lost))
    assert rows["mean"] == pytest.approx(first[first <= 0.3].mean())
    assert heard[-1] == ("replications", 16, 16, len(lost))


@pytest.mark.filterwarnings("error")
def test_replications_that_do_not_converge_are_kept_apart():
    """One step from far away: diverged or not, it is no maximum."""
    made = study(
        agents=[30],
        periods=[2],
        replications=2,
        information=0,
        estimator=pf.TwoStage(pf.BHHH(max_steps=0)),
    )
    assert made.failed.str.startswith("MAX_STEPS").all()
    assert len(made.failed) == 2
    assert made.table["sd"].isna().all()
    assert "no law" in str(made)
    with pytest.raises(pf.EstimationError, match="no law was fitted for"):
        made.agents_for("increment[0]", se=0.1, periods=2)


def test_what_was_saved_is_loaded_and_nothing_else(found, with_failures, tmp_path):
    path = tmp_path / "study.json"
    for want in (found, with_failures[0]):
        want.save(path)
        again = pf.StudyDesign.load(path)
        assert again.to_json() == want.to_json()
        pd.testing.assert_frame_equal(again.table, want.table, check_exact=True)
        pd.testing.assert_frame_equal(again.info, want.info, check_exact=True)
        assert str(again) == str(want)
    good = read_sealed(path, 10**7)
    for changes in (
        {"format": "pomdpfit-bootstrap"},
        {"draws": good["draws"][1:]},
        {"seed": "1"},
        {"places": [[1, 2]] * len(good["places"])},
        {"info": {}},
        {"columns": [1, 2, 3]},
    ):
        path.write_bytes(sealed({**good, **changes}))
        with pytest.raises(pf.EstimationError, match=r"study\.json cannot be loaded as a design"):
            pf.StudyDesign.load(path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"agents": []}, "agents must list whole numbers"),
        ({"periods": [0]}, "periods must list whole numbers"),
        ({"replications": 1}, "replications must be a whole number of at least 2"),
        ({"chunk": 0}, "chunk must be"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(changes, words):
    with pytest.raises(pf.EstimationError, match=words):
        study(**changes)


@pytest.mark.full
def test_processes_change_nothing_but_rounding(found):
    """As in a bootstrap: libraries may add up in another order in a worker."""
    made = study(agents=[30], periods=[2], replications=8, chunk=4, information=0, n_jobs=2)
    want = found.draws.loc[made.draws.index]
    np.testing.assert_allclose(made.draws, want, rtol=1e-9)


# ---- hidden states ------------------------------------------------------------------------------


def test_padding_changes_no_likelihood_and_no_derivative():
    """Agents who are seen once and columns without rows add exactly nothing."""
    panel = hidden_panel()
    scored = np.broadcast_to(np.arange(panel.z.shape[1]) < 10, panel.z.shape)
    masked = panel.score(observation=scored, choice=scored)
    short = pf.Panel.from_arrays(panel.z[:12, :11], panel.a[:12, :10])
    wide = padded(short, *panel.z.shape)
    assert wide.z.shape == panel.z.shape
    assert wide.nobs == short.nobs
    scores = []
    for each in (masked, wide):
        likelihood = pf.Likelihood(ENGINE, each, prior=PRIOR, grid=GRID)
        theta = likelihood.space.check(TRUTH)
        terms = likelihood.terms(theta)
        directions = {"RC": np.array([1.0])}
        scores.append((terms.parts(), likelihood.push(theta, directions)[1]))
    (few, score), (many, wider) = scores
    np.testing.assert_allclose(many[:12], few[:12], rtol=1e-12)
    np.testing.assert_allclose(wider[:12], score[:12], rtol=1e-10, atol=1e-12)
    assert (many[12:] == 0).all()
    assert (wider[12:] == 0).all()


@pytest.mark.full
def test_a_study_with_hidden_states_shares_one_shape():
    options = {"prior": PRIOR, "grid": GRID, "skip_hessian": True, "information": 50, "seed": 3}
    held = {name: TRUTH[name] for name in ("stay", "increment", "cost")}
    theta = {**TRUTH, "RC": 2.0}
    shapes, original = set(), _study.fit

    def seen(model, panel, *rest, **more):
        shapes.add(panel.z.shape)
        return original(model, panel, *rest, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_study, "fit", seen)
        made = pf.design(
            ENGINE, theta, agents=[20, 40], periods=[5, 10], replications=3, fixed=held, **options
        )
    assert shapes == {(40, 11)}
    assert (made.table["used"] == 3).all()
    panel = pf.Likelihood(ENGINE, blank(20, 5), prior=PRIOR, grid=GRID).simulate(
        theta, int(np.random.default_rng([3, 20, 5, 1]).integers(2**31))
    )
    est = pf.fit(
        ENGINE, panel, prior=PRIOR, grid=GRID, fixed=held, start=theta, starts=1, skip_hessian=True
    )
    # Both climbs end within sqrt(2e-8) standard errors of the same maximum.
    gap = (made.draws.loc[(20, 5, 1), "RC"] - est.params["RC"]) / est.bse["RC"]
    assert abs(gap) < 2 * np.sqrt(2e-8) * 1.1
    assert made.errors.loc[(20, 5, 1), "RC"] == pytest.approx(est.bse["RC"], rel=1e-3)


# ---- the page of the documentation --------------------------------------------------------------


@pytest.mark.full
def test_the_page_about_designs_runs(tmp_path, monkeypatch, capsys):
    page = Path(__file__).parents[1] / "docs" / "scale" / "design.md"
    monkeypatch.chdir(tmp_path)
    [block] = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    names: dict = {}
    exec(compile(block, page.name, "exec"), names)
    assert "RC: sd = " in capsys.readouterr().out
    assert [ax.get_title() for ax in names["axes"]] == ["RC", "cost"]
