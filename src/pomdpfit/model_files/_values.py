"""Values of parameters, whole leaves or single entries, and priors, as files give them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pomdpfit._errors import ModelError, PomdpfitError
from pomdpfit._nearest import nearest
from pomdpfit._params import ParameterSpace
from pomdpfit._priors import AbstractPrior, AgentPriors, CommonPrior, KnownPrior, StationaryPrior
from pomdpfit._shown import cut, shown
from pomdpfit._types import ArrayLike
from pomdpfit.baselines import MDP
from pomdpfit.model_files._checks import array, number, refuse_unknown
from pomdpfit.model_files._specification import as_arrays, states_of

_MOST_NODES = 10**6  # of a belief grid: far beyond what is solved
_FIRST, _LONGEST = 5, 60  # agents that a message names, and letters of a name
# Kinds of prior, and the keys that each one takes.
PRIORS = {"known": ("belief",), "common": (), "agent": (), "stationary": ("nodes",)}


def read_leaves(
    values: Mapping[str, Any], space: ParameterSpace, place: str
) -> dict[str, np.ndarray]:
    """Leaves such as `cost` and entries such as `cost[good]`, as the leaves that they make."""
    owner = dict(zip(space.names, space.owners, strict=True))
    theta = as_arrays(space.example())
    given: dict[str, None] = {}
    for name in values:
        space.require_name(name, place)
    space.require_once(values, place)
    for name, value in values.items():
        leaf = name if name in space.parameters else owner[name]
        given[leaf] = None
        if name == leaf:
            theta[leaf] = array(value, f"{place} {name}")
        else:
            entries = space.parameters[leaf].entry_names(leaf)
            theta[leaf] = np.where(entries == name, number(value, f"{place} {name}"), theta[leaf])
    try:
        space.check(theta)
    except PomdpfitError as error:
        raise ModelError(f"{place}: {error}") from error
    return {leaf: theta[leaf] for leaf in given}


def read_fixed(
    given: Any,
    space: ParameterSpace,
    theta: Mapping[str, np.ndarray],
    place: str = "[fixed]",
) -> dict[str, np.ndarray | float]:
    """Names held at their start values (a list, or `name = true`), or names with values."""
    if isinstance(given, list):
        given = dict.fromkeys(_names(given), True)
    if not isinstance(given, dict):
        raise ModelError(f"fixed must be a list of names or a table, but it is {shown(given)}.")
    fixed: dict[str, np.ndarray | float] = {}
    for name in given:
        space.require_name(name, place)
    space.require_once(given, place)
    for name, value in given.items():
        if value is True:
            fixed[name] = _value_of(name, space, theta)
        elif value is False:
            raise ModelError(
                f"{place} {name} must be a value, or true to hold it at its start; a parameter "
                'that the model fixes is let go with free = ["..."].'
            )
        elif name in space.parameters:
            fixed[name] = array(value, f"{place} {name}")
        else:
            fixed[name] = _within_bounds(name, number(value, f"{place} {name}"), space, place)
    try:
        space.fix({n: v for n, v in fixed.items() if n in space.parameters})
    except PomdpfitError as error:
        raise ModelError(f"{place}: {error}") from error
    return fixed


def refuse_other_fixed(
    names: Iterable[str],
    start: Mapping[str, np.ndarray],
    fixed: Mapping[str, ArrayLike | float],
    space: ParameterSpace,
    place: str,
) -> None:
    """Refuse a value in one place for what is fixed at another value in another place."""

    def entries(name: str) -> Sequence[str]:
        leaf = space.parameters.get(name)
        return [name] if leaf is None else list(leaf.entry_names(name).flat)

    held = {n: v for f, x in fixed.items() for n, v in zip(entries(f), np.ravel(x), strict=True)}
    values = space.to_series({**space.example(), **start})
    for name in (entry for given in names for entry in entries(given) if entry in held):
        if values[name] != held[name]:
            raise ModelError(
                f"{place} gives {name} = {values[name]:.6g}, but it is fixed at {held[name]:.6g}: "
                "leave one out."
            )


def _within_bounds(name: str, value: float, space: ParameterSpace, place: str) -> float:
    """The value of an entry, if it can have it whatever the other entries are."""
    owner = space.owners[space.names.index(name)]
    low, high = space.parameters[owner].constraint.bounds()
    if not low <= value <= high:
        raise ModelError(
            f"{place} {name} must lie between {low:.6g} and {high:.6g}, but it is {value:.6g}."
        )
    return value


def _names(given: list) -> list[str]:
    for name in given:
        if not isinstance(name, str):
            raise ModelError(f"fixed must list names of parameters, but it holds {shown(name)}.")
    return given


def _value_of(
    name: str, space: ParameterSpace, theta: Mapping[str, np.ndarray]
) -> np.ndarray | float:
    """Of a leaf or of an entry."""
    if name in space.parameters:
        return np.asarray(theta[name])
    return float(space.to_series(theta)[name])


def read_prior(given: Any, model: Any) -> AbstractPrior:
    """`prior = "common"`, or a table with its kind and what goes with it."""
    if isinstance(given, str):
        given = {"kind": given}
    if not isinstance(given, dict):
        belief = ", ".join(map(str, given)) if isinstance(given, list) else ""
        hint = f" {_as_table('known', belief)}" if belief else ""
        raise ModelError(f"prior must be a name or a table, but it is {shown(given)}.{hint}")
    kind = given.get("kind")
    if not isinstance(kind, str) or kind not in PRIORS:
        hint = nearest(kind, PRIORS) if isinstance(kind, str) else ""
        if isinstance(kind, str) and set(kind) & set(":,"):  # as on the command line
            name, _, values = kind.rpartition(":")
            hint = f" {_as_table(name, values)}" if name in {"", *PRIORS} else hint
        raise ModelError(
            f"[prior] kind must be one of {', '.join(PRIORS)}, not {shown(kind)}.{hint}"
        )
    refuse_unknown(given, ("kind", *PRIORS[kind]), f"[prior] of kind {kind!r}")
    if isinstance(model, MDP):
        raise ModelError("a fully observed model takes no prior: leave [prior] out.")
    return _MAKERS[kind](given, model)


def _as_table(kind: str, values: str) -> str:
    """How a prior is written in a file."""
    given = f"nodes = {cut(values)}" if kind == "stationary" else f"belief = [{cut(values)}]"
    return f'Write prior = {{kind = "{kind or "known"}", {given}}}.'


def _known(given: Mapping[str, Any], model: Any) -> AbstractPrior:
    """One belief for all, or a table of beliefs by agent."""
    if "belief" not in given:
        raise ModelError(
            '[prior] of kind "known" lacks belief, a list of probabilities of the hidden states.'
        )
    belief, states = given["belief"], states_of(model)
    if isinstance(belief, dict):
        by_agent = {a: array(x, f"[prior.belief] {_called(a)}") for a, x in belief.items()}
        prior, agents = KnownPrior(by_agent), list(by_agent)
        bad = [_called(a) for a, x in by_agent.items() if x.shape != (states,)]
        if bad or not agents:
            more = f" and {len(bad) - _FIRST} more" if len(bad) > _FIRST else ""
            which = f"that of {', '.join(bad[:_FIRST])}{more} is not so" if bad else "there is none"
            raise ModelError(
                f"[prior.belief] must be a list of {states} numbers for each agent; {which}."
            )
    else:
        prior, agents = KnownPrior(array(belief, "[prior] belief")), ["any"]
    try:
        prior.data(agents, states)
    except PomdpfitError as error:
        raise ModelError(f"[prior] belief: {error}") from error
    return prior


def _called(agent: str) -> str:
    """An agent's name, which may be a text of any length."""
    return agent if len(agent) <= _LONGEST else shown(agent)


def _stationary(given: Mapping[str, Any], model: Any) -> AbstractPrior:
    if "nodes" not in given:
        return StationaryPrior()
    nodes = given["nodes"]
    if type(nodes) is not int or not 2 <= nodes <= _MOST_NODES:
        raise ModelError(
            f"[prior] nodes must be a whole number from 2 to {_MOST_NODES:,}, not {shown(nodes)}."
        )
    return StationaryPrior(nodes)


_MAKERS: dict[str, Callable[[Mapping[str, Any], Any], AbstractPrior]] = {
    "known": _known,
    "common": lambda given, model: CommonPrior(),
    "agent": lambda given, model: AgentPriors(),
    "stationary": _stationary,
}
