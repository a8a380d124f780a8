"""What must go together in a loaded data set that is streamed."""

import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np

from pomdpfit.data._columns import Columns
from pomdpfit.streaming import PanelScan
from pomdpfit.streaming._partition import Partition

_COUNTS = ("size", "modified", "agents", "rows", "longest", "choices", "transitions")


def check_scan(scan: PanelScan) -> None:
    """Refuse parts of the wrong type. Files are looked at when they are read, not before."""
    _require("path", scan.path, str)
    _require("columns", scan.columns, Columns)
    _require("entry", scan.entry, numbers.Integral | Mapping)
    _require("files", scan.partitions, tuple)
    if not scan.partitions:
        raise ValueError("the data set has no files.")
    columns = scan.columns
    for name in ("agent", "time", "observation", "action"):
        _require(f"{name} column", getattr(columns, name), str)
    for name in ("observations", "actions", "groups"):
        _require(name, getattr(columns, name), tuple | list | None)
    width = len(columns.read_beside_z)
    for part in scan.partitions:
        _require("file", part, Partition)
        for name in _COUNTS:
            _require(f"{name} of a file", getattr(part, name), numbers.Integral)
            if getattr(part, name) < 0:
                raise ValueError(f"the {name} of a file of the data set cannot be negative.")
        _require("scored agents of a file", part.scored, numbers.Integral | None)
        for name in ("path", "digest"):
            _require(f"{name} of a file", getattr(part, name), str)
        _require("contexts", part.contexts, np.ndarray)
        if part.contexts.ndim != 2 or part.contexts.shape[1] != width:
            raise ValueError(f"a file of the data set must have {width} covariates.")


def _require(what: str, value: Any, kind: Any) -> None:
    if not isinstance(value, kind):
        raise ValueError(f"the {what} of the data set cannot be {type(value).__name__}.")
