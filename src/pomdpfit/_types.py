"""Shape vocabulary: one letter an axis, the same letters as in the notation page.

Z observations, S hidden states, A actions, K successors of one (z, a), N agents, T periods,
n nodes of the belief grid, c coefficients at a node (1 linear, 2 value and slope).
"""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Array, Bool, Float, Int

ArrayLike = Array | np.ndarray
Belief = Float[ArrayLike, "*b S"]
Theta = Mapping[str, ArrayLike]

__all__ = ["Array", "ArrayLike", "Belief", "Bool", "Float", "Int", "Theta"]
