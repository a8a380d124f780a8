"""The same world with an agent who sees more of it: a further signal, or the hidden state itself.

Observations are counted (z, y), y running fastest, and likewise (z, s).
"""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from pomdpfit._constraints import Simplex
from pomdpfit._errors import ModelError
from pomdpfit._kernel import Kernel, Pattern
from pomdpfit._model import Model, require_model
from pomdpfit._types import Array, ArrayLike, Bool, Float, Theta
from pomdpfit.counterfactuals._wrapped import AbstractWrapped, sizes


def checked_signal(signal: ArrayLike | Sequence, states: int) -> Float[np.ndarray, "S Y"]:
    """P(y | s), a row for each hidden state; refused, never renormalised."""
    table = np.asarray(signal, dtype=float)
    if table.ndim != 2 or table.shape[0] != states or table.shape[1] < 1:
        raise ModelError(
            f"a signal needs P(y | s) in shape ({states}, Y), one row for each hidden state, but "
            f"it has {table.shape}."
        )
    names = [[f"P(y={y} | s={s})" for y in range(table.shape[1])] for s in range(states)]
    Simplex().check(table, np.array(names, dtype=object))
    return table


class WithSignal(AbstractWrapped):
    """The same model in which the agent also sees y each period, drawn from P(y | s).

    P((z', y'), s' | (z, y), s, a) = P(z', s' | z, s, a) P(y' | s'). Rewards, actions and theta are
    as before. y is independent of all else given s, and of s alone it speaks: what it told is in
    the belief, so that V((z, y), x) is the same for all y.
    """

    model: Model
    signal: Float[ArrayLike, "S Y"]

    def __init__(self, model: Model, signal: ArrayLike | Sequence) -> None:
        require_model(model)
        self.model, self.signal = model, checked_signal(signal, sizes(model)[1])

    @property
    def readings(self) -> int:
        """|Y|."""
        return self.signal.shape[1]

    def kernel(self, theta: Theta) -> Kernel:
        """Each successor z' becomes |Y| of them."""
        inner, Y = self.model.kernel(theta), self.readings
        mass = jnp.einsum("zakst,ty->zakyst", jnp.asarray(inner.probability), self.signal)
        mass = mass.reshape(*mass.shape[:2], -1, *mass.shape[4:])
        patterns = tuple(
            Pattern(
                tuple(Y * z for z in p.law for _ in range(Y)), Y * p.slots, p.everywhere, p.blind
            )
            for p in inner.sharing()
        )
        successors = _rows(_split(inner.successors, Y), Y)
        return Kernel(successors, _rows(mass, Y), Y * inner.observations, patterns)

    def reward(self, theta: Theta) -> Float[Array, "ZY S A"]:
        """Whatever y."""
        return jnp.repeat(jnp.asarray(self.model.reward(theta)), self.readings, axis=0)

    def available(self) -> Bool[np.ndarray, "ZY A"] | None:
        """Whatever y."""
        own = self.model.available()
        return None if own is None else own.repeat(self.readings, axis=0)

    def terminal(self, theta: Theta) -> Float[Array, "ZY S"] | None:
        """Whatever y."""
        own = self.model.terminal(theta)
        return None if own is None else jnp.repeat(jnp.asarray(own), self.readings, axis=0)

    def observation_labels(self) -> None:
        """Pairs (z, y) go by their numbers."""
        return


class FullyObserved(AbstractWrapped):
    """The same model in which the agent sees s as well: the MDP on (z, s), with nothing hidden.

    P((z', s') | (z, s), a) = P(z', s' | z, s, a) and r((z, s), a) = r(z, s, a).
    """

    model: Model

    def __check_init__(self) -> None:
        require_model(self.model)

    def kernel(self, theta: Theta) -> Kernel:
        """Each successor z' becomes |S| of them, and each row z likewise."""
        inner = self.model.kernel(theta)
        Z, S = inner.observations, inner.states
        mass = jnp.asarray(inner.probability)
        mass = jnp.broadcast_to(mass, (Z, *mass.shape[1:]))
        mass = jnp.transpose(mass, (0, 3, 1, 2, 4)).reshape(Z * S, inner.actions, -1, 1, 1)
        patterns = tuple(
            Pattern(
                tuple(S * z + (0 if p.blind else s) for z in p.law for s in range(S)),
                S * p.slots,
                p.everywhere and p.blind,
            )
            for p in inner.sharing()
        )
        return Kernel(_rows(_split(inner.successors, S), S), mass, Z * S, patterns)

    def reward(self, theta: Theta) -> Float[Array, "ZS 1 A"]:
        """r(z, s, a)."""
        reward = jnp.asarray(self.model.reward(theta))
        return reward.reshape(-1, 1, reward.shape[2])

    def available(self) -> Bool[np.ndarray, "ZS A"] | None:
        """As at z."""
        own = self.model.available()
        return None if own is None else own.repeat(sizes(self.model)[1], axis=0)

    def terminal(self, theta: Theta) -> Float[Array, "ZS 1"] | None:
        """That of (z, s)."""
        own = self.model.terminal(theta)
        return None if own is None else jnp.asarray(own).reshape(-1, 1)

    def state_labels(self) -> None:
        """There is nothing hidden to be named."""
        return

    def observation_labels(self) -> None:
        """Pairs (z, s) go by their numbers."""
        return


def _split(successors: ArrayLike, count: int) -> ArrayLike:
    """z' -> (z', 0), (z', 1), ..., as numbers."""
    each = successors[..., None] * count + np.arange(count)
    return each.reshape(*each.shape[:2], -1)


def _rows(table: ArrayLike, count: int) -> ArrayLike:
    """One row for each of the `count` observations that a z has become; one row serves them all."""
    return table if len(table) == 1 else table.repeat(count, axis=0)
