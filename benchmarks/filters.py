"""The filter beside two HMM packages, on a model that all three can express.

A classical HMM is a model with one action: transition and emission matrices, nothing to decide.
All three filter the same sequences; dynamax is mapped over them and compiled, hmmlearn gets them
in one call, in its faster form.
"""

import importlib.util

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import pomdpfit as pf
from benchmarks.row import Row
from benchmarks.size import Size
from benchmarks.timing import Work, side_by_side
from pomdpfit._moves import find_moves, move_matrices
from pomdpfit._plain_filter import follow
from pomdpfit.programs import program


class HiddenMarkov(pf.Model):
    """Transition and emission matrices."""

    transition: np.ndarray
    emission: np.ndarray

    def parameters(self):
        return {"discount": pf.discount_parameter(0.0)}

    def kernel(self, theta):
        return pf.factored_kernel(self.transition[:, None], self.emission[:, None])

    def reward(self, theta):
        S, Z = self.emission.shape
        return jnp.zeros((Z, S, 1))


def rows(size: Size) -> list[Row]:
    """Nanoseconds a row, ours and theirs, for two and four hidden states."""
    return [row for S in (2, 4) for row in _rows(size, S)]


def _rows(size: Size, S: int) -> list[Row]:
    Z, N, T = 5, size.sequences, size.periods
    rng = np.random.default_rng(S)
    transition, emission = rng.dirichlet(np.ones(S), size=S), rng.dirichlet(np.ones(Z), size=S)
    x0, z = rng.dirichlet(np.ones(S)), rng.integers(0, Z, size=(N, T + 1))
    works = {
        **_ours(transition, emission, x0, z),
        **_dynamax(transition, emission, x0, z),
        **_hmmlearn(transition, emission, x0, z),
    }
    seconds = side_by_side(works, size.repetitions)
    ours = seconds["ours"]
    each = 1e9 / (N * T)
    out = [
        Row(
            f"|S| = {S}: our filter",
            ours * each,
            "ns a row",
            note=f"{N} x {T}, as the likelihood runs it",
        ),
        Row(f"|S| = {S}: pf.filter_beliefs", seconds["public"] * each, "ns a row"),
    ]
    for peer, target in (("dynamax", 1.0), ("hmmlearn", 3.0)):
        if peer in seconds:
            ratio, note = seconds[peer] / ours, f"{seconds[peer] * each:.0f} ns a row"
        else:
            ratio, note = None, f"{peer} is not installed"
        name = f"|S| = {S}: our filter beside {peer}"
        out.append(Row(name, ratio, "times as fast", target, at_least=True, note=note))
    return out


def _ours(transition, emission, x0, z) -> dict[str, Work]:
    model = HiddenMarkov(transition, emission)
    theta, prior = model.example(), pf.KnownPrior(x0)
    panel = pf.Panel.from_arrays(list(z), list(np.zeros_like(z[:, 1:])))
    kernel = eqx.filter_jit(model.kernel)(theta)
    arrays = panel.arrays(panel.contexts((), None)[1])
    belief = jnp.broadcast_to(jnp.asarray(x0), (len(z), len(x0)))
    places = eqx.filter_jit(find_moves)(kernel, arrays)  # once for a panel, not for every theta
    return {
        "ours": lambda: _plain(kernel, places, belief),
        "public": lambda: pf.filter_beliefs(model, theta, panel, prior=prior).x,
    }


@program
def _plain(kernel: pf.Kernel, places: jax.Array, x0: jax.Array) -> tuple:
    matrices = move_matrices(kernel)
    path = follow(matrices, places, x0)
    return path.x, path.log_sigma, path.lost(matrices)


def _dynamax(transition, emission, x0, z) -> dict[str, Work]:
    if importlib.util.find_spec("dynamax") is None:
        return {}
    from dynamax.hidden_markov_model import hmm_filter

    first, matrix = jnp.asarray(x0 @ transition), jnp.asarray(transition)
    log_emission = jnp.log(jnp.asarray(emission)).T
    seen = jnp.asarray(z[:, 1:])
    run = jax.jit(jax.vmap(lambda one: hmm_filter(first, matrix, log_emission[one])))
    assert run(seen).filtered_probs.dtype == np.float64  # like with like
    return {"dynamax": lambda: run(seen)}


def _hmmlearn(transition, emission, x0, z) -> dict[str, Work]:
    if importlib.util.find_spec("hmmlearn") is None:
        return {}
    from hmmlearn.hmm import CategoricalHMM

    S, Z = emission.shape
    peer = CategoricalHMM(n_components=S, n_features=Z, implementation="scaling")
    peer.startprob_, peer.transmat_, peer.emissionprob_ = x0 @ transition, transition, emission
    seen, lengths = z[:, 1:].reshape(-1, 1), np.full(len(z), z.shape[1] - 1)
    return {"hmmlearn": lambda: peer.score(seen, lengths)}
