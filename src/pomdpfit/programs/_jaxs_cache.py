"""Whether JAX has read a program from its own cache, instead of compiling it.

Such a program runs, but cannot be written again: what comes out looks whole, and is not.
"""

import threading
from typing import Any

import jax

_HIT = "/jax/compilation_cache/cache_hits"
_heard = threading.local()
_listening = False


def read_by_jax() -> int:
    """How many programs JAX has read in this thread, since this was first asked."""
    global _listening  # noqa: PLW0603  (JAX has one list of listeners)
    if not _listening:
        _listening = True
        jax.monitoring.register_event_listener(_hear)
    return getattr(_heard, "hits", 0)


def _hear(event: str, **_: Any) -> None:
    if event == _HIT:
        _heard.hits = getattr(_heard, "hits", 0) + 1
