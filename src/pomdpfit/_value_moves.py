"""How the value moves with theta: found for the scores, and kept for the Hessian beside them."""

from typing import NamedTuple

import numpy as np

from pomdpfit._types import Array, Float, Theta


class ValueMoves(NamedTuple):
    """dv along the entries of free leaves that some directions have, as found at one point."""

    free: Theta
    fixed: Theta
    value: Array | None
    along: Float[np.ndarray, "p e"]
    by_entry: Float[Array, "e C *H Z n c"] | None

    def serves(
        self, free: Theta, fixed: Theta, value: Array, along: Float[np.ndarray, "q e"]
    ) -> bool:
        """Whether it was found here, for all entries that these directions have."""
        if self.value is None or self.free.keys() != free.keys():
            return False
        missing = along.any(axis=0) & ~self.along.any(axis=0)
        there, here = {**self.free, **self.fixed}, {**free, **fixed}
        same = all(np.array_equal(there[name], leaf) for name, leaf in here.items())
        return same and not missing.any() and np.array_equal(self.value, value)
