"""What was fitted to what, and how; and the likelihood that goes with it."""

import dataclasses
from typing import Any

from pomdpfit._errors import EstimationError
from pomdpfit._evaluate import Likelihood
from pomdpfit._log_likelihood import AbstractLikelihood, MovableLikelihood
from pomdpfit._model import require_model
from pomdpfit._panel import Panel
from pomdpfit._params import ParameterSpace
from pomdpfit._priors import AbstractPrior
from pomdpfit._schemes import AbstractScheme
from pomdpfit.baselines import MDP, NFXPLikelihood
from pomdpfit.solvers import AbstractSolver
from pomdpfit.streaming import PanelScan, StreamedLikelihood


@dataclasses.dataclass(frozen=True, eq=False)
class Setting:
    """A model with hidden states (or a fully observed one), a panel, and the means."""

    model: Any
    panel: Panel  # or a PanelScan, which says so where it is asked for rows
    prior: AbstractPrior | None = None
    grid: AbstractScheme | None = None
    solver: AbstractSolver | None = None
    estimator: Any = None

    def likelihood(
        self, space: ParameterSpace | None = None, panel: Panel | None = None
    ) -> AbstractLikelihood:
        """The likelihood of the panel (or of another one) under this model."""
        panel = self.panel if panel is None else panel
        if isinstance(panel, PanelScan):
            return StreamedLikelihood(lambda part: self._in_memory(space, part), panel)
        return self._in_memory(space, panel)

    def _in_memory(self, space: ParameterSpace | None, panel: Panel) -> MovableLikelihood:
        if self.model is None:
            raise EstimationError(
                "this estimate was loaded without its model: hand it over, as in "
                "pf.load(path, model=model)."
            )
        require_model(self.model, fully_observed=True)
        if isinstance(self.model, MDP):
            if self.prior is not None:
                raise EstimationError("a fully observed model takes no prior.")
            return NFXPLikelihood(self.model, panel, space=space)
        return Likelihood(
            self.model,
            panel,
            prior=self.prior,
            grid=self.grid,
            solver=self.solver,
            space=space,
        )
