"""The lines of a text file, read piece by piece: a hostile file cannot fill the memory."""

import codecs
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from pomdpfit._errors import PanelError

LONGEST = 2**20  # characters of a record
_PIECE = 2**18  # bytes read at a time
_UNPACKED = 2**23  # bytes that a packed file may always unpack to: read in seconds
_RATIO = 50  # and beyond that, how many times its size; tables pack to a tenth or so
_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


class Lines:
    """Iterates over the lines of a file; `number` is that of the line given last.

    A record is one line, or several where a quoted field holds line ends: whoever reads records
    calls `begin_record`, so that one that never ends is noticed.
    """

    def __init__(self, path: Path, encoding: str) -> None:
        self.path, self.encoding = path, encoding
        self.number, self.begun, self._length = 0, 1, 0
        try:
            b"".decode(encoding)
            self._decoder = codecs.getincrementaldecoder(encoding)("strict")
        except (LookupError, TypeError, ValueError) as error:
            raise PanelError(
                f"encoding={encoding!r} is not one that Python knows; common ones are 'utf-8', "
                "'utf-16', 'cp1252' (Windows) and 'latin-1'."
            ) from error

    def begin_record(self) -> None:
        """The next line begins a record."""
        self.begun, self._length = self.number + 1, 0

    def __iter__(self) -> Iterator[str]:
        rest = ""
        for text in self._decoded():
            if "\0" in text:
                self._refuse_nul(text)
            *whole, rest = (rest + text).split("\n")
            for line in whole:
                yield self._counted(line + "\n")
            if len(rest) > LONGEST:
                self._counted(rest)
        if rest:
            yield self._counted(rest)

    def _counted(self, line: str) -> str:
        self.number += 1
        self._length += len(line)
        if self._length > LONGEST:
            why = (
                "is it a table of text, with ends of lines?"
                if self.begun == self.number
                else "is a quotation mark never closed?"
            )
            raise PanelError(
                f"{self.path}: the record that begins on line {self.begun} is longer than "
                f"{LONGEST} characters; {why}"
            )
        return line

    def _refuse_nul(self, text: str) -> None:
        before = text[: text.index("\0")]
        line = self.number + before.count("\n") + 1
        raise PanelError(
            f"{self.path}: line {line} holds a NUL byte, which text never does. Is the file "
            "damaged, another format, or written in encoding='utf-16'?"
        )

    def _decoded(self) -> Iterator[str]:
        """Pieces of text; a byte that is none in this encoding is refused with its place."""
        read, first = 0, True
        for piece in self._pieces():
            pending = self._decoder.getstate()[0]
            try:
                text = self._decoder.decode(piece, final=not piece)
            except UnicodeError as error:
                self._refuse_bytes(pending + piece, read - len(pending), error)
            read += len(piece)
            if text:
                yield text.removeprefix("\ufeff") if first else text
                first = False

    def _refuse_bytes(self, data: bytes, offset: int, error: UnicodeError) -> None:
        start = error.start if isinstance(error, UnicodeDecodeError) else 0
        line = self.number + data[:start].count(b"\n") + 1
        raise PanelError(
            f"{self.path}: byte {offset + start} (line {line}) is 0x{data[start]:02x}, which is "
            f"not {self.encoding}. It looks like encoding={_likely(data, self.encoding)!r}."
            if data
            else f"{self.path} ends in the middle of a character of {self.encoding}."
        ) from error

    def _pieces(self) -> Iterator[bytes]:
        """Bytes of the file, unpacked if it is packed; the last piece is empty."""
        packed = self.path.suffix.lower() == ".gz"
        try:
            most = max(_UNPACKED, _RATIO * self.path.stat().st_size) if packed else None
            with _opened(self.path, packed) as file:
                total, piece = 0, b"..."
                while piece:
                    piece = file.read(_PIECE)
                    total += len(piece)
                    if most is not None and total > most:
                        raise PanelError(
                            f"{self.path} unpacks to more than {most} bytes, {_RATIO} times its "
                            "size; if that is right, unpack it first."
                        )
                    yield piece
        except (OSError, EOFError, zlib.error) as error:
            raise PanelError(f"{self.path} cannot be read: {error}.") from error


def _opened(path: Path, packed: bool) -> IO[bytes]:
    return gzip.open(path, "rb") if packed else path.open("rb")  # type: ignore[return-value]


def _likely(data: bytes, tried: str) -> str:
    """An encoding in which these bytes are text."""
    for mark, encoding in _MARKS.items():
        if data.startswith(mark):
            return encoding
    for encoding in ("utf-8", "cp1252"):
        try:
            codecs.getincrementaldecoder(encoding)("strict").decode(data)
        except UnicodeDecodeError:
            continue
        if codecs.lookup(encoding) != codecs.lookup(tried):
            return encoding
    return "latin-1"
