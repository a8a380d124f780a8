"""Programs: what the compiler is told, and that it need not know the option."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pomdpfit.programs import _program, _store, program

pytestmark = pytest.mark.full


@pytest.fixture(autouse=True)
def nothing_is_kept():
    """An earlier test may have switched the folder of programs on."""
    before = _store.current()
    _store.keep_in(None)
    yield
    _store.keep_in(None if before is None else before.folder)


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
    _program._tried.cache_clear()
    try:
        assert (
            _program._options().get("compiler_options", {}).keys() <= _program._IN_ONE_PIECE.keys()
        )
        np.testing.assert_array_equal(program(lambda x: x + 1)(jnp.ones(2)), np.full(2, 2.0))
    finally:
        _program._tried.cache_clear()


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="other devices know no such option")
@pytest.mark.parametrize("quick", [_program._QUICK, {"xla_no_such_option": False}], ids=str)
@pytest.mark.parametrize(("cores", "in_one_piece"), [(1, True), (2, True), (64, False)])
def test_programs_are_cut_in_pieces_only_where_cores_are_idle(
    cores, in_one_piece, quick, monkeypatch
):
    """Whether or not the compiler knows the other option."""
    monkeypatch.setattr(_program, "_QUICK", quick)
    monkeypatch.setattr(_program.os, "cpu_count", lambda: cores)
    _program._tried.cache_clear()
    try:
        options = _program._options().get("compiler_options", {})
        assert (options.items() >= _program._IN_ONE_PIECE.items()) == in_one_piece
        np.testing.assert_array_equal(program(lambda x: x + 1)(jnp.ones(2)), np.full(2, 2.0))
    finally:
        _program._tried.cache_clear()


def test_light_programs_are_optimised_less_and_answer_the_same(monkeypatch):
    """Always, or where the arguments say so; not on other devices, which know no level."""
    monkeypatch.setenv("XLA_FLAGS", "")
    level = _program._LIGHT if jax.default_backend() == "cpu" else {}
    told = lambda run, *args: run._options(args).get("compiler_options", {})
    double = lambda x: 2 * x
    always = program(double, name="always", light=True)
    sometimes = program(double, name="sometimes", light=lambda x: len(x) == 2)
    never = program(double, name="never")
    small, large = jnp.ones(2), jnp.ones(3)
    assert told(always, large).items() >= level.items()
    assert told(sometimes, small).items() >= level.items()
    for plain in (told(sometimes, large), told(never, small)):
        assert not plain.keys() & _program._LIGHT.keys()
    for run in (always, sometimes, never):
        np.testing.assert_array_equal(run(small), 2 * np.ones(2))
        np.testing.assert_array_equal(run(large), 2 * np.ones(3))


def test_a_level_of_optimisation_in_xla_flags_holds_for_light_programs_too(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_backend_optimization_level=0")
    light = program(lambda x: 3 * x, name="light", light=True)
    asked = light._options((jnp.ones(2),)).get("compiler_options", {})
    assert not asked.keys() & _program._LIGHT.keys()
    np.testing.assert_array_equal(light(jnp.ones(2)), 3 * np.ones(2))


def test_what_is_prepared_is_not_traced_again():
    traced = []

    @program
    def scaled(x, by):
        traced.append(x)
        return {"times": by, "product": by * x, "sum": x.sum()}

    sketch = scaled.prepare(jax.ShapeDtypeStruct((3,), np.float32), 2)
    assert sketch["times"] == 2
    assert (sketch["product"].shape, sketch["sum"].dtype) == ((3,), np.float32)
    found = scaled(np.ones(3, np.float32), 2)
    np.testing.assert_array_equal(found["product"], np.full(3, 2.0))
    assert found["sum"] == 3.0
    assert len(traced) == 1
    assert scaled.prepare(np.ones(3, np.float32), 2)["product"].shape == (3,)
    scaled(np.ones(4, np.float32), 2)
    assert len(traced) == 2


def test_equal_numbers_of_other_types_are_other_calls():
    same = program(lambda x, by: (x, by), name="same")
    for by in (1, True, 1.0, 0.0, False):
        assert type(same(np.ones(2, np.float32), by)[1]) is type(by)


def test_errors_are_those_of_the_function_each_time():
    @program
    def refuses(x):
        raise ValueError("never")

    for ask in (refuses, refuses.prepare, refuses):
        with pytest.raises(ValueError, match="never"):
            ask(np.ones(2))


def test_programs_inside_of_programs_are_part_of_them():
    double = program(lambda x: 2 * x, name="double")
    np.testing.assert_array_equal(jax.vmap(double)(jnp.ones((2, 3))), np.full((2, 3), 2.0))
    assert jax.grad(lambda x: double(x))(1.0) == 2.0


def test_forgotten_programs_are_traced_again():
    traced = []
    double = program(lambda x: traced.append(x) or 2 * x, name="double")
    double(jnp.ones(2))
    double.forget()
    double(jnp.ones(2))
    assert len(traced) == 2
