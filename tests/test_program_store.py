"""Programs kept on disk: found without tracing, by all that makes them what they are."""

import json
import os
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.compilation_cache.compilation_cache import reset_cache

import pomdpfit as pf
from pomdpfit import _parallel, _parcel
from pomdpfit._precision import require_float64
from pomdpfit.programs import _store, kept_folder, program
from pomdpfit.programs._spelling import UnspelledError, spelled
from small_signals import GRID, HALF, TRUTH, Signals, likelihood_of, panel_of

# A model with an order is solved with LAPACK's help, which a program that was only read needs too.
_SCRIPT = """
import json, sys
import numpy as np
import pomdpfit as pf
from pomdpfit.programs import _program

traced, trace = [], _program.traced_result
def counted(function, call):
    traced.append(function.__name__)
    return trace(function, call)
_program.traced_result = counted

pf.cache_compilations(sys.argv[1])
model = pf.models.EngineReplacement(bins=12, increments=3, discount=0.99)
theta = model.example()
given = {"prior": pf.KnownPrior([0.5, 0.5]), "grid": pf.Linear(7)}
panel = pf.simulate(model, theta, agents=8, periods=9, seed=0, **given)
likelihood = pf.Likelihood(model, panel, **given)
here, gradient = likelihood.gradient(theta)
_, scores = likelihood.scores(theta, start=here.start)
print(json.dumps({"llf": here.total, "gradient": list(gradient), "traced": traced,
                  "scores": np.asarray(scores).tolist()}))
"""


@pytest.fixture
def store(tmp_path):
    require_float64()
    before = _store.current()
    _store.keep_in(tmp_path)
    yield tmp_path
    _store.keep_in(None if before is None else before.folder)


def test_a_second_process_traces_nothing_large_and_finds_the_same(tmp_path):
    runs = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", _SCRIPT, str(tmp_path)],
            # On other devices sums are not taken in the same order each time.
            env={**os.environ, "JAX_COMPILATION_CACHE_DIR": "", "JAX_PLATFORMS": "cpu"},
            capture_output=True,
            text=True,
            check=True,
        )
        runs.append(json.loads(done.stdout.splitlines()[-1]))
    first, second = runs
    assert len(first.pop("traced")) >= 6
    assert second.pop("traced") == []
    assert first == second  # to the last bit


def test_programs_from_disk_return_what_the_function_does(store):
    @program(name="a test's own")
    def function(signals, scale, kind):
        return {"sum": scale["by"] * signals.sum(), "kind": kind, "two": (2, signals[:2])}

    arguments = jnp.arange(4.0), {"by": np.float64(3.0)}, "plain"
    fresh = function(*arguments)
    (file,) = store.iterdir()
    made = file.stat().st_mtime_ns
    function.forget()  # as a new process has it
    for found in (fresh, function(*arguments)):
        assert found["kind"] == "plain"
        assert found["two"][0] == 2
        np.testing.assert_array_equal(found["sum"], 18.0)
        np.testing.assert_array_equal(found["two"][1], [0.0, 1.0])
    assert list(store.iterdir()) == [file]
    assert file.stat().st_mtime_ns > made  # the last to go
    function(jnp.arange(5.0), *arguments[1:])  # another shape
    function(*arguments[:2], "other")
    assert len(list(store.iterdir())) == 3


@pytest.mark.parametrize("damage", [b"", b"not a program", None])
def test_a_damaged_file_is_made_anew(store, damage):
    double = program(lambda x: 2 * x, name="double")
    double(jnp.ones(3))
    (file,) = store.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2] if damage is None else damage)
    double.forget()
    np.testing.assert_array_equal(double(jnp.ones(3)), np.full(3, 2.0))
    assert len(file.read_bytes()) > len(whole) / 2
    assert list(store.iterdir()) == [file]


def test_a_folder_that_cannot_be_written_is_no_error(store):
    store.rmdir()
    store.write_text("a file")
    np.testing.assert_array_equal(program(lambda x: x + 1, name="add")(jnp.ones(2)), [2.0, 2.0])
    store.unlink()
    np.testing.assert_array_equal(
        program(lambda x: x + 1, name="add")(jnp.ones(3)), np.full(3, 2.0)
    )
    assert len(list(store.iterdir())) == 1


def test_jax_looks_inside_where_it_is_asked_to(store):
    reciprocal = program(lambda x: 1 / x - 1 / x, name="reciprocal")
    reciprocal(jnp.zeros(2))
    with jax.debug_nans(True), pytest.raises(FloatingPointError):
        reciprocal(jnp.zeros(2))


def test_what_has_no_text_is_compiled_as_ever(store):
    apply = program(lambda function, x: function(x), name="apply")
    for factor in (2.0, 3.0):
        found = apply(lambda x, factor=factor: factor * x, jnp.ones(2))
        np.testing.assert_array_equal(found, [factor, factor])
    assert list(store.iterdir()) == []


def test_an_edited_package_finds_nothing(store, monkeypatch):
    double = program(lambda x: 2 * x, name="double")
    double(jnp.ones(3))
    monkeypatch.setattr(_store, "_surroundings", lambda: "another source")
    double.forget()
    double(jnp.ones(3))
    assert len(list(store.iterdir())) == 2


def test_a_setting_of_jax_finds_nothing(store):
    double = program(lambda x: 2 * x, name="double")
    double(jnp.ones(3))
    with jax.default_matmul_precision("float32"):
        double(jnp.ones(3))
    assert len(list(store.iterdir())) == 2


# What a call is.


def tabled(table):
    class Tabled(Signals):
        """Its rewards are taken from a table outside of it."""

        def reward(self, theta):
            return super().reward(theta) * table

    return Tabled()


@pytest.mark.parametrize("shape", [(), (2,)])
def test_a_model_is_what_it_computes(shape):
    first = spelled(tabled(np.full(shape, 1.1)))
    assert spelled(tabled(np.full(shape, 1.1))) == first
    assert spelled(tabled(np.full(shape, np.nextafter(1.1, 2.0)))) != first


def test_models_that_compute_the_same_are_the_same():
    class Renamed(Signals):
        pass

    assert spelled(Renamed()) == spelled(Signals())


def test_a_horizon_counts():
    class Ending(Signals):
        def horizon(self):
            return 5

    class EndingLater(Signals):
        def horizon(self):
            return 4

    assert len({spelled(model()) for model in (Signals, Ending, EndingLater)}) == 3


@jax.custom_jvp
def _own_rule(x):
    return x


@_own_rule.defjvp
def _rule(primals, tangents):
    return primals[0], 2 * tangents[0]


class WithOwnRule(Signals):
    def reward(self, theta):
        return _own_rule(super().reward(theta))


class WithJaxsRule(Signals):
    def reward(self, theta):
        return jnp.logaddexp(super().reward(theta), 0.0)


def test_rules_for_derivatives_are_known_or_refused():
    with pytest.raises(UnspelledError, match="rule for derivatives"):
        spelled(WithOwnRule())
    assert spelled(WithJaxsRule()) != spelled(Signals())


class OwnShock(pf.Gumbel):
    pass


class WithOwnShock(Signals):
    def shock(self, theta):
        return OwnShock()


def test_classes_of_others_are_refused():
    with pytest.raises(UnspelledError, match="OwnShock"):
        spelled(WithOwnShock())


class Held(eqx.Module):
    table: np.ndarray
    still: np.ndarray = eqx.field(static=True)


Held.__module__ = "pomdpfit.held"


@pytest.mark.filterwarnings("ignore:A JAX array is being set as static")
def test_arrays_count_by_shape_unless_they_are_part_of_the_program():
    a, b = np.zeros(3), np.ones(3)
    assert spelled(Held(a, a)) == spelled(Held(b, a))
    assert spelled(Held(a, a)) != spelled(Held(a, b))
    assert spelled(Held(a, a)) != spelled(Held(np.zeros(4), a))
    assert spelled(1) != spelled(1.0)
    assert spelled(1) != spelled(True)


def test_a_model_with_a_rule_of_its_own_has_the_right_derivatives(store):
    likelihood = pf.Likelihood(WithOwnRule(), panel_of(20), prior=HALF, grid=GRID)
    plain = likelihood_of(panel_of(20))
    with_rule, without = likelihood.gradient(TRUTH)[1], plain.gradient(TRUTH)[1]
    assert likelihood(TRUTH).total == pytest.approx(plain(TRUTH).total, rel=1e-12)
    assert not np.allclose(with_rule, without)  # the rule is wrong on purpose, and was asked


def _folder_there(k):
    return str(kept_folder())


def test_workers_keep_programs_where_jax_does(store):
    _store.keep_in(None)
    _parcel._keep_programs(None)
    assert kept_folder() is None
    jax.config.update("jax_compilation_cache_dir", str(store))
    try:
        _parcel._keep_programs(None)
        assert kept_folder() == store
    finally:
        jax.config.update("jax_compilation_cache_dir", None)
        reset_cache()


def test_workers_keep_programs_in_the_same_folder(store):
    found = list(_parallel.run_parallel(_folder_there, (), [(k,) for k in range(3)], 2))
    assert found == [str(store)] * 3
