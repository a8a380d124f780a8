"""What stands between a model and a panel: all that scoring the panel needs to know of theta."""

from typing import NamedTuple

import equinox as eqx

from pomdpfit._kernel import Kernel
from pomdpfit._moves import find_moves
from pomdpfit._panel_arrays import PanelArrays
from pomdpfit._scene import Covariates, Scene
from pomdpfit._types import Array, Float, Int

Value = Float[Array, "C *H Z n c"] | None


class Data(NamedTuple):
    """The panel, what is known of x0, and the covariates of each context.

    `moves` may hold what `find_moves` finds for this panel: it is the same at every theta.
    """

    panel: PanelArrays
    prior: Float[Array, "#N S"]
    covariates: Covariates
    moves: Int[Array, "T N"] | None = None

    def places(self, kernel: Kernel) -> Int[Array, "T N"]:
        """Where each row finds the matrix that moves its belief."""
        return find_moves(kernel, self.panel) if self.moves is None else self.moves


class Stage(eqx.Module):
    """The kernel of all contexts, where beliefs start, and the policy if choices are scored."""

    kernel: Kernel
    x0: Float[Array, "#N S"]
    scene: Scene | None

    def split(self) -> tuple["Stage", "Stage"]:
        """What has derivatives, and the rest: `eqx.combine` puts them together again."""
        return eqx.partition(self, eqx.is_inexact_array)
