"""Structural estimation of partially observable Markov decision processes.

The public names live in `_public`, which is imported when the first of them is asked for: JAX takes
a second to import, and `pomdpfit --help` needs none of it.
"""

import importlib
from typing import TYPE_CHECKING, Any

from pomdpfit._version import __version__ as __version__

if TYPE_CHECKING:
    from pomdpfit import plots as plots
    from pomdpfit._public import *  # noqa: F403
    from pomdpfit._public import __all__ as __all__


def __getattr__(name: str) -> Any:
    """A public name, at its first use."""
    if name.startswith("_") and name != "__all__":  # a module of ours, or nothing
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "plots":  # not in `_public`: matplotlib is for those who draw
        return importlib.import_module(f"{__name__}.plots")
    public = importlib.import_module(f"{__name__}._public")
    try:
        value = getattr(public, name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    globals()[name] = value  # so that it is looked up here but once
    return value


def __dir__() -> list[str]:
    """The public names."""
    return sorted({"__version__", "plots", *__getattr__("__all__")})
