"""How large a model a file may name: a number in a file costs nothing, the model's tables do."""

from typing import Any

from pomdpfit._errors import ModelError
from pomdpfit._shown import shown

_MOST_ENTRIES = 500_000  # of theta: each has a name, too
MOST_BINS = 10**6
_COUNTS = ("bins", "increments", "conditions", "observations", "states", "actions")


def within_memory(model: Any) -> Any:
    """The model, unless its parameters alone would fill the memory; nothing is computed."""
    size = {name: getattr(model, name, 1) for name in _COUNTS}
    largest = max(size, key=lambda name: size[name])
    if size[largest] > MOST_BINS:
        raise ModelError(
            f"{largest} is {shown(size[largest])}, too many: a file may ask for {MOST_BINS:,}."
        )
    entries = (size["observations"] * size["states"]) ** 2 * size["actions"]
    entries += size["conditions"] * (size["conditions"] + size["increments"])
    if entries > _MOST_ENTRIES:
        raise ModelError(
            f"the model would have some {entries:,} parameters, too many: a file may ask for "
            f"{_MOST_ENTRIES:,}."
        )
    return model
