"""Storage: estimates as files."""

from pomdpfit.storage._estimate_file import load, save

__all__ = ["load", "save"]
