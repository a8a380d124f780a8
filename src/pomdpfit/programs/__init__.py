"""Compiled programs: how the compiler is asked, and how they are kept for later processes."""

from pomdpfit.programs._folder import cache_compilations
from pomdpfit.programs._program import program
from pomdpfit.programs._store import kept_folder

__all__ = ["cache_compilations", "kept_folder", "program"]
