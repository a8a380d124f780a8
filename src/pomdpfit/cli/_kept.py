"""Where a command keeps what is finished: beside its output, or where the user says."""

import dataclasses
from pathlib import Path

from pomdpfit._checkpoint import clear_checkpoint
from pomdpfit._errors import EstimationError
from pomdpfit.estimators._kept_search import KeptSearch


@dataclasses.dataclass(frozen=True)
class Kept:
    """The folder with the climbs of a fit and the chunks of its bootstrap, or those of a design."""

    folder: Path
    named: bool  # by the user, who may want it afterwards

    @staticmethod
    def beside(out: Path, named: Path | None) -> "Kept":
        """The folder that was named, or one beside the output."""
        return Kept(out.with_suffix(".checkpoint") if named is None else named, named is not None)

    @property
    def search(self) -> Path:
        """Where climbs are kept."""
        return self.folder / "search"

    @property
    def chunks(self) -> Path:
        """Where the bootstrap is kept."""
        return self.folder / "bootstrap"

    @property
    def design(self) -> Path:
        """Where the replications of a design are kept."""
        return self.folder / "design"

    def obey(self, resume: bool | None) -> None:
        """--resume wants something to be there, --no-resume nothing."""
        if resume is False:
            self._clear()
        elif resume and not (
            KeptSearch(self.search).told() or self.chunks.is_dir() or self.design.is_dir()
        ):
            raise EstimationError(
                f"there is nothing to resume in {self.folder}: run the command without --resume."
            )

    def discard(self) -> None:
        """What is not needed any more, unless the user has named the folder."""
        if not self.named:
            self._clear()

    def _clear(self) -> None:
        for folder in (self.search, self.chunks, self.design, self.folder):
            clear_checkpoint(folder)

    def left_behind(self) -> str:
        """What can be gone on from, in words."""
        found = [KeptSearch(self.search).told()] if self.search.is_dir() else []
        chunks = len(list(self.chunks.glob("chunk-*.json")))
        if chunks:
            found = [f"{chunks} finished chunks of the bootstrap are in {self.chunks}"]
        parts = len(list(self.design.glob("chunk-agents-*.json")))
        if parts:
            found = [f"{parts} finished parts of the design are in {self.design}"]
        said = " and ".join(filter(None, found))
        if not said:
            return "nothing was finished yet."
        return f"{said}: run the same command again to go on."
