"""What a report on identification says, sentence by sentence."""

from collections.abc import Iterator
from typing import Any

from pomdpfit._entries import free_entries
from pomdpfit._labels import observation_names
from pomdpfit._panel import Panel
from pomdpfit.identification.rank._designs import Design
from pomdpfit.identification.rank._invisible import MOST_UNKNOWNS, Invisible
from pomdpfit.identification.rank._local_rank import WEAK, Rank, in_words, overlap
from pomdpfit.identification.rank._singular_kernels import HARMLESS, kernels_in_words


def told(rank: Rank | None, name: str) -> str:
    """Whether a free parameter is told apart: yes, no, or not a matter of these data."""
    if rank is None or name not in rank.names:
        return ""
    return "yes" if rank.told[name] else "no"


def facts(report: Any) -> tuple[tuple[str, str], ...]:
    """What stands above the table."""
    everything, observations = report.everything, report.observations
    data = report.data
    found = [
        ("Hidden states", str(report.question.primitives.states)),
        ("Prior", type(report.question.prior).__name__),
        ("Periods", str(len(everything.values))),
        ("First seen at", _few(report)),
        ("Identified", "yes" if report.identified else "NO"),
        ("Rank, all", f"{everything.rank} of {everything.dimension}"),
    ]
    if observations is not None:
        found.append(("Rank, dynamics", f"{observations.rank} of {observations.dimension}"))
    kind = "design" if isinstance(data, Design) else "panel"
    return (*found, ("From", f"a {kind}"))


def _few(report: Any) -> str:
    first, question = report.evidence.first, report.question
    panel = report.data if isinstance(report.data, Panel) else None
    names = observation_names(question.model, question.primitives.observations, panel)
    shown = ", ".join(f"z = {names[z]}" for z in first[:3])
    return shown + (f" and {len(first) - 3} more" if len(first) > 3 else "")


def sentences(report: Any) -> Iterator[str]:
    """Everything there is to say, most important first."""
    yield f"Based on {report.evidence.source}."
    yield from _bounds(report)
    if report.observations is not None:
        yield str(report.observations)
        yield from _not_told(report.observations, report.invisible_observations)
    alike = report.observations is not None and report.everything.names == report.observations.names
    if alike and report.everything.rank == report.observations.rank:
        yield "Choices add nothing to that: all parameters are of the dynamics."
    else:
        yield str(report.everything)
        yield from _not_told(report.everything, report.invisible)
    yield from _weak(report.everything)
    yield from _help(report)
    yield from _names(report)
    yield from kernels_in_words(report.kernels)
    broken = report.kernels[~report.kernels["kind"].isin(HARMLESS) & (report.kernels["rank"] == 1)]
    if len(broken):
        yield (
            "Theorem 5 asks for kernels that are not of rank one; those above of rank one that "
            "are not called harmless break its condition. The ranks here are computed with them."
        )
    for what, row in report.normalised.iterrows():
        tail = "" if row["if it were not"] == "--" else f"; if it were not: {row['if it were not']}"
        yield f"Taken as given, {what}: {row['taken as']}{tail}."


def _not_told(rank: Rank, invisible: Invisible | None) -> Iterator[str]:
    for k, direction in rank.directions.iterrows():
        yield f"Not told apart, direction {k}: {in_words(direction)}."
    if rank.full:
        return
    if invisible is None:
        yield (
            "Which of this no data could tell was not derived: the model is too large "
            f"(over {MOST_UNKNOWNS} unknowns) or reads covariates."
        )
        return
    yield from _families(rank, invisible)


def _families(rank: Rank, invisible: Invisible) -> Iterator[str]:
    missing = rank.dimension - rank.rank
    if invisible.unmoved.shape[1]:
        yield (
            f"{invisible.unmoved.shape[1]} of {missing}: parameters of what is never met from "
            "these first observations (or that nothing depends on)."
        )
    gauge = overlap(rank.null, invisible.gauge)
    if gauge:
        yield (
            f"{gauge} of {missing} are a gauge: P(z', z, a) -> S_z^-1 P(z', z, a) S_z' and r -> "
            "S_z^-1 r with S_z 1 = 1 and x0 S_z = x0, another description of what is hidden under "
            "which every probability stays as it is. Neither longer panels nor more of the same "
            "agents remove it. Agents with |S| linearly independent known priors at a first "
            "observation z remove what it does at that z; structure (fewer free entries in the "
            "kernel) can remove all of it."
        )
    shaping, scale = (overlap(rank.null, moves) for moves in (invisible.shaping, invisible.scale))
    if shaping:
        yield (
            f"{shaping} of {missing} are shaping: r + c(z, s) - discount E[c(z', s') | z, s, a]. "
            "Fix the reward of an action that is always available (and a terminal value)."
        )
    if scale:
        yield f"{scale} of {missing} is the scale of rewards and shocks: fix one of them."
    known = overlap(rank.null, invisible.all)
    single = gauge + shaping + scale + invisible.unmoved.shape[1]
    if known > single:
        yield (
            f"{known - single} of {missing} are of these families (gauge, shaping, scale) taken "
            "together: each needs a little of another to stay within the model."
        )
    if known < missing:
        yield (
            f"{missing - known} of {missing} are not of these families: it is this design that "
            "is too poor (too few periods, too few first observations or priors), or a "
            "coincidence of this theta."
        )


def _bounds(report: Any) -> Iterator[str]:
    space, theta = report.evidence.likelihood.space, report.question.theta
    entries = free_entries(space, space.free_leaves, theta)
    at = entries.at_bound(entries.flatten(theta))
    if at.any():
        names = [name for name, here in zip(entries.names, at, strict=True) if here]
        yield (
            f"theta lies on a bound ({', '.join(names[:4])}{' ...' if len(names) > 4 else ''}): "
            "sequences that are impossible there are not counted, so that these entries may be "
            "told though it says no. Hold them fixed, or ask at a theta inside."
        )


def _weak(rank: Rank) -> Iterator[str]:
    values = rank.values[-1]
    weak = values[(values > rank.tolerance) & (values < WEAK)]
    for (k, direction), value in zip(rank.weak.iterrows(), weak, strict=True):
        yield (
            f"Weak direction {k}, told {1 / value:.1g} times less well than the best one: "
            f"{in_words(direction)}."
        )


def _help(report: Any) -> Iterator[str]:
    if len(report.remedies) < 2:
        return
    for what, row in report.remedies.iloc[1:].iterrows():
        parts = [
            f"{part} {int(row[f'{part}: rank'])} of {int(row[f'{part}: of'])}"
            for part in ("dynamics", "all")
            if f"{part}: rank" in row
        ]
        yield f"With {what} the rank would be: {'; '.join(parts)}."


def _names(report: Any) -> Iterator[str]:
    if report.question.primitives.states == 1:
        return
    if report.mirrors is None:
        yield "Label switching: not tried, there are too many orders of the hidden states."
    elif report.mirrors:
        orders = "; ".join(", ".join(mirror.order) for mirror in report.mirrors)
        yield (
            f"Label switching: the hidden states can be renamed ({orders}) within the model, so "
            f"there are {len(report.mirrors) + 1} equal maxima: names are a convention (`mirrors`)."
        )
    else:
        yield (
            "Label switching: none found. No other order of the hidden states (the same at every "
            "observation) is a theta of this model that leaves the known priors alone."
        )
