"""What a model reads from a panel beside z: covariates, groups, and the contexts they make."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Protocol

import numpy as np

from pomdpfit._errors import PanelError
from pomdpfit._types import ArrayLike, Bool, Float, Int


class Rows(Protocol):
    """The part of a panel that matters here."""

    @property
    def z(self) -> Int[np.ndarray, "N T"]: ...
    @property
    def present(self) -> Bool[np.ndarray, "N T"]: ...
    @property
    def agents(self) -> tuple[Hashable, ...]: ...
    @property
    def times(self) -> np.ndarray: ...
    @property
    def covariates(self) -> Mapping[str, Float[np.ndarray, "N T"]]: ...
    @property
    def groups(self) -> tuple[Hashable, ...]: ...


def covariate_array(panel: Rows, name: str, value: ArrayLike | float) -> Float[np.ndarray, "N T"]:
    """One number for every row, refused where a row that exists has none."""
    array, agents = np.asarray(value, dtype=float), len(panel.agents)
    if array.shape not in {(), (agents,), panel.z.shape}:
        raise PanelError(
            f"covariate {name!r} must be one number, {agents} of them or have shape "
            f"{panel.z.shape}, but it has {array.shape}."
        )
    array = np.broadcast_to(array[:, None] if array.ndim == 1 else array, panel.z.shape)
    if not np.isfinite(array[panel.present]).all():
        i, t = np.argwhere(panel.present & ~np.isfinite(array))[0]
        raise PanelError(
            f"agent {panel.agents[i]!r} at time {panel.times[i, t]}: covariate {name!r} is "
            f"{array[i, t]}, not a finite number."
        )
    return array


def group_numbers(
    agents: Sequence[Hashable],
    labels: Sequence[Hashable] | Mapping[Hashable, Hashable],
    groups: Sequence[Hashable] | None,
) -> tuple[tuple[Hashable, ...], Float[np.ndarray, "N"]]:
    """All groups, and the number of each agent's among them."""
    if isinstance(labels, Mapping):
        missing = [agent for agent in agents if agent not in labels]
        if missing:
            raise PanelError(f"there is no group for agent {missing[0]!r}.")
        labels = [labels[agent] for agent in agents]
    if len(labels) != len(agents):
        raise PanelError(
            f"there must be one group for each of {len(agents)} agents, but there are "
            f"{len(labels)}."
        )
    every = tuple(dict.fromkeys(labels) if groups is None else groups)
    number = {label: k for k, label in enumerate(every)}
    places = list(map(number.get, labels))
    if None in places or any(map(_is_missing, every)):
        _refuse_groups(agents, labels, every)
    return every, np.array(places, dtype=float)


def _refuse_groups(
    agents: Sequence[Hashable], labels: Sequence[Hashable], groups: tuple[Hashable, ...]
) -> None:
    """Refuse the first agent whose group is missing or not one of these."""
    known = set(groups)
    for agent, label in zip(agents, labels, strict=True):
        if _is_missing(label):
            raise PanelError(f"agent {agent!r}: the group is missing.")
        if label not in known:
            raise PanelError(f"agent {agent!r}: {label!r} is not one of groups={list(groups)}.")


def _is_missing(label: Hashable) -> bool:
    return label is None or (isinstance(label, float) and bool(np.isnan(label)))


def missing_covariate(name: str) -> PanelError:
    """What to say to a panel without a covariate that the model reads."""
    return PanelError(
        f"the model reads the covariate {name!r}, but the panel has none: name it in "
        "Panel.from_frame(covariates=[...]) or use panel.with_covariates."
    )


def contexts(
    panel: Rows,
    names: Sequence[str],
    groups: tuple[Hashable, ...] | None,
    among: Mapping[str, Float[np.ndarray, "C"]] | None = None,
) -> tuple[dict[str, Float[np.ndarray, "C"]], Int[np.ndarray, "N T"]]:
    """The distinct rows of these covariates, and which of them each row of the panel has."""
    if not names:
        return {}, np.zeros_like(panel.z)
    for name in names:
        if name not in panel.covariates:
            raise missing_covariate(name)
    if groups is not None:
        _check_groups(panel, groups)
    rows = np.stack([panel.covariates[name] for name in names], axis=-1)
    distinct, number = np.unique(rows[panel.present], axis=0, return_inverse=True)
    if among is not None:
        table = np.stack([among[name] for name in names], axis=-1)
        place = {row.tobytes(): c for c, row in enumerate(table + 0.0)}
        number = np.array([place[row.tobytes()] for row in distinct + 0.0])[number.ravel()]
        distinct = table
    context = np.zeros_like(panel.z)
    context[panel.present] = number.ravel()
    return {name: distinct[:, k] for k, name in enumerate(names)}, context


def _check_groups(panel: Rows, groups: tuple[Hashable, ...]) -> None:
    """Groups are told apart by number: labels must stand in the same order on both sides."""
    if panel.groups and panel.groups != groups:
        raise PanelError(
            f"the panel's groups are {list(panel.groups)}, but the model's are {list(groups)}: "
            "make the model with panel.groups, or name the model's in "
            "Panel.from_frame(groups=[...]) or panel.with_groups(labels, groups=[...])."
        )
    number = panel.covariates["group"]
    bad = panel.present & ~np.isin(number, np.arange(len(groups)))
    if bad.any():
        i, t = np.argwhere(bad)[0]
        raise PanelError(
            f"agent {panel.agents[i]!r} at time {panel.times[i, t]}: group {number[i, t]:g} is "
            f"not one of 0..{len(groups) - 1}, the numbers of {list(groups)}."
        )
