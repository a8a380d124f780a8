"""`pomdpfit counterfactual`: what would happen if something were different."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from pomdpfit.cli._common import (
    Usage,
    named_value,
    once_each,
    prepare,
    print_json,
    require_picture,
)
from pomdpfit.cli._options import Debug, Json, OwnModel, Seed

if TYPE_CHECKING:
    from pomdpfit.counterfactuals._banded import AbstractBanded
    from pomdpfit.counterfactuals._information import AbstractInformation


def counterfactual(
    fit: Annotated[Path, typer.Argument(metavar="FIT", help="A fit that was saved.")],
    change: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="A parameter or an entry set; repeatable."
        ),
    ] = None,
    discount: Annotated[float | None, typer.Option(help="Another discount factor.")] = None,
    available: Annotated[
        str | None, typer.Option(metavar="LABELS", help="The actions that are left: keep,replace.")
    ] = None,
    demand: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=LOW:HIGH:COUNT", help="A demand curve over a parameter, with --action."
        ),
    ] = None,
    action: Annotated[str | None, typer.Option(help="The action that is demanded.")] = None,
    per: Annotated[
        float, typer.Option(help="Demand of so many agents and periods: 12 months x 37 buses.")
    ] = 1.0,
    information: Annotated[
        bool,
        typer.Option("--information", help="What seeing the hidden state would be worth."),
    ] = False,
    sensor: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=ROWS",
            help="With --information: a sensor too, P(y | s) a row for each hidden state, as in "
            "gauge=[[0.8,0.2],[0.3,0.7]]; repeatable.",
        ),
    ] = None,
    dollars: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=AMOUNT",
            help="What a parameter is worth: RC=9000. Values of --demand are then dollars.",
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw it too: .png, .svg or .pdf.")
    ] = None,
    draws: Annotated[
        int, typer.Option(min=0, help="From the law of the estimate; 0 for the delta method.")
    ] = 200,
    seed: Seed = 0,
    model: OwnModel = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Change something, solve again, and compare with the estimate, with confidence bands.

    One of: --set, --discount and --available together; --demand; or --information.
    """
    changed = bool(change) or discount is not None or available is not None
    if changed + (demand is not None) + information != 1:
        raise Usage(
            "say what is different: --set, --discount, --available; --demand; or --information."
        )
    if (demand is None) != (action is None):
        raise Usage("a demand curve needs both --demand NAME=LOW:HIGH:COUNT and --action LABEL.")
    if sensor and not information:
        raise Usage("--sensor goes with --information.")
    if plot is not None:
        require_picture(plot)
    moves = once_each((named_value(text, "--set") for text in change or ()), "--set") or None
    sensors = once_each((named_value(text, "--sensor") for text in sensor or ()), "--sensor")
    span = None if demand is None else _range(demand)
    money = None if dollars is None else dict([named_value(dollars, "--dollars")])
    from pomdpfit.cli._saved import load_whole_fit
    from pomdpfit.counterfactuals import counterfactual as changed_world
    from pomdpfit.counterfactuals import demand_curve, value_of_information

    prepare()
    estimate = load_whole_fit(fit, model)
    common: dict[str, Any] = {"draws": draws, "seed": seed, "dollars": money}
    found: AbstractBanded
    if span is not None and action is not None:
        found = demand_curve(estimate, *span, action, per=per, **common)
    elif information:
        found = value_of_information(estimate, looks(sensors), **common)
    else:
        found = changed_world(
            estimate,
            moves,
            discount=discount,
            available=None if available is None else [a.strip() for a in available.split(",")],
            **common,
        )
    if plot is not None:
        _draw(found, plot)
    if json:
        print_json({"table": found.to_frame().reset_index(), "notes": found.notes})
    else:
        typer.echo(str(found))


def looks(sensors: Mapping[str, Any]) -> "dict[str, AbstractInformation]":
    """What could be seen: the hidden state, always and once, and the sensors named."""
    from pomdpfit.counterfactuals import Sensor
    from pomdpfit.counterfactuals._value_of_information import perfect_information

    return perfect_information() | {name: Sensor(rows) for name, rows in sensors.items()}


def _draw(found: "AbstractBanded", path: Path) -> None:
    from matplotlib.figure import Figure

    drawing = Figure(figsize=(6, 4), layout="constrained")
    found.plot(drawing.subplots())
    drawing.savefig(path, dpi=150)


def _range(text: str) -> tuple[str, np.ndarray]:
    """NAME=LOW:HIGH:COUNT."""
    name, _, span = text.rpartition("=")
    try:
        low, high, count = span.split(":")
        if name and int(count) >= 1:
            return name.strip(), np.linspace(float(low), float(high), int(count))
    except ValueError:
        pass
    raise Usage(f"--demand {text} must be NAME=LOW:HIGH:COUNT, such as RC=5:15:11.")
