"""Slow, plain numpy oracles that the tests compare the package against."""
