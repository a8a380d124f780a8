"""An audit hook that stops whatever would run code from a file, or reach beyond the file."""

import contextlib
import os
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pomdpfit

_NEVER = (
    *(
        "os.system",
        "os.exec",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.spawn",
        "os.startfile",
    ),
    *(
        "subprocess.",
        "pickle.",
        "socket.",
        "ctypes.",
        "shutil.",
        "pty.",
        "urllib.",
        "http.",
        "ftplib.",
    ),
    *("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate"),
    *("os.chmod", "os.chown", "os.putenv", "code.__new__", "function.__new__", "marshal.loads"),
)
_ONLY_AST = 0x400  # of compile's flags: what is made is a tree, not code
_LIBRARIES = tuple(
    {
        str(Path(folder).resolve())
        for folder in (
            *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
            Path(pomdpfit.__file__).parent,
            "/usr/share/zoneinfo",
            "/usr/lib/zoneinfo",
            "/usr/share/lib/zoneinfo",
            "/etc/zoneinfo",
            "/proc",  # memory pools ask how large the machine is
            "/sys",
        )
    }
)


class Forbidden(BaseException):
    """Something that reading a file must not do; no reader's `except` may hide it."""


class Watch:
    """Installed once a process, after a first round of reading; watches while in `during`."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self._file: str | None = None
        # What is loaded by now may be loaded further; zoneinfo looks for its own data so.
        self._roots = {name.partition(".")[0] for name in sys.modules} | {"tzdata"}
        sys.addaudithook(self._hook)

    @contextlib.contextmanager
    def during(self, file: Path) -> Iterator[None]:
        """While this file is read."""
        self.seen = []
        self._file = str(file)
        try:
            yield
        finally:
            self._file = None

    def _hook(self, event: str, arguments: tuple) -> None:
        if self._file is None or not self._forbids(event, arguments):
            return
        told = f"{event} {arguments!r:.200}"
        self.seen.append(told)
        raise Forbidden(told)

    def _forbids(self, event: str, arguments: tuple) -> bool:
        if event not in {"import", "open", "compile", "exec"} and not event.startswith(_NEVER):
            return False
        if event == "import":
            root = str(arguments[0]).partition(".")[0]
            return root not in self._roots and root not in sys.stdlib_module_names
        frame = sys._getframe(2)
        if event == "open":
            return not (self._may_open(*arguments) or _importing(frame))
        if event == "compile":
            return not (_tree_alone(frame) or _importing(frame))
        return not _importing(frame)

    def _may_open(self, path: Any, mode: str | None, flags: int) -> bool:
        """The file itself, and what libraries read of their own; nothing to be written."""
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) or (mode and set(mode) & set("wax+")):
            return False
        if isinstance(path, int):
            return True
        place = os.path.abspath(os.fsdecode(path))
        return place == self._file or place.startswith(_LIBRARIES)


def _tree_alone(frame: FrameType) -> bool:
    """Whether `ast.parse` asks: the header of an npy array is read so, and equations are."""
    flags = frame.f_locals.get("flags", 0)
    return frame.f_code.co_filename.endswith("ast.py") and bool(flags & _ONLY_AST)


def _importing(frame: FrameType | None) -> bool:
    """Whether a module of a library, allowed by its name, is being imported."""
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False
