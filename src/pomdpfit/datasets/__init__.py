"""Data sets of the field, each with its provenance."""

from pomdpfit.datasets._conventions import CHANG, RUST, Conventions
from pomdpfit.datasets._rust1987 import Rust1987, rust1987

__all__ = ["CHANG", "RUST", "Conventions", "Rust1987", "rust1987"]
