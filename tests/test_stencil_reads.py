"""Reads of V at positions with weights, against loops in plain Python; and their derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from pomdpfit import _stencil_reads
from pomdpfit._precision import require_float64
from pomdpfit._stencil_reads import read_each, read_together

pytestmark = pytest.mark.full

Z, B, N, C, ROW = 3, 2, 5, 2, 7


@pytest.fixture(scope="module", autouse=True)
def float64():
    require_float64()


def _drawn(slots: int, width: int, *, each: bool, seed: int = 0) -> tuple:
    """V, successors, positions and weights, for each z its own or for all the same."""
    rng = np.random.default_rng(seed)
    own = (Z,) if each else ()
    return (
        rng.normal(size=(Z, ROW)),
        rng.integers(0, Z, size=(Z, B, slots)).astype(np.uint32),
        rng.integers(0, ROW, size=(*own, B, slots, N, width)).astype(np.uint32),
        rng.normal(size=(*own, B, slots, N, width, C)),
    )


def _by_hand(flat, successors, position, weight) -> np.ndarray:
    """sum_k sum_v V(z_k, position) weight."""
    if position.ndim == 4:
        position, weight = (np.broadcast_to(part, (Z, *part.shape)) for part in (position, weight))
    out = np.zeros((Z, B, N, C))
    for z, b, k, n, v in np.ndindex(position.shape):
        row = successors[z, b, k]
        out[z, b, n] += flat[row, position[z, b, k, n, v]] * weight[z, b, k, n, v]
    return out


_READS = {True: read_each, False: lambda *arrays: read_together(None, *arrays)}
_SIZES = pytest.mark.parametrize(
    ("slots", "width"), [(1, 2), (4, 3), (_stencil_reads._UNROLLED, 2)], ids=str
)
_EACH = pytest.mark.parametrize("each", [True, False], ids=["each", "together"])


@_EACH
@_SIZES
def test_reads_are_sums_over_slots_and_vertices(slots, width, each):
    drawn = _drawn(slots, width, each=each)
    np.testing.assert_allclose(_READS[each](*drawn), _by_hand(*drawn), rtol=0, atol=1e-12)


@_EACH
@_SIZES
def test_reads_have_derivatives_in_values_and_weights(slots, width, each):
    flat, successors, position, weight = _drawn(slots, width, each=each)
    read = lambda flat, weight: _READS[each](flat, successors, position, weight)
    check_grads(read, (flat, weight), order=1, modes=("fwd", "rev"), atol=1e-6, rtol=1e-6)


def test_many_reads_side_by_side_are_those_of_each():
    drawn = [_drawn(4, 3, each=True, seed=seed) for seed in range(3)]
    stacked = [jnp.stack(parts) for parts in zip(*drawn, strict=True)]
    together = jax.vmap(read_each)(*stacked)
    for one, arrays in zip(together, drawn, strict=True):
        np.testing.assert_allclose(one, _by_hand(*arrays), rtol=0, atol=1e-12)


@_SIZES
def test_laws_may_lead_to_the_same_successors(slots, width):
    """One row of successors for all z, whose laws differ."""
    flat, successors, position, weight = _drawn(slots, width, each=True)
    read = read_each(flat, successors[:1], position, weight)
    by_hand = _by_hand(flat, np.repeat(successors[:1], Z, axis=0), position, weight)
    np.testing.assert_allclose(read, by_hand, rtol=0, atol=1e-12)
