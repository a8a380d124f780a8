"""The result of a fit, in the words of statsmodels."""

import dataclasses
import functools
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri

from pomdpfit import _labels
from pomdpfit._entries import free_entries
from pomdpfit._errors import EstimationError, InferenceWarning, Result
from pomdpfit._log_likelihood import COARSE_PRIOR, LogLikelihood
from pomdpfit._panel import Panel
from pomdpfit._params import ParameterSpace
from pomdpfit._restrictions import Restrictions, parse_restrictions
from pomdpfit._setting import Setting
from pomdpfit._summary import Summary
from pomdpfit._summary_parts import equal_maxima, facts_of, notes_of
from pomdpfit._test_result import TestResult
from pomdpfit._types import Float
from pomdpfit.inference._few_agents import error_notes, spanned, too_few, why_missing
from pomdpfit.inference._functions import value_and_slope, wald_test
from pomdpfit.inference._information import Information, known_variances

_NEAR = 2.0  # standard errors from a bound within which a normal interval is doubted


@dataclasses.dataclass(frozen=True, eq=False)
class Estimate:
    """Parameters, their uncertainty, the other maxima, and what there is to doubt.

    `modes` has a row for each maximum found, the estimate first (its `converged` says whether it is
    a maximum). `starts` has one for each starting point: the mode it led to, how it ended and at
    which log-likelihood; those that did not converge led to none, and have mode 0. `arguments` are
    those of `pf.fit`, as they were given, beside model, panel and means. `converged` and
    `on_boundary` are separate: an estimate can be a true maximum that lies on a bound, and then the
    entries in `boundary` have no standard errors.
    """

    setting: Setting = dataclasses.field(repr=False)
    theta: dict[str, np.ndarray]
    space: ParameterSpace = dataclasses.field(repr=False)
    restrictions: tuple[str, ...]
    terms: Float[np.ndarray, "N 2"] = dataclasses.field(repr=False)
    information: Information = dataclasses.field(repr=False)
    boundary: tuple[str, ...]
    derived: tuple[str, ...]
    result: Result
    reason: str
    steps: int
    gain: float
    dimension: int
    incidental: int
    modes: pd.DataFrame = dataclasses.field(repr=False)
    starts: pd.DataFrame = dataclasses.field(repr=False)
    traces: tuple = dataclasses.field(repr=False, default=())
    agent_priors: pd.DataFrame | None = dataclasses.field(repr=False, default=None)
    fixed: tuple[str, ...] = ()
    freed: tuple[str, ...] = ()
    seed: int = 0
    seconds: float = 0.0
    prior_error: float | None = None  # see LogLikelihood
    version: str = ""
    model_mark: str = dataclasses.field(repr=False, default="")  # by which its model is known again
    arguments: dict[str, Any] = dataclasses.field(repr=False, default_factory=dict)

    # ---- where it is -----------------------------------------------------------------------

    @property
    def model(self) -> Any:
        """The model that was fitted."""
        return self.setting.model

    @property
    def panel(self) -> Panel:
        """The panel it was fitted to."""
        return self.setting.panel

    @property
    def converged(self) -> bool:
        """Whether this is a maximum: a vanishing gradient where free, and a definite Hessian."""
        return self.result is Result.CONVERGED

    @property
    def on_boundary(self) -> bool:
        """Whether any entry lies on its bound."""
        return len(self.boundary) > 0

    @property
    def params(self) -> pd.Series:
        """All entries of the parameters that were estimated, derived ones included."""
        values = self.space.to_series(self.theta)
        return values[list(self.information.entries)].rename("estimate")

    @property
    def parsed_restrictions(self) -> Restrictions | None:
        """The linear restrictions of the fit over all entries of its space, if there were any."""
        if not self.restrictions:
            return None
        return parse_restrictions(self.restrictions, self.space.names)

    @functools.cached_property
    def fixed_entries(self) -> tuple[str, ...]:
        """Entries in `params` that an equation alone decides, such as one held by `fixed`."""
        entries = free_entries(
            self.space, self.space.free_leaves, self.theta, self.parsed_restrictions
        )
        return tuple(entries.names[k] for k in np.flatnonzero(entries.pinned()))

    # ---- likelihood ------------------------------------------------------------------------

    @property
    def llf(self) -> float:
        """The log-likelihood."""
        return float(self.terms.sum())

    @property
    def llf_observation(self) -> float:
        """Its observation part."""
        return float(self.terms[:, 0].sum())

    @property
    def llf_choice(self) -> float:
        """Its choice part."""
        return float(self.terms[:, 1].sum())

    @property
    def llf_obs(self) -> pd.DataFrame:
        """Both parts by agent."""
        index = pd.Index(self.panel.agents, name="agent", tupleize_cols=False)
        return pd.DataFrame(self.terms, index, ["observation", "choice"])

    @property
    def nobs(self) -> int:
        """Scored choices."""
        return self.panel.nobs

    @property
    def df_model(self) -> int:
        """Free parameters, those on a boundary and each agent's prior included."""
        return self.dimension + self.incidental

    @property
    def aic(self) -> float:
        """-2 llf + 2 k."""
        return -2 * self.llf + 2 * self.df_model

    @property
    def bic(self) -> float:
        """-2 llf + k log(nobs)."""
        return -2 * self.llf + self.df_model * float(np.log(self.nobs))

    # ---- uncertainty -----------------------------------------------------------------------

    @functools.cached_property
    def cov_type(self) -> str:
        """The covariance behind `bse`: hessian, the stacked sandwich of two stages, or opg.

        After two stages the hessian too (Murphy and Topel's form) where there are fewer than two
        agents with scored rows for each free parameter; opg where the Hessian was skipped.
        """
        if self.information.hessian is None:
            return "opg"
        joint = self.information.first is None
        return "hessian" if joint or too_few(self) else "sandwich"

    @property
    def withheld(self) -> bool:
        """Whether there are standard errors on request alone, by their `kind`: see `doubts`.

        They describe a maximum. Where a search ended on a ridge whose directions are known, what
        these do not move has standard errors all the same.
        """
        ridge = self.result is Result.FLAT and self.information.not_identified
        return not (self.converged or ridge)

    def cov_params(self, kind: Any = None) -> pd.DataFrame:
        """The covariance of the free entries; full rank.

        kind: "hessian", "opg", "sandwich" (clustered by agent), after two stages "uncorrected"; or
        a bootstrap of this estimate. By default `cov_type`, but not a number where the fit did not
        converge. Nor where an agent's own prior was estimated: theory has no standard errors for
        that; a bootstrap does. Nor are outer products of no more agents than parameters. What there
        is to say of few agents (`covariance_notes`) is an `InferenceWarning`.
        """
        self._warn(kind)
        return self._covariance(kind)

    def covariance_notes(self, kind: Any = None) -> tuple[str, ...]:
        """What must be said beside standard errors of this kind where there are few agents."""
        return error_notes(self, kind)

    def _warn(self, kind: Any, stacklevel: int = 3) -> None:
        for note in self.covariance_notes(kind):
            warnings.warn(note, InferenceWarning, stacklevel=stacklevel)

    def _covariance(self, kind: Any = None) -> pd.DataFrame:
        names = list(self.information.names)
        if kind is not None and not isinstance(kind, str):
            told = getattr(kind, "estimate", None)
            if not (isinstance(told, pd.Series) and told.equals(self.params)):
                raise EstimationError(
                    "kind must name a covariance or be a bootstrap of this estimate, not of "
                    f"another estimate (nor {type(kind).__name__} of another sort)."
                )
            return kind.cov_params().loc[names, names]
        used = self.cov_type if kind is None else kind
        matrix = self.information.covariance(used)
        unspanned = used == "opg" and not spanned(self)
        if self.incidental or unspanned or (kind is None and self.withheld):
            matrix = np.full_like(matrix, np.nan)
        return pd.DataFrame(matrix, names, names)

    def standard_errors(self, kind: Any = None) -> pd.Series:
        """Of all entries in `params`: derived ones follow, those on a boundary have none."""
        self._warn(kind)
        return self._errors(kind)

    def _errors(self, kind: Any = None) -> pd.Series:
        J = self.information.jacobian
        cov, unknown = known_variances(J, self._covariance(kind).to_numpy())
        variance = np.einsum("np,pq,nq->n", J, cov, J)
        variance = np.where(unknown, np.nan, variance)
        variance = np.where((variance > 0) | ~np.isfinite(variance), variance, np.nan)
        se = pd.Series(np.sqrt(variance), self.information.entries, name="std err")
        se[list(self.boundary)] = np.nan
        return se

    @functools.cached_property
    def bse(self) -> pd.Series:
        """Standard errors."""
        self._warn(None, stacklevel=4)  # past functools
        return self._default_errors

    @functools.cached_property
    def _default_errors(self) -> pd.Series:
        return self._errors()

    @property
    def tvalues(self) -> pd.Series:
        """Estimate over standard error."""
        return (self.params / self.bse).rename("z")

    @property
    def pvalues(self) -> pd.Series:
        """Of the hypothesis that an entry is zero; none where that is the end of its range."""
        return self._two_sided(self.tvalues).rename("P>|z|")

    def _two_sided(self, z: pd.Series) -> pd.Series:
        """P(|Z| > |z|), blank for entries whose range ends at zero."""
        ends = [name for name, (low, _) in self._bounds().items() if low == 0.0]
        values = pd.Series(2 * ndtr(-np.abs(z)), z.index)
        values[ends] = np.nan
        return values

    def conf_int(self, alpha: float = 0.05, kind: Any = None) -> pd.DataFrame:
        """Normal intervals; see `doubts` for entries near a bound."""
        self._warn(kind)
        return self._interval(alpha, kind)

    def _interval(self, alpha: float, kind: Any) -> pd.DataFrame:
        half = ndtri(1 - alpha / 2) * self._errors(kind)
        return pd.DataFrame({"lower": self.params - half, "upper": self.params + half})

    def _bounds(self) -> dict[str, tuple[float, float]]:
        return {
            entry: p.constraint.bounds()
            for name, p in self.space.parameters.items()
            for entry in p.entry_names(name).flat
            if entry in set(self.information.entries)
        }

    @property
    def near_boundary(self) -> tuple[str, ...]:
        """Entries within two standard errors of a bound, for which normal intervals mislead."""
        near = []
        for name, (low, high) in self._bounds().items():
            value, se = self.params[name], self._default_errors[name]
            if name not in self.boundary and min(value - low, high - value) < _NEAR * se:
                near.append(name)
        return tuple(near)

    @property
    def doubts(self) -> tuple[str, ...]:
        """What a reader must know before using the numbers; empty if there is nothing."""
        found = []
        if not self.converged:
            doubt = f"not converged ({self.result.name.lower()}): {self.reason}"
            if self.withheld:
                doubt += (
                    " Standard errors, p-values and intervals are withheld: this is no maximum. To "
                    f'see them all the same, name their kind: est.summary(kind="{self.cov_type}").'
                )
            found.append(doubt)
        if self.converged and (equal := equal_maxima(self)):
            found.append(
                f"not identified: {', '.join(f'mode {k}' for k in equal)} of est.modes "
                f"{'has' if len(equal) == 1 else 'have'} the same log-likelihood, and these data "
                "cannot tell which is right. The log-likelihood falls between them: standard "
                "errors hold around each alone."
            )
        if self.on_boundary:
            found.append(
                f"on the boundary: {', '.join(self.boundary)}. These have no standard errors, and "
                "the others are those of the model with them held there."
            )
        if self.prior_error is not None and self.prior_error > COARSE_PRIOR:
            found.append(
                "the grid behind pf.StationaryPrior is coarse: with half its cells the first "
                f"belief of an agent changes by {self.prior_error:.1e}. Give it more nodes."
            )
        return tuple(found)

    # ---- what follows from it --------------------------------------------------------------

    def delta_method(
        self, function: Callable[[Any], Any], names: Sequence[str] | None = None, kind: Any = None
    ) -> pd.DataFrame:
        """Estimate, standard error and interval of function(theta), by its exact derivative.

        `function` takes the tree of parameters and returns a number or an array, in JAX:
        `est.delta_method(lambda th: 7513 / th["RC"] * th["cost"])`; or a dict or Series of these,
        whose names then stand in the table.
        """
        found, slope, stuck = value_and_slope(
            function, self.theta, self.information, self.space, self.boundary
        )
        value, matrix = found.to_numpy(), self._covariance(kind).to_numpy()
        cov, unknown = known_variances(slope, matrix)
        variance = np.einsum("kp,pq,kq->k", slope, cov, slope)
        se = np.sqrt(np.where(unknown | stuck | (variance < 0), np.nan, variance))
        half = ndtri(0.975) * se
        index = list(found.index if names is None else names)
        self._warn(kind)
        for k in np.flatnonzero(np.isnan(se)):
            reason = why_missing(self, kind, matrix, slope[k])
            reason = "it moves with entries on the boundary alone" if stuck[k] else reason
            text = f"{index[k]} has no standard error: {reason}."
            warnings.warn(text, InferenceWarning, stacklevel=2)
        columns = {"estimate": value, "std err": se, "lower": value - half, "upper": value + half}
        return pd.DataFrame(columns, index=index)

    def wald_test(
        self, restrictions: str | Sequence[str] | Mapping[str, float], kind: Any = None
    ) -> TestResult:
        """Test linear restrictions such as "cost[good] = cost[bad]", or that entries have values.

        W = (R b - q)' (R V R')^-1 (R b - q), chi-square with as many degrees as there are rows.
        """
        cov = self._covariance(kind)
        missing = lambda row: why_missing(self, kind, cov.to_numpy(), row)
        found = wald_test(self.params, self.boundary, self.information, cov, restrictions, missing)
        note = " ".join(filter(None, [found.note, *self.covariance_notes(kind)]))
        return dataclasses.replace(found, note=note)

    def to_frame(self, alpha: float = 0.05, kind: Any = None) -> pd.DataFrame:
        """One row an entry: estimate, standard error, z, p-value, interval and status."""
        self._warn(kind)
        return self._table(alpha, kind)

    def _table(self, alpha: float, kind: Any) -> pd.DataFrame:
        se, interval = self._errors(kind), self._interval(alpha, kind)
        frame = pd.DataFrame({"estimate": self.params, "std err": se})
        frame["z"] = self.params / se
        frame["P>|z|"] = self._two_sided(frame["z"])
        frame[f"[{alpha / 2:g}"], frame[f"{1 - alpha / 2:g}]"] = (
            interval["lower"],
            interval["upper"],
        )
        frame["status"] = [self._status(name, kind, se[name]) for name in frame.index]
        return frame

    def status(self, name: str) -> str:
        """free, fixed, derived, on the boundary or near it; and why there is no standard error."""
        return self._status(name, None, self._default_errors[name])

    def _status(self, name: str, kind: Any, se: float) -> str:
        if name in self.fixed_entries:
            return "fixed"
        if name in self.boundary:
            return "on the boundary"
        word = "derived" if name in self.derived else "free"
        if np.isnan(se):
            row = self.information.jacobian[self.information.entries.index(name)]
            reason = why_missing(self, kind, self._covariance(kind).to_numpy(), row)
            return f"{word}, no std err: {reason}"
        return f"{word}, near its bound" if name in self.near_boundary else word

    def summary(self, alpha: float = 0.05, kind: Any = None) -> Summary:
        """A table that prints as text and turns into HTML or LaTeX."""
        return Summary(
            f"{type(self.model).__name__ if self.model is not None else 'Model'}, by maximum "
            "likelihood",
            facts_of(self, kind),
            self._table(alpha, kind),
            notes_of(self, kind),
        )

    def __str__(self) -> str:
        return str(self.summary())

    # ---- what it says of data --------------------------------------------------------------

    def log_likelihood(self, panel: Panel | None = None) -> LogLikelihood:
        """The terms of this panel, or out of sample of another one, at the estimate."""
        return self.setting.likelihood(self.space, panel).terms(self.theta)

    def predict(self, panel: Panel | None = None) -> pd.DataFrame:
        """Row by row: the belief, and the probability of each action.

        Probabilities are NaN after the last epoch of a finite horizon: nothing is chosen there.
        The column `observation` has the names of z, where the model or the panel has any.
        """
        panel = self.panel if panel is None else panel
        likelihood = self.setting.likelihood(self.space, panel)
        terms, choice = likelihood.choice_probabilities(self.theta)
        columns = {}
        if likelihood.states > 1:
            labels = self.model.state_labels() or range(likelihood.states)
            columns = {f"x({s})": terms.belief[..., k] for k, s in enumerate(labels)}
        actions = _labels.action_names(self.model, choice.shape[-1], panel)
        columns |= {f"P({a})": choice[..., k] for k, a in enumerate(actions)}
        frame = panel.to_frame(**columns)
        names = _labels.names_of("observation", self.model, panel, int(panel.z.max()) + 1)
        if names is not None:
            frame.insert(list(frame).index("z") + 1, "observation", [names[z] for z in frame["z"]])
        return frame

    def simulate(self, seed: int) -> Panel:
        """A panel drawn at the estimate, with the agents, lengths and first z of this one."""
        return self.setting.likelihood(self.space).simulate(self.theta, seed)

    def trace(self, stage: int = -1) -> pd.DataFrame:
        """The log-likelihood climbed in a stage, step by step, and the gradient's squared norm."""
        values, norms = self.traces[stage]
        frame = pd.DataFrame({"llf": values}, index=pd.RangeIndex(len(values), name="step"))
        return frame.assign(gradient=norms) if norms else frame

    def report(
        self,
        path: str | Path,
        *,
        title: str | None = None,
        others: "Mapping[str, Estimate] | Sequence[Estimate]" = (),
        agents: Sequence[Hashable] | None = None,
        rank: bool = False,
        profiles: Sequence[str] = (),
    ) -> Path:
        """Write one self-contained HTML file about this estimate; its path comes back.

        others    estimates of the same data to compare with, listed or by name
        agents    whose beliefs are drawn; six who did most that was unusual if not given
        rank      ask `pf.identify` what no data such as these could tell (seconds to minutes)
        profiles  entries of `params` whose likelihood is profiled (a fit for each point)
        """
        from pomdpfit.report.estimate import report_estimate  # which reads estimates

        return report_estimate(
            self, path, title=title, others=others, agents=agents, rank=rank, profiles=profiles
        )

    def save(self, path: str | Path) -> None:
        """Write everything but the model's code to a zip of JSON and npy; see `pf.load`."""
        from pomdpfit.storage import save  # which builds estimates, and so comes after them

        save(self, Path(path))
