"""What a .POMDP file says once: discount, values, states, actions, observations, start."""

from typing import NamedTuple

import numpy as np

from pomdpfit._constraints import SUM_TOLERANCE
from pomdpfit._types import Float
from pomdpfit.formats._axes import Axis, read_axis
from pomdpfit.formats._numbers import read_numbers, read_probabilities
from pomdpfit.formats._parse import Source, Statement

# What each line looks like, for the message where it is missing.
_REQUIRED = {
    "discount": "discount: 0.95",
    "values": "values: reward",
    "states": "states: 2",
    "actions": "actions: listen open-left open-right",
    "observations": "observations: 2",
}
_ONCE = (*_REQUIRED, "start")


class Preamble(NamedTuple):
    """Axes, discount, whether rewards are costs, and the `start` statement if there is one."""

    states: Axis
    actions: Axis
    observations: Axis
    discount: float
    costs: bool
    start: Statement | None


def read_preamble(statements: list[Statement], source: Source) -> Preamble:
    """The statements that may stand once, wherever they stand."""
    found: dict[str, Statement] = {}
    for statement in statements:
        name = str(statement.keyword)
        if name in found and name in _ONCE:
            source.refuse(
                statement.keyword,
                f"{name!r} is said a second time (first in line {found[name].keyword.line}): "
                "remove one of the two.",
            )
        found[name] = statement
    for name, example in _REQUIRED.items():
        if name not in found:
            source.refuse_all(f"there is no {name!r} line. Add one, such as {example!r}.")
    axis = lambda kind: read_axis(kind, found[f"{kind}s"], source)
    costs = found["values"].body[0].type == "COST"
    return Preamble(
        axis("state"),
        axis("action"),
        axis("observation"),
        _discount(found["discount"], source),
        costs,
        found.get("start"),
    )


def _discount(statement: Statement, source: Source) -> float:
    numbers = read_numbers(statement.body, source)
    token = statement.body[0]
    if len(numbers) != 1:
        source.refuse(token, f"the discount is one number, but there are {len(numbers)}.", 1)
    if not 0.0 <= numbers[0] < 1.0:
        source.refuse(
            token,
            f"the discount must lie in [0, 1), but it is {numbers[0]:.6g}. Without an end a "
            "discount of 1 gives no finite values: write 0.99, say.",
        )
    return float(numbers[0])


def read_start(statement: Statement | None, states: Axis, source: Source) -> Float[np.ndarray, "S"]:
    """The first belief: as listed, one state, uniform on a set; uniform if nothing is said."""
    S = states.size
    word = statement.body[0].type if statement is not None and statement.body else "NAME"
    if statement is None or word == "UNIFORM":
        return np.full(S, 1.0 / S)
    if word in {"INCLUDE", "EXCLUDE"}:
        return _on_a_set(statement, states, source)
    if statement.places:
        if len(statement.places) > 1:
            source.refuse(
                statement.places[1],
                "'start:' takes one state. To start in any of several write 'start include:'.",
            )
        belief = np.zeros(S)
        belief[states.find(statement.places[0], source)] = 1.0
        return belief
    return _listed(statement, states, source)


def _on_a_set(statement: Statement, states: Axis, source: Source) -> np.ndarray:
    """Uniform over the states that are included, or over those that are not excluded."""
    chosen = np.zeros(states.size, dtype=bool)
    for token in statement.places:
        chosen[states.find(token, source)] = True
    if statement.body[0].type == "EXCLUDE":
        chosen = ~chosen
    if not chosen.any():
        source.refuse(
            statement.keyword, "every state is excluded: leave at least one state to start in."
        )
    return chosen / chosen.sum()


def _listed(statement: Statement, states: Axis, source: Source) -> np.ndarray:
    """A vector of probabilities, or the number of a state."""
    S, first = states.size, statement.body[0]
    numbers = read_numbers(statement.body, source)
    if len(numbers) == 1 and first.isdecimal() and (S > 1 or numbers[0] == 0):
        if numbers[0] >= S:
            source.refuse(
                first,
                f"there is no state {str(first)[:20]}: there are {S}, counted from 0 to {S - 1}.",
            )
        return np.eye(1, S, int(numbers[0]))[0]
    if len(numbers) != S:
        source.refuse(
            first,
            f"start needs {S} probabilities, one for each state, but there are {len(numbers)}.",
        )
    belief = read_probabilities(statement.body, source)
    if abs(belief.sum() - 1.0) > SUM_TOLERANCE:
        source.refuse(
            first,
            f"the start's probabilities must sum to 1, but they sum to {belief.sum():.10g}. They "
            "are never rescaled: mend the numbers, or give more digits.",
        )
    return belief
