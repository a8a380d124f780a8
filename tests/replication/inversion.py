"""Monte Carlo of rewards by inversion beside maximum likelihood, on a small engine model.

Run it on its own for the table in docs/identification/rewards.md:
python -m replication.inversion --replications 100 --out inversion.json   (from tests/)
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import pomdpfit as pf

MODEL = pf.models.EngineReplacement(bins=10, increments=3, discount=0.9)
GRID = pf.Smooth(11)
PRIOR = pf.KnownPrior([0.5, 0.5])
TRUTH = {
    "RC": 3.0,
    "cost": np.array([50.0, 400.0]),
    "stay": np.array([0.9, 0.93]),
    "increment": np.array([[0.2, 0.3, 0.5], [0.5, 0.38, 0.12]]),
    "discount": 0.9,
}
REWARDS = ["RC", "cost[good]", "cost[bad]"]
VARIANTS = [("replace", 2), ("replace", 3), ("keep", 2), ("keep", 3)]


def panel_of(seed: int, agents: int = 200, periods: int = 40) -> pf.Panel:
    z0 = np.random.default_rng(seed).integers(0, MODEL.bins, size=agents)
    return pf.simulate(
        MODEL, TRUTH, agents=agents, periods=periods, seed=seed, prior=PRIOR, z0=z0, grid=GRID
    )


def replicate(seed: int, agents: int = 200, periods: int = 40) -> dict:
    """The reward parameters of one panel by each estimator; they share the first stage."""
    panel = panel_of(seed, agents, periods)
    out, clock = {}, time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pf.ConvergenceWarning)
        est = pf.fit(
            MODEL,
            panel,
            pf.TwoStage(),
            prior=PRIOR,
            grid=GRID,
            start=TRUTH,
            starts=1,
            skip_hessian=True,
        )
    out["maximum likelihood"] = est.params[REWARDS].tolist()
    seconds = {"maximum likelihood": time.perf_counter() - clock}
    for reference, degree in VARIANTS:
        clock = time.perf_counter()
        name = f"inversion, {reference}, degree {degree}"
        found = pf.fit_by_inversion(
            MODEL,
            panel,
            reference=reference,
            prior=PRIOR,
            first_stage=pf.PolynomialLogit(degree),
            dynamics=est.theta,
            grid=GRID,
        )
        out[name] = found.params[REWARDS].tolist()
        seconds[name] = time.perf_counter() - clock
    return {"seed": seed, "params": out, "seconds": seconds}


def table(rows: list[dict]) -> pd.DataFrame:
    """Bias and standard deviation by estimator, with the Monte-Carlo error of the bias."""
    truth = np.array([TRUTH["RC"], *TRUTH["cost"]])
    lines = {}
    for name in rows[0]["params"]:
        values = np.array([row["params"][name] for row in rows])
        bias, deviation = values.mean(axis=0) - truth, values.std(axis=0, ddof=1)
        line = {}
        for k, parameter in enumerate(REWARDS):
            line |= {
                (parameter, "bias"): bias[k],
                (parameter, "s.d."): deviation[k],
                (parameter, "s.e. of bias"): deviation[k] / np.sqrt(len(rows)),
            }
        line["seconds", ""] = float(np.median([row["seconds"][name] for row in rows]))
        lines[name] = line
    return pd.DataFrame(lines).T


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=100)
    parser.add_argument("--agents", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path("inversion.json"))
    args = parser.parse_args()
    rows = []
    for seed in range(args.replications):
        rows.append(replicate(seed, args.agents))
        args.out.write_text(json.dumps(rows))
    print(table(rows).round(3).to_string())


if __name__ == "__main__":
    main()
