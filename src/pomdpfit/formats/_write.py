"""write_pomdp(): a model as a .POMDP file."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pomdpfit._errors import ModelError
from pomdpfit._labels import action_names, observation_names
from pomdpfit._model import Model, checked_primitives
from pomdpfit._precision import in_float64
from pomdpfit._priors import KnownPrior, labels_of
from pomdpfit._types import Float, Theta
from pomdpfit._write import write_atomically
from pomdpfit.formats._factor import factored_tables
from pomdpfit.formats._parse import KEYWORDS
from pomdpfit.formats._read import MOST_BYTES
from pomdpfit.formats._tables import MOST_ENTRIES
from pomdpfit.models.pomdp_file import PomdpFile

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


class Content(NamedTuple):
    """What is written: names of the format (or numbers), and tables; no start line for None."""

    states: tuple[str, ...]
    actions: tuple[str, ...]
    observations: tuple[str, ...]
    discount: float
    start: Float[np.ndarray, "S"] | None
    transition: Float[np.ndarray, "A S S"]
    observation: Float[np.ndarray, "A S Z"]
    rewards: list[Float[np.ndarray, "S #S #Z"]]


@in_float64
def write_pomdp(
    model: Model, theta: Theta, path: str | Path, *, prior: KnownPrior | None = None
) -> None:
    """Write a model at theta to a file of Cassandra's .POMDP format, whole or not at all.

    The kernel must be T(s' | s, a) O(z' | s', a) and nothing may depend on z. Numbers are written
    with all their digits: what `read_pomdp` reads is what was written, to the bit. `prior` is the
    `start` line; without it a model that was read keeps its own, and another gets none, which the
    format takes as uniform. Blanks in labels become hyphens; labels that are no names in the
    format give way to numbers. Shocks have no place in the format.
    """
    if prior is not None and not isinstance(prior, KnownPrior):
        raise ModelError(f"the format holds one known belief: pf.KnownPrior(x0), not {prior!r}.")
    content = _content(model, theta)
    if prior is not None:
        start = np.asarray(prior.data((0,), len(content.states)))[0]
        content = content._replace(start=start)
    text = ("\n".join(_lines(content)) + "\n").encode("ascii")
    if len(text) > MOST_BYTES:
        raise ModelError(
            f"the file would have {len(text):,} bytes, but read_pomdp refuses more than "
            f"{MOST_BYTES:,}: the model is too large for the format."
        )
    write_atomically(Path(path), text)


def _content(model: Model, theta: Theta) -> Content:
    """Tables at theta: a file's as they are, another model's by taking its kernel apart."""
    if isinstance(model, PomdpFile):
        return _of_a_file(model, model.space().check(theta))
    primitives = checked_primitives(model, theta)
    S, A, Z = primitives.states, primitives.actions, primitives.observations
    if A * Z * S * S > MOST_ENTRIES:
        raise ModelError(
            f"the kernel has {A} x {Z} x {S} x {S} entries, more than the {MOST_ENTRIES:,} that "
            "are taken apart."
        )
    transition, observation, reward = factored_tables(primitives)
    return Content(
        _names(labels_of(model, S)),
        _names(action_names(model, A)),
        _names(observation_names(model, Z)),
        float(primitives.discount),
        None,
        transition,
        observation,
        [by_state[:, None, None] for by_state in reward],
    )


def _of_a_file(model: PomdpFile, theta: Theta) -> Content:
    leaves = lambda group: [np.asarray(theta[f"{group}.{name}"]) for name in model.actions]
    idle = lambda table: table.reshape(table.shape + (1,) * (3 - table.ndim))
    return Content(
        _names(model.states),
        _names(model.actions),
        _names(model.observations),
        float(theta["discount"]),
        np.asarray(model.start),
        np.stack(leaves("transition")),
        np.stack(leaves("observation")),
        [idle(table) for table in leaves("reward")],
    )


def _lines(content: Content) -> Iterator[str]:
    """The file line by line."""
    yield f"discount: {content.discount!r}"
    yield "values: reward"
    yield f"states: {_listed(content.states)}"
    yield f"actions: {_listed(content.actions)}"
    yield f"observations: {_listed(content.observations)}"
    if content.start is not None:
        yield f"start: {_row(content.start)}"
    for kind, table in (("T", content.transition), ("O", content.observation)):
        for action, matrix in zip(content.actions, table, strict=True):
            yield f"\n{kind}: {action}"
            yield from map(_row, matrix)
    yield ""
    for action, by_state in zip(content.actions, content.rewards, strict=True):
        for state, table in zip(content.states, by_state, strict=True):
            yield from _reward_lines(f"R: {action} : {state}", table, content.states)


def _reward_lines(begin: str, table: np.ndarray, states: Sequence[str]) -> Iterator[str]:
    """R of one action and state; a star stands for what makes no difference."""
    end_states, any_z = ("*",) if len(table) == 1 else states, " : *" * (table.shape[1] == 1)
    for end_state, row in zip(end_states, table, strict=True):
        yield f"{begin} : {end_state}{any_z} {_row(row)}"


def _row(numbers: np.ndarray) -> str:
    return " ".join(repr(number) for number in numbers.tolist())


def _names(labels: Sequence[str]) -> tuple[str, ...]:
    """Labels as names of the format; numbers if one of them cannot be a name."""
    names = tuple("-".join(label.split()) for label in labels)
    legal = all(_NAME.fullmatch(name) and name not in KEYWORDS for name in names)
    if legal and len(set(names)) == len(names):
        return names
    return tuple(map(str, range(len(labels))))


def _listed(names: Sequence[str]) -> str:
    """Names, or the count where they are numbers."""
    return str(len(names)) if names[0] == "0" else " ".join(names)
