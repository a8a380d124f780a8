"""How many hidden states: splits that change nothing, refusals, and the choice on tiny panels."""

import dataclasses
from typing import ClassVar

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import pomdpfit as pf
from helpers import random_paths
from pomdpfit import plots
from pomdpfit._log_likelihood import Part
from pomdpfit._setting import Setting
from pomdpfit.baselines import BusEngine, NFXPLikelihood
from pomdpfit.estimators._base import BHHH, AbstractEstimator, Stage
from pomdpfit.identification.states._choose_states import _of_estimates, _of_ratios
from pomdpfit.identification.states._split_state import beside, split_state
from pomdpfit.identification.states._state_fits import Starts, replicate
from pomdpfit.identification.states._state_work import bootstrap_pvalue
from reference import agent

AGENTS, PERIODS, BINS = 40, 16, 6
X0 = np.array([0.4, 0.6])
TWO = {
    "RC": 2.0,
    "cost": np.array([200.0, 1000.0]),
    "stay": np.array([0.85, 0.9]),
    "increment": np.array([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]]),
    "discount": 0.8,
}
ONE = {
    "RC": 2.0,
    "cost": np.array([600.0]),
    "increment": np.array([[0.3, 0.4, 0.3]]),
    "discount": 0.8,
}


class Engine(pf.models.EngineReplacement):
    """The paper's engine with an example that a climb is soon home from."""

    def parameters(self):
        costs = np.linspace(300.0, 900.0, self.conditions + 2)[1:-1]
        near = {"RC": 2.0, "cost": costs, "stay": [0.8, 0.8]}
        given = super().parameters()
        return {n: dataclasses.replace(p, value=near.get(n, p.value)) for n, p in given.items()}


def engine(conditions, **options):
    return Engine(bins=BINS, increments=3, discount=0.8, conditions=conditions, **options)


CLIMB = BHHH(tolerance=1e-6, max_steps=40)


@dataclasses.dataclass(frozen=True)
class OneClimb(AbstractEstimator):
    """All parameters at once and nothing before: a third of the compilation of pf.Joint."""

    by_stages: ClassVar[bool] = False

    def stages(self, likelihood):
        return (Stage(Part.BOTH, likelihood.space.free_leaves, CLIMB),)

    def check(self, likelihood, restrictions):
        pass


# ---- a state split in two ----------------------------------------------------------------------


def observation_likelihood(P, x, z, a):
    """sum log P(z' | history) of one path by the forward recursion, in plain numpy."""
    total = 0.0
    for t in range(len(a)):
        joint = x @ P[z[t], :, a[t], z[t + 1]]
        total += np.log(joint.sum())
        x = joint / joint.sum()
    return total


def likelihood_of(model, panel, prior):
    return Setting(model, panel, prior).likelihood()


@pytest.mark.parametrize("new", ["good", "free"])
@pytest.mark.parametrize(("states", "state"), [(1, 0), (2, 0), (2, 1)])
def test_a_state_split_in_two_leaves_everything_as_it_is(states, state, new):
    """Rewards of the two are equal, and every path has the probability it had."""
    small, large = engine(states, new=new), engine(states + 1, new=new)
    x0 = X0 if states == 2 else np.ones(1)
    theta = dict(TWO if states == 2 else ONE) | {"x0": x0}
    if new == "free":
        theta["new"] = np.array([0.7, 0.3]) if states == 2 else np.ones(1)
    own = {name: theta[name] for name in small.parameters()}
    P = small.kernel(own).to_dense()
    panel = random_paths(P, x0, (12, 9), np.random.default_rng(state))
    prior = pf.CommonPrior() if states == 2 else None
    first = likelihood_of(small, panel, prior)
    second = likelihood_of(large, panel, pf.CommonPrior())
    theta = {name: theta[name] for name in first.space.parameters}
    split = split_state(first, theta, second, state)
    assert split.gap < 1e-6  # least squares stop there; what needs none is exact
    point = second.space.check(split.theta)
    wide = large.kernel({name: point[name] for name in large.parameters()}).to_dense()
    parent = np.repeat(np.arange(states), np.where(np.arange(states) == state, 2, 1))
    np.testing.assert_array_equal(point["cost"], theta["cost"][parent])
    for i in range(2):
        z, a = panel.z[i, panel.present[i]], panel.a[i, panel.acted[i]]
        expected = observation_likelihood(P, x0, z, a)
        # A dozen factors, each as wrong as the primitives at most in proportion.
        got = observation_likelihood(wide, np.asarray(point["x0"]), z, a)
        assert got == pytest.approx(expected, abs=1e-3 if split.gap > 1e-12 else 1e-10)


def test_a_start_beside_a_split_tells_the_two_apart_and_obeys_the_constraints():
    panel = random_paths(engine(2).kernel(TWO).to_dense(), X0, (9,), np.random.default_rng(0))
    first = likelihood_of(engine(1), panel, None)
    second = likelihood_of(engine(2), panel, pf.CommonPrior())
    split = split_state(first, ONE, second, 0)
    assert split.gap < 1e-15
    moved = second.space.check(beside(second, split.theta, 0.2, 0))
    assert np.abs(moved["increment"][0] - moved["increment"][1]).max() > 1e-3
    assert float(moved["discount"]) == 0.8


def test_models_of_other_processes_are_not_split():
    panel = pf.Panel.from_arrays([[0, 1, 2]], [[0, 0]])
    large = likelihood_of(engine(2), panel, pf.CommonPrior())
    rust = likelihood_of(BusEngine(bins=BINS, increments=3), panel, None)
    assert split_state(rust, rust.model.example(), large, 0) is None
    other = pf.models.EngineReplacement(bins=8, increments=3, conditions=1)
    small = likelihood_of(other, panel, None)
    assert split_state(small, other.example(), large, 0) is None


# ---- refusals and formulas ---------------------------------------------------------------------

FEW = pf.Panel.from_arrays([[0, 1, 2], [1, 2, 3]], [[0, 0], [0, 0]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"states": (1, 3)}, r"count up by one.*\(1, 3\)"),
        ({"states": (2,)}, "count up by one"),
        ({"starts": 0}, "starts must be at least 1.* 0"),
        ({"folds": 3}, "number of agents, 2, not 3"),
        ({"bootstrap": 9}, "1 / 10.*0.05"),
        ({"n_jobs": 0}, "n_jobs must be at least 1"),
        ({"folds": 2, "prior": lambda k: pf.AgentPriors()}, "no prior of their own"),
    ],
)
def test_what_makes_no_sense_is_refused(options, message):
    with pytest.raises(pf.EstimationError, match=message):
        pf.choose_states(engine, FEW, **({"states": (1, 2), "folds": 0} | options))


def test_a_model_that_does_not_follow_its_number_is_refused():
    with pytest.raises(pf.EstimationError, match=r"model\(1\) must have 1 hidden states.* 2"):
        pf.choose_states(lambda k: engine(2), FEW, prior=lambda k: pf.CommonPrior(), folds=0)


def test_the_p_value_counts_the_data_among_the_draws_and_leaves_failures_out():
    assert bootstrap_pvalue([1.0, 2.0, 3.0, 4.0], 3.0) == 3 / 5
    assert bootstrap_pvalue([1.0, np.nan, 3.0], 5.0) == 1 / 3


# ---- the choice --------------------------------------------------------------------------------

OPTIONS = {
    "states": (1, 2),
    "estimator": OneClimb(),
    "grid": lambda k: pf.Linear(7) if k > 1 else None,
    "starts": 1,
    "folds": 2,
    "bootstrap": 3,
    "alpha": 0.25,
    "seed": 1,
}


def panel_of(states, theta, x0, seed):
    """Agents that replace the sooner the higher z is, drawn in plain numpy."""
    P, rng = engine(states).kernel(theta).to_dense(), np.random.default_rng(seed)
    policy = lambda z, x: np.array([1 - z / 8, z / 8])
    paths = [agent.simulate(P, policy, x0, 0, PERIODS, rng) for _ in range(AGENTS)]
    return pf.Panel.from_arrays([path[0] for path in paths], [path[1] for path in paths])


@pytest.fixture(scope="module")
def hidden():
    """Two conditions that differ a lot, and what the progress heard."""
    heard = []
    panel = panel_of(2, TWO, X0, 5)
    tell = lambda what, done, total: heard.append((what, done, total))
    return pf.choose_states(engine, panel, progress=tell, **OPTIONS), heard


@pytest.fixture(scope="module")
def observed():
    panel = panel_of(1, ONE, np.ones(1), 6)
    return pf.choose_states(engine, panel, **(OPTIONS | {"folds": 0, "bootstrap": 0}))


def test_every_criterion_finds_the_second_state(hidden):
    choice, _ = hidden
    assert choice.best.to_dict() == {
        "AIC": 2,
        "BIC": 2,
        "cross-validation": 2,
        "likelihood ratio": 2,
    }
    assert choice.table.loc[1, "p_value"] == 1 / 4


def test_bic_stays_with_one_where_there_is_one(observed):
    assert observed.best["BIC"] == 1
    assert observed.table["cv"].isna().all()
    assert list(observed.best.index) == ["AIC", "BIC"]


def test_the_first_row_is_the_mdp_by_another_code(hidden):
    """Rust's nested fixed point knows nothing of hidden states; climbs end within 1e-6."""
    choice, _ = hidden
    rust = BusEngine(bins=BINS, increments=3, discount=0.8)
    theta = choice.estimates[1].theta
    plain = {name: np.squeeze(leaf) for name, leaf in theta.items()}
    terms = NFXPLikelihood(rust, choice.estimates[1].panel).terms(plain)
    assert choice.table.loc[1, "llf"] == pytest.approx(terms.total, abs=1e-6)
    fitted = pf.fit(rust, choice.estimates[1].panel, start=plain)
    assert fitted.llf == pytest.approx(choice.table.loc[1, "llf"], abs=1e-5)


def test_held_out_agents_are_scored_by_a_fit_to_the_others(hidden):
    """Again by Rust's code, on panels of the agents of each half."""
    choice, _ = hidden
    rust, panel = BusEngine(bins=BINS, increments=3, discount=0.8), choice.estimates[1].panel
    order = np.random.default_rng(OPTIONS["seed"]).permutation(AGENTS)
    total = 0.0
    for out in np.array_split(order, 2):
        rest = np.setdiff1d(np.arange(AGENTS), out)
        half = lambda rows: pf.Panel.from_arrays(panel.z[rows], panel.a[rows, :-1])
        fitted = pf.fit(rust, half(rest), start=pf.fit(rust, panel).theta)
        terms = NFXPLikelihood(rust, half(out)).terms(fitted.theta)
        # A maximum known to 1e-6 in likelihood is known to 1e-3 standard errors, of which held-out
        # agents make a difference of the same order.
        got = choice.cv.loc[list(out), 1].sum()
        assert got == pytest.approx(terms.total, abs=1e-2)
        total += got
    assert choice.table.loc[1, "cv"] == pytest.approx(total)
    gap = choice.cv[2] - choice.cv[1]
    assert choice.table.loc[2, "cv_gain"] == pytest.approx(gap.sum())
    assert choice.table.loc[2, "cv_gain_se"] == pytest.approx(gap.std() * np.sqrt(AGENTS))


def test_the_larger_model_is_never_below_the_smaller(hidden, observed):
    assert (hidden[0].lr["lr"] > -1e-6).all()
    for choice in (hidden[0], observed):
        table = choice.table
        assert table.loc[1, "lr"] == pytest.approx(2 * np.diff(table["llf"])[0])
        assert table.loc[1, "lr"] > -1e-6
        assert not any("MISSED" in note for note in choice.notes)


def test_a_replicate_depends_on_seed_and_number_alone(hidden):
    choice, _ = hidden
    again = replicate(choice.estimates[1], choice.estimates[2], Starts(1, 1), 2, 1)
    assert again["lr"] == choice.lr.set_index("replicate").loc[2, "lr"]


@pytest.mark.full
def test_processes_change_nothing(hidden):
    choice, _ = hidden
    two = pf.choose_states(engine, choice.estimates[1].panel, **OPTIONS, n_jobs=2)
    pd.testing.assert_frame_equal(two.cv, choice.cv, check_exact=True)
    pd.testing.assert_frame_equal(two.lr, choice.lr, check_exact=True)
    assert two.cost.n_jobs == 2


def test_the_cost_is_told_before_the_work_begins(hidden):
    choice, heard = hidden
    words = [what for what, _, _ in heard]
    cost = words.index(str(choice.cost))
    assert all(word == "fits to the panel" for word in words[:cost])
    assert choice.cost.fits == 2 * 1 + 2 * 2  # a fold of each, and two panels fitted twice
    assert choice.cost.seconds > 0
    assert heard[-1] == ("bootstrap, 1 against 2", 3, 3)


def test_words_and_picture(hidden):
    choice, _ = hidden
    text = " ".join(str(choice.summary()).split())
    assert "Chi-square does not hold" in text
    assert "1 is rejected at 0.25" in text
    assert "likelihood ratio picks 2" in text
    with mpl.rc_context({"backend": "Agg"}):
        criteria, ratio = plots.states(choice)
    assert len(criteria.get_lines()) == 3
    assert ratio.get_lines()[1].get_xdata()[0] == choice.table.loc[1, "lr"]


def test_a_missed_maximum_and_lost_panels_are_not_hidden(hidden):
    choice, _ = hidden
    low = dataclasses.replace(choice.estimates[2], terms=choice.estimates[1].terms - 0.1)
    notes = _of_estimates({1: choice.estimates[1], 2: low})
    assert any(note.startswith("MISSED MAXIMUM: 2 states") for note in notes)
    lost = choice.lr.assign(lr=[np.nan, *choice.lr["lr"][1:]], converged=False, reason="max steps")
    first, second = _of_ratios(choice.table, lost)
    assert "1 of 3 panels" in first
    assert "p would be 0.500" in first  # (1 + 0 + 1) / 4
    assert "2 max steps" in second
