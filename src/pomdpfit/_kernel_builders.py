"""Ways to write a kernel down: a dense table, T x O, increments with a reset."""

import jax.numpy as jnp
import numpy as np

from pomdpfit._errors import ModelError
from pomdpfit._kernel import Kernel, Pattern
from pomdpfit._precision import in_float64
from pomdpfit._types import ArrayLike, Bool, Float


@in_float64
def dense_kernel(
    table: Float[ArrayLike, "Z S A Z S"], support: Bool[np.ndarray, "Z A Z"] | None = None
) -> Kernel:
    """P[z, s, a, z', s'] as it stands; `support[z, a, z']` (data, not traced) says what can follow.

    Without `support` every z' is kept as a successor of every (z, a).
    """
    table = jnp.asarray(table)
    if table.ndim != 5 or table.shape[0] != table.shape[3] or table.shape[1] != table.shape[4]:
        raise ModelError(
            f"a dense kernel must have shape (Z, S, A, Z, S), but it has {table.shape}."
        )
    Z, _, A = table.shape[:3]
    by_successor = jnp.transpose(table, (0, 2, 3, 1, 4))
    if support is None:
        successors = np.broadcast_to(np.arange(Z), (Z, A, Z))
        return Kernel(successors, by_successor, observations=Z)
    support = np.asarray(support, dtype=bool)
    if support.shape != (Z, A, Z):
        raise ModelError(f"support must have shape {(Z, A, Z)}, but it has {support.shape}.")
    successors, real = _padded(
        [[np.flatnonzero(row) for row in by_action] for by_action in support]
    )
    gathered = jnp.take_along_axis(by_successor, jnp.asarray(successors)[..., None, None], axis=2)
    return Kernel(successors, jnp.where(real[..., None, None], gathered, 0.0), observations=Z)


@in_float64
def factored_kernel(
    transition: Float[ArrayLike, "S A S"], observation: Float[ArrayLike, "S A Z"]
) -> Kernel:
    """The classical POMDP: P(z', s' | s, a) = T(s' | s, a) O(z' | s', a), whatever z.

    `transition[s, a, s']` and `observation[s', a, z']`.
    """
    transition, observation = jnp.asarray(transition), jnp.asarray(observation)
    fits = transition.ndim == observation.ndim == 3
    fits = fits and transition.shape[0] == transition.shape[2]
    if not (fits and transition.shape[:2] == observation.shape[:2]):
        raise ModelError(
            "a factored kernel needs transition (S, A, S) and observation (S, A, Z), but they have "
            f"shapes {transition.shape} and {observation.shape}."
        )
    A, Z = observation.shape[1:]
    probability = jnp.einsum("sat,tak->akst", transition, observation)[None]
    return Kernel(np.broadcast_to(np.arange(Z), (1, A, Z)), probability, observations=Z)


@in_float64
def increment_kernel(
    bins: int, transition: Float[ArrayLike, "S S"], increments: Float[ArrayLike, "S J"]
) -> Kernel:
    """One action that moves a counter up: P(z + j, s' | z, s) = increments[s, j] T[s, s'].

    The last bin collects all that goes beyond it. There several increments lead to one z'; the
    agent sees z', not the increment, so their kernels add up before Bayes' rule.
    """
    increments, transition = jnp.asarray(increments), jnp.asarray(transition)
    S = transition.shape[0]
    if transition.shape != (S, S) or increments.ndim != 2 or increments.shape[0] != S:
        raise ModelError(
            "an increment kernel needs transition (S, S) and increments (S, J), but they have "
            f"shapes {transition.shape} and {increments.shape}."
        )
    J = increments.shape[1]
    reached = np.minimum(np.arange(bins)[:, None] + np.arange(J), bins - 1)
    successors, real = _padded([[np.unique(row)] for row in reached])
    leads = (successors[:, 0, :, None] == reached[:, None, :]) & real[:, 0, :, None]
    by_increment = increments.T[:, :, None] * transition
    merged = jnp.einsum("zkj,jst->zkst", leads.astype(float), by_increment)
    alike = tuple(0 if z <= bins - J else z for z in range(bins))
    slots = successors.shape[2]
    pattern = Pattern(alike, slots, shifts=tuple(range(slots)))
    return Kernel(successors, merged[:, None], bins, (pattern,))


@in_float64
def reset_kernel(observations: int, law: Float[ArrayLike, "K S"], first: int = 0) -> Kernel:
    """One action after which (z', s') is drawn from `law`, whatever came before.

    law[k, s'] is the probability of z' = first + k and s'.
    """
    law = jnp.asarray(law)
    if law.ndim != 2:
        raise ModelError(f"a reset's law must have shape (K, S), but it has {law.shape}.")
    K, S = law.shape
    if first < 0 or first + K > observations:
        raise ModelError(
            f"a reset to observations {first}..{first + K - 1} does not fit {observations} bins."
        )
    probability = jnp.broadcast_to(law[:, None, :], (K, S, S))
    successors = first + np.arange(K)
    pattern = Pattern((0,) * observations, K, everywhere=True, blind=True)
    return Kernel(successors[None, None], probability[None, None], observations, (pattern,))


@in_float64
def join_actions(*kernels: Kernel) -> Kernel:
    """Kernels of single actions (or several) side by side: actions are counted in this order."""
    Z = kernels[0].observations
    K = max(k.successors.shape[2] for k in kernels)
    rows = max(length for k in kernels for length in (len(k.successors), len(k.probability)))
    successors, probability = [], []
    for kernel in kernels:
        if kernel.observations != Z or kernel.states != kernels[0].states:
            raise ModelError("kernels of different sizes cannot be joined.")
        short = K - kernel.successors.shape[2]
        # Padding repeats the first successor, with zero mass.
        padded = np.pad(
            np.asarray(kernel.successors), [(0, 0), (0, 0), (0, short)], mode="constant"
        )
        if short:
            padded[..., K - short :] = padded[..., :1]
        successors.append(np.broadcast_to(padded, (rows, *padded.shape[1:])))
        mass = jnp.pad(kernel.probability, [(0, 0), (0, 0), (0, short), (0, 0), (0, 0)])
        probability.append(jnp.broadcast_to(mass, (rows, *mass.shape[1:])))
    patterns = tuple(pattern for kernel in kernels for pattern in kernel.sharing())
    return Kernel(np.concatenate(successors, 1), jnp.concatenate(probability, 1), Z, patterns)


def _padded(lists: list[list[np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Lists of successors as one array, padded with each list's first entry; and what is real."""
    longest = max(len(entry) for row in lists for entry in row)
    shape = (len(lists), len(lists[0]), longest)
    successors, real = np.zeros(shape, dtype=int), np.zeros(shape, dtype=bool)
    for z, row in enumerate(lists):
        for a, entry in enumerate(row):
            successors[z, a, : len(entry)] = entry
            successors[z, a, len(entry) :] = entry[0] if len(entry) else 0
            real[z, a, : len(entry)] = True
    return successors, real
