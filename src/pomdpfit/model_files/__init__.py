"""Models in TOML files: data only, unless the caller lets a file name a module to import."""

from pomdpfit.model_files._read import read_model
from pomdpfit.model_files._specification import Specification

__all__ = ["Specification", "read_model"]
