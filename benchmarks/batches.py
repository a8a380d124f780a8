"""Whole fits from a cold process: starts and replicates one by one, and in batches of eight.

A program for batches has to be compiled before it saves anything, so what counts is how long the
first estimate takes in a fresh process: imports, compilation and `print(est.summary())` included.

python -m benchmarks.batches full|tiny CASE BATCH REPLICATES [FOLDER]
"""

import time

began = time.perf_counter()  # imports are part of what a user waits for

import contextlib  # noqa: E402
import io  # noqa: E402
import json  # noqa: E402
import sys  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402

import pomdpfit as pf  # noqa: E402
from benchmarks.process import ProcessError, run_module  # noqa: E402
from benchmarks.row import Row  # noqa: E402
from benchmarks.size import FULL, Size  # noqa: E402

_CASES = {  # estimator, mileage increments, agents, periods, starts
    "9 parameters, two stages": (pf.TwoStage(), 3, 100, 40, 3),
    "13 parameters, joint": (pf.Joint(), 5, 100, 40, 5),
}
_REPLICATES = 200


def rows(size: Size) -> list[Row]:
    """Seconds in batches of eight over seconds one after the other: the default is the quicker."""
    small, large = _CASES
    if size != FULL:
        return [_row("tiny", small, 0)]
    return [_row("full", small, 0), _row("full", small, _REPLICATES), _row("full", large, 0)]


def _row(scale: str, case: str, replicates: int) -> Row:
    what = f"{case}, fit" + (f" and {replicates} bootstrap replicates" if replicates else "")
    try:
        one, eight = (
            run_module("benchmarks.batches", scale, case, batch, str(replicates))
            for batch in ("1", "8")
        )
    except ProcessError as error:
        return Row(what, None, "times", note=str(error))
    note = (
        f"cold: {one['first']:.0f} s one after the other, {eight['first']:.0f} s in batches; "
        f"compiled: {one['second']:.1f} and {eight['second']:.1f} s"
    )
    ratio = eight["first"] / one["first"]
    return Row(what, ratio, "times", None if replicates else 1.0, at_least=True, note=note)


def estimate(case: str, batch: int | None, replicates: int, *, tiny: bool) -> None:
    """The fit of this case with its summary, and perhaps a bootstrap."""
    estimator, increments, agents, periods, starts = _CASES[case]
    model = pf.models.EngineReplacement(bins=12, increments=increments, discount=0.95)
    even = np.linspace(2.0, 1.0, increments)
    truth = {
        **model.example(),
        "RC": 4.0,
        "cost": np.array([30.0, 200.0]),
        "stay": np.array([0.90, 0.93]),
        "increment": np.array([even[::-1], even]) / even.sum(),
    }
    prior, grid = pf.KnownPrior([0.5, 0.5]), pf.Smooth(5 if tiny else 11)
    size = {"agents": 12, "periods": 10} if tiny else {"agents": agents, "periods": periods}
    panel = pf.simulate(model, truth, **size, seed=0, prior=prior)
    options: dict[str, Any] = {} if batch is None else {"batch": batch}
    est = pf.fit(model, panel, estimator, prior=prior, grid=grid, starts=starts, **options)
    print(est.summary())
    if replicates:
        print(pf.bootstrap(est, replicates, **options).summary())


def main(scale: str, case: str, batch: str, replicates: str, folder: str = "") -> None:
    """Seconds to the first estimate of this process, and to a second one, as JSON."""
    if folder:
        pf.cache_compilations(folder)
    work = (case, int(batch) or None, int(replicates))
    with contextlib.redirect_stdout(io.StringIO()):
        estimate(*work, tiny=scale == "tiny")
        first = time.perf_counter() - began
        estimate(*work, tiny=scale == "tiny")
    second = time.perf_counter() - began - first
    print(json.dumps({"first": first, "second": second}))


if __name__ == "__main__":
    main(*sys.argv[1:])
