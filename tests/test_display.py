"""Tables and facts as they are printed."""

import pandas as pd
import pytest

import pomdpfit as pf
from pomdpfit._summary import Summary
from pomdpfit.inference._compare import Comparison


def test_a_comparison_prints_every_column():
    columns = {f"a rather long name {k}": {"one": 1.0, "two": 2.0} for k in range(12)}
    with pd.option_context("display.width", 80, "display.max_columns", 5):
        printed = str(Comparison(columns))
    assert "..." not in printed
    assert all(name in printed for name in columns)


def test_facts_never_run_into_one_another():
    table = pd.DataFrame({"estimate": [1.0]}, index=["RC"])
    facts = (
        ("Gain over", "what the agent sees now, and a good deal more than that"),
        ("A name that is longer than most", "and what is said under it"),
        ("Bands", "delta method"),
    )
    lines = str(Summary("Title", facts, table, ())).splitlines()
    for name, value in facts:
        assert any(f"{name}: " in line and f" {value}" in line for line in lines)
    short = str(Summary("Title", (("a", "1"), ("b", "2")), table, ()))
    assert "1" + " " * 10 in short


def test_what_is_wrong_with_several_rows_is_said_once():
    frame = pd.DataFrame({"agent": [1, 1, 1], "t": [0, 1, 2], "z": [-1, -2, 0], "a": [0, 0, 0]})
    with pytest.raises(pf.PanelError) as caught:
        pf.Panel.from_frame(frame, agent="agent", time="t", observation="z", action="a")
    assert str(caught.value).count("is negative") == 1
    assert "z -1; row" in str(caught.value)
