"""Folders that keep what is finished of long work, each for the one piece of work that made it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pomdpfit._errors import EstimationError
from pomdpfit._fingerprint import difference
from pomdpfit._sealed import UNREADABLE, read_sealed, sealed
from pomdpfit._write import make_folder, write_atomically

MANIFEST = "manifest.json"
_KEPT = ("stage-*.zip", "chunk-*.json")
_HALF_WRITTEN = (".*.zip.*", ".*.json.*")
_MOST_BYTES = 2**24  # of a manifest, which holds names and hashes


class CheckpointError(EstimationError):
    """A checkpoint of other work than this, or one that is damaged."""


def damaged(path: Path, error: object) -> CheckpointError:
    """The refusal of a kept file, with the mend."""
    return CheckpointError(
        f"{path} is damaged: {error!s:.400} Delete it: what it held will be done again."
    )


def open_checkpoint(folder: Path, manifest: Mapping[str, Any], what: str) -> Path:
    """The folder, made if need be; refused where other things went into the work it is of.

    manifest  all that the work depends on, by the names under which a change is reported
    what      the kind of work: "bootstrap", "fit"
    """
    make_folder(folder)
    path = folder / MANIFEST
    if not path.exists():
        orphans = [kept.name for pattern in _KEPT for kept in folder.glob(pattern)]
        if orphans:
            raise CheckpointError(
                f"{folder} holds {orphans[0]} but no {MANIFEST}: nobody can tell what it is of. "
                "Use another folder, or delete this one."
            )
        write_atomically(path, sealed({"manifest": dict(manifest)}, indent=1))
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
    try:
        found = read_sealed(path, _MOST_BYTES)["manifest"]
        if not isinstance(found, dict):
            raise ValueError("it is not an object.")
    except UNREADABLE as error:
        raise CheckpointError(
            f"{path} cannot be read as a manifest: {error!s:.400} Nobody can tell what the files "
            "beside it are of: use another folder, or delete this one."
        ) from error
    return found
