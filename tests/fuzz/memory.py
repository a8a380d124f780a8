"""How much memory a read takes: its peak above what the process had before."""

import contextlib
import resource
from pathlib import Path

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def limit_growth(most: int) -> None:
    """Let the process ask for this many bytes more than it has now, where the system can say."""
    with contextlib.suppress(OSError):
        now = _of("VmSize")
        resource.setrlimit(resource.RLIMIT_AS, (now + most, resource.RLIM_INFINITY))


def begin_peak() -> int:
    """Forget the highest use so far; what is in use now, or 0 where the system cannot say."""
    with contextlib.suppress(OSError):
        _CLEAR.write_text("5")
        return _of("VmRSS")
    return 0


def peak() -> int:
    """The highest use since `begin_peak`."""
    with contextlib.suppress(OSError):
        return _of("VmHWM")
    return 0


def _of(name: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise OSError(f"no {name} in {_STATUS}")
