"""log pi(a | z, x) at the nodes of a belief grid, with its slope along the belief where needed."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from pomdpfit._constraints import SUM_TOLERANCE
from pomdpfit._errors import ModelError
from pomdpfit._model import Primitives
from pomdpfit._schemes import AbstractScheme
from pomdpfit._solve import Solution
from pomdpfit._types import Array, Float


@runtime_checkable
class LogPolicy(Protocol):
    """Anything that tells log pi(. | z, x) (in epoch t) for arrays of z and x."""

    def log_choice(self, z: Any, x: Any, t: Any = None) -> Array:
        """log pi(a | z, x), actions last."""


Policy = Solution | LogPolicy | Callable[..., Any]


def log_choice_at_nodes(
    policy: Policy, primitives: Primitives, scheme: AbstractScheme
) -> Float[Array, "*H Z n A c"]:
    """Coefficients of log pi(z, ., a): the value and, for two coefficients, h times the slope."""
    if primitives.horizon is None:
        table = _one_epoch(policy, primitives, scheme, None)
    else:
        epochs = range(primitives.horizon)
        table = jnp.stack([_one_epoch(policy, primitives, scheme, t) for t in epochs])
    _check(table, primitives, scheme)
    return table


def _one_epoch(
    policy: Policy, primitives: Primitives, scheme: AbstractScheme, t: int | None
) -> Float[Array, "Z n A c"]:
    nodes = jnp.asarray(scheme.beliefs(primitives.states))
    shape = (primitives.observations, len(nodes))
    z = jnp.broadcast_to(jnp.arange(shape[0])[:, None], shape)
    x = jnp.broadcast_to(nodes, (*shape, primitives.states))
    epoch = None if t is None else jnp.full(shape, t)
    if isinstance(policy, Solution):
        return _of_values(policy.values.log_choice, z, x, epoch, scheme)
    if isinstance(policy, LogPolicy):
        return _of_values(policy.log_choice, z, x, epoch, scheme)
    if not callable(policy):
        raise ModelError(
            "policy must be a solution, or a function of (z, x), with a finite horizon of "
            f"(z, x, t), that returns choice probabilities; not {type(policy)}."
        )
    given: Callable[..., Any] = policy

    def log_choice(z: Array, x: Array, t: Array | None) -> Array:
        return jnp.log(jnp.asarray(given(z, x) if t is None else given(z, x, t)))

    expected = (*shape, primitives.actions)
    found = jnp.shape(log_choice(z, x, epoch))
    if found != expected:
        raise ModelError(
            f"for z of shape {shape} and x of shape {x.shape} the policy must return choice "
            f"probabilities of shape {expected}, but they have {found}."
        )
    try:
        return _with_slope(log_choice, z, x, epoch, scheme)
    except jax.errors.JAXTypeError as error:
        raise ModelError(
            "the smooth scheme needs the slope of the policy along the belief, but the function "
            "given cannot be differentiated by JAX: write it in jax.numpy (or hand over the "
            "solution itself instead of its method policy), or use grid=pf.Linear(...)."
        ) from error


def _with_slope(
    log_choice: Callable[..., Array], z: Array, x: Array, t: Array | None, scheme: AbstractScheme
) -> Float[Array, "Z n A c"]:
    if scheme.coefficients == 1:
        return log_choice(z, x, t)[..., None]
    along = jnp.broadcast_to(jnp.array([-1.0, 1.0]), x.shape)  # x(1) grows, x(0) falls
    value, slope = jax.jvp(lambda x: log_choice(z, x, t), (x,), (along,))
    slope = jnp.where(jnp.isneginf(value), 0.0, slope)
    return jnp.stack([value, slope / scheme.resolution], axis=-1)


_of_values = eqx.filter_jit(_with_slope)


def _check(table: Array, primitives: Primitives, scheme: AbstractScheme) -> None:
    """Probabilities that sum to one, none of them zero where an action can be taken."""
    log_choice = np.asarray(table[..., 0])
    if log_choice.shape[-1] != primitives.actions:
        raise ModelError(
            f"the policy is one over {log_choice.shape[-1]} actions, but the model has "
            f"{primitives.actions}."
        )
    total = np.exp(log_choice).sum(axis=-1)
    off = ~(np.abs(total - 1.0) <= SUM_TOLERANCE)
    if off.any():
        where = _place(off, primitives, scheme)
        raise ModelError(
            f"choice probabilities must sum to 1, but at {where} they sum to "
            f"{total[tuple(np.argwhere(off)[0])]:.6g}."
        )
    opened = np.ones((primitives.observations, primitives.actions), dtype=bool)
    if primitives.available is not None:
        opened = np.asarray(primitives.available)
    mask = opened[:, None, :]
    for bad, what in (
        (mask & ~np.isfinite(log_choice), "no probability, though it is available: no finite "),
        (~mask & ~np.isneginf(log_choice), "a probability, though it is not available: no "),
    ):
        if bad.any():
            a = int(np.argwhere(bad)[0][-1])
            where = _place(np.asarray(bad.any(axis=-1)), primitives, scheme)
            raise ModelError(
                f"at {where} the policy gives action {a} {what}reward explains that. Smooth the "
                "choice probabilities, or state what is available in the model."
            )
    if not np.isfinite(np.asarray(table[..., 1:])).all():
        raise ModelError("the slope of the policy along the belief is not finite at some node.")


def _place(bad: np.ndarray, primitives: Primitives, scheme: AbstractScheme) -> str:
    *epoch, z, node = (int(i) for i in np.argwhere(bad)[0])
    x = np.round(scheme.beliefs(primitives.states)[node], 6).tolist()
    return f"(z={z}, x={x}{f', t={epoch[0]}' if epoch else ''})"
