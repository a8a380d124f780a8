"""A study as a sealed document, and back: no code is ever run from it."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pomdpfit._sealed import read_sealed

PLACE = ["agents", "periods", "replication"]
_FORMAT, _MOST_BYTES = "pomdpfit-design", 2**30
_INFO = ["llf", "converged", "steps", "boundary", "reason"]
_KINDS = {"llf": float, "converged": bool, "steps": int}


def design_document(found: Any) -> dict[str, Any]:
    """All parts of a `StudyDesign`."""
    info = found.info
    return {
        "format": _FORMAT,
        "title": found.title,
        "notes": list(found.notes),
        "seed": found.seed,
        "columns": list(found.draws.columns),
        "places": [list(map(int, place)) for place in info.index],
        "draws": _listed(found.draws),
        "errors": _listed(found.errors),
        "info": {
            "llf": [value if np.isfinite(value) else None for value in info["llf"].tolist()],
            **{name: info[name].tolist() for name in _INFO if name != "llf"},
        },
        "truth": found.truth.tolist(),
        "information": [list(map(int, found.information.index)), _listed(found.information)],
    }


def read_design(path: Path) -> dict[str, Any]:
    """The parts of a `StudyDesign`, refused where they do not go together."""
    found = read_sealed(path, _MOST_BYTES)
    if found.get("format") != _FORMAT:
        raise ValueError(f"it does not say that its format is {_FORMAT!r}.")
    names, places = found["columns"], [tuple(place) for place in found["places"]]
    if not all(len(place) == 3 and all(type(k) is int for k in place) for place in places):
        raise ValueError("its places are not agents, periods and replications.")
    if not all(isinstance(text, str) for text in (found["title"], *found["notes"], *names)):
        raise ValueError("its title, notes and names must be text.")
    if type(found["seed"]) is not int:
        raise ValueError("its seed must be a whole number.")
    index = pd.MultiIndex.from_tuples(places, names=PLACE)
    info = pd.DataFrame(found["info"], index)[_INFO].astype(_KINDS)
    for name, kind in {"boundary": list, "reason": str}.items():
        if not all(isinstance(value, kind) for value in info[name]):
            raise ValueError(f"{name} of a replication is not what it should be.")

    def table(rows: list, index: pd.Index) -> pd.DataFrame:
        values = np.array(rows, dtype=float).reshape(len(index), len(names))  # None becomes NaN
        return pd.DataFrame(values, index, names)

    periods, known = found["information"]
    return {
        "draws": table(found["draws"], index),
        "errors": table(found["errors"], index),
        "info": info,
        "truth": pd.Series(np.array(found["truth"], dtype=float), names, name="truth"),
        "information": table(known, pd.Index(periods, name="periods", dtype=int)),
        "seed": found["seed"],
        "title": found["title"],
        "notes": tuple(found["notes"]),
    }


def _listed(frame: pd.DataFrame) -> list[list[float | None]]:
    return [[float(v) if np.isfinite(v) else None for v in row] for row in frame.to_numpy()]
