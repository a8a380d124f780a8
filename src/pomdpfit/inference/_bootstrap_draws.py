"""What a bootstrap has drawn: standard errors, intervals, tables, and a file."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pomdpfit._errors import EstimationError
from pomdpfit._failures import failure_notes, failure_table
from pomdpfit._sealed import UNREADABLE, read_sealed, sealed
from pomdpfit._summary import Summary
from pomdpfit._write import write_atomically
from pomdpfit.inference._few_agents import FEW, clustered_note

_FORMAT = "pomdpfit-bootstrap"
_MOST_BYTES = 2**30
_INFO = ["replicate", "llf", "converged", "steps", "boundary", "reason"]


@dataclasses.dataclass(frozen=True, eq=False)
class Bootstrap:
    """Draws of an estimator: one row a replicate, one column an entry of `params`.

    `agents` is how many have scored rows; None in files of the first release. Replicates that
    failed stay as rows of NaN, with their reason in `failed` and in `summary`.
    """

    draws: pd.DataFrame
    info: pd.DataFrame
    estimate: pd.Series
    parametric: bool
    seed: int
    agents: int | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What must be said beside the draws: how many failed and why, and that agents are few."""
        notes = failure_notes(self.failures, len(self.info), "replicates")
        if not self.parametric and self.agents is not None and self.agents < FEW:
            return (*notes, clustered_note(self.agents))
        return tuple(notes)

    @property
    def failed(self) -> pd.Series:
        """Reasons, by replicate."""
        return self.info.loc[self.info["reason"] != "", "reason"]

    @property
    def used(self) -> pd.DataFrame:
        """The draws that converged, on a boundary or not."""
        return self.draws[self.info["converged"]]

    def cov_params(self) -> pd.DataFrame:
        """Covariance of the draws."""
        return self.used.cov()

    @property
    def bse(self) -> pd.Series:
        """Standard deviation of the draws."""
        return self.used.std().rename("std err")

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Percentile intervals: they stay inside the bounds."""
        return pd.DataFrame(
            {"lower": self.used.quantile(alpha / 2), "upper": self.used.quantile(1 - alpha / 2)}
        )

    @property
    def at_bound(self) -> pd.Series:
        """The share of draws in which an entry lies on its bound."""
        rows = self.info.loc[self.used.index, "boundary"]
        share = {name: pd.Series([name in row for row in rows]).mean() for name in self.draws}
        return pd.Series(share, name="at bound", dtype=float)

    @property
    def failures(self) -> pd.DataFrame:
        """Reasons why replicates failed, with how many did and which: replicate b is drawn with
        the seed [seed, b] and can be looked into by itself."""
        return failure_table(self.failed)

    def summary(self) -> Summary:
        """The table of `to_frame`, and what failed, with its reasons."""
        lost, total = len(self.failed), len(self.info)
        facts = (("replicates", str(total)), ("failed", str(lost)), ("seed", str(self.seed)))
        kind = "Parametric bootstrap" if self.parametric else "Bootstrap over agents"
        return Summary(kind, facts, self.to_frame(), self.notes)

    def to_frame(self) -> pd.DataFrame:
        """Estimate, bias, standard error, percentile interval and share on the bound."""
        frame = pd.DataFrame({"estimate": self.estimate, "std err": self.bse})
        frame.insert(1, "bias", self.used.mean() - self.estimate)
        return pd.concat([frame, self.conf_int(), self.at_bound], axis=1)

    def to_json(self) -> str:
        """Everything, exactly, with its digest: the same draws give the same bytes."""
        document = {
            "format": _FORMAT,
            "columns": list(self.draws.columns),
            "draws": [[_finite(v) for v in row] for row in self.draws.to_numpy()],
            "info": [
                {name: _finite(value) for name, value in row.items()}
                for row in self.info.reset_index().to_dict("records")
            ],
            "estimate": [_finite(v) for v in self.estimate],
            "parametric": self.parametric,
            "seed": self.seed,
            "agents": self.agents,
        }
        return sealed(document).decode()

    def save(self, path: str | Path) -> None:
        """Write `to_json` to a file, whole or not at all."""
        write_atomically(Path(path), self.to_json().encode())

    @staticmethod
    def load(path: str | Path) -> "Bootstrap":
        """The bootstrap that `save` wrote; no code in the file is run."""
        path = Path(path)
        try:
            return _from_document(read_sealed(path, _MOST_BYTES))
        except FileNotFoundError:
            raise
        except UNREADABLE as error:
            raise EstimationError(f"{path} cannot be loaded as a bootstrap: {error}") from error


def _from_document(found: Any) -> Bootstrap:
    """What `to_json` wrote, refused where its parts do not go together."""
    if not isinstance(found, dict) or found.get("format") != _FORMAT:
        raise ValueError(f"it does not say that its format is {_FORMAT!r}.")
    columns, info = found["columns"], pd.DataFrame(found["info"])
    draws = np.array(found["draws"], dtype=float)  # None becomes NaN
    estimate = np.array(found["estimate"], dtype=float)
    wanted = (len(info), len(columns))
    if draws.shape != wanted or estimate.shape != wanted[1:] or set(info) != set(_INFO):
        raise ValueError("its draws, its estimate and what is said of them do not go together.")
    if type(found["seed"]) is not int or type(found["parametric"]) is not bool:
        raise ValueError("its seed must be a whole number, and parametric true or false.")
    if type(found.get("agents")) not in (int, type(None)):
        raise ValueError("its number of agents must be a whole number.")
    kinds = {"converged": bool, "boundary": list, "reason": str, "steps": int}
    for name, kind in kinds.items():
        if not all(type(row[name]) is kind for row in found["info"]):
            raise ValueError(f"{name} of a replicate is not what it should be.")
    info = info[_INFO].astype({"llf": float}).set_index("replicate")
    return Bootstrap(
        pd.DataFrame(draws, info.index, columns),
        info,
        pd.Series(estimate, columns, name="estimate"),
        found["parametric"],
        found["seed"],
        found.get("agents"),
    )


def _finite(value: Any) -> Any:
    """None in the place of what JSON has no word for."""
    return None if isinstance(value, float) and not np.isfinite(value) else value
