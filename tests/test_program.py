"""Programs: what the compiler is told, and that it need not know the option."""

import jax.numpy as jnp
import numpy as np

from pomdpfit.programs import _program, program


def test_a_program_is_the_function_and_is_compiled_once():
    traced = []

    def double(x):
        traced.append(x)
        return 2 * x

    run = program(double)
    for value in (1.0, 2.0):
        np.testing.assert_array_equal(run(jnp.full(3, value)), np.full(3, 2 * value))
    assert len(traced) == 1
    assert run.__name__ == "double"


def test_an_option_that_the_compiler_does_not_know_is_left_out(monkeypatch):
    monkeypatch.setattr(_program, "_QUICK", {"xla_no_such_option": False})
    _program._options.cache_clear()
    try:
        assert _program._options() == {}
        np.testing.assert_array_equal(program(lambda x: x + 1)(jnp.ones(2)), np.full(2, 2.0))
    finally:
        _program._options.cache_clear()
