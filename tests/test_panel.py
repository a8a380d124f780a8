"""Panels: frames in and out, and refusals that name row, agent, time, column and value."""

import datetime as dt

import jax
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pomdpfit as pf

jax.config.update("jax_enable_x64", True)

COLUMNS = {"agent": "bus", "time": "month", "observation": "z", "action": "replace"}
FIELDS = ("z", "a", "present", "acted", "score_observation", "score_choice", "informs", "entry")


def frame(kind=pd.DataFrame, **changes):
    """Two buses: b for three months (the last without an action), a for two."""
    data = {
        "bus": ["b", "b", "b", "a", "a"],
        "month": [4, 5, 6, 1, 2],
        "z": [0, 3, 2, 1, 1],
        "replace": [1, 0, None, 0, 1],
    }
    return kind(data | changes)


def read(data, **options):
    return pf.Panel.from_frame(data, **(COLUMNS | options))


def assert_same(left, right):
    for field in FIELDS:
        np.testing.assert_array_equal(getattr(left, field), getattr(right, field), err_msg=field)
    assert left.agents == right.agents
    assert left.times.tolist() == right.times.tolist()


# ---- ways in -----------------------------------------------------------------------------------


def test_a_frame_is_read_row_by_row_in_the_order_of_the_agents():
    panel = read(frame())
    assert panel.agents == ("b", "a")
    np.testing.assert_array_equal(panel.z, [[0, 3, 2], [1, 1, 0]])
    np.testing.assert_array_equal(panel.a, [[1, 0, 0], [0, 1, 0]])
    np.testing.assert_array_equal(panel.present, [[1, 1, 1], [1, 1, 0]])
    np.testing.assert_array_equal(panel.acted, [[1, 1, 0], [1, 1, 0]])
    np.testing.assert_array_equal(panel.score_choice, panel.acted)
    np.testing.assert_array_equal(panel.score_observation, [[1, 1, 0], [1, 0, 0]])
    np.testing.assert_array_equal(panel.informs, panel.score_observation)
    assert panel.times.tolist() == [[4, 5, 6], [1, 2, None]]
    assert panel.nobs == 4
    assert panel.notes == ()


def test_pandas_and_polars_give_the_same_panel():
    assert_same(read(frame()), read(frame(pl.DataFrame)))
    nullable = frame().astype({"z": "Int64", "replace": "Int64", "bus": "string"})
    assert_same(read(frame()), read(nullable))


def test_frames_and_arrays_give_the_same_panel():
    arrays = pf.Panel.from_arrays([[0, 3, 2], [1, 1]], [[1, 0], [0, 1]], agents=["b", "a"])
    for field in FIELDS:
        np.testing.assert_array_equal(getattr(arrays, field), getattr(read(frame()), field))


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("dtype", ["text", "category"])
def test_labels_are_coded_in_the_order_given(kind, dtype):
    data = frame(kind, z=list("xzyzz"), replace=["yes", "no", None, "no", "yes"])
    if dtype == "category" and kind is pl.DataFrame:
        data = data.with_columns(pl.col("z", "replace").cast(pl.Categorical))
    elif dtype == "category":
        data = data.astype({"z": "category", "replace": "category"})
    panel = read(data, observations=["z", "y", "x"], actions=["no", "yes"])
    np.testing.assert_array_equal(panel.z[panel.present], [2, 0, 1, 0, 0])
    np.testing.assert_array_equal(panel.a[panel.acted], [1, 0, 0, 1])


def test_booleans_are_actions_zero_and_one():
    panel = read(frame(replace=pd.array([True, False, None, False, True], dtype="boolean")))
    assert_same(panel, read(frame()))


def test_unsorted_rows_are_sorted_and_noted():
    panel = read(frame().iloc[[2, 3, 0, 4, 1]])
    assert_same(panel, read(frame()))
    assert any("sorted" in note for note in panel.notes)


def test_whole_numbers_may_be_stored_as_floats():
    assert_same(read(frame().astype({"z": float, "month": float})), read(frame()))


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_dates_become_periods_with_a_frequency(kind):
    dates = [dt.date(2020, 11, 3), dt.date(2020, 12, 30), dt.date(2021, 1, 1)]
    data = kind({"bus": [1] * 3, "month": dates, "z": [0, 1, 2], "replace": [0, 0, 1]})
    panel = read(data, freq="M")
    np.testing.assert_array_equal(panel.z, [[0, 1, 2]])
    with pytest.raises(pf.PanelError, match=r"row 0\b.*2020.*freq"):
        read(data)
    with pytest.raises(pf.PanelError, match=r"row 1 .*gap"):
        read(data, freq="D")
    with pytest.raises(pf.PanelError, match=r"row 1 .*twice"):
        read(data, freq="Y")


@given(
    st.lists(
        st.tuples(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), min_size=1, max_size=5),
                  st.booleans(), st.integers(-3, 3)),
        min_size=1, max_size=4,
    )
)  # fmt: skip
@settings(max_examples=30, deadline=None)
def test_to_frame_round_trips(agents):
    rows = [
        (f"agent {i}", first + t, z, None if drop and t == len(path) - 1 else a)
        for i, (path, drop, first) in enumerate(agents)
        for t, (z, a) in enumerate(path)
    ]
    data = pd.DataFrame(rows, columns=["bus", "month", "z", "replace"])
    panel = read(data)
    out = panel.to_frame(row=np.arange(panel.z.size).reshape(panel.z.shape))
    assert_same(
        pf.Panel.from_frame(out, agent="agent", time="time", observation="z", action="a"), panel
    )
    assert out["z"].tolist() == data["z"].tolist()
    assert out["row"].is_monotonic_increasing


# ---- refusals of frames ------------------------------------------------------------------------

REFUSED = {
    "gap": ({"month": [4, 5, 7, 1, 2]}, ["row 2", "'b'", "month 7", "gap"]),
    "duplicate": ({"month": [4, 5, 6, 1, 1]}, ["row 4", "'a'", "month 1", "twice"]),
    "missing z": ({"z": [0, 3, None, 1, 1]}, ["row 2", "'b'", "month 6", "'z'", "missing"]),
    "missing action": (
        {"replace": [None, 0, None, 0, 1]},
        ["row 0", "'b'", "month 4", "'replace'", "missing", "last"],
    ),
    "missing agent": ({"bus": ["b", "b", "b", None, "a"]}, ["row 3", "month 1", "'bus'"]),
    "missing time": ({"month": [4, None, 6, 1, 2]}, ["row 1", "'b'", "'month'", "missing"]),
    "fractional time": ({"month": [4, 5.5, 6, 1, 2]}, ["row 1", "'b'", "'month'", "5.5"]),
    "fraction": ({"z": [0, 3, 2, 1.5, 1]}, ["row 3", "'a'", "month 1", "'z'", "1.5", "whole"]),
    "infinite": ({"z": [0, 3, 2, np.inf, 1]}, ["row 3", "'a'", "month 1", "'z'", "inf"]),
    "huge": ({"z": [0, 3, 2, 1e300, 1]}, ["row 3", "'a'", "month 1", "'z'", "1e+300"]),
    "negative": ({"z": [0, 3, 2, -1, 1]}, ["row 3", "'a'", "month 1", "'z'", "-1", "negative"]),
    "text": ({"z": [0, 3, "2", 1, 1]}, ["row 2", "'b'", "month 6", "'z'", "'2'", "observations="]),
    "text action": ({"replace": [0, 0, 0, 0, "x"]}, ["row 4", "'a'", "'replace'", "actions="]),
    "mixed bool": ({"z": [True, 3, 2, 1, 1]}, ["row 0", "'b'", "month 4", "'z'", "True"]),
    "tuple": ({"z": [(0, 1)] * 5}, ["row 0", "'b'", "month 4", "'z'", "(0, 1)"]),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "words"), REFUSED.values(), ids=REFUSED)
def test_a_malformed_frame_is_refused_with_row_agent_time_column_and_value(changes, words):
    changes = {name: pd.Series(values, dtype=object) for name, values in changes.items()}
    with pytest.raises(pf.PanelError) as caught:
        read(frame(**changes))
    for word in words:
        assert word in str(caught.value), (word, str(caught.value))


def test_row_numbers_are_those_of_the_frame_as_it_came():
    with pytest.raises(pf.PanelError, match=r"row 4 \(agent 'b', month 4\): z -7"):
        read(frame(z=[-7, 3, 2, 1, 1]).iloc[::-1])


def test_many_bad_rows_are_counted_and_the_first_are_shown():
    data = pd.DataFrame({"bus": 0, "month": range(12), "z": -1, "replace": 0})
    with pytest.raises(pf.PanelError, match="and 7 more"):
        read(data)


def test_a_label_that_is_not_listed_is_refused_and_so_is_one_listed_twice():
    data = frame(z=list("xzyzq"))
    with pytest.raises(pf.PanelError, match=r"row 4 \(agent 'a', month 2\): z 'q' is not one of"):
        read(data, observations=["x", "y", "z"])
    with pytest.raises(pf.PanelError, match="twice"):
        read(data, observations=["x", "y", "z", "x"])


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_missing_date_is_refused_wherever_it_stands(place):
    dates = ["2020-01-05", "2020-02-05"]
    dates.insert(place, None)
    data = pd.DataFrame({"bus": 1, "month": pd.to_datetime(dates), "z": 0, "replace": 0})
    with pytest.raises(pf.PanelError, match=rf"row {place}\b"):
        read(data, freq="M")


def test_text_that_is_no_date_is_refused_by_row():
    data = pd.DataFrame({"bus": 1, "month": ["2020-01-05", "soon"], "z": 0, "replace": 0})
    with pytest.raises(pf.PanelError, match=r"row 1\b.*soon"):
        read(data, freq="M")


def test_a_missing_column_is_named_with_the_closest():
    with pytest.raises(pf.PanelError, match=r"'replaced'.*Did you mean 'replace'\?"):
        read(frame(), action="replaced")
    with pytest.raises(pf.PanelError, match="'bus'"):
        read(pd.DataFrame(np.zeros((2, 3))))  # columns named 0, 1, 2


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_an_empty_frame_is_refused(kind):
    with pytest.raises(pf.PanelError, match="empty"):
        read(kind({"bus": [], "month": [], "z": [], "replace": []}))


@pytest.mark.parametrize(
    "what", [{"bus": [1]}, None, 3, pl.LazyFrame({"bus": [1], "month": [1], "z": [1]})]
)
def test_what_is_no_frame_is_refused(what):
    with pytest.raises(pf.PanelError, match="pandas or polars"):
        read(what)


# ---- the model's range -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"z": [0, 3, 2, 1, 6]}, ["'a'", "time 2", "observation 6", "0..5"]),
        ({"replace": [1, 0, None, 2, 1]}, ["'a'", "time 1", "action 2", "0..1"]),
        ({"z": [0, 1, 5, 1, 1], "replace": [1, 0, 0, 0, 1]}, ["'b'", "time 6", "action 0", "z=5"]),
    ],
)
def test_what_the_model_does_not_know_is_refused_by_agent_and_time(changes, words):
    model = pf.models.EngineReplacement(bins=6, discount=0.9, top="replace")
    with pytest.raises(pf.PanelError) as caught:
        pf.filter_beliefs(model, model.example(), read(frame(**changes)),
                          prior=pf.KnownPrior([0.5, 0.5]))  # fmt: skip
    for word in words:
        assert word in str(caught.value)
