"""A Ctrl-C that arrives where Python drops it.

An exception raised in a destructor or in a callback of the garbage collector (JAX has one) is
reported and forgotten. For a KeyboardInterrupt that means that the work goes on.
"""

import _thread
import contextlib
import signal
import sys
import threading
from collections.abc import Iterator

_DELAY = 0.05  # seconds, after which Python is elsewhere


@contextlib.contextmanager
def dropped_interrupts() -> Iterator[None]:
    """Raise a dropped KeyboardInterrupt again in the main thread, a moment later."""
    usual, timers = sys.unraisablehook, []

    def hook(dropped: "sys.UnraisableHookArgs") -> None:
        if not issubclass(dropped.exc_type, KeyboardInterrupt):
            return usual(dropped)
        timer = threading.Timer(_DELAY, _interrupt_main_thread)
        timer.daemon = True
        timers.append(timer)
        timer.start()

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = usual
        for timer in timers:
            timer.cancel()


def _interrupt_main_thread() -> None:
    """By a signal, which also ends a wait; Windows has no such signal."""
    main = threading.main_thread().ident
    if main is not None and hasattr(signal, "pthread_kill"):
        signal.pthread_kill(main, signal.SIGINT)
    else:
        _thread.interrupt_main()
