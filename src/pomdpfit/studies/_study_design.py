"""What a Monte Carlo over agents and periods has found: tables, a law, an answer, and a file."""

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.special import ndtri

from pomdpfit._errors import EstimationError
from pomdpfit._failures import failure_notes, failure_table
from pomdpfit._nearest import nearest
from pomdpfit._sealed import UNREADABLE, sealed
from pomdpfit._summary import Summary
from pomdpfit._write import write_atomically
from pomdpfit.studies._design_file import design_document, read_design
from pomdpfit.studies._law import agents_needed, fitted_laws

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CELL = ["agents", "periods"]


@dataclasses.dataclass(frozen=True, eq=False)
class StudyDesign:
    """Estimates from simulated panels: a row a replication, a column an entry of `params`.

    draws        estimates by agents, periods and replication; NaN where the fit failed
    errors       the standard errors that the fits reported
    info         log-likelihood, whether it converged, steps, entries on a bound, the reason if not
    truth        what the panels were simulated at
    information  by periods: standard errors of one agent from the expected outer product of scores
                 at the truth, for which no estimate is needed; N agents have 1 / sqrt(N) of them
    """

    draws: pd.DataFrame
    errors: pd.DataFrame
    info: pd.DataFrame
    truth: pd.Series
    information: pd.DataFrame
    seed: int
    title: str = ""
    notes: tuple[str, ...] = ()

    # ---- tables ----------------------------------------------------------------------------

    @functools.cached_property
    def table(self) -> pd.DataFrame:
        """A row for each cell and parameter, with the Monte Carlo's own errors beside.

        mean, bias, sd over the replications that converged; se, the mean of the standard errors
        they reported; information_se, from the information alone; coverage, the share of 95 %
        intervals that hold the truth, among the `intervals` that there were; at_bound, the share
        on a bound; used and failed, how many replications there are of each kind.
        """
        rows = []
        cells = [(int(N), int(T)) for N, T, _ in self.info.index]
        for N, T in sorted(set(cells)):
            info = self.info[[cell == (N, T) for cell in cells]]
            used = info.index[info["converged"]]
            draws, errors = self.draws.loc[used], self.errors.loc[used]
            bounds = [set(names) for names in info.loc[used, "boundary"]]
            for name in self.draws.columns:
                on_bound = float(np.mean([name in b for b in bounds])) if bounds else np.nan
                rows.append(
                    {"agents": N, "periods": T, "parameter": name}
                    | _statistics(draws[name], errors[name], self.truth[name])
                    | {"information_se": self._by_information(name, N, T), "at_bound": on_bound}
                    | {"used": len(used), "failed": len(info) - len(used)}
                )
        return pd.DataFrame(rows)

    def _by_information(self, name: str, agents: int, periods: int) -> float:
        if periods not in self.information.index:
            return np.nan
        return float(self.information.loc[periods, name] / np.sqrt(agents))

    @property
    def failed(self) -> pd.Series:
        """Reasons, by agents, periods and replication."""
        return self.info.loc[self.info["reason"] != "", "reason"]

    @property
    def failures(self) -> pd.DataFrame:
        """Reasons why replications failed, with how many did and which: (N, T, r) is drawn with
        the seed [seed, N, T, r] and can be looked into by itself."""
        return failure_table(self.failed)

    @functools.cached_property
    def law(self) -> pd.DataFrame:
        """sd = c N^(-1/2) T^(-b) by parameter: c, b, their errors and the p-value of a misfit."""
        return fitted_laws(self.table)

    def law_of(self, parameter: str) -> pd.Series:
        """The row of `law`."""
        names = list(self.draws.columns)
        if parameter not in names:
            raise EstimationError(
                f"{parameter!r} was not estimated; there are {', '.join(names)}."
                f"{nearest(parameter, names)}"
            )
        return pd.Series(self.law.loc[parameter])

    # ---- the answer ------------------------------------------------------------------------

    def agents_for(
        self, parameter: str, *, se: float, periods: int, alpha: float = 0.05
    ) -> pd.Series:
        """How many agents over so many periods give a standard error of `se`, by the law.

        With lower and upper end of an interval of level 1 - alpha, which comes from the Monte
        Carlo's error; `information` is the number by the information alone, where these periods
        were studied. Beyond the cells that were studied the law is an extrapolation.
        """
        if not (se > 0 and periods > 0 and 0 < alpha < 1):
            raise EstimationError(
                f"se and periods must be positive and alpha between 0 and 1, but they are {se}, "
                f"{periods} and {alpha}."
            )
        law, studied = self.law_of(parameter), sorted(set(self.table["periods"]))
        if np.isnan(law["b"]) and periods not in studied:
            raise EstimationError(
                f"the study has no other periods than {studied[0]}: what {periods} would do cannot "
                "be told. Study at least two numbers of periods."
            )
        by_information = self._by_information(parameter, 1, periods)
        answer = [*agents_needed(law, se, periods, alpha), (by_information / se) ** 2]
        index = ["agents", "lower", "upper", "information"]
        return pd.Series(np.ceil(answer), index, name=parameter)

    # ---- words and pictures ----------------------------------------------------------------

    def summary(self) -> Summary:
        """The table, the law in words, and what failed, with its reasons."""
        cells, total = len(self.table[_CELL].drop_duplicates()), len(self.info)
        facts = (
            ("cells", str(cells)),
            ("replications", str(total)),
            ("failed", str(len(self.failed))),
            ("seed", str(self.seed)),
        )
        shown = ["truth", "bias", "sd", "sd_se", "se", "information_se", "coverage", "used"]
        table = self.table[shown].set_axis(
            [
                f"{row.parameter}, N = {row.agents}, T = {row.periods}"
                for row in self.table.itertuples()
            ]
        )
        notes = [_law_in_words(name, law) for name, law in self.law.iterrows()]
        notes += [*self.notes, *failure_notes(self.failures, total, "replications")]
        return Summary(self.title or "Design of a study", facts, table, tuple(notes))

    def __str__(self) -> str:
        return str(self.summary())

    def plot(
        self,
        parameters: Sequence[str] | None = None,
        *,
        se: float | None = None,
        axes: "Sequence[Axes] | None" = None,
    ) -> np.ndarray:
        """Its picture: see `plots.design`."""
        from pomdpfit import plots

        return plots.design(self, parameters, se=se, axes=axes)

    # ---- files -----------------------------------------------------------------------------

    def to_json(self) -> str:
        """Everything, exactly, with its digest: the same study gives the same bytes."""
        return sealed(design_document(self)).decode()

    def save(self, path: str | Path) -> None:
        """Write `to_json` to a file, whole or not at all."""
        write_atomically(Path(path), self.to_json().encode())

    @staticmethod
    def load(path: str | Path) -> "StudyDesign":
        """The study that `save` wrote; no code in the file is run."""
        path = Path(path)
        try:
            return StudyDesign(**read_design(path))
        except FileNotFoundError:
            raise
        except UNREADABLE as error:
            raise EstimationError(f"{path} cannot be loaded as a design: {error}") from error


def _statistics(draws: pd.Series, errors: pd.Series, truth: float) -> dict[str, float]:
    R, sd = len(draws), float(draws.std())
    known = errors.notna()
    held = (draws[known] - truth).abs() <= ndtri(0.975) * errors[known]
    share, intervals = float(held.mean()) if known.any() else np.nan, int(known.sum())
    return {
        "truth": float(truth),
        "mean": float(draws.mean()),
        "bias": float(draws.mean() - truth),
        "bias_se": sd / np.sqrt(R) if R else np.nan,
        "sd": sd,
        "sd_se": sd / np.sqrt(2 * (R - 1)) if R > 1 else np.nan,
        "se": float(errors.mean()),
        "coverage": share,
        "coverage_se": np.sqrt(share * (1 - share) / intervals) if intervals else np.nan,
        "intervals": intervals,
    }


def _law_in_words(name: object, law: pd.Series) -> str:
    if not np.isfinite(law["c"]):
        return f"{name}: no law, for in no cell did three replications converge."
    error = 100 * law["log_c_se"]
    falls = "" if np.isnan(law["b"]) else f" T^-{law['b']:.3f} (b's error {law['b_se']:.3f})"
    said = f"{name}: sd = {law['c']:.4g} N^-1/2{falls}, c to within {error:.0f} % (one s.e.)"
    if law["misfit"] < 0.01:
        doubt = f"the cells do not follow it (p = {law['misfit']:.1e}): read them one by one."
        return f"{said}; but {doubt}"
    return f"{said}."
