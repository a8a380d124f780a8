"""Rust's (1987) bus data as a panel, under the conventions that give his published digits.

The raw .asc files (github.com/OpenSourceEconomics/zurcher-data) are no part of this project; the
environment variable POMDPFIT_RUST1987 names the folder that holds them.
"""

import os
from pathlib import Path

import numpy as np
import pytest

import pomdpfit as pf

HIGHEST_MILEAGE = 450_000
# Rust's group: file and rows of each bus (11 of them are its header).
FILES = {
    1: ("g870.asc", 36),
    2: ("rt50.asc", 60),
    3: ("t8h203.asc", 81),
    4: ("a530875.asc", 128),
    5: ("a530874.asc", 137),
    6: ("a452374.asc", 137),
    7: ("a530872.asc", 137),
    8: ("a452372.asc", 137),
}
HEADER, FIRST_REPLACEMENT, SECOND_REPLACEMENT = 11, 5, 8


def read_panel(groups, bins) -> pf.Panel:
    """One agent for each engine, named (bus, engine); it goes with `reset="increment"`.

    Rust rounds mileage in two ways. Every month z = floor(mileage / width), and increments are
    differences of z; but in the month after a replacement the increment from zero is
    ceil(mileage / width). One row cannot hold both, and both are used: the ceil by the transition
    into that month, the floor by its choice and by the transition out of it. So each engine is an
    agent of its own. The life of a replaced engine ends with a row, without an action, that holds
    the ceil; the life of the next engine begins with a row for the same month that holds the
    floor. No transition leads from one to the other, so each month's increment and choice is
    scored once. Nothing is hidden in this model, and starting a new agent loses nothing.

    The first choice of a bus is not scored; its first transition is.
    """
    z, a, agents, unscored = [], [], [], []
    width = HIGHEST_MILEAGE / bins
    for bus in (bus for group in groups for bus in _read(group)):
        lives = _lives(bus)
        for engine, mileage in enumerate(lives):
            replaced = engine + 1 < len(lives)
            seen = np.floor(mileage / width).astype(int)
            acts = np.zeros(len(seen), dtype=int)
            if replaced:
                acts[-1] = 1
                seen = np.append(seen, int(np.ceil(lives[engine + 1][0] / width)))
            z.append(seen)
            a.append(acts)
            agents.append((int(bus[0]), engine))
            unscored.append(engine == 0)
    panel = pf.Panel.from_arrays(z, a, agents=agents)
    choice = np.ones(panel.z.shape, dtype=bool)
    choice[unscored, 0] = False
    return panel.score(choice=choice)


def _read(group) -> np.ndarray:
    """One row a bus."""
    folder = os.environ.get("POMDPFIT_RUST1987")
    if not folder:
        pytest.skip("POMDPFIT_RUST1987 does not name a folder with Rust's raw .asc files")
    name, rows = FILES[group]
    return np.loadtxt(Path(folder) / name).reshape(-1, rows)


def _lives(bus) -> list[np.ndarray]:
    """Monthly mileage of each engine since it was new.

    A replacement is decided in the last month whose reading is below the replacement odometer.
    """
    readings = bus[HEADER:]
    replacements = bus[[FIRST_REPLACEMENT, SECOND_REPLACEMENT]]
    starts = [0.0, *replacements[replacements > 0]]
    engine = np.searchsorted(starts, readings, side="right") - 1
    return [readings[engine == k] - start for k, start in enumerate(starts)]
