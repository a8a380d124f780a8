"""Inference: covariances, tests, comparison, bootstrap."""
