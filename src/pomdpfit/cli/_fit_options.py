"""The options of `pomdpfit fit` that no other command has."""

from pathlib import Path
from typing import Annotated

import typer

# ---- what is estimated -------------------------------------------------------------------------

Estimator = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="What is maximised, and how: joint (if not given), two-stage or policy-gradient.",
    ),
]
Fix = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME[=VALUE]", help="Hold a parameter or an entry; repeatable."),
]
Free = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Let go what the model fixes; repeatable."),
]
Constraint = Annotated[
    list[str] | None,
    typer.Option(metavar="EQUATION", help='Such as "RC = 10"; repeatable.'),
]

# ---- the search --------------------------------------------------------------------------------

Starts = Annotated[
    int | None, typer.Option(min=1, help="Starting points; 5 with hidden states, else 1.")
]
Jobs = Annotated[int | None, typer.Option(min=1, help="Processes; this one if not given.")]

# ---- what is kept ------------------------------------------------------------------------------

Out = Annotated[Path, typer.Option(help="Where to save the fit.")]
Replicates = Annotated[
    int, typer.Option(min=0, help="Replicates of a bootstrap over agents; 0 for none.")
]
Chunk = Annotated[int | None, typer.Option(min=1, help="Replicates finished and kept together.")]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Keep what is finished in this folder, also afterwards; else in NAME.checkpoint "
        "beside the fit until it is saved.",
    ),
]
Resume = Annotated[
    bool | None,
    typer.Option(
        "--resume/--no-resume",
        help="Insist on going on from a checkpoint, or on beginning anew; else goes on if it can.",
    ),
]
