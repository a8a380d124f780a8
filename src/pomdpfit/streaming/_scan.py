"""A data set on disk in the place of a panel in memory."""

import dataclasses
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from pomdpfit._errors import PanelError
from pomdpfit._labels import check_labels, kept_labels
from pomdpfit._panel import Panel
from pomdpfit._panel_agents import join
from pomdpfit._panel_covariates import missing_covariate
from pomdpfit._types import Float
from pomdpfit.data._columns import Columns
from pomdpfit.streaming._chunks import cut
from pomdpfit.streaming._clean_rows import NotClean
from pomdpfit.streaming._partition import (
    Partition,
    distinct_contexts,
    partition_panels,
    require_unchanged,
)

CHUNK_ROWS = 2**19  # of a panel that is evaluated at a time
_IN_MEMORY = frozenset(field.name for field in dataclasses.fields(Panel)) - {"groups", "notes"}


@dataclasses.dataclass(frozen=True, eq=False)
class PanelScan:
    """A Parquet data set, read anew at each evaluation; made by `Panel.scan_parquet`.

    It stands where a `Panel` stands in `pf.fit`: what needs sums over agents can be had of it. Rows
    and agents are not kept; for what needs those take a part of them, `sample(...)`, or all,
    `collect()`.
    """

    path: str
    columns: Columns
    partitions: tuple[Partition, ...] = dataclasses.field(repr=False)
    entry: int | Mapping[Hashable, int] = 0

    @property
    def agent_count(self) -> int:
        """N."""
        return sum(part.agents for part in self.partitions)

    @property
    def rows(self) -> int:
        """Of all agents."""
        return sum(part.rows for part in self.partitions)

    @property
    def periods(self) -> int:
        """T, the rows of the agent that has most."""
        return max(part.longest for part in self.partitions)

    @property
    def nobs(self) -> int:
        """How many choices are scored."""
        return sum(part.choices for part in self.partitions)

    @property
    def scored_agents(self) -> int:
        """How many agents have scored rows; all of them where the scan did not count."""
        counts = (part.agents if part.scored is None else part.scored for part in self.partitions)
        return sum(counts)

    @property
    def scored_transitions(self) -> int:
        """How many transitions are scored."""
        return sum(part.transitions for part in self.partitions)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done to read it, file by file."""
        return tuple(note for part in self.partitions for note in part.notes)

    @property
    def groups(self) -> tuple[Hashable, ...]:
        """The labels of the groups, in the order of their numbers."""
        return tuple(self.columns.groups or ())

    @property
    def observation_labels(self) -> tuple[Hashable, ...]:
        """The labels that observations are read by; none where the data hold codes."""
        return kept_labels(self.columns.observations)

    @property
    def action_labels(self) -> tuple[Hashable, ...]:
        """The labels that actions are read by; none where the data hold codes."""
        return kept_labels(self.columns.actions)

    def __repr__(self) -> str:
        return (
            f"PanelScan({self.path!r}: {len(self.partitions)} files, {self.agent_count:,} agents, "
            f"{self.rows:,} rows; scores {self.nobs:,} choices and {self.scored_transitions:,} "
            "transitions)"
        )

    def __getattr__(self, name: str) -> Any:
        if name in _IN_MEMORY:
            raise PanelError(
                f"{name!r} is not kept of a data set that is streamed from {self.path}. Take a "
                "part of it as a panel, scan.sample(1000, seed=0), or all, scan.collect()."
            )
        raise AttributeError(name)

    # ---- as panels -------------------------------------------------------------------------

    def collect(self) -> Panel:
        """All agents as a panel in memory."""
        return join(list(self.panels()))

    def sample(self, agents: int, seed: int) -> Panel:
        """So many agents, drawn without replacement, as a panel in memory, in their order."""
        if not 1 <= agents <= self.agent_count:
            raise PanelError(
                f"a sample must have 1 to {self.agent_count} agents, but {agents} were asked for."
            )
        rng = np.random.default_rng(seed)
        wanted = np.sort(rng.choice(self.agent_count, agents, replace=False))
        found, before = [], 0
        for panel in self.panels():
            here = wanted[(wanted >= before) & (wanted < before + panel.agent_count)] - before
            before += panel.agent_count
            if len(here):
                found.append(panel.take(here))
        return join(found)

    def panels(self) -> Iterator[Panel]:
        """All agents in their order, in panels of a bounded number of rows."""
        for number in range(len(self.partitions)):
            yield from self.partition(number)

    def partition(self, number: int, multiple: int = 1) -> Iterator[Panel]:
        """The agents of one file, a multiple of so many at a time as long as there are."""
        part = self.partitions[number]
        require_unchanged(part)
        try:
            yield from partition_panels(
                part.path,
                self.columns,
                self.entry,
                CHUNK_ROWS,
                clean=part.clean,
                multiple=multiple,
            )
        except NotClean as error:
            raise PanelError(f"{part.path} has changed since it was scanned.") from error

    def chunks(self, number: int) -> Iterator[Panel]:
        """The agents of one file in panels of one shape, which is the same for all files."""
        agents = max(part.agents for part in self.partitions)
        agents = min(agents, max(1, CHUNK_ROWS // self.periods))
        for panel in self.partition(number, agents):
            yield from cut(panel, agents, self.periods)

    # ---- what a model reads beside z -------------------------------------------------------

    def contexts(
        self, names: Sequence[str], groups: tuple[Hashable, ...] | None = None
    ) -> dict[str, Float[np.ndarray, "C"]]:
        """The distinct rows of these covariates in all files."""
        there = self.columns.read_beside_z
        for name in names:
            if name not in there:
                raise missing_covariate(name)
        table = distinct_contexts([part.contexts for part in self.partitions])
        chosen = np.unique(table[:, [there.index(name) for name in names]], axis=0)
        return {name: chosen[:, k] for k, name in enumerate(names)}

    def check_labels(self, model: Any) -> None:
        """Refuse a model whose labels are not the data set's, in its order."""
        check_labels(cast(Panel, self), model)
