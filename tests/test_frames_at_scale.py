"""Frames of many agents: read as a loop over the rows reads them, with no call for each of them."""

import gc
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest

import pomdpfit as pf

COLUMNS = {"agent": "bus", "time": "month", "observation": "z", "action": "replace"}
READINGS, DECISIONS = ["low", "middle", "high"], ["keep", "replace"]


def ragged(agents=40, longest=7, seed=0):
    """Codes, a price and a make for agents of 1 to `longest` months; some last actions missing."""
    rng = np.random.default_rng(seed)
    rows = []
    for bus in rng.permutation(agents):
        length, first = rng.integers(1, longest + 1), rng.integers(0, 12)
        for t in range(length):
            a = None if t == length - 1 and rng.random() < 0.5 else int(rng.integers(2))
            rows.append((int(bus), int(first + t), int(rng.integers(3)), a, rng.normal(), bus % 3))
    frame = pd.DataFrame(rows, columns=["bus", "month", "z", "replace", "price", "make"])
    return frame.astype({"replace": "Int64"})


def by_loop(data):
    """The panel's arrays, one row of the frame after the other."""
    paths = {}
    for row in data.itertuples(index=False):
        paths.setdefault(row.bus, []).append(row)
    N, T = len(paths), max(map(len, paths.values()))
    found = {name: np.zeros((N, T), dtype=int) for name in ("z", "a")}
    found |= {name: np.zeros((N, T), dtype=bool) for name in ("present", "acted")}
    found |= {"price": np.zeros((N, T)), "times": np.full((N, T), None, dtype=object)}
    for i, path in enumerate(paths.values()):
        for t, row in enumerate(sorted(path, key=lambda row: row.month)):
            found["z"][i, t], found["price"][i, t:] = row.z, row.price
            found["present"][i, t], found["times"][i, t] = True, row.month
            if not pd.isna(row.replace):
                found["a"][i, t], found["acted"][i, t] = row.replace, True
    followed = found["present"][:, 1:] & found["present"][:, :-1]
    found["informs"] = np.append(followed, np.zeros((N, 1), dtype=bool), axis=1)
    found["score_observation"], found["score_choice"] = found["informs"], found["acted"]
    makes = [path[0].make for path in paths.values()]
    return tuple(paths), found, makes


def as_text(data):
    return data.assign(bus=data["bus"].map("bus {}".format))


def as_dates(data):
    start = pd.PeriodIndex.from_ordinals(data["month"] + 600, freq="M").to_timestamp()
    return data.assign(month=start + pd.Timedelta(days=9))


def as_zoned_dates(data):
    return data.assign(month=as_dates(data)["month"].dt.tz_localize("Europe/Berlin"))


def as_periods(data):
    return data.assign(month=as_dates(data)["month"].dt.to_period("M"))


def as_labels(data):
    replace = [None if pd.isna(a) else DECISIONS[a] for a in data["replace"]]
    return data.assign(z=[READINGS[z] for z in data["z"]], replace=replace)


def as_categories(data):
    return as_labels(data).astype({"z": "category", "replace": "category"})


def as_floats(data):
    return data.astype({"bus": float, "month": float, "z": float, "replace": float})


def as_objects(data):
    return data.astype(object)


def as_arrow(data):
    pyarrow = pytest.importorskip("pyarrow")
    return pyarrow.Table.from_pandas(data, preserve_index=False)


DATES, LABELS = {"freq": "M"}, {"observations": READINGS, "actions": DECISIONS}
WRITTEN = {
    "integers": ((), {}),
    "text ids": ((as_text,), {}),
    "text ids and dates": ((as_text, as_dates), DATES),
    "dates of a time zone": ((as_zoned_dates,), DATES),
    "periods": ((as_periods,), DATES),
    "labels": ((as_labels,), LABELS),
    "categories": ((as_categories,), LABELS),
    "floats": ((as_floats,), {}),
    "objects": ((as_objects,), {}),
    "polars": ((pl.from_pandas,), {}),
    "polars, text ids, dates and labels": (
        (as_text, as_dates, as_labels, pl.from_pandas),
        DATES | LABELS,
    ),
    "arrow": ((as_arrow,), {}),
    "arrow, text ids and dates": ((as_text, as_dates, as_arrow), DATES),
}


@pytest.mark.parametrize("written", WRITTEN)
@pytest.mark.parametrize("order", ["sorted", "shuffled"])
def test_a_frame_is_read_as_a_loop_over_its_rows_reads_it(written, order):
    changes, options = WRITTEN[written]
    data = ragged()
    if order == "shuffled":
        data = data.sample(frac=1, random_state=1)
    plain = data
    for change in changes:
        data = change(data)
        if change in {as_text, as_dates, as_zoned_dates, as_periods}:  # read as they are
            plain = plain.assign(bus=data["bus"], month=data["month"])
    agents, arrays, makes = by_loop(plain)
    panel = pf.Panel.from_frame(data, **COLUMNS, covariates=["price"], group="make", **options)
    assert panel.agents == agents
    for name in ("z", "a", "present", "acted", "informs", "score_observation", "score_choice"):
        np.testing.assert_array_equal(getattr(panel, name), arrays[name], err_msg=name)
        assert getattr(panel, name).dtype == arrays[name].dtype
    np.testing.assert_array_equal(panel.covariates["price"], arrays["price"])
    assert [panel.groups[int(k)] for k in panel.covariates["group"][:, 0]] == makes
    assert panel.times.tolist() == arrays["times"].tolist()
    assert bool(panel.notes) == (order == "shuffled")


@pytest.mark.parametrize(
    ("column", "values"), [("bus", [1, 1, True]), ("month", [0, True, 2]), ("z", [1, 0, True])]
)
def test_true_is_not_taken_for_the_number_one(column, values):
    sound = {"bus": [1, 1, 1], "month": [0, 1, 2], "z": [1, 0, 1], "replace": [0, 0, 0]}
    pf.Panel.from_frame(pd.DataFrame(sound), **COLUMNS)
    data = pd.DataFrame(sound | {column: values}, dtype=object)
    with pytest.raises(pf.PanelError, match="True"):
        pf.Panel.from_frame(data, **COLUMNS)


# ---- how much work it is -------------------------------------------------------------------------


def calls(work):
    """How many functions are called, in Python or from it."""
    count = 0

    def counted(frame, event, arg):
        nonlocal count
        count += event in {"call", "c_call"}

    work()  # what is imported and remembered the first time
    gc.disable()  # which calls functions of its own
    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def read(agents, change):
    """A reader of a frame of so many agents, four months each, with a covariate of its own."""
    bus, month = np.repeat(np.arange(agents), 4), np.tile(np.arange(4), agents)
    data = pd.DataFrame({"bus": bus, "month": month, "z": bus % 3, "replace": month % 2})
    data = change(data.assign(price=np.random.default_rng(0).normal(size=len(data)), make=bus % 2))
    options = {"covariates": ["price"], "group": "make"}
    options |= DATES if change is as_dates else {}
    return lambda: pf.Panel.from_frame(data, **COLUMNS, **options)


@pytest.mark.parametrize(
    ("change", "each"),
    [
        (lambda data: data, 0),
        (lambda data: data.iloc[::-1], 0),
        (as_dates, 0),
        (pl.from_pandas, 0),
        (as_text, 2),  # ids of text and of floats are looked at once each: a lambda, what it calls
        (as_floats, 2),
    ],
    ids=["integers", "unsorted", "dates", "polars", "text", "floats"],
)
def test_reading_calls_no_function_for_each_row_and_hardly_any_for_each_agent(change, each):
    few, many = 50, 1000
    extra = calls(read(many, change)) - calls(read(few, change))
    assert extra < each * (many - few) + 50


# ---- arrays --------------------------------------------------------------------------------------


@pytest.mark.parametrize("actions", [3, 4])
@pytest.mark.parametrize("dtype", ["int64", "uint8"])
def test_a_rectangle_is_read_as_its_rows_are(actions, dtype):
    rng = np.random.default_rng(0)
    z, a = (rng.integers(0, 3, size=(5, T)).astype(dtype) for T in (4, actions))
    whole, rows = pf.Panel.from_arrays(z, a), pf.Panel.from_arrays(list(z), list(a))
    for name in ("z", "a", "present", "acted", "informs", "score_observation", "score_choice"):
        left, right = getattr(whole, name), getattr(rows, name)
        np.testing.assert_array_equal(left, right, err_msg=name)
        assert left.dtype == right.dtype
    assert whole.times.tolist() == rows.times.tolist()
    assert whole.agents == rows.agents
    assert not np.shares_memory(whole.z, z)


@pytest.mark.parametrize("shape", [(5, 0), (5, 2), (5, 5)])
def test_a_rectangle_of_actions_that_does_not_fit_is_refused(shape):
    z = np.zeros((5, 4), dtype=int)
    with pytest.raises(pf.PanelError, match=r"agent 0: .* 4 observations"):
        pf.Panel.from_arrays(z, np.zeros(shape, dtype=int))
    with pytest.raises(pf.PanelError, match=r"agent 0: z .*float64"):
        pf.Panel.from_arrays(z.astype(float), z)
