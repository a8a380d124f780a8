"""How a search has ended: by its gradient, and by the eigenvalues of the Hessian."""

from collections.abc import Sequence

import numpy as np

from pomdpfit._errors import Result
from pomdpfit.estimators._walk import Climb
from pomdpfit.inference._information import Information

_FLAT = 1e-10  # eigenvalue of the information in units of its diagonal
_SADDLE = -1e-6  # beyond what differences of gradients could be wrong by


def verdict(climbs: Sequence[Climb], information: Information) -> tuple[Result, str]:
    """The result of the climbs that count, and a sentence on it."""
    for number, climb in enumerate(climbs, 1):
        if not climb.converged:
            stage = f"stage {number}: " if len(climbs) > 1 else ""
            return climb.result, (
                f"{stage}stopped after {climb.steps} steps with a promised gain of "
                f"{climb.gain:.2g}. {_advice(climb.result)}"
            )
    if len(information.names) == 0:
        return Result.CONVERGED, "every parameter is on its boundary."
    if not np.isfinite(information.scores).all():
        return Result.NOT_FINITE, "scores are not finite. " + Result.NOT_FINITE.advice()
    gain = f"promised gain {climbs[-1].gain:.1e}"
    if information.hessian is None:
        return Result.CONVERGED, f"{gain}; no Hessian was asked for."
    result, where = curvature(information)
    if result is Result.CONVERGED:
        return result, f"{gain}; the Hessian is definite."
    return result, f"{where} {result.advice()}"


def _advice(result: Result) -> str:
    if result is Result.MAX_STEPS:  # of a climb, not of a solver
        return "Let the climb take more (optimiser=pf.BHHH(max_steps=...)), or give a better start."
    return result.advice()


def curvature(information: Information) -> tuple[Result, str]:
    """Whether the Hessian is that of a maximum, and along which entries it is not."""
    if not np.isfinite(information.bread).all():
        return Result.NOT_FINITE, "the Hessian is not finite."
    values, vectors = information.eigenvalues()
    first = vectors[:, 0]
    largest = np.argsort(-np.abs(first))[:3]
    where = ", ".join(f"{first[k]:+.2f} {information.names[k]}" for k in largest)
    if values[0] < _SADDLE:
        return Result.NOT_A_MAXIMUM, f"along {where} (scaled)."
    if values[0] < _FLAT:
        return Result.FLAT, f"along {where} (scaled)."
    return Result.CONVERGED, ""
