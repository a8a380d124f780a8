"""Newton's method as loops: for many operators side by side, and for one by itself."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from pomdpfit._bellman import BellmanOperator, Transfer
from pomdpfit._schemes import AbstractScheme
from pomdpfit._types import Array, Float
from pomdpfit.solvers._base import Count, SolverState, middle, raised, size, unsolved
from pomdpfit.solvers._nested import coarse_correction, evaluated
from pomdpfit.solvers._relative_value_iteration import extrapolated

_PATIENCE = 30  # steps without a smaller residual, after which value iteration takes over
_DOUBT = 4  # such steps, after which sweeps make twice the passes
_ROUNDING = 1000  # sweeps of value iteration without a smaller residual: most would bring one

Field = Float[Array, "Z n c"]
Step = Callable[[Transfer, Field, Count], Field]


def newton_step(transfer: Transfer, step: Step, gap: Field, effort: Count) -> Field:
    """(I - T'(V))^-1 gap, nearly.

    The middle of the gap is taken out first: (I - T') 1 = (1 - beta) 1 holds exactly.
    """
    level = middle(gap)
    change = step(transfer, raised(gap, -level), effort)
    return raised(change, level / (1.0 - transfer.discount))


class _Progress(NamedTuple):
    """How the residual has fared, and what has been made of it."""

    steps: Array
    least: Array  # residual so far, and for how many steps it has not been beaten
    idle: Array
    effort: Array  # of sweeps; zero once their steps are not used any more
    lowest: Array  # residual of value iteration so far, and for how many sweeps it was not beaten
    barren: Array

    @property
    def hopeless(self) -> Array:
        """Whether no more than rounding is left, which is more than is asked for."""
        return self.barren > _ROUNDING


def _beginning(made: Count) -> _Progress:
    zero = jnp.asarray(0)
    big = jnp.asarray(jnp.inf)
    return _Progress(jnp.asarray(made), big, zero, zero + 1, big, zero)


def _stepped(
    coefficients: Field, image: Field, transfer: Transfer, step: Step, progress: _Progress
) -> tuple[Field, _Progress]:
    """V after one step, or after one of value iteration where steps lead nowhere."""
    gap = image - coefficients
    residual = size(gap)
    taken, least, idle, effort, lowest, barren = progress
    idle = jnp.where((residual < least) & (idle <= _PATIENCE), 0, idle + 1)
    doubled = jnp.where((idle > 0) & (idle % _DOUBT == 0), 2, 1) * effort
    effort = jnp.where(idle <= _PATIENCE, doubled, 0)
    change = newton_step(transfer, step, gap, effort)
    plain = extrapolated(coefficients, image, transfer.discount)
    good = (idle <= _PATIENCE) & jnp.isfinite(size(change))
    new = jnp.where(good, coefficients + change, plain)
    # But for rounding each sweep brings a smaller residual, by the discount at the least; or each
    # but a few, where slopes are kept.
    sweeps = idle > _PATIENCE
    barren = jnp.where(sweeps & (residual >= lowest), barren + 1, 0)
    lowest = jnp.where(sweeps, jnp.minimum(residual, lowest), lowest)
    least = jnp.minimum(residual, least)
    return new, _Progress(taken + 1, least, idle, effort, lowest, barren)


class _State(NamedTuple):
    coefficients: Array
    image: Array
    share: Array
    turn: Array | None
    progress: _Progress


def steps(
    operator: BellmanOperator,
    start: Array,
    step: Step,
    tolerance: float,
    max_steps: int,
    made: Count = 0,
) -> SolverState:
    """One evaluation of T with its derivative, and one linear step, each time.

    made  steps that have led to the start
    """

    def at(coefficients: Array, progress: _Progress) -> _State:
        image, transfer = operator.with_derivative(coefficients)
        return _State(coefficients, image, transfer.share, transfer.turn, progress)

    def body(state: _State) -> _State:
        coefficients, image, share, turn, progress = state
        transfer = Transfer(operator.stencil, share, turn, operator.primitives.discount)
        return at(*_stepped(coefficients, image, transfer, step, progress))

    def proceed(state: _State) -> Array:
        taken, hopeless = state.progress.steps, state.progress.hopeless
        return unsolved(state.coefficients, state.image, taken, tolerance, max_steps) & ~hopeless

    end = jax.lax.while_loop(proceed, body, at(start, _beginning(made)))
    return SolverState(end.coefficients, size(end.image - end.coefficients), end.progress.steps)


class _Turn(NamedTuple):
    coefficients: Array
    residual: Array
    first: Array  # whether nothing has been done yet
    done: Array
    progress: _Progress


def steps_alone(
    operator: BellmanOperator,
    start: Array,
    coarse: AbstractScheme | None,
    step: Step,
    tolerance: float,
    max_steps: int,
) -> SolverState:
    """The same in a loop of which each turn begins with T, which is so compiled once.

    Not for many operators side by side: they would all take every branch, at every turn.

    coarse  a grid on which the start is corrected in the first turn
    """
    once: Callable = lambda transfer, gap: newton_step(transfer, step, gap, 1)

    def body(state: _Turn) -> _Turn:
        coefficients, _, first, _, progress = state
        image, transfer = evaluated(operator, coefficients)
        gap = image - coefficients
        more = unsolved(coefficients, image, progress.steps, tolerance, max_steps)
        done = ~more | progress.hopeless
        stay = lambda: (coefficients, progress)
        go_on = lambda: _stepped(coefficients, image, transfer, step, progress)
        if coarse is None:
            new, progress = jax.lax.cond(done, stay, go_on)
        else:
            change = lambda: coarse_correction(operator, coefficients, gap, coarse, once)
            correct = lambda: (coefficients + change(), progress)
            which = jnp.where(done, 0, jnp.where(first, 1, 2))
            new, progress = jax.lax.switch(which, [stay, correct, go_on])
        return _Turn(new, size(gap), first & False, done, progress)

    yes = jnp.asarray(True)
    begin = _Turn(start, jnp.asarray(jnp.inf), yes, ~yes, _beginning(0))
    end = jax.lax.while_loop(lambda state: ~state.done, body, begin)
    return SolverState(end.coefficients, end.residual, end.progress.steps)
