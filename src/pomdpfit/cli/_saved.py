"""FIT on the command line: a saved fit, with the model where it is the user's own code."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from pomdpfit.cli._common import Usage, say

if TYPE_CHECKING:
    from pomdpfit._estimate import Estimate

_MEND = (
    "its model is code of your own, which is not stored: name it with --model module:object, or "
    "with --model and the model file that names it"
)


def load_fit(path: Path, model: str | None) -> "Estimate":
    """The fit with its model: a ready one as it was stored, one's own where it is named."""
    from pomdpfit.cli._models import model_alone
    from pomdpfit.storage import load

    return load(path, model_alone(model))


def load_whole_fit(path: Path, model: str | None) -> "Estimate":
    """The same for what cannot do without the model."""
    estimate = load_fit(path, model)
    if estimate.model is None:
        raise Usage(f"{path}: {_MEND}.")
    return estimate


def load_fit_or_warn(path: Path, model: str | None) -> "Estimate":
    """The same for what has gaps without the model."""
    estimate = load_fit(path, model)
    if estimate.model is None:
        gap = "or beliefs, policy and fit will be missing from the page."
        say(f"[yellow]warning:[/yellow] {escape(str(path))}: {_MEND}, {gap}")
    return estimate
