"""Labels that nobody listed: those of the model, where a column holds words and not codes."""

import dataclasses
from typing import Any

from pomdpfit._labels import KINDS, model_labels
from pomdpfit._model import require_model
from pomdpfit.data._coded import ABSENT, Coded, is_missing, is_whole
from pomdpfit.data._columns import Columns

_BOOLEAN = {"true", "false"}


def with_model_words(
    columns: Columns, data: dict[str, Coded], model: Any
) -> tuple[Columns, frozenset[str]]:
    """The columns with the model's labels where these are needed, and which labels those are.

    Labels that the caller lists are left as they are, and so are columns that hold codes.
    """
    found: dict[str, Any] = {}
    for kind, words in words_of(columns, model).items():
        if _holds_words(data[getattr(columns, kind)], words):
            found[f"{kind}s"] = words
    return dataclasses.replace(columns, **found), frozenset(found)


def words_of(columns: Columns, model: Any) -> dict[str, tuple[str, ...]]:
    """The model's labels of observations and actions, where the caller lists none."""
    if model is None:
        return {}
    require_model(model, fully_observed=True)
    unlisted = [kind for kind in KINDS if getattr(columns, f"{kind}s") is None]
    words = {kind: model_labels(model, kind) for kind in unlisted}
    return {kind: labels for kind, labels in words.items() if labels is not None}


def _holds_words(column: Coded, words: tuple[str, ...]) -> bool:
    """Whether some value is a word of the model, or all values are text that is no code."""
    values = [value for value in column.distinct if not is_missing(value)]
    texts = {value for value in values if isinstance(value, str) and not _is_number(value)} - {""}
    if texts & set(words):
        return True
    strange = {text for text in texts if text.lower() not in ABSENT | _BOOLEAN}
    return bool(strange) and not any(is_whole(value) or _is_number(value) for value in values)


def _is_number(value: Any) -> bool:
    """Whether it is text that stands for a number."""
    if not isinstance(value, str) or value.lower() in ABSENT:
        return False
    try:
        float(value)
    except ValueError:
        return False
    return True
