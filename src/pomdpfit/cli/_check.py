"""`pomdpfit check`: what is in a panel, and what is wrong with it."""

from typing import TYPE_CHECKING, Any

import typer

from pomdpfit.cli._common import Code, prepare, print_json
from pomdpfit.cli._options import (
    Action,
    Actions,
    Agent,
    Covariate,
    DataOrStudy,
    Debug,
    Delimiter,
    Encoding,
    Freq,
    Group,
    Json,
    Missing,
    ModelOption,
    Observation,
    Observations,
    Repair,
    Time,
)

if TYPE_CHECKING:
    from pomdpfit._panel import Panel


def check(
    data: DataOrStudy,
    agent: Agent = None,
    time: Time = None,
    observation: Observation = None,
    action: Action = None,
    observations: Observations = None,
    actions: Actions = None,
    freq: Freq = None,
    group: Group = None,
    covariate: Covariate = None,
    repair: Repair = None,
    missing: Missing = None,
    delimiter: Delimiter = ",",
    encoding: Encoding = "utf-8",
    model: ModelOption = None,
    json: Json = False,
    debug: Debug = False,
) -> Code | None:
    """Say what is in a panel, what cannot be right, and whether z and a alone explain it.

    Pre-tests: serial dependence of observations beyond the last one speaks for something hidden.
    """
    from pomdpfit.cli._data import Columns, Means, read_data
    from pomdpfit.cli._in_options import options_for
    from pomdpfit.cli._models import read_model
    from pomdpfit.data._check_panel import check_panel

    prepare()
    names = (agent, time, observation, action, observations, actions, freq, group)
    spec = None if model is None else read_model(model)
    columns = Columns(*names, covariates=tuple(covariate or ()))
    means = Means(tuple(repair or ()), tuple(missing or ()), delimiter, encoding)
    panel = read_data(data, columns, None if spec is None else spec.model, means)
    own = {}
    if spec is not None:
        theta = {name: spec.theta[name] for name in spec.model.parameters()}
        own = {"model": spec.model, "theta": theta}
    found = check_panel(panel, **own)
    tests = _pretests(panel)
    if json:
        print_json(
            {
                "ok": found.ok,
                "agents": panel.agent_count,
                "rows": int(found.lengths.sum()),
                "actions": found.actions,
                "problems": found.problems,
                "notes": found.said,
                "tests": {name: numbers for name, (numbers, _) in tests.items()},
            }
        )
    else:
        typer.echo(found.summary())
        for mend in dict.fromkeys(map(options_for, found.problems["says"])):
            if mend:
                typer.echo(mend)
        for _, text in tests.values():
            typer.echo(f"\n{text}")
    return None if found.ok else Code.REFUSED


def _pretests(panel: "Panel") -> dict[str, tuple[Any, str]]:
    """Tests that need no model, as numbers and as text; or why they cannot be had."""
    from pomdpfit._errors import PomdpfitError
    from pomdpfit.identification import markov_order_test, serial_dependence

    told: dict[str, tuple[Any, str]] = {}
    try:
        serial = serial_dependence(panel)
        numbers = {"statistic": serial.statistic, "pvalue": serial.pvalue, "pairs": serial.pairs}
        told["serial dependence"] = numbers, str(serial)
    except PomdpfitError as error:
        told["serial dependence"] = {"error": str(error)}, f"no test of serial dependence: {error}"
    try:
        order = markov_order_test(panel)
        told["markov order"] = order.table, str(order)
    except PomdpfitError as error:
        told["markov order"] = {"error": str(error)}, f"no test of the Markov order: {error}"
    return told
