"""Estimates as files: a zip of one JSON and npy arrays, from which no code is ever run."""

import dataclasses
import json
import struct
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np

from pomdpfit._errors import EstimationError
from pomdpfit._estimate import Estimate
from pomdpfit._version import __version__
from pomdpfit._write import write_atomically
from pomdpfit.storage._checks import check_estimate, require_same_parameters
from pomdpfit.storage._classes import pack_object, ready, unpack_object
from pomdpfit.storage._values import Reader, Writer, npy_array, npy_bytes
from pomdpfit.storage._zip import JSON, MOST_BYTES, MOST_JSON, members_of, unzipped, zipped

_FORMAT, _VERSION = "pomdpfit-estimate", 1
# All that reading a file which is not what it should be can raise.
_MALFORMED = (
    *(ArithmeticError, AttributeError, EOFError, LookupError, OSError, RuntimeError),
    *(TypeError, ValueError, struct.error, zipfile.BadZipFile, zlib.error),
)


def save(estimate: Estimate, path: str | Path) -> None:
    """Write everything but the model's code to `path`, whole or not at all.

    The same estimate gives the same bytes. A model of your own is not stored: hand it to `load`.
    """
    setting = dataclasses.replace(estimate.setting, model=ready(estimate.setting.model))
    writer = Writer(pack_object)
    try:
        content = writer.encode(dataclasses.replace(estimate, setting=setting))
    except EstimationError as error:
        raise EstimationError(f"the estimate cannot be saved: {error}") from error
    header = {"format": _FORMAT, "format_version": _VERSION, "version": __version__}
    text = json.dumps({**header, "estimate": content}, sort_keys=True, allow_nan=False)
    files = {JSON: text.encode()}
    files |= {name: npy_bytes(array) for name, array in writer.arrays.items()}
    if len(text) > MOST_JSON or sum(map(len, files.values())) > MOST_BYTES:
        raise EstimationError(
            f"the estimate is too large to be saved: load would refuse more than {MOST_BYTES:,} "
            f"bytes, of which {MOST_JSON:,} in {JSON}."
        )
    write_atomically(Path(path), zipped(files))


def load(path: str | Path, model: Any = None) -> Estimate:
    """The estimate that `save` wrote, to the last bit; no code in the file is run.

    Parameters, covariances, tables, panel and means come back as they were, and ready models too.
    A model of your own must be handed over for what needs it (predictions, simulation, other
    data): the rest does without. A model that is handed over must have the stored parameters. A
    file that is damaged, of another kind or of a later format raises `EstimationError`.
    """
    path = Path(path)
    with path.open("rb") as stream:
        try:
            estimate = _read(stream)
        except _MALFORMED as error:
            raise EstimationError(f"{path} cannot be loaded as an estimate: {error}") from error
    model = estimate.setting.model if model is None else model
    if model is not None:
        require_same_parameters(path, model, estimate)
    return dataclasses.replace(estimate, setting=dataclasses.replace(estimate.setting, model=model))


def _read(stream: IO[bytes]) -> Estimate:
    with zipfile.ZipFile(stream) as archive:
        members = members_of(archive)
        content = _content(unzipped(archive, members.pop(JSON)))

        def fetch(name: str) -> np.ndarray:
            if name not in members:
                raise ValueError(f"the array {name!r} is missing, or is used twice.")
            return npy_array(unzipped(archive, members.pop(name)))

        estimate = Reader(fetch, unpack_object).decode(content)
    if not isinstance(estimate, Estimate):
        raise ValueError(f"{JSON} holds no Estimate, but {type(estimate).__name__}.")
    check_estimate(estimate)
    return estimate


def _content(text: bytes) -> Any:
    """The estimate inside the JSON, if format and version are known."""
    header = json.loads(text, parse_constant=_refuse_constant)
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise ValueError(f"{JSON} does not say that its format is {_FORMAT!r}.")
    version = header.get("format_version")
    if type(version) is not int or version < 1:
        raise ValueError(f"{JSON} has no format_version, but {version!r}.")
    if version > _VERSION:
        raise ValueError(
            f"it has format {version}, written by pomdpfit {header.get('version')}; this version, "
            f"{__version__}, reads up to {_VERSION}. Upgrade pomdpfit."
        )
    unknown = sorted(set(header) - {"format", "format_version", "version", "estimate"})
    if unknown:
        raise ValueError(f"{JSON} has an unknown field {unknown[0]!r}.")
    return header["estimate"]


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{JSON} holds {name}, which is not JSON.")
