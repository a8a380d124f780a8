"""Proven bounds on the value itself: V_L <= V <= V_U, for any number of hidden states.

Above: V is convex in x, so linear interpolation lies above it, and the fixed point of the
interpolated operator (which is monotone) lies above V. A residual of rho is worth rho / (1 - beta).

Below: a finite-state controller. Its memory is a node of the grid; at node i it takes the actions
with the probabilities that are best for the belief x_i, and after z' moves to a vertex of the cell
that holds the next belief. What a feasible policy is worth, alpha_i(s) at memory i and hidden
state s, cannot exceed V: sum_s x(s) alpha_i(s) <= V(z, x) for every x. For shocks with
emax, choosing with probabilities p = grad emax(q) is worth p.q' + [emax(q) - p.q] at values q'.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from pomdpfit import _grid
from pomdpfit._bellman import BellmanOperator
from pomdpfit._kernel import at_z
from pomdpfit._model import Primitives
from pomdpfit._schemes import Linear
from pomdpfit._stencil import Stencil
from pomdpfit._types import Array, Float, Int
from pomdpfit.solvers import Plan, apply, linear_solver

_IMPROVEMENTS = 5
_LINEAR_TOLERANCE = 1e-13


def rounding(*arrays: Array) -> Float[Array, ""]:
    """What a sum of products of numbers of this size can be off by, generously."""
    largest = jnp.max(jnp.stack([jnp.max(jnp.abs(a)) for a in arrays]))
    return 64 * jnp.finfo(arrays[0].dtype).eps * largest


def upper_bound(operator: BellmanOperator, value: Float[Array, "Z n"]) -> tuple[Array, Array]:
    """Nodal values of V_U from an approximate fixed point, and its residual rho."""
    rho = jnp.max(jnp.abs(operator(value[..., None])[..., 0] - value)) + rounding(value)
    return value + rho / (1.0 - operator.primitives.discount), rho


class _Controller(NamedTuple):
    """At each (z, node): choice probabilities, their worth beyond p.q, and the next node."""

    choice: Float[Array, "Z A n"]
    bonus: Float[Array, "Z n"]
    follow: Int[Array, "#Z A K n"]


def lower_bound(
    primitives: Primitives, grid: Linear, operator: BellmanOperator, value: Array, plan: Plan
) -> Float[Array, "Z n S"]:
    """alpha of a controller that starts from the policy of V and is improved a few times."""
    stencil = operator.stencil.plain()
    nodes = jnp.asarray(grid.beliefs(primitives.states))
    q = jnp.moveaxis(operator.action_values(value[..., None])[..., 0], 1, -1)
    # To begin with, remember the vertex nearest to the next belief.
    nearest = jnp.argmax(stencil.weight[..., 0], axis=-1, keepdims=True)
    follow = jnp.take_along_axis(stencil.position, nearest, axis=-1)[..., 0]

    def improve(policy: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], Array]:
        q, follow = policy
        alpha, rho = _evaluate(primitives, stencil, _controller(primitives, q, follow), plan)
        follow, q_by_state = best_continuation(primitives, stencil, nodes, alpha)
        better = jnp.einsum("zans,ns->zna", q_by_state, nodes), follow
        return better, alpha - rho / (1.0 - primitives.discount)

    _, bounds = jax.lax.scan(improve, (q, follow), None, length=_IMPROVEMENTS)
    return _best_at_nodes(bounds[-1], nodes)


def _best_at_nodes(alpha: Float[Array, "Z n S"], nodes: Float[Array, "n S"]) -> Array:
    """At each node the vector that is best there, whichever node it was made for."""

    def one(vectors: Float[Array, "n S"]) -> Array:
        return vectors[jnp.argmax(nodes @ vectors.T, axis=-1)]

    return jax.lax.map(one, alpha)


def _controller(primitives: Primitives, q: Float[Array, "Z n A"], follow: Array) -> _Controller:
    mask = None if primitives.available is None else primitives.available[:, None, :]
    choice = primitives.shock.choice(q, mask)
    bonus = primitives.shock.emax(q, mask) - (choice * q).sum(axis=-1)
    return _Controller(jnp.moveaxis(choice, -1, 1), bonus, follow)


def _evaluate(
    primitives: Primitives, stencil: Stencil, controller: _Controller, plan: Plan
) -> tuple[Float[Array, "Z n S"], Float[Array, ""]]:
    """alpha = sum_a p_a (r_a + beta sum_k P_k alpha[next]) + bonus, and the residual left over."""
    S, beta = primitives.states, primitives.discount
    position = controller.follow[..., None] * S + jnp.arange(S)
    kernel = jnp.swapaxes(jnp.asarray(primitives.kernel.probability), -1, -2)
    weight = beta * controller.choice[:, :, None, :, None, None] * kernel[:, :, :, None]
    moves = Stencil(
        jnp.broadcast_to(stencil.successors, weight.shape[:3]),
        jnp.broadcast_to(position, weight.shape[:-1]),
        weight,
    )
    now = jnp.einsum("zan,zsa->zns", controller.choice, primitives.reward)
    now = now + controller.bonus[..., None]
    alpha = linear_solver(moves, plan, _LINEAR_TOLERANCE)(now)
    residual = jnp.max(jnp.abs(now + apply(moves, alpha) - alpha))
    return alpha, residual + rounding(now, alpha)


def best_continuation(
    primitives: Primitives, stencil: Stencil, nodes: Array, alpha: Float[Array, "Z n S"]
) -> tuple[Array, Float[Array, "Z A n S"]]:
    """The best vertex of each next cell under alpha, and q(z, s, a) when it is followed."""
    kernel = jnp.asarray(primitives.kernel.probability)
    mass = jnp.einsum("ns,zakst->zaknt", nodes, kernel)
    candidates = alpha[stencil.successors[..., None, None], stencil.position]
    best = jnp.argmax(jnp.einsum("zaknt,zaknvt->zaknv", mass, candidates), axis=-1)
    follow = jnp.take_along_axis(stencil.position, best[..., None], axis=-1)[..., 0]
    chosen = jnp.take_along_axis(candidates, best[..., None, None], axis=-2)[..., 0, :]
    later = jnp.einsum("zakst,zaknt->zans", kernel, chosen)
    reward = jnp.moveaxis(primitives.reward, -1, 1)[:, :, None, :]
    return follow, reward + primitives.discount * later


def finite_levels(
    primitives: Primitives, grid: Linear, operator: BellmanOperator
) -> tuple[Float[Array, "H Z n"], Float[Array, "H Z n S"]]:
    """Bounds on what follows each epoch of a finite horizon, by induction from its end."""
    assert primitives.horizon is not None
    assert primitives.terminal is not None
    nodes = jnp.asarray(grid.beliefs(primitives.states))

    def step(later: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], tuple]:
        upper, alpha = later
        q_by_state = best_continuation(primitives, operator.stencil.plain(), nodes, alpha)[1]
        q = jnp.einsum("zans,ns->zna", q_by_state, nodes)
        controller = _controller(primitives, q, jnp.zeros(0, dtype=int))
        below = jnp.einsum("zan,zans->zns", controller.choice, q_by_state)
        below = _best_at_nodes(below + controller.bonus[..., None], nodes)
        above = operator(upper[..., None])[..., 0]
        return (above + rounding(above), below - rounding(below)), later

    last = grid.linear(primitives.terminal)[..., 0]
    alpha = jnp.broadcast_to(primitives.terminal[:, None, :], (*last.shape, primitives.states))
    _, levels = jax.lax.scan(step, (last, alpha), None, length=primitives.horizon, reverse=True)
    return levels


def _cell(mass: Float[Array, "*b S"], grid: Linear) -> tuple[Array, Array, Array]:
    """sigma, and the vertices and weights of the cell that holds m / sigma."""
    sigma = mass.sum(axis=-1)
    belief = mass / jnp.where(sigma > 0, sigma, 1.0)[..., None]
    return sigma, *_grid.locate(belief, grid.resolution)


class Upper(eqx.Module):
    """x -> V_U(z, x), or any other piecewise linear function given at the nodes."""

    table: Float[Array, "Z n"]
    grid: Linear = eqx.field(static=True)

    def __call__(self, z: Int[Array, "*b"], mass: Float[Array, "*b S"]) -> Float[Array, "*b"]:
        """The perspective sigma V(z, m / sigma), sigma = sum of m."""
        sigma, position, weight = _cell(mass, self.grid)
        return sigma * (weight * self.table[z[..., None], position]).sum(axis=-1)


class Lower(eqx.Module):
    """x -> V_L(z, x) = max of alpha_i . x over the vertices i of the cell that holds x."""

    alpha: Float[Array, "Z n S"]
    grid: Linear = eqx.field(static=True)

    def __call__(self, z: Int[Array, "*b"], mass: Float[Array, "*b S"]) -> Float[Array, "*b"]:
        """The perspective of V_L, which is max of alpha_i . m."""
        _, position, _ = _cell(mass, self.grid)
        lines = jnp.einsum("...vs,...s->...v", self.alpha[z[..., None], position], mass)
        return jnp.max(lines, axis=-1)


def expected_next(  # type: ignore[no-untyped-def]
    primitives: Primitives, function, z: Int[Array, "*b"], x: Float[Array, "*b S"]
) -> Float[Array, "*b A"]:
    """sum_k sigma_k f(z_k, lambda_k) for each action, with f given as its perspective."""
    kernel = primitives.kernel

    def one_action(a: Array) -> Array:
        mass = jnp.einsum("...s,...kst->...kt", x, at_z(kernel.probability, z, a))
        return function(at_z(kernel.successors, z, a), mass).sum(axis=-1)

    return jnp.moveaxis(jax.lax.map(one_action, jnp.arange(kernel.actions)), 0, -1)
