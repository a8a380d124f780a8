"""docs/images/demand.png: engines replaced a year by what one costs, as in Rust's Figure 7.

Run: python docs/pictures/demand.py (needs Rust's raw files, see docs/replication.md). It prints the
tables of docs/counterfactuals.md.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import pomdpfit as pf

IMAGE = Path(__file__).parents[1] / "images" / "demand.png"
PAID = {"RC": 7513}  # dollars for a replacement in group 4: Rust (1987), Table III
PRICES = np.linspace(3000, 11000, 9)
A_YEAR = 12 * 37  # months times buses
GRID = pf.Smooth(15)  # of counterfactuals: demand to a thousandth, a tenth of the time
# Near the highest maximum, in which new engines start in light use (docs/replication.md).
NEAR = {
    "RC": 9.8,
    "cost": [1.2, 0.5],
    "stay": [0.978, 0.966],
    "increment": [[0.185, 0.729, 0.085, 0.001], [0.005, 0.297, 0.649, 0.049]],
}
HIDDEN, MDP, MYOPIC = "hidden condition", "fully observed", "fully observed, discount 0"
# A mechanic's report each month that is right nine times in ten.
MECHANIC = pf.Sensor([[0.9, 0.1], [0.1, 0.9]])
LOOKS = {
    "see the condition always": pf.FullObservation(),
    "see it once": pf.Inspection(),
    "a report each month, 90 % right": MECHANIC,
}


def fits() -> dict[str, pf.Estimate]:
    """The model with a hidden condition and the fully observed one, of the same rows of group 4."""
    data = pf.datasets.rust1987(4, 175, conventions=pf.datasets.CHANG)
    engine = lambda **options: pf.models.EngineReplacement(
        data.bins, data.increments, reset=data.reset, **options
    )
    fit = lambda model, belief, **options: pf.fit(
        model, data.panel, pf.TwoStage(), prior=pf.KnownPrior(belief), starts=1, **options
    )
    return {
        HIDDEN: fit(engine(), [1.0, 0.0], start=NEAR),
        MDP: fit(engine(conditions=1), [1.0]),
        MYOPIC: fit(engine(conditions=1, discount=0.0), [1.0]),
    }


def curve(estimate: pf.Estimate, prices: np.ndarray = PRICES) -> pf.DemandCurve:
    """Replacements a year of 37 buses by the price of one, with bands by the delta method."""
    options = {"per": A_YEAR, "dollars": PAID, "draws": 0, "grid": GRID}
    return pf.demand_curve(estimate, "RC", prices, "replace", **options)


def worth(estimate: pf.Estimate) -> pf.InformationValue:
    """What seeing more is worth at some 200,000 miles, the condition being anybody's guess."""
    even = pf.KnownPrior([0.5, 0.5])
    options = {"prior": even, "dollars": PAID, "draws": 0, "grid": GRID}
    return pf.value_of_information(estimate, LOOKS, z0=78, **options)


def main() -> None:
    """Fit, draw, and print what the page says."""
    pf.cache_compilations()
    found = fits()
    curves = {name: curve(estimate) for name, estimate in found.items()}
    with pd.option_context("display.width", 120):
        for name, each in curves.items():
            print(name, found[name].llf, each.to_frame().round(2), sep="\n")
        print(worth(found[HIDDEN]).to_frame().round(3))
    drawing = Figure(figsize=(7.2, 4.4), layout="constrained")
    ax = pf.plots.demand_curve(curves, ax=drawing.subplots())
    ax.set_xlabel("expected replacements a year, 37 buses")
    ax.set_ylabel("cost of a replacement, dollars of 1985")
    drawing.savefig(IMAGE, dpi=120)


if __name__ == "__main__":
    main()
