"""The joint kernel P(z', s' | z, s, a), sparse in successors.

For each (z, a) only the K observations z' that can follow are stored: `successors[z, a, k]` is z'
and `probability[z, a, k, s, s']` its kernel. The z axis has length 1 where nothing depends on z.
Successors of one (z, a) are distinct; shorter lists are padded with zero mass.

What rows share by construction (every mileage but the last moves alike; after a reset nothing
depends on where one was) is kept as `patterns`: it is known before any number is, and lets the
Bellman operator compute each law once instead of once for every z.
"""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from pomdpfit._constraints import SUM_TOLERANCE
from pomdpfit._errors import ModelError
from pomdpfit._types import Array, ArrayLike, Bool, Float, Int


@dataclasses.dataclass(frozen=True)
class Pattern:
    """What the rows of one action share.

    law[z] is the first z whose probabilities are the same, slot by slot; beyond the first `slots`
    there is padding alone. With `everywhere` successors are the same at all z as well, and with
    `blind` the probabilities at all s: the action forgets everything. Where `shifts` are given, the
    k-th successor of every z with the commonest law is z + shifts[k].
    """

    law: tuple[int, ...]
    slots: int
    everywhere: bool = False
    blind: bool = False
    shifts: tuple[int, ...] | None = None

    def shifted(self) -> np.ndarray:
        """The z that `shifts` speak of."""
        law = np.array(self.law)
        return np.flatnonzero(law == np.bincount(law).argmax())


class Kernel(eqx.Module):
    """P(z', s' | z, s, a) as the K successors of each (z, a) and a matrix over (s, s') for each."""

    successors: Int[ArrayLike, "#Z A K"]
    probability: Float[ArrayLike, "#Z A K S S"]
    observations: int = eqx.field(static=True)
    patterns: tuple[Pattern, ...] | None = eqx.field(static=True, default=None)

    def sharing(self) -> tuple[Pattern, ...]:
        """The pattern of each action: as given, or what the shapes tell."""
        if self.patterns is not None:
            return self.patterns
        one_law, one_list = len(self.probability) == 1, len(self.successors) == 1
        law = (0,) * self.observations if one_law else tuple(range(self.observations))
        return (Pattern(law, self.probability.shape[2], one_law and one_list),) * self.actions

    @property
    def states(self) -> int:
        """|S|."""
        return self.probability.shape[-1]

    @property
    def actions(self) -> int:
        """|A|."""
        return self.probability.shape[1]

    def transition(
        self, z: Int[Array, "*b"], a: Int[Array, "*b"], z_next: Int[Array, "*b"]
    ) -> Float[Array, "*b S S"]:
        """P(z', . | z, ., a), looked up by z'; zero where z' is no successor."""
        match = at_z(self.successors, z, a) == z_next[..., None]
        slot = jnp.argmax(match, axis=-1)  # padding repeats a real successor, which comes first
        matrix = at_z(self.probability, z, a, slot)
        return jnp.where(jnp.any(match, axis=-1)[..., None, None], matrix, 0.0)

    def predictive(self, z: Int[Array, "*b"], a: Int[Array, "*b"]) -> Float[Array, "*b S S"]:
        """P(s' | z, s, a), whatever z' may be."""
        return at_z(jnp.asarray(self.probability).sum(axis=2), z, a)

    def to_dense(self) -> Float[np.ndarray, "Z S A Z S"]:
        """The full table P[z, s, a, z', s'], for small models and for tests."""
        Z = self.observations
        successors = np.broadcast_to(self.successors, (Z, *self.successors.shape[1:]))
        probability = np.broadcast_to(self.probability, (Z, *self.probability.shape[1:]))
        table = np.zeros((Z, self.states, self.actions, Z, self.states))
        for z, a, k in np.ndindex(*successors.shape):
            table[z, :, a, successors[z, a, k]] += probability[z, a, k]
        return table

    def check(self, available: Bool[np.ndarray, "Z A"] | None = None) -> None:
        """Raise an error naming (z, s, a) unless this is a kernel at every available (z, a)."""
        successors, probability = np.asarray(self.successors), np.asarray(self.probability)
        _check_shapes(successors, probability, self.observations)
        bad = ~np.isfinite(probability) | (probability < 0)
        if bad.any():
            z, a, k, s, s1 = (int(i) for i in np.argwhere(bad)[0])
            z1 = successors[min(z, successors.shape[0] - 1), a, k]
            raise ModelError(
                f"kernel entries must be probabilities, but P(z'={z1}, s'={s1} | z={z}, s={s}, "
                f"a={a}) is {probability[z, a, k, s, s1]:.6g}."
            )
        mass = np.einsum("zakst->zas", probability)
        off = np.abs(mass - 1.0) > SUM_TOLERANCE
        if available is not None:
            off = off & np.asarray(available)[:, :, None]
        if off.any():
            z, a, s = (int(i) for i in np.argwhere(off)[0])
            mass = np.broadcast_to(mass, off.shape)
            raise ModelError(
                f"kernel must sum to 1 over (z', s'), but at (z={z}, s={s}, a={a}) it sums to "
                f"{mass[z, a, s]:.6g}."
            )
        _check_distinct(successors, probability)
        _check_patterns(self.patterns, successors, probability)


def at_z(table: ArrayLike, z: Int[Array, "*b"], *further: ArrayLike | slice) -> Array:
    """table[z, ...], where a table of one row serves every z."""
    table = jnp.asarray(table)
    return table[z if table.shape[0] > 1 else jnp.zeros_like(z), *further]


def _check_shapes(successors: np.ndarray, probability: np.ndarray, observations: int) -> None:
    if probability.ndim != 5 or probability.shape[3] != probability.shape[4]:
        raise ModelError(
            "kernel probabilities must have shape (Z or 1, A, K, S, S), but they have "
            f"{probability.shape}."
        )
    if successors.ndim != 3 or successors.shape[1:] != probability.shape[1:3]:
        raise ModelError(
            f"successors must have shape (Z or 1, {probability.shape[1]}, {probability.shape[2]}) "
            f"to go with the probabilities, but they have {successors.shape}."
        )
    for name, length in (("successors", len(successors)), ("probabilities", len(probability))):
        if length not in {1, observations}:
            raise ModelError(
                f"kernel {name} must have 1 or {observations} rows (z), but they have {length}."
            )
    if successors.min() < 0 or successors.max() >= observations:
        z, a, k = np.argwhere((successors < 0) | (successors >= observations))[0]
        raise ModelError(
            f"successor {successors[z, a, k]} of (z={z}, a={a}) is not one of the observations "
            f"0..{observations - 1}."
        )


def _check_patterns(
    patterns: tuple[Pattern, ...] | None, successors: np.ndarray, probability: np.ndarray
) -> None:
    """What is said to be shared must be: otherwise values would be wrong in silence."""
    for a, pattern in enumerate(patterns or ()):
        own, law = probability[:, a], np.array(pattern.law)
        like = own[law] if len(own) > 1 else own
        kept = (own == like).all() and not own[:, pattern.slots :].any()
        if pattern.everywhere:
            kept = kept and (own == own[:1]).all() and (successors[:, a] == successors[:1, a]).all()
        if pattern.blind:
            kept = kept and (own == own[:, :, :1]).all()
        if pattern.shifts is not None:
            at = pattern.shifted()
            own = np.broadcast_to(successors[:, a, : pattern.slots], (len(law), pattern.slots))
            kept = kept and len(pattern.shifts) == pattern.slots
            kept = kept and (own[at] - at[:, None] == np.array(pattern.shifts)).all()
        if not kept:
            raise ModelError(
                f"the rows of action {a} are not shared as the kernel's pattern says. Leave "
                "patterns out, or use the kernel builders, which know them."
            )


def _check_distinct(successors: np.ndarray, probability: np.ndarray) -> None:
    """Two successors that are the same z' would be found by z' only once."""
    has_mass = np.einsum("zakst->zak", probability) > 0
    rows = max(len(successors), len(has_mass))
    successors = np.broadcast_to(successors, (rows, *successors.shape[1:]))
    has_mass = np.broadcast_to(has_mass, successors.shape)
    # Nothing may stand behind an earlier entry with the same z', for look-up takes the first.
    earlier = np.tril(np.ones(successors.shape[-1:] * 2, dtype=bool), k=-1)
    same = (successors[..., :, None] == successors[..., None, :]) & earlier
    repeated = same.any(axis=-1) & has_mass
    if repeated.any():
        z, a, k = np.argwhere(repeated)[0]
        raise ModelError(
            f"successor z'={successors[z, a, k]} of (z={z}, a={a}) is listed twice; kernels that "
            "lead to the same z' must be added up, since the agent sees z' alone."
        )
