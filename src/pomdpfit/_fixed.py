"""What is held at a value: whole parameters, and single entries such as "cost[good]"."""

from collections.abc import Collection, Mapping

import numpy as np

from pomdpfit._errors import ModelError
from pomdpfit._params import ParameterSpace
from pomdpfit._shown import shown
from pomdpfit._types import ArrayLike, Theta

Fixed = Mapping[str, ArrayLike | float]


def split_fixed(
    space: ParameterSpace, fixed: Fixed
) -> tuple[dict[str, ArrayLike | float], dict[str, float]]:
    """Whole parameters and single entries of `fixed`; names that are neither are refused."""
    for name in fixed:
        space.require_name(name, "fixed")
    space.require_once(fixed, "fixed")
    leaves = {name: value for name, value in fixed.items() if name in space.parameters}
    return leaves, {name: float(fixed[name]) for name in fixed if name not in leaves}


def refuse_fixed_and_free(fixed: Collection[str], free: Collection[str]) -> None:
    """Refuse a parameter that is to be held and let go at once."""
    both = [name for name in free if name in fixed]
    if both:
        raise ModelError(f"{both[0]} is both fixed and free: leave one out.")


def refuse_other_start(space: ParameterSpace, start: Theta, fixed: Collection[str]) -> None:
    """Refuse a start for what the model itself fixes elsewhere: no fit would ever use it.

    A start is often a whole theta; its values for what the caller fixes are not used.
    """
    for name, p in space.parameters.items():
        if name not in start or not p.fixed or p.covariate or name in fixed:
            continue
        given = np.asarray(start[name])
        if not np.array_equal(given, p.value):
            raise ModelError(
                f"{name} is given as {shown(given.tolist())}, but the model fixes it at "
                f"{shown(np.asarray(p.value).tolist())}: let it go with free=[{name!r}], or give "
                f"the value that it is to have in fixed={{{name!r}: ...}}."
            )
