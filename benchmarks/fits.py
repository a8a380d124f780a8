"""Whole fits: seconds with and without compilation, and as multiples of one log-likelihood.

python -m benchmarks.fits
"""

import time

import pomdpfit as pf
from pomdpfit.replication._synthetic_tables import MODEL, START, design


def timed(label: str, model, panel, prior, unit: float, **options) -> None:
    """One fit from a single start, twice: the second finds everything compiled."""
    for estimator in (pf.TwoStage(), pf.Joint()):
        times = []
        for _ in range(2):
            began = time.perf_counter()
            est = pf.fit(model, panel, estimator, prior=prior, starts=1, **options)
            times.append(time.perf_counter() - began)
        began = time.perf_counter()
        pf.fit(model, panel, estimator, prior=prior, starts=1, skip_hessian=True, **options)
        bare = time.perf_counter() - began
        print(
            f"{label}, {type(estimator).__name__}: {times[0]:.0f} s with compilation, "
            f"{times[1]:.0f} s without ({times[1] / unit:.0f} log-likelihoods), {bare:.0f} s "
            f"without Hessian; {est.steps} steps, llf {est.llf:.3f}, converged {est.converged}",
            flush=True,
        )


def unit_of(model, panel, prior, theta) -> float:
    """Seconds of one log-likelihood, compiled, from a warm start."""
    likelihood = pf.Likelihood(model, panel, prior=prior)
    start = likelihood(theta).start
    times = []
    for _ in range(3):
        began = time.perf_counter()
        likelihood(theta, start=start)
        times.append(time.perf_counter() - began)
    return min(times)


def main() -> None:
    panel, prior = design(0)
    unit = unit_of(MODEL, panel, prior, MODEL.example())
    print(f"one log-likelihood of Table I's panel (3000 x 100): {unit:.2f} s")
    timed("Table I", MODEL, panel, prior, unit, start=START)
    data, prior = pf.datasets.rust1987(4, 175), pf.KnownPrior([1.0, 0.0])
    panel = data.panel
    model = pf.models.EngineReplacement(175, data.increments, reset=data.reset)
    unit = unit_of(model, panel, prior, model.example())
    print(f"one log-likelihood of Rust's group 4 (175 bins, 101 beliefs): {unit:.2f} s")
    timed("group 4", model, panel, prior, unit)


if __name__ == "__main__":
    main()
