"""Files that are written whole or not at all."""

import contextlib
import errno
import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from pomdpfit._errors import WriteError

_reading_umask = threading.Lock()
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = {errno.EROFS, errno.EACCES, errno.EPERM}


def write_atomically(path: Path, content: bytes) -> None:
    """Write to a temporary file beside `path`, flush it to disk, and move it into place.

    The folder is flushed too: it is what knows the file by its name. Where any of this fails, what
    was there before is as it was.
    """
    with _told(path):
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).chmod(0o666 & ~_umask())  # mkstemp hides its files from everybody else
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):  # what went wrong first is what is told
                Path(temporary).unlink(missing_ok=True)
            raise
        _flush_folder(path.parent)


def _umask() -> int:
    """What new files are not allowed: it is read by setting it, which two threads must not mix."""
    with _reading_umask:
        umask = os.umask(0)
        os.umask(umask)
    return umask


def make_folder(folder: Path) -> None:
    """The folder and those above it, made where they are not there and flushed to disk."""
    with _told(folder):
        missing = [place for place in (folder, *folder.parents) if not place.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for made in missing:
            _flush_folder(made.parent)


def _flush_folder(folder: Path) -> None:
    if os.name != "posix":  # elsewhere folders are not opened as files
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some file systems cannot, and say so
            raise
    finally:
        os.close(handle)


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """Errors of the system in words, with the mend."""
    try:
        yield
    except OSError as error:
        raise WriteError(f"{path} cannot be written: {_words(error)}") from error


def _words(error: OSError) -> str:
    why = f"{error.strerror or error}."
    if error.errno in _FULL:
        return f"{why} What was there before is as it was. Make room, or name another place."
    if error.errno in _FORBIDDEN:
        return f"{why} Name a place that you may write to."
    if error.errno in {errno.ENOENT, errno.ENOTDIR, errno.EEXIST}:
        return f"{why} Make its folder first, or name another place."
    return f"{why} What was there before is as it was."
