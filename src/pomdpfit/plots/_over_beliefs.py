"""A function of (z, x), such as a choice probability or a value, drawn as its beliefs allow."""

from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from pomdpfit._errors import ModelError
from pomdpfit._types import ArrayLike, Float
from pomdpfit.plots._palette import BLUE, MAP, colour, dash, plain
from pomdpfit.plots._subject import Subject

_POINTS = 201  # on an edge of the belief simplex
_STEPS = 30  # on an edge of the triangle
_FEW = 5  # lines, where no z is chosen
_TICKS = 10  # names of observations, at most

Function = Callable[[np.ndarray, np.ndarray], np.ndarray]
Edge = tuple[str | int, str | int]


def draw_over(
    subject: Subject,
    read: Function,
    label: str,
    *,
    z: int | Sequence[int] | None,
    edge: Edge | None,
    ax: Axes | None,
    levels: Sequence[float] = (),
) -> Axes:
    """Over z (one state), over z and x (two), over the triangle of x (three), or along an edge."""
    ax = plt.gca() if ax is None else ax
    states = len(subject.states)
    if states == 1:
        _over_z(subject, read, label, ax)
    elif states == 2 and z is None and edge is None and subject.observations > 1:
        belief = np.linspace(0.0, 1.0, _POINTS)
        every = np.arange(subject.observations)
        table = read(every[None, :], along_edge(belief, 2, 0, 1)[:, None, :])
        heat_map(ax, table, label, subject.states[1], levels)
        _name_observations(ax, subject)
    elif states == 3 and edge is None and np.ndim(0 if z is None else z) == 0:
        chosen = subject.observations // 2 if z is None else int(np.asarray(z))
        _over_triangle(subject, read, label, chosen, ax)
    else:
        _along_an_edge(subject, read, label, z, edge, ax)
    if subject.where:
        ax.set_title(plain(subject.where), fontsize=9)
    return ax


def along_edge(
    share: Float[np.ndarray, "n"], states: int, first: int, second: int
) -> Float[np.ndarray, "n S"]:
    """Beliefs that give a share to the second of two states and the rest to the first."""
    x = np.zeros((len(share), states))
    x[:, first], x[:, second] = 1 - share, share
    return x


def heat_map(
    ax: Axes,
    table: Float[np.ndarray, "n Z"],
    label: str,
    state: str,
    levels: Sequence[float] = (),
) -> None:
    """A table over beliefs in one state (rows, evenly from 0 to 1) and observations (columns)."""
    belief, z = np.linspace(0.0, 1.0, len(table)), np.arange(table.shape[1])
    image = ax.pcolormesh(z, belief, table, cmap=MAP, shading="nearest", rasterized=True)
    met = [level for level in levels if table.min() < level < table.max()]
    if met and table.shape[1] > 1:
        lines = ax.contour(z, belief, table, levels=met, colors="white")
        ax.clabel(lines, fmt="%g", fontsize=8)
    ax.figure.colorbar(image, ax=ax, label=plain(label))
    ax.set_xlabel("observation z")
    ax.set_ylabel(plain(f"belief x({state})"))


def _over_z(subject: Subject, read: Function, label: str, ax: Axes) -> None:
    z = np.arange(subject.observations)
    ax.plot(z, read(z, np.ones((len(z), 1))), "o-", ms=3, color=BLUE)
    ax.set_xlabel("observation z")
    ax.set_ylabel(plain(label))
    _name_observations(ax, subject)


def _name_observations(ax: Axes, subject: Subject) -> None:
    """The names of z along the axis, as many as there is room for; numbers stand there anyway."""
    numbers = tuple(map(str, range(subject.observations)))
    if subject.readings not in {(), numbers}:
        z = np.unique(np.linspace(0, subject.observations - 1, _TICKS).astype(int))
        ax.set_xticks(z, [plain(subject.readings[k]) for k in z])


def _along_an_edge(
    subject: Subject,
    read: Function,
    label: str,
    z: int | Sequence[int] | None,
    edge: Edge | None,
    ax: Axes,
) -> None:
    """A line for each z, over the share of belief in the second state of the edge."""
    ends = (0, len(subject.states) - 1) if edge is None else edge
    first, second = (subject.state(end) for end in ends)
    if first == second:
        raise ModelError(f"an edge joins two states, but both ends of {edge!r} are the same.")
    if z is None:
        z = np.unique(np.linspace(0, subject.observations - 1, _FEW).astype(int)).tolist()
    share = np.linspace(0.0, 1.0, _POINTS)
    x = along_edge(share, len(subject.states), first, second)
    for k, one in enumerate(np.atleast_1d(np.asarray(z))):
        ax.plot(share, read(one, x), color=colour(k), linestyle=dash(k), label=subject.at(one))
    ax.set_xlabel(plain(edge_label(subject.states, first, second)))
    ax.set_ylabel(plain(label))
    ax.legend(fontsize=8)


def edge_label(states: Sequence[str], first: int, second: int) -> str:
    """What the axis along an edge is called."""
    if len(states) == 2:
        return f"belief x({states[second]})"
    return f"belief x({states[second]}), the rest in {states[first]}"


def _over_triangle(subject: Subject, read: Function, label: str, z: int, ax: Axes) -> None:
    """All beliefs over three states at one z; a corner is certainty."""
    i, j = (k.ravel() for k in np.meshgrid(range(_STEPS + 1), range(_STEPS + 1)))
    i, j = i[i + j <= _STEPS], j[i + j <= _STEPS]
    x = np.stack([_STEPS - i - j, i, j], axis=-1) / _STEPS
    place = triangle_place(x)
    values = read(np.full(len(x), z), x)
    image = ax.tripcolor(place[:, 0], place[:, 1], values, cmap=MAP, rasterized=True)
    ax.figure.colorbar(image, ax=ax, label=plain(f"{label}, {subject.at(z)}"))
    sides = (("top", -4), ("top", -4), ("bottom", 4))  # points of room between corner and name
    for corner, state, (side, room) in zip(np.eye(3), subject.states, sides, strict=True):
        x, y = triangle_place(corner)
        ax.annotate(
            plain(f"x({state}) = 1"),
            (x, y),
            (0, room),
            textcoords="offset points",
            ha="center",
            va=side,
            fontsize=9,
        )
    ax.set_aspect("equal")
    ax.set_axis_off()
    ax.margins(0.12)


def triangle_place(x: ArrayLike) -> Float[np.ndarray, "*b 2"]:
    """Where a belief over three states lies in the plane: corners left, right and top."""
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
    return np.asarray(x) @ corners
