"""The main job: the paper's bus model, simulated, evaluated, certified and drawn.

The replications of the paper's tables will take its place.
"""

import dataclasses
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # files only: there may be no screen
import matplotlib.pyplot as plt
import numpy as np

from pomdpfit import plots
from pomdpfit._evaluate import log_likelihood
from pomdpfit._priors import KnownPrior
from pomdpfit._simulate import Simulation, simulate
from pomdpfit._solve import Solution, solve
from pomdpfit.certificate import Certificate
from pomdpfit.models import EngineReplacement

Stage = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Reproduction:
    """What the job found; `to_json` writes all but the picture."""

    agents: int
    periods: int
    seed: int
    replacements: int
    residual: float
    observation: float
    choice: float
    low: float
    high: float
    inside: bool
    value_width: float
    difference_width: float

    @property
    def total(self) -> float:
        """The log-likelihood at the truth."""
        return self.observation + self.choice

    def to_json(self) -> str:
        """All figures, for machines."""
        return json.dumps({**dataclasses.asdict(self), "total": self.total}, indent=2)


def reproduce(
    out: Path, *, agents: int = 3000, periods: int = 100, seed: int = 0, stage: Stage = print
) -> Reproduction:
    """Simulate Table I's design, evaluate and certify its log-likelihood, draw policy and beliefs.

    Writes bus.png and bus.json into `out`; `stage` is told what is being done.
    """
    out.mkdir(parents=True, exist_ok=True)
    model = EngineReplacement(bins=175, increments=4, discount=0.9999)
    theta = model.example()
    stage("solving the soft Bellman equation (175 bins, 101 beliefs, discount 0.9999)")
    solution = solve(model, theta)
    stage(f"simulating {agents} buses over {periods} months")
    rng = np.random.default_rng(seed)
    good = rng.uniform(size=agents)
    prior = KnownPrior(np.stack([good, 1 - good], axis=1))
    z0 = rng.integers(0, model.bins, size=agents)
    simulation = simulate(
        model,
        theta,
        agents=agents,
        periods=periods,
        seed=seed,
        prior=prior,
        z0=z0,
        solution=solution,
        hidden=True,
    )
    assert isinstance(simulation, Simulation)
    stage("evaluating the log-likelihood at the truth")
    evaluated = log_likelihood(model, theta, simulation.panel, prior=prior)
    stage("proving bounds on values, choices and the log-likelihood")
    certificate = solution.bounds
    interval = certificate.log_likelihood(evaluated)
    result = Reproduction(
        agents=agents,
        periods=periods,
        seed=seed,
        replacements=int(simulation.panel.a[simulation.panel.acted].sum()),
        residual=solution.residual,
        observation=float(evaluated.observation.sum()),
        choice=float(evaluated.choice.sum()),
        low=interval.low,
        high=interval.high,
        inside=interval.holds_estimate and certificate.holds(solution),
        value_width=certificate.level_width,
        difference_width=certificate.difference_width,
    )
    stage("drawing")
    (out / "bus.json").write_text(result.to_json() + "\n")
    _draw(out / "bus.png", model, solution, simulation, certificate)
    return result


def _draw(
    path: Path,
    model: EngineReplacement,
    solution: Solution,
    simulation: Simulation,
    certificate: Certificate,
) -> None:
    with _figure(path) as axes:
        plots.policy(solution, 1, model=model, ax=axes[0])
        axes[0].set_title("the policy: when an engine is replaced")
        # A bus that was replaced about half-way shows most.
        first = np.argmax(simulation.panel.a == 1, axis=1)
        agent = int(np.argmin(np.abs(first - simulation.s.shape[1] // 2)))
        plots.beliefs(simulation, agent, model=model, ax=axes[1])
        axes[1].set_title("one bus: what its owner believes and what is true")
        _draw_bounds(axes[2], solution, certificate)


def _draw_bounds(ax: plt.Axes, solution: Solution, certificate: Certificate) -> None:
    """The proven interval for Q(keep) - Q(replace) around the point estimate, at even odds."""
    z = np.arange(solution.primitives.observations)
    x = np.broadcast_to([0.5, 0.5], (len(z), 2))
    low, high = certificate.difference_bounds(z, x)
    q = np.asarray(solution.q(z, x))
    estimate = q[:, 0] - q[:, 1]
    scaled = [1e4 * (bound[:, 0] - estimate) for bound in (low, high)]
    ax.fill_between(z, *scaled, alpha=0.3, label="proven interval")
    ax.axhline(0.0, color="black", label="point estimate")
    ax.set_xlabel("observation z, at belief x(bad) = 0.5")
    ax.set_ylabel("Q(keep) - Q(replace), deviation x 10,000")
    ax.legend(fontsize=8)
    ax.set_title("the certificate: where the truth must lie")


@contextmanager
def _figure(path: Path) -> Iterator[np.ndarray]:
    figure, axes = plt.subplots(1, 3, figsize=(15, 4.2), layout="constrained")
    yield axes
    figure.savefig(path, dpi=130)
    plt.close(figure)
