"""A model made of plain arrays, and random instances of it.

Array fields are traced: models of the same shapes share their compiled code.
"""

import equinox as eqx
import numpy as np

import pomdpfit as pf
from reference import agent


class Table(pf.Model):
    """P[z, s, a, z', s'] and r[z, s, a] as given."""

    P: np.ndarray
    r: np.ndarray
    shocks: pf.AbstractShock = pf.Gumbel()
    mask: np.ndarray | None = None
    end: np.ndarray | None = None
    epochs: int | None = eqx.field(static=True, default=None)

    def parameters(self):
        return {"discount": pf.discount_parameter(0.9)}

    def kernel(self, theta):
        return pf.dense_kernel(self.P)

    def reward(self, theta):
        return self.r

    def shock(self, theta):
        return self.shocks

    def available(self):
        return self.mask

    def horizon(self):
        return self.epochs

    def terminal(self, theta):
        return self.end


def at(discount: float) -> dict:
    return {"discount": discount}


def random_kernel(rng, Z, S, A, *, zeros=False) -> np.ndarray:
    """Rows of gamma weights; with `zeros`, half of the entries are exactly zero."""
    P = rng.gamma(0.7, size=(Z, S, A, Z, S)) + 1e-3
    if zeros:
        P *= rng.random(P.shape) < 0.5
        P[:, :, :, 0, 0] += P.sum(axis=(3, 4)) == 0
    return P / P.sum(axis=(3, 4), keepdims=True)


def random_reward(rng, Z, S, A) -> np.ndarray:
    return rng.normal(size=(Z, S, A))


def random_belief(rng, S) -> np.ndarray:
    return rng.dirichlet(np.ones(S))


def random_paths(P, x0, lengths, rng) -> pf.Panel:
    """Agents that choose blindly, so that every sequence has a positive probability."""
    A = P.shape[2]
    blind = lambda z, x: np.full(A, 1 / A)
    z, a = [], []
    for length in lengths:
        start = int(rng.integers(len(P)))
        zs, acts, _, _ = agent.simulate(P, blind, x0, start, length - 1, rng)
        z.append(zs)
        a.append(acts)
    return pf.Panel.from_arrays(z, a)


def revealing_kernel(rng, Z, S, A) -> np.ndarray:
    """z' tells s': only s' = z' mod S can go with z'."""
    tells = (np.arange(Z)[:, None] % S) == np.arange(S)
    P = random_kernel(rng, Z, S, A) * tells
    return P / P.sum(axis=(3, 4), keepdims=True)


def relabel(P, r, order):
    """The same model with its hidden states listed in another order."""
    return P[:, order][..., order], r[:, order]
