"""What the error of an estimate does to anything computed from it.

Draws: theta from the normal law of the estimate, those outside the bounds of a parameter drawn
anew; or the replicates of a bootstrap. Delta method: G V G', with G by central differences. The
same theta serves the baseline and the counterfactual, so that their difference has its own error.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri

from pomdpfit._entries import Entries, free_entries
from pomdpfit._errors import EstimationError, ModelError, PomdpfitError
from pomdpfit._estimate import Estimate
from pomdpfit._progress import Progress, silent
from pomdpfit._types import Float, Theta
from pomdpfit.counterfactuals._baseline import Baseline
from pomdpfit.inference._bootstrap_draws import Bootstrap
from pomdpfit.inference._few_agents import why_missing

Measure = Callable[[Theta], pd.Series]

_STEP = 1e-2  # of a standard error
_LEAST_INSIDE = 0.01  # share of draws between the bounds below which a normal law means nothing


@dataclasses.dataclass(frozen=True)
class Uncertainty:
    """How bands are made: so many draws (0: delta method, None: no bands) with a seed.

    `cov` names the estimate's covariance, or is a bootstrap of it, whose draws are then used.
    `progress` hears of draws as they are done.
    """

    draws: int | None = 200
    seed: int = 0
    cov: Any = None
    alpha: float = 0.05
    progress: Progress = silent

    def tell(self, done: int, total: int) -> None:
        """So many of the draws are done."""
        self.progress("draws for the bands", done, total)

    def __post_init__(self) -> None:
        whole = self.draws is None or isinstance(self.draws, int | np.integer)
        if not whole or (self.draws is not None and (self.draws < 0 or self.draws == 1)):
            raise ModelError(
                "draws must be a whole number of at least 2, 0 for the delta method or None for no "
                f"bands, but it is {self.draws!r}."
            )
        if not isinstance(self.seed, int | np.integer) or self.seed < 0:
            raise ModelError(f"seed must be a whole number of at least 0, not {self.seed!r}.")
        if not 0 < self.alpha < 1:
            raise ModelError(f"alpha must lie between 0 and 1, but it is {self.alpha!r}.")


@dataclasses.dataclass(frozen=True, eq=False)
class Bands:
    """A table of estimates with standard errors and intervals, and how they came about.

    `draws` has a row for each draw; one at which the model could not be solved is a row of NaN,
    counted with its reason in `failed`.
    """

    table: pd.DataFrame
    method: str
    draws: pd.DataFrame | None = None
    failed: tuple[str, ...] = ()
    rejected: int = 0
    notes: tuple[str, ...] = ()


def with_bands(measure: Measure, baseline: Baseline, how: Uncertainty) -> Bands:
    """measure(theta) with standard errors and intervals of level 1 - alpha."""
    here = measure(baseline.theta)
    estimate = baseline.estimate
    if estimate is None or how.draws is None:
        reason = "theta is taken as known" if estimate is None else "none asked for"
        nothing = np.full(len(here), np.nan)
        return Bands(_table(here, nothing, nothing, nothing), f"no bands: {reason}")
    notes = (*estimate.doubts, *estimate.covariance_notes(how.cov))
    if isinstance(how.cov, Bootstrap):
        estimate.cov_params(how.cov)  # refuses a bootstrap of another estimate
        entries, _ = _entries(estimate)
        rows = how.cov.used.to_numpy()
        thetas = [entries.insert(phi, baseline.theta) for phi in rows]
        bands = _from_draws(measure, here, thetas, how)
        return dataclasses.replace(bands, method=f"bootstrap, {len(rows)} draws", notes=notes)
    V = _covariance(estimate, how.cov)
    if how.draws == 0:
        se = _delta(measure, here, baseline, estimate, V)
        half = ndtri(1 - how.alpha / 2) * se
        table = _table(here, se, here.to_numpy() - half, here.to_numpy() + half)
        return Bands(table, "delta method", notes=notes)
    phis, rejected = _normal_draws(estimate, V, how)
    entries, _ = _entries(estimate)
    thetas = [entries.insert(phi, baseline.theta) for phi in phis]
    bands = _from_draws(measure, here, thetas, how)
    method = f"{len(phis)} draws from the estimate's normal law, seed {how.seed}"
    return dataclasses.replace(bands, method=method, rejected=rejected, notes=notes)


def _table(here: pd.Series, se: Any, lower: Any, upper: Any) -> pd.DataFrame:
    columns = {"estimate": here.to_numpy(), "std err": se, "lower": lower, "upper": upper}
    return pd.DataFrame(columns, index=here.index)


def _entries(estimate: Estimate) -> tuple[Entries, Float[np.ndarray, "n"]]:
    entries = free_entries(estimate.space, estimate.space.free_leaves, estimate.theta)
    return entries, entries.flatten(estimate.theta)


def _covariance(estimate: Estimate, kind: Any) -> Float[np.ndarray, "p p"]:
    """That of the free coordinates, or an error where there is none."""
    V = estimate.cov_params(kind).to_numpy()
    if V.size == 0 or not np.isfinite(V).all():
        why = "no parameter was free" if V.size == 0 else _why_none(estimate, kind, V)
        raise EstimationError(
            f"this estimate has no covariance ({why}), so that nothing is known of the error of a "
            "counterfactual. Hand over a bootstrap, as in cov=pf.bootstrap(est), another kind of "
            "covariance, or draws=None for numbers without bands."
        )
    return V


def _why_none(estimate: Estimate, kind: Any, V: Float[np.ndarray, "p p"]) -> str:
    """The reasons for entries that are not numbers."""
    if kind is None and estimate.withheld:
        return "the fit did not converge"
    names, eye = estimate.information.names, np.eye(len(V))
    missing = np.flatnonzero(np.isnan(np.diag(V)))
    reasons = {why_missing(estimate, kind, V, eye[k]): names[k] for k in missing[::-1]}
    return "; ".join(f"{name}: {reason}" for reason, name in reasons.items())


def _normal_draws(
    estimate: Estimate, V: Float[np.ndarray, "p p"], how: Uncertainty
) -> tuple[Float[np.ndarray, "d n"], int]:
    """Entries drawn from N(estimate, J V J') between their bounds, and how many were outside."""
    assert how.draws
    entries, phi = _entries(estimate)
    scale = np.sqrt(np.diag(V))
    values, vectors = np.linalg.eigh(0.5 * (V + V.T) / np.outer(scale, scale))
    if values[0] < -1e-8 * values[-1]:
        raise EstimationError(
            "the covariance of this estimate is not positive definite: it is not at a maximum, or "
            "not identified. Use cov='opg' or a bootstrap."
        )
    root = scale[:, None] * vectors * np.sqrt(np.maximum(values, 0.0))
    rng, kept, tried = np.random.default_rng(how.seed), list[np.ndarray](), 0
    while len(kept) < how.draws:
        if tried > how.draws and len(kept) < _LEAST_INSIDE * tried:
            raise EstimationError(
                f"only {len(kept)} of {tried} draws from the estimate's normal law lie between the "
                "bounds of the parameters: it is no guide here. Use a bootstrap: cov=pf.bootstrap("
                "est)."
            )
        tried += 1
        drawn = phi + estimate.information.jacobian @ (root @ rng.standard_normal(len(V)))
        if ((drawn >= entries.low) & (drawn <= entries.high)).all():
            kept.append(drawn)
    return np.array(kept), tried - len(kept)


def _from_draws(
    measure: Measure, here: pd.Series, thetas: Sequence[Theta], how: Uncertainty
) -> Bands:
    """Standard deviations and percentiles; failures are counted, not hidden."""
    rows, failed = [], []
    for done, theta in enumerate(thetas):
        how.tell(done, len(thetas))
        try:
            rows.append(measure(theta).to_numpy())
        except PomdpfitError as error:  # one draw must not cost the others
            rows.append(np.full(len(here), np.nan))
            failed.append(f"{type(error).__name__}: {error}")
    how.tell(len(thetas), len(thetas))
    draws = pd.DataFrame(rows, columns=here.index)
    draws.index.name = "draw"
    solved = draws.dropna(how="all")
    if len(solved) < 2:
        reason = failed[0] if failed else "there are no draws"
        raise EstimationError(f"bands need at least 2 draws, but there are {len(solved)}: {reason}")
    with np.errstate(invalid="ignore"):  # infinite periods between what never happens
        quantiles = [solved.quantile(q).to_numpy() for q in (how.alpha / 2, 1 - how.alpha / 2)]
        table = _table(here, solved.std().to_numpy(), *quantiles)
    return Bands(table, "", draws, tuple(failed))


def _delta(
    measure: Measure,
    here: pd.Series,
    baseline: Baseline,
    estimate: Estimate,
    V: Float[np.ndarray, "p p"],
) -> Float[np.ndarray, "k"]:
    """sqrt(diag(G V G')), G by central differences of a hundredth of a standard error."""
    entries, phi = _entries(estimate)
    J, columns = estimate.information.jacobian, []
    slack = np.minimum(phi - entries.low, entries.high - phi)
    for k, se in enumerate(np.sqrt(np.diag(V))):
        pace = np.abs(J[:, k])
        room = np.min(slack[pace > 0] / pace[pace > 0], initial=np.inf)
        step = min(_STEP * se, 0.5 * room)
        up, down = (
            measure(entries.insert(phi + sign * step * J[:, k], baseline.theta)).to_numpy()
            for sign in (1, -1)
        )
        with np.errstate(invalid="ignore"):  # infinite periods between what never happens
            columns.append((up - down) / (2 * step))
    G = np.stack(columns, axis=1)
    with np.errstate(invalid="ignore"):
        return np.sqrt(np.einsum("kp,pq,kq->k", G, V, G))
