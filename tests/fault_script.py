"""Long work with a checkpoint, to be killed: python fault_script.py JOB FOLDER OUT CACHE [MOMENT]

JOB is one of JOBS. With a MOMENT such as "replace 3" it kills itself (SIGKILL) the third time that
a file is about to be moved into place; with "fsync 3" before the third flush has reached the disk,
"mkstemp 3" when the third temporary file has not yet been opened: moments that a killer from
outside would rarely meet. The result goes to OUT without the time that the work took, which is the
one thing in it that a second run need not repeat.
"""

import dataclasses
import os
import signal
import sys
import tempfile
from pathlib import Path

import numpy as np

import pomdpfit as pf
from pomdpfit.estimators import _kept_climb
from small_bus import bus_fit, draw_panel
from small_hidden import hidden_fit

_MODULES = {"replace": os, "fsync": os, "mkstemp": tempfile}


def die_at(name: str, count: int) -> None:
    """Let the count-th call of a function kill this process."""
    module = _MODULES[name]
    original, calls = getattr(module, name), []

    def fatal(*args, **options):
        calls.append(args)
        if len(calls) == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*args, **options)

    setattr(module, name, fatal)


def _bootstrap(folder: Path, out: Path) -> None:
    est = bus_fit(draw_panel(0, agents=40), skip_hessian=True)
    pf.bootstrap(est, 24, seed=11, chunk=3, checkpoint=folder).save(out)


def _fit(folder: Path, out: Path) -> None:
    _saved(bus_fit(draw_panel(0, agents=40), starts=4, seed=5, checkpoint=folder), out)


def _hidden(folder: Path, out: Path) -> None:
    panel = draw_panel(0, agents=40)
    _saved(hidden_fit(panel, batch=1, skip_hessian=True, checkpoint=folder), out)


def _saved(estimate: pf.Estimate, out: Path) -> None:
    dataclasses.replace(estimate, seconds=0.0).save(out)


JOBS = {"bootstrap": _bootstrap, "fit": _fit, "hidden": _hidden}


def main(job: str, folder: str, out: str, cache: str, moment: str = "") -> None:
    pf.cache_compilations(cache)
    _kept_climb._INTERVAL, _kept_climb._SHARE = 0.0, np.inf  # every answer is written at once
    if moment:
        name, count = moment.split()
        die_at(name, int(count))
    JOBS[job](Path(folder), Path(out))


if __name__ == "__main__":
    main(*sys.argv[1:])
