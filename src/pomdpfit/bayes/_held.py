"""Single entries that are held at a value while the rest of their parameter is sampled.

NUTS moves a whole parameter. An entry that is held is drawn along with the others, but from its
prior alone: the likelihood reads the value that it is held at. Where the prior's entries are
independent that leaves the posterior of the others as it is, so joint priors are refused.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from pomdpfit._constraints import Simplex
from pomdpfit._errors import EstimationError
from pomdpfit._fixed import Fixed, split_fixed
from pomdpfit._params import ParameterSpace
from pomdpfit._types import Array


@dataclasses.dataclass(frozen=True)
class Held:
    """Entries by name; by parameter a mask of them, and an array with their values."""

    entries: tuple[str, ...] = ()
    parts: Mapping[str, tuple[np.ndarray, np.ndarray]] = dataclasses.field(default_factory=dict)

    def put_in(self, theta: Mapping[str, Any]) -> dict[str, Array]:
        """theta with these entries at their values; axes before the parameter's own may differ."""
        filled = {name: jnp.asarray(value) for name, value in theta.items()}
        for name, (mask, values) in self.parts.items():
            filled[name] = jnp.where(mask, values, filled[name])
        return filled

    def refuse_joint(self, priors: Mapping[str, Any]) -> None:
        """Refuse priors under which the entries of a parameter depend on one another."""
        for name in self.parts:
            if getattr(priors[name], "base_dist", priors[name]).event_dim:
                raise EstimationError(
                    f"the prior of {name!r} is one of all its entries together, so that none of "
                    f"them can be fixed alone ({self._of(name)}): give one for single entries."
                )

    def _of(self, name: str) -> str:
        return ", ".join(entry for entry in self.entries if entry.startswith(f"{name}["))


def hold(space: ParameterSpace, fixed: Fixed) -> tuple[ParameterSpace, Held]:
    """The space with whole parameters fixed, and what else is held."""
    leaves, entries = split_fixed(space, fixed)
    space = space.fix(leaves)
    example = {name: np.array(value, dtype=float) for name, value in space.example().items()}
    masks: dict[str, np.ndarray] = {}
    for entry, value in entries.items():
        owner = space.owners[list(space.names).index(entry)]
        p = space.parameters[owner]
        if p.fixed:
            raise EstimationError(
                f"{entry!r} cannot be fixed alone: the model fixes the whole of {owner!r}. Let it "
                f"go with free=[{owner!r}], or fix the whole."
            )
        if isinstance(p.constraint, Simplex):
            raise EstimationError(
                f"{entry!r} cannot be fixed alone here: the entries of its row sum to one, and so "
                f"do not move by themselves. Fix the whole of {owner!r}, or say what you know by a "
                f"prior: priors={{{owner!r}: numpyro.distributions.Dirichlet(...)}}."
            )
        place = p.entry_names(owner) == entry
        masks[owner] = masks.get(owner, np.zeros(p.shape, dtype=bool)) | place
        example[owner] = np.where(place, value, example[owner])
    space.check(example)
    whole = {name: example[name] for name, mask in masks.items() if mask.all()}
    parts = {name: (mask, example[name]) for name, mask in masks.items() if name not in whole}
    kept = tuple(e for e in entries if space.owners[list(space.names).index(e)] in parts)
    return space.fix(whole), Held(kept, parts)
