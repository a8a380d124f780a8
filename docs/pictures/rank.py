"""docs/images/rank.png: ranks by period with one prior and with two, and for the engine."""

from pathlib import Path

from matplotlib.figure import Figure

import pomdpfit as pf
from pomdpfit import plots

IMAGE = Path(__file__).parents[1] / "images" / "rank.png"


def main() -> None:
    """Draw three reports side by side."""
    free, engine = pf.models.Tabular(2, 2, 1), pf.models.EngineReplacement(bins=30)
    new = pf.KnownPrior([1.0, 0.0])
    one, two = pf.KnownPrior([0.3, 0.7]), pf.KnownPrior([[0.3, 0.7], [0.6, 0.4]])
    grid = pf.Smooth(21)
    reports = {
        "a free kernel, one prior": pf.identify(
            free, free.example(), pf.Design(6, None), prior=one
        ),
        "the same, two priors": pf.identify(free, free.example(), pf.Design(6, None), prior=two),
        "the engine": pf.identify(engine, engine.example(), pf.Design(5), prior=new, grid=grid),
    }
    drawing = Figure(figsize=(10, 3.4), layout="constrained")
    for ax, (name, report) in zip(drawing.subplots(1, 3), reports.items(), strict=True):
        plots.identification(report, ax=ax)
        ax.set_title(f"{name}: rank of {report.everything.dimension}", fontsize=9)
    drawing.savefig(IMAGE, dpi=120)


if __name__ == "__main__":
    main()
