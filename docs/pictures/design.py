"""docs/images/design.png: how the standard errors of a small engine fall with agents and periods.

Run: python docs/pictures/design.py (some minutes; it goes on where it was stopped)
"""

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import pomdpfit as pf

IMAGE = Path(__file__).parents[1] / "images" / "design.png"
KEPT = Path(__file__).parents[2] / "results" / "design"


def main() -> None:
    """The study of docs/scale/design.md with more replications."""
    model = pf.baselines.BusEngine(bins=12, increments=3, discount=0.95)
    theta = {"RC": 4.0, "cost": 400.0, "increment": [0.3, 0.5, 0.2], "discount": 0.95}
    sizes = {"agents": [50, 100, 200, 400], "periods": [12, 24, 48], "replications": 40}
    with pf.progress_bar() as bar:
        found = pf.design(model, theta, **sizes, seed=0, checkpoint=KEPT, progress=bar)
    print(found)
    print(found.agents_for("RC", se=0.25, periods=24))
    axes = found.plot(["RC", "cost", "increment[0]"])
    axes[0].axhline(0.25, color="grey", linestyle=":")
    axes[0].figure.savefig(IMAGE, dpi=120)


if __name__ == "__main__":
    main()
