"""Groups and covariates: pooled panels against their parts, contexts against hand-made beliefs."""

import itertools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

import pomdpfit as pf
from helpers import Table, at, random_kernel, random_reward
from pomdpfit._log_likelihood import Part

# ---- groups --------------------------------------------------------------------------------

BUS = pf.models.EngineReplacement(bins=5, increments=2, discount=0.8)
GRID = pf.Smooth(7)
PRIOR = pf.KnownPrior([0.7, 0.3])
SHARED = {"cost": np.array([100.0, 900.0]), "discount": 0.8}
SHARED["increment"] = np.array([[0.3, 0.7], [0.75, 0.25]])
OWN = {
    "A": {"RC": 1.5, "stay": np.array([0.8, 0.9])},
    "B": {"RC": 2.5, "stay": np.array([0.9, 0.7])},
}
KNOWN = {name: SHARED[name] for name in ("cost", "increment")}


def rows_of(panel, i):
    return panel.z[i, panel.present[i]], panel.a[i, panel.acted[i]]


def gathered(panels, order):
    """One panel of the agents (panel, i) in this order."""
    pairs = [rows_of(panels[k], i) for k, i in order]
    return pf.Panel.from_arrays(*zip(*pairs, strict=True), agents=[f"{k}{i}" for k, i in order])


@pytest.fixture(scope="module")
def parts():
    """A panel for each group, of the same shape; every third agent leaves early."""
    found = {}
    for seed, (label, own) in enumerate(OWN.items()):
        z0 = np.arange(30) % BUS.bins
        options = {"agents": 30, "periods": 20, "seed": seed, "prior": PRIOR, "z0": z0}
        panel = pf.simulate(BUS, {**SHARED, **own}, grid=GRID, **options)
        pairs = [rows_of(panel, i) for i in range(30)]
        short = [(z[:12], a[:11]) if i % 3 == 1 else (z, a) for i, (z, a) in enumerate(pairs)]
        found[label] = pf.Panel.from_arrays(*zip(*short, strict=True))
    return found


@pytest.fixture(scope="module")
def pooled(parts):
    """The agents of both groups in turn, those of B first."""
    order = [(label, i) for i in range(30) for label in "BA"]
    panel = gathered(parts, order)
    return panel.with_groups({f"{k}{i}": k for k, i in order}, groups=["A", "B"])


def grouped(*own):
    return pf.models.Grouped(BUS, ["A", "B"], own=own)


def theta_of(*own):
    """theta of `grouped(*own)`: what is not own is group A's."""
    stacked = {name: np.stack([OWN["A"][name], OWN["B"][name]]) for name in own}
    return {**SHARED, **OWN["A"], **stacked, "group": 0.0}


def plain(theta, label, own):
    """theta of the plain model for one group."""
    k = "AB".index(label)
    inner = {name: leaf for name, leaf in theta.items() if name != "group"}
    return inner | {name: np.asarray(theta[name])[k] for name in own}


@pytest.fixture(scope="module")
def apart(parts):
    """The plain model's likelihood of each group."""
    return {k: pf.Likelihood(BUS, part, prior=PRIOR, grid=GRID) for k, part in parts.items()}


def test_a_pooled_likelihood_is_the_sum_of_its_groups(apart, pooled):
    own = ("RC", "stay")
    theta = theta_of(*own)
    ll = pf.log_likelihood(grouped(*own), theta, pooled, prior=PRIOR, grid=GRID)
    alone = {k: apart[k](plain(theta, k, own)) for k in "AB"}
    assert ll.total == pytest.approx(sum(part.total for part in alone.values()), abs=1e-10)
    for k, part in alone.items():
        mine = ll.by_agent.loc[[f"{k}{i}" for i in range(30)]]
        np.testing.assert_allclose(mine, part.by_agent, atol=1e-12)


def test_own_parameters_are_named_by_group_and_shared_ones_are_not():
    names = grouped("RC", "stay").space().free_names
    assert names[:4] == ["RC[A]", "RC[B]", "cost[good]", "cost[bad]"]
    assert names[4:8] == ["stay[A, good]", "stay[A, bad]", "stay[B, good]", "stay[B, bad]"]
    assert not [name for name in names if name.startswith("group")]
    assert pf.models.Grouped(BUS, [1, 2], own=["RC"]).space().names[:2] == ["RC[1]", "RC[2]"]


@pytest.mark.full
def test_scores_of_groups_equal_central_differences_of_the_parts(apart, pooled):
    own = ("RC", "stay")
    model, theta = grouped(*own), theta_of(*own)
    space = model.space().fix(KNOWN)
    likelihood = pf.Likelihood(model, pooled, prior=PRIOR, grid=GRID, space=space)
    result, gradient = likelihood.gradient(theta)
    assert list(gradient.index) == space.free_names
    vector = np.asarray(space.to_vector(theta))

    def total(v):
        moved = space.from_vector(v, theta)
        return sum(apart[k](plain(moved, k, own)).total for k in "AB")

    for k, name in enumerate(space.free_names):
        # The error of a central difference is h^2 f''' / 6 + eps |f| / h, in units of the entry.
        h = 1e-4 * max(abs(vector[k]), 0.1)
        unit = np.eye(len(vector))[k] * h
        # Richardson's step makes the first of them fourth order.
        near, far = (total(vector + m * unit) - total(vector - m * unit) for m in (1, 2))
        difference = (8 * near - far) / (12 * h)
        assert gradient[name] == pytest.approx(difference, rel=1e-6, abs=1e-6), name
    _, scores = likelihood.scores(theta, start=result.start)
    np.testing.assert_allclose(scores.sum(), gradient, rtol=1e-9, atol=1e-9)
    # What belongs to one group does not touch the other.
    assert (scores.loc[[f"B{i}" for i in range(30)], "RC[A]"] == 0).all()
    assert (scores.loc[[f"A{i}" for i in range(30)], ["RC[B]", "stay[B, bad]"]] == 0).all().all()


def estimate(model, panel, estimator=None, **fixed):
    options = {"prior": PRIOR, "grid": GRID, "starts": 1, "fixed": KNOWN | fixed}
    return pf.fit(model, panel, estimator, **options)


def best(function, start, steps):
    """The highest point by scipy without gradients; `steps` are about a standard error long."""
    loss = lambda u: -function(start + u * steps)
    found = minimize(loss, np.zeros(len(start)), method="Nelder-Mead", options=PRECISE)
    return start + found.x * steps, -found.fun


PRECISE = {"xatol": 1e-5, "fatol": 1e-10, "maxiter": 2000}
# A promised gain below 1e-8 is a distance below sqrt(2e-8) standard errors; a log-likelihood of
# a thousand known to 1e-12 of its size locates its maximum to about sqrt(2e-9).
APART = 3e-4


@pytest.mark.parametrize(
    "estimator",
    [pf.Joint(), pf.TwoStage()],
    ids=["joint", "two stages"],
)
@pytest.mark.full
def test_with_everything_of_its_own_each_group_is_estimated_by_itself(apart, pooled, estimator):
    est = estimate(grouped("RC", "stay"), pooled, estimator)
    assert est.converged
    assert list(est.params.index) == [
        *("RC[A]", "RC[B]"),
        *("stay[A, good]", "stay[A, bad]", "stay[B, good]", "stay[B, bad]"),
    ]
    staged = isinstance(estimator, pf.TwoStage)
    part = Part.OBSERVATION if staged else Part.BOTH  # the first stage is a maximum by itself
    total = 0.0
    for k in "AB":
        names = [*([] if staged else [f"RC[{k}]"]), f"stay[{k}, good]", f"stay[{k}, bad]"]
        here = plain(est.theta, k, ("RC", "stay"))

        def value(v, k=k, here=here):
            if (v[-2:] < 0).any() or (v[-2:] > 1).any():
                return -np.inf
            moved = {"RC": v[0], "stay": v[1:]} if len(v) == 3 else {"stay": v}
            return apart[k].terms(here | moved, part=part).parts().sum()

        errors = est.bse[names].to_numpy()
        # From half a standard error away.
        found, height = best(value, est.params[names].to_numpy() + 0.5 * errors, errors)
        assert (np.abs(found - est.params[names]) < APART * errors).all()
        total += height
    assert (est.llf_observation if staged else est.llf) == pytest.approx(total, abs=1e-7)
    # What is learnt of one group says nothing of the other.
    across = est.cov_params().filter(like="[A").filter(like="[B", axis=0).to_numpy()
    np.testing.assert_allclose(across, 0, atol=1e-6 * est.bse.max() ** 2)


@pytest.mark.full
def test_with_nothing_of_their_own_groups_are_one(apart, parts):
    stay = OWN["A"]["stay"]  # known, which saves compiling
    est = estimate(grouped(), parts["A"].with_groups(["A", "B", "B"] * 10), stay=stay)
    assert est.converged
    assert list(est.params.index) == ["RC"]
    theta = SHARED | {"stay": stay}
    start, error = est.params.to_numpy() + 0.5 * est.bse["RC"], est.bse.to_numpy()
    found, height = best(lambda v: apart["A"](theta | {"RC": v[0]}).total, start, error)
    assert est.llf == pytest.approx(height, abs=1e-7)
    assert abs(found[0] - est.params["RC"]) < APART * est.bse["RC"]


def test_the_dynamics_of_a_grouped_model_are_found(pooled):
    likelihood = pf.Likelihood(grouped("RC", "stay"), pooled, prior=PRIOR, grid=GRID)
    assert likelihood.dynamics >= {"stay", "increment"}
    assert not likelihood.dynamics & {"RC", "cost", "discount"}


# ---- the labels of groups ------------------------------------------------------------------


def frame(**columns):
    rows = {
        "bus": [7, 7, 7, 8, 8, 8, 9, 9, 9],
        "month": [0, 1, 2] * 3,
        "z": [0, 1, 2, 0, 0, 1, 1, 1, 2],
        "a": [0, 0, 0, 0, 1, 0, 0, 0, 1],
        "make": ["GMC"] * 3 + ["Grumman"] * 3 + ["GMC"] * 3,
        "fuel": [1.0, 1.5, 1.0, 1.0, 1.5, 1.0, 1.0, 1.5, 1.0],
    }
    return pd.DataFrame(rows | columns)


def read(data, **options):
    columns = {"agent": "bus", "time": "month", "observation": "z", "action": "a"}
    return pf.Panel.from_frame(data, **columns, **options)


def test_groups_are_read_from_a_frame_in_the_order_of_their_first_agents():
    panel = read(frame(), group="make")
    assert panel.groups == ("GMC", "Grumman")
    np.testing.assert_array_equal(panel.covariates["group"][:, 0], [0, 1, 0])
    listed = read(frame(), group="make", groups=["Grumman", "GMC"])
    assert listed.groups == ("Grumman", "GMC")
    np.testing.assert_array_equal(listed.covariates["group"][:, 0], [1, 0, 1])


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (
            {"make": ["GMC", "GMC", "Grumman"] * 3},
            {},
            r"row 2 \(agent 7, month 2\): make 'Grumman';.* each differs from the agent's first",
        ),
        (
            {"make": ["GMC"] * 4 + [None] * 5},
            {},
            r"row 4 \(agent 8, month 1\): make;.* each is missing",
        ),
        ({}, {"group": "maker"}, "no column 'maker'.*Did you mean 'make'"),
        ({}, {"groups": ["GMC"]}, r"agent 8: 'Grumman' is not one of groups=\['GMC'\]"),
    ],
)
def test_refusals_of_groups_in_a_frame(columns, options, message):
    with pytest.raises(pf.PanelError, match=message):
        read(frame(**columns), **{"group": "make"} | options)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["A"], "one group for each of 3 agents"),
        ({7: "A", 8: "B"}, "no group for agent 9"),
        (["A", None, "B"], "agent 8: the group is missing"),
        (["A", "B", float("nan")], "agent 9: the group is missing"),
    ],
)
def test_refusals_of_group_labels(labels, message):
    with pytest.raises(pf.PanelError, match=message):
        read(frame()).with_groups(labels)


@pytest.mark.parametrize(
    ("groups", "own", "message"),
    [
        (["A", "B"], ["RCX"], "no parameter named 'RCX'"),
        ([], ["RC"], "distinct labels"),
        (["A", "A"], ["RC"], "distinct labels"),
        ([1, "1"], ["RC"], "distinct labels"),  # both would be RC[1]
    ],
)
def test_refusals_of_grouped_models(groups, own, message):
    with pytest.raises(pf.ModelError, match=message):
        pf.models.Grouped(BUS, groups, own=own)


def test_a_grouped_model_cannot_be_grouped_again():
    with pytest.raises(pf.ModelError, match="'group' already"):
        pf.models.Grouped(grouped("RC"), ["x", "y"], own=["cost"])


SMALL = pf.Panel.from_arrays([[0, 1, 1], [0, 0, 1]], [[0, 0], [0, 0]])


def small(labels, **options):
    return SMALL.with_groups(labels, **options)


def total(panel):
    return pf.log_likelihood(grouped("RC"), theta_of("RC"), panel, prior=PRIOR, grid=GRID).total


def test_groups_in_another_order_than_the_models_are_an_error_not_a_mix_up():
    # The first agent is of group B: by number alone it would get the parameters of A.
    with pytest.raises(pf.PanelError, match=r"\['B', 'A'\], but the model's are \['A', 'B'\]"):
        total(small(["B", "A"]))
    with pytest.raises(pf.PanelError, match=r"groups are \['B'\]"):  # a holdout of one group
        total(small(["B", "B"]))
    theta = theta_of("RC")
    with pytest.raises(pf.PanelError, match="groups are"):
        pf.filter_beliefs(grouped("RC"), theta, small(["B", "A"]), prior=PRIOR)
    listed = small(["B", "A"], groups=["A", "B"])
    one = [
        pf.log_likelihood(BUS, plain(theta, k, ["RC"]), SMALL, prior=PRIOR, grid=GRID).by_agent
        for k in "BA"
    ]
    expected = one[0]["total"][0] + one[1]["total"][1]
    assert total(listed) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("number", [2, -1, 0.5])
def test_a_group_number_that_is_none_of_the_models_is_refused(number):
    with pytest.raises(pf.PanelError, match=rf"agent 1 at time 0: group {number:g} is not one of"):
        total(SMALL.with_covariates(group=[0, number]))


def test_a_theta_of_no_group_is_refused():
    with pytest.raises(pf.ModelError, match="group must lie in"):
        pf.solve(grouped("RC"), theta_of("RC") | {"group": 2.0}, grid=GRID)


def test_a_simulated_panel_knows_its_group():
    theta = theta_of("RC") | {"group": 1.0}
    options = {"agents": 2, "periods": 3, "seed": 0, "prior": PRIOR, "grid": GRID}
    panel = pf.simulate(grouped("RC"), theta, **options)
    assert (panel.covariates["group"] == 1.0).all()
    assert panel.groups == ("A", "B")
    same = pf.simulate(BUS, plain(theta, "B", ["RC"]), **options)
    np.testing.assert_array_equal(panel.z, same.z)
    np.testing.assert_array_equal(panel.a, same.a)


# ---- covariates ----------------------------------------------------------------------------

Z, S, A = 3, 2, 2
RNG = np.random.default_rng(5)
P_LOW, P_HIGH = random_kernel(RNG, Z, S, A), random_kernel(RNG, Z, S, A)
R = random_reward(RNG, Z, S, A)
X0 = np.array([0.35, 0.65])
KNOWN_X0 = pf.KnownPrior(X0)
TRUTH = {"price": 0.8, "tilt": 0.6, "discount": 0.8}


class Market(pf.Model):
    """P mixes two kernels with weight 1 / (1 + exp(-tilt w)); the second action costs price w."""

    low: np.ndarray
    high: np.ndarray
    r: np.ndarray
    epochs: int | None = eqx.field(static=True, default=None)

    def parameters(self):
        return {
            "price": pf.Parameter(1.0),
            "tilt": pf.Parameter(0.0),
            "w": pf.Covariate(0.5),
            "discount": pf.discount_parameter(0.8),
        }

    def kernel(self, theta):
        share = jax.nn.sigmoid(theta["tilt"] * theta["w"])
        return pf.dense_kernel((1 - share) * self.low + share * self.high)

    def reward(self, theta):
        return jnp.asarray(self.r) - theta["price"] * theta["w"] * jnp.array([0.0, 1.0])

    def horizon(self):
        return self.epochs


MARKET = Market(P_LOW, P_HIGH, R)
LIMITED = Market(P_LOW, P_HIGH, R, epochs=4)


def kernel_at(w, theta=TRUTH):
    share = 1 / (1 + math.exp(-theta["tilt"] * w))
    return (1 - share) * P_LOW + share * P_HIGH


def table_at(w, theta=TRUTH):
    """The same model with this value written in."""
    return Table(kernel_at(w, theta), R - theta["price"] * w * np.array([0.0, 1.0]))


def market_panel(lengths=(5, 3, 4)):
    """Ragged, in arbitrary order: everything is possible under these kernels."""
    rng = np.random.default_rng(1)
    z = [rng.integers(0, Z, size=n) for n in lengths]
    return pf.Panel.from_arrays(z, [rng.integers(0, A, size=n - 1) for n in lengths])


W = np.array([[-1.0, 2.0, 0.5, 0.5, 2.0], [2.0, 2.0, -1.0, 0.5, 0.5], [0.5, -1.0, 2.0, 0.5, 0.5]])
MOVING = market_panel().with_covariates(w=W)


def by_hand(model, panel, theta=TRUTH):
    """log sigma, log pi, x: each row with the kernel and the policy of its own covariate."""
    shape = panel.z.shape
    observation, choice, belief = np.zeros(shape), np.zeros(shape), np.zeros((*shape, S))
    solutions = {
        w: pf.solve(model, {**theta, "w": w}, grid=GRID)
        for w in set(panel.covariates["w"][panel.present])
    }
    for i, t in zip(*np.nonzero(panel.present), strict=True):
        z, a, w = panel.z[i, t], panel.a[i, t], panel.covariates["w"][i, t]
        x = X0 if t == 0 else belief[i, t]
        belief[i, t] = x
        if panel.acted[i, t]:
            epoch = () if model.epochs is None else (t,)
            choice[i, t] = np.log(solutions[w].policy(z, x, *epoch)[a])
        if t + 1 < shape[1] and panel.present[i, t + 1]:
            mass = x @ kernel_at(w, theta)[z, :, a, panel.z[i, t + 1]]
            observation[i, t] = np.log(mass.sum())
            belief[i, t + 1] = mass / mass.sum()
    return observation, choice, belief


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(MARKET, id="infinite"),
        pytest.param(LIMITED, id="finite horizon", marks=pytest.mark.full),
    ],
)
def test_the_belief_goes_on_from_one_context_to_the_next(model):
    ll = pf.log_likelihood(model, {**TRUTH, "w": 0.0}, MOVING, prior=KNOWN_X0, grid=GRID)
    observation, choice, belief = by_hand(model, MOVING)
    np.testing.assert_allclose(ll.observation, observation, atol=1e-12)
    # Solutions are found to 1e-12 or so, from different starts.
    np.testing.assert_allclose(ll.choice, choice, atol=1e-10)
    here = MOVING.present
    np.testing.assert_allclose(ll.belief[here], belief[here], atol=1e-12)


@pytest.mark.parametrize("part", [Part.OBSERVATION, Part.BOTH])
def test_panels_with_other_covariates_share_no_derivatives(part):
    """At zero coefficients the values are the same, and their moves are not."""
    still = {**TRUTH, "price": 0.0, "tilt": 0.0, "w": 0.0}
    first = pf.Likelihood(MARKET, MOVING, prior=KNOWN_X0, grid=GRID)
    directions = first.space.free_directions()
    other = market_panel().with_covariates(w=3.0 * W)
    moved = first.on(other)
    before = first.push(still, directions, part=part)[1]
    fresh = pf.Likelihood(MARKET, other, prior=KNOWN_X0, grid=GRID)
    known = fresh.push(still, directions, part=part)[1]
    assert np.abs(known - before).max() > 1e-3
    np.testing.assert_allclose(moved.push(still, directions, part=part)[1], known, atol=1e-10)


def test_what_theta_says_of_a_covariate_does_not_matter_beside_a_panel():
    both = [
        pf.log_likelihood(MARKET, {**TRUTH, "w": w}, MOVING, prior=KNOWN_X0, grid=GRID).total
        for w in (0.0, 30.0)
    ]
    assert both[0] == both[1]


def test_a_covariate_of_agents_is_a_model_for_each_and_a_constant_one_is_none():
    panel, theta = market_panel((5, 5, 5)), {**TRUTH, "w": 0.0}
    values = [0.5, -1.0, 2.0]
    several = panel.with_covariates(w=values)
    ll = pf.log_likelihood(MARKET, theta, several, prior=KNOWN_X0, grid=GRID)
    for i, w in enumerate(values):
        # The model with this value written in, and all agents in this context alone.
        written = pf.log_likelihood(table_at(w), at(0.8), panel, prior=KNOWN_X0, grid=GRID)
        constant = panel.with_covariates(w=w)
        same = pf.log_likelihood(MARKET, theta, constant, prior=KNOWN_X0, grid=GRID)
        assert same.total == pytest.approx(written.total, abs=1e-10)
        np.testing.assert_allclose(ll.by_agent.loc[i], written.by_agent.loc[i], atol=1e-10)
        np.testing.assert_allclose(ll.belief[i], written.belief[i], atol=1e-12)


def test_gradients_through_contexts_equal_central_differences_by_hand():
    gradient = pf.score(MARKET, {**TRUTH, "w": 0.0}, MOVING, prior=KNOWN_X0, grid=GRID)
    assert list(gradient.index) == ["price", "tilt"]
    for name in gradient.index:
        h = 1e-4  # truncation h^2 f''' / 6 and rounding eps |f| / h are both below 1e-8
        up, down = (
            sum(part.sum() for part in by_hand(MARKET, MOVING, TRUTH | {name: TRUTH[name] + d})[:2])
            for d in (h, -h)
        )
        assert gradient[name] == pytest.approx((up - down) / (2 * h), rel=1e-6, abs=1e-7)


def test_filtered_and_smoothed_beliefs_move_through_contexts():
    theta = {**TRUTH, "w": 0.0}
    filtered = pf.filter_beliefs(MARKET, theta, MOVING, prior=KNOWN_X0)
    smoothed = pf.smooth_beliefs(MARKET, theta, MOVING, prior=KNOWN_X0)
    observation, _, belief = by_hand(MARKET, MOVING)
    np.testing.assert_allclose(filtered.log_sigma, observation, atol=1e-12)
    for i in range(3):
        z, a = rows_of(MOVING, i)
        kernels = [kernel_at(w) for w in W[i, : len(a)]]
        np.testing.assert_allclose(filtered.x[i, : len(z)], belief[i, : len(z)], atol=1e-12)
        # Every hidden path by itself.
        weight = np.zeros((len(z), S))
        for path in itertools.product(range(S), repeat=len(z)):
            p = X0[path[0]]
            for t, P in enumerate(kernels):
                p *= P[z[t], path[t], a[t], z[t + 1], path[t + 1]]
            weight[np.arange(len(z)), path] += p
        expected = weight / weight.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(smoothed.x[i, : len(z)], expected, atol=1e-12)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1.0, 2.0], r"one number, 3 of them or have shape \(3, 5\), but it has \(2,\)"),
        (np.ones((5, 3)), r"it has \(5, 3\)"),
        ([1.0, np.nan, 2.0], "agent 1 at time 0: covariate 'w' is nan"),
        (np.where(W[0, 1] == W, np.inf, W), "agent 0 at time 1: covariate 'w' is inf"),
    ],
)
def test_refusals_of_covariates(value, message):
    with pytest.raises(pf.PanelError, match=message):
        market_panel().with_covariates(w=value)


def test_rows_that_do_not_exist_need_no_covariate():
    holes = np.where(MOVING.present, W, np.nan)
    panel = market_panel().with_covariates(w=holes)
    ll = [
        pf.log_likelihood(MARKET, {**TRUTH, "w": 0.0}, p, prior=KNOWN_X0, grid=GRID).total
        for p in (panel, MOVING)
    ]
    assert ll[0] == ll[1]


def test_a_missing_covariate_is_named():
    for call in (pf.log_likelihood, pf.filter_beliefs):
        with pytest.raises(pf.PanelError, match=r"reads the covariate 'w'.*with_covariates"):
            call(MARKET, {**TRUTH, "w": 0.0}, market_panel(), prior=KNOWN_X0)


def test_covariates_are_read_from_a_frame():
    panel = read(frame(), covariates=["fuel"])
    np.testing.assert_array_equal(panel.covariates["fuel"], [[1.0, 1.5, 1.0]] * 3)
    shuffled = frame().sample(frac=1.0, random_state=0)
    moved = read(shuffled, covariates=["fuel"])
    first = {agent: i for i, agent in enumerate(moved.agents)}
    np.testing.assert_array_equal(moved.covariates["fuel"][first[8]], [1.0, 1.5, 1.0])
    for value, message in ((None, "fuel"), (np.nan, "finite number"), ("x", "not a number")):
        fuel = [1.0, 1.0, value] + [1.0] * 6
        with pytest.raises(pf.PanelError, match=rf"row 2 \(agent 7, month 2\).*{message}"):
            read(frame(fuel=pd.Series(fuel, dtype=object)), covariates=["fuel"])


def test_a_covariate_cannot_be_estimated():
    with pytest.raises(pf.ModelError, match="'w' is a covariate: it comes with the panel"):
        pf.fit(MARKET, MOVING, prior=KNOWN_X0, grid=GRID, free=["w"])


def test_simulation_carries_the_covariate_of_theta_into_the_panel():
    options = {"agents": 3, "periods": 4, "seed": 2, "prior": KNOWN_X0, "grid": GRID}
    panel = pf.simulate(MARKET, {**TRUTH, "w": 1.5}, **options)
    np.testing.assert_array_equal(panel.covariates["w"], np.full((3, 5), 1.5))
    same = pf.simulate(table_at(1.5), at(0.8), **options)
    np.testing.assert_array_equal(panel.a, same.a)
    np.testing.assert_array_equal(panel.z, same.z)


def test_paths_are_drawn_with_the_covariate_of_each_row():
    # At such a price the second action is taken if and only if w is negative.
    theta = TRUTH | {"price": 500.0, "w": 0.0}
    w = np.random.default_rng(3).choice([-1.0, 1.0, 2.0], size=(3, 5))
    panel = market_panel((5, 4, 5)).with_covariates(w=w)
    drawn = pf.Likelihood(MARKET, panel, prior=KNOWN_X0, grid=GRID).simulate(theta, seed=1)
    np.testing.assert_array_equal(drawn.a[drawn.acted], (w < 0)[drawn.acted])


def test_impossible_transitions_are_looked_for_in_the_context_of_their_row():
    # At w = 30 the logistic weight is one to the last bit; at w = 0 either kernel has half.
    low = np.zeros((Z, S, A, Z, S))
    low[:, :, :, 0, 0] = 1.0
    high = np.zeros((Z, S, A, Z, S))
    high[:, :, :, 1, 1] = 1.0
    model = Market(low, high, R)
    theta = {"price": 0.0, "tilt": 100.0, "discount": 0.8, "w": 0.0}
    panel = pf.Panel.from_arrays([[2, 0], [2, 1], [2, 0]], [[0], [0], [0]], agents="abc")
    panel = panel.with_covariates(w=[30.0, 30.0, 0.0])
    bad = pf.impossible_transitions(model, theta, panel)
    assert list(bad["agent"]) == ["a"]
    message = r"agent 'a', time 0: .* probability zero to z'=0.*by hidden state is \(0, 0\)"
    with pytest.raises(pf.ImpossibleObservationError, match=message):
        pf.filter_beliefs(model, theta, panel, prior=KNOWN_X0)
    left = panel.exclude_transitions(bad)
    assert np.isfinite(pf.filter_beliefs(model, theta, left, prior=KNOWN_X0).x).all()


@pytest.fixture(scope="module")
def market_estimate():
    """A fit to agents whose covariate moves between two values."""
    blank = pf.Panel.from_arrays(np.zeros((60, 9), dtype=int), np.zeros((60, 8), dtype=int))
    w = np.random.default_rng(8).choice([-1.0, 1.0], size=(60, 9))
    likelihood = pf.Likelihood(MARKET, blank.with_covariates(w=w), prior=KNOWN_X0, grid=GRID)
    panel = likelihood.simulate({**TRUTH, "w": 0.0}, seed=3)
    fixed = {"tilt": TRUTH["tilt"]}  # saves compiling
    return pf.fit(MARKET, panel, pf.TwoStage(), prior=KNOWN_X0, grid=GRID, starts=1, fixed=fixed)


def test_a_fit_with_covariates_finds_what_made_the_data(market_estimate):
    est = market_estimate
    assert est.converged
    assert list(est.params.index) == ["price"]
    assert abs(est.params["price"] - TRUTH["price"]) < 4 * est.bse["price"]


def test_an_estimate_simulates_and_predicts_row_by_row(market_estimate):
    est = market_estimate
    drawn = est.simulate(seed=4)
    np.testing.assert_array_equal(drawn.covariates["w"], est.panel.covariates["w"])
    np.testing.assert_array_equal(drawn.z[:, 0], est.panel.z[:, 0])
    assert (drawn.z != est.panel.z).any()
    theta = {name: float(leaf) for name, leaf in est.theta.items() if name != "w"}
    rows = est.predict(MOVING)
    _, choice, belief = by_hand(MARKET, MOVING, theta)
    acted = MOVING.acted[MOVING.present]
    taken = np.where(MOVING.a[MOVING.present] == 1, rows["P(1)"], rows["P(0)"])
    np.testing.assert_allclose(np.log(taken[acted]), choice[MOVING.acted], atol=1e-10)
    np.testing.assert_allclose(rows["x(0)"], belief[MOVING.present][:, 0], atol=1e-12)
    np.testing.assert_allclose(rows["P(0)"] + rows["P(1)"], 1.0, atol=1e-14)
