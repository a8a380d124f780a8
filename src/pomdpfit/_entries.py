"""Entries of theta that move, between bounds and under linear equations; and charts of them.

phi collects all entries of the leaves that move: every entry of a simplex row, say. They obey
C phi = d (rows that sum to one, restrictions of the user's) and low <= phi <= high. A chart picks
independent entries y; the rest follows: phi = here + J (y - y_here). Natural coordinates with
bounds, unlike a transform to the whole real line, let an estimate lie on its boundary and say so.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from scipy.linalg import null_space

from pomdpfit._errors import ModelError
from pomdpfit._params import ParameterSpace
from pomdpfit._restrictions import Restrictions
from pomdpfit._types import Float, Theta

_ROUNDING = 1e-11  # of a sum of entries of order one


@dataclasses.dataclass(frozen=True)
class Entries:
    """The entries of some leaves of theta, their bounds and the equations between them."""

    leaves: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    names: tuple[str, ...]
    low: Float[np.ndarray, "n"]
    high: Float[np.ndarray, "n"]
    equations: Float[np.ndarray, "m n"]
    level: Float[np.ndarray, "m"]

    def flatten(self, theta: Theta) -> Float[np.ndarray, "n"]:
        """phi of theta."""
        parts = [np.ravel(np.asarray(theta[name], dtype=float)) for name in self.leaves]
        return np.concatenate(parts) if parts else np.zeros(0)

    def split(self, phi: Float[np.ndarray, "*b n"]) -> dict[str, np.ndarray]:
        """phi (or a stack of them) as leaves."""
        tree, start = {}, 0
        for name, shape in zip(self.leaves, self.shapes, strict=True):
            stop = start + int(np.prod(shape))
            tree[name] = phi[..., start:stop].reshape((*phi.shape[:-1], *shape))
            start = stop
        return tree

    def insert(self, phi: Float[np.ndarray, "n"], theta: Theta) -> dict[str, np.ndarray]:
        """theta with these entries; rounding never takes them out of bounds."""
        inside = self.split(np.clip(phi, self.low, self.high))
        return {name: inside.get(name, np.asarray(leaf)) for name, leaf in theta.items()}

    def at_bound(self, phi: Float[np.ndarray, "n"]) -> np.ndarray:
        """Which entries lie on a bound."""
        return (phi <= self.low) | (phi >= self.high)

    def pinned(self) -> np.ndarray:
        """Which entries an equation alone decides."""
        alone = np.count_nonzero(self.equations, axis=1) == 1
        return (self.equations[alone] != 0).any(axis=0)

    def pin(self, phi: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        """phi with every entry that an equation alone decides at its value, to the last bit."""
        alone = np.count_nonzero(self.equations, axis=1) == 1
        rows, columns = np.nonzero(self.equations[alone])
        phi = phi.copy()
        phi[columns] = self.level[alone] / self.equations[alone][rows, columns]
        return phi

    def on_bounds(self, phi: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        """phi between its bounds, and on those that rounding alone keeps it off."""
        near = 1e-13 * np.maximum(1.0, np.abs(phi))
        phi = np.where(phi - self.low <= near, self.low, phi)
        return np.where(self.high - phi <= near, self.high, phi)

    def chart(
        self,
        phi: Float[np.ndarray, "n"],
        held: np.ndarray | None = None,
        priority: Float[np.ndarray, "n"] | None = None,
    ) -> "Chart":
        """Coordinates at phi with the `held` entries fixed.

        Which entries follow from the others is decided by priority; by default those farthest
        from their bounds, which a step of the others can least push out.
        """
        held = np.zeros(len(phi), dtype=bool) if held is None else held
        if priority is None:
            priority = np.minimum(phi - self.low, self.high - phi)
        order = np.flatnonzero(~held)
        order = order[np.argsort(-priority[order], kind="stable")]
        reduced, dependent = _eliminate(self.equations, order)
        independent = np.array(
            [k for k in range(len(phi)) if not held[k] and k not in dependent], dtype=int
        )
        jacobian = np.zeros((len(phi), len(independent)))
        jacobian[independent, np.arange(len(independent))] = 1.0
        for row, k in enumerate(dependent):
            jacobian[k] = -reduced[row, independent]
        return Chart(independent, np.array(dependent, dtype=int), jacobian)


@dataclasses.dataclass(frozen=True)
class Chart:
    """Independent entries, dependent entries, and how all of them move with the independent."""

    independent: np.ndarray
    dependent: np.ndarray
    jacobian: Float[np.ndarray, "n p"]


def _eliminate(equations: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """Gauss-Jordan: each row solved for one entry, those first in `order` preferred."""
    rows, solved = equations.copy(), list[int]()
    for k in order:
        done = len(solved)
        if done == len(rows):
            break
        best = done + int(np.argmax(np.abs(rows[done:, k])))
        if abs(rows[best, k]) < 1e-9:
            continue
        rows[[done, best]] = rows[[best, done]]
        rows[done] /= rows[done, k]
        others = np.arange(len(rows)) != done
        rows[others] -= np.outer(rows[others, k], rows[done])
        solved.append(int(k))
    return rows[: len(solved)], solved


def free_entries(
    space: ParameterSpace,
    leaves: Sequence[str],
    theta: Theta,
    restrictions: Restrictions | None = None,
) -> Entries:
    """Entries of these leaves; restrictions are over all entries of the space, at this theta."""
    leaves = tuple(name for name in space.parameters if name in set(leaves))
    parameters = [space.parameters[name] for name in leaves]
    names = [
        n for name, p in zip(leaves, parameters, strict=True) for n in p.entry_names(name).flat
    ]
    bounds = [
        np.broadcast_to(p.constraint.bounds(), (int(np.prod(p.shape)), 2)) for p in parameters
    ]
    low, high = np.concatenate(bounds).T if bounds else np.zeros((2, 0))
    rows, level, start = [], [], 0
    for p in parameters:
        size = int(np.prod(p.shape))
        for block in p.constraint.sums(p.shape):
            rows.append(np.zeros(len(names)))
            rows[-1][start + block] = 1.0
            level.append(1.0)
        start += size
    if restrictions is not None:
        extra, value = _restricted(space, restrictions, names, theta)
        rows.extend(extra)
        level.extend(value)
    return Entries(
        leaves,
        tuple(p.shape for p in parameters),
        tuple(names),
        low,
        high,
        np.array(rows).reshape(len(rows), len(names)),
        np.array(level),
    )


def _restricted(
    space: ParameterSpace, restrictions: Restrictions, names: Sequence[str], theta: Theta
) -> tuple[list[np.ndarray], list[float]]:
    """The restrictions that touch these entries, with all other entries at their values."""
    everything = space.names
    mine = np.array([everything.index(name) for name in names], dtype=int)
    others = np.setdiff1d(np.arange(len(everything)), mine)
    values = space.to_series(theta).to_numpy()
    rows, level = [], []
    for row, value in zip(restrictions.matrix, restrictions.value, strict=True):
        if row[mine].any():
            size = np.abs(row[mine]).max()  # an equation means the same in any units
            rows.append(row[mine] / size)
            level.append((value - row[others] @ values[others]) / size)
    return rows, level


def project(entries: Entries, phi: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    """The nearest point to phi between the bounds and on the equations.

    First the foot on the plane of the equations; from there the shortest way within the plane to
    between the bounds, which is a nonnegative least squares problem (Lawson and Hanson 1974,
    chapter 23).
    """
    low, high, C = entries.low, entries.high, entries.equations
    phi = entries.pin(phi)
    gap = C @ phi - entries.level
    inside = (phi >= low).all() and (phi <= high).all()
    if inside and np.max(np.abs(gap), initial=0.0) < _ROUNDING:
        return phi
    near = phi - np.linalg.lstsq(C, gap, rcond=None)[0]
    plane = null_space(C) if len(C) else np.eye(len(phi))
    rows, room = np.vstack([plane, -plane]), np.concatenate([high - near, near - low])
    size = -np.min(room, initial=0.0)
    if size > 0:
        from scipy.optimize import nnls

        kept = np.isfinite(room)
        E = np.vstack([-rows[kept].T, -room[kept] / size])
        last = np.append(np.zeros(plane.shape[1]), 1.0)
        residual = E @ nnls(E, last)[0] - last
        if abs(residual[-1]) > _ROUNDING:  # else nothing is between the bounds
            near = near - size * plane @ residual[:-1] / residual[-1]
    near = entries.on_bounds(entries.pin(near))
    scale = np.maximum(1.0, np.abs(C) @ np.abs(near) + np.abs(entries.level))
    if np.max(np.abs(C @ near - entries.level) / scale, initial=0.0) > 1e-9:
        raise ModelError("no parameter values satisfy all restrictions and bounds together.")
    return near
