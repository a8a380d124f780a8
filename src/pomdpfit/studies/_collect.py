"""From the rows of replications to the study."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from pomdpfit.studies._design_file import PLACE
from pomdpfit.studies._study_design import StudyDesign


def collected(
    rows: Sequence[dict],
    information: Sequence[dict],
    truth: pd.Series,
    seed: int,
    title: str,
) -> StudyDesign:
    """The study from the rows of its replications and of the information by periods."""
    index = pd.MultiIndex.from_tuples([tuple(row[n] for n in PLACE) for row in rows], names=PLACE)
    empty, names = [np.nan] * len(truth), list(truth.index)
    table = lambda key: pd.DataFrame(
        np.array([empty if row["reason"] else row[key] for row in rows], dtype=float), index, names
    )
    info = pd.DataFrame(
        {
            "llf": np.array([row.get("llf") for row in rows], dtype=float),
            "converged": [row["reason"] == "" for row in rows],
            "steps": [row.get("steps", 0) for row in rows],
            "boundary": [row.get("boundary", []) for row in rows],
            "reason": [row["reason"] for row in rows],
        },
        index,
    )
    by_periods = pd.DataFrame(
        np.array([row.get("errors", empty) for row in information], dtype=float).reshape(
            -1, len(names)
        ),
        pd.Index([row["periods"] for row in information], name="periods", dtype=int),
        names,
    )
    notes = [
        f"no information for T = {row['periods']}: {row['reason']}"
        for row in information
        if row["reason"]
    ]
    for N, T in dict.fromkeys((row["agents"], row["periods"]) for row in rows):
        cell = [row for row in rows if (row["agents"], row["periods"]) == (N, T)]
        if said := [row["note"] for row in cell if row.get("note")]:
            share = f"{len(said)} of {len(cell)} replications"
            notes.append(f"standard errors of N = {N}, T = {T} ({share}): {said[0]}")
    draws, errors = table("values"), table("errors")
    return StudyDesign(draws, errors, info, truth, by_periods, seed, title, tuple(notes))
