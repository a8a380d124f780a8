"""Labels of actions and observations: kept by panels, compared with the model's, and shown."""

import dataclasses
import json

import jax
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

import pomdpfit as pf
from pomdpfit._labels import check_labels, disagreement, kept_labels, observation_names
from pomdpfit.cli import app
from pomdpfit.identification.rank._singular_kernels import kernels_in_words, singular_kernels
from pomdpfit.inference._chi_square import _cell_names
from pomdpfit.models import EngineReplacement
from pomdpfit.plots._over_beliefs import draw_over
from pomdpfit.plots._subject import Subject, labels

jax.config.update("jax_enable_x64", True)

COLUMNS = {"agent": "pump", "time": "week", "observation": "reading", "action": "decision"}
PUMPS = """\
pump,week,reading,decision
north,1,1,keep
north,2,2,keep
north,3,3,replace
south,1,1,keep
south,2,1,keep
"""


class Engine(EngineReplacement):
    """Names of readings beside those of the engine's actions."""

    names: tuple[str, ...] | None = ("new", "used", "old", "ancient")

    def observation_labels(self):
        return self.names


def engine(**options):
    return EngineReplacement(bins=4, increments=2, discount=0.9, **options)


def read(tmp_path, text=PUMPS, **options):
    (tmp_path / "pumps.csv").write_text(text)
    labels = {"observations": [1, 2, 3, 4], "actions": ["keep", "replace"]}
    return pf.read_panel(tmp_path / "pumps.csv", **COLUMNS, **{**labels, **options})


# ---- what is kept, and compared ------------------------------------------------------------------


def test_a_panel_keeps_its_labels_as_plain_numbers_and_text(tmp_path):
    panel = read(tmp_path)
    assert panel.observation_labels == (1, 2, 3, 4)
    assert panel.action_labels == ("keep", "replace")
    assert panel.exclude_transitions(np.zeros_like(panel.present)).action_labels == (
        "keep",
        "replace",
    )
    assert kept_labels(np.array([3, 4])) == (3, 4)
    assert kept_labels([pd.Timestamp("2020-01-01")]) == ("2020-01-01 00:00:00",)
    assert pf.Panel.from_arrays([[0]], [[0]]).action_labels == ()


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (["replace", "keep"], ["another order", "actions=['keep', 'replace']"]),
        (["keep", "new"], ["['keep', 'new']", "['keep', 'replace']", "action_labels()"]),
        (["keep", "replace", "new"], ["['keep', 'replace', 'new']"]),
    ],
)
def test_other_words_than_the_models_are_refused(labels, words, tmp_path):
    text = PUMPS if "replace" in labels else PUMPS.replace("replace", "new")
    panel, model = read(tmp_path, text, actions=labels), engine()
    with pytest.raises(pf.PanelError) as refusal:
        pf.Likelihood(model, panel, prior=pf.KnownPrior([0.5, 0.5]))
    with pytest.raises(pf.PanelError):
        pf.impossible_transitions(model, model.example(), panel)
    check = pf.check_panel(panel, model)
    assert not check.ok
    assert check.problems["kind"].tolist() == ["other action labels than the model's"]
    for word in words:
        assert word in str(refusal.value)
        assert word in check.summary()
    assert check.actions["keep"] == 4  # by the names of the data


@pytest.mark.parametrize("labels", [None, [0, 1], ["0", "1"], [True, False]])
def test_codes_go_with_any_names_of_the_model(labels):
    frame = pd.DataFrame({"pump": ["n", "n"], "week": [1, 2], "reading": [0, 1]})
    first, second = labels[:2] if labels else (0, 1)
    frame["decision"] = pd.Series([first, second], dtype=object)
    panel = pf.Panel.from_frame(frame, **COLUMNS, actions=labels)
    check_labels(panel, engine())
    assert pf.check_panel(panel, engine()).actions.to_dict() == {"keep": 1, "replace": 1}


def test_numbers_of_the_model_and_other_cases_of_its_words_are_no_disagreement(tmp_path):
    panel = read(tmp_path, PUMPS.replace("keep", "Keep"), actions=["Keep", "replace"])
    assert disagreement(panel, engine(), "action") is None
    numbered = dataclasses.replace(panel, observation_labels=("low", "high"))
    model = Engine(bins=4, increments=2, discount=0.9)
    assert "observations=['new', 'used', 'old', 'ancient']" in str(
        disagreement(numbered, model, "observation")
    )
    object.__setattr__(model, "names", ("0", "1", "2", "3"))
    assert disagreement(numbered, model, "observation") is None


# ---- the model's own words, which nobody lists ---------------------------------------------------


class Readings(Engine):
    """One of its words is one that often stands for no value."""

    names: tuple[str, ...] | None = ("new", "used", "old", "none")


def readings():
    return Readings(bins=4, increments=2, discount=0.9)


WORDS = PUMPS.replace(",1,keep", ",new,keep").replace(",2,keep", ",none,keep")


def read_by_model(tmp_path, text, **options):
    (tmp_path / "pumps.csv").write_text(text)
    return pf.read_panel(tmp_path / "pumps.csv", **COLUMNS, model=readings(), **options)


def test_words_of_the_model_are_read_without_being_listed(tmp_path):
    text = WORDS.replace(",3,replace", ",old,replace")
    panel = read_by_model(tmp_path, text)
    assert panel.observation_labels == ("new", "used", "old", "none")
    assert panel.action_labels == ("keep", "replace")
    assert panel.z.tolist() == [[0, 3, 2], [0, 0, 0]]
    assert panel.a.tolist() == [[0, 0, 1], [0, 0, 0]]
    frame = pd.read_csv(tmp_path / "pumps.csv", keep_default_na=False)
    framed = pf.Panel.from_frame(frame, **COLUMNS, model=readings())
    assert framed.z.tolist() == panel.z.tolist()


def test_codes_and_labels_that_are_listed_are_read_as_without_a_model(tmp_path):
    codes = PUMPS.replace("keep", "0").replace("replace", "1")
    panel = read_by_model(tmp_path, codes)
    assert (panel.observation_labels, panel.action_labels) == ((), ())
    assert panel.z.tolist() == [[1, 2, 3], [1, 1, 0]]
    listed = read_by_model(tmp_path, PUMPS, actions=["replace", "keep"])
    assert listed.a.tolist() == [[1, 1, 0], [1, 1, 0]]


@pytest.mark.parametrize(
    ("old", "new", "told", "untold"),
    [
        ("none", "nome", "observations: new, used, old, none (did you mean 'none'?)", "missing="),
        ("none", "NA", "observations: new, used, old, none; if it stands for", "labels say"),
        ("none", "7", "'7' is not one of the model's observations: new", "missing="),
        ("keep", "stay", "actions: keep, replace.", "missing="),
    ],
)
def test_other_words_are_refused_with_those_of_the_model(old, new, told, untold, tmp_path):
    text = WORDS.replace(",3,replace", ",old,replace").replace(old, new)
    with pytest.raises(pf.PanelError) as refusal:
        read_by_model(tmp_path, text)
    assert told in str(refusal.value)
    assert untold not in str(refusal.value)


def test_a_word_for_no_value_among_codes_is_told_as_one(tmp_path):
    with pytest.raises(pf.PanelError, match=r"'NA' is text, not a whole number.*missing="):
        read_by_model(tmp_path, PUMPS.replace(",3,3,", ",3,NA,"))


def test_a_data_set_of_words_is_read_by_the_model_too(tmp_path):
    pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    read_by_model(tmp_path, WORDS.replace(",3,replace", ",old,replace"))
    frame = pd.read_csv(tmp_path / "pumps.csv", keep_default_na=False)
    (tmp_path / "pumps").mkdir()
    frame.astype({"reading": "category"}).to_parquet(tmp_path / "pumps" / "part.parquet")
    scan = pf.Panel.scan_parquet(tmp_path / "pumps", **COLUMNS, model=readings())
    assert scan.observation_labels == ("new", "used", "old", "none")
    assert scan.action_labels == ("keep", "replace")


# ---- whose names are shown -----------------------------------------------------------------------


def test_observations_go_by_the_models_names_then_the_panels_then_numbers(tmp_path):
    panel, plain = read(tmp_path), pf.Panel.from_arrays([[0]], [[0]])
    own = Engine(bins=4, increments=2, discount=0.9)
    assert observation_names(own, 4, panel) == ("new", "used", "old", "ancient")
    assert observation_names(engine(), 4, panel) == ("1", "2", "3", "4")
    assert observation_names(engine(), 5, panel) == ("1", "2", "3", "4", "code 4")
    assert observation_names(engine(), 3, plain) == ("0", "1", "2")
    assert observation_names(None, 2, None) == ("0", "1")


def test_a_check_counts_and_tells_by_names(tmp_path):
    panel = read(tmp_path, PUMPS.replace("south,2,1", "south,2,4"))
    check = pf.check_panel(panel, engine())
    assert check.observations.to_dict() == {"1": 2, "2": 1, "3": 1, "4": 1}
    assert "from 1 to 4" in check.summary()
    assert "z=1 is followed by z'=4 after 'keep' (a=0), where the model has z' in 1..2" in str(
        check
    )
    alone = pf.check_panel(panel)
    assert alone.actions.to_dict() == {"keep": 4, "replace": 1}
    assert alone.observations.to_dict() == {"1": 2, "2": 1, "3": 1, "4": 1}


def test_pictures_and_cells_of_a_test_go_by_names():
    choices = lambda z, x: np.broadcast_to([0.3, 0.7], (*np.shape(z), 2))
    values = lambda z, x: np.zeros(np.broadcast_shapes(np.shape(z), np.shape(x)[:-1]))
    options = {"states": ("good", "bad"), "actions": ("keep", "replace")}
    subject = Subject(choices, values, 3, **options, readings=("1", "2", "3"))
    ax = draw_over(subject, values, "value", z=[0, 2], edge=None, ax=Figure().subplots())
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["z = 1", "z = 3"]
    ax = draw_over(subject, values, "value", z=None, edge=None, ax=Figure().subplots())
    assert [text.get_text() for text in ax.get_xticklabels()] == ["1", "2", "3"]
    assert _cell_names(np.array([0, 1, 3]), ("1", "2", "3")) == ["1", "2..3", "3.."]
    assert labels(engine(), "action", 2) == ("keep", "replace")
    assert labels(None, "action", 2) == ("action 0", "action 1")


# ---- how many there must be ----------------------------------------------------------------------


def test_a_model_names_each_of_its_observations_and_no_more():
    model = Engine(bins=5, increments=2, discount=0.9)
    with pytest.raises(pf.ModelError, match=r"observation_labels\(\).*5 observations.*names 4"):
        pf.check_panel(pf.Panel.from_arrays([[0]], [[0]]), model)


def test_wrapped_models_do_not_name_more_than_they_have():
    model = Engine(bins=4, increments=2, discount=0.9)
    grouped = pf.models.Grouped(model, ("a", "b"), own=["RC"])
    assert grouped.observation_labels() == model.observation_labels()
    assert pf.FullyObserved(model).observation_labels() is None
    assert pf.WithSignal(model, np.eye(2)).observation_labels() is None


# ---- codes that count from 1 ---------------------------------------------------------------------


def test_codes_that_count_from_one_are_told_so():
    told = r"0\.\.3 \(1 such rows\); codes seem to count from 1: say observations=\[1, 2, 3, 4\]"
    with pytest.raises(pf.PanelError, match=told):
        pf.impossible_transitions(engine(), engine().example(), panel_of([[1, 4]]))
    for z in ([[0, 4]], [[1, 5]]):  # a code 0, or more than one too far
        with pytest.raises(pf.PanelError, match=r"such rows\)\.$"):
            pf.impossible_transitions(engine(), engine().example(), panel_of(z))


def panel_of(z):
    return pf.Panel.from_arrays(z, [[0] * len(z[0])])


# ---- on the command line -------------------------------------------------------------------------


def test_the_command_line_counts_actions_by_the_names_of_the_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pumps.csv").write_text(PUMPS)
    (tmp_path / "engine.toml").write_text(
        'model = "EngineReplacement"\noptions = {bins = 4, increments = 2, discount = 0.9}\n'
    )
    named = [word for name, column in COLUMNS.items() for word in (f"--{name}", column)]
    words = ["check", "pumps.csv", *named, "--observations", "1,2,3,4", "--model", "engine.toml"]
    outcome = CliRunner().invoke(app, [*words, "--actions", "replace,keep", "--json"])
    assert outcome.exit_code == 1
    assert json.loads(outcome.stdout)["actions"] == {"replace": 1, "keep": 4}
    outcome = CliRunner().invoke(app, [*words, "--actions", "keep,replace", "--json"])
    assert outcome.exit_code == 0
    assert json.loads(outcome.stdout)["actions"] == {"keep": 4, "replace": 1}


# ---- identification, in the same words -----------------------------------------------------------


@pytest.fixture(scope="module")
def named():
    return Engine(bins=4, increments=2, discount=0.9)


@pytest.mark.full
def test_recovered_rewards_are_listed_and_drawn_by_name(named):
    theta, grid = named.example(), pf.Smooth(5)
    solution = pf.solve(named, theta, grid=grid)
    found = pf.invert_rewards(named, theta, reference="replace", policy=solution)
    assert list(found.reward.index.unique("z")) == ["new", "used", "old", "ancient"]
    assert list(found.nonlinearity.index) == ["new", "used", "old", "ancient"]
    assert any(f"(z = {name}, " in found.summary() for name in found.observations)
    ax = pf.plots.inverted_rewards(found, "keep", observations=[1, 3], ax=Figure().subplots())
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["z = used", "z = ancient"]


def test_kernels_are_told_by_name(named, tmp_path):
    table = singular_kernels(named, named.primitives(named.example()))
    assert set(table["z"]) <= {"new", "used", "old", "ancient"}
    assert "(new, used)" in " ".join(kernels_in_words(table))
    bare = engine()
    plain_table = singular_kernels(bare, bare.primitives(bare.example()))
    by_code = dict(enumerate(named.names))
    assert [by_code[z] for z in plain_table["z"]] == list(table["z"])
    panel = read(tmp_path)
    by_panel = singular_kernels(bare, bare.primitives(bare.example()), panel)
    assert [str(z + 1) for z in plain_table["z"]] == list(by_panel["z"])


def test_what_is_forgotten_is_told_by_name(named):
    panel = pf.Panel.from_arrays([[0, 1, 2, 0, 0]], [[0, 0, 1, 0]])
    table = pf.forgetting(named, named.example(), panel).kernels
    reset = table[table["action"] == "replace"]
    assert set(reset["z'"]) == {"new"}
    assert set(reset["z"]) == {"new..ancient"}
    bare = pf.forgetting(engine(), named.example(), panel).kernels
    assert set(bare[bare["action"] == "replace"]["z"]) == {"0..3"}


def test_conditions_of_two_periods_are_told_by_name(named, tmp_path):
    law = pf.two_periods(named, named.example(), [[1.0, 0.0], [0.0, 1.0]])
    assert list(pf.recover_dynamics(law).conditions.index) == ["new", "used", "old", "ancient"]
    panel = read(tmp_path)
    seen = pf.TwoPeriods.from_panel(panel, np.eye(2), [0, 1], 4, 2)
    found = pf.recover_dynamics(seen)
    assert list(found.conditions.index) == [1, 2, 3, 4]
    assert "At z = 1, 2, 3, 4 some action" in found.summary()
