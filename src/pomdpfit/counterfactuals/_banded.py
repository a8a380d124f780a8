"""What all counterfactual results share: a table with bands, a summary, a picture."""

import abc
import dataclasses
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import pandas as pd

from pomdpfit._summary import Summary
from pomdpfit.counterfactuals._bands import Bands

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Told(NamedTuple):
    """What is particular to the summary of one kind of result."""

    title: str
    facts: tuple[tuple[str, str], ...]
    table: pd.DataFrame


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class AbstractBanded(abc.ABC):
    """Numbers with standard errors and intervals of level 1 - alpha, and notes for their reader."""

    picture: ClassVar[str]  # the function of pf.plots that draws it

    bands: Bands
    alpha: float
    notes: tuple[str, ...]

    def to_frame(self) -> pd.DataFrame:
        """All numbers, with columns estimate, std err, lower and upper."""
        return self.bands.table

    def summary(self) -> Summary:
        """The numbers as a table that prints, and turns into HTML and LaTeX."""
        title, facts, table = self._told()
        return Summary(title, (*facts, ("Bands", self.bands.method)), table, self.notes)

    def __str__(self) -> str:
        return str(self.summary())

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Its picture, on the axes given or the current ones."""
        from pomdpfit import plots

        return getattr(plots, self.picture)(self, ax=ax)

    @abc.abstractmethod
    def _told(self) -> Told: ...
