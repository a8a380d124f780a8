"""Panels of one shape, cut from blocks of whole agents, so that all are served by one program."""

import dataclasses
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import numpy as np

from pomdpfit._labels import kept_labels
from pomdpfit._panel import Panel, followed
from pomdpfit.data._arrays import entry_epochs
from pomdpfit.data._columns import Columns
from pomdpfit.streaming._clean_rows import NO_ACTION, CleanRows


def panel_of(block: CleanRows, columns: Columns, entry: int | Mapping[Hashable, int] = 0) -> Panel:
    """The agents of a block as a panel: what `Panel.from_frame` makes of them, by array."""
    starts = block.starts
    lengths = np.diff(np.concatenate([starts, [len(block.z)]]))
    N, T = len(starts), int(lengths.max())
    i = np.repeat(np.arange(N), lengths)
    t = np.arange(len(block.z)) - np.repeat(starts, lengths)
    place = i * T + t

    def rectangle(values: np.ndarray) -> np.ndarray:
        table = np.zeros(N * T, dtype=values.dtype)
        table[place] = values
        return table.reshape(N, T)

    present = np.arange(T) < lengths[:, None]
    acted = rectangle(block.a != NO_ACTION)
    continues = followed(present)
    agents = tuple(block.agent[starts].tolist())
    return Panel(
        z=rectangle(block.z),
        a=np.where(acted, rectangle(block.a), 0),
        present=present,
        acted=acted,
        score_observation=continues,
        score_choice=acted,
        informs=continues,
        entry=entry_epochs(entry, agents),
        agents=agents,
        times=rectangle(block.time),
        covariates={
            name: rectangle(block.covariates[:, k]) for k, name in enumerate(columns.read_beside_z)
        },
        groups=tuple(columns.groups or ()),
        observation_labels=kept_labels(columns.observations),
        action_labels=kept_labels(columns.actions),
    )


def cut(panel: Panel, agents: int, periods: int) -> Iterator[Panel]:
    """The panel in pieces of so many agents and periods each, the rest filled with nobody.

    Nobody has the id, the first observation and the covariates of the piece's first agent, so that
    priors are there for him; he has no rows, and nothing of him is scored.
    """
    if panel.z.shape == (agents, periods):
        yield panel
        return
    for first in range(0, panel.agent_count, agents):
        yield _filled(panel, slice(first, first + agents), agents, periods)


def _filled(panel: Panel, part: slice, agents: int, periods: int) -> Panel:
    N, T = panel.z[part].shape
    wide = ((0, 0), (0, periods - T))

    def rows(values: np.ndarray) -> np.ndarray:
        """Rows that are not there repeat the last of their agent, agents the first one."""
        known = np.pad(values[part], wide, "edge")
        return np.concatenate([known, np.broadcast_to(known[:1], (agents - N, periods))])

    def masks(values: np.ndarray) -> np.ndarray:
        return np.pad(values[part], ((0, agents - N), wide[1]))

    ids = panel.agents[part]
    filled: dict[str, Any] = {name: rows(getattr(panel, name)) for name in ("z", "a", "times")}
    scored = ("present", "acted", "informs", "score_observation", "score_choice")
    filled |= {name: masks(getattr(panel, name)) for name in scored}
    return dataclasses.replace(
        panel,
        **filled,
        entry=np.concatenate([panel.entry[part], np.repeat(panel.entry[part][:1], agents - N)]),
        agents=(*ids, *ids[:1] * (agents - N)),
        covariates={name: rows(values) for name, values in panel.covariates.items()},
    )
