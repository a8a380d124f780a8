"""Do the columns of observations and actions stand for each other?"""

import re
from collections.abc import Hashable, Sequence

from pomdpfit.data._coded import Coded, is_missing
from pomdpfit.data._table import Table
from pomdpfit.data._values import is_whole

_DIGITS = re.compile(r"[0-9]{1,18}")


def seem_swapped(table: Table) -> bool:
    """Whether each column would be sound in the place of the other, but not in its own.

    Without labels for either nothing can be told here: a code is as good as another until a model
    says how many there are.
    """
    columns = table.columns
    z, a = table.data[columns.observation], table.data[columns.action]
    as_named = _sound(z, columns.observations) and _sound(a, columns.actions)
    return not as_named and _sound(z, columns.actions) and _sound(a, columns.observations)


def swapped_words(table: Table) -> str:
    """What to say to that."""
    z, a = table.columns.observation, table.columns.action
    source = f"{table.source}: " if table.source else ""
    return (
        f"{source}columns {z!r} and {a!r} seem swapped: {a!r} holds what observations may be, and "
        f"{z!r} what actions may be."
    )


def _sound(values: Coded, labels: Sequence[Hashable] | None) -> bool:
    """Whether there are values, each one of the labels or, without these, a code."""
    known = [v for v in values.distinct if not is_missing(v)]
    if labels is None:
        return bool(known) and all(is_whole(v) or _is_code(v) for v in known)
    names = {str(label) for label in labels}
    return bool(known) and all(str(v) in names for v in known)


def _is_code(value: object) -> bool:
    """A code in text, as a column with labels of its own has it."""
    return isinstance(value, str) and _DIGITS.fullmatch(value) is not None
