"""What is held at a value: whole parameters, and single entries such as "cost[good]"."""

from collections.abc import Mapping

from pomdpfit._params import ParameterSpace
from pomdpfit._types import ArrayLike

Fixed = Mapping[str, ArrayLike | float]


def split_fixed(
    space: ParameterSpace, fixed: Fixed
) -> tuple[dict[str, ArrayLike | float], dict[str, float]]:
    """Whole parameters and single entries of `fixed`; names that are neither are refused."""
    for name in fixed:
        space.require_name(name, "fixed")
    leaves = {name: value for name, value in fixed.items() if name in space.parameters}
    return leaves, {name: float(fixed[name]) for name in fixed if name not in leaves}
