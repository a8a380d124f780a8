"""Work that failed, by its reason: how often, and where."""

from collections.abc import Hashable, Mapping

import pandas as pd

_NAMED = 10  # places that a sentence lists


def failure_table(reasons: Mapping[Hashable, str] | pd.Series) -> pd.DataFrame:
    """Distinct reasons, the most frequent first, with how many there are and which."""
    where: dict[str, list] = {}
    for place, reason in reasons.items():
        where.setdefault(reason, []).append(place)
    rows = sorted(where.items(), key=lambda row: -len(row[1]))
    table = {"count": [len(places) for _, places in rows], "which": [places for _, places in rows]}
    return pd.DataFrame(table, pd.Index([reason for reason, _ in rows], name="reason", dtype=str))


def failure_notes(table: pd.DataFrame, total: int, what: str) -> tuple[str, ...]:
    """A sentence for each reason: 2 of 200 replicates failed (17, 90): STALLED: ..."""
    notes = []
    for reason, row in table.iterrows():
        listed = ", ".join(map(str, row["which"][:_NAMED]))
        more = ", ..." if row["count"] > _NAMED else ""
        notes.append(f"{row['count']} of {total} {what} failed ({listed}{more}): {reason}")
    return tuple(notes)
