"""`pomdpfit design`: how many agents and periods for a standard error of ...?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pomdpfit._errors import EstimationError
from pomdpfit.cli._common import (
    Interrupted,
    Usage,
    named_value,
    once_each,
    prepare,
    print_json,
    require_folder,
    require_picture,
)
from pomdpfit.cli._fit_options import Constraint, Estimator, Fix, Free, Jobs, Resume
from pomdpfit.cli._options import (
    Debug,
    GridText,
    Json,
    ModelArgument,
    PriorText,
    Seed,
    ThetaFile,
)

if TYPE_CHECKING:
    from pomdpfit.cli._kept import Kept
    from pomdpfit.studies import StudyDesign


def design(
    model: ModelArgument,
    agents: Annotated[str, typer.Option(metavar="N,N,...", help="Numbers of agents: 100,200.")],
    periods: Annotated[str, typer.Option(metavar="T,T,...", help="Numbers of periods: 10,20.")],
    replications: Annotated[
        int, typer.Option(min=2, help="Panels drawn and estimated for each pair of them.")
    ] = 100,
    theta: ThetaFile = None,
    se: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="How many agents for this standard error of a parameter, for each number of "
            "periods; repeatable.",
        ),
    ] = None,
    estimator: Estimator = None,
    prior: PriorText = None,
    fix: Fix = None,
    free: Free = None,
    constraint: Constraint = None,
    z0: Annotated[int, typer.Option(min=0, help="The first observation of every agent.")] = 0,
    seed: Seed = 0,
    grid: GridText = None,
    jobs: Jobs = None,
    out: Annotated[Path, typer.Option(help="Where to save the study.")] = Path("design.json"),
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw it too: .png, .svg or .pdf.")
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Keep what is finished in this folder, also afterwards, so that a larger study "
            "can go on from it; else in NAME.checkpoint until the study is saved.",
        ),
    ] = None,
    resume: Resume = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Simulate and estimate panels of several sizes: how large must a study be?

    A command that was interrupted goes on where it was when it is given again.
    """
    require_folder(out)
    if plot is not None:
        require_picture(plot)
    sizes = {"agents": _numbers(agents, "--agents"), "periods": _numbers(periods, "--periods")}
    wanted = once_each((named_value(text, "--se") for text in se or ()), "--se")
    from pomdpfit.cli._choices import chosen, with_held, with_prior, with_theta
    from pomdpfit.cli._kept import Kept
    from pomdpfit.cli._models import read_model

    prepare()
    spec = with_theta(with_prior(read_model(model), prior), theta)
    spec = with_held(spec, fix or (), free or (), constraint or ())
    kept = Kept.beside(out, checkpoint)
    kept.obey(resume)
    options: dict[str, Any] = {
        **sizes,
        "replications": replications,
        "prior": spec.prior,
        **chosen(estimator=estimator, grid=grid),
        "fixed": dict(spec.fixed),
        "free": spec.free,
        "constraints": spec.constraints,
        "z0": z0,
        "seed": seed,
        "n_jobs": jobs,
    }
    found = _studied(spec.model, spec.theta, options, kept)
    found.save(out)
    if plot is not None:
        _draw(found, plot)
    _tell(found, wanted, sizes["periods"], out, json)
    kept.discard()


def _studied(model: Any, theta: Any, options: dict[str, Any], kept: "Kept") -> "StudyDesign":
    """The study; what the checkpoint holds is not done again."""
    from pomdpfit._checkpoint import CheckpointError
    from pomdpfit.studies import design as studied

    try:
        return studied(model, theta, **options, checkpoint=kept.design)
    except CheckpointError as error:
        raise EstimationError(f"{error} --no-resume deletes it and begins anew.") from error
    except KeyboardInterrupt:
        raise Interrupted(kept.left_behind()) from None


def _tell(
    found: "StudyDesign", wanted: dict[str, Any], periods: list[int], out: Path, json: bool
) -> None:
    """What came out, for machines or for people."""
    answers = [
        {"parameter": name, "se": value, "periods": T}
        | found.agents_for(name, se=value, periods=T).to_dict()
        for name, value in wanted.items()
        for T in periods
    ]
    if json:
        document = {
            "table": found.table,
            "law": found.law.reset_index(),
            "agents_for": answers,
            "failures": found.failures.reset_index(),
            "replications": len(found.info),
            "failed": len(found.failed),
            "seed": found.seed,
            "saved": out,
        }
        print_json(document)
        return
    typer.echo(str(found))
    for row in answers:
        typer.echo(
            f"{row['parameter']} to within {row['se']:g} over {row['periods']} periods: "
            f"{row['agents']:.0f} agents ({row['lower']:.0f} to {row['upper']:.0f})"
        )
    typer.echo(f"saved: {out}")


def _draw(found: "StudyDesign", path: Path) -> None:
    axes = found.plot()
    axes[0].figure.savefig(path, dpi=150)


def _numbers(text: str, option: str) -> list[int]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) > 0 for word in words):
        raise Usage(f"{option} {text} must list whole numbers of at least 1, such as 100,200.")
    return [int(word) for word in words]
