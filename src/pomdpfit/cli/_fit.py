"""`pomdpfit fit`: from a model and a CSV file to an estimate, saved and printed."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pomdpfit._errors import EstimationError
from pomdpfit.cli._common import Code, Interrupted, prepare, print_json, require_folder, say
from pomdpfit.cli._fit_options import (
    Checkpoint,
    Chunk,
    Constraint,
    Estimator,
    Fix,
    Free,
    Jobs,
    Out,
    Replicates,
    Resume,
    Starts,
)
from pomdpfit.cli._options import (
    Action,
    Actions,
    Agent,
    Covariate,
    DataArgument,
    Debug,
    Delimiter,
    Encoding,
    Freq,
    GridText,
    Group,
    Json,
    Missing,
    ModelArgument,
    Observation,
    Observations,
    PriorText,
    Repair,
    Seed,
    Time,
)

if TYPE_CHECKING:
    from pomdpfit._estimate import Estimate
    from pomdpfit.cli._work import Work
    from pomdpfit.inference._bootstrap_draws import Bootstrap


def fit(
    model: ModelArgument,
    data: DataArgument = None,
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
    estimator: Estimator = None,
    prior: PriorText = None,
    fix: Fix = None,
    free: Free = None,
    constraint: Constraint = None,
    starts: Starts = None,
    seed: Seed = 0,
    grid: GridText = None,
    jobs: Jobs = None,
    out: Out = Path("fit.zip"),
    bootstrap: Replicates = 0,
    chunk: Chunk = None,
    checkpoint: Checkpoint = None,
    resume: Resume = None,
    json: Json = False,
    debug: Debug = False,
) -> Code | None:
    """Estimate a model from a panel, print the summary, and save the fit.

    A bootstrap is saved beside it as NAME.bootstrap.json. A command that was interrupted goes on
    where it was when it is given again.
    """
    require_folder(out)
    if bootstrap == 1:
        raise EstimationError("a bootstrap needs at least 2 replicates, not 1.")
    from pomdpfit.cli._choices import chosen, with_held, with_prior
    from pomdpfit.cli._data import Columns, Means, read_data
    from pomdpfit.cli._kept import Kept
    from pomdpfit.cli._models import read_model
    from pomdpfit.cli._work import Work

    prepare()
    names = (agent, time, observation, action, observations, actions, freq, group)
    columns = Columns(*names, covariates=tuple(covariate or ()))
    file = Means(tuple(repair or ()), tuple(missing or ()), delimiter, encoding)
    spec = with_held(with_prior(read_model(model), prior), fix or (), free or (), constraint or ())
    panel = read_data(data, columns, spec.model, file)
    kept = Kept.beside(out, checkpoint)
    kept.obey(resume)
    means = chosen(estimator=estimator, grid=grid)
    work = Work(spec, panel, **means, starts=starts, seed=seed, jobs=jobs, kept=kept, out=out)
    return _carried_out(work, bootstrap, chunk, json)


def _carried_out(work: "Work", replicates: int, chunk: int | None, json: bool) -> Code | None:
    """The fit and its bootstrap, told as they come."""
    before = _mark(work.out)
    try:
        estimate = work.estimate()
        if not json:
            typer.echo(f"{estimate.summary()}\nsaved: {work.out}")
        found = None
        if replicates and estimate.converged:
            found = work.bootstrap(estimate, replicates, chunk)
        elif replicates:
            say("[yellow]warning:[/yellow] no bootstrap: the fit did not converge.")
        _tell(estimate, found, work, json)
    except KeyboardInterrupt:  # which may come before the fit is saved, and after
        saved = "" if _mark(work.out) == before else f"the fit is in {work.out}, and "
        raise Interrupted(f"{saved}{work.kept.left_behind()}") from None
    work.kept.discard()
    return None if estimate.converged else Code.NOT_CONVERGED


def _mark(path: Path) -> tuple[int, int] | None:
    """By which a file is known from the one that takes its place."""
    return (path.stat().st_ino, path.stat().st_mtime_ns) if path.exists() else None


def _tell(estimate: "Estimate", found: "Bootstrap | None", work: "Work", json: bool) -> None:
    """What came out, for machines or for people."""
    from pomdpfit.cli._documents import bootstrap_document, estimate_document

    if json:
        document = {**estimate_document(estimate), "saved": work.out}
        if found is not None:
            document["bootstrap"] = {**bootstrap_document(found), "saved": work.draws}
        print_json(document)
        return
    if found is not None:
        typer.echo(f"\n{found.summary()}")
        typer.echo(f"saved: {work.draws}")
    if not estimate.converged:
        say(f"[yellow]not converged:[/yellow] {estimate.reason} (saved all the same)")
