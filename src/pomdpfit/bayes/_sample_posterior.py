"""sample_posterior(): draws from the posterior of a panel by the no-U-turn sampler."""

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jax.flatten_util import ravel_pytree

from pomdpfit._errors import ConvergenceWarning, EstimationError
from pomdpfit._estimate import Estimate
from pomdpfit._fixed import refuse_fixed_and_free, refuse_other_start
from pomdpfit._model import Model, require_model
from pomdpfit._panel import Panel
from pomdpfit._params import ParameterSpace
from pomdpfit._priors import AbstractPrior
from pomdpfit._progress import Progress, callback, long_running, silent
from pomdpfit._schemes import AbstractScheme
from pomdpfit._setting import Setting
from pomdpfit._stage import Data
from pomdpfit._types import Array, ArrayLike, Theta
from pomdpfit.bayes._held import Held, hold
from pomdpfit.bayes._log_density import data_of, density_of_data
from pomdpfit.bayes._numpyro_model import numpyro_model
from pomdpfit.bayes._nuts import Steps, Unconstrained, make_chains
from pomdpfit.bayes._parameter_priors import (
    check_given,
    checked_priors,
    has_scale,
    plain_kind,
    require_numpyro,
)
from pomdpfit.bayes._posterior import Posterior
from pomdpfit.estimators._fit import fit
from pomdpfit.estimators._starts import off_the_bounds
from pomdpfit.inference._information import known_variances
from pomdpfit.solvers import AbstractSolver

_NEAR = 0.1  # of a coordinate's size (or of one): how far starts are from a theta that is given
_WIDENED = 2.0  # standard deviations of the normal approximation from which other starts are drawn
_CLOSE = 10.0  # log-likelihood below the highest maximum: beyond it others have no mass to speak of


@long_running
def sample_posterior(
    model: Model,
    panel: Panel,
    *,
    prior: AbstractPrior | None = None,
    priors: Mapping[str, Any] | None = None,
    draws: int = 1000,
    warmup: int = 300,
    chains: int = 4,
    seed: int = 0,
    start: Estimate | Theta | None = None,
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
    start        an estimate of the same model (the result of `pf.fit`): chains start spread around
                 its maxima, with its covariance, and default priors have its scales. Or a theta,
                 near which every chain starts (missing leaves are those of the model's example).
                 Without an estimate the model is fitted first, unless a theta and all priors that
                 need a scale are given
    fixed, free  as in `pf.fit`: whole parameters, or entries such as "cost[good]"
    warmup       steps of adaptation before the draws of a chain, not kept; give more without an
                 estimate to start from
    accept       what share of proposals the warm-up aims to accept; higher means smaller steps
    progress     hears (what, done, of how many): `with pf.progress_bar() as bar`

    Warnings name divergent transitions, chains that have not mixed (R-hat above 1.05), and entries
    for which prior and likelihood pull apart or the data say next to nothing: see
    `Posterior.doubts`.
    """
    require_numpyro()
    require_model(model)
    _require_counts(draws=(draws, 1), warmup=(warmup, 1), chains=(chains, 1), seed=(seed, 0))
    if not 0 < accept < 1:
        raise EstimationError(f"accept must lie between 0 and 1, but it is {accept!r}.")
    if not isinstance(start, Estimate | Mapping | None):
        raise EstimationError(f"start must be an estimate or a theta, not {start!r:.80}.")
    setting = Setting(model, panel, prior, grid, solver)
    refuse_fixed_and_free(fixed or {}, free)
    space, held = hold(setting.likelihood().space.free(*free), fixed or {})
    if not isinstance(start, Estimate):
        refuse_other_start(space, start or {}, fixed or ())
    likelihood: Any = setting.likelihood(space)
    density_of_data(likelihood)  # which refuses models that have none
    tell = callback(progress)
    given = check_given(space, {} if priors is None else priors)
    unscaled = [n for n in space.free_leaves if n not in given and has_scale(space.parameters[n])]
    estimate, theta = (start, None) if isinstance(start, Estimate) else (None, start)
    if estimate is None and (theta is None or unscaled):
        starts = None if theta is None else 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the notes say so
            estimate = fit(
                model, panel, prior=prior, grid=grid, solver=solver, fixed=fixed, free=free,
                start=theta, starts=starts, seed=seed, progress=tell,
            )  # fmt: skip
    chosen = checked_priors(space, given, estimate, held.entries)
    sampler = Sampler(likelihood, chosen, warmup, draws, accept, held)
    around, where = _around(theta, estimate)
    result = sampler(sampler.data, around, chains, seed, tell, _covariance(estimate))
    defaults = tuple(name for name in space.free_leaves if name not in given)
    notes = (*_notes_on_defaults(space, defaults), where)
    result = dataclasses.replace(result, default_priors=defaults, notes=notes)
    for doubt in result.doubts:
        warnings.warn(doubt, ConvergenceWarning, stacklevel=3)  # past long_running
    return result


def _around(theta: Theta | None, estimate: Estimate | None) -> tuple[list[Theta], str]:
    """Around which points chains start, in turn, and what that may miss."""
    if estimate is None or theta is not None:
        return [theta or {}], "chains started near start=; modes far from it may be missing."
    if not estimate.converged:
        return [{}], (
            f"chains started near the model's example, for the fit did not converge "
            f"({estimate.reason}); modes far from it may be missing."
        )
    found: list[Theta] = [estimate.theta]
    others = estimate.modes.iloc[1:]
    others = others[others["converged"].astype(bool)]
    close = others[others["llf"] > estimate.modes["llf"].max() - _CLOSE]
    found += [estimate.space.from_series(row) for _, row in close.iterrows()]
    points = f"the estimate and {len(close)} other maxima within {_CLOSE:g} of it, in turn"
    where = f"chains started around {points if len(close) else 'the estimate'}"
    if len(others) > len(close):
        where += f"; {len(others) - len(close)} other maxima, further below it, were left out"
    where += f". Modes that its {len(estimate.starts)} starts did not find may be missing."
    return [off_the_bounds(estimate.space, theta) for theta in found], where


def _covariance(estimate: Estimate | None) -> pd.DataFrame | None:
    """Of all entries, derived ones included; not a number where there is none."""
    if estimate is None or not estimate.converged:
        return None
    J, entries = estimate.information.jacobian, estimate.information.entries
    cov, unknown = known_variances(J, estimate.cov_params(plain_kind(estimate)).to_numpy())
    every = J @ cov @ J.T
    every[unknown], every[:, unknown] = np.nan, np.nan
    return pd.DataFrame(every, entries, entries)


def _notes_on_defaults(space: ParameterSpace, names: Sequence[str]) -> list[str]:
    scaled = [name for name in names if has_scale(space.parameters[name])]
    uniform = [name for name in names if name not in scaled]
    notes = []
    if scaled:
        notes.append(
            f"priors by default, not given: {', '.join(scaled)}, centred at zero and ten times "
            "sqrt(estimate^2 + standard error^2) wide."
        )
    if uniform:
        notes.append(f"priors by default, not given: {', '.join(uniform)}, uniform.")
    return notes


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
        self.priors = checked_priors(
            self.space, {} if priors is None else priors, fixed_entries=self.held.entries
        )
        self._run = make_chains(model, warmup, draws, accept)

    def __call__(
        self,
        data: Data,
        around: Sequence[Theta],
        chains: int,
        seed: int,
        tell: Progress = silent,
        covariance: pd.DataFrame | None = None,
    ) -> Posterior:
        """Draws of every chain, constrained again."""
        first, keys = jax.random.split(jax.random.key(seed))
        points = [self._unconstrained(theta) for theta in around]
        spread, mass = self._covariances(points[0], covariance)
        starts = self._starts(points, spread, first, chains)
        steps = self._run(jax.random.split(keys, chains), starts, mass, data, tell)
        if not np.isfinite(steps.potential).all():
            raise EstimationError(
                "a chain has not left a start at which the posterior density is zero: give a "
                "start=... that explains the data, such as an estimate."
            )
        drawn = self.held.put_in({name: self._bijection(name)(z) for name, z in steps.z.items()})
        values = {name: np.asarray(value) for name, value in drawn.items()}
        return Posterior(values, _stats(steps), self.space, seed, self.held.entries, self.priors)

    def _bijection(self, name: str) -> Any:
        from numpyro.distributions import biject_to

        return biject_to(self.priors[name].support)

    def _unconstrained(self, theta: Theta) -> Unconstrained:
        """A point on the real line, or an error if it lies on the edge of its prior."""
        checked = self.space.check({**self.space.example(), **theta})
        found = {}
        for name in self.priors:
            value, (low, high) = checked[name], self.space.parameters[name].constraint.bounds()
            value = self._loosed(name, value)
            inside = jnp.all(self.priors[name].support(value))
            if not (inside & jnp.all((value > low) & (value < high))):
                raise EstimationError(
                    f"chains cannot start at {name} = {np.asarray(value)}: it lies on the "
                    "edge of what its prior allows, or beyond. Give start= a value inside."
                )
            found[name] = self._bijection(name).inv(value)
        return found

    def _covariances(
        self, point: Unconstrained, covariance: pd.DataFrame | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Square root of the covariance of starts, and the first inverse mass matrix.

        On the real line, in the order of NumPyro's mass matrix, which is that of `ravel_pytree`.
        Where a covariance is known both follow from it by the delta method.
        """
        z = ravel_pytree(point)[0]
        spread, mass = np.diag(_NEAR * np.maximum(1.0, np.abs(z))), np.eye(len(z))
        if covariance is None:
            return spread, mass
        theta = {name: self._bijection(name)(value) for name, value in point.items()}
        base = {**self.space.example(), **theta}

        def on_the_line(free: Array) -> Array:
            moved = self.space.from_vector(free, base)
            return ravel_pytree({n: self._bijection(n).inv(moved[n]) for n in point})[0]

        names = self.space.free_names
        cov = covariance.reindex(index=names, columns=names).to_numpy(copy=True)
        unknown = ~(np.diag(cov) > 0)
        cov[unknown], cov[:, unknown] = 0.0, 0.0
        J = np.asarray(jax.jacfwd(on_the_line)(self.space.to_vector(base)))
        known = np.flatnonzero(~(J[:, unknown] != 0).any(axis=1))
        block = np.ix_(known, known)
        try:
            root = np.linalg.cholesky((J @ cov @ J.T)[block])
        except np.linalg.LinAlgError:  # not the covariance of a maximum
            return spread, mass
        mass[block], spread[block] = root @ root.T, _WIDENED * root
        return spread, mass

    def _starts(
        self, points: Sequence[Unconstrained], spread: np.ndarray, key: Array, chains: int
    ) -> Unconstrained:
        """Normal draws around the points, in turn."""
        vectors, unravel = [ravel_pytree(point)[0] for point in points], ravel_pytree(points[0])[1]
        noise = jax.random.normal(key, (chains, len(spread))) @ spread.T
        centres = jnp.stack([vectors[c % len(vectors)] for c in range(chains)])
        return jax.vmap(unravel)(centres + noise)

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
