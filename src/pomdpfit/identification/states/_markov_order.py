"""Does the last period but one still matter? An exact test of the Markov order of a panel.

In an MDP z_{t+1} depends on (z_t, a_t) alone and a_t on z_t alone, so what agents of the same z_t
do and meet next can be exchanged among them without changing the probability of the data. A
statistic that looks at (t - 1, t, t + 1) has the same law after such an exchange: the p-value is
exact, however sparse the cells, where chi-square fails.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
import pandas as pd

from pomdpfit._errors import EstimationError
from pomdpfit._panel import Panel
from pomdpfit._summary import Summary
from pomdpfit._test_result import chi_square_p
from pomdpfit._types import Float, Int
from pomdpfit.identification.states._pretest_rows import context, following, numbered, usable


@dataclasses.dataclass(frozen=True, eq=False)
class MarkovOrder:
    """Two tests, a row each: of what is observed next, and of what is chosen.

    `draws` holds the statistic after each exchange; `pvalue` is that of the observations.
    """

    table: pd.DataFrame
    draws: pd.DataFrame = dataclasses.field(repr=False)
    given: str
    by_period: bool
    seed: int

    @property
    def pvalue(self) -> float:
        """Of the observations."""
        return float(self.table["p_value"]["observations"])

    def summary(self) -> Summary:
        """Both tests, and how far to trust them."""
        facts = (
            ("Given", self.given),
            ("Exchanged among", "agents of a period" if self.by_period else "all periods"),
            ("Exchanges", f"{len(self.draws):,}"),
            ("Seed", str(self.seed)),
        )
        notes = [
            "Small p-values: the past tells more than (z, a) does, as with a hidden state (or with "
            "agents that differ from each other). The chi-square p-value is there for comparison: "
            "it does not hold in sparse cells."
        ]
        few = self.table["exchangeable"] < 0.5 * self.table["rows"]
        if few.any():
            notes.append(
                f"{', '.join(self.table.index[few])}: fewer than half of the rows have others to "
                "be exchanged with, so there is little power. Try by_period=False or "
                "increments=True."
            )
        return Summary("Markov order, without a model", facts, self.table, tuple(notes))

    def __str__(self) -> str:
        return str(self.summary())


def markov_order_test(
    panel: Panel,
    *,
    increments: bool = False,
    actions: Sequence[int] | None = None,
    by_period: bool = True,
    replicates: int = 999,
    seed: int = 0,
) -> MarkovOrder:
    """Test z_{t+1} against (z_{t-1}, a_{t-1}) given (z_t, a_t), and a_t against them given z_t.

    G = 2 sum n(past, cell, next) log [n(past, cell, next) n(cell) / (n(past, cell) n(cell, next))].
    With `increments` the past is (z_t - z_{t-1}, a_{t-1}), the next z_{t+1} - z_t, its cell a_t:
    for many bins. `actions` keeps the transitions after these actions alone.

    p = (1 + #{G* >= G}) / (replicates + 1), with G* after exchanging what comes next at random
    among rows of the same period, covariates and cell: exact in an MDP (by increments, as good as
    that). `by_period=False` exchanges across periods too, for few agents and long panels: valid in
    the long run if nothing drifts.
    """
    if replicates < 1 or seed < 0:
        raise EstimationError(
            f"replicates must be at least 1 and seed at least 0, not {replicates} and {seed}."
        )
    use = usable(panel, actions)
    step = following(panel.z) - panel.z
    before, now = use[:, :-1], np.zeros_like(use)
    now[:, 1:] = before
    past = np.zeros((2, *panel.z.shape), dtype=int)
    past[:, :, 1:] = np.stack([step if increments else panel.z, panel.a])[:, :, :-1]
    epoch = panel.epochs
    when = epoch if by_period else np.zeros_like(epoch)
    where = context(panel)
    seen = (where, panel.a) if increments else (where, panel.z, panel.a)
    tests = {
        "observations": (now & use, seen, step if increments else following(panel.z)),
        "choices": (now & panel.acted & panel.score_choice, (where, panel.z), panel.a),
    }
    rows, draws = {}, {}
    for k, (name, (mask, cells, outcome)) in enumerate(tests.items()):
        if not mask.any():
            if name == "observations":
                raise EstimationError("no two transitions of an agent follow each other.")
            continue
        cell = numbered(*(column[mask] for column in cells))
        triple = numbered(*past[:, mask]), cell, numbered(outcome[mask])
        rng = np.random.default_rng([seed, k])
        rows[name], draws[name] = _exchanged(*triple, numbered(when[mask], cell), replicates, rng)
    index = pd.RangeIndex(replicates, name="exchange")
    return MarkovOrder(
        pd.DataFrame.from_dict(rows, orient="index"),
        pd.DataFrame(draws, index),
        "a_t, by increments" if increments else "(z_t, a_t)",
        by_period,
        seed,
    )


def _degrees(past: Int[np.ndarray, "n"], cell: Int[np.ndarray, "n"], outcome: np.ndarray) -> int:
    """Degrees of freedom that chi-square would have: of the cells and margins met."""
    pasts, nexts = (
        np.bincount(np.unique(np.stack([cell, other]), axis=1)[0]) for other in (past, outcome)
    )
    return int(((pasts - 1) * (nexts - 1)).sum())


def _entropy(*columns: Int[np.ndarray, "n"]) -> float:
    """Sum of n log n over the cells of these columns."""
    code = columns[0]
    for column in columns[1:]:
        code = code * (int(column.max()) + 1) + column
    count = np.unique(code, return_counts=True)[1]
    return float((count * np.log(count)).sum())


def _exchanged(
    past: Int[np.ndarray, "n"],
    cell: Int[np.ndarray, "n"],
    outcome: Int[np.ndarray, "n"],
    stratum: Int[np.ndarray, "n"],
    replicates: int,
    rng: np.random.Generator,
) -> tuple[dict[str, float], Float[np.ndarray, "B"]]:
    """The test's row, and the statistic after each exchange within strata."""
    n, own, known = len(stratum), np.argsort(stratum, kind="stable"), numbered(past, cell)
    # No exchange changes the margins.
    rest = _entropy(cell) - _entropy(known) - _entropy(cell, outcome)
    observed = 2 * (_entropy(known, outcome) + rest)
    draws, mixed = np.empty(replicates), np.empty_like(outcome)
    for b in range(replicates):
        mixed[own] = outcome[np.lexsort((rng.random(n), stratum))]
        draws[b] = 2 * (_entropy(known, mixed) + rest)
    # Sums of the same logarithms in another order are ties.
    above = int((draws >= observed - 1e-9 * max(1.0, observed)).sum())
    df = _degrees(past, cell, outcome)
    row = {
        "G": observed,
        "mean": float(draws.mean()),
        "p_value": (1 + above) / (replicates + 1),
        "df": df,
        "chi2_p": chi_square_p(observed, df),
        "rows": n,
        "exchangeable": int((np.bincount(stratum)[stratum] > 1).sum()),
    }
    return row, draws
