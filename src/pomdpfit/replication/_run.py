"""The whole replication: parts in order, two processes at a time, a report that grows with them."""

import os
import platform
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from pomdpfit._errors import DatasetError, PomdpfitError
from pomdpfit._progress import Progress, callback, long_running
from pomdpfit._version import __version__
from pomdpfit.datasets import rust1987
from pomdpfit.datasets._rust1987 import FOLDER
from pomdpfit.replication._bus_pictures import bus_pictures
from pomdpfit.replication._conventions_table import conventions_table
from pomdpfit.replication._hidden_tables import hidden_tables
from pomdpfit.replication._how_many_conditions import how_many_conditions
from pomdpfit.replication._modes_in_words import modes_in_words
from pomdpfit.replication._other_groups import other_groups
from pomdpfit.replication._plan import QUICK, Plan
from pomdpfit.replication._rust_tables import rust_tables
from pomdpfit.replication._serial_check import serial_check
from pomdpfit.replication._study import Outcome, Part, Study
from pomdpfit.replication._synthetic_tables import synthetic_tables
from pomdpfit.replication._tracks import run_tracks
from pomdpfit.replication._unknown_prior import unknown_prior
from pomdpfit.report import Report, write_report

# In the order of the report.
PARTS: dict[str, Part] = {
    "rust": rust_tables,
    "table3": hidden_tables,
    "conventions": conventions_table,
    "modes": modes_in_words,
    "buses": bus_pictures,
    "serial": serial_check,
    "table1": synthetic_tables,
    "figure2": unknown_prior,
    "conditions": how_many_conditions,
    "groups": other_groups,
}
# Parts that run one after the other in one process: the later ones use what table3 has found.
TRACKS = (
    ("table3", "buses", "serial", "conventions", "modes", "rust"),
    ("conditions", "table1", "figure2", "groups"),
)
_SIMULATED = ("table1", "figure2")
_NEEDS_TABLE3 = ("buses", "serial", "conventions")
_LONG = ("groups",)  # takes longer than all others together: only on request, or in full
_PACKAGES = ("jax", "jaxlib", "equinox", "numpy", "scipy", "pandas", "matplotlib")


@long_running
def reproduce(
    out: str | Path,
    *,
    plan: Plan = QUICK,
    seed: int = 0,
    source: str | Path | None = None,
    only: Sequence[str] = (),
    samples: Sequence[tuple[int, ...]] = (),
    n_jobs: int = 2,
    progress: Progress | bool | None = None,
) -> Path:
    """Regenerate every table and figure into the folder `out`; its report.html comes back.

    plan     QUICK (minutes) or FULL
    source   of Rust's data, as in `datasets.rust1987`
    only     some of the parts, see PARTS; if not given, all but the other groups of buses, which
             take longer than the rest together (they are part of FULL)
    samples  further groups of buses for Rust's tables
    n_jobs   processes; the numbers do not depend on it

    The report is written anew after every part, so that nothing is lost if the run is stopped.
    """
    began, folder = time.perf_counter(), Path(out)
    chosen = _chosen(only, plan)
    facts, without = _facts(plan, seed, source)
    left_out = [name for name in PARTS if name not in chosen]
    if left_out and not only:
        facts["left out"] = f"{', '.join(left_out)} (pomdpfit reproduce --all)"
    if source is None and "econirl" in facts["data"]:
        source = "econirl"  # found once: a network that does not answer is not asked again
    if without:
        chosen = [name for name in chosen if name in _SIMULATED]
        if not chosen:
            raise DatasetError(without)
    tracks = [[n for n in track if n in chosen] for track in TRACKS]
    tracks = [track for track in tracks if track]
    checkpoint = folder / "checkpoint" if plan.name == "full" else None
    study = Study(plan, seed, source, tuple(samples), checkpoint)
    done: dict[str, Outcome] = {}
    took: dict[str, float] = {}

    def finished(name: str, outcome: Outcome, seconds: float) -> None:
        done[name], took[name] = outcome, seconds
        missing = [n for n in chosen if n not in done]
        parts = ", ".join(f"{n} {took[n]:.0f}" for n in PARTS if n in took)
        total = f"{time.perf_counter() - began:.0f} s ({parts})"
        _write(folder, done, facts | {"time": total}, without, missing)

    run_tracks(study, tracks, PARTS, finished, n_jobs, callback(progress))
    return folder / "report.html"


def _chosen(only: Sequence[str], plan: Plan) -> list[str]:
    unknown = [name for name in only if name not in PARTS]
    if unknown:
        raise PomdpfitError(f"there is no part {unknown[0]!r}: they are {', '.join(PARTS)}.")
    quick = [name for name in PARTS if plan.name == "full" or name not in _LONG]
    wanted = set(only or quick)
    if wanted & set(_NEEDS_TABLE3):
        wanted.add("table3")
    return [name for name in PARTS if name in wanted]


def _facts(plan: Plan, seed: int, source: str | Path | None) -> tuple[dict[str, str], str]:
    """What the numbers depend on; and why the real data are not there, if they are not."""
    facts, without = {}, ""
    try:
        data = rust1987(4, plan.bins, source)
        facts["data"] = f"Rust (1987): {data.source}"
        facts["replacements"] = data.dating
    except DatasetError as error:
        if source is not None or os.environ.get(FOLDER):
            raise  # what was named must be there; nothing else is put in its place
        without = str(error)
        facts["data"] = "none: simulated data alone"
    facts |= {
        "plan": plan.name,
        "grid of beliefs": f"{plan.grid.nodes} (two conditions)",
        "seed": str(seed),
        "pomdpfit": __version__,
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in _PACKAGES},
    }
    return facts, without


def _write(
    folder: Path, done: dict[str, Outcome], facts: dict[str, str], without: str, missing: list[str]
) -> None:
    ordered = [name for name in PARTS if name in done]
    unfinished = None
    if without:
        unfinished = (
            f"Rust's data are not at hand, so that only simulated parts are here. {without}"
        )
    if missing:
        unfinished = f"Not finished: {', '.join(missing)} are still missing. " + (unfinished or "")
    findings = tuple(finding for name in ordered for finding in done[name].findings)
    report = Report(
        "Structural estimation of POMDPs: the replication",
        "Chang, Garcia, Wang and Sun's Tables I to IV and Figure 2, and Rust's (1987) Tables IX "
        "and X, from raw and simulated data, beside what was published",
        facts,
        findings,
        tuple(done[name].section for name in ordered),
        unfinished,
    )
    # Times and versions belong to the report; results.json holds what must come out again.
    results: dict[str, Any] = {name: done[name].results for name in ordered}
    kept = {key: value for key, value in facts.items() if key != "time"}
    write_report(
        report,
        folder,
        {"facts": kept, "findings": findings, "parts": results, "missing": missing},
    )
