"""Compiled programs kept on disk, so that a new process need not compile them again.

JAX knows a program by its text, its shapes, its versions and the processor: what is found on disk
is what would have been compiled. The large programs of a fit are known by their calls, and so need
not be traced either (`_store`). Off by default in the library, which changes nothing at import; on
by default in the command line.
"""

import contextlib
import os
import sys
from pathlib import Path

import jax
from jax.experimental.compilation_cache.compilation_cache import reset_cache

from pomdpfit.programs._store import SUFFIX, keep_in

_FOLDER = "POMDPFIT_CACHE"  # a folder of the user's; empty: keep nothing
_JAX = "jax_compilation_cache_dir"
_LARGEST = 1 << 30  # bytes; beyond them the oldest programs go


def cache_compilations(folder: str | os.PathLike[str] | None = None) -> Path | None:
    """Keep compiled programs in a folder, for later processes; say which, or None for nowhere.

    A folder that JAX has been told of (`JAX_COMPILATION_CACHE_DIR`) stays, with JAX's own settings.
    Otherwise: `folder`, or the environment variable `POMDPFIT_CACHE` (empty to keep nothing), or
    the user's folder for caches. Programs of all sizes are kept: a first fit has some hundred small
    ones, and reading one takes a tenth of compiling it.
    """
    told = told_folder()
    if told is not None and folder is None:
        keep_in(None if "://" in str(getattr(jax.config, _JAX)) else told)
        return told
    if folder is None:
        named = os.environ.get(_FOLDER)
        if named == "":
            return None
        folder = _users_folder() if named is None else named
    path = Path(folder).expanduser().absolute()
    try:
        path.mkdir(parents=True, exist_ok=True)
        _make_room(path)
    except OSError:  # a cache that cannot be written is no reason to fail
        return None
    jax.config.update(_JAX, str(path))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    reset_cache()  # JAX looks for a folder once, at the first compilation
    keep_in(path)
    return path


def told_folder() -> Path | None:
    """The folder that JAX has been told of."""
    told = getattr(jax.config, _JAX)
    return Path(told) if told else None


def _make_room(path: Path) -> None:
    """Remove the oldest programs of a folder that has grown too large."""
    files = []
    for entry in (*path.glob("*-cache"), *path.glob(f"*{SUFFIX}")):
        with contextlib.suppress(FileNotFoundError):  # another process may have renamed it
            files.append((entry.stat(), entry))
    total = sum(stat.st_size for stat, _ in files)
    for stat, entry in sorted(files, key=lambda file: file[0].st_mtime):
        if total <= _LARGEST:
            return
        entry.unlink(missing_ok=True)  # another process may have been first
        total -= stat.st_size


def _users_folder() -> Path:
    """Where this platform keeps what can be made again."""
    if sys.platform == "win32":
        root = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        root = Path.home() / "Library" / "Caches"
    else:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "pomdpfit" / "jax"
