"""Local rank: how many directions of theta the data can tell apart, and which they cannot.

The scores of single rows, weighted by their probability, are a matrix R with R'R the information
of one agent: scores of different periods are uncorrelated. Its rank is that of the map from theta
to the distribution of the data (the Jacobian of the sequences' probabilities has the same null
space), and it is read off the singular values of R itself, which keep twice the digits of R'R.
"""

import dataclasses

import numpy as np
import pandas as pd
from scipy.linalg import qr

from pomdpfit._params import ParameterSpace
from pomdpfit._types import Float

WEAK = 1e-3  # singular values below this, relative to the largest, are called weak


@dataclasses.dataclass(frozen=True, eq=False)
class Rank:
    """The rank by number of periods, and the directions that are not told apart in the last.

    `values[T - 1]` has the singular values with T periods, each parameter in units of what one
    agent tells about it, relative to the largest. `directions` has a row for each direction of
    theta along which nothing seen changes, in all entries of theta; `weak` likewise the directions
    along which it hardly changes. `factor` is a root of the information of one agent.
    """

    what: str
    names: tuple[str, ...]
    values: Float[np.ndarray, "T p"]
    tolerance: float
    directions: pd.DataFrame
    weak: pd.DataFrame
    factor: Float[np.ndarray, "p p"] = dataclasses.field(repr=False)
    null: Float[np.ndarray, "p k"] = dataclasses.field(repr=False)

    @property
    def by_period(self) -> pd.Series:
        """Rank with 1, 2, ... periods."""
        ranks = (self.values > self.tolerance).sum(axis=1)
        return pd.Series(ranks, pd.RangeIndex(1, len(ranks) + 1, name="periods"), name="rank")

    @property
    def rank(self) -> int:
        """Rank with all periods."""
        return int(self.by_period.iloc[-1])

    @property
    def dimension(self) -> int:
        """Free parameters."""
        return len(self.names)

    @property
    def full(self) -> bool:
        """Whether every direction is told apart."""
        return self.rank == self.dimension

    @property
    def reached(self) -> int:
        """The number of periods at which the rank is what it is with all of them."""
        return int(self.by_period.index[self.by_period == self.rank][0])

    @property
    def rising(self) -> bool:
        """Whether the last period still added to a rank that is not full."""
        return not self.full and self.reached == len(self.values) > 1

    @property
    def information(self) -> Float[np.ndarray, "p p"]:
        """Of one agent, in the free coordinates."""
        return self.factor.T @ self.factor

    @property
    def told(self) -> pd.Series:
        """Whether each free parameter is told: whether no direction without effect moves it."""
        size = np.abs(self.null) / np.maximum(np.abs(self.null).max(axis=0), 1e-300)
        moved = size.max(axis=1, initial=0.0) > max(1e-7, 100 * self.tolerance)
        return pd.Series(~moved, self.names, name="told")

    def standard_errors(self) -> pd.Series:
        """Of an estimate from one agent, by theory: divide by the root of their number.

        Parameters that are not told have none.
        """
        values, vectors, unit, top = singular(self.factor, self.null)
        kept = values > self.tolerance
        spread = (vectors[:, kept] / (top * values[kept])) ** 2
        errors = unit * np.sqrt(spread.sum(axis=1))
        series = pd.Series(errors, self.names, name="std err, one agent")
        return series.where(self.told)

    def __str__(self) -> str:
        rises = self.by_period[self.by_period.diff() != 0]
        steps = ", ".join(f"{rank} with {T}" for T, rank in rises.items())
        text = (
            f"{self.what}: rank {self.rank} of {self.dimension}, reached at {self.reached} "
            f"period{'s' * (self.reached > 1)} ({steps})."
        )
        return text + (" Still rising: more periods may tell more." if self.rising else "")


def local_rank(
    what: str,
    rows: Float[np.ndarray, "n T p"],
    weights: Float[np.ndarray, "n"],
    space: ParameterSpace,
    tolerance: float,
    known: Float[np.ndarray, "p m"] | None = None,
) -> Rank:
    """The rank of weighted row scores in the free coordinates of a space.

    Along `known` directions nothing can change: what scores there are along them is the error of
    the belief grid, and they are taken out.
    """
    names = tuple(space.free_names)
    scores = rows * np.sqrt(weights)[:, None, None]
    factors = [_triangle(scores[:, t]) for t in range(rows.shape[1])]
    values, factor = [], np.zeros((0, len(names)))
    for each in factors:
        factor = _triangle(np.concatenate([factor, each]))
        values.append(singular(factor, known)[0])
    last, vectors, unit, _ = singular(factor, known)
    null = unit[:, None] * vectors[:, last <= tolerance]
    weak = unit[:, None] * vectors[:, (last > tolerance) & (last < WEAK)]
    return Rank(
        what,
        names,
        np.array(values),
        tolerance,
        named_directions(readable(null), space),
        named_directions(weak.T / np.abs(weak).max(axis=0, initial=1e-300)[:, None], space),
        factor,
        null,
    )


def _triangle(matrix: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "m p"]:
    """R of QR: the same singular values in few rows."""
    return matrix if len(matrix) <= matrix.shape[1] else np.asarray(np.linalg.qr(matrix, "r"))


def singular(
    factor: np.ndarray, known: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Singular values relative to the largest, right vectors, units of the columns, the largest.

    A column far below all others is a parameter that matters nowhere: its unit is that of theta.
    """
    p = factor.shape[1]
    size = np.sqrt((factor**2).sum(axis=0))
    told = size > 1e-13 * size.max(initial=0.0)
    unit = np.where(told, 1 / np.where(told, size, 1.0), 1.0)
    scaled = np.where(told, factor * unit, 0.0)
    if known is not None and known.shape[1]:
        along, _ = np.linalg.qr(known / unit[:, None])
        scaled = scaled - (scaled @ along) @ along.T
    scaled = np.concatenate([scaled, np.zeros((max(p - len(scaled), 0), p))])
    _, values, vectors = np.linalg.svd(scaled, full_matrices=False)
    top = max(float(values.max(initial=0.0)), 1e-300)
    return values / top, vectors.T, unit, top


def readable(null: Float[np.ndarray, "p k"]) -> Float[np.ndarray, "k p"]:
    """A basis of the same space in which each direction has a parameter of its own.

    k of the parameters are picked that move most freely; each direction moves one of them by one,
    the other picked ones not at all.
    """
    if null.shape[1] == 0:
        return null.T
    basis, _ = np.linalg.qr(null)
    _, _, order = qr(basis.T, pivoting=True)
    picked = np.sort(order[: null.shape[1]])
    directions = np.linalg.solve(basis[picked].T, basis.T)
    return np.where(np.abs(directions) < 1e-9, 0.0, directions)


def named_directions(directions: Float[np.ndarray, "k p"], space: ParameterSpace) -> pd.DataFrame:
    """Directions in the free coordinates as moves of every entry of the free parameters."""
    moves = space.free_directions()
    columns = [n for name in moves for n in space.parameters[name].entry_names(name).flat]
    flat = [np.tensordot(directions, move, axes=1) for move in moves.values()]
    table = [part.reshape(len(directions), int(np.prod(part.shape[1:]))) for part in flat]
    index = pd.RangeIndex(1, len(directions) + 1, name="direction")
    return pd.DataFrame(np.concatenate(table, axis=1), index, columns)


def in_words(
    direction: pd.Series, size: pd.Series | None = None, least: float = 1e-6, most: int = 6
) -> str:
    """The entries that a direction moves most, with their rates.

    `size` says what is much, where the parameters have different units; entries below `least` of
    the largest are not told.
    """
    size = direction.abs() if size is None else size
    order = size[size > least * size.max()].sort_values(ascending=False, kind="stable").index
    moved = direction[order]
    text = ", ".join(f"{name} {rate:+.3g}" for name, rate in moved.iloc[:most].items())
    rest = len(moved) - most
    return text + (f" and {rest} more" if rest > 0 else "")


def overlap(found: Float[np.ndarray, "p k"], known: Float[np.ndarray, "p m"]) -> int:
    """How many dimensions of the one space lie in the other."""
    if not found.shape[1] or not known.shape[1]:
        return 0
    unit = np.abs(np.concatenate([found, known], axis=1)).max(axis=1)
    # A parameter that neither space moves is left alone: its rounding must not count.
    unit = np.where(unit > 1e-9 * unit.max(), unit, unit.max())[:, None]
    first, second = (np.linalg.qr(space / unit)[0] for space in (found, known))
    cosines = np.linalg.svd(first.T @ second, compute_uv=False)
    return int((cosines > 1 - 1e-5).sum())
