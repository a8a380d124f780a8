"""The public names, nothing else."""

from pomdpfit import baselines, bayes, datasets, models
from pomdpfit._constraints import Interval, Positive, Real, Simplex
from pomdpfit._errors import (
    ConvergenceWarning,
    DatasetError,
    EstimationError,
    GridTooLargeError,
    IdentificationWarning,
    ImpossibleObservationError,
    InferenceWarning,
    MissingExtraError,
    ModelError,
    PanelError,
    PomdpFileError,
    PomdpfitError,
    PrecisionError,
    ReportError,
    Result,
    SolveError,
    WorkerError,
    WriteError,
)
from pomdpfit._estimate import Estimate
from pomdpfit._evaluate import Likelihood
from pomdpfit._impossible import impossible_transitions
from pomdpfit._kernel import Kernel
from pomdpfit._kernel_builders import (
    dense_kernel,
    factored_kernel,
    increment_kernel,
    join_actions,
    reset_kernel,
)
from pomdpfit._log_likelihood import LogLikelihood
from pomdpfit._model import Model, Primitives, discount_parameter
from pomdpfit._panel import Panel
from pomdpfit._panel_scores import log_likelihood, score, score_obs
from pomdpfit._params import Covariate, Parameter, ParameterSpace
from pomdpfit._priors import AgentPriors, CommonPrior, KnownPrior, StationaryPrior
from pomdpfit._progress import progress_bar
from pomdpfit._schemes import Linear, Smooth
from pomdpfit._sensitivity import Sensitivity, sensitivity
from pomdpfit._shocks import AbstractShock, Gumbel, NestedLogit
from pomdpfit._simulate import Simulation, simulate
from pomdpfit._solve import Solution, certify, solve
from pomdpfit._test_result import TestResult
from pomdpfit._track_beliefs import Beliefs, filter_beliefs, smooth_beliefs
from pomdpfit._version import __version__
from pomdpfit.bayes import Posterior, sample_posterior
from pomdpfit.certificate import Certificate
from pomdpfit.counterfactuals import (
    Counterfactual,
    DemandCurve,
    FullObservation,
    FullyObserved,
    InformationValue,
    Inspection,
    Restricted,
    Sensor,
    WithSignal,
    counterfactual,
    demand_curve,
    value_of_information,
)
from pomdpfit.data._check_panel import check_panel
from pomdpfit.data._panel_check import PanelCheck
from pomdpfit.data._read_panel import read_panel
from pomdpfit.data._repairs import DropAgents, DropRows, SplitAtGaps, TopCode
from pomdpfit.environments import rollout, to_gymnasium
from pomdpfit.estimators import BHHH, Joint, SoftPolicyGradient, TwoStage, fit, theorem_4
from pomdpfit.formats import read_pomdp, write_pomdp
from pomdpfit.identification import (
    ChoiceLogit,
    Design,
    Forgetting,
    Identification,
    InversionEstimate,
    MarkovOrder,
    PolynomialLogit,
    PriorSet,
    Profile,
    RecoveredDynamics,
    RewardInversion,
    SerialDependence,
    Spectrum,
    StateChoice,
    StatesCost,
    TwoPeriods,
    choose_states,
    fit_by_inversion,
    forgetting,
    identify,
    invert_rewards,
    markov_order_test,
    prior_set,
    profile_likelihood,
    recover_dynamics,
    serial_dependence,
    states_cost,
    two_periods,
    weak_directions,
)
from pomdpfit.inference._bootstrap import bootstrap
from pomdpfit.inference._bootstrap_draws import Bootstrap
from pomdpfit.inference._chi_square import FitTest, chi_square_test
from pomdpfit.inference._compare import compare
from pomdpfit.inference._serial import observation_residuals, serial_correlation
from pomdpfit.inference._tests import likelihood_ratio_test, score_test, vuong_test
from pomdpfit.model_files import Specification, read_model
from pomdpfit.programs import cache_compilations
from pomdpfit.solvers import Newton, RelativeValueIteration
from pomdpfit.storage import load
from pomdpfit.streaming import PanelScan, StreamedLikelihood, simulate_parquet
from pomdpfit.studies import StudyDesign, design

__all__ = [
    "BHHH",
    "AbstractShock",
    "AgentPriors",
    "Beliefs",
    "Bootstrap",
    "Certificate",
    "ChoiceLogit",
    "CommonPrior",
    "ConvergenceWarning",
    "Counterfactual",
    "Covariate",
    "DatasetError",
    "DemandCurve",
    "Design",
    "DropAgents",
    "DropRows",
    "Estimate",
    "EstimationError",
    "FitTest",
    "Forgetting",
    "FullObservation",
    "FullyObserved",
    "GridTooLargeError",
    "Gumbel",
    "Identification",
    "IdentificationWarning",
    "ImpossibleObservationError",
    "InferenceWarning",
    "InformationValue",
    "Inspection",
    "Interval",
    "InversionEstimate",
    "Joint",
    "Kernel",
    "KnownPrior",
    "Likelihood",
    "Linear",
    "LogLikelihood",
    "MarkovOrder",
    "MissingExtraError",
    "Model",
    "ModelError",
    "NestedLogit",
    "Newton",
    "Panel",
    "PanelCheck",
    "PanelError",
    "PanelScan",
    "Parameter",
    "ParameterSpace",
    "PolynomialLogit",
    "PomdpFileError",
    "PomdpfitError",
    "Positive",
    "Posterior",
    "PrecisionError",
    "Primitives",
    "PriorSet",
    "Profile",
    "Real",
    "RecoveredDynamics",
    "RelativeValueIteration",
    "ReportError",
    "Restricted",
    "Result",
    "RewardInversion",
    "Sensitivity",
    "Sensor",
    "SerialDependence",
    "Simplex",
    "Simulation",
    "Smooth",
    "SoftPolicyGradient",
    "Solution",
    "SolveError",
    "Specification",
    "Spectrum",
    "SplitAtGaps",
    "StateChoice",
    "StatesCost",
    "StationaryPrior",
    "StreamedLikelihood",
    "StudyDesign",
    "TestResult",
    "TopCode",
    "TwoPeriods",
    "TwoStage",
    "WithSignal",
    "WorkerError",
    "WriteError",
    "__version__",
    "baselines",
    "bayes",
    "bootstrap",
    "cache_compilations",
    "certify",
    "check_panel",
    "chi_square_test",
    "choose_states",
    "compare",
    "counterfactual",
    "datasets",
    "demand_curve",
    "dense_kernel",
    "design",
    "discount_parameter",
    "factored_kernel",
    "filter_beliefs",
    "fit",
    "fit_by_inversion",
    "forgetting",
    "identify",
    "impossible_transitions",
    "increment_kernel",
    "invert_rewards",
    "join_actions",
    "likelihood_ratio_test",
    "load",
    "log_likelihood",
    "markov_order_test",
    "models",
    "observation_residuals",
    "prior_set",
    "profile_likelihood",
    "progress_bar",
    "read_model",
    "read_panel",
    "read_pomdp",
    "recover_dynamics",
    "reset_kernel",
    "rollout",
    "sample_posterior",
    "score",
    "score_obs",
    "score_test",
    "sensitivity",
    "serial_correlation",
    "serial_dependence",
    "simulate",
    "simulate_parquet",
    "smooth_beliefs",
    "solve",
    "states_cost",
    "theorem_4",
    "to_gymnasium",
    "two_periods",
    "value_of_information",
    "vuong_test",
    "weak_directions",
    "write_pomdp",
]
