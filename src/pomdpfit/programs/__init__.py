"""Compiled programs: how the compiler is asked, and how they are kept for later processes."""

from pomdpfit.programs._call import can_prepare
from pomdpfit.programs._folder import cache_compilations, told_folder
from pomdpfit.programs._program import (
    forget_programs,
    preparing,
    program,
    tracing_many,
    whole_loops,
)
from pomdpfit.programs._store import kept_folder

__all__ = [
    "cache_compilations",
    "can_prepare",
    "forget_programs",
    "kept_folder",
    "preparing",
    "program",
    "told_folder",
    "tracing_many",
    "whole_loops",
]
