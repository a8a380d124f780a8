"""Monte Carlo of the estimators on a small design: do their intervals cover what they promise?

Run it on its own for the figures in docs/estimation.md:
python -m replication.coverage --replications 500 --jobs 4 --out coverage.json   (from tests/)
"""

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

import pomdpfit as pf

MODEL = pf.models.EngineReplacement(bins=12, increments=3, discount=0.95)
GRID = pf.Smooth(11)
PRIOR = pf.KnownPrior([0.5, 0.5])
INTERIOR = {
    "RC": 4.0,
    "cost": np.array([30.0, 200.0]),
    "stay": np.array([0.9, 0.93]),
    "increment": np.array([[0.2, 0.3, 0.5], [0.5, 0.38, 0.12]]),
    "discount": 0.95,
}
# As in the paper's Table I, where an increment of 3 has probability 0.001 in bad condition.
NEAR_BOUNDARY = INTERIOR | {"increment": np.array([[0.2, 0.3, 0.5], [0.6, 0.3985, 0.0015]])}
DESIGNS = {"interior": INTERIOR, "near the boundary": NEAR_BOUNDARY}
KINDS = {
    "Joint": ("hessian", "opg", "sandwich"),
    "TwoStage": ("hessian", "opg", "sandwich", "uncorrected"),
}
ESTIMATORS = {"Joint": pf.Joint(), "TwoStage": pf.TwoStage()}


def panel_of(truth: dict, seed: int, agents: int = 200, periods: int = 60) -> pf.Panel:
    z0 = np.random.default_rng(seed).integers(0, MODEL.bins, size=agents)
    return pf.simulate(
        MODEL, truth, agents=agents, periods=periods, seed=seed, prior=PRIOR, z0=z0, grid=GRID
    )


def replicate(design: str, seed: int) -> dict:
    """Estimates and standard errors of one panel, by estimator and kind of covariance."""
    panel = panel_of(DESIGNS[design], seed)
    out: dict = {"seed": seed}
    for name, estimator in ESTIMATORS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pf.ConvergenceWarning)
            est = pf.fit(MODEL, panel, estimator, prior=PRIOR, grid=GRID, start=START, starts=1)
        out[name] = {
            "converged": est.converged,
            "boundary": list(est.boundary),
            "near": list(est.near_boundary),
            "params": est.params.to_dict(),
            "bse": {kind: est.standard_errors(kind).to_dict() for kind in KINDS[name]},
        }
    return out


# Not the truth: the climb has to find it.
START = {
    "RC": 3.0,
    "cost": np.array([60.0, 150.0]),
    "stay": np.array([0.8, 0.85]),
    "increment": np.array([[0.3, 0.3, 0.4], [0.4, 0.4, 0.2]]),
}


def bootstrap_errors(seed: int, replicates: int) -> dict:
    """Bootstrap standard errors of one panel, for both estimators."""
    panel, out = panel_of(INTERIOR, seed), {}
    for name, estimator in ESTIMATORS.items():
        est = pf.fit(MODEL, panel, estimator, prior=PRIOR, grid=GRID, start=START, starts=1)
        for parametric in (False, True):
            draws = pf.bootstrap(est, replicates, parametric=parametric, seed=seed)
            kind = "parametric bootstrap" if parametric else "bootstrap"
            out[f"{name}, {kind}"] = draws.bse.to_dict()
    return {"seed": seed, "bse": out}


def truth_of(design: str) -> dict[str, float]:
    return MODEL.space().to_series(MODEL.space().check(DESIGNS[design])).to_dict()


def table(rows: list[dict], design: str) -> list[dict]:
    """Coverage of nominal 95 % intervals, Monte-Carlo and average standard errors."""
    truth, out = truth_of(design), []
    for name, kinds in KINDS.items():
        params = rows[0][name]["params"]
        for parameter in params:
            values = np.array([row[name]["params"][parameter] for row in rows])
            line = {
                "estimator": name,
                "parameter": parameter,
                "truth": truth[parameter],
                "bias": float(values.mean() - truth[parameter]),
                "mc se": float(values.std(ddof=1)),
                "on the bound": float(np.mean([parameter in r[name]["boundary"] for r in rows])),
                "said to be near": float(np.mean([parameter in r[name]["near"] for r in rows])),
            }
            for kind in kinds:
                se = np.array([row[name]["bse"][kind][parameter] or np.nan for row in rows], float)
                inside = np.abs(values - truth[parameter]) <= 1.959963984540054 * se
                line[f"{kind}: cover"] = float(inside[np.isfinite(se)].mean())
                line[f"{kind}: mean se"] = float(np.nanmean(se))
            out.append(line)
    return out


def draw(lines: list[dict], path: Path) -> None:
    """Coverage by parameter, with the band of three Monte-Carlo standard errors."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = [line["parameter"] for line in lines if line["estimator"] == "Joint"]
    series = {
        "joint": ("Joint", "hessian", "o"),
        "two stages, corrected": ("TwoStage", "sandwich", "s"),
        "two stages, not corrected": ("TwoStage", "uncorrected", "x"),
    }
    figure, ax = plt.subplots(figsize=(9, 3.6), layout="constrained")
    ax.axhspan(92.1, 97.9, alpha=0.2, label="95 % within three Monte-Carlo s.e.")
    for label, (estimator, kind, marker) in series.items():
        cover = {x["parameter"]: x[f"{kind}: cover"] for x in lines if x["estimator"] == estimator}
        ax.plot(names, [100 * cover[n] for n in names], marker, label=label)
    ax.set_ylabel("intervals that hold the truth, %")
    ax.tick_params(axis="x", rotation=60, labelsize=8)
    ax.legend(fontsize=8)
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--replications", type=int, default=500)
    parser.add_argument("--bootstraps", type=int, default=16)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("coverage.json"))
    options = parser.parse_args()
    # By reference, not by value: a worker must import the package before it opens any array.
    from replication import coverage as study  # noqa: PLW0406

    run = Parallel(n_jobs=options.jobs, verbose=1)
    result = {}
    for design in DESIGNS:
        rows = run(delayed(study.replicate)(design, seed) for seed in range(options.replications))
        result[design] = {
            "replications": len(rows),
            "converged": {n: float(np.mean([r[n]["converged"] for r in rows])) for n in KINDS},
            "table": table(rows, design),
        }
        options.out.write_text(json.dumps(result, indent=1))
    result["bootstrap"] = run(
        delayed(study.bootstrap_errors)(seed, options.draws) for seed in range(options.bootstraps)
    )
    options.out.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
