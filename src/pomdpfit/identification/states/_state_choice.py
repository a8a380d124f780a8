"""What `choose_states` returns: every criterion by number of hidden states, and what they pick."""

import dataclasses

import numpy as np
import pandas as pd

from pomdpfit._estimate import Estimate
from pomdpfit._summary import Summary

_SHOWN = (
    "llf", "parameters", "aic", "bic", "cv", "cv_gain", "cv_gain_se", "lr", "p_value", "converged",
)  # fmt: skip


@dataclasses.dataclass(frozen=True, eq=False)
class StatesCost:
    """What is still to be done: fits, seconds of one (measured), and seconds in all, at most."""

    table: pd.DataFrame
    spent: float  # seconds that the fits to the panel and the first of each kind took
    n_jobs: int

    @property
    def fits(self) -> int:
        """How many fits are to come, at most."""
        return int(self.table["fits"].sum())

    @property
    def seconds(self) -> float:
        """How long they take, at most, as far as the first of each kind can tell."""
        return float(self.table["seconds"].sum())

    def __str__(self) -> str:
        return (
            f"at most {self.fits} fits to come, about {self.seconds:.0f} s in {self.n_jobs} "
            f"process{'es' if self.n_jobs > 1 else ''} ({self.spent:.0f} s spent so far)"
        )


@dataclasses.dataclass(frozen=True, eq=False)
class StateChoice:
    """Criteria by number of hidden states, and the estimates behind them.

    table      a row for each |S|: likelihood, AIC, BIC, likelihood of held-out agents (`cv`, with
               `cv_gain` over the row before), the ratio against the next larger |S| (`lr`) with
               its bootstrap p-value, whether and how the fit has ended, how many maxima it found
    estimates  the fits, by |S|
    lr         the simulated ratios, a row each
    cv         the held-out log-likelihood of each agent, a column for each |S|
    cost       what folds and bootstrap were expected to cost, before they began
    """

    table: pd.DataFrame
    estimates: dict[int, Estimate] = dataclasses.field(repr=False)
    lr: pd.DataFrame = dataclasses.field(repr=False)
    cv: pd.DataFrame = dataclasses.field(repr=False)
    cost: StatesCost
    alpha: float
    seed: int
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> pd.Series:
        """The number of states that each criterion picks.

        The likelihood ratio goes up from the smallest and stops at the first that is not rejected;
        where all were rejected it is the largest tried.
        """
        picks = {"AIC": self.table["aic"].idxmin(), "BIC": self.table["bic"].idxmin()}
        if self.table["cv"].notna().any():
            picks["cross-validation"] = self.table["cv"].idxmax()
        p = self.table["p_value"]
        if p.notna().any():
            held = p.index[p > self.alpha]
            tested = p.index[p.notna()]
            picks["likelihood ratio"] = held[0] if len(held) else tested[-1] + 1
        return pd.Series(picks, name="states", dtype=int)

    def summary(self) -> Summary:
        """The table, and in words what each criterion picks and what to doubt."""
        N = next(iter(self.estimates.values())).panel.agent_count
        counts = self.lr.groupby("states")["lr"].count() if len(self.lr) else pd.Series(dtype=int)
        facts = (
            ("Agents", f"{N:,}"),
            ("Estimator", type(next(iter(self.estimates.values())).setting.estimator).__name__),
            ("Simulated panels", ", ".join(map(str, counts)) or "none"),
            ("Seed", str(self.seed)),
        )
        shown = self.table[[c for c in _SHOWN if self.table[c].notna().any()]]
        title = "How many hidden states? |S| = 1 is the MDP"
        return Summary(title, facts, shown, (*self._words(), *self.notes))

    def _words(self) -> tuple[str, ...]:
        picks = ", ".join(f"{name} picks {k}" for name, k in self.best.items())
        words = [picks + "."]
        if "cross-validation" in self.best:
            k = self.best["cross-validation"]
            gain, se = self.table.loc[k, ["cv_gain", "cv_gain_se"]]
            if np.isfinite(gain):
                words.append(
                    f"Agents that the fit has not seen are {gain:.2f} (standard error {se:.2f}) "
                    f"more likely with {k} states than with {k - 1}."
                )
        for k in self.estimates:
            p = self.table["p_value"][k]
            if np.isnan(p):
                continue
            verdict = "rejected" if p <= self.alpha else "not rejected"
            words.append(
                f"{k} against {k + 1}: likelihood ratio {self.table['lr'][k]:.2f}, bootstrap "
                f"p-value {p:.3f}: {k} is {verdict} at {self.alpha:g}."
            )
        if len(self.lr):
            words.append(
                "p-values are those of panels simulated at the smaller model. Chi-square does not "
                "hold here: if the smaller model is true, the parameters of the extra state are "
                "not there to be identified, or lie on a bound."
            )
        return tuple(words)

    def __str__(self) -> str:
        return str(self.summary())
