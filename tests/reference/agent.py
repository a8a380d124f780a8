"""One Bayesian agent acting in a POMDP (the paper's Algorithm 2), in plain loops."""

from collections.abc import Callable

import numpy as np


def simulate(
    P: np.ndarray,
    policy: Callable[[int, np.ndarray], np.ndarray],
    x0: np.ndarray,
    z0: int,
    periods: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """s_0 ~ x0; then a_t ~ policy(z_t, x_t), (z_{t+1}, s_{t+1}) ~ P(. | z_t, s_t, a_t), and
    x_{t+1}(s') = sum_s x_t(s) P(z_{t+1}, s' | z_t, s, a_t) / sigma.

    Returns z (periods + 1,), a (periods,), s (periods + 1,), x (periods + 1, S). The action that
    Algorithm 2 draws after the last transition enters no likelihood term and is left out.
    """
    Z, S = P.shape[0], P.shape[1]
    z = [int(z0)]
    s = [int(rng.choice(S, p=x0))]
    x = [np.array(x0, dtype=float)]
    a: list[int] = []
    for t in range(periods):
        choice = policy(z[t], x[t])
        a.append(int(rng.choice(len(choice), p=choice)))

        pair = int(rng.choice(Z * S, p=P[z[t], s[t], a[t]].reshape(Z * S)))
        z.append(pair // S)
        s.append(pair % S)

        y = np.zeros(S)
        for s1 in range(S):
            for s0 in range(S):
                y[s1] += x[t][s0] * P[z[t], s0, a[t], z[t + 1], s1]
        x.append(y / y.sum())
    return np.array(z), np.array(a, dtype=int), np.array(s), np.array(x)
