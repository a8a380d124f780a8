"""theta: round trips, fixed bits, labels, derivatives in free coordinates, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pomdpfit as pf

jax.config.update("jax_enable_x64", True)

EPS = np.finfo(float).eps
AWKWARD = 0.1 + 0.2  # 0.30000000000000004
examples = settings(max_examples=40, deadline=None)


def space():
    return pf.ParameterSpace(
        {
            "level": pf.Parameter([[1.0, -2.0], [3.0, 0.5]]),
            "rate": pf.Parameter(2.0, pf.Positive()),
            "share": pf.Parameter([0.2, 0.9], pf.Interval(-1.0, 3.0), labels=(("low", "high"),)),
            "pinned": pf.Parameter(AWKWARD, pf.Interval(), fixed=True),
            "law": pf.Parameter([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]], pf.Simplex()),
            "discount": pf.discount_parameter(0.9999),
        }
    )


positive = st.floats(1e-12, 1e12)
rows = st.lists(st.floats(1e-3, 1.0), min_size=6, max_size=6).map(
    lambda v: np.reshape(v, (2, 3)) / np.reshape(v, (2, 3)).sum(axis=1, keepdims=True)
)
thetas = st.fixed_dictionaries(
    {
        "level": st.lists(st.floats(-1e6, 1e6), min_size=4, max_size=4).map(
            lambda v: np.reshape(v, (2, 2))
        ),
        "rate": positive.map(np.asarray),
        "share": st.lists(st.floats(-0.999, 2.999), min_size=2, max_size=2).map(np.array),
        "pinned": st.floats(0.0, 1.0).map(np.asarray),
        "law": rows,
        "discount": st.floats(0.0, 0.999999).map(np.asarray),
    }
)


# ---- round trips -------------------------------------------------------------------------------


@given(theta=thetas)
@examples
def test_the_natural_vector_round_trips(theta):
    s = space()
    back = s.from_vector(s.to_vector(theta), theta)
    for name, value in theta.items():
        if name == "law":
            np.testing.assert_array_equal(back[name][:, :2], value[:, :2])
            # One minus the rest: the row's own sum rounds three times.
            np.testing.assert_allclose(back[name][:, 2], value[:, 2], atol=4 * EPS)
        else:
            np.testing.assert_array_equal(back[name], value)


@given(theta=thetas)
@examples
def test_the_unconstrained_vector_round_trips(theta):
    s = space()
    vector = s.to_unconstrained(theta)
    assert vector.shape == (len(s.free_names),)
    back = s.check(s.from_unconstrained(vector, theta))
    np.testing.assert_array_equal(back["level"], theta["level"])
    # log rounds |log 1e12| = 28 in its last bit; exp turns that into a relative error.
    np.testing.assert_allclose(back["rate"], theta["rate"], rtol=40 * EPS)
    # The log-odds' error, times the width 4 and the logistic's slope, stays near one bit of 4.
    np.testing.assert_allclose(back["share"], theta["share"], atol=10 * 4 * EPS)
    np.testing.assert_allclose(back["law"], theta["law"], rtol=30 * EPS)


@given(vector=st.lists(st.floats(-20, 20), min_size=11, max_size=11).map(np.array))
@examples
def test_any_unconstrained_vector_is_inside_the_constraints(vector):
    s = space().free("discount").fix({"level": np.zeros((2, 2)), "rate": 1.0})
    size = len(s.free_names)
    theta = s.check(s.from_unconstrained(vector[:size], s.example()))
    back = s.to_unconstrained(theta)
    # The worst slope of the log-odds at |u| = 20 is exp(20) for one bit of the value.
    np.testing.assert_allclose(back, vector[:size], atol=40 * np.exp(20) * EPS)


def test_a_closed_boundary_of_positive_and_interval_survives_the_real_line():
    s = pf.ParameterSpace(
        {"rate": pf.Parameter(0.0, pf.Positive()), "p": pf.Parameter([0.0, 1.0], pf.Interval())}
    )
    back = s.from_unconstrained(s.to_unconstrained(s.example()), s.example())
    np.testing.assert_array_equal(back["rate"], 0.0)
    np.testing.assert_array_equal(back["p"], [0.0, 1.0])


@pytest.mark.parametrize("far", [40.0, 400.0])
def test_an_open_end_is_never_reached_however_far_an_optimiser_steps(far):
    s = pf.ParameterSpace({"discount": pf.discount_parameter(0.9, fixed=False)})
    s.check(s.from_unconstrained(np.array([far]), s.example()))


# ---- fixed to the last bit ---------------------------------------------------------------------


@given(value=st.floats(0.0, 1.0), move=st.floats(-5, 5))
@examples
def test_fixed_parameters_stay_fixed_to_the_last_bit(value, move):
    s = space().fix({"pinned": value, "law": [[0.1, 0.2, 0.7], [1 / 3, 1 / 3, 1 / 3]]})
    base = s.example()
    for to, back in (
        (s.to_vector, s.from_vector),
        (s.to_unconstrained, s.from_unconstrained),
    ):
        theta = back(to(base) + move, base)
        for name in ("pinned", "law", "discount"):
            assert np.asarray(theta[name]).tobytes() == np.asarray(base[name]).tobytes()
    assert np.asarray(base["pinned"]).tobytes() == np.float64(value).tobytes()


def test_an_awkward_fixed_value_is_kept_as_it_was_given():
    assert float(space().example()["pinned"]) == AWKWARD
    assert float(space().fix({"rate": AWKWARD}).example()["rate"]) == AWKWARD


def test_fixing_and_freeing_change_the_free_names_and_nothing_else():
    s = space()
    assert not any(n.startswith(("pinned", "discount")) for n in s.free_names)
    assert "discount" in s.free("discount").free_names
    assert "rate" not in s.fix({"rate": 1.5}).free_names
    assert "rate" in s.free_names  # s itself is as it was
    assert s.fix({"rate": 1.5}).names == s.names


def test_with_everything_fixed_the_vector_is_empty_and_theta_is_the_base():
    s = pf.ParameterSpace({"pinned": pf.Parameter(AWKWARD, fixed=True)})
    assert s.to_vector(s.example()).shape == s.to_unconstrained(s.example()).shape == (0,)
    assert float(s.from_vector(np.zeros(0), s.example())["pinned"]) == AWKWARD


# ---- names -------------------------------------------------------------------------------------


def test_names_say_every_entry_and_free_names_leave_out_the_derived_and_the_fixed():
    s = space()
    assert s.names[4:7] == ["rate", "share[low]", "share[high]"]
    assert s.names[0] == "level[0, 0]"
    assert "law[1, 2]" in s.names
    assert s.free_names == [
        "level[0, 0]", "level[0, 1]", "level[1, 0]", "level[1, 1]", "rate", "share[low]",
        "share[high]", "law[0, 0]", "law[0, 1]", "law[1, 0]", "law[1, 1]",
    ]  # fmt: skip


def test_the_series_shows_all_entries_under_their_names():
    s, theta = space(), space().example()
    series = s.to_series(theta)
    assert list(series.index) == s.names
    assert series["law[1, 2]"] == 0.1
    assert series["share[high]"] == 0.9
    assert series["level[1, 0]"] == 3.0


@given(theta=thetas)
@examples
def test_the_series_round_trips(theta):
    s = space()
    series = s.to_series(theta)
    for values in (series, series[::-1], dict(series)):  # by name, in any order
        back = s.from_series(values)
        assert list(back) == list(s.parameters)
        for name, value in theta.items():
            assert back[name].shape == np.shape(value)
            np.testing.assert_array_equal(back[name], value)


def test_an_entry_that_a_series_lacks_is_named():
    series = space().to_series(space().example())
    with pytest.raises(pf.ModelError, match=r"no value for 'law\[1, 2\]' \(1 are missing\)"):
        space().from_series(series.drop("law[1, 2]"))
    with pytest.raises(pf.ModelError, match=r"no value for 'rate' \(3 are missing\)"):
        space().from_series(dict(series.drop(["rate", "law[1, 2]", "discount"])))


def test_the_vector_is_in_the_order_of_the_free_names():
    s, theta = space(), space().example()
    np.testing.assert_array_equal(s.to_vector(theta), s.to_series(theta)[s.free_names])


# ---- derivatives in free coordinates -----------------------------------------------------------


def test_directions_are_the_jacobian_of_from_vector():
    s, theta = space(), space().example()
    jacobian = jax.jacobian(lambda v: s.from_vector(v, theta))(s.to_vector(theta))
    moves = s.directions()
    assert set(moves) == set(s.parameters)
    for name, move in moves.items():
        np.testing.assert_array_equal(move, np.moveaxis(np.asarray(jacobian[name]), -1, 0))


@given(seed=st.integers(0, 2**32 - 1))
@examples
def test_gradient_vector_is_the_chain_rule_through_from_vector(seed):
    s, theta = space(), space().example()
    rng = np.random.default_rng(seed)
    weight = {n: rng.normal(size=(3, *np.shape(v))) for n, v in theta.items()}

    def linear(vector):
        tree = s.from_vector(vector, theta)
        return sum(
            jnp.tensordot(weight[n], v, axes=np.ndim(v)) if np.ndim(v) else weight[n] * v
            for n, v in tree.items()
        )

    expected = jax.jacobian(linear)(s.to_vector(theta))
    got = s.gradient_vector(weight)  # three gradients at once: leading axes are kept
    np.testing.assert_allclose(got, expected, atol=8 * EPS * 4)


# ---- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rat": 1.0}, r"no parameter named 'rat'.*Did you mean 'rate'\?"),
        ({"rate": [1.0, 2.0]}, r"rate must have shape \(\), but it has \(2,\)"),
        ({"share": [0.2]}, r"share must have shape \(2,\), but it has \(1,\)"),
        ({"rate": -0.5}, r"rate must be zero or more, but it is -0\.5"),
        ({"rate": np.nan}, r"rate must .* nan"),
        ({"rate": np.inf}, r"rate must .* inf"),
        ({"level": [[0, 0], [np.nan, 0]]}, r"level\[1, 0\] must be a finite number.* nan"),
        ({"share": [0.2, 3.5]}, r"share\[high\] must lie in \[-1, 3\], but it is 3\.5"),
        ({"share": [np.nan, 0.2]}, r"share\[low\] must lie in .* nan"),
        ({"discount": 1.0}, r"discount must lie in \[0, 1\), but it is 1\."),
        ({"law": [[0.2, 0.3, 0.5], [0.6, 0.3, 0.2]]}, r"law\[1, 0\] to law\[1, 2\].*sums to 1\.1"),
        ({"law": [[0.5, -0.3, 0.8], [1, 0, 0]]}, r"law\[0, 1\] must be a probability.* -0\.3"),
        ({"rate": "two"}, r"rate"),
    ],
)
def test_theta_outside_its_constraints_is_refused_by_name_and_value(change, message):
    with pytest.raises(pf.ModelError, match=message):
        space().check(dict(space().example()) | change)
    with pytest.raises(pf.ModelError, match=message):
        space().fix(change)


def test_a_missing_parameter_is_named():
    theta = dict(space().example())
    del theta["rate"]
    with pytest.raises(pf.ModelError, match="lacks the parameter 'rate'"):
        space().check(theta)


def test_theta_that_is_no_mapping_is_refused():
    with pytest.raises(pf.ModelError, match="mapping"):
        space().check(np.zeros(3))


def test_freeing_an_unknown_name_suggests_the_closest():
    with pytest.raises(pf.ModelError, match=r"'discont'.*Did you mean 'discount'\?"):
        space().free("discont")


def test_labels_must_fit_the_value():
    with pytest.raises(pf.ModelError, match=r"\(3,\).*\(2,\)"):
        pf.Parameter([1.0, 2.0], labels=(("a", "b", "c"),))


def test_two_spaces_do_not_share_a_name():
    with pytest.raises(pf.ModelError, match="'rate'"):
        space() | pf.ParameterSpace({"rate": pf.Parameter(1.0)})
    joined = space() | pf.ParameterSpace({"x0": pf.Parameter([0.5, 0.5], pf.Simplex())})
    assert joined.free_names == [*space().free_names, "x0[0]"]
