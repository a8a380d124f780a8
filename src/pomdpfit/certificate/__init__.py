"""Proven bounds on values, choice probabilities and the log-likelihood."""

from pomdpfit.certificate._certificate import Certificate, LikelihoodInterval
from pomdpfit.certificate._certify import certify_primitives

__all__ = ["Certificate", "LikelihoodInterval", "certify_primitives"]
