"""After a fit: the directions in which the likelihood is flattest, in the parameters' own names."""

import dataclasses

import numpy as np
import pandas as pd

from pomdpfit._errors import EstimationError
from pomdpfit._estimate import Estimate
from pomdpfit.identification.rank._local_rank import in_words
from pomdpfit.inference._few_agents import spanned
from pomdpfit.inference._information import WEAK


@dataclasses.dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenvalues of the information at an estimate and the directions that go with them.

    Each parameter is in units of its standard error with the others known, so that an eigenvalue of
    1 means that the others do not matter, and one near 0 that a combination of parameters is hardly
    told. `directions` (one row each, the flattest first) are back in natural units, scaled to a
    fall of 1/2 in log-likelihood: one standard error along them.
    """

    eigenvalues: pd.Series
    directions: pd.DataFrame
    shares: pd.DataFrame  # of each parameter in each direction, in the units above
    estimate: pd.Series

    @property
    def condition(self) -> float:
        """The largest eigenvalue over the smallest."""
        return float(self.eigenvalues.iloc[-1] / self.eigenvalues.iloc[0])

    @property
    def warnings(self) -> tuple[str, ...]:
        """Directions that are told a hundred times less well than the best one, or not at all."""
        best = float(self.eigenvalues.iloc[-1])
        found = []
        for k, value in enumerate(self.eigenvalues):
            if value >= WEAK * best:
                continue
            told = "is not told at all"
            if value > 0:
                told = f"is told {np.sqrt(best / value):.1g} times less well than the best one"
            found.append(f"direction {k + 1} {told}: {self._in_words(k)}.")
        return tuple(found)

    def summary(self) -> str:
        """Eigenvalues with the combinations of parameters that they belong to."""
        lines = [
            "Information at the estimate, flattest direction first (a move of one standard error)"
        ]
        lines += [
            f"{k + 1:>3}  {value:10.3g}  {self._in_words(k)}"
            for k, value in enumerate(self.eigenvalues)
        ]
        lines += [f"! {warning}" for warning in self.warnings]
        return "\n".join(lines)

    def _in_words(self, k: int) -> str:
        return in_words(self.directions.iloc[k], self.shares.iloc[k], least=0.2)

    def __str__(self) -> str:
        return self.summary()


def weak_directions(estimate: Estimate) -> Spectrum:
    """The spectrum of the information matrix behind `estimate.bse`, named."""
    information = estimate.information
    if len(information.names) == 0:
        raise EstimationError("nothing is free at this estimate: all of it lies on the boundary.")
    if information.hessian is None and not spanned(estimate):
        raise EstimationError(
            "the fit skipped the Hessian, and the outer products of the scores of no more agents "
            "than parameters are singular whatever the data: fit again without skip_hessian=True."
        )
    A = information.bread
    if information.first is not None:  # each stage by itself
        A = np.where(information.first[:, None] == information.first[None, :], A, 0.0)
    if not np.isfinite(A).all():
        raise EstimationError("the information at this estimate is not finite: see est.doubts.")
    values, vectors = information.eigenvalues()
    unit = 1.0 / np.sqrt(np.maximum(np.abs(np.diag(A)), 1e-300))
    fall = 1.0 / np.sqrt(np.where(values > 0, values, 1.0))
    directions = (unit[:, None] * vectors * fall).T
    directions *= np.sign(directions[np.arange(len(values)), np.abs(vectors).argmax(axis=0)])[
        :, None
    ]
    index = pd.RangeIndex(1, len(values) + 1, name="direction")
    return Spectrum(
        pd.Series(values, index, name="eigenvalue"),
        pd.DataFrame(directions, index, list(information.names)),
        pd.DataFrame(np.abs(vectors.T), index, list(information.names)),
        estimate.params,
    )
