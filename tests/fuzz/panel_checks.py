"""What must hold of a panel that was read from a spoiled file."""

import csv
import dataclasses
from pathlib import Path

import numpy as np

import pomdpfit as pf
from tests.fuzz.kinds import Sound

_NAMES = ("agent", "time", "z", "a")


def read(path: Path, sound: Sound) -> pf.Panel:
    """By the public reader, with the options that the sound file needs."""
    return pf.read_panel(path, **sound.options)


def check(panel: pf.Panel, folder: Path) -> None:
    """Codes count from 0, rows come first, numbers are finite; and it can be written and read."""
    check_ranges(panel)
    back = _written_and_read(panel, folder / "again.csv")
    for name in ("z", "a", "present", "acted"):
        np.testing.assert_array_equal(getattr(panel, name), getattr(back, name), name)
    for name, values in panel.covariates.items():
        there = panel.present
        np.testing.assert_array_equal(values[there], back.covariates[name][there], name)
    if all(isinstance(agent, str) for agent in panel.agents):
        assert panel.agents == back.agents


def check_ranges(panel: pf.Panel) -> None:
    """What every panel promises."""
    present, acted = panel.present, panel.acted
    assert present[:, 0].all()
    assert not (present[:, 1:] & ~present[:, :-1]).any()
    assert not (acted & ~present).any()
    assert not (panel.continues & ~acted).any()  # only a last row may lack an action
    assert (panel.z >= 0)[present].all()
    assert (panel.a >= 0)[acted].all()
    assert len(set(panel.agents)) == len(panel.agents)
    assert all(np.isfinite(values[present]).all() for values in panel.covariates.values())


def _written_and_read(panel: pf.Panel, path: Path) -> pf.Panel:
    """By another way out than the package's own, with every field in quotation marks."""
    covariates = [name for name in panel.covariates if name != "group"]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writerow([*_NAMES, *covariates])
        for i, t in np.argwhere(panel.present):
            agent, action = panel.agents[i], panel.a[i, t] if panel.acted[i, t] else ""
            named = agent if isinstance(agent, str) else repr(agent)
            more = [repr(float(panel.covariates[name][i, t])) for name in covariates]
            writer.writerow([named, t, panel.z[i, t], action, *more])
    kept = dict(zip(("agent", "time", "observation", "action"), _NAMES, strict=True))
    back = pf.read_panel(path, **kept, covariates=covariates)
    group = panel.covariates.get("group")
    return (
        back
        if group is None
        else dataclasses.replace(back, covariates={**back.covariates, "group": group})
    )
