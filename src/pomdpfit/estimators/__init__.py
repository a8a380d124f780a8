"""Estimators: from a likelihood to its maximum."""

from pomdpfit.estimators._base import BHHH, AbstractEstimator
from pomdpfit.estimators._fit import fit
from pomdpfit.estimators._joint import Joint
from pomdpfit.estimators._soft_policy_gradient import SoftPolicyGradient
from pomdpfit.estimators._theorem_4 import theorem_4
from pomdpfit.estimators._two_stage import TwoStage

__all__ = [
    "BHHH",
    "AbstractEstimator",
    "Joint",
    "SoftPolicyGradient",
    "TwoStage",
    "fit",
    "theorem_4",
]
