"""A model as a world to act in: for Gymnasium, and for policies that make panels."""

from pomdpfit.environments._rollout import rollout
from pomdpfit.environments._to_gymnasium import to_gymnasium

__all__ = ["rollout", "to_gymnasium"]
