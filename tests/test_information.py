"""Covariances at an estimate: against closed forms, and two-step formulas written out anew."""

import numpy as np
import pytest
from scipy.special import expit

import pomdpfit as pf
from pomdpfit._entries import free_entries
from pomdpfit._errors import EstimationError
from pomdpfit._restrictions import parse_restrictions
from pomdpfit.inference._information import Information, information_at
from test_climb import Toy, as_choice, logit, multinomial

# Steps of a thousandth of a standard error: a third derivative of the size that a standard error
# allows, times h^2 / 6, is of the order of a millionth; few agents make it some times more.
HESSIAN = 1e-5


def information(toy, theta=None, texts=(), first=()) -> Information:
    """As fit() asks for it: entries on a bound held, the last entries dependent."""
    theta = {n: np.asarray(v, dtype=float) for n, v in (theta or toy.space.example()).items()}
    restrictions = parse_restrictions(texts, toy.space.names) if texts else None
    leaves = [name for name, p in toy.space.parameters.items() if not p.fixed]
    entries = free_entries(toy.space, leaves, theta, restrictions)
    phi = entries.flatten(theta)
    chart = entries.chart(phi, entries.at_bound(phi), np.arange(len(phi), dtype=float))
    stage = None
    if first:
        stage = np.array([entries.names[k].split("[")[0] in first for k in chart.independent])
    return information_at(toy, entries, theta, chart, stage)


def draws(p, size, seed=0, each=1) -> np.ndarray:
    return np.random.default_rng(seed).multinomial(each, p, size=size)


# ---- the multinomial --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["hessian", "opg", "sandwich"])
def test_the_covariance_of_shares(kind):
    """(diag p - p p') / n: with one draw each, all three estimators of it are the same."""
    counts = draws([0.5, 0.3, 0.2], 80)
    share = counts.mean(axis=0)
    found = information(multinomial(counts, share))
    assert found.names == ("p[0]", "p[1]")
    expected = (np.diag(share) - np.outer(share, share)) / 80
    np.testing.assert_allclose(found.covariance(kind), expected[:2, :2], rtol=HESSIAN)
    # In all entries, the derived one included.
    full = found.jacobian @ found.covariance(kind) @ found.jacobian.T
    np.testing.assert_allclose(full, expected, rtol=HESSIAN)


def test_the_sandwich_is_clustered_by_agent():
    """Agents of unlike size: sum_i (c_i - m_i p)(c_i - m_i p)' / n^2."""
    counts = np.vstack([draws([0.7, 0.2, 0.1], 30, each=6), draws([0.1, 0.3, 0.6], 25, each=2)])
    n = counts.sum()
    share = counts.sum(axis=0) / n
    found = information(multinomial(counts, share))
    gap = counts - counts.sum(axis=1, keepdims=True) * share
    np.testing.assert_allclose(
        found.covariance("sandwich"), (gap.T @ gap / n**2)[:2, :2], rtol=HESSIAN
    )
    naive = (np.diag(share) - np.outer(share, share)) / n
    np.testing.assert_allclose(found.covariance("hessian"), naive[:2, :2], rtol=HESSIAN)
    # outer products: agents' scores c / p - c_last / p_last
    s = counts[:, :2] / share[:2] - counts[:, 2:] / share[2]
    np.testing.assert_allclose(found.covariance("opg"), np.linalg.inv(s.T @ s), rtol=1e-11)


def test_entries_on_their_bounds_are_held():
    counts = draws([0.5, 0.0, 0.3, 0.0, 0.2], 80)
    share = counts.mean(axis=0)
    with np.errstate(all="raise"):
        found = information(multinomial(counts, share))
    assert found.names == ("p[0]", "p[2]")
    np.testing.assert_array_equal(found.jacobian[[1, 3]], 0)
    expected = (np.diag(share) - np.outer(share, share)) / 80
    for kind in ("hessian", "opg", "sandwich"):
        np.testing.assert_allclose(
            found.covariance(kind), expected[np.ix_([0, 2], [0, 2])], rtol=HESSIAN
        )


def test_an_entry_close_to_its_bound_stays_inside():
    """A share of 1 in 20000: steps of a thousandth of its standard error stay above zero."""
    counts = np.column_stack([np.full(200, 45), np.zeros(200), np.full(200, 55)])
    counts[:100] += [3, 0, -3]
    counts[7] += [0, 1, -1]
    share = counts.sum(axis=0) / counts.sum()
    found = information(multinomial(counts, share))
    expected = (np.diag(share) - np.outer(share, share)) / counts.sum()
    # The second derivative of log p1 at p1 (1 +- h), h = 1e-3, the standard error being p1.
    np.testing.assert_allclose(found.covariance("hessian"), expected[:2, :2], rtol=1e-5)


def test_the_hessian_of_a_single_agent():
    """Whose scores are zero at the maximum, so that they give no scale to step by."""
    counts = np.array([[8.0, 4.0, 4.0]])
    share = counts[0] / 16
    found = information(multinomial(counts, share))
    expected = (np.diag(share) - np.outer(share, share)) / 16
    # Without scores a step is at best a thousandth of the entry: its square, times two.
    np.testing.assert_allclose(found.covariance("hessian"), expected[:2, :2], rtol=1e-4)


def test_everything_on_its_bound_leaves_nothing():
    found = information(multinomial([[3, 0]] * 4, [1.0, 0.0]))
    assert found.names == ()
    assert found.covariance("hessian").shape == (0, 0)


def test_restrictions_lower_the_dimension():
    """p0 = p1 = q / 2 with q binomial: var p0 = q (1 - q) / (4 n)."""
    counts = draws([0.2, 0.2, 0.6], 100)
    q = counts[:, :2].mean() * 2
    found = information(multinomial(counts, [q / 2, q / 2, 1 - q]), texts=["p[0] = p[1]"])
    assert len(found.names) == 1
    full = found.jacobian @ found.covariance("hessian") @ found.jacobian.T
    s = np.array([0.5, 0.5, -1.0])
    np.testing.assert_allclose(full, np.outer(s, s) * q * (1 - q) / 100, rtol=HESSIAN)


# ---- the Hessian ------------------------------------------------------------------------------


def logit_hessian(X, b):
    p = expit(X @ b)
    return -X.T @ (X * (p * (1 - p))[:, None])


@pytest.mark.parametrize("scale", [(1.0, 1.0, 1.0), (1e6, 1e-6, 1.0), (1e-7,) * 3, (1e7,) * 3])
def test_differences_are_the_hessian_in_any_units(scale):
    """Also away from the maximum."""
    toy, X, _ = logit(scale=scale)
    b = np.array([0.2, -0.8, 0.5])
    found = information(toy, {"b": b * scale})
    exact = logit_hessian(X, b) / np.outer(scale, scale)
    # |third derivative| <= sum |x|^3 / 10, so h^2 / 6 times it is 1e-6 se^2 60 (1.5)^3 / 60,
    # with standard errors of 0.2; of diagonals of some 20. Rounding: eps of gradients of some tens
    # over h = 2e-4.
    spread = np.sqrt(np.outer(np.diag(exact), np.diag(exact)))
    np.testing.assert_allclose(found.hessian / spread, exact / spread, atol=1e-8)
    np.testing.assert_array_equal(found.hessian, found.hessian.T)


@pytest.mark.parametrize("unit", [1e-9, 1e-6, 1.0, 1e6, 1e9])
@pytest.mark.parametrize("constraint", [pf.Positive(), pf.Real()])
def test_differences_take_the_units_of_the_parameter(unit, constraint):
    """Exponential waiting times of rate `unit`: the Hessian is -n / rate^2."""
    n = 50
    waits = np.random.default_rng(0).exponential(size=n) / unit
    rate = 1 / waits.mean()

    def function(theta):
        return as_choice(
            np.log(theta["rate"]) - theta["rate"] * waits, rate=1 / theta["rate"] - waits
        )

    found = information(Toy({"rate": pf.Parameter(rate, constraint)}, function, n))
    # (h / rate)^2 with h a thousandth of rate / sqrt(n); rounding is eps / 1e-4.
    np.testing.assert_allclose(found.hessian, [[-n / rate**2]], rtol=1e-6)
    np.testing.assert_allclose(found.covariance("hessian"), [[rate**2 / n]], rtol=1e-6)


def test_rates_of_very_unlike_size_side_by_side():
    n, unit = 50, np.array([1e-8, 1e8])
    waits = np.random.default_rng(0).exponential(size=(n, 2)) / unit
    rate = 1 / waits.mean(axis=0)

    def function(theta):
        value = (np.log(theta["rate"]) - theta["rate"] * waits).sum(axis=1)
        return as_choice(value, rate=1 / theta["rate"] - waits)

    found = information(Toy({"rate": pf.Parameter(rate, pf.Positive())}, function, n))
    assert found.covariance("hessian") / np.outer(rate, rate) == pytest.approx(
        np.eye(2) / n, abs=1e-6 / n
    )


# ---- two stages --------------------------------------------------------------------------------


class GeneratedRegressor:
    """w = g x + u, then y = b (g x) + c + e, with unit variances: the first stage gives g.

    Its second stage is least squares of y on the generated regressor g x. Both stages' estimates,
    and all second derivatives, are written down here.
    """

    def __init__(self, seed=0, N=150):
        rng = np.random.default_rng(seed)
        self.N, self.x = N, rng.normal(1.0, 1.0, size=N)
        self.w = 0.8 * self.x + rng.normal(size=N)
        # Scaled by x, so that agents are not alike and the sandwich is not the Hessian.
        self.y = 1.5 * 0.8 * self.x - 0.4 + rng.normal(size=N) * (0.3 + np.abs(self.x))
        self.g = self.x @ self.w / (self.x @ self.x)
        Z = np.column_stack([self.g * self.x, np.ones(N)])
        self.b, self.c = np.linalg.lstsq(Z, self.y, rcond=None)[0]

    def toy(self) -> Toy:
        x, w, y = self.x, self.w, self.y

        def function(theta):
            g, b, c = theta["g"], theta["b"], theta["c"]
            u, e = w - g * x, y - b * g * x - c
            both = lambda first, second: np.stack([first, second], axis=1)
            zero = np.zeros_like(x)
            return both(-0.5 * u**2, -0.5 * e**2), {
                "g": both(u * x, e * b * x),
                "b": both(zero, e * g * x),
                "c": both(zero, e),
            }

        values = {"g": self.g, "b": self.b, "c": self.c}
        return Toy({n: pf.Parameter(v) for n, v in values.items()}, function, self.N, ("g",))

    def pieces(self):
        """Information and score matrices of Murphy and Topel (1985), section 4."""
        x, g, b = self.x, self.g, self.b
        u, e = self.w - g * x, self.y - b * g * x - self.c
        Z = np.column_stack([g * x, np.ones(self.N)])
        first, second, cross = (u * x)[:, None], e[:, None] * Z, (e * b * x)[:, None]
        # - d second / d g: (b x) Z, and the term that e multiplies
        C = Z.T @ (b * x)[:, None] - np.array([[e @ x], [0.0]])
        return SimpleCase(np.array([[x @ x]]), Z.T @ Z, C, first, second, cross)


class SimpleCase:
    def __init__(self, R1, R2, C, first, second, cross):
        self.R1, self.R2, self.C = R1, R2, C
        self.first, self.second, self.cross = first, second, cross


@pytest.fixture(scope="module")
def two_step():
    case = GeneratedRegressor()
    return case, case.pieces(), information(case.toy(), first={"g"})


def test_the_stages_speak_for_their_own_coordinates(two_step):
    case, pieces, found = two_step
    np.testing.assert_array_equal(found.first, [True, False, False])
    np.testing.assert_allclose(
        found.moments, np.hstack([pieces.first, pieces.second]), rtol=1e-13, atol=1e-13
    )
    np.testing.assert_allclose(found.moments.sum(axis=0), 0, atol=1e-11 * case.N)


def test_the_second_stage_does_not_move_the_first(two_step):
    _, pieces, found = two_step
    np.testing.assert_array_equal(found.hessian[0, 1:], 0)
    A = np.block([[pieces.R1, np.zeros((1, 2))], [pieces.C, pieces.R2]])
    # Moments are of degree two in g and one in the rest: central differences of them are exact but
    # for rounding, eps times sums of some hundreds over a step of 1e-4.
    np.testing.assert_allclose(-found.hessian, A, atol=1e-8)


def test_murphy_and_topel(two_step):
    """V2 + V2 C V1 C' V2 below, V1 above; the stages' scores are uncorrelated by design."""
    _, p, found = two_step
    V1, V2 = np.linalg.inv(p.R1), np.linalg.inv(p.R2)
    below = V2 + V2 @ p.C @ V1 @ p.C.T @ V2
    beside = -V1 @ p.C.T @ V2
    expected = np.block([[V1, beside], [beside.T, below]])
    np.testing.assert_allclose(found.covariance("hessian"), expected, rtol=1e-8, atol=1e-12)


def test_murphy_and_topel_from_outer_products(two_step):
    _, p, found = two_step
    V1 = np.linalg.inv(p.first.T @ p.first)
    V2 = np.linalg.inv(p.second.T @ p.second)
    C = p.second.T @ p.cross
    below = V2 + V2 @ C @ V1 @ C.T @ V2
    covariance = found.covariance("opg")
    np.testing.assert_allclose(covariance[:1, :1], V1, rtol=1e-12)
    np.testing.assert_allclose(covariance[1:, 1:], below, rtol=1e-10)


def test_stacked_moments(two_step):
    """Both stages as one system of moments, G^-1 S G^-T; the second one by influence functions."""
    _, p, found = two_step
    influence1 = p.first @ np.linalg.inv(p.R1)
    influence2 = (p.second - influence1 @ p.C.T) @ np.linalg.inv(p.R2)
    influence = np.hstack([influence1, influence2])
    np.testing.assert_allclose(
        found.covariance("sandwich"), influence.T @ influence, rtol=1e-8, atol=1e-12
    )


def test_uncorrected_is_each_stage_alone(two_step):
    _, p, found = two_step
    V = found.covariance("uncorrected")
    np.testing.assert_allclose(V[:1, :1], np.linalg.inv(p.R1), rtol=1e-8)
    np.testing.assert_allclose(V[1:, 1:], np.linalg.inv(p.R2), rtol=1e-8)
    np.testing.assert_array_equal(V[0, 1:], 0)
    np.testing.assert_array_equal(V[1:, 0], 0)
    # A first stage that is estimated can only add.
    added = np.diag(found.covariance("hessian"))[1:] - np.diag(V)[1:]
    assert added[0] > 1e-3
    assert added[1] > -1e-15  # by design nothing but rounding


def test_the_sandwich_of_two_stages_is_what_the_jackknife_finds(two_step):
    """Leave one agent out and do both stages again: no formula at all."""
    case, _, found = two_step
    left = []
    for i in range(case.N):
        keep = np.arange(case.N) != i
        x, w, y = case.x[keep], case.w[keep], case.y[keep]
        g = x @ w / (x @ x)
        left.append([g, *np.linalg.lstsq(np.column_stack([g * x, np.ones_like(x)]), y)[0]])
    gap = np.array(left) - [case.g, case.b, case.c]
    se = np.sqrt(np.diag(found.covariance("sandwich")))
    # The jackknife differs from the sandwich by a factor 1 + O(leverage), which is p / N = 2 % on
    # average and some times that for the agents that matter.
    np.testing.assert_allclose(se, np.sqrt((gap**2).sum(axis=0)), rtol=0.1)


def test_a_first_stage_alone():
    """All coordinates in the first stage: the observation terms' own Hessian."""
    case = GeneratedRegressor()
    toy = case.toy()
    toy.space = toy.space.fix({"b": case.b, "c": case.c})
    found = information(toy, first={"g"})
    assert found.names == ("g",)
    np.testing.assert_allclose(found.covariance("hessian"), [[1 / (case.x @ case.x)]], rtol=1e-8)


def test_a_joint_estimate_of_the_same_model():
    """With one stage, g is told by both equations: A = R1 + b^2 x'x, and so on."""
    case = GeneratedRegressor()
    found = information(case.toy())
    x, g, b = case.x, case.g, case.b
    e = case.y - b * g * x - case.c
    A = np.array(
        [
            [x @ x * (1 + b**2), b * g * x @ x - e @ x, b * x.sum()],
            [b * g * x @ x - e @ x, g**2 * x @ x, g * x.sum()],
            [b * x.sum(), g * x.sum(), case.N],
        ]
    )
    np.testing.assert_allclose(-found.hessian, A, rtol=1e-8, atol=1e-7)
    np.testing.assert_allclose(found.covariance("hessian"), np.linalg.inv(A), rtol=1e-6, atol=1e-9)


# ---- what is refused, and what is told ---------------------------------------------------------


def test_kinds_that_do_not_exist_are_refused():
    found = information(multinomial(draws([0.5, 0.5], 20), [0.5, 0.5]))
    with pytest.raises(EstimationError, match="no first stage"):
        found.covariance("uncorrected")
    with pytest.raises(EstimationError, match=r"'robust'.*hessian, opg, sandwich"):
        found.covariance("robust")


def ridge(theta):
    """x + y alone matters."""
    gap = np.linspace(-1, 3, 9) - theta["x"] - theta["y"]
    return as_choice(-0.5 * gap**2, x=gap, y=gap)


def test_nothing_is_invented_where_a_direction_is_flat():
    toy = Toy({"x": pf.Parameter(0.4), "y": pf.Parameter(0.6)}, ridge, 9)
    found = information(toy)
    # The Hessian is -9 [[1, 1], [1, 1]] but for rounding.
    values, vectors = found.eigenvalues()
    np.testing.assert_allclose(values, [0, 2], atol=1e-9)
    np.testing.assert_allclose(np.abs(vectors[:, 0]), np.sqrt(0.5), rtol=1e-6)
    assert np.isnan(found.covariance("opg")).all()


def test_eigenvalues_are_in_units_of_the_diagonal():
    toy, X, _ = logit(scale=(1e3, 1.0, 1e-3))
    b = np.array([0.2, -0.8, 0.5])
    values, _ = information(toy, {"b": b * [1e3, 1.0, 1e-3]}).eigenvalues()
    A = -logit_hessian(X, b)
    unit = 1 / np.sqrt(np.diag(A))
    np.testing.assert_allclose(values, np.linalg.eigvalsh(A * np.outer(unit, unit)), rtol=1e-6)
