"""Where a parameter may lie, and how it is moved to the whole real line and back."""

import abc
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtri

from pomdpfit._errors import ModelError
from pomdpfit._types import Array, ArrayLike

# A row of probabilities typed with 16 digits sums to one only this well.
SUM_TOLERANCE = 1e-9


class AbstractConstraint(abc.ABC):
    """The set in which every entry (or, for a simplex, every row) of a parameter lies."""

    @abc.abstractmethod
    def check(self, value: np.ndarray, names: np.ndarray) -> None:
        """Raise an error naming the first entry that is outside."""

    @abc.abstractmethod
    def to_real(self, value: Array) -> Array:
        """Map the inside of the set onto the real line."""

    @abc.abstractmethod
    def from_real(self, free: Array) -> Array:
        """Inverse of `to_real`."""

    @abc.abstractmethod
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest value of an entry."""

    @abc.abstractmethod
    def spread(self, uniform: np.ndarray, value: np.ndarray) -> np.ndarray:
        """A starting value for each uniform draw, far and wide; around `value` without bounds."""

    def sums(self, shape: tuple[int, ...]) -> list[np.ndarray]:
        """Sets of entries (positions in the flattened value) that must sum to one."""
        return []

    def free_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of the free coordinates of a value of the given shape."""
        return shape

    def drop_derived(self, value: ArrayLike) -> ArrayLike:
        """The free natural coordinates of a value."""
        return value

    def add_derived(self, free: Array) -> Array:
        """Inverse of `drop_derived`."""
        return free

    def gradient_to_free(self, gradient: ArrayLike) -> ArrayLike:
        """Derivatives in the free natural coordinates from those in all entries."""
        return gradient


def _raise_first(bad: np.ndarray, value: np.ndarray, names: np.ndarray, must: str) -> None:
    if np.any(bad):
        where = np.argmax(np.ravel(bad))
        raise ModelError(
            f"{np.ravel(names)[where]} must {must}, but it is {np.ravel(value)[where]:.6g}."
        )


@dataclasses.dataclass(frozen=True)
class Real(AbstractConstraint):
    """Any finite number."""

    def check(self, value: np.ndarray, names: np.ndarray) -> None:
        """Finite."""
        _raise_first(~np.isfinite(value), value, names, "be a finite number")

    def bounds(self) -> tuple[float, float]:
        """None."""
        return -np.inf, np.inf

    def spread(self, uniform: np.ndarray, value: np.ndarray) -> np.ndarray:
        """Normal around the value, as wide as the value is large."""
        return value + ndtri(uniform) * np.maximum(1.0, np.abs(value))

    def to_real(self, value: Array) -> Array:
        """The value itself."""
        return value

    def from_real(self, free: Array) -> Array:
        """The value itself."""
        return free


@dataclasses.dataclass(frozen=True)
class Positive(AbstractConstraint):
    """Zero or more; zero itself is the boundary."""

    def check(self, value: np.ndarray, names: np.ndarray) -> None:
        """Finite and not negative."""
        _raise_first(~(np.isfinite(value) & (value >= 0)), value, names, "be zero or more")

    def bounds(self) -> tuple[float, float]:
        """Zero below."""
        return 0.0, np.inf

    def spread(self, uniform: np.ndarray, value: np.ndarray) -> np.ndarray:
        """Log-normal around the value."""
        return np.where(value > 0, value, 1.0) * np.exp(ndtri(uniform))

    def to_real(self, value: Array) -> Array:
        """log."""
        return jnp.log(value)

    def from_real(self, free: Array) -> Array:
        """exp."""
        return jnp.exp(free)


@dataclasses.dataclass(frozen=True)
class Interval(AbstractConstraint):
    """Between `low` and `high`; `high` itself is left out if `open_above`, as for a discount."""

    low: float = 0.0
    high: float = 1.0
    open_above: bool = False

    def check(self, value: np.ndarray, names: np.ndarray) -> None:
        """Inside, ends included unless said otherwise."""
        below = value < self.high if self.open_above else value <= self.high
        closing = ")" if self.open_above else "]"
        must = f"lie in [{self.low:g}, {self.high:g}{closing}"
        _raise_first(~((value >= self.low) & below), value, names, must)

    def bounds(self) -> tuple[float, float]:
        """The ends; the largest number below an open one."""
        high = float(np.nextafter(self.high, self.low)) if self.open_above else self.high
        return self.low, high

    def spread(self, uniform: np.ndarray, value: np.ndarray) -> np.ndarray:
        """Uniform."""
        return self.low + (self.high - self.low) * uniform

    def to_real(self, value: Array) -> Array:
        """Log-odds of the position in the interval."""
        share = (value - self.low) / (self.high - self.low)
        return jnp.log(share) - jnp.log1p(-share)

    def from_real(self, free: Array) -> Array:
        """Logistic function, scaled; never beyond the largest number below an open end."""
        value = self.low + (self.high - self.low) * jax.nn.sigmoid(free)
        return jnp.minimum(value, np.nextafter(self.high, self.low)) if self.open_above else value


@dataclasses.dataclass(frozen=True)
class Simplex(AbstractConstraint):
    """Rows (last axis) that are probability distributions; the last entry is derived."""

    def check(self, value: np.ndarray, names: np.ndarray) -> None:
        """Not negative, and each row sums to one: never renormalised."""
        _raise_first(~(np.isfinite(value) & (value >= 0)), value, names, "be a probability")
        gap = np.abs(value.sum(axis=-1) - 1.0)
        if np.any(gap > SUM_TOLERANCE):
            row = np.unravel_index(np.argmax(gap), gap.shape)
            raise ModelError(
                f"the row {names[row][0]} to {names[row][-1]} must sum to 1, but it sums to "
                f"{value[row].sum():.6g}."
            )

    def bounds(self) -> tuple[float, float]:
        """Probabilities."""
        return 0.0, 1.0

    def spread(self, uniform: np.ndarray, value: np.ndarray) -> np.ndarray:
        """Uniform on the simplex: exponential draws over their sum."""
        draws = -np.log(uniform)
        return draws / draws.sum(axis=-1, keepdims=True)

    def sums(self, shape: tuple[int, ...]) -> list[np.ndarray]:
        """The rows."""
        return list(np.arange(int(np.prod(shape))).reshape(-1, shape[-1]))

    def free_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """One entry less in each row."""
        return (*shape[:-1], shape[-1] - 1)

    def drop_derived(self, value: ArrayLike) -> ArrayLike:
        """Without the last entry of each row."""
        return value[..., :-1]

    def add_derived(self, free: Array) -> Array:
        """With the last entry, one minus the sum of the rest."""
        return jnp.concatenate([free, 1.0 - free.sum(axis=-1, keepdims=True)], axis=-1)

    def gradient_to_free(self, gradient: ArrayLike) -> ArrayLike:
        """What an entry gains the last one loses."""
        return gradient[..., :-1] - gradient[..., -1:]

    def to_real(self, value: Array) -> Array:
        """Log-ratios to the last entry."""
        return jnp.log(value[..., :-1]) - jnp.log(value[..., -1:])

    def from_real(self, free: Array) -> Array:
        """Softmax with the last entry at zero."""
        return jax.nn.softmax(jnp.concatenate([free, jnp.zeros((*free.shape[:-1], 1))], -1), -1)
