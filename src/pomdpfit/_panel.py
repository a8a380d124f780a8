"""Panels: what each agent saw (z) and did (a), ragged, with masks for what is scored."""

import dataclasses
import os
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pomdpfit import _panel_agents, _panel_covariates, _panel_masks
from pomdpfit._errors import PanelError
from pomdpfit._labels import check_labels, kept_labels
from pomdpfit._model import Model, Primitives
from pomdpfit._on_device import on_device
from pomdpfit._panel_arrays import PanelArrays
from pomdpfit._panel_range import check_range
from pomdpfit._progress import Progress, long_running
from pomdpfit._shards import checked_shards
from pomdpfit._types import ArrayLike, Bool, Float, Int
from pomdpfit.data._arrays import entry_epochs, integer_pairs
from pomdpfit.data._columns import Columns
from pomdpfit.data._reading import read_table
from pomdpfit.data._repairs import Repair, checked_repairs
from pomdpfit.data._table import Table

if TYPE_CHECKING:
    from pomdpfit.streaming import PanelScan


@dataclasses.dataclass(frozen=True, eq=False)
class Panel:
    """Observations and actions of N agents over at most T periods.

    Row t of an agent holds z_t and a_t; its transition leads to row t + 1. `present` says which
    rows exist (each agent's come first), `acted` where there is an action (a last row may have
    none). `score_observation[i, t]` scores z_{t+1} given a_t, `score_choice[i, t]` scores a_t.
    `informs[i, t]` says whether z_{t+1} updates the belief; where it does not, the belief moves by
    P(s' | z, s, a) alone. `entry` is the decision epoch of each agent's first row. `covariates`
    are what a model reads under their names; the number of each agent's group among `groups` is
    one of them, named "group". `observation_labels` and `action_labels` are those that the data
    were read with, in the order of their codes; none where the data held codes. `shards` is the
    number of devices that evaluate it together.
    """

    z: Int[np.ndarray, "N T"]
    a: Int[np.ndarray, "N T"]
    present: Bool[np.ndarray, "N T"]
    acted: Bool[np.ndarray, "N T"]
    score_observation: Bool[np.ndarray, "N T"]
    score_choice: Bool[np.ndarray, "N T"]
    informs: Bool[np.ndarray, "N T"]
    entry: Int[np.ndarray, "N"]
    agents: tuple[Hashable, ...]
    times: np.ndarray
    notes: tuple[str, ...] = ()
    covariates: Mapping[str, Float[np.ndarray, "N T"]] = dataclasses.field(default_factory=dict)
    groups: tuple[Hashable, ...] = ()
    observation_labels: tuple[Hashable, ...] = ()
    action_labels: tuple[Hashable, ...] = ()
    shards: int = 1

    # ---- ways in ---------------------------------------------------------------------------

    @classmethod
    def from_arrays(
        cls,
        z: ArrayLike | Sequence[ArrayLike],
        a: ArrayLike | Sequence[ArrayLike],
        *,
        agents: Sequence[Hashable] | None = None,
        entry: ArrayLike | int | Mapping[Hashable, int] = 0,
    ) -> "Panel":
        """One row (or list entry) an agent; an agent's a may be one shorter than its z."""
        agents = tuple(range(len(z))) if agents is None else tuple(agents)
        if len(z) == 0:
            raise PanelError("the panel is empty: it has no agents.")
        if not len(z) == len(a) == len(agents) == len(set(agents)):
            raise PanelError(
                f"z, a and agents must tell of the same agents, each once, but there are {len(z)}, "
                f"{len(a)} and {len(set(agents))} of them."
            )
        rows, acts, z_flat, a_flat = integer_pairs(agents, z, a)
        times = np.arange(len(z_flat)) - np.repeat(np.cumsum(rows) - rows, rows)
        return cls._from_rows(agents, rows, acts, z_flat, a_flat, times, (), entry)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        agent: str,
        time: str,
        observation: str,
        action: str,
        observations: Sequence[Hashable] | None = None,
        actions: Sequence[Hashable] | None = None,
        freq: str | None = None,
        entry: int | Mapping[Hashable, int] = 0,
        group: str | None = None,
        groups: Sequence[Hashable] | None = None,
        covariates: Sequence[str] = (),
        repair: Repair | Sequence[Repair] = (),
        model: Model | None = None,
    ) -> "Panel":
        """A pandas or polars frame with one row for each agent and period.

        `observations` and `actions` list the labels in order where the columns hold labels; else
        they must hold whole numbers counted from 0. `freq` (a pandas period alias such as "M")
        turns dates into periods; `entry` is the decision epoch of each agent's first row (before
        any is dropped), for a finite horizon. `group` holds one label for each agent (see
        `pf.models.Grouped`), and `groups` lists them all in the model's order; `covariates` are
        columns of numbers that the model reads. Nothing is clamped, wrapped, filled or dropped, but
        for what `repair` asks for: `pf.DropRows`, `pf.DropAgents`, `pf.SplitAtGaps`, `pf.TopCode`.
        With a `model`, columns that hold its words for observations or actions are read by these,
        where none are listed. For files see `pf.read_panel`.
        """
        labels = (observations, actions, freq, group, groups)
        columns = Columns(agent, time, observation, action, *labels, tuple(covariates))
        return cls._from_table(Table.of_frame(frame, columns, model=model), repair, entry)

    @classmethod
    @long_running
    def scan_parquet(
        cls,
        path: str | os.PathLike[str],
        *,
        agent: str,
        time: str,
        observation: str,
        action: str,
        observations: Sequence[Hashable] | None = None,
        actions: Sequence[Hashable] | None = None,
        freq: str | None = None,
        entry: int | Mapping[Hashable, int] = 0,
        group: str | None = None,
        groups: Sequence[Hashable] | None = None,
        covariates: Sequence[str] = (),
        n_jobs: int | None = None,
        progress: Progress | bool | None = None,
        model: Model | None = None,
    ) -> "PanelScan":
        """A data set larger than memory: a folder of Parquet files, each agent's rows in one.

        Columns are named as in `from_frame`. All rows are read once, to be checked, and again at
        each evaluation of a likelihood, in chunks that fit memory; files are shared by `n_jobs`
        processes, as in joblib. Files are quickest to read whose rows stand agent by agent and
        period by period, with whole numbers for times and codes. With a `model`, columns of text
        hold its words for observations or actions, where none are listed.
        """
        from pomdpfit.streaming._scan_parquet import scan_parquet  # which makes panels

        labels = (observations, actions, freq, group, groups)
        columns = Columns(agent, time, observation, action, *labels, tuple(covariates))
        return scan_parquet(path, columns, entry, n_jobs, progress, model)

    @classmethod
    def _from_table(
        cls,
        table: Table,
        repair: Repair | Sequence[Repair],
        entry: int | Mapping[Hashable, int],
    ) -> "Panel":
        """What a frame or a file holds, read by its columns; for `from_frame` and `read_panel`."""
        reading = read_table(table, checked_repairs(repair))
        epochs = entry_epochs(entry, reading.came_as) + reading.elapsed
        panel = cls._from_rows(
            *(reading.agents, reading.rows, reading.acts, reading.z, reading.a),
            *(reading.times, reading.notes, epochs),
        )
        if reading.groups is not None:
            panel = panel.with_groups(reading.groups, table.columns.groups)
        panel = dataclasses.replace(
            panel,
            observation_labels=kept_labels(table.columns.observations),
            action_labels=kept_labels(table.columns.actions),
        )
        if not reading.covariates:
            return panel
        first, last = np.cumsum(reading.rows) - reading.rows, reading.rows - 1
        row = first[:, None] + np.minimum(np.arange(panel.z.shape[1]), last[:, None])
        padded = {name: values[row] for name, values in reading.covariates.items()}
        return panel.with_covariates(**padded)  # an agent's last value stands beyond its last row

    @classmethod
    def _from_rows(
        cls,
        agents: tuple[Hashable, ...],
        rows: Int[np.ndarray, "N"],
        acts: Int[np.ndarray, "N"],
        z: Int[np.ndarray, "n"],
        a: Int[np.ndarray, "m"],
        times: np.ndarray,
        notes: tuple[str, ...],
        entry: ArrayLike | int | Mapping[Hashable, int],
    ) -> "Panel":
        """Rectangles around the rows of agent after agent; everything is scored that can be.

        `rows` and `acts` count the rows and the actions of each agent.
        """
        period = np.arange(rows.max())
        present, acted = period < rows[:, None], period < acts[:, None]
        z_all, a_all = np.zeros(present.shape, dtype=int), np.zeros(present.shape, dtype=int)
        when = np.empty(present.shape, dtype=object)
        z_all[present], a_all[acted], when[present] = z, a, times
        continues = followed(present)
        return cls(
            z=z_all,
            a=a_all,
            present=present,
            acted=acted,
            score_observation=continues,
            score_choice=acted,
            informs=continues,
            entry=entry_epochs(entry, agents),
            agents=agents,
            times=when,
            notes=notes,
        )

    # ---- size ------------------------------------------------------------------------------

    @property
    def agent_count(self) -> int:
        """N."""
        return len(self.agents)

    @property
    def continues(self) -> Bool[np.ndarray, "N T"]:
        """Rows that are followed by another row of the same agent."""
        return followed(self.present)

    @property
    def epochs(self) -> Int[np.ndarray, "N T"]:
        """The decision epoch of each row."""
        return self.entry[:, None] + np.arange(self.z.shape[1])

    @property
    def nobs(self) -> int:
        """How many choices are scored."""
        return int(self.score_choice.sum())

    @property
    def scored(self) -> Bool[np.ndarray, "N"]:
        """Which agents have scored rows."""
        return np.asarray((self.score_choice | self.score_observation).any(axis=1))

    @property
    def scored_agents(self) -> int:
        """How many agents have scored rows."""
        return int(self.scored.sum())

    @property
    def scored_transitions(self) -> int:
        """How many transitions are scored."""
        return int(self.score_observation.sum())

    def __repr__(self) -> str:
        rows = int(self.present.sum())
        return (
            f"Panel({self.agent_count} agents, {rows} rows; scores {self.nobs} choices and "
            f"{self.scored_transitions} transitions)"
        )

    # ---- what the model reads beside z -----------------------------------------------------

    def with_covariates(self, **values: ArrayLike | float) -> "Panel":
        """The panel with these covariates: one number, one for each agent (N), or (N, T)."""
        arrays = {n: _panel_covariates.covariate_array(self, n, v) for n, v in values.items()}
        return dataclasses.replace(self, covariates={**self.covariates, **arrays})

    def with_groups(
        self,
        labels: Sequence[Hashable] | Mapping[Hashable, Hashable],
        groups: Sequence[Hashable] | None = None,
    ) -> "Panel":
        """The panel with one group label for each agent, in order or as a mapping from agent.

        `groups` lists all groups in the order of their numbers, which must be that of the model;
        by default those that occur, in the order of their first agents.
        """
        groups, numbers = _panel_covariates.group_numbers(self.agents, labels, groups)
        return dataclasses.replace(self.with_covariates(group=numbers), groups=groups)

    def contexts(
        self,
        names: Sequence[str],
        groups: tuple[Hashable, ...] | None = None,
        among: Mapping[str, Float[np.ndarray, "C"]] | None = None,
    ) -> tuple[dict[str, Float[np.ndarray, "C"]], Int[np.ndarray, "N T"]]:
        """The distinct rows of these covariates, and which of them each row of the panel has.

        `groups` are the model's, in the order of their numbers; `among` is a table that has all of
        these rows, if another one than the panel's own is to number them.
        """
        return _panel_covariates.contexts(self, names, groups, among)

    # ---- some of the agents ----------------------------------------------------------------

    def take(self, which: ArrayLike | Sequence[int]) -> "Panel":
        """These agents, by number or by mask (N); each at most once."""
        return _panel_agents.take(self, which)

    def shard(self, devices: int | None = None) -> "Panel":
        """The panel with its agents spread over so many JAX devices of this process, or all."""
        return dataclasses.replace(self, shards=checked_shards(devices))

    # ---- what is scored --------------------------------------------------------------------

    def score(
        self, *, choice: ArrayLike | None = None, observation: ArrayLike | None = None
    ) -> "Panel":
        """The panel with scoring restricted to these masks (N, T); beliefs update all the same."""
        return dataclasses.replace(
            self,
            score_choice=self.score_choice & _panel_masks.mask(self, choice),
            score_observation=self.score_observation & _panel_masks.mask(self, observation),
        )

    def exclude_transitions(self, where: ArrayLike | pd.DataFrame) -> "Panel":
        """Leave these transitions unscored, and let their z' not touch the belief.

        `where` is a boolean mask (N, T), or a frame with columns `agent` and `time` such as
        `pf.impossible_transitions` returns. The belief moves by P(s' | z, s, a) there: after a
        replacement it resets, whatever mileage was read. What was excluded is noted.
        """
        mask = _panel_masks.transitions(self, where) & self.continues
        note = f"{int(mask.sum())} transitions excluded on request"
        return dataclasses.replace(
            self,
            score_observation=self.score_observation & ~mask,
            informs=self.informs & ~mask,
            notes=(*self.notes, note),
        )

    def replaced(self, z: Int[np.ndarray, "N T"], a: Int[np.ndarray, "N T"], seed: int) -> "Panel":
        """A panel of the same shape with other observations and actions, drawn from a model.

        Masks are kept, but for transitions that had been excluded from the beliefs: there is no
        reason to exclude them in data that the model itself has made.
        """
        continues = self.continues
        return dataclasses.replace(
            self,
            z=np.where(self.present, z, 0),
            a=np.where(self.acted, a, 0),
            informs=continues,
            score_observation=self.score_observation | (continues & ~self.informs),
            notes=(f"simulated with seed {seed} in the shape of another panel",),
        )

    # ---- ways out --------------------------------------------------------------------------

    def arrays(self, context: Int[np.ndarray, "N T"] | None = None) -> PanelArrays:
        """The arrays that the likelihood reads; `context` numbers each row's covariates."""
        index = lambda column: on_device(column, np.int32)
        return PanelArrays(
            index(self.z),
            index(self.a),
            on_device(self.continues),
            on_device(self.informs),
            on_device(self.score_observation),
            on_device(self.score_choice),
            index(self.epochs),
            index(np.zeros_like(self.z) if context is None else context),
        )

    def to_frame(self, **columns: ArrayLike) -> pd.DataFrame:
        """One row for each agent and period, with any (N, T) arrays as further columns."""
        i, t = np.nonzero(self.present)
        frame = pd.DataFrame(
            {
                "agent": [self.agents[k] for k in i],
                "time": self.times[i, t].tolist(),
                "z": self.z[i, t],
                "a": pd.array(self.a[i, t], dtype="Int64"),
            }
        )
        frame.loc[~self.acted[i, t], "a"] = pd.NA
        for name, values in columns.items():
            frame[name] = np.asarray(values)[i, t]
        return frame

    def check(self, primitives: Primitives, model: Any = None) -> None:
        """Raise an error naming agent and period where the panel does not fit the model.

        With the `model` of these primitives its labels must be the panel's too, where both have
        words for them.
        """
        if model is not None:
            check_labels(self, model)
        check_range(self, primitives)


def followed(present: Bool[np.ndarray, "N T"]) -> Bool[np.ndarray, "N T"]:
    """Where the next row of the same agent is present too."""
    following = np.zeros_like(present)
    following[:, :-1] = present[:, 1:]
    return following
