"""Which column of a table holds what."""

import dataclasses
from collections.abc import Hashable, Sequence

from pomdpfit._errors import PanelError
from pomdpfit._nearest import nearest
from pomdpfit.data._refusals import Refusals


@dataclasses.dataclass(frozen=True)
class Columns:
    """Which column holds what, and the labels in the order of their codes."""

    agent: str
    time: str
    observation: str
    action: str
    observations: Sequence[Hashable] | None = None
    actions: Sequence[Hashable] | None = None
    freq: str | None = None
    group: str | None = None
    groups: Sequence[Hashable] | None = None
    covariates: tuple[str, ...] = ()

    @property
    def read_beside_z(self) -> list[str]:
        """The covariates under the names by which a model reads them, the group's number last."""
        return [*self.covariates, *([] if self.group is None else ["group"])]

    @property
    def names(self) -> list[str]:
        """All columns that are read."""
        further = ([] if self.group is None else [self.group]) + list(self.covariates)
        return [self.agent, self.time, self.observation, self.action, *further]

    @property
    def labels(self) -> dict[str, Sequence[Hashable] | None]:
        """The labels of each column that may have them."""
        labels = {self.observation: self.observations, self.action: self.actions}
        return labels if self.group is None else {**labels, self.group: self.groups}

    def check(self, there: Sequence[str], source: str, advice: str = "") -> None:
        """Refuse a column that is not among those there, or there twice, naming the closest."""
        names = self.names
        if len(set(names)) < len(names):
            raise PanelError(f"{len(names)} different columns are needed, but they are {names}.")
        refusals = Refusals()
        for name in names:
            with refusals.gathered():
                _require(name, there, source, advice)
            if refusals and advice:  # what is wrong is the delimiter: once is enough
                break
        refusals.tell()


def _require(name: str, there: Sequence[str], source: str, advice: str) -> None:
    count = sum(name == other for other in there)
    if count > 1:
        raise PanelError(f"{source} has {count} columns {name!r}; rename or remove all but one.")
    if count == 0:
        words = [str(other) for other in there]
        hint = nearest(str(name), words) or advice
        raise PanelError(f"{source} has no column {name!r}; it has {listed(words)}.{hint}")


def listed(words: Sequence[str], most: int = 20) -> str:
    """The first of them, each cut to a length that fits a line."""
    shown = ", ".join(word if len(word) <= 60 else f"{word[:60]}..." for word in words[:most])
    return shown + (f" and {len(words) - most} more" if len(words) > most else "")
