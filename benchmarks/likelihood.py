"""What derivatives cost beside the likelihood: Table I's panel, 11 parameters, all warm."""

import pomdpfit as pf
from benchmarks.bus import bus_model, bus_panel, bus_unit, moved
from benchmarks.row import Row
from benchmarks.size import Size
from benchmarks.timing import Work, side_by_side


def anew(likelihood: pf.Likelihood, work: Work) -> Work:
    """Work at a theta as if the likelihood had not been there before."""

    def forgetful() -> object:
        likelihood.forget()
        return work()

    return forgetful


def rows(size: Size) -> list[Row]:
    """Ratios to one log-likelihood from a warm start."""
    model, (panel, prior) = bus_model(size), bus_panel(size)
    likelihood = pf.Likelihood(model, panel, prior=prior, grid=pf.Smooth(size.nodes))
    start = likelihood(model.example()).start
    theta = moved(model.example())
    value = lambda: likelihood(theta, start=start).choice
    gradient = lambda: likelihood.gradient(theta, start=start)[1].to_numpy()
    scores = lambda: likelihood.scores(theta, start=start)[1].to_numpy()
    seconds = side_by_side(
        {
            "unit": bus_unit(size),
            "value": anew(likelihood, value),
            "gradient": anew(likelihood, gradient),
            "scores": anew(likelihood, scores),
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
