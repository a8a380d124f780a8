"""How a search has ended: by its gradient, and by the eigenvalues of the Hessian."""

from collections.abc import Sequence

import numpy as np

from pomdpfit._errors import Result
from pomdpfit.estimators._walk import Climb
from pomdpfit.inference._information import Information

_FLAT = 1e-10  # eigenvalue of the information in units of its diagonal
_SHOWN = 0.005  # of a direction: less would be printed as zero
_SADDLE = -1e-6  # beyond what differences of gradients could be wrong by


def verdict(climbs: Sequence[Climb], information: Information) -> tuple[Result, str]:
    """The result of the climbs that count, and a sentence on it."""
    finite = bool(np.isfinite(information.scores).all())
    for number, climb in enumerate(climbs, 1):
        if climb.converged:
            continue
        stage = f"stage {number}: " if len(climbs) > 1 else ""
        stopped = (
            f"{stage}stopped after {climb.steps} steps with a promised gain of "
            f"{climb.gain:.2g}. {_advice(climb.result)}"
        )
        result, reason = _at_the_end(information) if finite else (climb.result, "")
        if result is not Result.FLAT:
            return climb.result, stopped
        if climb.result is Result.STALLED:  # no step raises it: flat directions may be the reason
            return result, f"{reason} The search {stopped}"
        return climb.result, f"{stopped} Also {reason}"
    if len(information.names) == 0 and not information.not_identified:
        return Result.CONVERGED, "every parameter is on its boundary."
    if not finite:
        return Result.NOT_FINITE, "scores are not finite. " + Result.NOT_FINITE.advice()
    result, reason = _at_the_end(information)
    if result is Result.CONVERGED:
        reason = f"promised gain {climbs[-1].gain:.1e}; {reason}"
    return result, reason


def _at_the_end(information: Information) -> tuple[Result, str]:
    """What second derivatives and scores say of a point where the gradient vanishes."""
    result, where = Result.CONVERGED, ""
    if information.hessian is not None or information.not_identified:
        result, where = curvature(information)
    if result is Result.FLAT:
        if information.ridge is not None:
            where += (
                " The estimate lies on bounds, but their multipliers are near zero: they do not "
                "identify it."
            )
        return result, f"not identified: the log-likelihood is flat {where} {result.advice()}"
    if result is not Result.CONVERGED:
        return result, f"{where} {result.advice()}"
    if information.hessian is None:
        return result, "no Hessian was asked for."
    return result, "the Hessian is definite."


def _advice(result: Result) -> str:
    if result is Result.MAX_STEPS:  # of a climb, not of a solver
        return "Let the climb take more (optimiser=pf.BHHH(max_steps=...)), or give a better start."
    return result.advice()


def curvature(information: Information) -> tuple[Result, str]:
    """Whether the Hessian is that of a maximum, and along which entries it is not."""
    if not np.isfinite(information.bread).all():
        return Result.NOT_FINITE, "the Hessian is not finite."
    names, null = information.flat_directions
    if null.shape[1] > 1:
        return Result.FLAT, f"along {null.shape[1]} directions that move {_some(information.flat)}."
    if null.shape[1]:
        result, first = Result.FLAT, null[:, 0]
    elif len(names) == 0:
        return Result.CONVERGED, ""
    else:
        values, vectors = information.eigenvalues()
        result, first = Result.CONVERGED, vectors[:, 0]
        if values[0] < _FLAT:
            result = Result.FLAT if values[0] >= _SADDLE else Result.NOT_A_MAXIMUM
    largest = [k for k in np.argsort(-np.abs(first))[:3] if abs(first[k]) >= _SHOWN]
    where = ", ".join(f"{first[k]:+.2f} {names[k]}" for k in largest)
    return result, "" if result is Result.CONVERGED else f"along {where} (scaled)."


def _some(names: Sequence[str], most: int = 4) -> str:
    """The first few of some names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
