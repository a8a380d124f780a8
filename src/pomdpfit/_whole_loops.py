"""Loops of many small turns compiled as one piece of code, on a CPU.

XLA runs a loop on a CPU as a chain of calls: each part of each turn is called for by itself, at
some microseconds, in which a sweep over observations could do the work of the turn. Loops that
touch less than a kilobyte it writes as one function instead. The limit is raised here, to loops
that touch less than a gigabyte in all their turns.

XLA reads its flags once, when it is first used. So they are set on the first use of a public
function, as 64-bit floats are, for this process and those that it starts; where JAX has been used
before, loops run as they did, here and in processes that are started from here: the compiler may
round otherwise in loops of the other kind. Whoever has set such options keeps them as they are.
"""

import functools
import os

import jaxlib

_FLAGS = "XLA_FLAGS"
_EXTRA = "xla_backend_extra_options"
_OPTION = "xla_cpu_small_while_loop_byte_threshold"
_LIMIT, _XLAS_OWN = f"{_OPTION}=1000000000", f"{_OPTION}=1024"
_UNTRIED = (0, 12)  # jaxlib: one that does not know the flag would end the process


@functools.cache
def ask_for_whole_loops() -> None:
    """Set XLA's flag, if the user has set none of its kind."""
    flags = os.environ.get(_FLAGS, "")
    if _EXTRA not in flags and jaxlib.version.__version_info__ < _UNTRIED:
        os.environ[_FLAGS] = f"{flags} --{_EXTRA}={_LIMIT}".strip()


def answered(*, whole: bool) -> None:
    """How loops are compiled here: if XLA was asked too late, other processes do not ask again."""
    if not whole and _FLAGS in os.environ:
        os.environ[_FLAGS] = os.environ[_FLAGS].replace(_LIMIT, _XLAS_OWN)
