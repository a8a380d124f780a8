"""Structural estimation of partially observable Markov decision processes."""

from pomdpfit import baselines, datasets, models
from pomdpfit._constraints import Interval, Positive, Real, Simplex
from pomdpfit._errors import (
    ConvergenceWarning,
    DatasetError,
    EstimationError,
    GridTooLargeError,
    ImpossibleObservationError,
    ModelError,
    PanelError,
    PomdpfitError,
    PrecisionError,
    Result,
    SolveError,
)
from pomdpfit._estimate import Estimate
from pomdpfit._evaluate import Likelihood, log_likelihood, score, score_obs
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
from pomdpfit.certificate import Certificate
from pomdpfit.estimators import BHHH, Joint, SoftPolicyGradient, TwoStage, fit, theorem_4
from pomdpfit.inference._bootstrap import Bootstrap, bootstrap
from pomdpfit.inference._chi_square import FitTest, chi_square_test
from pomdpfit.inference._compare import compare
from pomdpfit.inference._serial import observation_residuals, serial_correlation
from pomdpfit.inference._tests import likelihood_ratio_test, score_test, vuong_test
from pomdpfit.solvers import Newton, RelativeValueIteration
from pomdpfit.storage import load

__all__ = [
    "BHHH",
    "AbstractShock",
    "AgentPriors",
    "Beliefs",
    "Bootstrap",
    "Certificate",
    "CommonPrior",
    "ConvergenceWarning",
    "Covariate",
    "DatasetError",
    "Estimate",
    "EstimationError",
    "FitTest",
    "GridTooLargeError",
    "Gumbel",
    "ImpossibleObservationError",
    "Interval",
    "Joint",
    "Kernel",
    "KnownPrior",
    "Likelihood",
    "Linear",
    "LogLikelihood",
    "Model",
    "ModelError",
    "NestedLogit",
    "Newton",
    "Panel",
    "PanelError",
    "Parameter",
    "ParameterSpace",
    "PomdpfitError",
    "Positive",
    "PrecisionError",
    "Primitives",
    "Real",
    "RelativeValueIteration",
    "Result",
    "Sensitivity",
    "Simplex",
    "Simulation",
    "Smooth",
    "SoftPolicyGradient",
    "Solution",
    "SolveError",
    "StationaryPrior",
    "TestResult",
    "TwoStage",
    "__version__",
    "baselines",
    "bootstrap",
    "certify",
    "chi_square_test",
    "compare",
    "datasets",
    "dense_kernel",
    "discount_parameter",
    "factored_kernel",
    "filter_beliefs",
    "fit",
    "impossible_transitions",
    "increment_kernel",
    "join_actions",
    "likelihood_ratio_test",
    "load",
    "log_likelihood",
    "models",
    "observation_residuals",
    "progress_bar",
    "reset_kernel",
    "score",
    "score_obs",
    "score_test",
    "sensitivity",
    "serial_correlation",
    "simulate",
    "smooth_beliefs",
    "solve",
    "theorem_4",
    "vuong_test",
]
