"""`pomdpfit init`: a small study to start from."""

import contextlib
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from pomdpfit.cli._common import Usage, prepare, print_json
from pomdpfit.cli._options import Debug, Json

_MODEL = '''\
"""A pump, whose bearing nobody sees: change the states, the kernel and the rewards to your own."""

import jax.numpy as jnp

import pomdpfit as pf

BEARING = ("sound", "damaged")  # the hidden state s
GAUGE = ("quiet", "noisy", "loud")  # what is observed, z
DECISION = ("run", "service")  # what is done, a


class Pump(pf.Model):
    """Each week an operator reads the gauge, and lets the pump run or has it serviced."""

    def parameters(self):
        return {
            "damage": pf.Parameter(1.5),  # cost of a week with a damaged bearing
            "service": pf.Parameter(4.0),  # cost of a service
            "fail": pf.Parameter(0.08, pf.Interval()),  # P(damaged next week | sound)
            "gauge": pf.Parameter(
                [[0.70, 0.20, 0.10], [0.15, 0.35, 0.50]],  # P(z' | s'), a row for each s'
                pf.Simplex(),
                labels=[BEARING, GAUGE],
            ),
            "discount": pf.discount_parameter(0.95),  # fixed unless freed
        }

    def kernel(self, theta):
        """P(z', s' | z, s, a): how the bearing moves, and what is seen next."""
        p = theta["fail"]
        run = jnp.array([[1 - p, p], [0.0, 1.0]])  # T(s' | s): damage stays
        service = jnp.array([[1.0, 0.0], [1.0, 0.0]])  # as good as new
        transition = jnp.stack([run, service], axis=1)  # T[s, a, s']
        seen = jnp.stack([theta["gauge"], theta["gauge"]], axis=1)  # O[s', a, z']
        return pf.factored_kernel(transition, seen)

    def reward(self, theta):
        """r(z, s, a), which does not depend on z here."""
        run = jnp.array([0.0, -1.0]) * theta["damage"]
        service = -theta["service"] * jnp.ones(2)
        return jnp.broadcast_to(jnp.stack([run, service], axis=-1), (3, 2, 2))

    def state_labels(self):
        return BEARING

    def observation_labels(self):
        return GAUGE

    def action_labels(self):
        return DECISION
'''

_STUDY = """\
# A study: the model, its data, and how it is estimated from them. What the command line says
# takes the place of what stands here, as in: pomdpfit fit study.toml --estimator two-stage

model = "model:Pump"            # the class Pump in model.py beside this file, whose code is run
estimator = "joint"             # or "two-stage", "policy-gradient"
grid = "smooth:21"              # nodes between beliefs 0 and 1; few, for speed
starts = 2                      # starting values from which the likelihood is maximised
seed = 0
out = "fit.zip"                 # where the fit is saved

[prior]                         # the belief at an agent's first row
kind = "known"
belief = [1.0, 0.0]             # bearings are sound; or prior = "common", which is estimated

[data]
file = "panel.csv"              # one row for each agent and period
agent = "pump"                  # which column is which
time = "week"
observation = "gauge"           # holds the words of the model's observation_labels()
action = "decision"
# repair = ["split-at-gaps"]    # what is to be done about gaps and missing values, if anything
# missing = ["NA"]              # text that stands for no value
"""

_AGENTS, _PERIODS, _SEED = 80, 52, 0


def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to; made if need be.")],
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Write a small study to start from: model.py, study.toml and panel.csv, and what to run next.

    The panel is simulated from the model. No file is overwritten.
    """
    paths = {name: folder / name for name in ("model.py", "study.toml", "panel.csv")}
    there = [str(path) for path in paths.values() if path.exists()]
    if there:
        raise Usage(f"{', '.join(there)}: there already. Name another folder, or move the file.")
    if folder.exists() and not folder.is_dir():
        raise Usage(f"{folder} is a file: name a folder.")
    folder.mkdir(parents=True, exist_ok=True)
    with _removed_on_failure(paths.values()):
        paths["model.py"].write_text(_MODEL, encoding="utf-8")
        paths["study.toml"].write_text(_STUDY, encoding="utf-8")
        rows = _simulate(paths["study.toml"], paths["panel.csv"])
    commands = _commands(folder)
    if json:
        print_json({"files": list(paths.values()), "rows": rows, "commands": commands})
        return
    typer.echo(f"wrote {', '.join(paths)} in {folder} ({rows} rows, simulated). Next:\n")
    typer.echo("\n".join(f"  {command}" for command in commands))


def _simulate(study: Path, out: Path) -> int:
    """Draw the panel from the study itself; how many rows it has."""
    from pomdpfit._panel import Panel
    from pomdpfit._simulate import simulate
    from pomdpfit._write import write_atomically
    from pomdpfit.cli._choices import chosen
    from pomdpfit.cli._models import read_model
    from pomdpfit.cli._study import as_text, study_options

    prepare()
    spec, said = read_model(str(study)), study_options(str(study))
    options: dict[str, Any] = {"agents": _AGENTS, "periods": _PERIODS, "seed": _SEED}
    options |= {"prior": spec.prior, **chosen(grid=said["grid"])}
    frame = cast(Panel, simulate(spec.model, spec.theta, **options)).to_frame()
    write_atomically(out, as_text(frame, spec.model, said))
    return len(frame)


def _commands(folder: Path) -> list[str]:
    """What to run next, in this order."""
    commands = [] if folder.resolve() == Path.cwd() else [f"cd {shlex.quote(str(folder))}"]
    return [
        *commands,
        "pomdpfit check study.toml",
        "pomdpfit fit study.toml",
        "pomdpfit show fit.zip",
        "pomdpfit report fit.zip --model study.toml --out report.html",
        "pomdpfit counterfactual fit.zip --model study.toml --set service=2 --draws 0",
    ]


@contextlib.contextmanager
def _removed_on_failure(paths: Iterable[Path]) -> Iterator[None]:
    """Leave no part of a study behind."""
    try:
        yield
    except BaseException:
        for path in paths:
            path.unlink(missing_ok=True)
        raise
