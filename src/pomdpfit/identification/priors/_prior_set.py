"""The set of estimates that an unknown prior allows (the paper's Theorem 7 and Figure 2)."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from pomdpfit._errors import EstimationError
from pomdpfit._summary import Summary
from pomdpfit._types import Theta
from pomdpfit.identification.priors import _prior_set_words as words
from pomdpfit.identification.priors._prior_fits import ASSUMED, BESIDE, KNOWN
from pomdpfit.identification.priors._prior_region import reference_rows, region

_RANGE = ["lowest", "highest", "width", "x0 at lowest", "x0 at highest", "fits", "left out"]


@dataclasses.dataclass(frozen=True, eq=False)
class PriorSet:
    """Estimates under every prior that was assumed, over numbers of periods.

    `estimates` has a row for each fit: the number of periods scored; its kind (assumed, known or
    beside) and prior; x0; every parameter; the log-likelihood and its observation part; whether
    it converged, and why not. Fits that did not converge stay there and count nowhere else.
    """

    estimates: pd.DataFrame
    groups: Mapping[str, tuple[str, ...]]  # entries of the dynamics and of the rewards
    states: tuple[str, ...]
    estimator: str
    by_stages: bool
    agents: int
    skip: int
    seed: int

    @property
    def periods(self) -> list[int]:
        """Numbers of periods, in order."""
        return sorted(self.estimates["periods"].unique().tolist())

    @property
    def names(self) -> list[str]:
        """Entries of the parameters."""
        return [name for group in self.groups.values() for name in group]

    @property
    def x0_columns(self) -> list[str]:
        """x0(s), one column for each hidden state."""
        return [f"x0({s})" for s in self.states]

    @property
    def objective(self) -> str:
        """The column that the dynamics maximise: of observations alone if there are two stages."""
        return "llf_observation" if self.by_stages else "llf"

    # ---- the set ---------------------------------------------------------------------------

    @property
    def _assumed(self) -> pd.DataFrame:
        return self.estimates[self.estimates["kind"] == ASSUMED]

    @property
    def ranges(self) -> pd.DataFrame:
        """Lowest and highest estimate of each entry as x0 moves, and the x0 at which they are."""
        return self._ranges(self._assumed)

    def likely_ranges(self, level: float = 0.95) -> pd.DataFrame:
        """The same over those common x0 that the data do not reject: see `region`."""
        within = self.region(level)
        keep = within.index[within["within"].fillna(False).astype(bool)]
        return self._ranges(self.estimates.loc[keep])

    def _ranges(self, rows: pd.DataFrame) -> pd.DataFrame:
        found: dict[tuple[int, str], list] = {}
        for periods in self.periods:
            everyone = rows[rows["periods"] == periods]
            part = everyone[everyone["converged"]]
            counts = [len(part), len(everyone) - len(part)]
            for name in self.names:
                if part.empty:
                    found[periods, name] = [np.nan, np.nan, np.nan, "", "", *counts]
                    continue
                values, priors = part[name].to_numpy(dtype=float), part["prior"].to_numpy()
                low, high = int(values.argmin()), int(values.argmax())
                ends = [values[low], values[high], values[high] - values[low]]
                found[periods, name] = [*ends, priors[low], priors[high], *counts]
        frame = pd.DataFrame.from_dict(found, orient="index", columns=_RANGE)
        frame.index = pd.MultiIndex.from_tuples(list(found), names=["periods", "parameter"])
        return frame

    @functools.cached_property
    def sizes(self) -> pd.DataFrame:
        """The largest 2-norm between two estimates of the set, by periods and group."""
        found = {}
        for periods in self.periods:
            part = self._assumed
            part = part[(part["periods"] == periods) & part["converged"]]
            found[periods] = {
                group: _diameter(part[list(names)].to_numpy(dtype=float))
                for group, names in self.groups.items()
            }
        return pd.DataFrame.from_dict(found, orient="index").rename_axis("periods")

    # ---- Figure 2 --------------------------------------------------------------------------

    @property
    def has_known(self) -> bool:
        """Whether there is an estimate under a known prior to compare with."""
        return bool((self.estimates["kind"] == KNOWN).any())

    def deviations(
        self,
        groups: Mapping[str, Sequence[str]] | None = None,
        *,
        truth: Theta | pd.Series | None = None,
    ) -> pd.DataFrame:
        """2-norms between each estimate and the one under the known prior, as in Figure 2.

        Without a known prior the estimate at the most likely x0 takes its place. `groups` maps
        names to entries (the dynamics and the rewards by default); with `truth` (by entry) the
        distances from it are there too. A row has converged if it and its reference have.
        """
        groups = self.groups if groups is None else groups
        told = "known x0" if self.has_known else "most likely x0"
        reference = reference_rows(self)
        rows = self.estimates[self.estimates["kind"].isin([ASSUMED, BESIDE])]
        kept = rows[["periods", "kind", "prior", *self.x0_columns]].copy()
        at = rows["periods"].map(reference)
        for group, entries in groups.items():
            names = self._known_names(entries)
            here = rows[names].to_numpy(dtype=float)
            there = self.estimates.loc[at, names].to_numpy(dtype=float)
            kept[f"{group}: from {told}"] = np.linalg.norm(here - there, axis=1)
            if truth is not None:
                right = np.array([float(truth[name]) for name in names])
                kept[f"{group}: from truth"] = np.linalg.norm(here - right, axis=1)
                kept[f"{group}: {told} from truth"] = np.linalg.norm(there - right, axis=1)
        sound = self.estimates.loc[at, "converged"].to_numpy(dtype=bool)
        kept["converged"] = rows["converged"].to_numpy(dtype=bool) & sound
        return kept.sort_values(["periods", "kind", *self.x0_columns], ignore_index=True)

    def _known_names(self, entries: Sequence[str]) -> list[str]:
        unknown = [name for name in entries if name not in self.names]
        if unknown:
            raise EstimationError(
                f"there is no parameter {unknown[0]!r} among those estimated: {self.names}."
            )
        return list(entries)

    # ---- what the data say about x0 --------------------------------------------------------

    def region(self, level: float = 0.95) -> pd.DataFrame:
        """Each common x0's log-likelihood, how far it is from the best, and whether that is little.

        An x0 is `within` if 2 (best - llf) is below the chi-square quantile with |S| - 1 degrees;
        missing where a fit that did not converge leaves it open.
        """
        return region(self, level)

    def summary(self) -> Summary:
        """Ranges of the parameters, how the set shrinks, and what the data say about x0."""
        return words.summary(self)

    def __str__(self) -> str:
        return str(self.summary())


def _diameter(points: np.ndarray) -> float:
    if len(points) == 0:
        return np.nan
    return float(np.linalg.norm(points[:, None] - points[None], axis=-1).max())
