"""Theorem 5 as a construction: the hidden dynamics from two periods, and when that can be done.

Write X for the matrix of known priors (a row each) at a first observation z0, and
w(z2, z1, a1)[s] = P(z2 | z1, s, a1). One period tells

    X w(z1, z0, a0) = P(z1 | z0, a0; each prior),

so with |S| linearly independent priors w follows. Two periods tell

    X P(z1, z0, a0) W(z1) = P(z1, z2 | z0, a0, a1; each prior),   W(z1) = [w(z2, z1, a1)]_{z2, a1},

so P(z1, z0, a0) follows where W(z1) has rank |S|: where the states differ in what they let expect
of the next observation. The paper's proof takes one prior, for which the first equation is one
equation in |S| unknowns.
"""

import dataclasses
import itertools
from collections.abc import Hashable

import numpy as np
import pandas as pd

from pomdpfit._constraints import SUM_TOLERANCE
from pomdpfit._errors import ModelError
from pomdpfit._labels import model_labels
from pomdpfit._model import Model, checked_primitives
from pomdpfit._panel import Panel
from pomdpfit._precision import in_float64
from pomdpfit._types import ArrayLike, Float, Int, Theta

_SINGULAR = 1e-10
_LOOSE = 1e-5  # frequencies are rounded by those who write them down


@dataclasses.dataclass(frozen=True, eq=False)
class TwoPeriods:
    """The law of two transitions from each first observation, for each pair of actions and prior.

    `law[k, z0, a0, z1, a1, z2]` = P(z1 | z0, a0) P(z2 | z0, a0, z1, a1) of agents whose prior is
    row k of `priors` (the same at every z0): what follows if a0 and a1 are taken, not how often
    they are. So it sums to one over (z1, z2), and P(z1) does not depend on a1. NaN where nobody was
    seen.
    """

    priors: Float[np.ndarray, "k S"]
    law: Float[np.ndarray, "k Z A Z A Z"]
    observations: tuple[Hashable, ...] = ()  # by name, where they have names

    def __post_init__(self) -> None:
        priors, law = np.atleast_2d(np.asarray(self.priors, float)), np.asarray(self.law, float)
        k, Z, A = law.shape[:3] if law.ndim == 6 else (0, 0, 0)
        if law.shape != (k, Z, A, Z, A, Z) or len(priors) != k:
            raise ModelError(
                f"the law must have shape (priors, Z, A, Z, A, Z) for {len(priors)} priors, but it "
                f"has {law.shape}."
            )
        if np.any(priors < 0) or np.any(np.abs(priors.sum(axis=1) - 1) > SUM_TOLERANCE):
            raise ModelError("each prior must be a belief: entries not negative that sum to 1.")
        first = law.sum(axis=5)
        total = first.sum(axis=3)
        if np.nanmax(np.abs(total - 1), initial=0.0) > _LOOSE:
            raise ModelError(
                "the law must sum to 1 over (z1, z2) for each (z0, a0, a1), but it sums to "
                f"{total.flat[np.nanargmax(np.abs(total - 1))]:.6g}: are these frequencies of "
                "(z1, z2) among those who took a1? Use TwoPeriods.from_panel."
            )
        seen = np.isfinite(first)
        highest = np.where(seen, first, -np.inf).max(axis=4)
        if np.any(highest - np.where(seen, first, np.inf).min(axis=4) > _LOOSE):
            raise ModelError(
                "P(z1) must not depend on a1, which is taken later: frequencies of (z1, z2) among "
                "those who took a1 do, since a1 is chosen after z1. Use TwoPeriods.from_panel."
            )
        object.__setattr__(self, "priors", priors)
        object.__setattr__(self, "law", law)

    @classmethod
    def from_panel(
        cls,
        panel: Panel,
        priors: ArrayLike,
        kind: Int[ArrayLike, "N"],
        observations: int,
        actions: int,
    ) -> "TwoPeriods":
        """Frequencies of the first two transitions; `kind[i]` is the row of agent i's prior."""
        priors, kind = np.atleast_2d(np.asarray(priors, float)), np.asarray(kind)
        if kind.shape != (panel.agent_count,) or kind.min() < 0 or kind.max() >= len(priors):
            raise ModelError(
                f"kind must number the prior of each of the {panel.agent_count} agents, from 0 to "
                f"{len(priors) - 1}."
            )
        counts = np.zeros((len(priors), *(observations, actions) * 2, observations))
        used = (panel.continues & panel.informs)[:, :2].all(axis=1) & (panel.z.shape[1] > 2)
        z, a = panel.z[used, :3], panel.a[used, :2]
        np.add.at(counts, (kind[used], z[:, 0], a[:, 0], z[:, 1], a[:, 1], z[:, 2]), 1)
        with np.errstate(invalid="ignore"):
            pairs = counts.sum(axis=(4, 5))
            first = pairs / pairs.sum(axis=3, keepdims=True)
            second = counts / counts.sum(axis=5, keepdims=True)
        # Where z1 was not seen, what would have followed does not matter.
        second = np.where((first == 0)[..., None, None], 1.0 / observations, second)
        law = first[..., None, None] * second
        return cls(priors, law, panel.observation_labels[:observations])


@in_float64
def two_periods(model: Model, theta: Theta, priors: ArrayLike) -> TwoPeriods:
    """The law of the first two transitions under a model: what endless data would tell."""
    P = checked_primitives(model, theta).kernel.to_dense()
    x = np.atleast_2d(np.asarray(priors, dtype=float))
    if x.shape[1] != P.shape[1]:
        raise ModelError(f"priors need {P.shape[1]} entries a row here, but have {x.shape[1]}.")
    ahead = P.sum(axis=-1)  # w[z1, s, a1, z2]
    law = np.einsum("ks,zsaut,utbv->kzaubv", x, P, ahead)
    return TwoPeriods(x, law, model_labels(model, "observation") or ())


@dataclasses.dataclass(frozen=True, eq=False)
class RecoveredDynamics:
    """P(z1, s1 | z0, s0, a0) as far as two periods give it; NaN where a condition fails.

    `conditions` has a row for each z1: the rank of W(z1), and `amplification`, by which errors in
    the law (2-norms) are multiplied at the most, to first order. `misfit` is what is left of the
    law of two periods at the dynamics recovered, where all of them were.
    """

    kernel: Float[np.ndarray, "Z S A Z S"]
    prior_rank: int
    conditions: pd.DataFrame
    misfit: float

    @property
    def complete(self) -> bool:
        """Whether everything was recovered."""
        return bool(np.isfinite(self.kernel).all())

    def summary(self) -> str:
        """Which conditions hold and which fail, in words."""
        S = self.kernel.shape[1]
        if self.prior_rank < S:
            return (
                f"The priors have rank {self.prior_rank} and |S| = {S}: one period has too few "
                f"equations for the {S} chances P(z1 | z0, s, a0). Nothing is recovered; agents "
                "with other known priors, or more structure, are needed."
            )
        unseen = self.conditions.index[self.conditions["rank of W"] < 0]
        if len(unseen):
            return (
                f"At z = {', '.join(map(str, unseen[:5]))} some action was never seen for some "
                "prior: what follows from there is not known."
            )
        failed = self.conditions[~self.conditions["holds"]]
        if len(failed):
            where = ", ".join(str(z) for z in failed.index[:5])
            return (
                f"At z1 = {where} the states do not differ enough in what they let expect of the "
                f"next observation (rank of W below {S}): the kernels that lead there are not "
                "recovered. More than two periods may tell them."
            )
        if not self.complete:
            return "Some pairs of actions were never seen: what follows from them is not known."
        worst = float(self.conditions["amplification"].max())
        return (
            "Both conditions hold (independent priors, and states that differ in what follows). "
            f"Errors in the law are multiplied by up to {worst:.3g}; the kernel found gives the "
            f"law of two periods back to {self.misfit:.2g}."
        )


def recover_dynamics(data: TwoPeriods) -> RecoveredDynamics:
    """The dynamics from two periods of data, by the proof's two linear systems."""
    X, law = data.priors, data.law
    S, (Z, A) = X.shape[1], law.shape[1:3]
    rank = int(np.linalg.matrix_rank(X, tol=_SINGULAR))
    kernel = np.full((Z, S, A, Z, S), np.nan)
    if rank < S:
        nothing = _conditions(np.full((Z, S, A * Z), np.nan), X)
        return RecoveredDynamics(kernel, rank, _named(nothing, data), np.nan)
    solve = np.linalg.pinv(X)
    # P(z1) is the same for every second action.
    first = law.sum(axis=5).mean(axis=4)  # k z0 a0 z1
    ahead = np.einsum("sk,zkab->zsab", solve, np.moveaxis(first, 0, 1))  # w[z0, s, a0, z1]
    W = ahead.reshape(Z, S, A * Z)
    table = _conditions(W, X)
    for z0, a0, z1 in itertools.product(range(Z), range(A), range(Z)):
        if table.loc[z1, "holds"]:
            both = law[:, z0, a0, z1].reshape(len(X), A * Z)
            kernel[z0, :, a0, z1] = solve @ both @ np.linalg.pinv(W[z1])
    misfit = np.nan
    if np.isfinite(kernel).all():
        again = np.einsum("ks,zsaut,utbv->kzaubv", X, kernel, kernel.sum(axis=-1))
        misfit = float(np.abs(again - law).max())
    return RecoveredDynamics(kernel, rank, _named(table, data), misfit)


def _named(table: pd.DataFrame, data: TwoPeriods) -> pd.DataFrame:
    """Rows by the names of observations; what has none is called by its code."""
    named = len(data.observations)
    called = [data.observations[z] if z < named else z for z in table.index]
    return table.set_axis(pd.Index(called, name="z1"))


def _conditions(W: Float[np.ndarray, "Z S m"], X: Float[np.ndarray, "k S"]) -> pd.DataFrame:
    """dP = X+ (d law - P-weighted dW) W+, with dW = X+ d law: |dP| <= |X+| (1 + root |S|) |W+|."""
    S = X.shape[1]
    rows = []
    for z, matrix in enumerate(W):
        if not np.isfinite(matrix).all():
            rows.append({"z1": z, "rank of W": -1, "amplification": np.inf, "holds": False})
            continue
        values = np.linalg.svd(matrix, compute_uv=False)
        rank = int((values > _SINGULAR * values[0]).sum())
        grows = np.linalg.norm(np.linalg.pinv(X), 2) * (1 + np.sqrt(S)) / values[-1]
        grows = float(grows) if rank == S else np.inf
        rows.append({"z1": z, "rank of W": rank, "amplification": grows, "holds": rank == S})
    return pd.DataFrame(rows).set_index("z1")
