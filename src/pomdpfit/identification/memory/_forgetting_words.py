"""What there is to say about forgetting, in sentences."""

from typing import Any

import numpy as np
import pandas as pd

from pomdpfit._summary import Summary
from pomdpfit.identification.memory._step_kernels import Memory

_NEXT = "z'"
_FAR = 100_001  # beyond which no number of periods is named
_SHOWN = ("agents", "TV median", "TV 95 %", "TV worst", "bound on TV worst", "D worst", "eta^M")


def summary(found: Any, tolerance: float) -> Summary:
    """The curve at periods 0, 1, 2, 4, 8 ..., and notes."""
    last = len(found.curve) - 1
    shown = sorted({0, last, *(2**k for k in range(20) if 2**k < last)})
    table = found.curve.loc[shown, list(_SHOWN)]
    corners = "vertices" if _whole(found) else f"{len(found.beliefs)} beliefs given"
    facts = (
        ("Agents", f"{found.panel.agent_count:,}"),
        ("Different kernels", f"{len(found.kernels)}"),
        ("Priors from", corners),
        ("eta (the paper)", f"{found.eta:.4f}"),
        ("tau (Birkhoff)", f"{found.tau:.4f}"),
        ("Tolerance", f"{tolerance:g}"),
    )
    notes = (
        verdict(found, tolerance),
        _promise(found, tolerance),
        _paper(found),
        *_by_memory(found),
        *_refuted(found),
    )
    return Summary("How fast the prior is forgotten", facts, table, notes)


def _whole(found: Any) -> bool:
    return np.array_equal(found.beliefs, np.eye(len(found.states)))


def verdict(found: Any, tolerance: float) -> str:
    """After how many periods the prior no longer matters, or that it still does and why."""
    M = found.periods(tolerance)
    if M is not None:
        by_agent = found.by_agent(tolerance)
        short = int(by_agent.isna().sum())
        text = (
            f"after {M} periods the prior no longer moves any agent's belief by more than "
            f"{tolerance:g} (total variation, along this panel"
        )
        if M > 0:
            text += f"; half of the agents need no more than {by_agent.fillna(M).median():g}"
        return text + ")." + (f" {short} agents are not seen that long." if short else "")
    last = found.tv.shape[1] - 1
    over = found.tv[:, last] > tolerance
    worst = int(np.nanargmax(found.tv[:, last]))
    text = (
        f"the prior is not forgotten to within {tolerance:g} in the {last} periods of this panel: "
        f"{int(over.sum())} of {int(found.panel.present[:, last].sum())} agents seen to the end "
        f"still differ by more, agent {found.panel.agents[worst]!r} by {found.tv[worst, last]:.3g}."
    )
    keeps = _never(found.kernels)
    if (keeps["in panel"] > 0).any():
        text += " Some of its steps never forget."
    return text


def _never(kernels: pd.DataFrame) -> pd.DataFrame:
    return kernels[kernels["memory"].isin([Memory.ODDS, Memory.GROUPS])]


def _promise(found: Any, tolerance: float) -> str:
    """What Birkhoff's coefficient says of this panel and of any other."""
    worst = found.curve["bound on TV worst"].to_numpy()
    if worst[-1] > tolerance:
        along = f"for what these agents saw, no more than {worst[-1]:.3g} is left at the end"
    else:
        M = int(np.max(np.flatnonzero(worst > tolerance), initial=-1)) + 1
        along = f"for what these agents saw, no more than {tolerance:g} is left after {M} periods"
    many = np.arange(1, _FAR)
    enough = np.flatnonzero(found.any_history(many) <= tolerance)
    if len(enough):
        ever = f"{tolerance:g} after {many[enough[0]]} periods"
    elif found.tau == 1.0:
        ever = "nothing, since the coefficient of some kernel is 1"
    else:
        ever = f"{tolerance:g} only after more than {_FAR - 1:,} periods"
    return f"promised (Birkhoff, tau = {found.tau:.4f}): {along}; for any history whatever, {ever}."


def _paper(found: Any) -> str:
    """The paper's bound, and whether it holds here."""
    if found.eta >= 1.0:
        return "the paper's bound D <= eta^M says nothing here: eta is 1, not below."
    claim = f"the paper's bound D <= eta^M, eta = {found.eta:.4f}, is not promised here"
    broken = found.violations
    if broken.empty:
        return f"{claim}; this panel does not break it."
    early = broken[broken["period"] == broken["period"].min()]
    agent, _, period, D, claimed = next(early.nlargest(1, "D").itertuples(index=False))
    return (
        f"{claim}: this panel breaks it for {broken['agent'].nunique()} agents, first after "
        f"{period} periods (agent {agent!r}: D = {D:.4f} > {claimed:.4f})."
    )


_MEANING = {
    Memory.NOTHING: "the belief after it does not depend on the belief before",
    Memory.NO_PROMISE: "a zero beside a positive entry: the coefficient is 1, and only the "
    "actual distance says what is forgotten",
    Memory.GROUPS: "priors on different groups of hidden states stay apart",
    Memory.ODDS: "the odds of two priors keep their ratio, and a state that a prior excludes stays "
    "excluded, however long the panel",
}


def _by_memory(found: Any) -> list[str]:
    """Kernels that do not simply forget, by name."""
    notes = []
    for memory, meaning in _MEANING.items():
        rows = found.kernels[found.kernels["memory"] == memory]
        if len(rows):
            names = [_named(row) for _, row in rows.head(4).iterrows()]
            more = f" and {len(rows) - 4} more" if len(rows) > 4 else ""
            seen = int(rows["in panel"].sum())
            notes.append(f"{memory}: {'; '.join(names)}{more} ({seen} steps here): {meaning}.")
    return notes


def _named(row: pd.Series) -> str:
    context = f", context {row['context']}" if "context" in row else ""
    return f"{row['action']} at z = {row['z']}, z' = {row[_NEXT]}{context}"


def _refuted(found: Any) -> list[str]:
    """Corners that some agent's data rule out."""
    return [
        f"x0 = ({', '.join(f'{p:g}' for p in found.beliefs[k])}) cannot have produced the data of "
        f"{int(agents.sum())} agents: it drops out for them."
        for k, agents in enumerate(found.refuted)
        if agents.any()
    ]
