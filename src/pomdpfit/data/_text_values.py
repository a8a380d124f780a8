"""What a field of a text file stands for: nothing is guessed, and what is not plain stays text.

A field stands for the whole number 3 if it reads 3, +3, 03 or 3.0 (pandas writes the last where
some rows have no value), for a boolean if it reads true or false, for no value if it is empty or
listed in `missing`. Ids and groups are text, to the last character, and 9 is a period like others:
`missing` is not for them. Text that is left is refused where a number belongs.
"""

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from pomdpfit._errors import PanelError
from pomdpfit.data._coded import Coded
from pomdpfit.data._columns import Columns

_WHOLE = re.compile(r"[+-]?[0-9]{1,25}")
_WHOLE_DECIMAL = re.compile(r"([+-]?[0-9]{1,25})\.0*")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_LONGEST = 400  # characters of a number: more than any float has
_BOOLEAN = {"true": True, "false": False}


Missing = str | Sequence[str] | Mapping[str, str | Sequence[str]]


def typed_columns(
    text: dict[str, Coded], columns: Columns, missing: Missing
) -> tuple[dict[str, Coded], list[str]]:
    """Every column with its values in place of text, and what to note."""
    absent, notes, data = _absent(missing, columns), [], {}
    for name, column in text.items():
        data[name] = column.map(_reader(name, columns, absent[name]))
        if _holds_codes(name, columns) and any(map(_WHOLE_DECIMAL.fullmatch, column.distinct)):
            notes.append(f"column {name!r}: decimals such as 3.0 were read as whole numbers")
    return data, notes + _nearly_alike(data[columns.agent])


def _reader(name: str, columns: Columns, absent: frozenset[str]) -> Callable[[str], Any]:
    """What a field of this column stands for."""
    labels = columns.labels.get(name)
    if name == columns.agent or (name == columns.group and labels is None):
        return lambda field: field or None
    if labels is not None:
        return _label_reader(labels, absent)
    read: Callable[[str], Any] = number if name in columns.covariates else whole
    if name == columns.time and columns.freq is not None:
        read = str
    return lambda field: None if field in absent else read(field)


def _holds_codes(name: str, columns: Columns) -> bool:
    """Whether a column holds whole numbers: codes without labels, or periods that are no dates."""
    if name == columns.time:
        return columns.freq is None
    coded = name in {columns.observation, columns.action}
    return coded and columns.labels[name] is None


def _absent(missing: Missing, columns: Columns) -> dict[str, frozenset[str]]:
    """The texts that stand for no value, by column: in ids and times the empty one alone.

    A mapping tells of its own columns alone; elsewhere an empty cell has no value.
    """
    exempt = {columns.agent, columns.time}
    if columns.group is not None and columns.groups is None:
        exempt.add(columns.group)
    if not isinstance(missing, Mapping):
        words = frozenset([missing] if isinstance(missing, str) else missing)
        return {name: frozenset([""]) if name in exempt else words for name in columns.names}
    for name in missing:
        if name in exempt or name not in columns.names:
            may = [column for column in columns.names if column not in exempt]
            raise PanelError(f"missing names the column {name!r}; it may name {', '.join(may)}.")
    given = {n: [words] if isinstance(words, str) else words for n, words in missing.items()}
    return {name: frozenset(["", *given.get(name, ())]) for name in columns.names}


def whole(field: str) -> Any:
    """A whole number or a boolean; other numbers as floats, and all else as it stands."""
    if _WHOLE.fullmatch(field):
        return int(field)
    if decimal := _WHOLE_DECIMAL.fullmatch(field):
        return int(decimal[1])
    return _BOOLEAN[field.lower()] if field.lower() in _BOOLEAN else number(field)


def number(field: str) -> Any:
    """A finite number in digits; all else as it stands."""
    return float(field) if len(field) < _LONGEST and _NUMBER.fullmatch(field) else field


def _label_reader(labels: Sequence[Hashable], absent: frozenset[str]) -> Callable[[str], Any]:
    """Labels by the text that they print as; a listed label wins over a word for no value."""
    by_text = {str(label): label for label in labels}
    if len(by_text) < len(set(labels)):
        raise PanelError(f"some of these labels are the same as text: {list(labels)}.")
    return lambda field: by_text.get(field, None if field in absent else field)


def _nearly_alike(agents: Coded) -> list[str]:
    """A note where two ids differ in leading zeros alone: they are kept apart."""
    seen: dict[str, str] = {}
    for agent in agents.distinct:
        if not agent:
            continue
        other = seen.setdefault(agent.lstrip("0"), agent)
        if other != agent:
            return [
                f"agents {other!r} and {agent!r} differ in leading zeros alone; they are two agents"
            ]
    return []
