"""Tables I and II of the paper: the synthetic data of 3000 buses over 100 months, fitted.

Run it on its own for the figures in docs/estimation.md:
python -m replication.table1 --seeds 20 --jobs 4 --out table1.json   (from tests/)
"""

import argparse
import json
import time
from pathlib import Path

from joblib import Parallel, delayed

import pomdpfit as pf
from pomdpfit.replication._synthetic_tables import MODEL, START, design

TRUTH = MODEL.example()
BASELINE = pf.baselines.BusEngine(bins=175, increments=4, discount=0.9999, reset="at_zero")


def truth() -> dict[str, float]:
    return MODEL.space().to_series(TRUTH).to_dict()


FITS = {
    "two-stage, x0 known": (pf.TwoStage(), True),
    "two-stage, x0 unknown": (pf.TwoStage(), False),
    "joint, x0 known": (pf.Joint(), True),
}


def one(seed: int, agents: int = 3000, periods: int = 100, out: Path | None = None) -> dict:
    """All fits of one simulated panel; each is written to `out` as soon as it is there."""
    panel, prior = design(seed, agents, periods)
    row: dict = {"seed": seed}
    mdp = pf.fit(BASELINE, panel, pf.Joint(), skip_hessian=True)
    row["mdp"] = {"params": mdp.params.to_dict(), "llf": mdp.llf, "converged": mdp.converged}
    for name, (estimator, known) in FITS.items():
        began = time.perf_counter()
        est = pf.fit(
            MODEL,
            panel,
            estimator,
            prior=prior if known else pf.CommonPrior(),
            start=START,
            starts=1,
            skip_hessian=True,
        )
        names = [n for n in est.information.names if n in truth()]
        row[name] = {
            "params": est.params.to_dict(),
            "bse": est.bse.to_dict(),
            "llf": est.llf,
            "parts": [est.llf_observation, est.llf_choice],
            "converged": est.converged,
            "wald": est.wald_test({n: truth()[n] for n in names}).pvalue,
            "seconds": time.perf_counter() - began,
        }
        # As the paper counts it, (301750 - 262973) / 301750.
        row[name]["loss of the MDP"] = (est.llf - mdp.llf) / abs(mdp.llf)
        if out is not None:
            (out / f"seed-{seed:03d}.json").write_text(json.dumps(row, indent=1))
    return row


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("table1"))
    options = parser.parse_args()
    # By reference, not by value: a worker must import the package before it opens any array.
    from replication import table1 as study  # noqa: PLW0406

    options.out.mkdir(parents=True, exist_ok=True)
    Parallel(n_jobs=options.jobs, verbose=1)(
        delayed(study.one)(seed, out=options.out) for seed in range(options.seeds)
    )


if __name__ == "__main__":
    main()
