"""The checkpoint of a search: the places of its climbs, refused to any other search."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from pomdpfit._checkpoint import open_checkpoint
from pomdpfit._fingerprint import setting_fingerprint, theta_fingerprint
from pomdpfit._progress import RESUMED, Progress
from pomdpfit._setting import Setting
from pomdpfit.estimators._kept_climb import KeptClimb


@dataclasses.dataclass(frozen=True)
class KeptSearch:
    """The folder of all climbs of a search."""

    folder: FilePath

    def climbs(self, stage: int, count: int) -> list[KeptClimb]:
        """The places of so many climbs of a stage, which is counted from 0."""
        folder = self.folder.absolute()  # workers may stand elsewhere
        return [KeptClimb(folder, stage, number) for number in range(count)]

    def told(self) -> str:
        """What is there, in words; empty where there is nothing."""
        begun = len(list(self.folder.glob("stage-*.begun.zip")))
        done = len(list(self.folder.glob("stage-*.zip"))) - begun
        if not (done or begun):
            return ""
        return f"{done} finished climbs and {begun} under way are in {self.folder}"


def open_search(
    checkpoint: str | FilePath | None, setting: Setting, asked: Mapping[str, Any], tell: Progress
) -> KeptSearch | None:
    """The checkpoint, if there is to be one, of a fit with these arguments."""
    if checkpoint is None:
        return None
    manifest = setting_fingerprint(setting) | {name: spelled(v) for name, v in asked.items()}
    kept = KeptSearch(open_checkpoint(FilePath(checkpoint), manifest, "fit"))
    if found := kept.told():
        tell(f"{RESUMED}{found}", 1, 1)
    return kept


def spelled(value: Any) -> Any:
    """An argument as JSON, arrays by their hashes."""
    if value is None or isinstance(value, int | str):
        return value
    if isinstance(value, Mapping):
        return {str(name): spelled(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [spelled(part) for part in value]
    return theta_fingerprint({"": np.asarray(value, dtype=float)})
