"""The rank of the map from a kernel to the probabilities of all sequences, by brute force.

Probabilities are products of matrices, polynomials in the entries of the kernel: a complex step
gives their derivatives to rounding.
"""

import itertools

import numpy as np


def all_probabilities(P, priors, first, periods):
    """P(z_1..z_T | z_0, a_0..a_{T-1}) for all z_0 in `first`, all actions, all z and all priors."""
    Z, _, A = P.shape[:3]
    found = []
    for x, z0 in itertools.product(priors, first):
        for a in itertools.product(range(A), repeat=periods):
            for z in itertools.product(range(Z), repeat=periods):
                mass, now = np.asarray(x, dtype=P.dtype), z0
                for action, ahead in zip(a, z, strict=True):
                    mass = mass @ P[now, :, action, ahead]
                    now = ahead
                found.append(mass.sum())
    return np.array(found)


def jacobian(P, priors, first, periods):
    """d probabilities / d rows of P, the last entry of each row being one minus the others."""
    Z, S, A = P.shape[:3]
    columns = []
    for row in np.ndindex(Z, S, A):
        for k in range(Z * S - 1):
            moved = P.astype(complex)
            flat = moved[row].reshape(-1)
            flat[k] += 1e-30j
            flat[-1] -= 1e-30j
            moved[row] = flat.reshape(Z, S)
            columns.append(all_probabilities(moved, priors, first, periods).imag / 1e-30)
    return np.stack(columns, axis=1)
