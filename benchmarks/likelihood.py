"""What derivatives cost beside the likelihood: Table I's panel, 11 parameters, all warm."""

import pomdpfit as pf
from benchmarks.bus import bus_model, bus_panel, bus_unit, moved
from benchmarks.row import Row
from benchmarks.size import Size
from benchmarks.timing import side_by_side


def rows(size: Size) -> list[Row]:
    """Ratios to one log-likelihood from a warm start."""
    model, (panel, prior) = bus_model(size), bus_panel(size)
    likelihood = pf.Likelihood(model, panel, prior=prior, grid=pf.Smooth(size.nodes))
    start = likelihood(model.example()).start
    theta = moved(model.example())
    seconds = side_by_side(
        {
            "unit": bus_unit(size),
            "value": lambda: likelihood(theta, start=start).choice,
            "gradient": lambda: likelihood.gradient(theta, start=start)[1].to_numpy(),
            "scores": lambda: likelihood.scores(theta, start=start)[1].to_numpy(),
        },
        size.repetitions,
    )
    one = seconds["value"]
    what = f"{size.agents} x {size.periods}"
    return [
        Row(
            f"log-likelihood, {what}",
            one / seconds["unit"],
            "applications",
            note=f"{1e3 * one:.0f} ms",
        ),
        Row("with its full gradient", seconds["gradient"] / one, "log-likelihoods", 3.0),
        Row("with all agents' scores", seconds["scores"] / one, "log-likelihoods", 8.0),
    ]
