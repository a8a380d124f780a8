"""The demand for engines of group 4, and what seeing their condition is worth: as on the page."""

import os
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pomdpfit as pf

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS / "pictures"))
import demand  # noqa: E402

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif("POMDPFIT_RUST1987" not in os.environ, reason="needs Rust's raw files"),
]


NUMBER = re.compile(r"-?\d[\d,]*\.?\d*")


def table_of(heading: str) -> dict[str, dict[str, list[float]]]:
    """The table below a heading of the page: the numbers of each cell, by row and column."""
    section = (DOCS / "counterfactuals.md").read_text().split(f"## {heading}", 1)[1]
    section = section.split("\n## ", 1)[0]
    lines = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    (_, *columns), _, *rows = [[cell.strip() for cell in line] for line in lines]
    read = lambda cell: [float(number.replace(",", "")) for number in NUMBER.findall(cell)]
    return {row: dict(zip(columns, map(read, cells), strict=True)) for row, *cells in rows}


@pytest.fixture(scope="module")
def found():
    return demand.fits()


def test_the_curves_are_those_of_the_page(found):
    told = pd.DataFrame(table_of("The demand for engines, on Rust's buses")).T
    prices = np.array([float(price.replace(",", "")) for price in told.index])
    assert {demand.HIDDEN, demand.MDP} <= set(told.columns)
    for name, printed in told.items():
        table = demand.curve(found[name], prices).to_frame()[["estimate", "lower", "upper"]]
        np.testing.assert_allclose(table, printed.tolist(), atol=0.011)  # two digits are printed


def test_both_models_agree_at_the_price_that_was_paid(found):
    """Both were fitted to the same 33 replacements; elsewhere they need not agree."""
    paid = np.array([7513.0])
    hidden, mdp = (demand.curve(found[n], paid).to_frame() for n in (demand.HIDDEN, demand.MDP))
    assert (mdp["lower"] < hidden["estimate"]).all()
    assert (hidden["estimate"] < mdp["upper"]).all()


def test_the_grid_is_fine_enough(found):
    """Fifteen nodes against sixty-one, at the price that was paid."""
    each = [
        pf.demand_curve(
            found[demand.HIDDEN],
            "RC",
            [7513],
            "replace",
            per=demand.A_YEAR,
            dollars=demand.PAID,
            draws=None,
            grid=pf.Smooth(nodes),
        ).to_frame()["estimate"]
        for nodes in (15, 61)
    ]
    np.testing.assert_allclose(*each, rtol=2e-3)


def test_the_last_bin_bends_the_curve_at_high_prices(found):
    """Costs stop growing at 450,000 miles: with half as many bins again demand is higher there."""
    model, theta = found[demand.MDP].model, found[demand.MDP].theta
    wider = pf.models.EngineReplacement(260, 4, 0.9999, reset="at_zero", conditions=1)
    ask = {"at": theta, "prior": pf.KnownPrior([1.0]), "dollars": demand.PAID}
    each = [
        pf.demand_curve(m, "RC", [7513, 13000], "replace", **ask).to_frame()["estimate"]
        for m in (model, wider)
    ]
    share = each[0] / each[1]
    assert share[7513] > 0.99
    assert share[13000] < 0.85


def test_what_seeing_more_is_worth_is_what_the_page_says(found):
    told = table_of("What seeing the condition of an engine is worth")
    worth = demand.worth(found[demand.HIDDEN]).to_frame()
    for look, cells in told.items():
        # Printed to three digits, to whole dollars, to cents; the search ends within 1e-3 of them.
        for (measure, cell), slack in zip(cells.items(), (0.001, 1.0, 0.01), strict=True):
            row = worth.loc[(look, measure), ["estimate", "lower", "upper"]]
            np.testing.assert_allclose(row, cell, atol=slack, rtol=1e-3)
