"""Arrays of numbers as npy files of version 1.0, read without numpy's reader of Python literals."""

import io
import math
import re

import numpy as np

NUMBER = r"[<>|][biuf][1248]"
_SIZE = r"[0-9]{1,18}"
_HEADER = re.compile(
    rf"\{{'descr': '([^']{{1,20}})', 'fortran_order': False, "
    rf"'shape': \(((?:{_SIZE},|{_SIZE}(?:, {_SIZE}){{1,31}})?)\), \}} *\n".encode()
)


def npy_bytes(array: np.ndarray) -> bytes:
    """The array as an npy file of version 1.0."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.array(array, order="C"), (1, 0), allow_pickle=False)
    return stream.getvalue()


def npy_array(content: bytes) -> np.ndarray:
    """The array of an npy file; its size is compared with the header before any is allocated."""
    stream = io.BytesIO(content)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError("an array is not npy of version 1.0.")
    size = int.from_bytes(stream.read(2), "little")
    dtype, shape = _parsed(stream.read(size))
    if math.prod(shape) * dtype.itemsize != len(content) - stream.tell():
        raise ValueError(f"an array says it has shape {shape}, but its data have another size.")
    return np.frombuffer(content, dtype, offset=stream.tell()).reshape(shape).copy()


def _parsed(header: bytes) -> tuple[np.dtype, tuple[int, ...]]:
    """Type and shape from a header as numpy writes it; numpy would read any Python literal."""
    found = _HEADER.fullmatch(header)
    if found is None:
        raise ValueError(
            "an array has a header of its own kind; numbers and booleans alone are read."
        )
    kind, shape = found[1].decode("latin-1"), found[2].replace(b",", b" ").split()
    if not re.fullmatch(NUMBER, kind):
        raise ValueError(f"an array has type {kind}; numbers and booleans alone are read.")
    return np.dtype(kind), tuple(map(int, shape))
