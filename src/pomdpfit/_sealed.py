"""Documents that begin with the digest of what follows: a byte more, less or other is noticed.

A sealed document is JSON, {"sha256": "...", ...}, in which the digest is that of the text without
it. It is no signature: it guards against damage, not against malice; that no code comes out of a
file is guarded by its being JSON.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

_HEAD, _TAIL = b'{"sha256": "', b'",'
_HEX = 64
# All that reading a document which is not what it should be can raise.
UNREADABLE = (KeyError, OSError, RecursionError, TypeError, ValueError)


def sealed(document: dict[str, Any], indent: int | None = None) -> bytes:
    """The document with its digest; the same document gives the same bytes."""
    text = json.dumps(document, sort_keys=True, indent=indent, allow_nan=False).encode()
    return _HEAD + _digest(text) + _TAIL + text[1:]


def read_sealed(path: Path, most: int) -> dict[str, Any]:
    """The document in a file of at most so many bytes; what is none raises one of UNREADABLE."""
    content = bounded_bytes(path, most)
    start = len(_HEAD) + _HEX
    told, text = content[len(_HEAD) : start], b"{" + content[start + len(_TAIL) :]
    if content[: len(_HEAD)] != _HEAD or content[start : start + len(_TAIL)] != _TAIL:
        raise ValueError("it does not begin with its digest.")
    if told != _digest(text):
        raise ValueError("it is not what its digest says: it was cut short or altered.")
    return json.loads(text, parse_constant=_refuse)


def bounded_bytes(path: Path, most: int) -> bytes:
    """What is in a file, unless that is more than such a file may have."""
    with path.open("rb") as stream:
        if os.fstat(stream.fileno()).st_size > most:
            raise ValueError(f"it has more than {most:,} bytes.")
        return stream.read(most)  # and no more, should it be growing


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest().encode()


def _refuse(name: str) -> None:
    raise ValueError(f"it holds {name}, which is not JSON.")
