"""Flexible choice probabilities: a multinomial logit on polynomials of observation and belief."""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from pomdpfit._errors import EstimationError
from pomdpfit._model import Primitives
from pomdpfit._types import Array, Bool, Float, Int

_MAX_STEPS = 100
_GAIN = 1e-10  # in log-likelihood, that Newton's method still promises at the end


class Choices(NamedTuple):
    """What was chosen at which observation and belief (in which epoch), one row a choice."""

    z: Int[np.ndarray, "n"]
    x: Float[np.ndarray, "n S"]
    a: Int[np.ndarray, "n"]
    t: Int[np.ndarray, "n"] | None
    agent: Int[np.ndarray, "n"]


class ChoiceLogit(eqx.Module):
    """log pi(a | z, x) = features(z, x) . coefficients[:, a] - log of the sum over actions."""

    coefficients: Float[Array, "p A"]
    available: Bool[Array, "Z A"] | None
    observations: int = eqx.field(static=True)
    horizon: int | None = eqx.field(static=True)
    powers: tuple[tuple[int, ...], ...] = eqx.field(static=True)

    def log_choice(
        self, z: Int[Array, "*b"], x: Float[Array, "*b S"], t: Int[Array, "*b"] | None = None
    ) -> Float[Array, "*b A"]:
        """log pi(a | z, x), minus infinity where a is not available."""
        features = polynomials(self.powers, self.observations, self.horizon, z, x, t)
        utility = features @ self.coefficients
        if self.available is not None:
            utility = jnp.where(self.available[z], utility, -jnp.inf)
        return jax.nn.log_softmax(utility, axis=-1)

    def policy(
        self, z: Int[Array, "*b"], x: Float[Array, "*b S"], t: Int[Array, "*b"] | None = None
    ) -> Float[Array, "*b A"]:
        """pi(a | z, x)."""
        return jnp.exp(self.log_choice(jnp.asarray(z), jnp.asarray(x), t))


@dataclasses.dataclass(frozen=True)
class PolynomialLogit:
    """A logit whose utilities are polynomials in z, x (and t) of at most this total degree.

    z and t enter as numbers between -1 and 1, with powers up to the number of their values less
    one, so that few values are fitted one by one. The log-likelihood is penalised by
    ridge / 2 * the sum of squared coefficients: next to nothing, but the maximum then exists even
    where the data separate the choices. Probabilities are never clipped.
    """

    degree: int = 3
    ridge: float = 1e-4

    def __post_init__(self) -> None:
        if not (self.degree >= 0 and self.ridge > 0):
            raise EstimationError(
                "a polynomial logit needs a degree of zero or more and a positive ridge, but they "
                f"are {self.degree} and {self.ridge}."
            )

    def fit(
        self,
        primitives: Primitives,
        choices: Choices,
        weights: Float[np.ndarray, "n"] | None = None,
    ) -> ChoiceLogit:
        """Maximum penalised likelihood by Newton's method; `primitives` tells what is available."""
        weights = np.ones(len(choices.a)) if weights is None else weights
        Z, A = primitives.observations, primitives.actions
        _refuse_unseen(choices.a[weights > 0], A)
        powers = _powers(self.degree, Z, primitives.states, primitives.horizon)
        features = np.asarray(_polynomials(powers, Z, primitives.horizon, *_where(choices)))
        open_ = np.ones((len(choices.a), A), dtype=bool)
        if primitives.available is not None:
            open_ = np.asarray(primitives.available)[choices.z]
        coefficients = _newton(features, open_, np.eye(A)[choices.a], weights, self.ridge)
        return ChoiceLogit(
            jnp.asarray(coefficients), primitives.available, Z, primitives.horizon, powers
        )


def _where(choices: Choices) -> tuple[Array, Array, Array | None]:
    t = None if choices.t is None else jnp.asarray(choices.t)
    return jnp.asarray(choices.z), jnp.asarray(choices.x), t


def _powers(
    degree: int, observations: int, states: int, horizon: int | None
) -> tuple[tuple[int, ...], ...]:
    """Exponents of z, of x without its first entry, and of t, up to the total degree."""
    most = [min(degree, observations - 1), *[degree] * (states - 1)]
    if horizon is not None:
        most.append(min(degree, horizon - 1))
    every = itertools.product(*(range(m + 1) for m in most))
    return tuple(p for p in every if sum(p) <= degree)


def polynomials(
    powers: Sequence[tuple[int, ...]],
    observations: int,
    horizon: int | None,
    z: Int[Array, "*b"],
    x: Float[Array, "*b S"],
    t: Int[Array, "*b"] | None,
) -> Float[Array, "*b p"]:
    """Products of powers of z, x(1), x(2), ... and t, each scaled to [-1, 1]."""
    columns = [2.0 * z / max(observations - 1, 1) - 1.0]
    columns += [2.0 * x[..., s] - 1.0 for s in range(1, x.shape[-1])]
    if horizon is not None:
        assert t is not None
        columns.append(2.0 * t / max(horizon - 1, 1) - 1.0)
    one = jnp.ones(x.shape[:-1])
    products = []
    for exponents in powers:
        product = one
        for column, power in zip(columns, exponents, strict=True):
            for _ in range(power):
                product = product * column
        products.append(product)
    return jnp.stack(products, axis=-1)


_polynomials = eqx.filter_jit(polynomials)


def _refuse_unseen(a: np.ndarray, actions: int) -> None:
    missing = np.flatnonzero(np.bincount(a, minlength=actions) == 0)
    if len(missing):
        raise EstimationError(
            f"action {missing[0]} is never chosen in these data: its probability cannot be "
            "estimated. Use more data, or maximum likelihood (pf.fit), which needs none."
        )


def _newton(
    features: Float[np.ndarray, "n p"],
    open_: Bool[np.ndarray, "n A"],
    chosen: Float[np.ndarray, "n A"],
    weights: Float[np.ndarray, "n"],
    ridge: float,
) -> Float[np.ndarray, "p A"]:
    """The coefficients, those of the first action zero; the objective is strictly concave."""
    p, A = features.shape[1], open_.shape[1]
    free = p * (A - 1)

    def expand(vector: np.ndarray) -> np.ndarray:
        return np.column_stack([np.zeros(p), vector.reshape(A - 1, p).T])

    def evaluate(vector: np.ndarray) -> tuple[float, np.ndarray]:
        utility = np.where(open_, features @ expand(vector), -np.inf)
        top = utility.max(axis=1, keepdims=True)
        mass = np.exp(utility - top)
        total = mass.sum(axis=1, keepdims=True)
        log_choice = np.where(open_, utility, 0.0) - top - np.log(total)
        value = weights @ (chosen * log_choice).sum(axis=1) - ridge / 2 * vector @ vector
        return float(value), mass / total

    vector = np.zeros(free)
    value, choice = evaluate(vector)
    for _ in range(_MAX_STEPS):
        gap = weights[:, None] * (chosen - choice)
        gradient = (features.T @ gap)[:, 1:].T.ravel() - ridge * vector
        information = ridge * np.eye(free)
        for a, b in itertools.product(range(1, A), repeat=2):
            row = weights * choice[:, a] * ((a == b) - choice[:, b])
            block = features.T @ (row[:, None] * features)
            information[(a - 1) * p : a * p, (b - 1) * p : b * p] += block
        step = np.linalg.solve(information, gradient)
        if step @ gradient / 2 < _GAIN:
            return expand(vector)
        size = 1.0
        while size > 1e-12:
            ahead = evaluate(vector + size * step)
            if ahead[0] > value:
                break
            size /= 2
        else:  # rounding alone is left
            return expand(vector)
        vector, (value, choice) = vector + size * step, ahead
    raise EstimationError(
        f"the choice probabilities were not found in {_MAX_STEPS} Newton steps: lower the degree "
        "of the polynomial, or raise its ridge."
    )
