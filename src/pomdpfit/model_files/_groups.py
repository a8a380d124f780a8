"""[groups]: which groups of agents there are, and which parameters each has for itself."""

from typing import Any

import numpy as np

from pomdpfit._errors import ModelError
from pomdpfit.baselines import MDP
from pomdpfit.model_files._checks import refuse_unknown, table, texts
from pomdpfit.models import Grouped


def with_groups(
    content: dict[str, Any], model: Any, tables: dict[str, np.ndarray]
) -> tuple[Any, dict[str, np.ndarray]]:
    """The model, and its theta as far as [tables] give it, for the groups that a file names."""
    if "groups" not in content:
        return model, tables
    given = table(content, "groups")
    refuse_unknown(given, ("labels", "own"), "[groups]")
    if isinstance(model, MDP):
        raise ModelError("[groups] are for models with hidden states: fit each group by itself.")
    own = texts(given, "own")
    if not own:
        raise ModelError(
            '[groups] lacks own, the parameters that differ between groups: own = ["RC"].'
        )
    grouped = Grouped(model, _labels(given), own)
    copies = len(grouped.groups)
    return grouped, {n: np.stack([v] * copies) if n in own else v for n, v in tables.items()}


def _labels(given: dict[str, Any]) -> list[str | int]:
    """Texts or whole numbers, as the column of groups holds them."""
    labels = given.get("labels")
    if not isinstance(labels, list) or not all(type(label) in (str, int) for label in labels):
        raise ModelError(
            "[groups] labels must list the groups as they stand in the data, such as "
            f'labels = ["north", "south"], but it is {labels!r:.80}.'
        )
    return labels
