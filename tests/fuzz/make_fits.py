"""The sound saved fits, written by `python -m tests.fuzz.make_fits`; kept, as they take a while."""

import dataclasses
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import pomdpfit as pf

FOLDER = Path(__file__).parent / "fits"


def make() -> None:
    """Small estimates that between them hold everything a file can."""
    FOLDER.mkdir(exist_ok=True)
    engine = pf.models.EngineReplacement(bins=4, increments=2, discount=0.8)
    half = pf.KnownPrior([0.5, 0.5])
    panel = pf.simulate(engine, engine.example(), agents=6, periods=5, seed=1, prior=half)
    joint = pf.fit(engine, panel, prior=half, starts=1, grid=pf.Linear(3), fixed={"discount": 0.8})
    joint.save(FOLDER / "joint.zip")
    months = list(pd.date_range("2001-01-31 12:00", periods=6, freq="ME", tz="Europe/Berlin"))
    dated = dataclasses.replace(
        panel,
        agents=tuple(f"bus {k}" for k in range(6)),
        times=np.array([months] * 6, dtype=object),
    ).with_groups(["A", "B"] * 3)
    bus = pf.baselines.BusEngine(bins=4, increments=2, discount=0.8)
    pf.fit(bus, dated, pf.TwoStage(), starts=1).save(FOLDER / "dated.zip")
    ids = (1, 2.5, "x", (1, "a"), pd.Period("2001-02", "M"), pd.Timestamp("2001-02-03").date())
    setting = dataclasses.replace(
        joint.setting,
        panel=dataclasses.replace(joint.panel, agents=ids),
        prior=pf.KnownPrior({agent: np.array([0.25, 0.75]) for agent in ids}),
        grid=pf.Smooth(5),
        solver=pf.RelativeValueIteration(tolerance=1e-7, max_steps=9),
        estimator=pf.TwoStage(pf.BHHH(1e-3)),
    )
    dataclasses.replace(joint, setting=setting, gain=np.inf).save(FOLDER / "mixed.zip")


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such small panels do not identify much
        make()
