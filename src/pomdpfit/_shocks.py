"""Reward shocks: the expected maximum and the choice probabilities, its gradient.

Convention, fixed here and nowhere else: every shock has mean zero, so that
E max_a {q_a + eps_a} = emax(q) without the Euler constant. The density printed with the paper's
Theorem 3 has mean 2 gamma while its V-bar adds gamma; choice probabilities do not depend on it,
levels of the value do (each convention shifts them by a constant / (1 - beta)).
"""

import abc
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from pomdpfit._errors import ModelError
from pomdpfit._precision import require_float64
from pomdpfit._soft_maximum import log_softmax, soft_maximum
from pomdpfit._types import Array, ArrayLike, Bool, Float


def _as_array(values: ArrayLike | Sequence[float]) -> ArrayLike:
    """Numbers as float64 before JAX has been told of it; arrays that JAX traces as they are."""
    return values if isinstance(values, jax.Array) else np.asarray(values, dtype=np.float64)


class AbstractShock(eqx.Module):
    """A distribution of the reward shocks of one period, independent over periods.

    emax must be that of a random utility model: raising q_a raises the probability of a and lowers
    that of every other action. The certificate builds on it.
    """

    @abc.abstractmethod
    def emax(
        self, q: Float[ArrayLike, "*b A"], available: Bool[ArrayLike, "*b A"] | None = None
    ) -> Float[Array, "*b"]:
        """E max_a {q_a + eps_a} over the available actions."""

    @abc.abstractmethod
    def log_choice(
        self, q: Float[ArrayLike, "*b A"], available: Bool[ArrayLike, "*b A"] | None = None
    ) -> Float[Array, "*b A"]:
        """log P(a is chosen) = log d emax / d q_a; minus infinity where unavailable."""

    def choice(
        self, q: Float[ArrayLike, "*b A"], available: Bool[ArrayLike, "*b A"] | None = None
    ) -> Float[Array, "*b A"]:
        """P(a is chosen)."""
        return jnp.exp(self.log_choice(q, available))

    def emax_and_choice(
        self, q: Float[ArrayLike, "*b A"], available: Bool[ArrayLike, "*b A"] | None = None
    ) -> tuple[Float[Array, "*b"], Float[Array, "*b A"]]:
        """Both at once, for shocks whose work they share."""
        return self.emax(q, available), self.choice(q, available)

    def correction(self, log_choice: Float[ArrayLike, "*b A"]) -> Float[Array, "*b A"]:
        """e_a = emax(q) - q_a as a function of log P(a is chosen) alone: the Hotz-Miller map.

        Infinite where an action has no probability. Differences of q follow: q_b - q_a = e_a - e_b.
        """
        raise ModelError(
            f"{type(self).__name__} has no correction(log_choice), the map from choice "
            "probabilities to emax(q) - q_a on which the inversion of rewards rests: write it."
        )

    def check(self, actions: int) -> None:
        """Raise if these shocks do not fit a model with so many actions."""


def _utility(q: ArrayLike, scale: ArrayLike | float, available: ArrayLike | None) -> Array:
    """q / scale, minus infinity where unavailable: masked last, so that d/d scale stays finite."""
    require_float64()
    utility = jnp.asarray(q) / scale
    return utility if available is None else jnp.where(available, utility, -jnp.inf)


class Gumbel(AbstractShock):
    """Type-I extreme value shocks of the given scale, centred at mean zero: the softmax case."""

    scale: float | Array = 1.0

    def emax(self, q, available=None):  # type: ignore[no-untyped-def]
        """scale * log sum_a exp(q_a / scale)."""
        return self.scale * soft_maximum(_utility(q, self.scale, available))[0]

    def log_choice(self, q, available=None):  # type: ignore[no-untyped-def]
        """q_a / scale - log sum_b exp(q_b / scale)."""
        return log_softmax(_utility(q, self.scale, available))

    def emax_and_choice(self, q, available=None):  # type: ignore[no-untyped-def]
        """One exponential for each action (two have one), one logarithm for all."""
        top, choice = soft_maximum(_utility(q, self.scale, available))
        return self.scale * top, choice

    def correction(self, log_choice):  # type: ignore[no-untyped-def]
        """-scale * log P(a)."""
        require_float64()
        return -self.scale * jnp.asarray(log_choice)

    def check(self, actions: int) -> None:
        """The scale must be positive."""
        _require_positive_scale(self.scale)


class NestedLogit(AbstractShock):
    """Generalised extreme value shocks that are correlated within nests, centred at mean zero.

    emax(q) = scale * log sum_g (sum_{a in g} exp(q_a / (scale d_g)))^d_g, with dissimilarity
    d_g in (0, 1]; d_g = 1 for all g is `Gumbel`.
    """

    nests: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    dissimilarity: Float[ArrayLike, "G"] = eqx.field(converter=_as_array)
    scale: float | Array = 1.0

    def _levels(
        self, q: ArrayLike, available: ArrayLike | None
    ) -> tuple[Array, Array, Array, np.ndarray]:
        """Log weights of the nests, their inclusive values, utilities of actions, their nests."""
        nest_of, dissimilarity = _nest_of_action(self.nests), jnp.asarray(self.dissimilarity)
        own = _utility(q, self.scale * dissimilarity[nest_of], available)
        inclusive = jnp.stack([_logsumexp(own[..., list(nest)]) for nest in self.nests], axis=-1)
        shut = jnp.isneginf(inclusive)
        weight = jnp.where(shut, -jnp.inf, dissimilarity * jnp.where(shut, 0.0, inclusive))
        return weight, inclusive, own, nest_of

    def emax(self, q, available=None):  # type: ignore[no-untyped-def]
        """The expected maximum; nests without an available action drop out."""
        return self.scale * _logsumexp(self._levels(q, available)[0])

    def log_choice(self, q, available=None):  # type: ignore[no-untyped-def]
        """log P(nest of a) + log P(a within its nest)."""
        weight, inclusive, own, nest_of = self._levels(q, available)
        shut = jnp.isneginf(own)
        log_nest = weight[..., nest_of] - _logsumexp(weight)[..., None]
        within = jnp.where(shut, 0.0, own) - jnp.where(shut, 0.0, inclusive[..., nest_of])
        return jnp.where(shut, -jnp.inf, jnp.where(shut, 0.0, log_nest) + within)

    def correction(self, log_choice):  # type: ignore[no-untyped-def]
        """-scale * (d_g log P(a within its nest g) + log P(g))."""
        require_float64()
        own, nest_of = jnp.asarray(log_choice), _nest_of_action(self.nests)
        log_nest = jnp.stack([_logsumexp(own[..., list(nest)]) for nest in self.nests], axis=-1)
        shut, log_nest = jnp.isneginf(own), log_nest[..., nest_of]
        within = jnp.where(shut, 0.0, own) - jnp.where(shut, 0.0, log_nest)
        weighted = jnp.asarray(self.dissimilarity)[nest_of] * within
        return jnp.where(shut, jnp.inf, -self.scale * (weighted + jnp.where(shut, 0.0, log_nest)))

    def check(self, actions: int) -> None:
        """Nests must partition the actions; dissimilarities lie in (0, 1]."""
        _require_positive_scale(self.scale)
        members = sorted(a for nest in self.nests for a in nest)
        if members != list(range(actions)) or not all(self.nests):
            raise ModelError(
                f"nests must hold each of the actions 0..{actions - 1} exactly once, and none may "
                f"be empty, but they are {self.nests}."
            )
        dissimilarity = np.asarray(self.dissimilarity)
        if dissimilarity.shape != (len(self.nests),) or not np.all(
            (dissimilarity > 0) & (dissimilarity <= 1)
        ):
            raise ModelError(
                f"dissimilarity needs one value in (0, 1] for each of the {len(self.nests)} nests, "
                f"but it is {dissimilarity}."
            )


def _nest_of_action(nests: tuple[tuple[int, ...], ...]) -> np.ndarray:
    nest_of = np.zeros(sum(map(len, nests)), dtype=int)
    for g, nest in enumerate(nests):
        nest_of[list(nest)] = g
    return nest_of


def _logsumexp(x: Array) -> Array:
    """Log-sum-exp over the last axis whose gradient stays finite where every entry is -inf."""
    empty = jnp.all(jnp.isneginf(x), axis=-1, keepdims=True)
    safe = jnp.where(empty, 0.0, x)
    return jnp.where(empty[..., 0], -jnp.inf, jax.nn.logsumexp(safe, axis=-1))


def _require_positive_scale(scale: float | Array) -> None:
    if np.ndim(scale) != 0:
        raise ModelError(
            f"the scale of the shocks must be one number, but it has shape {np.shape(scale)}. "
            "Shocks that depend on z are not supported."
        )
    if not np.all((np.asarray(scale) > 0) & np.isfinite(scale)):
        raise ModelError(f"the scale of the shocks must be positive and finite, not {scale}.")
