"""Models in TOML files: data only, from which no code is ever run."""

from pomdpfit.model_files._read import read_model
from pomdpfit.model_files._specification import Specification

__all__ = ["Specification", "read_model"]
