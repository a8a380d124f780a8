"""Decision epochs: of rows that are left after others were dropped, and after the last one."""

import jax
import numpy as np
import pytest

import pomdpfit as pf
from report_kinds import finite_horizon
from small_hidden import GRID, PRIOR, TRUTH

jax.config.update("jax_enable_x64", True)

NAMES = {"agent": "agent", "time": "time", "observation": "z", "action": "a"}


@pytest.fixture(scope="module")
def kind():
    return finite_horizon()


def arrays(kind):
    """z of epochs 0..6 and a of 0..5: the last z is what came of the last choice."""
    return kind.panel.z, kind.panel.a[:, :6]


def late(kind, lost):
    """Its data without the first readings of some agents: `lost[i]` of agent i."""
    frame = kind.panel.to_frame()
    frame["z"] = frame["z"].astype("Int64")
    gone = frame.groupby("agent").cumcount() < frame["agent"].map(lambda i: lost.get(i, 0))
    frame.loc[gone, "z"] = None
    return frame


def test_an_agent_whose_first_rows_are_dropped_keeps_its_epochs(kind):
    """The likelihood is that of the rows which are left, each scored in its own epoch."""
    lost = {0: 2, 5: 1, 7: 3}
    panel = pf.Panel.from_frame(late(kind, lost), **NAMES, repair=pf.DropRows())
    np.testing.assert_array_equal(panel.entry[[0, 1, 5, 7]], [2, 0, 1, 3])
    [note] = [note for note in panel.notes if "lost their first rows" in note]
    assert note.startswith("3 agents, the first of them 0,")
    assert "the prior now applies at the first row that is left" in note
    skip = [lost.get(i, 0) for i in range(kind.panel.agent_count)]
    z, a = ([row[k:] for row, k in zip(part, skip, strict=True)] for part in arrays(kind))
    expected = pf.Panel.from_arrays(z, a, entry=np.array(skip))
    terms = [
        pf.log_likelihood(kind.model, TRUTH, each, prior=PRIOR, grid=GRID)
        for each in (panel, expected)
    ]
    np.testing.assert_array_equal(terms[0].choice, terms[1].choice)
    np.testing.assert_array_equal(terms[0].observation, terms[1].observation)


def test_epochs_given_for_first_rows_count_on_where_these_are_dropped(kind):
    frame = late(kind, {0: 2})
    panel = pf.Panel.from_frame(frame, **NAMES, repair=pf.DropRows(), entry=1)
    np.testing.assert_array_equal(panel.entry[:2], [3, 1])
    frame = late(kind, {3: 1})
    both = [pf.DropRows(), pf.SplitAtGaps()]
    frame.loc[frame.index[frame["agent"] == 3][3], "z"] = None
    panel = pf.Panel.from_frame(frame, **NAMES, repair=both)
    parts = {name: int(epoch) for name, epoch in zip(panel.agents, panel.entry, strict=True)}
    assert (parts[3, 0], parts[3, 1], parts[4]) == (1, 4, 0)


def test_nothing_is_noted_where_first_rows_stay(kind):
    frame = kind.panel.to_frame()
    frame.loc[frame.index[frame["agent"] == 3][-1], "a"] = None
    panel = pf.Panel.from_frame(frame, **NAMES, repair=[pf.DropRows(), pf.SplitAtGaps()])
    assert not panel.entry.any()
    assert not any("first row" in note for note in panel.notes)


def test_rows_without_a_time_are_said_to_count_for_no_epoch(kind):
    frame = kind.panel.to_frame()
    frame["time"] = frame["time"].astype("Int64")
    frame.loc[frame.index[0], "time"] = None
    panel = pf.Panel.from_frame(frame, **NAMES, repair=pf.DropRows())
    assert any("epochs do not count them" in note for note in panel.notes)


def test_nothing_is_predicted_after_the_last_epoch(kind):
    z = arrays(kind)[0]
    frame = kind.written_down().predict()
    chances = frame[["P(keep)", "P(replace)"]].to_numpy().reshape(*z.shape, 2)
    assert z.shape[1] == 7
    assert np.isnan(chances[:, 6]).all()
    np.testing.assert_allclose(chances[:, :6].sum(axis=2), 1.0, rtol=1e-12)
    assert frame[["x(good)", "x(bad)"]].notna().all().all()
