"""Compiled programs on disk, found without tracing.

JAX's own cache knows a program by its text, which must be traced and lowered first: most of what a
second process would wait for. Here a program is known by the text of its call (`_spelling`), by
this package's source and by all that JAX compiles for. What cannot be read is compiled again. The
folder holds code that is run, as JAX's own entries are: it should be its user's alone.
"""

import contextlib
import functools
import hashlib
import os
import pickle
import platform
import time
import zlib
from pathlib import Path

import equinox as eqx
import jax
import jax.scipy.linalg
import jaxlib
import numpy as np
from jax.experimental.serialize_executable import deserialize_and_load, serialize

from pomdpfit._write import write_atomically
from pomdpfit.programs._call import Result
from pomdpfit.programs._errors import UnspelledError

_current: "Store | None" = None
SUFFIX = "-program"  # not the one of JAX's entries, of which it keeps books
_began = time.time()
Kept = tuple[jax.stages.Compiled, Result, list[jax.ShapeDtypeStruct]]
_NO_MATTER = ("cache", "log", "traceback", "jax_dump")  # parts of names of JAX's settings


def current() -> "Store | None":
    """Where this process keeps programs."""
    return _current


def kept_folder() -> Path | None:
    """The folder in which this process keeps programs."""
    return None if _current is None else _current.folder


def keep_in(folder: Path | None) -> None:
    """From now on here, or nowhere."""
    global _current  # noqa: PLW0603  (one folder for one process, as JAX has)
    _current = None if folder is None else Store(folder)


class Store:
    """A folder of compiled programs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, key: str) -> Path:
        """Where a program with this key lies, by the settings that JAX has in this thread."""
        whole = hashlib.sha256(f"{_surroundings()}\n{_settings()}\n{key}".encode())
        return self.folder / f"{whole.hexdigest()}{SUFFIX}"

    def read(self, path: Path) -> Kept | None:
        """The program that lies there, or None; also if it cannot be read any more."""
        _prepare_lapack()
        try:
            kept = pickle.loads(zlib.decompress(path.read_bytes()))
            os.utime(path)  # the last to go when room is made
            return deserialize_and_load(*kept["program"]), Result(kept["result"]), kept["arrays"]
        except Exception:
            return None

    def write(
        self, path: Path, compiled: jax.stages.Compiled, result: Result, arrays: list
    ) -> None:
        """Keep a program, if it can be; another process may be doing the same."""
        with contextlib.suppress(Exception):  # a cache that cannot be written is no reason to fail
            kept = {"program": serialize(compiled), "result": result.skeleton, "arrays": arrays}
            self.folder.mkdir(parents=True, exist_ok=True)  # JAX makes its own when it needs one
            write_atomically(path, zlib.compress(pickle.dumps(kept), level=1))


@functools.cache
def _prepare_lapack() -> None:
    """JAX finds LAPACK's functions when it lowers a program that calls them, and only then.

    A program that calls them and was never lowered here would jump into nothing.
    """
    matrix = jax.ShapeDtypeStruct((1, 1), np.float64)
    jax.jit(jax.scipy.linalg.lu_factor).lower(matrix)


@functools.cache
def _surroundings() -> str:
    """This package to the last letter, what it stands on, and what is compiled for."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        if path.stat().st_mtime > _began:
            raise UnspelledError(f"{path} has changed since it was imported")
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    device = jax.devices()[0]
    return repr(
        (
            digest.hexdigest(),
            platform.python_version(),
            [module.__version__ for module in (jax, jaxlib, eqx, np)],
            (device.platform, device.device_kind, device.client.platform_version),
            (platform.machine(), _processor(), os.cpu_count()),
            os.environ.get("XLA_FLAGS"),
        )
    )


def _settings() -> str:
    """JAX's settings, which may change while a process runs."""
    values = jax.config.values
    names = sorted(name for name in values if not any(part in name for part in _NO_MATTER))
    return repr([(name, repr(values[name])) for name in names])


def _processor() -> str:
    """What this processor can do: code for another one may not run here."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    told = ("flags", "Features", "model", "CPU part", "CPU implementer")
    return repr(sorted({line for line in lines if line.startswith(told)}))
