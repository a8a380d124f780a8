"""to_gymnasium(): a model at one theta as a Gymnasium environment."""

from typing import TYPE_CHECKING

from pomdpfit._errors import ModelError
from pomdpfit._model import Model
from pomdpfit._optional import import_extra
from pomdpfit._precision import in_float64
from pomdpfit._priors import AbstractPrior
from pomdpfit._types import Theta
from pomdpfit.environments._world import checked_observation, make_world

if TYPE_CHECKING:
    from pomdpfit.environments._env import ModelEnv


@in_float64
def to_gymnasium(
    model: Model,
    theta: Theta,
    *,
    prior: AbstractPrior | None = None,
    z0: int = 0,
    periods: int | None = None,
    shocks: bool = False,
) -> "ModelEnv":
    """The model at theta as a `gymnasium.Env` (extra `gymnasium`).

    Observations are z in Discrete(Z), actions a in Discrete(A), the reward is r(z, s, a). The
    hidden state is in `info`, for whoever may look. `prior` is the belief that s_0 is drawn from,
    `z0` the first observation; `reset(options={"prior": x0, "z0": z0})` sets either for one
    episode. An episode is truncated after `periods` steps (never, if not given) and terminates at
    the end of a finite horizon. With `shocks`, each period's shocks are drawn and shown in `info`
    before the choice, and the reward is r(z, s, a) + eps_a.
    """
    import_extra("gymnasium", "gymnasium", "an environment")
    from pomdpfit.environments._env import ModelEnv

    if periods is not None and (type(periods) is not int or periods < 1):
        raise ModelError(f"periods must be a whole number of at least 1, but it is {periods!r}.")
    world = make_world(model, theta, prior)
    return ModelEnv(world, checked_observation(z0, world.observations), periods, shocks)
