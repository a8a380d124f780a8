"""What the data can tell apart: ranks, dynamics, rewards, priors, the number of hidden states."""

from pomdpfit.identification._profile import Profile, profile_likelihood
from pomdpfit.identification._two_periods import (
    RecoveredDynamics,
    TwoPeriods,
    recover_dynamics,
    two_periods,
)
from pomdpfit.identification._weak_directions import Spectrum, weak_directions
from pomdpfit.identification.memory import Forgetting, forgetting
from pomdpfit.identification.priors import PriorSet, prior_set
from pomdpfit.identification.rank import Design, Identification, Rank, identify
from pomdpfit.identification.rewards import (
    ChoiceLogit,
    InversionEstimate,
    PolynomialLogit,
    RewardInversion,
    fit_by_inversion,
    invert_rewards,
)
from pomdpfit.identification.states import (
    MarkovOrder,
    SerialDependence,
    StateChoice,
    StatesCost,
    choose_states,
    markov_order_test,
    serial_dependence,
    states_cost,
)

__all__ = [
    "ChoiceLogit",
    "Design",
    "Forgetting",
    "Identification",
    "InversionEstimate",
    "MarkovOrder",
    "PolynomialLogit",
    "PriorSet",
    "Profile",
    "Rank",
    "RecoveredDynamics",
    "RewardInversion",
    "SerialDependence",
    "Spectrum",
    "StateChoice",
    "StatesCost",
    "TwoPeriods",
    "choose_states",
    "fit_by_inversion",
    "forgetting",
    "identify",
    "invert_rewards",
    "markov_order_test",
    "prior_set",
    "profile_likelihood",
    "recover_dynamics",
    "serial_dependence",
    "states_cost",
    "two_periods",
    "weak_directions",
]
