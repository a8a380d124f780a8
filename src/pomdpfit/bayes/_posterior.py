"""Draws from a posterior: labelled, summarised, and handed on to ArviZ."""

import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from pomdpfit._optional import import_extra
from pomdpfit._params import ParameterSpace
from pomdpfit._types import Bool, Float


@dataclasses.dataclass(frozen=True, eq=False)
class Posterior:
    """Draws of every free parameter, by chain, with what is known of how they came about.

    `draws[name]` has the axes chain, draw, and those of the parameter; `stats` has ArviZ's names.
    """

    draws: Mapping[str, Float[np.ndarray, "chains draws *shape"]]
    stats: Mapping[str, np.ndarray]
    space: ParameterSpace
    seed: int
    held: tuple[str, ...] = ()  # entries that were fixed, though others of their parameter were not

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
        """Mean, standard deviation, equal-tailed interval, effective sample size and split R-hat.

        The Monte Carlo error of the mean is sd / sqrt(ess). R-hat compares halves of chains: near
        one if they tell the same story.
        """
        from numpyro.diagnostics import effective_sample_size, split_gelman_rubin

        rows = {}
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
        return pd.DataFrame.from_dict(rows, orient="index")

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
