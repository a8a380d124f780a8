"""Rust's bus data: an independent reading of his files, sound copies, and where they come from."""

import hashlib
import http.server
import itertools
import os
import socket
import sys
import threading
import warnings
from importlib import metadata
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pomdpfit as pf
from pomdpfit.datasets import CHANG, RUST, Conventions, _download, _econirl, _raw_files, rust1987
from pomdpfit.datasets._bus_record import BusRecord, Replacement
from pomdpfit.datasets._engine_panel import make_panel, mileage_bin, mileage_cell

TOP = 450_000  # miles, the upper end of the last bin
# Group: file, rows and buses (columns) of its matrix, months of each bus; as its README tells.
TABLE = {
    1: ("g870.asc", 36, 15, 25),
    2: ("rt50.asc", 60, 4, 49),
    3: ("t8h203.asc", 81, 48, 70),
    4: ("a530875.asc", 128, 37, 117),
    5: ("a530874.asc", 137, 12, 126),
    6: ("a452374.asc", 137, 10, 126),
    7: ("a530872.asc", 137, 18, 126),
    8: ("a452372.asc", 137, 18, 126),
    9: ("d309.asc", 110, 4, 99),
}
COLUMNS = ["bus", "group", "month", "date", "odometer", "engine", "mileage", "z", "replaced"]
EXCESS, AFTER = ("keep", "lump", "drop"), ("ceil", "floor", "skip")
ALL = [
    Conventions(excess, largest, after, first)
    for excess, largest, after, first in itertools.product(EXCESS, (1, 3), AFTER, (False, True))
]


@pytest.fixture(scope="module")
def folder():
    if not os.environ.get("POMDPFIT_RUST1987"):
        pytest.skip("POMDPFIT_RUST1987 does not name a folder with Rust's raw .asc files")
    return Path(os.environ["POMDPFIT_RUST1987"])


@pytest.fixture(scope="module")
def group_4(folder):
    return rust1987(4, source=folder)


# ---- his conventions, written anew -------------------------------------------------------------


def reread(column):
    """engine, replaced and mileage of one bus, month by month in plain Python.

    Rows 5 and 8 hold the odometer of the first and the second replacement, 0 if there was none.
    """
    works = [int(column[row]) for row in (5, 8) if column[row] > 0]
    readings = [int(reading) for reading in column[11:]]
    engine = [sum(reading >= work for work in works) for reading in readings]
    mileage = [
        reading - (works[k - 1] if k else 0) for reading, k in zip(readings, engine, strict=True)
    ]
    last = [max(t for t, reading in enumerate(readings) if reading < work) for work in works]
    replaced = [int(t in last) for t in range(len(readings))]
    return np.array(engine), np.array(replaced), np.array(mileage)


def edges_below(mileage, bins):
    """How many edges TOP k / bins, k >= 1, lie below the mileage: whole numbers alone."""
    return (mileage[:, None] * bins > TOP * np.arange(1, bins + 1)).sum(axis=1)


def steps(panel):
    """z' - z of the scored transitions; z' after a replacement."""
    z_next = np.roll(panel.z, -1, axis=1)
    return np.where(panel.a == 1, z_next, z_next - panel.z)[panel.score_observation]


def shares(panel):
    found = steps(panel)
    return np.bincount(found) / len(found)


# ---- the raw files -----------------------------------------------------------------------------


@pytest.mark.parametrize("group", TABLE)
def test_every_group_equals_an_independent_reading_of_its_file(folder, group):
    name, rows, buses, months = TABLE[group]
    matrix = np.loadtxt(folder / name).reshape(buses, rows)
    assert rows - 11 == months
    for bins in (90, 175):
        frame = rust1987(group, bins, source=folder).frame
        assert list(frame.columns) == COLUMNS
        assert len(frame) == buses * months
        assert (frame["group"] == group).all()
        for column, (bus, part) in zip(matrix, frame.groupby("bus", sort=False), strict=True):
            engine, replaced, mileage = reread(column)
            assert bus == column[0]
            np.testing.assert_array_equal(part["month"], np.arange(1, months + 1))
            np.testing.assert_array_equal(part["odometer"], column[11:])
            np.testing.assert_array_equal(part["engine"], engine)
            np.testing.assert_array_equal(part["replaced"], replaced)
            np.testing.assert_array_equal(part["mileage"], mileage)
            np.testing.assert_array_equal(part["z"], edges_below(mileage, bins))
            assert part["date"].iloc[0] == pd.Period(
                year=1900 + int(column[10]), month=int(column[9]), freq="M"
            )


@pytest.mark.parametrize("bins", [90, 175, 7])
def test_what_holds_of_all_readings(folder, bins):
    data = rust1987(range(1, 10), bins, source=folder)
    frame = data.frame
    engines = frame.groupby(["bus", "engine"], sort=False)
    assert (engines["mileage"].diff().dropna() >= 0).all()
    assert (frame["mileage"] >= 0).all()
    assert frame["z"].between(0, bins - 1).all()
    last = ~frame.duplicated(["bus", "engine"], keep="last")
    final = ~frame.duplicated("bus", keep="last")
    # Every engine but a bus's last ends with its replacement, and none is replaced before.
    np.testing.assert_array_equal(frame["replaced"] == 1, last & ~final)
    following = frame.groupby("bus", sort=False)["date"].shift(-1)[~final]
    assert (following == frame["date"][~final] + 1).all()
    assert frame["bus"].nunique() == sum(buses for _, _, buses, _ in TABLE.values())


def test_away_from_edges_z_is_the_mileage_over_the_width_rounded_down(folder):
    frame = rust1987(range(1, 10), 90, source=folder).frame
    on_edge = frame["mileage"] % 5000 == 0
    np.testing.assert_array_equal(
        frame["z"], frame["mileage"] // 5000 - (on_edge & (frame["mileage"] > 0))
    )
    assert 0 < on_edge.sum() < 5


def test_a_reading_on_the_edge_of_a_bin_counts_in_the_lower_bin(folder):
    frame = rust1987(3, 90, source=folder).frame
    on_edge = frame[(frame["bus"] == 4339) & (frame["mileage"] == 70_000)]
    assert on_edge["z"].tolist() == [13]  # bin 13 ends at 14 x 5000 miles


def test_group_4_has_the_size_that_is_published(group_4):
    panel = group_4.panel
    assert group_4.frame["bus"].nunique() == 37
    assert group_4.frame["replaced"].sum() == 33
    assert panel.score_observation.sum() == 4292
    assert panel.nobs == 4292
    assert (panel.a[panel.score_choice] == 1).sum() == 33
    assert panel.agent_count == 37 + 33  # an agent for each engine
    assert {agent[0] for agent in panel.agents} == set(group_4.frame["bus"])


@pytest.mark.parametrize(
    ("groups", "bins", "published"),
    [
        (4, 90, [0.3919, 0.5953]),
        (4, 175, [0.1191, 0.5762, 0.2868, 0.0158]),
        ((1, 2, 3), 90, [0.3010, 0.6884]),
        ((1, 2, 3), 175, [0.0937, 0.4475, 0.4459, 0.0127]),
    ],
)
def test_shares_of_increments_are_those_of_tables_ix_and_x(folder, groups, bins, published):
    found = shares(rust1987(groups, bins, source=folder).panel)
    # Printed to four digits.
    np.testing.assert_allclose(found[: len(published)], published, atol=0.5e-4)


def test_the_panel_scores_every_month_but_the_first_of_each_bus_once(folder, group_4):
    frame, panel = group_4.frame, group_4.panel
    before = frame.groupby("bus", sort=False).shift(1)
    here = before["z"].notna()
    cell = np.ceil(frame["mileage"] * 175 / TOP)
    increments = np.where(before["replaced"] == 1, cell, frame["z"] - before["z"])[here]
    np.testing.assert_array_equal(np.bincount(steps(panel)), np.bincount(increments.astype(int)))
    assert group_4.increments == 1 + increments.max()
    scored = pd.DataFrame({"z": panel.z[panel.score_choice], "a": panel.a[panel.score_choice]})
    expected = frame.loc[here, ["z", "replaced"]].set_axis(["z", "a"], axis=1)
    pd.testing.assert_series_equal(scored.value_counts(), expected.value_counts(), check_like=True)


def test_under_the_papers_conventions(group_4):
    data = group_4.under(CHANG)
    panel = data.panel
    # 37 buses of 117 months: all transitions but those after the 33 replacements, all choices.
    assert panel.score_observation.sum() == 37 * 116 - 33 == 4259
    assert panel.nobs == 37 * 117
    assert panel.agent_count == 37
    assert steps(panel).max() == 3
    assert data.increments == 4
    assert not (panel.score_observation & (panel.a == 1)).any()
    assert data.reset == "at_zero"
    assert group_4.reset == "increment"


def test_dropped_increments_are_neither_scored_nor_believed(group_4):
    skip = Conventions(excess="keep", after_replacement="skip")
    kept = group_4.under(skip).panel
    dropped = group_4.under(Conventions(excess="drop", after_replacement="skip")).panel
    np.testing.assert_array_equal(dropped.z, kept.z)
    assert dropped.score_observation.sum() == 4250
    assert 4259 - (steps(kept) > 3).sum() == 4250
    assert steps(dropped).max() == 3
    np.testing.assert_array_equal(dropped.informs, dropped.score_observation)


@pytest.mark.parametrize("conventions", ALL, ids=str)
def test_a_panel_holds_no_step_that_its_model_lacks(group_4, conventions):
    data = group_4.under(conventions)
    found = steps(data.panel)
    assert found.min() >= 0
    assert found.max() < data.increments
    assert (found.max() <= conventions.largest) or conventions.excess == "keep"
    assert data.panel.z[data.panel.present].max() < data.bins
    assert data.panel.nobs == 37 * (117 if conventions.first_choice else 116)
    assert (data.panel.a[data.panel.acted] == 1).sum() == 33
    assert data.panel.acted.sum() == 37 * 117


def test_the_notes_say_source_dating_and_conventions(group_4):
    notes = " ".join(group_4.panel.notes)
    for text in ("group 4", "175 bins", "raw files", "odometer", str(RUST)):
        assert text in notes
    assert str(CHANG) in " ".join(group_4.under(CHANG).panel.notes)
    assert "lumped" in str(CHANG)
    assert len({str(conventions) for conventions in ALL}) == len(
        # "keep" does not read `largest`.
        [c for c in ALL if not (c.excess == "keep" and c.largest == 1)]
    )


@pytest.mark.parametrize("conventions", [RUST, CHANG], ids=["rust", "chang"])
def test_several_groups_are_attached_to_the_panel(folder, conventions):
    panel = rust1987([3, 1], 90, source=folder, conventions=conventions).panel
    assert panel.groups == (3, 1)
    name, rows, buses, _ = TABLE[1]
    first_group = set(np.loadtxt(folder / name).reshape(buses, rows)[:, 0])
    bus = [agent[0] if isinstance(agent, tuple) else agent for agent in panel.agents]
    np.testing.assert_array_equal(
        panel.covariates["group"][:, 0], [float(b in first_group) for b in bus]
    )


def test_one_group_alone_is_not_attached(group_4):
    assert group_4.panel.groups == ()
    assert group_4.panel.covariates == {}


# ---- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize("groups", [0, 10, -4, [], [4, 4], [1, 12], "4", ["a"]])
def test_groups_that_do_not_exist_are_refused_with_their_value(tmp_path, groups):
    told = (groups,) if isinstance(groups, int) else tuple(groups)
    with pytest.raises(pf.DatasetError, match="1 to 9") as refused:
        rust1987(groups, source=tmp_path)
    assert str(told) in str(refused.value)


@pytest.mark.parametrize("bins", [0, 1, -90, 90.0, "90", True, None])
def test_bins_that_are_no_number_of_bins_are_refused_with_their_value(tmp_path, bins):
    with pytest.raises(pf.DatasetError, match="bins") as refused:
        rust1987(4, bins, source=tmp_path)
    assert repr(bins) in str(refused.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"excess": "clip"}, "excess.*keep.*lump.*drop.*'clip'"),
        ({"after_replacement": "round"}, "after_replacement.*ceil.*floor.*skip.*'round'"),
        ({"largest": 0}, "largest.*0"),
    ],
)
def test_conventions_of_other_words_are_refused(options, message):
    with pytest.raises(pf.DatasetError, match=message):
        Conventions(**options)


# ---- a file of our own -------------------------------------------------------------------------

# Bus, bought, first and second replacement (month, year, odometer), first reading; readings.
TOY = [
    # z jumps by 3 and by 4; 25,000 miles are the edge of bin 4.
    [11, 1, 75, 0, 0, 0, 0, 0, 0, 11, 75, 3000, 7000, 22000, 23000, 25000, 41000],
    # Replaced at the very odometer of a reading.
    [12, 1, 75, 1, 76, 14000, 0, 0, 0, 12, 75, 4000, 9000, 14000, 18000, 22000, 26000],
    # Replaced twice, the second time a month after the first.
    [13, 1, 75, 1, 76, 9500, 2, 76, 11500, 1, 76, 2000, 8000, 11000, 17000, 24000, 30000],
]
MILEAGE = [
    [3000, 7000, 22000, 23000, 25000, 41000],
    [4000, 9000, 0, 4000, 8000, 12000],
    [2000, 8000, 1500, 5500, 12500, 18500],
]
Z = [[0, 1, 4, 4, 4, 8], [0, 1, 0, 0, 1, 2], [0, 1, 0, 1, 2, 3]]  # bins of 5000 miles
REPLACED = [[0, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0], [0, 1, 1, 0, 0, 0]]
ENGINE = [[0, 0, 0, 0, 0, 0], [0, 0, 1, 1, 1, 1], [0, 0, 1, 2, 2, 2]]
WORDS = [str(number) for bus in TOY for number in bus]
TEXT = "\n".join(WORDS) + "\n"
SHA = hashlib.sha256("\n".join(WORDS).encode()).hexdigest()


@pytest.fixture
def toy(monkeypatch, tmp_path):
    """A folder in which group 1 is the file above."""
    known = _raw_files.RawFile("toy.asc", months=6, buses=3, make="Toy", sha256=SHA)
    monkeypatch.setitem(_raw_files.RAW_FILES, 1, known)
    place = tmp_path / "raw"
    place.mkdir()
    (place / "toy.asc").write_text(TEXT)
    return place


def by_bus(frame, column):
    return [part[column].tolist() for _, part in frame.groupby("bus", sort=False)]


def rows(panel):
    """z and a of each agent, as lists."""
    return {
        agent: (panel.z[i, panel.present[i]].tolist(), panel.a[i, panel.acted[i]].tolist())
        for i, agent in enumerate(panel.agents)
    }


def test_none_one_and_two_replacements_by_hand(toy):
    frame = rust1987(1, 90, source=toy).frame
    assert frame["bus"].unique().tolist() == [11, 12, 13]
    assert by_bus(frame, "mileage") == MILEAGE
    assert by_bus(frame, "z") == Z
    assert by_bus(frame, "replaced") == REPLACED
    assert by_bus(frame, "engine") == ENGINE
    assert [str(dates[0]) for dates in by_bus(frame, "date")] == ["1975-11", "1975-12", "1976-01"]
    assert [str(dates[-1]) for dates in by_bus(frame, "date")] == ["1976-04", "1976-05", "1976-06"]


def test_each_engine_is_an_agent_whose_life_ends_with_the_cell_of_the_next(toy):
    data = rust1987(1, 90, source=toy)
    assert rows(data.panel) == {
        (11, 0): (Z[0], REPLACED[0]),
        (12, 0): ([0, 1, 0], [0, 1]),  # no mile was driven: cell 0
        (12, 1): ([0, 0, 1, 2], [0, 0, 0, 0]),
        (13, 0): ([0, 1, 1], [0, 1]),  # 1500 miles: cell 1
        (13, 1): ([0, 2], [1]),  # 5500 miles: cell 2
        (13, 2): ([1, 2, 3], [0, 0, 0]),
    }
    assert data.panel.score_observation.sum() == 3 * 5
    np.testing.assert_array_equal(data.panel.score_choice.sum(axis=1), [5, 1, 4, 1, 1, 3])
    assert data.increments == 5
    assert data.width == 5000


@pytest.mark.parametrize("after", ["floor", "skip"])
@pytest.mark.parametrize("first", [False, True])
def test_elsewhere_each_bus_is_an_agent_with_the_rows_of_the_frame(toy, after, first):
    wanted = Conventions(after_replacement=after, first_choice=first)
    panel = rust1987(1, 90, source=toy, conventions=wanted).panel
    assert rows(panel) == {bus: (z, a) for bus, z, a in zip((11, 12, 13), Z, REPLACED, strict=True)}
    after_one = np.array(REPLACED)[:, :5] == 1
    scored = ~after_one if after == "skip" else np.ones((3, 5), dtype=bool)
    np.testing.assert_array_equal(panel.score_observation[:, :5], scored)
    np.testing.assert_array_equal(panel.informs, panel.score_observation)
    assert not panel.score_observation[:, 5].any()
    np.testing.assert_array_equal(panel.score_choice[:, 0], first)
    assert panel.score_choice[:, 1:].all()


def test_a_lumped_increment_lowers_what_follows(toy):
    wanted = Conventions(excess="lump", largest=2, after_replacement="floor")
    data = rust1987(1, 90, source=toy, conventions=wanted)
    # 3 counts as 2, and 4 as 2.
    assert rows(data.panel)[11] == ([0, 1, 3, 3, 3, 5], REPLACED[0])
    assert rows(data.panel)[13] == (Z[2], REPLACED[2])
    assert by_bus(data.frame, "z") == Z  # the frame tells what was read
    assert data.increments == 3


@pytest.mark.parametrize(("after", "new"), [("floor", [1, 1]), ("skip", [2, 2])])
def test_what_a_bus_had_run_before_it_was_first_seen_is_no_increment(after, new):
    """Nor is the mileage of the month after a replacement where that month is not scored."""
    odometer = np.array([33_000.0, 38_000.0, 52_000.0, 53_000.0])  # 13,000 miles: bin 2
    record = BusRecord(1, 1, None, odometer, (Replacement(1, 39_000.0),))
    wanted = Conventions(excess="lump", largest=1, after_replacement=after)
    assert rows(make_panel([record], 90, wanted)) == {1: ([6, 7, *new], [0, 1, 0, 0])}


def test_a_dropped_increment_leaves_what_follows(toy):
    wanted = Conventions(excess="drop", largest=1)
    panel = rust1987(1, 90, source=toy, conventions=wanted).panel
    assert rows(panel)[(11, 0)] == (Z[0], REPLACED[0])
    expected = panel.continues
    expected[0, [1, 4]] = False  # 3 and 4
    expected[panel.agents.index((13, 1)), 0] = False  # cell 2 of the engine that follows
    np.testing.assert_array_equal(panel.score_observation, expected)
    np.testing.assert_array_equal(panel.informs, expected)


def test_other_conventions_are_those_of_a_new_reading(toy):
    data = rust1987(1, 90, source=toy)
    for wanted in ALL:
        got, expected = data.under(wanted), rust1987(1, 90, source=toy, conventions=wanted)
        assert got.conventions == expected.conventions == wanted
        assert rows(got.panel) == rows(expected.panel)
        assert got.panel.notes == expected.panel.notes
        for mask in ("score_observation", "score_choice", "informs"):
            np.testing.assert_array_equal(
                getattr(got.panel, mask), getattr(expected.panel, mask), err_msg=mask
            )


@st.composite
def buses(draw):
    """A column of a raw file with up to two replacements, months apart."""
    readings = np.cumsum(draw(st.lists(st.integers(1, 9000), min_size=3, max_size=12)))
    months = range(1, len(readings))
    at = sorted(draw(st.sets(st.sampled_from(months), max_size=2)))
    works = [draw(st.integers(int(readings[t - 1]) + 1, int(readings[t]))) for t in at]
    first, second, *_ = [*works, 0, 0]
    return np.array([7, 1, 75, 1, 76, first, 1, 77, second, 12, 74, *readings], dtype=float)


@given(column=buses())
@settings(max_examples=60, deadline=None)
def test_any_bus_is_read_like_the_independent_reading(column):
    record = _raw_files._record(column, group=1)
    engine, replaced, mileage = reread(column)
    np.testing.assert_array_equal(record.engine, engine)
    np.testing.assert_array_equal(record.replaced, replaced)
    np.testing.assert_array_equal(record.mileage, mileage)
    assert (record.mileage >= 0).all()
    assert record.first_month == "1974-12"


@given(bins=st.integers(2, 400), miles=st.lists(st.integers(0, TOP), min_size=1), k=st.integers(0))
@settings(max_examples=60, deadline=None)
def test_cells_and_bins_miss_no_edge(bins, miles, k):
    edge = TOP * (k % (bins + 1)) // bins  # on an edge wherever that is a whole mile
    mileage = np.array([*miles, edge, max(edge - 1, 0), min(edge + 1, TOP)])
    z = mileage_bin(mileage.astype(float), bins)
    np.testing.assert_array_equal(z, edges_below(mileage, bins))
    cell = mileage_cell(mileage.astype(float), bins)
    np.testing.assert_array_equal(cell, np.where(mileage > 0, z + 1, 0))
    assert z.max() < bins


# ---- copies that are sound, and copies that are not --------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("\n", "\r\n"),
        TEXT.replace("\n", "   \n"),
        TEXT.rstrip("\n"),
        "\n\n" + TEXT + "\n \n",
        "".join(f"{word:>8}\t" for word in WORDS),
        "\n".join(f"{int(word):.7e}" for word in WORDS),
    ],
    ids=["crlf", "trailing blanks", "no last newline", "blank lines", "one line", "exponents"],
)
def test_other_white_space_is_the_same_file(toy, text):
    (toy / "toy.asc").write_bytes(text.encode())
    assert by_bus(rust1987(1, 90, source=toy).frame, "mileage") == MILEAGE


ALTERED = [*WORDS[:20], str(int(WORDS[20]) + 1), *WORDS[21:]]
NOT_RUSTS = {
    "truncated": WORDS[:-1],
    "altered by one digit": ALTERED,
    "two readings exchanged": [*WORDS[:12], WORDS[13], WORDS[12], *WORDS[14:]],
    "buses in another order": WORDS[17:] + WORDS[:17],
    "a number too many": [*WORDS, "0"],
    "not a number": [*WORDS[:-1], "nan"],
    "empty": [],
}


@pytest.mark.parametrize("what", NOT_RUSTS)
def test_other_numbers_are_refused_by_path_and_checksum(toy, what):
    words = NOT_RUSTS[what]
    (toy / "toy.asc").write_text("\n".join(words))
    with pytest.raises(pf.DatasetError) as refused:
        rust1987(1, 90, source=toy)
    message = str(refused.value)
    for part in (str(toy / "toy.asc"), SHA, hashlib.sha256("\n".join(words).encode()).hexdigest()):
        assert part in message
    assert f"holds {len(words)} numbers" in message
    assert ("51 belong" in message) == (len(words) != 51)


@pytest.mark.parametrize("content", [TEXT.replace("14000", "n.a.").encode(), bytes(range(256))])
def test_what_is_no_column_of_numbers_is_refused_by_path(toy, content):
    (toy / "toy.asc").write_bytes(content)
    with pytest.raises(pf.DatasetError) as refused:
        rust1987(1, 90, source=toy)
    assert str(toy / "toy.asc") in str(refused.value)
    assert ("n.a." in str(refused.value)) == (b"n.a." in content)


def test_a_folder_in_the_place_of_a_file_is_refused_by_path(toy):
    (toy / "toy.asc").unlink()
    (toy / "toy.asc").mkdir()
    with pytest.raises(pf.DatasetError) as refused:
        rust1987(1, 90, source=toy)
    assert str(toy / "toy.asc") in str(refused.value)


def test_a_missing_file_is_named_with_its_folder_and_group(toy):
    (toy / "toy.asc").unlink()
    with pytest.raises(pf.DatasetError, match=r"no toy\.asc.*group 1 \(Toy\)") as refused:
        rust1987(1, 90, source=toy)
    assert str(toy) in str(refused.value)


def test_a_missing_folder_is_named_wherever_it_was_named(toy, monkeypatch):
    nowhere = toy / "nowhere"
    with pytest.raises(pf.DatasetError) as refused:
        rust1987(1, 90, source=nowhere)
    assert str(nowhere) in str(refused.value)
    monkeypatch.setenv("POMDPFIT_RUST1987", str(nowhere))
    with pytest.raises(pf.DatasetError, match="POMDPFIT_RUST1987") as refused:
        rust1987(1, 90)
    assert str(nowhere) in str(refused.value)


def test_the_folder_that_the_environment_names_comes_first_and_a_source_before_it(
    toy, server, monkeypatch
):
    monkeypatch.setenv("POMDPFIT_RUST1987", str(toy))
    data = rust1987(1, 90)
    assert by_bus(data.frame, "mileage") == MILEAGE
    assert "downloaded" not in data.source
    assert server.asked == []
    assert "downloaded" in rust1987(1, 90, source="download").source
    assert server.asked == ["/raw/toy.asc"]


# ---- download ----------------------------------------------------------------------------------


class Server:
    """Serves `files` under /raw/ from this machine, and remembers what it was asked for."""

    def __init__(self):
        self.files, self.asked = {}, []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked.append(self.path)
                content = outer.files.get(self.path.removeprefix("/raw/"))
                self.send_response(404 if content is None else 200)
                self.send_header("Content-Length", str(len(content or b"")))
                self.end_headers()
                self.wfile.write(content or b"")

            def log_message(self, *args):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.http.server_port}/raw/"

    def stop(self):
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Where downloads go: nothing is there, and no folder is named in the environment."""
    pytest.importorskip("pooch")
    monkeypatch.setenv("POMDPFIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("POMDPFIT_RUST1987", raising=False)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")
    return tmp_path / "cache" / "rust1987"


@pytest.fixture
def server(toy, cache, monkeypatch):
    running = Server()
    running.files["toy.asc"] = TEXT.encode()
    monkeypatch.setattr(_download, "URL", running.url)
    yield running
    running.stop()


@pytest.fixture
def no_server(toy, cache, monkeypatch):
    """A port at which nobody listens."""
    with socket.socket() as taken:  # bound, never listening: no other program can take it
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setattr(_download, "URL", f"http://127.0.0.1:{taken.getsockname()[1]}/raw/")
        yield


def test_a_file_is_fetched_once_and_not_again(server, cache):
    for _ in range(2):
        data = rust1987(1, 90, source="download")
        assert by_bus(data.frame, "mileage") == MILEAGE
        assert "downloaded" in data.panel.notes[0]
    assert server.asked == ["/raw/toy.asc"]
    assert (cache / "toy.asc").read_text() == TEXT
    assert "downloaded" in rust1987(1, 90).source  # by default, where no folder is named
    assert server.asked == ["/raw/toy.asc"]


def test_only_the_groups_asked_for_are_fetched(server, monkeypatch):
    second = [[bus[0] + 10, *bus[1:]] for bus in TOY]
    words = [str(number) for bus in second for number in bus]
    sha = hashlib.sha256("\n".join(words).encode()).hexdigest()
    known = _raw_files.RawFile("second.asc", months=6, buses=3, make="Toy", sha256=sha)
    monkeypatch.setitem(_raw_files.RAW_FILES, 2, known)
    server.files["second.asc"] = "\r\n".join(words).encode()  # of other white space
    rust1987(2, 90, source="download")
    assert server.asked == ["/raw/second.asc"]
    panel = rust1987([1, 2], 90, source="download", conventions=CHANG).panel
    assert server.asked == ["/raw/second.asc", "/raw/toy.asc"]
    assert panel.agents == (11, 12, 13, 21, 22, 23)
    assert panel.groups == (1, 2)
    np.testing.assert_array_equal(panel.covariates["group"][:, 0], [0, 0, 0, 1, 1, 1])


@pytest.mark.parametrize("content", ["\n".join(ALTERED).encode(), bytes(range(256)), b""])
def test_a_corrupted_cache_is_replaced(server, cache, content):
    cache.mkdir(parents=True)
    (cache / "toy.asc").write_bytes(content)
    assert by_bus(rust1987(1, 90, source="download").frame, "mileage") == MILEAGE
    assert server.asked == ["/raw/toy.asc"]
    assert (cache / "toy.asc").read_text() == TEXT


@pytest.mark.parametrize("content", ["\n".join(ALTERED).encode(), b"<html>moved</html>"])
def test_a_wrong_file_from_the_server_is_refused_and_does_not_stay(server, cache, content):
    server.files["toy.asc"] = content
    with pytest.raises(pf.DatasetError, match=r"toy\.asc"):
        rust1987(1, 90, source="download")
    assert not (cache / "toy.asc").exists()
    server.files["toy.asc"] = TEXT.encode()
    assert by_bus(rust1987(1, 90, source="download").frame, "mileage") == MILEAGE


def test_a_file_that_the_server_does_not_have_is_told(server, cache):
    del server.files["toy.asc"]
    with pytest.raises(pf.DatasetError, match=r"toy\.asc could not be downloaded") as refused:
        rust1987(1, 90, source="download")
    assert server.url in str(refused.value)
    assert not (cache / "toy.asc").exists()


def test_without_a_server_the_network_is_asked_after(no_server, cache):
    with pytest.raises(pf.DatasetError, match="network"):
        rust1987(1, 90, source="download")
    cache.mkdir(parents=True, exist_ok=True)
    (cache / "toy.asc").write_text(TEXT)
    rust1987(1, 90, source="download")  # what is in the cache needs none


def test_without_pooch_its_installation_is_proposed(toy, cache, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(pf.DatasetError, match="pip install"):
        rust1987(1, 90, source="download")


# ---- econirl -----------------------------------------------------------------------------------

# Replaced in month 2, at whose reading mileage begins anew.
CARRIED = [(1, 7, 1, "3.0", 0), (1, 7, 2, "7.001", 1), (1, 7, 3, "12.5", 0), (1, 8, 1, "0.5", 0)]
CARRIED_SHA = hashlib.sha256(
    "".join(
        ",".join(map(str, row)) + "\n"
        for row in [("group", "bus_id", "period", "mileage", "replaced"), *CARRIED]
    ).encode()
).hexdigest()


def write_readings(file, rows):
    """Columns in econirl's order, one more than is read among them."""
    lines = ["bus_id,period,mileage,mileage_bin,replaced,group"]
    lines += [f"{bus},{t},{miles},0,{a},{group}" for group, bus, t, miles, a in rows]
    file.write_text("\n".join(lines) + "\n")


@pytest.fixture
def carried(tmp_path, monkeypatch):
    """The data file of a package named econirl 0.9 that cannot be imported."""
    site = tmp_path / "site"
    (site / "econirl-0.9.dist-info").mkdir(parents=True)
    (site / "econirl-0.9.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: econirl\nVersion: 0.9\n"
    )
    (site / "econirl" / "datasets").mkdir(parents=True)
    (site / "econirl" / "__init__.py").write_text("raise AssertionError('it was imported')\n")
    file = site / "econirl" / "datasets" / "rust_bus_original.csv"
    write_readings(file, CARRIED)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setitem(sys.modules, "econirl", None)  # an import would fail in any case
    monkeypatch.setattr(_econirl, "_SHA256", CARRIED_SHA)
    return file


@pytest.fixture
def not_carried(monkeypatch):
    """No package named econirl."""
    distribution = metadata.distribution

    def missing(name):
        if name == "econirl":
            raise metadata.PackageNotFoundError(name)
        return distribution(name)

    monkeypatch.setattr(metadata, "distribution", missing)


def test_the_carried_readings_by_hand(carried):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # who asks for them need not be warned
        data = rust1987(1, 90, source="econirl")
    assert by_bus(data.frame, "odometer") == [[3000, 7001, 12500], [500]]
    assert by_bus(data.frame, "mileage") == [[3000, 7001, 5499], [500]]
    assert by_bus(data.frame, "z") == [[0, 1, 1], [0]]
    assert by_bus(data.frame, "replaced") == [[0, 1, 0], [0]]
    assert data.frame["date"].isna().all()
    assert "econirl" in data.panel.notes[0]
    assert "calendar month" in data.panel.notes[0]


def test_when_nothing_can_be_downloaded_the_carried_readings_come_with_a_warning(
    no_server, carried
):
    with pytest.warns(UserWarning, match="calendar month") as told:
        data = rust1987(1, 90)
    assert "network" in str(told[0].message)
    assert Path(told[0].filename) == Path(__file__)
    assert by_bus(data.frame, "mileage") == [[3000, 7001, 5499], [500]]
    assert "econirl" in data.source


def test_when_all_fails_every_reason_is_told(no_server, not_carried):
    with pytest.raises(pf.DatasetError, match="POMDPFIT_RUST1987") as refused:
        rust1987(1, 90)
    assert "network" in str(refused.value)
    assert "pip install --no-deps econirl" in str(refused.value)


def test_a_group_that_is_not_carried_is_named(no_server, carried):
    with pytest.raises(pf.DatasetError, match="not group 5") as refused:
        rust1987(5)
    assert "network" in str(refused.value)
    with pytest.raises(pf.DatasetError, match="groups 1 to 4, not group 9"):
        rust1987([1, 9], source="econirl")


def test_other_carried_readings_are_refused_by_version_and_checksum(carried):
    write_readings(carried, [*CARRIED[:-1], (1, 8, 1, "0.6", 0)])
    with pytest.raises(pf.DatasetError, match=r"econirl 0\.9") as refused:
        rust1987(1, 90, source="econirl")
    assert CARRIED_SHA in str(refused.value)


@pytest.mark.parametrize("text", [None, "", "bus_id,period\n1,1\n"])
def test_carried_readings_that_cannot_be_read_are_refused(carried, text):
    carried.unlink()
    if text is not None:
        carried.write_text(text)
    with pytest.raises(pf.DatasetError, match=r"rust_bus_original\.csv cannot be read"):
        rust1987(1, 90, source="econirl")


@pytest.fixture
def installed(monkeypatch):
    """The data file of econirl itself, which cannot be imported."""
    try:
        found = metadata.distribution("econirl")
    except metadata.PackageNotFoundError:
        pytest.skip("econirl is not installed")
    monkeypatch.setitem(sys.modules, "econirl", None)
    return Path(str(found.locate_file("econirl/datasets/rust_bus_original.csv")))


def test_econirls_own_file_is_read_and_econirl_is_not_imported(installed):
    data = rust1987([1, 2, 3, 4], 90, source="econirl")
    assert sys.modules["econirl"] is None
    table = np.genfromtxt(installed, delimiter=",", names=True)
    assert len(data.frame) == len(table)
    for group in (1, 2, 3, 4):
        of_group = data.frame[data.frame["group"] == group]
        assert of_group["bus"].nunique() == TABLE[group][2]
        assert (of_group.groupby("bus").size() == TABLE[group][3]).all()
        here = table[table["group"] == group]
        np.testing.assert_array_equal(of_group["bus"], here["bus_id"])
        np.testing.assert_array_equal(of_group["month"], here["period"])
        np.testing.assert_array_equal(of_group["replaced"], here["replaced"])
        # Thousands of miles, to the mile.
        np.testing.assert_allclose(of_group["odometer"], 1000 * here["mileage"], atol=1e-6)
    engines = data.frame.groupby(["bus", "engine"])
    assert (engines["mileage"].diff().dropna() >= 0).all()
    assert data.panel.groups == (1, 2, 3, 4)


def test_econirl_carries_rusts_readings_with_other_dates(installed, folder):
    theirs = rust1987([1, 2, 3, 4], source="econirl").records
    his = {tuple(r.odometer): r for r in rust1987([1, 2, 3, 4], source=folder).records}
    late = []
    for record in theirs:
        twin = his.pop(tuple(record.odometer))
        assert twin.group == record.group
        pairs = zip(record.replacements, twin.replacements, strict=True)
        late += [mine.row - other.row for mine, other in pairs]
    assert not his
    # Most of them by one to three months: not his dating, but near it.
    assert np.mean([1 <= months <= 3 for months in late]) > 0.5


# ---- arguments of the wrong kind ---------------------------------------------------------------


@pytest.mark.parametrize("groups", [4.0, None, [[4]], True, "4"])
def test_groups_of_the_wrong_kind_are_named(groups):
    with pytest.raises(pf.DatasetError, match="groups must be"):
        pf.datasets.rust1987(groups)


@pytest.mark.parametrize(
    "options", [{"largest": "3"}, {"largest": 2.5}, {"largest": None}, {"first_choice": "no"}]
)
def test_conventions_of_the_wrong_kind_are_refused(options):
    with pytest.raises(pf.DatasetError, match=next(iter(options))):
        pf.datasets.Conventions(**options)


@pytest.mark.parametrize("options", [{"conventions": "chang"}, {"source": 3}])
def test_other_arguments_of_the_wrong_kind_are_refused(options):
    with pytest.raises(pf.DatasetError, match=next(iter(options))):
        pf.datasets.rust1987(4, **options)


def test_a_cache_that_cannot_be_written_is_told(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("POMDPFIT_CACHE", str(tmp_path / "file"))
    with pytest.raises(pf.DatasetError, match="POMDPFIT_CACHE"):
        pf.datasets.rust1987(4, source="download")
