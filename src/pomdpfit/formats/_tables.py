"""From statements to tables: T[a, s, s'], O[a, s', z], R[a, s, s', z], and the first belief."""

import math
from typing import NamedTuple

import numpy as np

from pomdpfit._constraints import SUM_TOLERANCE
from pomdpfit._types import Float, Int
from pomdpfit.formats._axes import Axis
from pomdpfit.formats._numbers import read_numbers, read_probabilities
from pomdpfit.formats._parse import Source, Statement
from pomdpfit.formats._preamble import Preamble, read_preamble, read_start

MOST_ENTRIES = 4_000_000  # of one table
MOST_WRITES = 1_000_000_000  # stars may write a table many times over


class Tables(NamedTuple):
    """What a file says, as it stands there; R has length 1 along what no entry tells apart."""

    transition: Float[np.ndarray, "A S S"]
    observation: Float[np.ndarray, "A S Z"]
    reward: Float[np.ndarray, "A S #S #Z"]
    start: Float[np.ndarray, "S"]
    discount: float
    states: tuple[str, ...]
    actions: tuple[str, ...]
    observations: tuple[str, ...]


def make_tables(statements: list[Statement], source: Source) -> Tables:
    """All tables, later entries over earlier ones, checked row by row."""
    preamble = read_preamble(statements, source)
    a, s, z = preamble.actions, preamble.states, preamble.observations
    by_kind: dict[str, list[Statement]] = {"T": [], "O": [], "R": []}
    for statement in statements:
        if statement.keyword in by_kind:
            by_kind[statement.keyword].append(statement)
    axes = {"T": (a, s, s), "O": (a, s, z), "R": _told_apart(by_kind["R"], (a, s, s, z))}
    for kind, entries in by_kind.items():
        _refuse_too_large(kind, entries, axes[kind], source)
    start = read_start(preamble.start, s, source)
    transition, lines = _filled(by_kind["T"], axes["T"], source, start)
    _check_rows(transition, lines, ("T", "start state"), preamble, source)
    observation, lines = _filled(by_kind["O"], axes["O"], source, start)
    _check_rows(observation, lines, ("O", "end state"), preamble, source)
    reward, _ = _filled(by_kind["R"], axes["R"], source, start)
    reward = 0.0 - reward if preamble.costs else reward  # 0 - 0 is 0, not -0
    labels = s.labels(), a.labels(), z.labels()
    return Tables(transition, observation, reward, start, preamble.discount, *labels)


# ---- sizes -------------------------------------------------------------------------------------


def _told_apart(entries: list[Statement], axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """The axes of R, without s' or z where every entry has a star there."""
    starred = lambda k: all(
        len(entry.places) > k and entry.places[k].type == "STAR" for entry in entries
    )
    one = lambda axis: Axis(axis.kind, 1, axis.names, axis.numbers)
    return (*axes[:2], *(one(axes[k]) if starred(k) else axes[k] for k in (2, 3)))


def _refuse_too_large(
    kind: str, entries: list[Statement], axes: tuple[Axis, ...], source: Source
) -> None:
    """Before anything is allocated: bounds on the table, and on how often it is written over."""
    sizes = [axis.size for axis in axes]
    if math.prod(sizes) > MOST_ENTRIES:
        spelled = " x ".join(f"{size:,}" for size in sizes)
        source.refuse_all(
            f"the table of {kind} would have {spelled} = {math.prod(sizes):,} entries, more than "
            f"the {MOST_ENTRIES:,} that are read. Check the counts, or lump states together."
        )
    writes = 0
    for entry in entries:
        given = len(entry.places)
        many = (size for size, p in zip(sizes, entry.places, strict=False) if p.type == "STAR")
        writes += math.prod(many) * math.prod(sizes[given:])
    if writes > MOST_WRITES:
        source.refuse_all(
            f"the entries of {kind} write {writes:,} numbers, more than {MOST_WRITES:,}: too many "
            "of them have stars. Remove those that later ones write over."
        )


# ---- entries -----------------------------------------------------------------------------------


def _filled(
    entries: list[Statement], axes: tuple[Axis, ...], source: Source, start: np.ndarray
) -> tuple[np.ndarray, Int[np.ndarray, "A S"]]:
    """The table with every entry written in its order, and the last line that wrote each row."""
    sizes = tuple(axis.size for axis in axes)
    table, lines = np.zeros(sizes), np.zeros(sizes[:2], dtype=np.int64)
    for entry in entries:
        where = tuple(axis.find(p, source) for axis, p in zip(axes, entry.places, strict=False))
        table[where] = _content(entry, sizes, source, start)
        lines[where[:2]] = entry.keyword.line or 0
    return table, lines


def _content(
    entry: Statement, sizes: tuple[int, ...], source: Source, start: np.ndarray
) -> np.ndarray:
    """What an entry says of its places: a number, a row, or a matrix."""
    shape, word = sizes[len(entry.places) :], entry.body[0]
    if word.type == "UNIFORM":
        return np.full(shape, 1.0 / sizes[-1])
    if word.type == "IDENTITY":
        return np.eye(shape[0])
    if word.type == "RESET":
        return np.broadcast_to(start, shape)
    is_reward = entry.keyword == "R"
    numbers = (read_numbers if is_reward else read_probabilities)(entry.body, source)
    if len(numbers) != math.prod(shape):
        spelled = " x ".join(map(str, shape))
        needed = {
            0: "one number",
            1: f"a row of {spelled} numbers",
            2: f"a matrix of {spelled} = {math.prod(shape)} numbers",
        }[len(shape)]
        source.refuse(
            entry.keyword,
            f"this {entry.keyword} entry names {len(entry.places)} places and so needs {needed}, "
            f"but {len(numbers)} follow.",
        )
    return numbers.reshape(shape)


def _check_rows(
    table: Float[np.ndarray, "A S n"],
    lines: Int[np.ndarray, "A S"],
    names: tuple[str, str],
    preamble: Preamble,
    source: Source,
) -> None:
    """Refuse, and never renormalise, a row that is missing or does not sum to one."""
    kind, state = names
    total = table.sum(axis=2)
    wrong = np.abs(total - 1.0) > SUM_TOLERANCE
    if not wrong.any():
        return
    a, s = (int(k) for k in np.argwhere(wrong)[0])
    place = f"action {preamble.actions.label(a)!r} and {state} {preamble.states.label(s)!r}"
    more = f" ({wrong.sum() - 1} more rows are wrong)" if wrong.sum() > 1 else ""
    if lines[a, s] == 0:
        source.refuse_all(f"no {kind} entry gives the row of {place}{more}. Add one.")
    source.refuse_line(
        int(lines[a, s]),
        f"the {kind} row of {place} must sum to 1, but it sums to {total[a, s]:.10g}{more}. Rows "
        "are never rescaled: mend the numbers, or give more digits.",
    )
