"""What one unit of reward is worth in money, as in Rust's scaling of RC."""

from collections.abc import Mapping

import numpy as np

from pomdpfit._errors import ModelError
from pomdpfit._nearest import nearest
from pomdpfit._params import ParameterSpace
from pomdpfit._types import Theta

Dollars = Mapping[str, float] | float


def check_dollars(space: ParameterSpace, dollars: Dollars | None) -> None:
    """One amount, or one parameter and what it is worth."""
    if dollars is None:
        return
    if isinstance(dollars, Mapping):
        if len(dollars) != 1:
            raise ModelError(
                "dollars must name one parameter and what it is worth, as in dollars={'RC': 9000}, "
                f"but it names {len(dollars)}."
            )
        name = next(iter(dollars))
        if name not in space.names:
            raise ModelError(
                f"dollars names {name!r}, which is no entry of theta; there are "
                f"{', '.join(space.names)}.{nearest(str(name), space.names)}"
            )
    amount = next(iter(dollars.values())) if isinstance(dollars, Mapping) else dollars
    if not np.isfinite(amount) or amount <= 0:
        raise ModelError(f"what is worth dollars must be worth more than none, not {amount!r}.")


def dollars_a_unit(space: ParameterSpace, theta: Theta, dollars: Dollars) -> float:
    """9000 / RC where dollars={'RC': 9000}; RC is the baseline's, estimated with error."""
    if not isinstance(dollars, Mapping):
        return float(dollars)
    name, amount = next(iter(dollars.items()))
    value = float(space.to_series(theta)[name])
    if value <= 0:
        raise ModelError(
            f"{name} must be positive to be worth {amount:g} dollars, but it is {value:.6g}."
        )
    return float(amount) / value
