"""The checkpoint of a search: the places of its climbs, refused to any other search."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any

from pomdpfit._checkpoint import open_checkpoint
from pomdpfit._fingerprint import fingerprint, setting_fingerprint
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
    checkpoint: str | FilePath, setting: Setting, asked: Mapping[str, Any], tell: Progress
) -> KeptSearch:
    """The checkpoint of a fit with these arguments."""
    manifest = setting_fingerprint(setting) | {n: fingerprint(v) for n, v in asked.items()}
    kept = KeptSearch(open_checkpoint(FilePath(checkpoint), manifest, "fit"))
    if found := kept.told():
        tell(f"{RESUMED}{found}", 1, 1)
    return kept
