"""Monte Carlo of the test of MDP against POMDP: does it keep its size, and what does it find?

"Warp speed" (Giacomini, Politis and White 2013): one panel is simulated at each replication's own
estimate of the MDP; the ratios of all of them together give the critical value.

Run it on its own for the figures in docs/identification/states.md:
python -m replication.states --null 250 --power 100 --jobs 1 --out states.json   (from tests/)
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from scipy import stats

import pomdpfit as pf
from pomdpfit._setting import Setting
from pomdpfit.identification.states._state_fits import Starts, ratio

AGENTS, PERIODS = 40, 15
EFFECTS = (0.0, 0.4, 0.6, 0.8, 1.0)
ESTIMATOR = pf.TwoStage(pf.BHHH(tolerance=1e-4, max_steps=60))
STARTS = Starts(1, 0)
X0 = pf.KnownPrior([0.5, 0.5])
GRID = pf.Smooth(9)
EXTRA = 6  # parameters of the second state: cost, two increments, two stays, x0


def engine(conditions: int) -> pf.models.EngineReplacement:
    return pf.models.EngineReplacement(bins=6, increments=3, discount=0.8, conditions=conditions)


def truth(effect: float) -> dict:
    """Two conditions that differ by `effect`, 1 being a lot; with 0 they are one."""
    tilt = effect * np.array([0.25, 0.0, -0.25])
    base = np.array([0.35, 0.3, 0.35])
    return {
        "RC": 2.0,
        "cost": 600.0 + effect * np.array([-400.0, 400.0]),
        "stay": np.array([0.85, 0.9]),
        "increment": np.stack([base + tilt, base - tilt]),
        "discount": 0.8,
    }


def panel_of(effect: float, seed: int) -> pf.Panel:
    z0 = np.random.default_rng(seed).integers(0, 4, size=AGENTS)
    return pf.simulate(
        engine(2),
        truth(effect),
        agents=AGENTS,
        periods=PERIODS,
        seed=seed,
        prior=X0,
        z0=z0,
        grid=GRID,
    )


def likelihoods(panel: pf.Panel) -> tuple:
    one = Setting(engine(1), panel, None, None, None, ESTIMATOR)
    two = Setting(engine(2), panel, pf.CommonPrior(), GRID, None, ESTIMATOR)
    return one.likelihood(), two.likelihood()


def replicate(effect: float, seed: int) -> dict:
    """The ratio of one panel, that of a panel simulated at its MDP, and the two pre-tests."""
    began = time.perf_counter()
    panel = panel_of(effect, seed)
    first, second = likelihoods(panel)
    own, low = ratio(first, second, ESTIMATOR, STARTS)
    simulated = first.simulate(low.theta, 10**6 + seed)
    drawn, _ = ratio(*likelihoods(simulated), ESTIMATOR, STARTS, low.theta)
    return {
        "lr": own["lr"],
        "drawn": drawn["lr"],
        "ended": [own["reason"], drawn["reason"]],
        **pretests(panel, seed),
        "seconds": time.perf_counter() - began,
    }


def pretests(panel: pf.Panel, seed: int) -> dict:
    """Their p-values, given a: mileage moves alike at every z."""
    bins = {"increments": True, "actions": [0]}
    order = pf.markov_order_test(panel, replicates=99, seed=seed, **bins)
    return {
        "serial": pf.serial_dependence(panel, lags=1, **bins).pvalue,
        "order": order.pvalue,
        "order of choices": float(order.table.loc["choices", "p_value"]),
    }


def rejections(rows: list[dict], alpha: float = 0.05) -> dict:
    """Shares rejected with their Monte-Carlo standard errors.

    The critical value is itself a quantile of as many draws, which under the null doubles the
    variance; elsewhere its error moves a share by no more than that of the share itself does.
    """
    lr, drawn = (np.array([row[name] for row in rows]) for name in ("lr", "drawn"))
    M = len(rows)
    critical = float(np.quantile(drawn, 1 - alpha))
    error = lambda share, times=1: float(np.sqrt(times * max(share * (1 - share), 1 / M) / M))
    out: dict = {"replications": M, "critical value": critical}
    share = float((lr > critical).mean())
    out["likelihood ratio"] = (share, error(share, 2))
    share = float((lr > stats.chi2.ppf(1 - alpha, EXTRA)).mean())
    out["chi-square"] = (share, error(share))
    for name in ("serial", "order", "order of choices"):
        share = float((np.array([row[name] for row in rows]) <= alpha).mean())
        out[name] = (share, error(share))
    return out


def raw(rows: list[dict]) -> dict:
    """The ratios themselves, and how the climbs behind them ended."""
    ended = [reason or "converged" for row in rows for reason in row["ended"]]
    return {
        "lr": [round(row["lr"], 4) for row in rows],
        "drawn": [round(row["drawn"], 4) for row in rows],
        "ended": {reason: ended.count(reason) for reason in sorted(set(ended))},
        "seconds": float(np.median([row["seconds"] for row in rows])),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--null", type=int, default=250)
    parser.add_argument("--power", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("states.json"))
    options = parser.parse_args()
    # By reference, not by value: a worker must import the package before it opens any array.
    from replication import states as study  # noqa: PLW0406

    run, found = Parallel(n_jobs=options.jobs), {}
    for effect in EFFECTS:
        count = options.power if effect else options.null
        rows = run(delayed(study.replicate)(effect, seed) for seed in range(count))
        found[str(effect)] = rejections(rows) | raw(rows)
        options.out.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
