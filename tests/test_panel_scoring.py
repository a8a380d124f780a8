"""Panels: from arrays, what is scored, what is excluded, and the notes that say so."""

import jax
import numpy as np
import pandas as pd
import pytest

import pomdpfit as pf

jax.config.update("jax_enable_x64", True)


def panel():
    return pf.Panel.from_arrays([[0, 3, 2], [1, 1]], [[1, 0], [0, 1]], agents=["b", "a"])


def unchanged(before, after, *fields):
    for field in fields:
        np.testing.assert_array_equal(getattr(before, field), getattr(after, field))


# ---- arrays ------------------------------------------------------------------------------------


def test_an_agent_seen_once_without_an_action_is_legal():
    panel = pf.Panel.from_arrays([[2], [0, 1]], [[], [1]])
    np.testing.assert_array_equal(panel.acted, [[0, 0], [1, 0]])


@pytest.mark.parametrize(
    ("z", "a", "options"),
    [
        ([], [], {}),
        ([[0, 1, 2]], [[0]], {}),
        ([[0]], [[0, 1]], {}),
        ([[0.5, 1.0]], [[0]], {}),
        ([[0, 1]], [[True]], {}),
        ([[0, 1], [0, 1]], [[0]], {}),
        ([[0, 1]], [[0], [1]], {}),
        ([[0, 1]], [[0]], {"agents": ["a", "b"]}),
        ([[0, 1], [1, 0]], [[0], [0]], {"agents": ["a", "a"]}),
        ([[0, 1]], [[0]], {"entry": 0.5}),
        ([[0, 1]], [[0]], {"entry": -1}),
        ([[0, 1]], [[0]], {"entry": [0, 1]}),
    ],
)
def test_arrays_that_do_not_fit_are_refused_and_nothing_is_dropped_or_truncated(z, a, options):
    with pytest.raises(pf.PanelError):
        pf.Panel.from_arrays(z, a, **options)


# ---- what is scored ----------------------------------------------------------------------------


def test_score_restricts_what_is_scored_and_lets_beliefs_update():
    mask = np.array([[True, False, True], [False, True, True]])
    scored = panel().score(choice=mask)
    np.testing.assert_array_equal(scored.score_choice, [[1, 0, 0], [0, 1, 0]])
    unchanged(panel(), scored, "score_observation", "informs", "acted", "z", "a")
    scored = panel().score(observation=mask)
    np.testing.assert_array_equal(scored.score_observation, [[1, 0, 0], [0, 0, 0]])
    unchanged(panel(), scored, "score_choice", "informs", "acted", "z", "a")


def test_scoring_twice_is_scoring_the_intersection():
    one, two = np.random.default_rng(0).random((2, 2, 3)) < 0.6
    twice = panel().score(choice=one).score(choice=two)
    unchanged(panel().score(choice=one & two), twice, "score_choice", "score_observation")


def test_a_mask_never_scores_what_is_not_there():
    everything = np.ones((2, 3), dtype=bool)
    unchanged(
        panel(),
        panel().score(choice=everything, observation=everything),
        "score_choice",
        "score_observation",
    )


@pytest.mark.parametrize("mask", [np.ones((3, 2), bool), np.ones((2, 3), int), np.ones(3, bool)])
def test_a_mask_of_wrong_shape_or_type_is_refused(mask):
    for use in (
        lambda m: panel().score(choice=m),
        lambda m: panel().score(observation=m),
        panel().exclude_transitions,
    ):
        with pytest.raises(pf.PanelError, match=r"\(2, 3\)"):
            use(mask)


def test_an_excluded_transition_is_neither_scored_nor_informative_and_is_noted():
    mask = np.array([[False, True, False], [True, False, False]])
    before, after = panel(), panel().exclude_transitions(mask)
    np.testing.assert_array_equal(after.score_observation, [[1, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(after.informs, [[1, 0, 0], [0, 0, 0]])
    unchanged(before, after, "score_choice", "acted", "present", "z", "a")
    assert any("2 transitions excluded" in note for note in after.notes)
    assert before.notes == ()


def test_transitions_are_excluded_by_agent_and_time():
    where = pd.DataFrame({"agent": ["a", "b"], "time": [0, 1]})
    mask = np.array([[False, True, False], [True, False, False]])
    by_frame, by_mask = panel().exclude_transitions(where), panel().exclude_transitions(mask)
    unchanged(by_mask, by_frame, "score_observation", "informs", "score_choice")


@pytest.mark.parametrize(("agent", "time"), [("c", 0), ("a", 7), ("b", -1)])
def test_excluding_what_the_panel_does_not_hold_is_refused_by_name(agent, time):
    with pytest.raises(pf.PanelError, match=rf"{agent!r} at time {time}"):
        panel().exclude_transitions(pd.DataFrame({"agent": [agent], "time": [time]}))


def test_the_last_row_of_an_agent_has_no_transition_to_exclude():
    last = np.array([[False, False, True], [False, True, False]])
    after = panel().exclude_transitions(last)
    unchanged(panel(), after, "score_observation", "informs")
    assert any("0 transitions" in note for note in after.notes)


def test_a_late_entrant_counts_epochs_from_its_entry():
    late = pf.Panel.from_arrays([[0, 1], [0, 1]], [[0], [0]], entry=[3, 0])
    np.testing.assert_array_equal(late.arrays().epoch, [[3, 4], [0, 1]])


def test_arrays_show_each_transition_once():
    z, a, z_next, continues, informs = panel().arrays().transitions(observations=10)
    np.testing.assert_array_equal(z.T, panel().z)
    np.testing.assert_array_equal(np.asarray(z_next.T)[np.asarray(continues.T)], [3, 2, 1])
    np.testing.assert_array_equal(np.asarray(a.T)[np.asarray(continues.T)], [1, 0, 0])
    np.testing.assert_array_equal(informs, continues)


def test_further_columns_of_a_frame_follow_their_rows():
    values = np.arange(6.0).reshape(2, 3)
    out = panel().to_frame(extra=values)
    assert out["extra"].tolist() == [0, 1, 2, 3, 4]
    assert out["a"].isna().tolist() == [False, False, True, False, False]
    assert out["agent"].tolist() == ["b", "b", "b", "a", "a"]
    assert out["time"].tolist() == [0, 1, 2, 0, 1]


def test_a_repr_counts_agents_rows_choices_and_transitions():
    assert repr(panel()) == "Panel(2 agents, 5 rows; scores 4 choices and 3 transitions)"
