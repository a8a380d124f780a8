"""The long part of a fit: what is finished is kept, and a stop says how to go on."""

import dataclasses
import warnings
from pathlib import Path

from pomdpfit._checkpoint import CheckpointError
from pomdpfit._errors import (
    ConvergenceWarning,
    EstimationError,
    ImpossibleObservationError,
    ModelError,
    PanelError,
    SolveError,
)
from pomdpfit._estimate import Estimate
from pomdpfit._panel import Panel
from pomdpfit._schemes import AbstractScheme
from pomdpfit.cli._common import Interrupted
from pomdpfit.cli._kept import Kept
from pomdpfit.estimators import fit
from pomdpfit.estimators._base import AbstractEstimator
from pomdpfit.inference._bootstrap import bootstrap
from pomdpfit.inference._bootstrap_draws import Bootstrap
from pomdpfit.model_files import Specification

# Errors of the model and the data, which the same command would meet again. A disk that is full or
# a worker that died is not among them: what was kept is gone on from.
_UNFIT = (EstimationError, ImpossibleObservationError, ModelError, PanelError, SolveError)


@dataclasses.dataclass(frozen=True)
class Work:
    """What is to be fitted to what, how, and where it is kept."""

    spec: Specification
    panel: Panel
    estimator: AbstractEstimator | None
    grid: AbstractScheme | None
    starts: int | None
    seed: int
    jobs: int | None
    kept: Kept
    out: Path

    @property
    def draws(self) -> Path:
        """Where the bootstrap is saved."""
        return self.out.with_suffix(".bootstrap.json")

    def estimate(self) -> Estimate:
        """The estimate, saved; climbs that the checkpoint holds are not climbed again."""
        try:
            found = self._fitted()
        except CheckpointError as error:
            raise EstimationError(f"{error} --no-resume deletes it and begins anew.") from error
        except _UNFIT:
            self.kept.discard()  # what cannot be fitted cannot be gone on with
            raise
        except KeyboardInterrupt:
            raise Interrupted(self.kept.left_behind()) from None
        found.save(self.out)
        return found

    def bootstrap(self, estimate: Estimate, replicates: int, chunk: int | None) -> Bootstrap:
        """The bootstrap, saved; finished chunks are kept in the checkpoint."""
        found = bootstrap(
            estimate,
            replicates,
            seed=self.seed,
            n_jobs=self.jobs,
            checkpoint=self.kept.chunks,
            chunk=chunk,
        )
        found.save(self.draws)
        return found

    def _fitted(self) -> Estimate:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the summary has its doubts
            return fit(
                self.spec.model,
                self.panel,
                self.estimator,
                **self.spec.fit_options(),
                starts=self.starts,
                grid=self.grid,
                seed=self.seed,
                n_jobs=self.jobs,
                checkpoint=self.kept.search,
            )
