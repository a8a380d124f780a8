"""theta: a labelled tree of values beside a tree of properties of the same shape.

Values are a plain dict of arrays, so JAX sees through it. Properties (constraint, fixed or free,
labels) live in `Parameter`; `ParameterSpace` moves between the tree, the vector of free natural
coordinates that users read (a simplex row without its last entry, which is derived), and the
unconstrained vector that optimisers move.
"""

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence

import jax.numpy as jnp
import numpy as np
import pandas as pd

from pomdpfit._constraints import AbstractConstraint, Real
from pomdpfit._errors import ModelError
from pomdpfit._nearest import nearest
from pomdpfit._on_device import on_device
from pomdpfit._precision import in_float64, require_float64
from pomdpfit._shown import shown
from pomdpfit._types import Array, ArrayLike, Float, Theta

_LISTED = 12  # entries of one parameter that a message lists


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One named leaf of theta: an example value, its constraint, whether it is fixed, labels.

    `labels` names the entries, one sequence for each axis of the value; integers by default. A
    covariate is a leaf whose value comes with the panel, row by row: see `Covariate`.
    """

    value: ArrayLike | float | Sequence
    constraint: AbstractConstraint = dataclasses.field(default_factory=Real)
    fixed: bool = False
    labels: tuple[tuple[str, ...], ...] | None = None
    covariate: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", np.asarray(self.value, dtype=np.float64))
        if self.labels is not None:
            labels = tuple(tuple(map(str, axis)) for axis in self.labels)
            object.__setattr__(self, "labels", labels)
            if tuple(map(len, labels)) != self.shape:
                raise ModelError(
                    f"labels of lengths {tuple(map(len, labels))} do not fit a value of shape "
                    f"{self.shape}."
                )

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the value."""
        return np.shape(self.value)

    def entry_names(self, name: str) -> np.ndarray:
        """name, name[i], name[i, j], ... in the shape of the value."""
        axes = self.labels or tuple(tuple(map(str, range(k))) for k in self.shape)
        names = [
            f"{name}[{', '.join(entry)}]" if entry else name for entry in itertools.product(*axes)
        ]
        return np.array(names, dtype=object).reshape(self.shape)


def Covariate(value: float = 0.0) -> Parameter:
    """A number that the model reads from theta and the panel gives for each row.

    The agent takes today's value for that of all days to come. `value` is used where there is no
    panel, as in `pf.solve`.
    """
    return Parameter(value, fixed=True, covariate=True)


@dataclasses.dataclass(frozen=True)
class ParameterSpace:
    """Every parameter of a model (and of its prior), in order."""

    parameters: Mapping[str, Parameter]

    def __post_init__(self) -> None:
        if not isinstance(self.parameters, Mapping):
            raise ModelError(
                "parameters() must return a dict of names and pf.Parameter, not "
                f"{self.parameters!r:.80}."
            )
        for name, parameter in self.parameters.items():
            if not isinstance(parameter, Parameter):
                raise ModelError(
                    f"the parameter {name!r} is {parameter!r:.80}, not a pf.Parameter. Wrap it: "
                    f"pf.Parameter({parameter!r:.80})."
                )

    def __reduce__(self) -> tuple:
        """As it was made: what was found on the way is found again elsewhere."""
        return ParameterSpace, (self.parameters,)

    @in_float64
    def example(self) -> dict[str, Array]:
        """The example values as a tree."""
        return {name: on_device(p.value) for name, p in self.parameters.items()}

    def fix(self, values: Mapping[str, ArrayLike | float]) -> "ParameterSpace":
        """The same space with these parameters fixed at these values."""
        theta = self.check({**self.example(), **{n: np.asarray(v) for n, v in values.items()}})
        return self._replace({name: {"value": theta[name], "fixed": True} for name in values})

    def free(self, *names: str) -> "ParameterSpace":
        """The same space with these parameters freed (the discount, say)."""
        self.require_known(names)
        for name in names:
            if self.parameters[name].covariate:
                raise ModelError(f"{name!r} is a covariate: it comes with the panel.")
        return self._replace({name: {"fixed": False} for name in names})

    def only(self, names: Iterable[str]) -> "ParameterSpace":
        """The same properties for these parameters alone."""
        return ParameterSpace({name: self.parameters[name] for name in names})

    def as_in(self, other: "ParameterSpace") -> "ParameterSpace":
        """The same parameters, those that are in the other space too with its properties."""
        return ParameterSpace({n: other.parameters.get(n, p) for n, p in self.parameters.items()})

    def _replace(self, changes: Mapping[str, Mapping]) -> "ParameterSpace":
        new = {
            name: dataclasses.replace(p, **changes.get(name, {}))
            for name, p in self.parameters.items()
        }
        return ParameterSpace(new)

    def __or__(self, other: "ParameterSpace") -> "ParameterSpace":
        clash = sorted(set(self.parameters) & set(other.parameters))
        if clash:
            raise ModelError(f"the model and its prior both have a parameter named {clash[0]!r}.")
        return ParameterSpace({**self.parameters, **other.parameters})

    @property
    def covariates(self) -> tuple[str, ...]:
        """Names of the leaves that the panel gives."""
        return tuple(name for name, p in self.parameters.items() if p.covariate)

    # ---- names -----------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """Names of all entries, fixed and derived ones included."""
        return [n for name, p in self.parameters.items() for n in p.entry_names(name).ravel()]

    @property
    def free_leaves(self) -> tuple[str, ...]:
        """Names of the parameters that are not fixed."""
        return tuple(name for name, p in self.parameters.items() if not p.fixed)

    @property
    def owners(self) -> list[str]:
        """The parameter that each of `names` is an entry of."""
        return [name for name, p in self.parameters.items() for _ in p.entry_names(name).flat]

    @property
    def free_names(self) -> list[str]:
        """Names of the free natural coordinates."""
        return [
            n
            for name, p in self._free()
            for n in np.ravel(p.constraint.drop_derived(p.entry_names(name)))
        ]

    @functools.cached_property
    def _entry_names(self) -> dict[str, np.ndarray]:
        return {name: p.entry_names(name) for name, p in self.parameters.items()}

    def to_series(self, theta: Theta) -> pd.Series:
        """All entries of theta, labelled."""
        values = [np.ravel(np.asarray(theta[name])) for name in self.parameters]
        return pd.Series(np.concatenate(values), index=self.names, name="theta")

    def from_series(self, values: Mapping[str, float] | pd.Series) -> dict[str, np.ndarray]:
        """theta again from its labelled entries: `space.from_series(est.modes.loc[2])`."""
        missing = [name for name in self.names if name not in values]
        if missing:
            raise ModelError(f"there is no value for {missing[0]!r} ({len(missing)} are missing).")
        return {
            name: np.array(
                [values[entry] for entry in p.entry_names(name).flat], dtype=float
            ).reshape(p.shape)
            for name, p in self.parameters.items()
        }

    # ---- checks ----------------------------------------------------------------------------

    def require_known(self, names: Sequence[str]) -> None:
        for name in names:
            if name not in self.parameters:
                leaf = str(name).partition("[")[0]
                hint = nearest(leaf, self.parameters)
                if leaf in self.parameters:
                    hint = f" Only whole parameters can stand here, such as {leaf}."
                raise ModelError(
                    f"there is no parameter named {shown(name)}; the parameters are "
                    f"{', '.join(self.parameters)}.{hint}"
                )

    def require_name(self, name: str, place: str) -> None:
        """Raise unless the name is that of a parameter or of one of its entries."""
        if name not in self.parameters and name not in self.names:
            leaf = str(name).partition("[")[0]
            entries = [entry for entry in self.names if entry not in self.parameters]
            own = [entry for entry in entries if entry.startswith(f"{leaf}[")]
            such = f", and entries such as {entries[0]}" if entries else ""
            if own:
                more = f" and {len(own) - _LISTED} more" if len(own) > _LISTED else ""
                such = f"; the entries of {leaf} are {', '.join(own[:_LISTED])}{more}"
            raise ModelError(
                f"{place} names {shown(name)}, which is no parameter; there are "
                f"{', '.join(self.parameters)}{such}."
                f"{nearest(str(name), own or [*self.parameters, *self.names])}"
            )

    def require_once(self, names: Iterable[str], place: str) -> None:
        """Raise where a parameter is named beside one of its own entries: which value counts?"""
        names = list(names)
        for entry, owner in zip(self.names, self.owners, strict=True):
            if entry != owner and entry in names and owner in names:
                raise ModelError(f"{place} gives both {owner} and {entry}: leave one out.")

    def check(self, theta: Theta) -> dict[str, Array]:
        """theta in float64 and in this space's order, or an error that names the entry."""
        return {name: on_device(value) for name, value in self.checked_numbers(theta).items()}

    @in_float64
    def checked_numbers(self, theta: Theta) -> dict[str, np.ndarray]:
        """The same in numpy's arrays: for who only hands them to a program, which is quicker."""
        if not isinstance(theta, Mapping):
            raise ModelError(f"theta must be a mapping of names to values, not {type(theta)}.")
        self.require_known(list(theta))
        checked = {}
        for name, parameter in self.parameters.items():
            if name not in theta:
                raise ModelError(f"theta lacks the parameter {name!r}.")
            try:
                value = np.array(theta[name], dtype=np.float64)  # a device may share its memory
            except (TypeError, ValueError) as error:
                raise ModelError(
                    f"{name} must be a number or an array, not {theta[name]!r}."
                ) from error
            if value.shape != parameter.shape:
                raise ModelError(
                    f"{name} must have shape {parameter.shape}, but it has {value.shape}."
                )
            parameter.constraint.check(value, self._entry_names[name])
            checked[name] = value
        return checked

    # ---- vectors ---------------------------------------------------------------------------

    def _free(self) -> list[tuple[str, Parameter]]:
        return [(name, p) for name, p in self.parameters.items() if not p.fixed]

    @in_float64
    def to_vector(self, theta: Theta) -> Float[Array, "p"]:
        """The free natural coordinates as one vector, in the order of `free_names`."""
        parts = [p.constraint.drop_derived(jnp.asarray(theta[name])) for name, p in self._free()]
        return _concatenate(parts)

    def from_vector(self, vector: Float[ArrayLike, "p"], base: Theta) -> dict[str, Array]:
        """The tree with its free natural coordinates set; the rest is `base`, bit for bit."""
        return self._insert(vector, base, unconstrained=False)

    @in_float64
    def to_unconstrained(self, theta: Theta) -> Float[Array, "p"]:
        """The free coordinates mapped to the whole real line."""
        parts = [p.constraint.to_real(jnp.asarray(theta[name])) for name, p in self._free()]
        return _concatenate(parts)

    def from_unconstrained(self, vector: Float[ArrayLike, "p"], base: Theta) -> dict[str, Array]:
        """Inverse of `to_unconstrained`; fixed parameters are those of `base`, bit for bit."""
        return self._insert(vector, base, unconstrained=True)

    @in_float64
    def gradient_vector(self, gradient: Theta) -> Float[Array, "*b p"]:
        """A tree of derivatives in all entries (any leading axes) as free natural coordinates."""
        parts = []
        for name, p in self._free():
            part = jnp.asarray(p.constraint.gradient_to_free(gradient[name]))
            lead = part.shape[: part.ndim - len(p.shape)]
            parts.append(part.reshape(*lead, -1))
        return jnp.concatenate(parts, axis=-1) if parts else jnp.zeros(0)

    def directions(self) -> dict[str, Float[np.ndarray, "p *shape"]]:
        """For each free natural coordinate, how the whole tree moves with it."""
        base = {name: np.asarray(p.value) for name, p in self.parameters.items()}
        sizes = [int(np.prod(p.constraint.free_shape(p.shape))) for _, p in self._free()]
        moves = {name: np.zeros((sum(sizes), *v.shape)) for name, v in base.items()}
        start = 0
        for (name, p), size in zip(self._free(), sizes, strict=True):
            shape = p.constraint.free_shape(p.shape)
            origin = p.constraint.add_derived(jnp.zeros(shape))
            for k, unit in enumerate(np.eye(size)):
                moved = p.constraint.add_derived(jnp.asarray(unit.reshape(shape)))
                moves[name][start + k] = moved - origin
            start += size
        return moves

    def free_directions(self) -> dict[str, Float[np.ndarray, "p *shape"]]:
        """The same for the leaves that are not fixed alone: the others do not move."""
        moves = self.directions()
        return {name: moves[name] for name in self.free_leaves}

    def _insert(self, vector: ArrayLike, base: Theta, *, unconstrained: bool) -> dict[str, Array]:
        require_float64()
        theta = {name: jnp.asarray(base[name]) for name in self.parameters}
        start = 0
        for name, p in self._free():
            shape = p.constraint.free_shape(p.shape)
            stop = start + int(np.prod(shape))
            part = jnp.asarray(vector)[start:stop].reshape(shape)
            constraint = p.constraint
            theta[name] = (
                constraint.from_real(part) if unconstrained else constraint.add_derived(part)
            )
            start = stop
        return theta


def _concatenate(parts: Sequence[ArrayLike]) -> Array:
    return jnp.concatenate([jnp.ravel(p) for p in parts]) if parts else jnp.zeros(0)
