"""One theta, and what is made of it: when it is first asked for, and once."""

import functools
from typing import NamedTuple

import numpy as np

from pomdpfit._problem import Ground, Problem
from pomdpfit._stage import Data, Stage, Value
from pomdpfit._types import Theta
from pomdpfit.programs import program


class Place(NamedTuple):
    """theta, and the value there if choices are to be scored."""

    theta: dict[str, np.ndarray]
    value: Value

    def same(self, other: "Place") -> bool:
        """Number by number."""
        if self.theta.keys() != other.theta.keys() or not same_value(self.value, other.value):
            return False
        return all(np.array_equal(leaf, other.theta[name]) for name, leaf in self.theta.items())


def same_value(one: Value, other: Value) -> bool:
    """Number by number, or both None."""
    if one is None or other is None:
        return one is other
    return one is other or np.array_equal(np.asarray(one), np.asarray(other))


class Point:
    """theta, the value there if choices are to be scored, and the data as they are seen there."""

    def __init__(
        self,
        problem: Problem,
        theta: dict[str, np.ndarray],
        value: Value,
        data: Data,
        ground: Ground | None = None,
    ) -> None:
        self.problem, self.theta, self.value, self.data = problem, theta, value, data
        if ground is not None:
            self.ground = ground

    @functools.cached_property
    def ground(self) -> Ground:
        """What theta alone makes of the model."""
        return make_ground(self.problem, self.theta, self.data, self.value is not None)

    @functools.cached_property
    def stage(self) -> Stage:
        """What the panel is scored by."""
        return make_stage(self.problem, self.ground, self.value, self.data)

    def halves(self, free: tuple[str, ...]) -> tuple[dict, dict]:
        """theta, in what moves and what stays."""
        moving = {name: self.theta[name] for name in free}
        return moving, {name: leaf for name, leaf in self.theta.items() if name not in moving}


@program(light=True)
def make_ground(problem: Problem, theta: Theta, data: Data, with_choices: bool) -> Ground:
    """`Problem.ground`, compiled."""
    return problem.ground(theta, data, with_choices=with_choices)


@program
def make_stage(problem: Problem, ground: Ground, value: Value, data: Data) -> Stage:
    """`Problem.stage`, compiled."""
    return problem.stage(ground, value, data)
