"""How well the data tell the parameters apart, at this estimate."""

from collections.abc import Sequence

import numpy as np

from pomdpfit import plots
from pomdpfit._errors import EstimationError, PomdpfitError
from pomdpfit._estimate import Estimate
from pomdpfit.identification import Spectrum, identify, profile_likelihood, weak_directions
from pomdpfit.report._blocks import Block, Bullets, Figure, Section, Table, Text
from pomdpfit.report.estimate._piece import Piece, axes


def refuse_unknown(estimate: Estimate, profiles: Sequence[str]) -> None:
    """Raise where a profile is asked for of what was not estimated."""
    unknown = [name for name in profiles if name not in estimate.params.index]
    if unknown:
        raise EstimationError(
            f"there is no estimated parameter {unknown[0]!r} to profile; there are "
            f"{', '.join(estimate.params.index)}."
        )


def identification_piece(estimate: Estimate, *, rank: bool, profiles: Sequence[str]) -> Piece:
    """Weak directions; with `rank` what no data such as these could tell; profiles by name."""
    spectrum = weak_directions(estimate)
    blocks = _weak(spectrum)
    findings = [f"Weakly told: {warning}" for warning in spectrum.warnings]
    if rank:
        more, told = _rank(estimate)
        blocks += more
        findings += told
    else:
        text = (
            "What no data such as these could tell (rank, gauge, label switching) was not asked: "
            "`est.report(path, rank=True)` or `pf.identify(est)`."
        )
        blocks.append(Text((text,)))
    blocks += [_profile(estimate, name, k) for k, name in enumerate(profiles, 1)]
    lead = "Can these data tell these parameters apart? A flat direction has a small eigenvalue."
    return Piece(Section("Identification", lead, tuple(blocks)), tuple(findings))


def _rank(estimate: Estimate) -> tuple[list[Block], list[str]]:
    """What `pf.identify` says; where it cannot answer, why."""
    try:
        found = identify(estimate)
    except PomdpfitError as error:
        return [Text((f"The rank is not available: {error}",))], []
    whole = found.everything
    finding = f"Rank {whole.rank} of {whole.dimension} parameters, from data such as these."
    table = found.table.rename_axis("parameter")
    blocks: list[Block] = [
        Table("rank", table, "What tells each parameter."),
        Bullets(found.summary().notes),
    ]
    return blocks, [finding]


def _weak(spectrum: Spectrum) -> list[Block]:
    names = spectrum.shares.columns
    drawing, ax = axes(max(5.4, 1.8 + 0.42 * len(names)), max(3.2, 2.2 + 0.28 * len(names)))
    plots.spectrum(spectrum, ax=ax)
    figure = Figure(
        "spectrum",
        drawing,
        "Eigenvalues of the information, each parameter in units of its standard error with the "
        "others known: 1 means that the others do not matter, near 0 that a combination is hardly "
        "told. Dark cells are the parameters that a direction moves.",
        "A table of cells, a row for each eigenvalue and a column for each parameter.",
    )
    if spectrum.warnings:
        return [figure, Bullets(spectrum.warnings)]
    text = (
        f"The flattest direction is told {np.sqrt(spectrum.condition):.0f} times less well than "
        "the best one (in standard errors, so measured; a hundred times would be weak)."
    )
    return [figure, Text((text,))]


def _profile(estimate: Estimate, name: str, k: int) -> Figure:
    found = profile_likelihood(estimate, name)
    drawing, ax = axes()
    plots.profile(found, ax=ax)
    told = " ".join(found.summary().splitlines())
    alt = f"The log-likelihood against {name}, highest at the estimate."
    return Figure(f"profile-{k}", drawing, f"Profile of {name}. {told}", alt)
