"""Folders that keep what is finished of long work, each for the one piece of work that made it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pomdpfit._errors import EstimationError
from pomdpfit._fingerprint import difference
from pomdpfit._write import write_atomically

MANIFEST = "manifest.json"
_KEPT = ("stage-*.zip", "chunk-*.json")
_HALF_WRITTEN = (".*.zip.*", ".*.json.*")
_MOST_BYTES = 2**24  # of a manifest, which holds names and hashes


class CheckpointError(EstimationError):
    """A checkpoint of other work than this."""


def open_checkpoint(folder: Path, manifest: Mapping[str, Any], what: str) -> Path:
    """The folder, made if need be; refused where other things went into the work it is of.

    manifest  all that the work depends on, by the names under which a change is reported
    what      the kind of work: "bootstrap", "fit"
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / MANIFEST
    if not path.exists():
        orphans = [kept.name for pattern in _KEPT for kept in folder.glob(pattern)]
        if orphans:
            raise CheckpointError(
                f"{folder} holds {orphans[0]} but no {MANIFEST}: nobody can tell what it is of. "
                "Use another folder, or delete this one."
            )
        write_atomically(path, json.dumps(manifest, sort_keys=True, indent=1).encode())
        return folder
    changed = difference(manifest, _read(path))
    if changed:
        raise CheckpointError(
            f"the checkpoint in {folder} belongs to another {what}: {', '.join(changed)} changed. "
            "Use another folder, or delete this one."
        )
    return folder


def clear_checkpoint(folder: Path) -> None:
    """Delete what was kept, and the folder if nothing else is in it."""
    for pattern in (*_KEPT, *_HALF_WRITTEN, MANIFEST):  # which vouches for the others: last
        for path in folder.glob(pattern):
            path.unlink(missing_ok=True)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _read(path: Path) -> dict[str, Any]:
    if path.stat().st_size > _MOST_BYTES:
        raise EstimationError(f"{path} cannot be read as a manifest: it is too large.")
    try:
        there = json.loads(path.read_text())
    except (ValueError, RecursionError) as error:
        raise EstimationError(f"{path} cannot be read as a manifest: {error}") from error
    if not isinstance(there, dict):
        raise EstimationError(f"{path} cannot be read as a manifest: it is not an object.")
    return there
