"""Laws of the score at the truth: mean zero, parts uncorrelated, the information equality.

The simulated agents follow the policy of the same grid that scores them, so the laws hold exactly
and not only as the grid becomes finer: nothing but Monte-Carlo error is left.
"""

import dataclasses

import numpy as np
import pytest
from scipy import stats

import pomdpfit as pf
from pomdpfit._entries import free_entries
from pomdpfit.baselines import NFXPLikelihood
from pomdpfit.inference._information import information_at
from small_bus import MODEL as BUS
from small_bus import TRUTH as BUS_TRUTH
from small_bus import draw_panel

ENGINE = pf.models.EngineReplacement(bins=8, increments=3, discount=0.9)
ENGINE_TRUTH = {
    "RC": 3.0,
    "cost": np.array([50.0, 400.0]),
    "stay": np.array([0.85, 0.9]),
    "increment": np.array([[0.1, 0.3, 0.6], [0.6, 0.3, 0.1]]),
    "discount": 0.9,
}
LEVEL = 1e-4
# Two-sided normal tails beyond it hold 7e-6; times the entries of a matrix at most 81: 6e-4.
SIGMAS = 4.5


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """A likelihood, the truth that its panel was drawn at, and coordinates there."""

    likelihood: object
    theta: dict
    entries: object
    chart: object
    scores: np.ndarray  # by agent, part and coordinate
    se: np.ndarray  # of an estimate from this panel, for units
    start: object  # the solution here, which saves most of solving nearby

    @classmethod
    def of(cls, likelihood, truth, start=None):
        theta = {name: np.asarray(leaf, dtype=float) for name, leaf in truth.items()}
        free = [name for name, p in likelihood.space.parameters.items() if not p.fixed]
        entries = free_entries(likelihood.space, free, theta)
        phi = entries.flatten(theta)
        chart = entries.chart(phi, priority=np.arange(len(phi), dtype=float))
        terms, scores = likelihood.push(theta, entries.split(chart.jacobian.T), start=start)
        total = scores.sum(axis=1)
        se = np.sqrt(np.diag(np.linalg.inv(total.T @ total)))
        return cls(likelihood, theta, entries, chart, scores, se, terms.start)

    @property
    def names(self):
        return [self.entries.names[k] for k in self.chart.independent]

    def moved(self, k, by):
        """theta with coordinate k moved by so many standard errors; rows still sum to one."""
        phi = self.entries.flatten(self.theta) + by * self.se[k] * self.chart.jacobian[:, k]
        return self.entries.insert(phi, self.theta)

    def scores_at(self, theta):
        directions = self.entries.split(self.chart.jacobian.T)
        return self.likelihood.push(theta, directions, start=self.start)[1]

    def information_gap(self, at=None, h=1e-3):
        """s_i s_i' + H_i of every agent, H_i by central differences of the agent's score.

        Steps are a thousandth of a standard error of the whole panel: the truncation error is a
        millionth of what one agent's third derivatives could be.
        """
        here = self if at is None else Case.of(self.likelihood, at, self.start)
        s = here.scores.sum(axis=1)
        columns = []
        for k, se in enumerate(here.se):
            up, down = (here.scores_at(here.moved(k, sign * h)).sum(axis=1) for sign in (1, -1))
            columns.append((up - down) / (2 * h * se))
        return s[:, :, None] * s[:, None, :] + np.stack(columns, axis=-1)


@pytest.fixture(scope="module")
def engine():
    prior, grid, N = pf.KnownPrior([0.5, 0.5]), pf.Smooth(9), 2000
    z0 = np.random.default_rng(0).integers(0, ENGINE.bins, size=N)
    panel = pf.simulate(
        ENGINE, ENGINE_TRUTH, agents=N, periods=12, seed=0, prior=prior, z0=z0, grid=grid
    )
    return Case.of(pf.Likelihood(ENGINE, panel, prior=prior, grid=grid), ENGINE_TRUTH)


@pytest.fixture(scope="module")
def bus():
    """Drawn by the reference solver, so that simulation and score share nothing but the model."""
    panel = draw_panel(1, agents=3000, periods=12)
    return Case.of(NFXPLikelihood(BUS, panel), BUS_TRUTH)


@pytest.fixture(params=["engine", "bus"])
def case(request):
    return request.getfixturevalue(request.param)


def mean_is_zero(scores) -> float:
    """p-value of N mean' cov^-1 mean, chi-square in the coordinates that the part depends on."""
    scores = scores[:, (scores != 0).any(axis=0)]
    mean, cov = scores.mean(axis=0), np.cov(scores.T)
    return stats.chi2.sf(len(scores) * mean @ np.linalg.solve(cov, mean), len(mean))


def in_sigmas(draws) -> np.ndarray:
    """The mean over agents in units of its own standard error."""
    spread = draws.std(axis=0) / np.sqrt(len(draws))
    return np.divide(draws.mean(axis=0), spread, out=np.zeros(spread.shape), where=spread > 0)


# ---- mean zero ----------------------------------------------------------------------------------


def test_the_score_has_mean_zero_at_the_truth(case):
    assert mean_is_zero(case.scores.sum(axis=1)) > LEVEL


@pytest.mark.parametrize("part", [0, 1], ids=["observation", "choice"])
def test_each_part_of_the_score_has_mean_zero(case, part):
    assert mean_is_zero(case.scores[:, part]) > LEVEL


def test_a_wrong_theta_is_rejected_in_every_direction(case):
    """Off by 8 standard errors the statistic is about chi-square with noncentrality 64 or more."""
    for k, name in enumerate(case.names):
        moved = case.scores_at(case.moved(k, 8.0))
        assert mean_is_zero(moved.sum(axis=1)) < LEVEL, name
        # Dynamics are told by the observations too, rewards by the choices alone.
        dynamics = name.split("[")[0] in case.likelihood.dynamics
        assert mean_is_zero(moved[:, 0 if dynamics else 1]) < LEVEL, name


def test_rewards_have_no_observation_score(case):
    reward = [name.split("[")[0] not in case.likelihood.dynamics for name in case.names]
    np.testing.assert_array_equal(case.scores[:, 0, reward], 0)
    assert (case.scores[:, 1] != 0).any(axis=0).all()


# ---- the parts are uncorrelated -----------------------------------------------------------------


def test_observation_and_choice_scores_are_uncorrelated(case):
    """Period by period one of the two has mean zero given all that the other has seen."""
    product = case.scores[:, 0, :, None] * case.scores[:, 1, None, :]
    assert np.abs(in_sigmas(product)).max() < SIGMAS
    # It could fail: a part is correlated with itself in all its coordinates.
    square = case.scores[:, 1] ** 2
    assert in_sigmas(square).min() > 2 * SIGMAS


# ---- the information equality -------------------------------------------------------------------


def test_information_equality_agent_by_agent(case):
    """E[s s'] + E[H] = 0, every entry within Monte-Carlo error."""
    assert np.abs(in_sigmas(case.information_gap())).max() < SIGMAS


def test_information_equality_fails_away_from_the_truth(case):
    """The gap grows in proportion to the distance, with the agent's third derivatives."""
    assert np.abs(in_sigmas(case.information_gap(at=case.moved(0, 20.0)))).max() > SIGMAS


def test_information_equality_over_replicated_panels():
    """Here with the Hessian that standard errors are made of, one a panel."""
    gaps = []
    for seed in range(60):
        case = Case.of(NFXPLikelihood(BUS, draw_panel(1000 + seed, agents=100)), BUS_TRUTH)
        found = information_at(case.likelihood, case.entries, case.theta, case.chart, None)
        np.testing.assert_allclose(found.scores, case.scores, rtol=1e-10, atol=1e-10)
        s = case.scores.sum(axis=1)
        gaps.append(s.T @ s + found.hessian)
    unit = case.se  # of one panel: entries of the information are then of order one
    gaps = np.array(gaps) * np.outer(unit, unit)
    assert np.abs(in_sigmas(gaps)).max() < SIGMAS
    # 60 panels tell each entry to a few hundredths of the information itself.
    assert (gaps.std(axis=0) / np.sqrt(60)).max() < 0.1


def test_the_hessian_of_the_panel_is_the_sum_of_its_agents(bus):
    """Central differences of pushed and of pulled gradients, with steps of their own."""
    found = information_at(bus.likelihood, bus.entries, bus.theta, bus.chart, None)
    s = bus.scores.sum(axis=1)
    summed = (bus.information_gap() - s[:, :, None] * s[:, None, :]).sum(axis=0)
    spread = np.sqrt(np.outer(np.diag(summed), np.diag(summed)))
    # Truncation: a millionth times relative third derivatives of order one, in each of the two.
    np.testing.assert_allclose(found.hessian / spread, summed / spread, atol=1e-5)
