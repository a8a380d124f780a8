"""What check_panel finds is what a plain loop over the dense kernel finds, in the model's words."""

import itertools

import jax
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pomdpfit as pf

jax.config.update("jax_enable_x64", True)


def engine(**options):
    return pf.models.EngineReplacement(bins=6, increments=3, discount=0.9, **options)


def panel_of(z, a, **options):
    return pf.Panel.from_arrays(z, a, **options)


# ---- against a plain loop ------------------------------------------------------------------------

DENSE = {reset: engine(reset=reset).kernel(engine(reset=reset).example()).to_dense()
         for reset in ("at_zero", "increment")}  # fmt: skip
# All of one length, so that JAX compiles once.
PATHS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 1)), min_size=5, max_size=5)


@pytest.mark.parametrize("reset", DENSE)
@given(st.lists(PATHS, min_size=3, max_size=3))
@settings(max_examples=25, deadline=None)
def test_impossible_transitions_are_those_of_the_dense_kernel(reset, paths):
    panel = panel_of([[z for z, _ in p] for p in paths], [[a for _, a in p] for p in paths])
    expected = set()
    for i, path in enumerate(paths):
        for t, ((z, a), (after, _)) in enumerate(itertools.pairwise(path)):
            if DENSE[reset][z, :, a, after].sum() == 0:
                if a == 1:
                    kind = "'replace' without a reset"
                elif after < z:
                    kind = "z falls without 'replace'"
                else:
                    kind = "z rises too far under 'keep'"
                expected.add((kind, i, t, z, a, after))
    check = pf.check_panel(panel, engine(reset=reset))
    columns = check.problems[["kind", "agent", "time", "z", "a", "z_next"]]
    assert set(columns.itertuples(index=False, name=None)) == expected
    assert check.ok == (not expected)


@pytest.mark.parametrize("reset", DENSE)
def test_paths_drawn_from_the_kernel_have_no_problems(reset):
    rng, law = np.random.default_rng(0), DENSE[reset].sum(axis=4)
    z, a = np.zeros((20, 30), dtype=int), rng.integers(2, size=(20, 30))
    for t in range(29):
        for i in range(20):
            z[i, t + 1] = rng.choice(6, p=law[z[i, t], rng.integers(2), a[i, t]])
    check = pf.check_panel(panel_of(z, a), engine(reset=reset))
    assert check.ok
    assert "no problems found" in check.summary()


def test_a_theta_with_zeros_makes_more_transitions_impossible():
    model, panel = engine(), panel_of([[0, 2]], [[0, 0]])
    assert pf.check_panel(panel, model).ok
    never = {**model.example(), "increment": np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]])}
    assert not pf.check_panel(panel, model, never).ok


# ---- what does not fit the model -----------------------------------------------------------------


def test_codes_beyond_the_model_are_all_listed_and_the_rest_is_still_checked():
    check = pf.check_panel(panel_of([[0, 6, 9, 0], [5, 1]], [[0, 0, 7, 1], [0]]), engine())
    problems = check.problems
    beyond = problems[problems["kind"] == "observation beyond the model's range"]
    assert beyond["z"].tolist() == [6, 9]
    assert problems["a"][problems["kind"] == "action beyond the model's range"].tolist() == [7]
    falls = problems[problems["kind"] == "z falls without 'replace'"]
    assert falls[["agent", "z", "z_next"]].to_numpy().tolist() == [[1, 5, 1]]
    assert len(problems) == 4
    assert "TopCode(5)" in beyond["says"].iloc[0]


def test_actions_that_are_not_available_are_problems():
    check = pf.check_panel(panel_of([[5, 0]], [[0, 0]]), engine(top="replace"))
    assert "action not available" in set(check.problems["kind"])
    assert "'keep' is not available at z=5" in check.summary()


def test_a_panel_without_the_covariates_of_the_model_is_a_problem():
    grouped = pf.models.Grouped(engine(), ["east", "west"], own=["RC"])
    check = pf.check_panel(panel_of([[0, 1]], [[0, 0]]), grouped)
    assert not check.ok
    assert "group" in check.summary()


def test_agents_that_act_beyond_the_horizon_are_problems():
    class Short(pf.models.EngineReplacement):
        def horizon(self):
            return 2

    model = Short(bins=6, increments=3, discount=0.9)
    check = pf.check_panel(panel_of([[0, 1, 2, 2]], [[0, 0, 0]]), model)
    assert check.problems["time"].tolist() == [2]
    assert "epoch 2" in check.summary()


# ---- what is in the panel ------------------------------------------------------------------------


def test_counts_are_those_of_the_rows():
    check = pf.check_panel(panel_of([[0, 3, 3], [1]], [[0, 1], [1]], agents=["a", "b"]))
    pd.testing.assert_series_equal(
        check.lengths,
        pd.Series([3, 1], index=pd.Index(["a", "b"], name="agent", dtype=object), name="rows"),
        check_index_type=False,
    )
    assert check.actions.to_dict() == {0: 1, 1: 2}
    assert check.observations.to_dict() == {0: 1, 1: 1, 3: 2}
    assert "2 agents, 4 rows; 1 to 3 rows an agent" in check.summary()
    named = pf.check_panel(panel_of([[0, 0], [1]], [[0], [1]]), engine())
    assert named.actions.to_dict() == {"keep": 1, "replace": 1}


@pytest.mark.parametrize(
    ("z", "a", "kinds"),
    [
        ([[0, 1], [1, 2]], [[0, 1], [0, 1]], set()),
        ([[0, 1]], [[0, 1]], {"one agent"}),
        ([[0], [1]], [[0], [1]], {"one period"}),
        ([[0, 1], [1]], [[0, 1], [1]], {"one period"}),
        ([[3, 3], [3, 3]], [[0, 1], [0, 1]], {"constant column"}),
        ([[0, 1], [1, 2]], [[0, 2], [0, 2]], {"action never chosen"}),
        ([[0, 1], [1, 2]], [[1, 1], [1, 1]], {"action never chosen", "constant column"}),
    ],
)
def test_what_may_be_right_is_a_note(z, a, kinds):
    check = pf.check_panel(panel_of(z, a))
    assert set(check.notes["kind"]) == kinds
    assert check.ok


def test_with_a_model_its_actions_are_those_that_can_be_chosen():
    panel = panel_of([[0, 1], [1, 2]], [[0, 0], [0, 0]])
    assert "action 1" not in pf.check_panel(panel).summary()
    assert "action 1 (replace) is never chosen" in pf.check_panel(panel, engine()).summary()


def test_constant_covariates_are_noted():
    panel = panel_of([[0, 1], [1, 2]], [[0, 1], [0, 1]]).with_covariates(price=2.5)
    assert "covariate 'price' is 2.5 in every row" in pf.check_panel(panel).summary()


def test_long_lists_are_cut_in_the_summary_but_not_in_the_frame():
    z = [[5, 0] * 15]
    check = pf.check_panel(panel_of(z, [[0] * 30]), engine())
    falls = check.problems["kind"] == "z falls without 'replace'"
    assert falls.sum() == 15
    assert "(15 rows)" in check.summary()
    assert "and 5 more in .problems" in check.summary()


def test_a_check_is_frozen_and_prints_its_summary():
    check = pf.check_panel(panel_of([[0, 1]], [[0, 1]]))
    with pytest.raises(AttributeError):
        check.panel = None
    assert str(check) == check.summary()


def test_panels_whose_agents_were_split_are_checked_alike():
    frame = pd.DataFrame({"bus": "a", "month": [1, 2, 5, 6], "bin": [3, 1, 0, 1], "replace": 0})
    panel = pf.Panel.from_frame(frame, agent="bus", time="month", observation="bin",
                                action="replace", repair=pf.SplitAtGaps())  # fmt: skip
    check = pf.check_panel(panel, engine())
    assert check.problems["agent"].tolist() == [("a", 0)]
    assert check.lengths.tolist() == [2, 2]
    assert "split at 1 gaps" in check.summary()
