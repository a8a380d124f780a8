"""This estimate beside others of the same data."""

from collections.abc import Mapping, Sequence

from pomdpfit._errors import EstimationError
from pomdpfit._estimate import Estimate
from pomdpfit.inference._compare import compare
from pomdpfit.report._blocks import Section, Table
from pomdpfit.report.estimate._piece import Piece

THIS = "this estimate"


def named_others(others: Mapping[str, Estimate] | Sequence[Estimate]) -> dict[str, Estimate]:
    """Others by name, by model and number where they have none."""
    if isinstance(others, Estimate):
        raise EstimationError("others must be a list, or a mapping from names, of estimates.")
    if not isinstance(others, Mapping):
        others = {f"{type(e.model).__name__} {k}": e for k, e in enumerate(others, 2)}
    named = {str(name): each for name, each in others.items()}
    wrong = [name for name, each in named.items() if not isinstance(each, Estimate)]
    if wrong or THIS in named:
        raise EstimationError(
            f"others must map names (not {THIS!r}) to estimates, but there is {wrong or [THIS]}."
        )
    return named


def comparison_piece(estimate: Estimate, others: Mapping[str, Estimate]) -> Piece:
    """Both parts of the log-likelihood and the criteria of all, best AIC first."""
    table = compare(**{THIS: estimate}, **others).rename_axis("fit")
    best = table.index[0]
    finding = (
        f"Best by AIC among {len(table)} fits: **{best}**; by BIC: **{table['bic'].idxmin()}**."
    )
    caption = "Fits to the same rows of the same data, best AIC first."
    formats = {c: ",.2f" for c in ("observation", "choice", "llf", "aic", "bic")}
    formats["loss %"] = ".2f"
    section = Section("Comparison", "", (Table("comparison", table, caption, formats),))
    return Piece(section, (finding,))
