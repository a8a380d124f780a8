"""Measurements that need a process of their own: imports, an empty cache, a peak of memory."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[1]


class ProcessError(RuntimeError):
    """A measurement that did not end well; the message is the end of what it said."""


def run_module(module: str, *words: str, seconds: float = 1800.0) -> dict[str, Any]:
    """What `python -m module words...` prints as the last line, read as JSON.

    It starts without a cache of compiled programs, whatever this process uses.
    """
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in {"JAX_COMPILATION_CACHE_DIR", "POMDPFIT_CACHE"}
    }
    path = [str(_ROOT / "src"), str(_ROOT), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, path))
    try:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", module, *words],
            capture_output=True,
            text=True,
            timeout=seconds,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ProcessError(f"took more than {seconds:.0f} s") from None
    if done.returncode:
        raise ProcessError(done.stderr.strip().splitlines()[-1] if done.stderr else "no message")
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found
