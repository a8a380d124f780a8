"""sample_posterior(): draws from the posterior of a panel by the no-U-turn sampler."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pomdpfit._errors import ConvergenceWarning, EstimationError
from pomdpfit._fixed import refuse_fixed_and_free, refuse_other_start
from pomdpfit._model import Model
from pomdpfit._panel import Panel
from pomdpfit._priors import AbstractPrior
from pomdpfit._progress import Progress, callback, long_running, silent
from pomdpfit._schemes import AbstractScheme
from pomdpfit._setting import Setting
from pomdpfit._stage import Data
from pomdpfit._types import Array, ArrayLike, Theta
from pomdpfit.bayes._held import Held, hold
from pomdpfit.bayes._log_density import data_of
from pomdpfit.bayes._numpyro_model import numpyro_model
from pomdpfit.bayes._nuts import Steps, Unconstrained, make_chains
from pomdpfit.bayes._parameter_priors import checked_priors, require_numpyro
from pomdpfit.bayes._posterior import Posterior
from pomdpfit.solvers import AbstractSolver

_APART = 0.1  # of a coordinate's size (or of one): how far chains start from one another
_MIXED = 1.05  # R-hat


@long_running
def sample_posterior(
    model: Model,
    panel: Panel,
    *,
    prior: AbstractPrior | None = None,
    priors: Mapping[str, Any] | None = None,
    draws: int = 1000,
    warmup: int = 1000,
    chains: int = 4,
    seed: int = 0,
    start: Theta | None = None,
    fixed: Mapping[str, ArrayLike | float] | None = None,
    free: Sequence[str] = (),
    grid: AbstractScheme | None = None,
    solver: AbstractSolver | None = None,
    accept: float = 0.8,
    progress: Progress | bool | None = None,
) -> Posterior:
    """Draw theta from p(theta | panel), proportional to prior times likelihood (extra `bayes`).

    prior        the belief that agents start with, as in `pf.fit`
    priors       NumPyro distributions by parameter; see `pf.bayes.default_priors` for the rest
    start        near which every chain starts: an estimate, say; missing leaves, or all, are those
                 of the model's example
    fixed, free  as in `pf.fit`: whole parameters, or entries such as "cost[good]"
    accept       what share of proposals the warm-up aims to accept; higher means smaller steps
    progress     hears (what, done, of how many): `with pf.progress_bar() as bar`

    Divergent transitions and chains that have not mixed (R-hat above 1.05) are warned of.
    """
    require_numpyro()
    _require_counts(draws=(draws, 1), warmup=(warmup, 1), chains=(chains, 1), seed=(seed, 0))
    if not 0 < accept < 1:
        raise EstimationError(f"accept must lie between 0 and 1, but it is {accept!r}.")
    setting = Setting(model, panel, prior, grid, solver)
    refuse_fixed_and_free(fixed or {}, free)
    space, held = hold(setting.likelihood().space.free(*free), fixed or {})
    sampler = Sampler(setting.likelihood(space), priors, warmup, draws, accept, held)
    refuse_other_start(space, start or {}, fixed or ())
    tell = callback(progress)
    result = sampler(sampler.data, start or {}, chains, seed, tell)
    for doubt in find_doubts(result):
        warnings.warn(doubt, ConvergenceWarning, stacklevel=3)  # past long_running
    return result


class Sampler:
    """Chains on the posterior of a panel, or of others of the same shape: compiled once."""

    def __init__(
        self,
        likelihood: Any,
        priors: Mapping[str, Any] | None,
        warmup: int,
        draws: int,
        accept: float = 0.8,
        held: Held | None = None,
    ) -> None:
        self.held = Held() if held is None else held
        model = numpyro_model(likelihood, priors, self.held)
        self.space, self.data = likelihood.space, data_of(likelihood)
        self.priors = checked_priors(self.space, {} if priors is None else priors)
        self._run = make_chains(model, warmup, draws, accept)

    def __call__(
        self, data: Data, start: Theta, chains: int, seed: int, tell: Progress = silent
    ) -> Posterior:
        """Draws of every chain, constrained again."""
        first, keys = jax.random.split(jax.random.key(seed))
        starts = self._starts(start, first, chains)
        steps = self._run(jax.random.split(keys, chains), starts, data, tell)
        if not np.isfinite(steps.potential).all():
            raise EstimationError(
                "a chain has not left a start at which the posterior density is zero: give a "
                "start=... that explains the data, such as an estimate's theta."
            )
        drawn = self.held.put_in({name: self._bijection(name)(z) for name, z in steps.z.items()})
        values = {name: np.asarray(value) for name, value in drawn.items()}
        return Posterior(values, _stats(steps), self.space, seed, self.held.entries)

    def _bijection(self, name: str) -> Any:
        from numpyro.distributions import biject_to

        return biject_to(self.priors[name].support)

    def _starts(self, start: Theta, key: Array, chains: int) -> Unconstrained:
        """On the real line, a little apart."""
        theta = self.space.check({**self.space.example(), **start})
        starts = {}
        for name, each in zip(self.priors, jax.random.split(key, len(self.priors)), strict=True):
            value, (low, high) = theta[name], self.space.parameters[name].constraint.bounds()
            value = self._loosed(name, value)
            inside = jnp.all(self.priors[name].support(value))
            if not (inside & jnp.all((value > low) & (value < high))):
                raise EstimationError(
                    f"chains cannot start at {name} = {np.asarray(value)}: it lies on the "
                    "edge of what its prior allows, or beyond. Give start= a value inside."
                )
            z = self._bijection(name).inv(value)
            noise = jax.random.normal(each, (chains, *z.shape))
            starts[name] = z + _APART * jnp.maximum(1.0, jnp.abs(z)) * noise
        return starts

    def _loosed(self, name: str, value: Array) -> Array:
        """Entries that are held move by their prior alone, and start in the midst of it."""
        if name not in self.held.parts:
            return value
        midst = self._bijection(name)(jnp.zeros_like(self._bijection(name).inv(value)))
        return jnp.where(self.held.parts[name][0], midst, value)


def _require_counts(**counts: tuple[Any, int]) -> None:
    for name, (value, least) in counts.items():
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not whole or value < least:
            raise EstimationError(
                f"{name} must be a whole number of at least {least}, not {value!r}."
            )


def _stats(steps: Steps) -> dict[str, np.ndarray]:
    """In ArviZ's words."""
    return {
        "lp": -np.asarray(steps.potential),
        "energy": np.asarray(steps.energy),
        "acceptance_rate": np.asarray(steps.accept),
        "n_steps": np.asarray(steps.leaps),
        "diverging": np.asarray(steps.diverging),
    }


def find_doubts(result: Posterior) -> list[str]:
    """Divergent transitions, and chains that tell different stories."""
    doubts = []
    divergent = int(result.diverging.sum())
    if divergent:
        doubts.append(
            f"{divergent} draws ended in a divergent transition: raise accept, or look for a "
            "boundary or a direction that the data do not identify."
        )
    r_hat = result.summary()["r_hat"].dropna()
    if not r_hat.empty and r_hat.max() > _MIXED:
        doubts.append(
            f"the chains have not mixed: R-hat of {r_hat.idxmax()} is {r_hat.max():.3g}. Draw "
            "more, give start=..., or suspect several modes (hidden states that swapped names)."
        )
    return doubts
