"""Groups and covariates on the command line: what the library is handed, and what is refused."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import pomdpfit as pf
from pomdpfit.cli import _work as work_module
from pomdpfit.cli import app

ENGINE = """
model = "EngineReplacement"
options = {bins = 5, increments = 2, discount = 0.8}
prior = {kind = "known", belief = [0.7, 0.3]}
[groups]
labels = ["north", "south"]
own = ["RC"]
[theta]
"RC[south]" = 2.5
cost = [100.0, 900.0]
"""
PRICED = """
import pomdpfit as pf

class Priced(pf.models.EngineReplacement):
    def parameters(self):
        return {**super().parameters(), "slope": pf.Parameter(0.1), "price": pf.Covariate(0.0)}

    def reward(self, theta):
        return super().reward({**theta, "RC": theta["RC"] + theta["slope"] * theta["price"]})

model = Priced(bins=5, increments=2, discount=0.8)
"""
COLUMNS = ["--agent", "bus", "--time", "month", "--observation", "z", "--action", "a"]


class Enough(pf.EstimationError):
    """What was asked for is known: nothing needs to be fitted."""


@pytest.fixture
def handed(tmp_path, monkeypatch):
    """What `fit` was called with."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POMDPFIT_CACHE", "")
    rng, buses = np.random.default_rng(0), np.repeat(np.arange(6), 4)
    frame = pd.DataFrame({"bus": buses, "month": np.tile(np.arange(4), 6)})
    frame["z"], frame["a"] = rng.integers(0, 2, (2, 24))
    frame["depot"] = np.where(buses % 2, "north", "south")
    frame["price"] = rng.integers(1, 4, 24) / 2
    frame.to_csv("panel.csv", index=False)
    Path("engine.toml").write_text(ENGINE)
    Path("priced_engine.py").write_text(PRICED)
    told = {}

    def kept(model, panel, estimator, **options):
        told.update(model=model, panel=panel, **options)
        raise Enough("enough")

    monkeypatch.setattr(work_module, "fit", kept)
    return told


def invoke(*words, code=1):
    outcome = CliRunner().invoke(app, list(words))
    assert outcome.exit_code == code, outcome.output
    return " ".join(outcome.stderr.split())


def fit(model, *words, code=1):
    return invoke("fit", model, "panel.csv", *COLUMNS, *words, code=code)


def test_groups_of_the_file_are_those_of_model_and_panel(handed):
    assert "enough" in fit("engine.toml", "--group", "depot")
    model, panel = handed["model"], handed["panel"]
    assert isinstance(model, pf.models.Grouped)
    assert (model.groups, model.own) == (("north", "south"), ("RC",))
    assert handed["start"]["RC"].tolist() == [model.model.example()["RC"], 2.5]
    # The first bus is one of the south: numbers are those of the file's order all the same.
    assert panel.groups == ("north", "south")
    assert panel.covariates["group"][:, 0].tolist() == [1, 0, 1, 0, 1, 0]


def test_covariates_are_columns_that_the_model_reads(handed):
    words = ["--prior", "known:0.5,0.5"]
    assert "enough" in fit("priced_engine:model", *words, "--covariate", "price")
    frame = pd.read_csv("panel.csv")
    found = handed["panel"].covariates["price"]
    np.testing.assert_array_equal(found, frame["price"].to_numpy().reshape(6, 4))
    assert "--covariate price" in fit("priced_engine:model", *words, code=2)
    words += ["--covariate", "price", "--covariate", "prize"]
    assert "no such covariate; it reads price" in fit("priced_engine:model", *words, code=2)


def test_groups_and_their_column_go_together(handed):
    assert "(north, south): name their column with --group" in fit("engine.toml", code=2)
    Path("plain.toml").write_text(ENGINE[: ENGINE.index("[groups]")])
    assert "has no groups" in fit("plain.toml", "--group", "depot", code=2)
    Path("other.toml").write_text(ENGINE.replace("south", "east"))
    assert "'south'" in fit("other.toml", "--group", "depot")


def test_check_reads_groups_too(handed):
    words = ["check", "panel.csv", *COLUMNS, "--group", "depot", "--model", "engine.toml", "--json"]
    outcome = CliRunner().invoke(app, words)
    assert json.loads(outcome.stdout)["agents"] == 6


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('own = ["RC"]', 'own = ["RD"]', "no parameter named 'RD'"),
        ('own = ["RC"]', "", "lacks own"),
        ('labels = ["north", "south"]', "", "labels must list"),
        ('labels = ["north", "south"]', 'labels = ["north", "north"]', "distinct"),
        ('labels = ["north", "south"]', 'names = ["north"]', "unknown key 'names'"),
        ('model = "EngineReplacement"', 'model = "BusEngine"', "hidden states"),
    ],
)
def test_malformed_groups_are_refused(tmp_path, old, new, words):
    path = tmp_path / "engine.toml"
    text = ENGINE.replace('prior = {kind = "known", belief = [0.7, 0.3]}\n', "")
    path.write_text(text.replace(old, new))
    with pytest.raises(pf.ModelError, match=words):
        pf.read_model(path)


def test_a_prior_that_takes_the_files_place_leaves_its_parameters_out_and_says_so(handed):
    text = ENGINE[: ENGINE.index("[groups]")].replace(
        '{kind = "known", belief = [0.7, 0.3]}', '"common"'
    )
    Path("common.toml").write_text(f"{text}[theta]\nx0 = [0.6, 0.4]\nRC = 2.5\n")
    told = fit("common.toml", "--prior", "known:0.5,0.5")
    assert "x0 of common.toml is not used: --prior known:0.5,0.5 has no such parameter" in told
    assert list(handed["start"]) == ["RC"]
    Path("held.toml").write_text(f"{text}[fixed]\nx0 = [0.6, 0.4]\n")
    assert "x0 of held.toml is not used" in fit("held.toml", "--prior", "agent")
    assert handed["fixed"] == {}
    assert "not used" not in fit("common.toml", "--prior", "common")
    assert handed["start"]["x0"].tolist() == [0.6, 0.4]
