"""Fully observed models and their likelihood, by code that shares nothing with the POMDP's."""

from pomdpfit.baselines._bus import BusEngine
from pomdpfit.baselines._mdp import MDP
from pomdpfit.baselines._nfxp import NFXPLikelihood

__all__ = ["MDP", "BusEngine", "NFXPLikelihood"]
