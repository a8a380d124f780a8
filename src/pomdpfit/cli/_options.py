"""Options that several commands have, each with its one explanation."""

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, and nothing else.")]
Debug = Annotated[bool, typer.Option("--debug", help="Print the traceback of an error.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of everything that is drawn.")]

# ---- the model ---------------------------------------------------------------------------------

_RUNS = "A module of your own is imported, which runs its code: name only what you trust."
ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help=f"A model or study file (.toml, .POMDP), or module:object of your own code. {_RUNS}",
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODEL",
        help=f"Check against this model's range and transitions. {_RUNS}",
    ),
]
OwnModel = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODEL",
        help="The model that was fitted, where it is your own code: module:object, or the study "
        f"file that names it. {_RUNS}",
    ),
]
PriorText = Annotated[
    str | None,
    typer.Option(
        "--prior",
        metavar="PRIOR",
        help="The first belief: known:0.9,0.1 or common, agent, stationary[:NODES].",
    ),
]
ThetaFile = Annotated[
    Path | None,
    typer.Option(help="Parameters (.toml or .json); what it lacks is the model's."),
]
GridText = Annotated[
    str | None,
    typer.Option(metavar="SCHEME:NODES", help="The grid of beliefs: smooth:101, linear:51."),
]

# ---- the data ----------------------------------------------------------------------------------

_ROWS = "One row for each agent and period: .csv, .parquet, .dta"
DataArgument = Annotated[
    Path | None, typer.Argument(metavar="DATA", help=f"{_ROWS}; if not that of the study file.")
]
DataOrStudy = Annotated[
    Path, typer.Argument(metavar="DATA", help=f"{_ROWS}; or a study file (.toml) that names it.")
]
Agent = Annotated[str | None, typer.Option(metavar="COL", help="The column of agents.")]
Time = Annotated[str | None, typer.Option(metavar="COL", help="The column of periods.")]
Observation = Annotated[str | None, typer.Option(metavar="COL", help="The column of z.")]
Action = Annotated[str | None, typer.Option(metavar="COL", help="The column of a.")]
Observations = Annotated[
    str | None, typer.Option(metavar="LABELS", help="Labels of z in order, such as low,high.")
]
Actions = Annotated[
    str | None, typer.Option(metavar="LABELS", help="Labels of a in order, such as keep,replace.")
]
Group = Annotated[
    str | None, typer.Option(metavar="COL", help="The column of groups, for a model with [groups].")
]
Covariate = Annotated[
    list[str] | None,
    typer.Option(metavar="COL", help="A column that the model reads by its name; repeatable."),
]
Repair = Annotated[
    list[str] | None,
    typer.Option(
        "--repair",
        metavar="REPAIR",
        help="split-at-gaps, drop-rows, drop-agents or top-code=N; repeatable. Nothing else is "
        "repaired.",
    ),
]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[COL=]TEXT",
        help="Text that stands for no value, as an empty cell does, but for agents and periods; "
        "repeatable.",
    ),
]
Delimiter = Annotated[
    str, typer.Option(metavar="CHARACTER", help="Between fields of a text file; \\t for a tab.")
]
Encoding = Annotated[str, typer.Option(help="Of a text file.")]
Freq = Annotated[
    str | None, typer.Option(help="Length of a period where time holds dates: M, W, D, ...")
]
