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
from pomdpfit.programs import _store, forget_programs, kept_folder, program
from pomdpfit.programs._spelling import UnspelledError, spelled
from small_signals import GRID, HALF, TRUTH, Signals, likelihood_of, panel_of

pytestmark = pytest.mark.full

# A model with an order is solved with LAPACK's help, which a program that was only read needs too.
_SCRIPT = """
import json, sys
import numpy as np
import pomdpfit as pf
from pomdpfit.programs import _program

traced, trace = [], _program.traced_result
def counted(function, *rest):
    traced.append(function.__name__)
    return trace(function, *rest)
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


_JAXS = (
    "jax_compilation_cache_dir",
    "jax_default_matmul_precision",
    "jax_persistent_cache_min_compile_time_secs",
    "jax_persistent_cache_min_entry_size_bytes",
)


@pytest.fixture
def store(tmp_path):
    """An empty folder; what earlier tests and their imports may have set in JAX is not set."""
    require_float64()
    before, settings = _store.current(), {name: getattr(jax.config, name) for name in _JAXS}
    jax.config.update("jax_compilation_cache_dir", None)
    jax.config.update("jax_default_matmul_precision", None)  # dynamax sets it when imported
    reset_cache()
    _store.keep_in(tmp_path)
    yield tmp_path
    for name, value in settings.items():
        jax.config.update(name, value)
    reset_cache()
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


def ruled(factor, decorate=jax.custom_jvp):
    """A model with a rule of its own for a derivative, which is right for a factor of one."""

    @decorate
    def same(x):
        return x

    rule = lambda primals, tangents: (primals[0], factor * tangents[0])
    (same.defjvp if decorate is jax.custom_jvp else same.def_jvp)(rule)

    class Ruled(Signals):
        def reward(self, theta):
            return same(super().reward(theta))

    return Ruled()


@pytest.mark.parametrize("decorate", [jax.custom_jvp, eqx.filter_custom_jvp])
def test_rules_for_derivatives_count(decorate):
    assert spelled(ruled(1.0, decorate)) == spelled(ruled(1.0, decorate))
    assert spelled(ruled(1.0, decorate)) != spelled(ruled(2.0, decorate))


def test_a_rule_for_one_of_jaxs_functions_counts():
    def log1p(factor):
        function = jax.custom_jvp(jnp.log1p)
        function.defjvps(lambda t, _, x: factor * t / (1 + x))

        class Logs(Signals):
            def reward(self, theta):
                return function(super().reward(theta))

        return Logs()

    assert spelled(log1p(1.0)) == spelled(log1p(1.0))
    assert spelled(log1p(1.0)) != spelled(log1p(2.0))


def test_rules_for_reverse_derivatives_are_refused():
    @jax.custom_vjp
    def same(x):
        return x

    same.defvjp(lambda x: (x, None), lambda _, t: (2 * t,))

    class Ruled(Signals):
        def reward(self, theta):
            return same(super().reward(theta))

    with pytest.raises(UnspelledError, match="reverse"):
        spelled(Ruled())


class WithKey(Signals):
    def reward(self, theta):
        return super().reward(theta) + jax.random.normal(jax.random.key(0), ())


def test_what_cannot_be_spelled_is_no_error(store):
    likelihood = pf.Likelihood(WithKey(), panel_of(20), prior=HALF, grid=GRID)
    assert np.isfinite(likelihood(TRUTH).total)


def test_texts_stay_short_however_deep_programs_are_nested():
    class Deep(Signals):
        def reward(self, theta):
            nested = lambda x: 2 * x
            for _ in range(12):
                nested = lambda x, inner=nested: jax.lax.cond(x.sum() > 0, inner, jnp.sin, x)
            return nested(super().reward(theta))

    assert len(spelled(Deep())) < 1000


_scale = 1.0


class Scaled(Signals):
    def reward(self, theta):
        return _scale * super().reward(theta)


def test_a_model_that_has_changed_behind_jaxs_back_is_kept_for_nobody(store, monkeypatch):
    ask = program(lambda model, theta: model.primitives(theta).reward.sum(), name="ask")
    ask(Scaled(), TRUTH)
    assert len(list(store.iterdir())) == 1
    monkeypatch.setitem(globals(), "_scale", 3.0)
    # Another structure of theta: JAX traces anew, while the text is the one of before.
    ask(Scaled(), {**TRUTH, "more": np.array(1.0)})
    assert len(list(store.iterdir())) == 1


def test_a_program_that_jax_has_read_is_not_written(store):
    pf.cache_compilations(store)
    double = program(lambda x: 2 * jnp.sin(x).cumsum(), name="double")
    expected = np.asarray(double(jnp.arange(5.0)))
    (mine,) = store.glob(f"*{_store.SUFFIX}")
    mine.unlink()
    for _ in range(2):  # JAX's entry is still there
        forget_programs()
        np.testing.assert_array_equal(double(jnp.arange(5.0)), expected)
        assert not mine.exists()


def test_a_program_that_does_not_run_is_compiled(store, monkeypatch):
    double = program(lambda x: 2 * x, name="double")
    double(jnp.ones(3))
    double.forget()

    def broken(*_):
        raise jax.errors.JaxRuntimeError("a function was not found")

    read = _store.Store.read
    monkeypatch.setattr(_store.Store, "read", lambda self, path: (broken, *read(self, path)[1:]))
    for _ in range(2):
        np.testing.assert_array_equal(double(jnp.ones(3)), np.full(3, 2.0))


def test_what_is_prepared_is_kept_by_the_settings_of_who_asked(store):
    double = program(lambda x: 2 * x, name="double")
    with jax.default_matmul_precision("float32"):
        double.prepare(jnp.ones(3))
        double(jnp.ones(3))
        double.forget()
        double(jnp.ones(3))
    assert len(list(store.iterdir())) == 1
    double(jnp.ones(3))
    assert len(list(store.iterdir())) == 2


def test_source_that_was_edited_after_the_import_is_not_mistaken(store, monkeypatch):
    monkeypatch.setattr(_store, "_began", 0.0)
    _store._surroundings.cache_clear()
    try:
        np.testing.assert_array_equal(
            program(lambda x: -x, name="minus")(jnp.ones(2)), [-1.0, -1.0]
        )
    finally:
        _store._surroundings.cache_clear()
    assert list(store.iterdir()) == []


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


def test_a_model_with_a_rule_of_its_own_has_its_derivatives(store):
    gradients = []
    for factor in (1.0, 2.0):  # the second rule is wrong on purpose, and is asked all the same
        likelihood = pf.Likelihood(ruled(factor), panel_of(20), prior=HALF, grid=GRID)
        gradients.append(likelihood.gradient(TRUTH)[1])
    right = likelihood_of(panel_of(20)).gradient(TRUTH)[1]
    np.testing.assert_allclose(gradients[0], right, rtol=1e-12)
    assert not np.allclose(gradients[1], right)


def _folder_there(k):
    return str(kept_folder())


def test_workers_keep_programs_where_jax_does(store):
    _store.keep_in(None)
    _parcel._keep_programs(None)
    assert kept_folder() is None
    jax.config.update("jax_compilation_cache_dir", str(store))
    _parcel._keep_programs(None)
    assert kept_folder() == store


def test_workers_keep_programs_in_the_same_folder(store):
    found = list(_parallel.run_parallel(_folder_there, (), [(k,) for k in range(3)], 2))
    assert found == [str(store)] * 3
