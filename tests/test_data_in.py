"""Files become panels or clear refusals: malformed inputs, round trips, repairs, hostile bytes."""

import csv
import gzip
import time
import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import malformed_inputs
import pomdpfit as pf
from malformed_inputs import CASES, COLUMNS, SOUND, rows
from tests.extreme_models import EXTREMES, outcome_of

FIELDS = ("z", "a", "present", "acted", "score_observation", "score_choice", "informs", "entry")


def read(path, content, **options):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return pf.read_panel(path, **COLUMNS | options)


def assert_same(left, right):
    for field in FIELDS:
        np.testing.assert_array_equal(getattr(left, field), getattr(right, field), err_msg=field)
    assert left.agents == right.agents
    assert left.times.tolist() == right.times.tolist()


# ---- every malformed input, and the page about them ----------------------------------------------


@pytest.mark.parametrize("title", CASES)
def test_a_malformed_input_gets_the_outcome_and_the_words_it_should(title):
    case = CASES[title]
    if case.name.endswith(".parquet"):
        pytest.importorskip("pyarrow")
    outcome, says = malformed_inputs.run(case)
    assert outcome == case.outcome, says
    for word in case.words:
        assert word in says, (word, says)
    assert len(says) < 1500


_REFUSED = [title for title, case in EXTREMES.items() if case.outcome == "refused"]
_OTHER = [pytest.param(t, marks=pytest.mark.full) for t in EXTREMES if t not in _REFUSED]


@pytest.mark.parametrize("title", [*_REFUSED, *_OTHER])
def test_a_model_at_an_extreme_gets_the_outcome_and_the_words_it_should(title):
    case = EXTREMES[title]
    outcome, says = outcome_of(title)
    assert outcome == case.outcome, says
    for word in case.words:
        assert word in says, (word, says)


@pytest.mark.full
def test_the_page_is_what_the_cases_give_now():
    pytest.importorskip("pyarrow")
    page = malformed_inputs.PAGE.read_text(encoding="utf-8")
    assert page == malformed_inputs.page(), "run python -m tests.malformed_inputs"


def test_the_first_five_bad_lines_are_named_and_the_others_counted(tmp_path):
    bad = rows("1,1,0,0", *(f"1,{t},-1,0" for t in range(2, 14)))
    with pytest.raises(pf.PanelError, match=r"line 3 .*line 7 .*and 7 more rows") as caught:
        read(tmp_path / "buses.csv", bad)
    assert "line 8" not in str(caught.value)


# ---- text files ----------------------------------------------------------------------------------


def test_a_text_file_is_read_row_by_row(tmp_path):
    panel = read(tmp_path / "buses.csv", "\n".join(SOUND))
    assert panel.agents == ("4403", "4404")
    np.testing.assert_array_equal(panel.z, [[0, 1, 2], [0, 0, 0]])
    np.testing.assert_array_equal(panel.a, [[0, 0, 1], [1, 0, 0]])
    np.testing.assert_array_equal(panel.acted, [[1, 1, 1], [1, 0, 0]])
    assert panel.times.tolist() == [[1, 2, 3], [1, 2, None]]
    assert panel.notes == ()


@pytest.mark.parametrize(
    ("name", "change", "options"),
    [
        ("buses.csv.gz", lambda text: gzip.compress(text.encode()), {}),
        ("buses.tsv", lambda text: text.replace(",", "\t").encode(), {"delimiter": "\t"}),
        ("buses.csv", lambda text: text.encode("utf-16"), {"encoding": "utf-16"}),
        ("buses.csv", lambda text: b"\xef\xbb\xbf" + text.encode(), {}),
        ("buses.csv", lambda text: text.replace("\n", "\r\n").encode(), {}),
        ("buses.csv", lambda text: text.replace("4404,2,0,", "4404,2,0,NA").encode(),
         {"missing": ["", "NA"]}),
        ("buses.csv", lambda text: text.replace("month", '"month"').encode(), {}),
    ],
)  # fmt: skip
def test_the_same_rows_written_otherwise_are_the_same_panel(name, change, options, tmp_path):
    text = "\n".join(SOUND) + "\n"
    plain = read(tmp_path / "plain.csv", text)
    assert_same(read(tmp_path / name, change(text), **options), plain)


def test_ids_stay_text_to_the_last_character(tmp_path):
    ids = ["007", "7", "NA", "9007199254740993", "9007199254740992", "1e3", "nan", "True", "ß☃"]
    panel = read(tmp_path / "buses.csv", rows(*(f"{name},1,0,0" for name in ids)))
    assert list(panel.agents) == ids


def test_labels_groups_covariates_and_booleans_are_read_from_text(tmp_path):
    text = (
        "bus,month,bin,replace,make,price\n"
        "1,1,low,FALSE,08,2.5\n1,2,high,true,08,-1e-3\n2,1,low,False,8,+3\n"
    )
    panel = read(tmp_path / "buses.csv", text, observations=["low", "high"], group="make",
                 covariates=["price"])  # fmt: skip
    np.testing.assert_array_equal(panel.z[panel.present], [0, 1, 0])
    np.testing.assert_array_equal(panel.a[panel.acted], [0, 1, 0])
    assert panel.groups == ("08", "8")
    np.testing.assert_array_equal(panel.covariates["price"][panel.present], [2.5, -0.001, 3.0])
    numbered = read(tmp_path / "buses.csv", text, observations=["low", "high"], group="make",
                    groups=["8", "08"])  # fmt: skip
    np.testing.assert_array_equal(numbered.covariates["group"][:, 0], [1, 0])


def test_labels_that_are_numbers_are_found_by_how_they_print(tmp_path):
    panel = read(tmp_path / "b.csv", rows("1,1,0,10", "1,2,1,20"), actions=[20, 10])
    np.testing.assert_array_equal(panel.a, [[1, 0]])


def test_dates_in_text_become_periods(tmp_path):
    text = rows("1,1979-12-31,0,0", "1,1980-01-01,1,1", "2,1980-05-02,0,1")
    panel = read(tmp_path / "buses.csv", text, freq="M")
    assert panel.times.tolist() == [["1979-12-31", "1980-01-01"], ["1980-05-02", None]]
    with pytest.raises(pf.PanelError, match=r"line 2.*'1980-13-01' is not a date"):
        read(tmp_path / "buses.csv", rows("1,1980-13-01,0,0"), freq="M")
    with pytest.raises(pf.PanelError, match=r"freq='fortnight'"):
        read(tmp_path / "buses.csv", text, freq="fortnight")


def test_lines_are_counted_also_where_quoted_fields_hold_line_ends(tmp_path):
    text = 'bus,month,bin,replace,remark\n1,1,0,0,"two\nlines"\n1,2,x,0,\n'
    with pytest.raises(pf.PanelError, match="line 4 "):
        read(tmp_path / "buses.csv", text)


@pytest.mark.parametrize("delimiter", ["", ",,", '"', "\n"])
def test_a_delimiter_is_one_character(delimiter, tmp_path):
    with pytest.raises(pf.PanelError, match="one character"):
        read(tmp_path / "buses.csv", "\n".join(SOUND), delimiter=delimiter)


def test_what_is_no_file_is_refused(tmp_path):
    with pytest.raises(pf.PanelError, match="not there"):
        pf.read_panel(tmp_path / "none.csv", **COLUMNS)
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(pf.PanelError, match="folder"):
        pf.read_panel(tmp_path / "folder.csv", **COLUMNS)


# ---- any panel comes back ------------------------------------------------------------------------

IDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1,
              max_size=6).filter(lambda text: text == text.strip())  # fmt: skip
PATH = st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 3)), min_size=1, max_size=4)
PANELS = st.dictionaries(
    IDS, st.tuples(PATH, st.booleans(), st.integers(-(2**40), 2**40)), min_size=1, max_size=4
)


def frame_of(agents):
    data = [
        (name, first + t, z, None if drop and t == len(path) - 1 else a)
        for name, (path, drop, first) in agents.items()
        for t, (z, a) in enumerate(path)
    ]
    frame = pd.DataFrame(data, columns=["bus", "month", "bin", "replace"])
    return frame.astype({"replace": "Int64"})


@given(PANELS)
@example({"0\r0": ([(0, 0)], False, 0)})
@settings(max_examples=60, deadline=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip
def test_any_panel_comes_back_from_text(tmp_path, agents):
    frame = frame_of(agents)
    # Texts in quotation marks: pandas leaves them away around a carriage return, which we refuse.
    frame.to_csv(tmp_path / "buses.csv", index=False, quoting=csv.QUOTE_NONNUMERIC)
    back = pf.read_panel(tmp_path / "buses.csv", **COLUMNS)
    assert_same(back, pf.Panel.from_frame(frame, **COLUMNS))


@given(PANELS)
@settings(max_examples=30, deadline=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip
def test_any_panel_comes_back_from_parquet(tmp_path, agents):
    pytest.importorskip("pyarrow")
    frame = frame_of(agents)
    pl.DataFrame(
        {name: frame[name].astype(object).where(frame[name].notna(), None).tolist()
         for name in frame}, strict=False
    ).write_parquet(tmp_path / "buses.parquet")  # fmt: skip
    back = pf.read_panel(tmp_path / "buses.parquet", **COLUMNS)
    assert_same(back, pf.Panel.from_frame(frame, **COLUMNS))


def test_parquet_keeps_dates_and_categories_and_names_the_closest_column(tmp_path):
    pytest.importorskip("pyarrow")
    dates = pd.to_datetime(["1980-01-31", "1980-02-29"])
    frame = pl.DataFrame({"bus": ["1", "1"], "month": dates.to_list(), "bin": ["lo", "hi"],
                          "replace": [False, True]})  # fmt: skip
    frame = frame.with_columns(pl.col("bin").cast(pl.Categorical))
    frame.write_parquet(tmp_path / "buses.parquet")
    read_it = lambda **more: pf.read_panel(
        tmp_path / "buses.parquet", **COLUMNS | {"observations": ["lo", "hi"], **more}
    )
    panel = read_it(freq="M")
    np.testing.assert_array_equal(panel.z, [[0, 1]])
    np.testing.assert_array_equal(panel.a, [[0, 1]])
    with pytest.raises(pf.PanelError, match="freq="):
        read_it()
    with pytest.raises(pf.PanelError, match=r"buses\.parquet has no column 'bins'.*'bin'"):
        read_it(observation="bins")


def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(pf.PanelError, match=r"pomdpfit\[parquet\]"):
        read(tmp_path / "buses.parquet", b"PAR1")


def test_stata_files_give_numbers_and_where_asked_for_value_labels(tmp_path):
    frame = pd.DataFrame({"bus": ["a", "a", "b"], "month": [1, 2, 1], "bin": [0, 3, 1],
                          "replace": pd.Categorical(["no", "yes", "no"])})  # fmt: skip
    frame.to_stata(tmp_path / "buses.dta", write_index=False)
    read_it = lambda **more: pf.read_panel(tmp_path / "buses.dta", **COLUMNS | more)
    for panel in (read_it(), read_it(actions=["no", "yes"])):
        assert panel.agents == ("a", "b")
        np.testing.assert_array_equal(panel.z[panel.present], [0, 3, 1])
        np.testing.assert_array_equal(panel.a[panel.acted], [0, 1, 0])
    np.testing.assert_array_equal(read_it(actions=["yes", "no"]).a, [[1, 0], [1, 0]])
    with pytest.raises(pf.PanelError, match=r"buses\.dta.*'bins'.*Did you mean 'bin'"):
        read_it(observation="bins")


def test_stata_missing_values_are_missing(tmp_path):
    frame = pd.DataFrame({"bus": ["a", "", "b"], "month": [1, 2, 1], "bin": [0, np.nan, 1],
                          "replace": [0, 1, 0]})  # fmt: skip
    frame.to_stata(tmp_path / "buses.dta", write_index=False)
    with pytest.raises(pf.PanelError, match=r"row 1 .*no agent"):
        pf.read_panel(tmp_path / "buses.dta", **COLUMNS)
    frame.assign(bus=["a", "a", "b"]).to_stata(tmp_path / "buses.dta", write_index=False)
    with pytest.raises(pf.PanelError, match=r"row 1 .*'bin'|column 'bin': row 1"):
        pf.read_panel(tmp_path / "buses.dta", **COLUMNS)


# ---- words for no value, and several refusals ----------------------------------------------------


@pytest.mark.parametrize("missing", [["", "9"], "9", {"bin": "9"}, {"bin": ["9"]}])
def test_words_for_no_value_leave_ids_and_times_alone(missing, tmp_path):
    text = rows("9,8,0,0", "9,9,1,1", "9,10,9,0")
    panel = read(tmp_path / "b.csv", text, missing=missing, repair=pf.DropRows())
    assert panel.agents == ("9",)
    assert panel.times.tolist() == [[8, 9]]


def test_a_mapping_of_words_for_no_value_is_for_its_own_columns(tmp_path):
    text = rows("1,1,9,0", "1,2,1,9", "1,3,0,0")
    panel = read(tmp_path / "b.csv", text, missing={"bin": ["9"]}, repair=pf.DropRows())
    np.testing.assert_array_equal(panel.a, [[9, 0]])
    with pytest.raises(pf.PanelError, match=r"'month'; it may name bin, replace"):
        read(tmp_path / "b.csv", text, missing={"month": ["9"]})


def test_refusals_of_all_columns_are_told_at_once_also_where_rows_have_their_places(tmp_path):
    text = rows("1,1,0,0", "1,3,one,x")
    with pytest.raises(pf.PanelError) as refusal:
        read(tmp_path / "b.csv", text)
    lines = str(refusal.value).splitlines()
    assert len(lines) == 3
    for line, words in zip(lines, ("month 3 follows a gap", "'one'", "'x'"), strict=True):
        assert "line 3" in line
        assert words in line


# ---- repairs -------------------------------------------------------------------------------------

GAPPY = rows("1,1,0,0", "1,2,1,", "1,5,7,0", "1,6,9,1", "2,3,0,0", "2,4,1,1")


def test_agents_are_split_at_gaps_on_request(tmp_path):
    panel = read(tmp_path / "buses.csv", GAPPY, repair=pf.SplitAtGaps(), entry={"1": 3, "2": 0})
    assert panel.agents == (("1", 0), ("1", 1), "2")  # who has no gap keeps the name
    np.testing.assert_array_equal(panel.z, [[0, 1], [7, 9], [0, 1]])
    np.testing.assert_array_equal(panel.acted, [[1, 0], [1, 1], [1, 1]])
    np.testing.assert_array_equal(panel.entry, [3, 7, 0])  # the second part begins four later
    [note] = [note for note in panel.notes if "1 agents were split at 1 gaps" in note]
    assert "(agent, part) from ('1', 0) on" in note


def test_parts_of_an_agent_have_its_known_prior_unless_they_have_their_own(tmp_path):
    panel = read(tmp_path / "buses.csv", GAPPY, repair=pf.SplitAtGaps())
    prior = pf.KnownPrior({"1": [0.2, 0.8], ("1", 1): [0.5, 0.5], "2": [1.0, 0.0]})
    np.testing.assert_allclose(prior.data(panel.agents, 2), [[0.2, 0.8], [0.5, 0.5], [1, 0]])
    with pytest.raises(pf.ModelError, match="'2'"):
        pf.KnownPrior({"1": [0.2, 0.8]}).data(panel.agents, 2)


def test_high_observations_are_lumped_on_request(tmp_path):
    panel = read(tmp_path / "buses.csv", GAPPY, repair=[pf.SplitAtGaps(), pf.TopCode(1)])
    assert panel.z.max() == 1
    assert any("2 observations above 1 were top-coded" in note for note in panel.notes)
    with pytest.raises(pf.PanelError, match="whole number"):
        pf.TopCode(1.5)


LACKING = rows("1,1,0,0", "1,2,,0", "1,3,2,1", "2,1,0,0", "2,2,1,", ",5,1,1", "3,1,0,1", "3,2,,1")


def test_rows_that_lack_a_value_are_dropped_on_request(tmp_path):
    panel = read(tmp_path / "buses.csv", LACKING, repair=[pf.DropRows(), pf.SplitAtGaps()])
    assert panel.agents == (("1", 0), ("1", 1), "2", "3")
    assert panel.present.sum() == 5
    assert any("1 rows were dropped on request, for want of 'bus' (1)" in n for n in panel.notes)
    assert any("2 rows were dropped on request, for want of 'bin' (2)" in n for n in panel.notes)
    with pytest.raises(pf.PanelError, match=r"line 4 .*gap"):
        read(tmp_path / "buses.csv", LACKING, repair=pf.DropRows())


def test_agents_that_lack_a_value_are_dropped_on_request(tmp_path):
    panel = read(tmp_path / "buses.csv", LACKING, repair=pf.DropAgents())
    assert panel.agents == ("2",)
    assert any("2 agents were dropped" in note for note in panel.notes)
    only = pf.DropAgents(columns=("bin",))
    with pytest.raises(pf.PanelError, match=r"line 7 .*no agent"):
        read(tmp_path / "buses.csv", LACKING, repair=only)
    with pytest.raises(pf.PanelError, match="no row is left"):
        read(tmp_path / "buses.csv", rows("1,1,,0"), repair=pf.DropRows())
    with pytest.raises(pf.PanelError, match="not read"):
        read(tmp_path / "buses.csv", LACKING, repair=pf.DropRows(columns=("speed",)))


def test_frames_are_repaired_alike_and_words_are_no_repairs(tmp_path):
    frame = pd.DataFrame({"bus": 1, "month": [1, 2, 5], "bin": [0, 1, 2], "replace": 0})
    panel = pf.Panel.from_frame(frame, **COLUMNS, repair=[pf.SplitAtGaps()])
    assert panel.agents == ((1, 0), (1, 1))
    for wrong in ("split", ["split"], 3):
        with pytest.raises(pf.PanelError, match=r"no repair.*SplitAtGaps"):
            pf.Panel.from_frame(frame, **COLUMNS, repair=wrong)


# ---- hostile files -------------------------------------------------------------------------------


@pytest.mark.parametrize(("agent", "told"), [("", "has no agent"), ("4\0", "holds a NUL")])
def test_an_id_that_no_text_file_could_hold_is_refused_in_a_frame(agent, told):
    frame = pd.DataFrame({"bus": ["a", agent], "month": [1, 1], "bin": [0, 0], "replace": [0, 0]})
    with pytest.raises(pf.PanelError, match=told):
        pf.Panel.from_frame(frame, **COLUMNS)


def test_a_parquet_file_that_explodes_is_refused(tmp_path):
    pq, pa = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    zeros = pa.array(np.zeros(3_000_000, dtype=np.int8))
    pq.write_table(pa.table([zeros] * 4, names=list(COLUMNS.values())), tmp_path / "buses.parquet")
    assert (tmp_path / "buses.parquet").stat().st_size < 2**17
    with pytest.raises(pf.PanelError, match="unpacks to 12,000,000 values"):
        pf.read_panel(tmp_path / "buses.parquet", **COLUMNS)


def test_a_stata_file_that_boasts_asks_for_no_memory(tmp_path, monkeypatch):
    """pandas asks for as many bytes as a length in the file says; memory gives what there is."""
    sources = []
    monkeypatch.setattr(pd, "read_stata", lambda source, **_: sources.append(source) or 1 / 0)
    (tmp_path / "buses.dta").write_bytes(b"boasting")
    with pytest.raises(pf.PanelError, match="Stata"):
        pf.read_panel(tmp_path / "buses.dta", **COLUMNS)
    assert [source.read(2**40) for source in sources] == [b"boasting"]


def test_a_header_of_long_names_is_refused_quickly(tmp_path):
    header = ",".join(f"{'bin' * 10_000}{k}" for k in range(30))
    begun = time.process_time()
    with pytest.raises(pf.PanelError, match="no column 'bus'"):
        read(tmp_path / "buses.csv", f"{header}\n".encode())
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(
    "content",
    [b"9" * 2**25, b'bus,month,bin,replace\n"' + b"9,\n" * 2**23, b"\n" + b"\xc3\xa4" * 2**24],
    ids=["no end of line", "no closing quote", "wide characters"],
)
def test_a_hostile_file_is_refused_with_little_memory(content, tmp_path):
    path = tmp_path / "buses.csv"
    path.write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(pf.PanelError):
            pf.read_panel(path, **COLUMNS)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # A record has at most 2**20 characters of 4 bytes; a few copies are made while it is split.
    assert peak < 5 * 4 * 2**20


def test_a_panel_that_is_nearly_all_padding_is_refused(tmp_path):
    lines = [f"long,{t},0,0" for t in range(11_000)] + [f"{i},1,0,0" for i in range(10_000)]
    with pytest.raises(pf.PanelError, match=r"agent 'long' is far longer"):
        read(tmp_path / "buses.csv", rows(*lines))
