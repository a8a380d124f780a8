"""A packed file: format, version and content in one JSON document, arrays beside it."""

import dataclasses
import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from typing import IO, Any

import numpy as np

from pomdpfit._errors import EstimationError
from pomdpfit._version import __version__
from pomdpfit.packing._npy import npy_array, npy_bytes
from pomdpfit.packing._values import Reader, Writer
from pomdpfit.packing._zip import (
    MOST_BYTES,
    MOST_JSON,
    check_seal,
    members_of,
    unzipped,
    zipped,
)

# All that reading a file which is not what it should be can raise.
MALFORMED = (
    *(ArithmeticError, AttributeError, EOFError, LookupError, OSError, RuntimeError),
    *(TypeError, ValueError, struct.error, zipfile.BadZipFile, zlib.error),
)


@dataclasses.dataclass(frozen=True)
class Format:
    """What a file holds (an "estimate"), and the newest version of its format."""

    what: str
    newest: int
    sealed: bool = False  # refused without its digest; else compared with it where there is one

    @property
    def name(self) -> str:
        """As it stands in the file."""
        return f"pomdpfit-{self.what}"


def pack(form: Format, value: Any, pack_object: Callable[[Any, Writer], dict]) -> bytes:
    """The value as a file: the same value gives the same bytes."""
    writer = Writer(pack_object)
    content = writer.encode(value)
    header = {"format": form.name, "format_version": form.newest, "version": __version__}
    text = json.dumps({**header, form.what: content}, sort_keys=True, allow_nan=False)
    files = {f"{form.what}.json": text.encode()}
    files |= {name: npy_bytes(array) for name, array in writer.arrays.items()}
    if len(text) > MOST_JSON or sum(map(len, files.values())) > MOST_BYTES:
        raise EstimationError(
            f"it is too large: more than {MOST_BYTES:,} bytes, or {MOST_JSON:,} of JSON, would not "
            "be read again."
        )
    return zipped(files, form.what)


def unpack(
    form: Format, stream: IO[bytes], unpack_object: Callable[[str, Any, Reader], Any]
) -> Any:
    """The value that was packed; what is not such a file raises one of MALFORMED."""
    with zipfile.ZipFile(stream) as archive:
        members = members_of(archive, form.what)
        check_seal(archive, stream, needed=form.sealed)
        content = _content(form, unzipped(archive, members.pop(f"{form.what}.json")))

        def fetch(name: str) -> np.ndarray:
            if name not in members:
                raise ValueError(f"the array {name!r} is missing, or is used twice.")
            return npy_array(unzipped(archive, members.pop(name)))

        return Reader(fetch, unpack_object).decode(content)


def _content(form: Format, text: bytes) -> Any:
    """What is inside the JSON, if format and version are known."""
    document = f"{form.what}.json"
    header = json.loads(text, parse_constant=_refuse_constant)
    if not isinstance(header, dict) or header.get("format") != form.name:
        raise ValueError(f"{document} does not say that its format is {form.name!r}.")
    version = header.get("format_version")
    if type(version) is not int or version < 1:
        raise ValueError(f"{document} has no format_version, but {version!r}.")
    if version > form.newest:
        raise ValueError(
            f"it has format {version}, written by pomdpfit {header.get('version')}; this version, "
            f"{__version__}, reads up to {form.newest}. Upgrade pomdpfit."
        )
    unknown = sorted(set(header) - {"format", "format_version", "version", form.what})
    if unknown:
        raise ValueError(f"{document} has an unknown field {unknown[0]!r}.")
    return header[form.what]


def _refuse_constant(name: str) -> None:
    raise ValueError(f"the document holds {name}, which is not JSON.")
