"""What a check of a panel found."""

import dataclasses

import numpy as np
import pandas as pd

from pomdpfit._panel import Panel

_MOST = 10  # lines of a kind that a summary shows
_ADVICE = (
    "Mend the data or the model. Transitions that the model calls impossible can be left unscored: "
    "panel.exclude_transitions(pf.impossible_transitions(model, theta, panel))."
)


@dataclasses.dataclass(frozen=True, eq=False)
class PanelCheck:
    """What is in a panel, what cannot be right (`problems`) and what may be (`notes`).

    problems  one row for each: kind, agent, time, z, a, z_next, says
    notes     one row for each: kind, says
    """

    panel: Panel
    problems: pd.DataFrame
    notes: pd.DataFrame
    action_names: tuple[str, ...] | None = None
    observation_names: tuple[str, ...] | None = None

    @property
    def ok(self) -> bool:
        """Whether there are no problems."""
        return self.problems.empty

    @property
    def lengths(self) -> pd.Series:
        """How many rows each agent has."""
        panel = self.panel
        index = pd.Index(list(panel.agents), tupleize_cols=False, name="agent")
        return pd.Series(panel.present.sum(axis=1), index=index, name="rows")

    @property
    def actions(self) -> pd.Series:
        """How often each action was taken; those between that never were count zero."""
        panel = self.panel
        taken = panel.a[panel.acted]
        if self.action_names is None:
            return _counted(taken, "a")
        count = len(self.action_names)
        counts = np.bincount(taken[taken < count], minlength=count)
        return pd.Series(counts, index=pd.Index(self.action_names, name="a"), name="rows")

    @property
    def observations(self) -> pd.Series:
        """How often each observation was seen."""
        counted = _counted(self.panel.z[self.panel.present], "z")
        if self.observation_names is None:
            return counted
        names = [self._called(code) for code in counted.index]
        return counted.set_axis(pd.Index(names, name="z"))

    def _called(self, z: int) -> str:
        """An observation by its name, if it has one."""
        names = self.observation_names or ()
        return names[z] if 0 <= z < len(names) else str(z)

    def summary(self) -> str:
        """All of it as text."""
        panel, lengths = self.panel, self.lengths
        z = panel.z[panel.present]
        lines = [
            f"{panel.agent_count} agents, {int(lengths.sum())} rows; {lengths.min()} to "
            f"{lengths.max()} rows an agent, {lengths.median():g} in the middle",
            f"observations: {len(np.unique(z))} different, from "
            f"{self._called(z.min())} to {self._called(z.max())}",
            "actions: " + ", ".join(f"{name}: {count}" for name, count in self.actions.items()),
            f"scored: {panel.nobs} choices, {int(panel.score_observation.sum())} transitions",
        ]
        lines += [f"note: {note}" for note in self.said]
        if self.ok:
            return "\n".join([*lines, "no problems found"])
        for kind, rows in self.problems.groupby("kind", sort=False):
            of_rows = rows["agent"].notna().any()  # else it is one of the whole panel
            lines.append(f"problem: {kind}" + (f" ({len(rows)} rows)" if of_rows else ""))
            lines += [f"    {says}" for says in rows["says"].head(_MOST)]
            if len(rows) > _MOST:
                lines.append(f"    ... and {len(rows) - _MOST} more in .problems")
        return "\n".join([*lines, _ADVICE])

    @property
    def said(self) -> list[str]:
        """The panel's own notes and those of the check, each once."""
        return list(dict.fromkeys([*self.panel.notes, *self.notes["says"]]))

    def __str__(self) -> str:
        return self.summary()


def _counted(values: np.ndarray, name: str) -> pd.Series:
    distinct, counts = np.unique(values, return_counts=True)
    return pd.Series(counts, index=pd.Index(distinct, name=name), name="rows")
