"""The observation likelihood against two HMM packages, on the models that they can express.

A classical HMM is a model with one action. Its z0 is given and tells nothing more than the prior
x0 does, so the first emission that counts is z1, whose hidden state has the law x0 T.
"""

import jax.numpy as jnp
import numpy as np
import pytest
from dynamax.hidden_markov_model import hmm_filter, hmm_smoother
from hmmlearn.hmm import CategoricalHMM

import pomdpfit as pf
from helpers import at, random_belief


class HiddenMarkov(pf.Model):
    """Transition and emission matrices, and nothing to decide."""

    transition: np.ndarray
    emission: np.ndarray

    def parameters(self):
        return {"discount": pf.discount_parameter(0.0)}

    def kernel(self, theta):
        return pf.factored_kernel(self.transition[:, None], self.emission[:, None])

    def reward(self, theta):
        S, Z = self.emission.shape
        return jnp.zeros((Z, S, 1))


@pytest.fixture(scope="module", params=[2, pytest.param(4, marks=pytest.mark.full)])
def case(request):
    S, Z, T = request.param, 5, 300
    rng = np.random.default_rng(S)
    transition, emission = rng.dirichlet(np.ones(S), size=S), rng.dirichlet(np.ones(Z), size=S)
    x0, z = random_belief(rng, S), rng.integers(0, Z, size=T + 1)
    panel = pf.Panel.from_arrays([z], [np.zeros(T, dtype=int)])
    ours = pf.log_likelihood(
        HiddenMarkov(transition, emission), at(0.0), panel, prior=pf.KnownPrior(x0),
        grid=pf.Linear(3),
    )  # fmt: skip
    assert ours.choice.sum() == 0.0  # there is only one action
    return transition, emission, x0, z, ours


def test_observation_likelihood_equals_hmmlearn(case):
    transition, emission, x0, z, ours = case
    peer = CategoricalHMM(n_components=len(x0), n_features=emission.shape[1])
    peer.startprob_, peer.transmat_, peer.emissionprob_ = x0 @ transition, transition, emission
    assert ours.total == pytest.approx(peer.score(z[1:, None]), rel=1e-12)


def test_observation_likelihood_and_beliefs_equal_dynamax(case):
    transition, emission, x0, z, ours = case
    log_emission = jnp.log(jnp.asarray(emission[:, z[1:]].T))
    peer = hmm_filter(jnp.asarray(x0 @ transition), jnp.asarray(transition), log_emission)
    assert peer.filtered_probs.dtype == np.float64
    assert ours.total == pytest.approx(float(peer.marginal_loglik), rel=1e-12)
    np.testing.assert_allclose(ours.belief[0, 1:], peer.filtered_probs, rtol=1e-12)
    smoothed = pf.smooth_beliefs(
        HiddenMarkov(transition, emission), at(0.0), ours.panel, prior=pf.KnownPrior(x0)
    )
    peer = hmm_smoother(jnp.asarray(x0 @ transition), jnp.asarray(transition), log_emission)
    np.testing.assert_allclose(smoothed.x[0, 1:], peer.smoothed_probs, rtol=1e-11)
