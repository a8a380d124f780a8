"""Names of actions and observations: the model's, else the panel's; and whether the two agree.

Panels hold codes, so a model and a panel whose labels stand in different orders would be put
together in silence and mean different things by the same code.
"""

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pomdpfit._errors import ModelError, PanelError

if TYPE_CHECKING:
    from pomdpfit._panel import Panel

KINDS = ("action", "observation")


def kept_labels(labels: Sequence[Hashable] | None) -> tuple[Hashable, ...]:
    """Labels as a panel keeps them: plain numbers and text, which a saved fit can hold."""
    given = () if labels is None else labels  # an array of labels has no truth value
    plain = [label.item() if isinstance(label, np.generic) else label for label in given]
    return tuple(label if isinstance(label, str | int | float) else str(label) for label in plain)


def model_labels(model: Any, kind: str) -> tuple[str, ...] | None:
    """The model's own names of its states, actions or observations; None where it has none."""
    own = getattr(model, f"{kind}_labels", lambda: None)()
    return tuple(map(str, own)) if own else None


def names_of(kind: str, model: Any, panel: "Panel | None", count: int) -> tuple[str, ...] | None:
    """The model's names of its actions or observations, else the panel's; None for plain numbers.

    What the panel's list is too short for is called by its code.
    """
    own = model_labels(model, kind)
    if own is not None:
        return own
    read = panel_labels(panel, kind)
    if not read:
        return None
    beyond = [f"code {code}" for code in range(len(read), count)]
    return (*map(str, read), *beyond)[:count]


def action_names(model: Any, count: int, panel: "Panel | None" = None) -> tuple[str, ...]:
    """The model's names of its actions, else the panel's, else their numbers."""
    return names_of("action", model, panel, count) or tuple(map(str, range(count)))


def observation_names(model: Any, count: int, panel: "Panel | None" = None) -> tuple[str, ...]:
    """The model's names of its observations, else the panel's, else their numbers."""
    return names_of("observation", model, panel, count) or tuple(map(str, range(count)))


def observation_keys(
    model: Any, count: int, panel: "Panel | None" = None
) -> tuple[str, ...] | tuple[int, ...]:
    """Observations as tables list them: by the model's names, else the panel's, else by code."""
    return names_of("observation", model, panel, count) or tuple(range(count))


def panel_labels(panel: "Panel | None", kind: str) -> tuple[Hashable, ...]:
    """The labels that a panel was read with; none where it held codes."""
    return () if panel is None else getattr(panel, f"{kind}_labels")


def check_label_counts(model: Any, **sizes: int) -> None:
    """Refuse a model that has more or fewer names than states, actions or observations."""
    for kind, size in sizes.items():
        labels = model_labels(model, kind)
        if labels is not None and len(labels) != size:
            raise ModelError(
                f"{kind}_labels() must name each of the model's {size} {kind}s, but it names "
                f"{len(labels)}: {list(labels)}."
            )


def disagreement(panel: "Panel", model: Any, kind: str) -> str | None:
    """What to say where panel and model name codes differently; None where nothing can be said.

    Only words are compared: a panel with codes, or with labels that are numbers, goes with any
    names of the model.
    """
    own, read = model_labels(model, kind), panel_labels(panel, kind)
    if own is None or not _words(own) or not _words(read):
        return None
    words = [str(label) for label in read]
    if [w.casefold() for w in words] == [w.casefold() for w in own]:
        return None
    told = f"the panel's {kind}s are {words}, but the model's are {list(own)}"
    if sorted(words) == sorted(own):
        return f"{told}, in another order: read the data in the model's order, {kind}s={list(own)}."
    return (
        f"{told}: call them in the data as the model does and read them in the model's order, "
        f"{kind}s={list(own)}, or let {kind}_labels() of a model of your own name yours."
    )


def check_labels(panel: "Panel", model: Any) -> None:
    """Refuse a panel whose labels are not the model's, in the model's order."""
    for kind in KINDS:
        says = disagreement(panel, model, kind)
        if says is not None:
            raise PanelError(says)


def _words(labels: Sequence[Hashable]) -> bool:
    """Whether any label is text that is no number."""
    return any(isinstance(label, str) and not _is_number(label) for label in labels)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
