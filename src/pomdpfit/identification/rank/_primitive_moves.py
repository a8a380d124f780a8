"""Small moves of a model's primitives: along theta, along the gauge, by shaping, by scaling.

A move is a dictionary of arrays in the shapes of the primitives' parts; what it does not name
stays.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from pomdpfit._model import Model, Primitives
from pomdpfit._params import ParameterSpace
from pomdpfit._types import Float, Int, Theta

Move = dict[str, np.ndarray]


def parts(primitives: Primitives) -> dict:
    """Everything that decides what is seen, as arrays; the kernel with a row for every z."""
    kernel, Z = primitives.kernel, primitives.observations
    probability = jnp.asarray(kernel.probability)
    found = {
        "kernel": jnp.broadcast_to(probability, (Z, *probability.shape[1:])),
        "reward": primitives.reward,
        "discount": primitives.discount,
    }
    if primitives.terminal is not None:
        found["terminal"] = primitives.terminal
    for k, leaf in enumerate(jax.tree.leaves(primitives.shock)):
        found[f"shock {k}"] = jnp.asarray(leaf, dtype=float)
    return found


def along_theta(model: Model, theta: Theta, space: ParameterSpace) -> list[Move]:
    """How the primitives move with each free coordinate of the space (a prior's move nothing)."""
    directions = space.free_directions()
    at = {n: jnp.asarray(theta[n]) for n in model.parameters()}
    own = {n: jnp.asarray(d) for n, d in directions.items() if n in at}
    count = len(next(iter(directions.values()))) if directions else 0
    if not own:
        return [{} for _ in range(count)]
    here = {n: at[n] for n in own}
    at_moved = lambda moved: parts(model.primitives({**at, **moved}))
    stacked = jax.jit(jax.vmap(lambda d: jax.jvp(at_moved, (here,), (d,))[1]))(own)
    tables = {name: np.asarray(leaf) for name, leaf in stacked.items()}
    return [{name: table[k] for name, table in tables.items()} for k in range(count)]


@dataclasses.dataclass(frozen=True, eq=False)
class Place:
    """The primitives at one theta, as plain arrays."""

    parts: dict[str, np.ndarray]
    successors: Int[np.ndarray, "Z A K"]
    scale: str | None  # the part that is the scale of the shocks

    @property
    def size(self) -> tuple[int, int, int]:
        """|Z|, |S|, |A|."""
        return self.parts["reward"].shape


def place(primitives: Primitives) -> Place:
    """The primitives as plain arrays."""
    table = np.asarray(primitives.kernel.successors)
    successors = np.broadcast_to(table, (primitives.observations, *table.shape[1:]))
    scale = getattr(primitives.shock, "scale", None)
    named = [k for k, leaf in enumerate(jax.tree.leaves(primitives.shock)) if leaf is scale]
    arrays = {n: np.asarray(p) for n, p in parts(primitives).items()}
    return Place(arrays, successors, f"shock {named[0]}" if named else None)


def turned(at: Place, z: int, G: Float[np.ndarray, "S S"]) -> Move:
    """The gauge at one z: G_z P(z', z, a) - P(z', z, a) G_z', and G_z r(z, ., a)."""
    here, kernel = at.parts, at.parts["kernel"]
    change = np.zeros_like(kernel)
    leads = at.successors == z
    change[leads] = -(kernel[leads] @ G)
    change[z] += np.einsum("st,aktu->aksu", G, kernel[z])
    move = {"kernel": change}
    for name in ("reward", "terminal"):
        if name in here:
            move[name] = np.zeros_like(here[name])
            move[name][z] = G @ here[name][z]
    return move


def shaped(at: Place, z: int, s: int, horizon: int | None) -> list[Move]:
    """c - beta E c for the c that is 1 at (z, s).

    With a horizon c may change from epoch to epoch, as long as the reward that it adds does not:
    one move for each epoch's c, which adds c to "reward t" and -beta E c to "reward t - 1"; the
    last is that of the terminal value.
    """
    here = at.parts
    ahead = np.where((at.successors == z)[..., None], here["kernel"][..., s], 0.0).sum(axis=2)
    before = -float(here["discount"]) * np.swapaxes(ahead, 1, 2)
    now = np.zeros_like(before)
    now[z, s] = 1.0
    if horizon is None:
        return [{"reward": now + before}]
    end = np.zeros_like(here["terminal"])
    end[z, s] = 1.0
    moves: list[Move] = [{f"reward {t}": now} for t in range(horizon)] + [{"terminal": end}]
    for t, move in enumerate(moves[1:]):
        move[f"reward {t}"] = before
    return moves


def scaled(at: Place) -> Move:
    """Rewards, terminal value and the scale of the shocks in proportion."""
    names = ("reward", "terminal", at.scale)
    return {name: at.parts[name] for name in names if name in at.parts}
