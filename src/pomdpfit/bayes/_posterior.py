"""Draws from a posterior: labelled, summarised, and handed on to ArviZ."""

import dataclasses
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from pomdpfit._optional import import_extra
from pomdpfit._params import Parameter, ParameterSpace
from pomdpfit._summary import Summary
from pomdpfit._types import Bool, Float
from pomdpfit.bayes._parameter_priors import prior_moments, prior_texts

_MIXED = 1.05  # R-hat
_APART = 2.0  # prior standard deviations between a posterior mean and its prior's
_MOVED = 0.3  # posterior standard deviations when the prior counts twice
_AS_WIDE = 0.9  # of the prior's standard deviation
_FLAT = 1e-9  # a log-density that varies less is constant


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Posterior:
    """Draws of every free parameter, by chain, with what is known of how they came about.

    `draws[name]` has the axes chain, draw, and those of the parameter; `stats` has ArviZ's names.
    `priors` has the NumPyro distributions, by parameter; those of `default_priors` were not given
    but chosen by `pf.bayes.default_priors`. Printed, it shows the prior of every entry beside its
    posterior, and below the table `doubts` and notes.
    """

    draws: Mapping[str, Float[np.ndarray, "chains draws *shape"]]
    stats: Mapping[str, np.ndarray]
    space: ParameterSpace
    seed: int
    held: tuple[str, ...] = ()  # entries that were fixed, though others of their parameter were not
    priors: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    default_priors: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """The summary, with what a reader must see beside it."""
        chains, draws = self.diverging.shape
        facts = (
            ("Chains", f"{chains}"),
            ("Draws of each", f"{draws}"),
            ("Divergent transitions", f"{int(self.diverging.sum())}"),
            ("Seed", f"{self.seed}"),
        )
        notes = (*self.doubts, *self.notes)
        return Summary("Posterior", facts, self.summary(), notes).as_text()

    @property
    def diverging(self) -> Bool[np.ndarray, "chains draws"]:
        """Which draws ended in a divergent transition."""
        return self.stats["diverging"]

    def theta(self, chain: int, draw: int) -> dict[str, np.ndarray]:
        """One draw as a whole theta, fixed parameters included: for `pf.solve` and the like."""
        fixed = {name: np.asarray(value) for name, value in self.space.example().items()}
        return fixed | {name: values[chain, draw] for name, values in self.draws.items()}

    def to_frame(self) -> pd.DataFrame:
        """One row a draw, one column an entry that is free, named as in `Estimate.params`."""
        by_entry = self._by_entry()
        chains, draws = self.diverging.shape
        index = pd.MultiIndex.from_product([range(chains), range(draws)], names=["chain", "draw"])
        columns = {name: values.ravel() for name, values in by_entry.items()}
        return pd.DataFrame(columns, index)

    def summary(self, alpha: float = 0.05) -> pd.DataFrame:
        """Mean, standard deviation, equal-tailed interval, effective sample size, R-hat, prior.

        The Monte Carlo error of the mean is sd / sqrt(ess). R-hat compares halves of chains: near
        one if they agree.
        """
        from numpyro.diagnostics import effective_sample_size, split_gelman_rubin

        rows: dict[str, dict[str, Any]] = {}
        texts = self._of_entries(prior_texts)
        with np.errstate(divide="ignore", invalid="ignore"):  # entries that never move
            for name, values in self._by_entry().items():
                lower, upper = np.quantile(values, [alpha / 2, 1 - alpha / 2])
                enough = values.shape[1] >= 4  # draws, for halves to have a variance
                rows[name] = {
                    "mean": values.mean(),
                    "sd": values.std(ddof=1) if values.size > 1 else np.nan,
                    "lower": lower,
                    "upper": upper,
                    "ess": float(effective_sample_size(values)) if enough else np.nan,
                    "r_hat": float(split_gelman_rubin(values)) if enough else np.nan,
                }
                if texts:
                    rows[name]["prior"] = texts.get(name, "")
        return pd.DataFrame.from_dict(rows, orient="index")

    @property
    def doubts(self) -> tuple[str, ...]:
        """What a reader must know before using the draws; empty if there is nothing."""
        found = []
        divergent = int(self.diverging.sum())
        if divergent:
            found.append(
                f"{divergent} draws ended in a divergent transition: raise accept, or look for a "
                "boundary or a direction that the data do not identify."
            )
        r_hat = self.summary()["r_hat"].dropna()
        if not r_hat.empty and r_hat.max() > _MIXED:
            found.append(
                f"the chains have not mixed: R-hat of {r_hat.idxmax()} is {r_hat.max():.3g}. Draw "
                "more, give start=..., or suspect several modes (hidden states that swapped names)."
            )
        return (*found, *self._doubts_of_priors())

    def _doubts_of_priors(self) -> list[str]:
        """Where prior and likelihood pull apart, and where the prior says more than the data."""
        table = self._beside_priors()
        apart = table["apart"][table["apart"] > _APART].sort_values(ascending=False)
        moved = table["moved"][table["moved"].abs() > _MOVED].sort_values(key=np.abs)[::-1]
        width = table["width"][table["width"] > _AS_WIDE]
        found = []
        if len(apart):
            found.append(
                "prior and likelihood pull apart: the posterior mean lies more than two prior "
                f"standard deviations from the prior's mean ({_listed(apart, '{:.1f}')}). Look at "
                "the maximum likelihood estimate, and give these parameters priors in their own "
                "units: priors={...}."
            )
        if len(moved):
            found.append(
                "the priors move the posterior: if they counted twice, means would shift by "
                f"more than {_MOVED} posterior standard deviations ({_listed(moved, '{:+.2f}')}; "
                "power-scaling, to first order). Widen the priors, or give reasons for them and "
                "show the posterior under others too."
            )
        if len(width):
            found.append(
                "some entries have a posterior about as wide as their prior (ratio of standard "
                f"deviations: {_listed(width, '{:.2f}')}): the data say next to nothing of them, "
                "or far less than the prior. Ask pf.identify, and check the priors' scales."
            )
        return found

    def _beside_priors(self) -> pd.DataFrame:
        """How far posterior and prior are apart, by entry.

        apart  |posterior mean - prior mean| in prior standard deviations, unless the prior is flat
        moved  the derivative of the posterior mean in the log of the prior's power, which is
               Cov(theta, log prior), for a doubling, in posterior standard deviations
        width  the ratio of standard deviations
        """
        columns = ["apart", "moved", "width"]
        if not self.priors or self.diverging.size < 4:
            return pd.DataFrame(columns=columns, dtype=float)
        moments = self._of_entries(lambda p, prior: np.stack(prior_moments(p, prior), axis=-1))
        density = {
            name: np.asarray(prior.log_prob(self.draws[name]))
            for name, prior in self.priors.items()
        }
        total = np.sum(list(density.values()), axis=0)
        flat = {
            entry: np.ptp(density[name]) < _FLAT
            for name in density
            for entry in self.space.parameters[name].entry_names(name).flat
        }
        rows = {}
        for entry, values in self._by_entry().items():
            spread = values.std()
            if entry not in moments or spread == 0:
                continue
            mean, sd = moments[entry]
            slope = np.mean((values - values.mean()) * (total - total.mean())) / spread
            apart = np.nan if flat[entry] else abs(values.mean() - mean) / sd
            rows[entry] = apart, np.log(2) * slope, spread / sd
        return pd.DataFrame.from_dict(rows, orient="index", columns=columns)

    def to_arviz(self) -> Any:
        """As ArviZ has it (an InferenceData, a DataTree since 1.0), with the model's labels."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # ArviZ speaks of its own plans
            arviz = import_extra("arviz", "bayes", "an ArviZ object")
        coords, dims = self._labels()
        groups = {"posterior": dict(self.draws), "sample_stats": dict(self.stats)}
        if hasattr(arviz, "InferenceData"):  # before 1.0
            return arviz.from_dict(**groups, coords=coords, dims=dims)
        return arviz.from_dict(groups, coords=coords, dims=dims)

    def _by_entry(self) -> dict[str, Float[np.ndarray, "chains draws"]]:
        entries = {}
        for name, values in self.draws.items():
            labels = self.space.parameters[name].entry_names(name).ravel()
            flat = values.reshape(*values.shape[:2], -1)
            each = {label: flat[..., k] for k, label in enumerate(labels)}
            entries.update({label: each[label] for label in each if label not in self.held})
        return entries

    def _of_entries(self, function: Callable[[Parameter, Any], np.ndarray]) -> dict[str, Any]:
        """What a function finds of a parameter and its prior, by the names of the entries."""
        found: dict[str, Any] = {}
        for name, prior in self.priors.items():
            p = self.space.parameters[name]
            values = function(p, prior)
            names = p.entry_names(name)
            found.update({str(names[index]): values[index] for index in np.ndindex(p.shape)})
        return found

    def _labels(self) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        """Coordinates and dimensions: an axis of cost is cost_0, with the model's labels along."""
        coords: dict[str, list[str]] = {}
        dims: dict[str, list[str]] = {}
        for name in self.draws:
            p = self.space.parameters[name]
            axes = p.labels or tuple(tuple(map(str, range(k))) for k in p.shape)
            dims[name] = [f"{name}_{axis}" for axis in range(len(axes))]
            coords.update(zip(dims[name], map(list, axes), strict=True))
        return coords, dims


def _listed(values: pd.Series, number: str) -> str:
    return ", ".join(f"{name} {number.format(value)}" for name, value in values.items())
