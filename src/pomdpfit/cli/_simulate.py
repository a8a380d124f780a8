"""`pomdpfit simulate`: a panel drawn from a model."""

from pathlib import Path
from typing import Annotated, Any, cast

import typer

from pomdpfit.cli._common import Usage, prepare, print_json, require_folder
from pomdpfit.cli._options import (
    Debug,
    GridText,
    Json,
    ModelArgument,
    PriorText,
    Seed,
    ThetaFile,
)


def simulate(
    model: ModelArgument,
    agents: Annotated[int, typer.Option(min=1, help="How many agents.")],
    periods: Annotated[int, typer.Option(min=1, help="How many choices each of them makes.")],
    out: Annotated[
        Path,
        typer.Option(
            help="The CSV file to write; a name without an ending is a folder of Parquet files, "
            "for panels larger than memory."
        ),
    ] = Path("panel.csv"),
    seed: Seed = 0,
    theta: ThetaFile = None,
    prior: PriorText = None,
    z0: Annotated[int, typer.Option(min=0, help="The first observation of every agent.")] = 0,
    grid: GridText = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Draw a panel of agents who follow a model, and write it: agent, time, z, a."""
    require_folder(out)
    from pomdpfit._panel import Panel
    from pomdpfit._simulate import simulate as draw
    from pomdpfit._write import write_atomically
    from pomdpfit.baselines import MDP
    from pomdpfit.cli._choices import chosen, with_prior, with_theta
    from pomdpfit.cli._models import read_model
    from pomdpfit.cli._study import as_text, require_other_file, study_options
    from pomdpfit.streaming import simulate_parquet

    prepare()
    study = study_options(model)
    require_other_file(out, study, model)
    spec = with_theta(with_prior(read_model(model), prior), theta)
    if isinstance(spec.model, MDP):
        raise Usage(
            f"{type(spec.model).__name__} hides nothing and cannot be simulated here: take "
            "EngineReplacement with conditions = 1, or a pf.Model of one hidden state."
        )
    options: dict[str, Any] = {"agents": agents, "periods": periods, "seed": seed, "z0": z0}
    options |= {"prior": spec.prior, **chosen(grid=grid)}
    if out.suffix:
        frame = cast(Panel, draw(spec.model, spec.theta, **options)).to_frame()
        write_atomically(out, as_text(frame, spec.model, study))
        rows = len(frame)
    else:
        scan = simulate_parquet(spec.model, spec.theta, out, **options)
        rows = scan.rows
    if json:
        facts = {"agents": agents, "periods": periods, "seed": seed, "z0": z0}
        print_json({"out": out, "rows": rows, "theta": spec.theta, **facts})
        return
    typer.echo(f"{rows} rows of {agents} agents, drawn with seed {seed}: {out}")
    columns = {"agent": "agent", "time": "time", "observation": "z", "action": "a"}
    named = {name: c for name, c in columns.items() if name not in study or not out.suffix}
    options_for = "".join(f" --{name} {column}" for name, column in named.items())
    typer.echo(f"read it with: pomdpfit fit {model} {out}{options_for}")
