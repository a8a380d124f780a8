"""Models at the edge of what numbers can hold, and what each is told."""

import dataclasses
import functools
import math
import warnings
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

import pomdpfit as pf

GRID = pf.Smooth(5)


class Twins(pf.Model):
    """Three hidden states, of which two have the same law and the same pay."""

    def parameters(self):
        """What a state pays."""
        return {"pay": pf.Parameter([0.0, 1.0]), "discount": pf.discount_parameter(0.5)}

    def kernel(self, theta):
        """left and right move and show alike."""
        move = jnp.array([[0.8, 0.1, 0.1], [0.2, 0.4, 0.4], [0.2, 0.4, 0.4]])
        see = jnp.array([[0.7, 0.3], [0.4, 0.6], [0.4, 0.6]])
        both = jnp.einsum("st,sz->szt", move, see)
        return pf.dense_kernel(jnp.broadcast_to(both[None, :, None], (2, 3, 2, 2, 3)))

    def reward(self, theta):
        """For the second action."""
        pay = jnp.asarray(theta["pay"])[jnp.array([0, 1, 1])]
        return jnp.broadcast_to(jnp.stack([jnp.zeros(3), pay], axis=-1), (2, 3, 2))

    def state_labels(self):
        """idle, left, right."""
        return ("idle", "left", "right")


@dataclasses.dataclass(frozen=True)
class Extreme:
    """Something to do at an extreme, and words that its outcome must hold."""

    title: str
    shows: str
    outcome: str  # "refused", "accepted" or "warned"
    words: tuple[str, ...]
    act: Callable[[], object]
    until: str = ""  # what follows is a figure that differs between machines


class _Enough(Exception):
    """A fit has begun to climb: what it had to say before that has been said."""


def _stop(*news):
    raise _Enough


@functools.cache
def outcome_of(title: str) -> tuple[str, str]:
    """The outcome of an extreme, and what is said."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            EXTREMES[title].act()
        except pf.PomdpfitError as error:
            return "refused", str(error)
        except _Enough:
            pass
    said = [str(w.message) for w in caught if issubclass(w.category, pf.IdentificationWarning)]
    return ("warned", "; ".join(said)) if said else ("accepted", "")


def _answered(model: pf.Model, solver: object = None, **theta: float) -> None:
    """Solve, and make sure that what comes is an answer; test_extremes.py has the right ones."""
    solution = pf.solve(model, {**model.example(), **theta}, grid=GRID, solver=solver)
    choice = np.asarray(solution.policy(0, [0.5, 0.5]))
    assert math.isclose(choice.sum(), 1.0, rel_tol=1e-12)
    assert np.isfinite(solution.value(0, [0.5, 0.5]))


def _tiger(discount: float, solver: object = None, **theta: float) -> None:
    _answered(pf.models.Tiger(), solver, discount=discount, **theta)


def _engine(**theta: float) -> None:
    _answered(pf.models.EngineReplacement(bins=6, increments=3, discount=0.9), **theta)


def _prior(x0: list[float]) -> None:
    model = pf.models.Tiger()
    panel = pf.Panel.from_arrays([[0, 1]], [[0]])
    pf.log_likelihood(model, model.example(), panel, prior=pf.KnownPrior(x0), grid=GRID)


def _twins() -> None:
    panel = pf.Panel.from_arrays([[0, 1, 0]], [[0, 1]])
    prior = pf.KnownPrior([0.4, 0.3, 0.3])
    pf.fit(Twins(), panel, prior=prior, grid=pf.Linear(3), starts=1, progress=_stop)


_TIGHT = functools.partial(_tiger, 0.99999, pf.Newton(max_steps=1))
_ALL = [
    Extreme("discount of 0", "theta['discount'] = 0", "accepted", (), lambda: _tiger(0.0)),
    Extreme(
        "discount of 0.99999",
        "theta['discount'] = 0.99999",
        "accepted",
        (),
        lambda: _tiger(0.99999),
    ),
    Extreme(
        "discount of 0.99999, not solved",
        "the same, solver=pf.Newton(max_steps=1)",
        "refused",
        ("residual",),
        _TIGHT,
        until="residual",
    ),
    *(
        Extreme(
            f"discount of {beta:g}",
            f"theta['discount'] = {beta:g}",
            "refused",
            ("discount", f"{beta:g}"),
            functools.partial(_tiger, beta),
        )
        for beta in (1.0, 1.5, -0.5, math.nan)
    ),
    Extreme(
        "prior that does not sum to 1",
        "pf.KnownPrior([0.5, 0.4])",
        "refused",
        ("sum to 1", "0.9"),
        lambda: _prior([0.5, 0.4]),
    ),
    Extreme(
        "prior with a negative entry",
        "pf.KnownPrior([1.25, -0.25])",
        "refused",
        ("-0.25",),
        lambda: _prior([1.25, -0.25]),
    ),
    Extreme(
        "rewards of 1e8",
        "gold = 1e8, mauled = -1e8",
        "accepted",
        (),
        lambda: _tiger(0.95, gold=1e8, mauled=-1e8),
    ),
    Extreme("replacement cost of 1e6", "RC = 1e6", "accepted", (), lambda: _engine(RC=1e6)),
    Extreme(
        "hidden states that are the same",
        "left and right of three",
        "warned",
        ("'left' and 'right'", "one hidden state less"),
        _twins,
    ),
]
EXTREMES = {case.title: case for case in _ALL}
