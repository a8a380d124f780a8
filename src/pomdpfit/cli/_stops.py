"""Ctrl-C that comes where Python drops it.

An exception in a destructor or in a callback of the garbage collector (JAX has one) is reported and
forgotten, and the wish to stop with it.
"""

import _thread
import contextlib
import signal
import sys
import threading
from collections.abc import Iterator

_MOMENT = 0.05  # seconds, after which Python is elsewhere


@contextlib.contextmanager
def stops_heard() -> Iterator[None]:
    """A dropped KeyboardInterrupt is raised again, a moment later."""
    usual, again = sys.unraisablehook, []

    def hook(dropped: "sys.UnraisableHookArgs") -> None:
        if not issubclass(dropped.exc_type, KeyboardInterrupt):
            return usual(dropped)
        timer = threading.Timer(_MOMENT, _stop_again)
        timer.daemon = True
        again.append(timer)
        timer.start()

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = usual
        for timer in again:  # what ends by itself need not be stopped
            timer.cancel()


def _stop_again() -> None:
    """To the main thread by a signal, which wakes it; on Windows it is told when it wakes."""
    main = threading.main_thread().ident
    if main is not None and hasattr(signal, "pthread_kill"):
        signal.pthread_kill(main, signal.SIGINT)
    else:
        _thread.interrupt_main()
