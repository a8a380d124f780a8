"""Inference: covariances, bootstrap, tests, comparison."""
