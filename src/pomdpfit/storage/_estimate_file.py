"""Estimates as files: a zip of one JSON and npy arrays, from which no code is ever run."""

import dataclasses
from pathlib import Path
from typing import Any

from pomdpfit._errors import EstimationError
from pomdpfit._estimate import Estimate
from pomdpfit._write import write_atomically
from pomdpfit.packing._file import MALFORMED, Format, pack, unpack
from pomdpfit.storage._checks import check_estimate, require_same_parameters
from pomdpfit.storage._classes import pack_object, ready, unpack_object

_FORMAT = Format("estimate", 1)


def save(estimate: Estimate, path: str | Path) -> None:
    """Write everything but the model's code to `path`, whole or not at all.

    The same estimate gives the same bytes. A model of your own is not stored: hand it to `load`.
    """
    setting = dataclasses.replace(estimate.setting, model=ready(estimate.setting.model))
    try:
        content = pack(_FORMAT, dataclasses.replace(estimate, setting=setting), pack_object)
    except EstimationError as error:
        raise EstimationError(f"the estimate cannot be saved: {error}") from error
    write_atomically(Path(path), content)


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
            estimate = unpack(_FORMAT, stream, unpack_object)
            if not isinstance(estimate, Estimate):
                raise ValueError(f"it holds no Estimate, but {type(estimate).__name__}.")
            check_estimate(estimate)
        except MALFORMED as error:
            # zipfile tells of damaged names in full.
            why = f"{error!s:.400}"
            raise EstimationError(f"{path} cannot be loaded as an estimate: {why}") from error
    model = estimate.setting.model if model is None else model
    if model is not None:
        require_same_parameters(path, model, estimate)
    return dataclasses.replace(estimate, setting=dataclasses.replace(estimate.setting, model=model))
