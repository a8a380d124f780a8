"""Estimates come back from a file to the last bit, and nothing else comes out of one."""

import contextlib
import copy
import dataclasses
import datetime
import io
import json
import sys
import uuid
import zipfile

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pomdpfit as pf
from pomdpfit.packing import _zip
from pomdpfit.packing._npy import npy_array, npy_bytes
from pomdpfit.packing._values import Reader, Writer
from pomdpfit.storage import _classes, load, save
from report_kinds import Kind
from small_hidden import ENGINE as HIDDEN
from small_hidden import TRUTH as HIDDEN_TRUTH
from small_hidden import hidden_fit, hidden_panel

ENGINE = pf.models.EngineReplacement(bins=6, increments=2, discount=0.8)
TRUTH = {
    "RC": 1.5,
    "cost": np.array([100.0, 500.0]),
    "stay": np.array([0.8, 0.9]),
    "increment": np.array([[0.3, 0.7], [0.8, 0.2]]),
    "discount": 0.8,
}
HALF = pf.KnownPrior([0.5, 0.5])


class OwnBus(pf.baselines.MDP):
    """A user's own model: no class of the package."""

    bus: pf.baselines.BusEngine
    cost_labels: tuple[str, ...] | None = None

    def parameters(self):
        own = dict(self.bus.parameters())
        if self.cost_labels is not None:
            own["cost"] = pf.Parameter(np.ones(len(self.cost_labels)), labels=(self.cost_labels,))
        return own

    def transition(self, theta):
        return self.bus.transition(theta)

    def reward(self, theta):
        return self.bus.reward({**theta, "cost": jnp.mean(jnp.asarray(theta["cost"]))})


def engine_panel() -> pf.Panel:
    return pf.simulate(ENGINE, TRUTH, agents=60, periods=15, seed=1, prior=HALF)


def bus_panel(agents, periods) -> pf.Panel:
    """Paths of a bus by hand, under the given ids and times."""
    rng, rows = np.random.default_rng(3), []
    for agent in agents:
        z = 0
        for t in range(9):
            replace = bool(rng.random() < 0.1 + 0.1 * z)
            rows.append((agent, periods[t], z, "replace" if replace else "keep", agent[0]))
            z = 0 if replace else min(z + int(rng.integers(2)), 5)
    columns = ["bus", "month", "z", "action", "depot"]
    frame = pd.DataFrame({name: [row[k] for row in rows] for k, name in enumerate(columns)})
    return pf.Panel.from_frame(
        frame,
        agent="bus",
        time="month",
        observation="z",
        action="action",
        actions=["keep", "replace"],
        freq="M",
        group="depot",
    )


BUS = pf.baselines.BusEngine(bins=6, increments=2, discount=0.8)
MONTHS = pd.date_range("2001-01-31 12:00", periods=9, freq="ME", tz="Europe/Berlin")


@pytest.fixture(scope="module")
def joint():
    return hidden_fit(hidden_panel(), starts=1)


@pytest.fixture(scope="module")
def two_stage():
    return pf.fit(
        ENGINE,
        engine_panel(),
        pf.TwoStage(pf.BHHH(tolerance=1e-6)),
        prior=pf.CommonPrior(),
        start=TRUTH,
        starts=1,
        fixed={"RC": 1.5, "stay[bad]": 0.9},
        constraints="increment[good, 0] + increment[bad, 0] = 1.1",
        grid=pf.Smooth(5),
        solver=pf.Newton(),
        seed=7,
    )


@pytest.fixture(scope="module")
def dated_bus():
    panel = bus_panel([f"{depot}{k}" for depot in "AB" for k in range(12)], list(MONTHS))
    panel = panel.exclude_transitions(np.arange(24 * 9).reshape(24, 9) == 3)
    return pf.fit(BUS, panel, pf.TwoStage(), constraints="increment[0] = 0.6")


@pytest.fixture(scope="module")
def own():
    panel = bus_panel([f"{depot}{k}" for depot in "AB" for k in range(12)], list(MONTHS))
    return pf.fit(OwnBus(BUS), panel, fixed={"RC": 1.5})


@pytest.fixture(scope="module")
def good(joint, tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "joint.zip"
    save(joint, path)
    return path


def returned(estimate, folder, **handed):
    path = folder / "estimate.zip"
    save(estimate, path)
    back = load(path, **handed)
    again = folder / "again.zip"
    save(back, again)
    assert again.read_bytes() == path.read_bytes()
    return back


def assert_same_array(left, right):
    assert left.dtype == right.dtype
    np.testing.assert_array_equal(left, right)


def assert_same(estimate, back):
    """Everything that can be asked without the model's code, bit for bit."""
    for name in estimate.theta:
        assert_same_array(estimate.theta[name], back.theta[name])
    for name, p in estimate.space.parameters.items():
        q = back.space.parameters[name]
        assert_same_array(p.value, q.value)
        assert (p.constraint, p.fixed, p.labels, p.covariate) == (
            q.constraint,
            q.fixed,
            q.labels,
            q.covariate,
        )
    same = ("restrictions", "boundary", "derived", "result", "reason", "steps", "gain", "dimension")
    same += ("incidental", "traces", "fixed", "freed", "seed", "seconds", "version", "llf", "bic")
    for name in same:
        assert getattr(estimate, name) == getattr(back, name), name
    for name in ("modes", "starts"):
        pd.testing.assert_frame_equal(
            getattr(estimate, name), getattr(back, name), check_exact=True
        )
    pd.testing.assert_series_equal(estimate.params, back.params, check_exact=True)
    pd.testing.assert_series_equal(estimate.bse, back.bse, check_exact=True)
    kinds = ["hessian", "opg", "sandwich"]
    if estimate.information.first is not None:
        kinds.append("uncorrected")
    for kind in kinds:
        pd.testing.assert_frame_equal(
            estimate.cov_params(kind), back.cov_params(kind), check_exact=True
        )
    assert_same_panel(estimate.panel, back.panel)
    for name in ("grid", "estimator", "prior"):
        assert repr(getattr(estimate.setting, name)) == repr(getattr(back.setting, name))
    assert eqx.tree_equal(estimate.setting.solver, back.setting.solver)


def assert_same_panel(panel, back):
    for field in dataclasses.fields(pf.Panel):
        left, right = getattr(panel, field.name), getattr(back, field.name)
        if field.name == "covariates":
            assert list(left) == list(right)
            for name in left:
                assert_same_array(left[name], right[name])
        elif isinstance(left, np.ndarray):
            assert_same_array(left, right)
        else:
            assert repr(left) == repr(right)
    assert [type(t) for t in panel.times.flat] == [type(t) for t in back.times.flat]


# ---- what comes back ---------------------------------------------------------------------------


def test_a_joint_estimate_comes_back(joint, tmp_path):
    back = returned(joint, tmp_path)
    assert_same(joint, back)
    assert str(joint.summary()) == str(back.summary())
    assert eqx.tree_equal(joint.model, back.model)
    assert back.log_likelihood().total == joint.log_likelihood().total


@pytest.mark.full
def test_two_stages_with_fixed_and_restricted_parameters_come_back(two_stage, tmp_path):
    back = returned(two_stage, tmp_path)
    assert_same(two_stage, back)
    assert str(two_stage.summary()) == str(back.summary())
    assert_same_array(two_stage.information.first, back.information.first)
    assert back.fixed == ("RC", "stay[bad]")
    assert back.space.parameters["RC"].fixed


def test_a_fully_observed_model_with_labels_and_dates_comes_back(dated_bus, tmp_path):
    back = returned(dated_bus, tmp_path)
    assert_same(dated_bus, back)
    assert str(dated_bus.summary()) == str(back.summary())
    assert eqx.tree_equal(back.model, BUS)
    assert back.panel.groups == ("A", "B")
    assert back.panel.times[0, 0] == MONTHS[0]
    assert str(back.panel.times[0, 0].tz) == "Europe/Berlin"
    pd.testing.assert_frame_equal(back.predict(), dated_bus.predict(), check_exact=True)


def test_a_model_of_ones_own_is_handed_over(own, tmp_path):
    without = returned(own, tmp_path)
    assert without.model is None
    assert_same(own, without)
    with pytest.raises(pf.EstimationError, match="loaded without its model"):
        without.log_likelihood()
    back = load(tmp_path / "estimate.zip", model=OwnBus(BUS))
    assert str(back.summary()) == str(own.summary())
    assert back.log_likelihood().total == own.log_likelihood().total


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (OwnBus(pf.baselines.BusEngine(6, 3)), r"'increment' has the entries .*\[1\], but in"),
        (OwnBus(BUS, ("low", "high")), r"'cost' has the entries cost, but .* cost\[low\]"),
        (pf.models.Tiger(), "only the file has a parameter 'RC'"),
        ("BusEngine", "must be a pf.Model"),
    ],
)
def test_another_model_is_refused(own, tmp_path, model, message):
    save(own, tmp_path / "own.zip")
    with pytest.raises(pf.EstimationError, match=message):
        load(tmp_path / "own.zip", model=model)


def test_a_model_that_fits_can_replace_a_ready_one(joint, tmp_path):
    save(joint, tmp_path / "a.zip")
    model = pf.models.EngineReplacement(bins=6, increments=3, discount=0.9, top="replace")
    assert load(tmp_path / "a.zip", model=model).model is model


def test_the_labels_of_the_priors_states_count(tmp_path):
    class Renamed(pf.models.EngineReplacement):
        def parameters(self):
            return HIDDEN.parameters()

        def state_labels(self):
            return ("fine", "bad")

    theta = {**HIDDEN_TRUTH, "x0": np.array([0.5, 0.5])}
    estimate = Kind(HIDDEN, hidden_panel(), theta, pf.CommonPrior()).written_down()
    save(estimate, tmp_path / "a.zip")
    with pytest.raises(pf.EstimationError, match=r"'x0' has the entries x0\[good\].* x0\[fine\]"):
        load(tmp_path / "a.zip", model=Renamed(6, 3, 0.9))


def test_a_subclass_of_a_ready_model_is_not_taken_for_it(joint, tmp_path):
    class Mine(pf.models.EngineReplacement):
        pass

    setting = dataclasses.replace(joint.setting, model=Mine(6, 3, 0.9))
    assert returned(dataclasses.replace(joint, setting=setting), tmp_path).model is None


@pytest.mark.parametrize(
    "means",
    [
        {"prior": pf.KnownPrior(np.array([0.25, 0.75]))},
        {"prior": pf.KnownPrior(np.full((40, 2), 0.5))},
        {"prior": pf.KnownPrior({(k, "x"): np.array([0.1, 0.9]) for k in range(3)})},
        {"prior": pf.KnownPrior({k: (0.1, 0.9) for k in range(3)})},
        {"prior": pf.AgentPriors()},
        {"prior": pf.StationaryPrior(nodes=11)},
        {"prior": None, "grid": None, "solver": None},
        {"solver": pf.RelativeValueIteration(tolerance=1e-7, max_steps=9)},
        {"estimator": pf.SoftPolicyGradient(True, share=0.1, optimiser=pf.BHHH(max_steps=3))},
        {"estimator": pf.TwoStage(pf.BHHH(1e-3))},
        {"grid": pf.Smooth(np.int64(21))},
    ],
)
def test_priors_solvers_and_estimators_come_back(joint, tmp_path, means):
    setting = dataclasses.replace(joint.setting, **means)
    back = returned(dataclasses.replace(joint, setting=setting), tmp_path)
    for name, value in means.items():
        assert repr(getattr(back.setting, name)) == repr(value)


def through_json(value):
    """A value by way of JSON text, with its arrays by way of npy."""
    writer = Writer(_classes.pack_object)
    text = json.dumps(writer.encode(value), allow_nan=False)
    fetch = lambda name: npy_array(npy_bytes(writer.arrays[name]))
    return Reader(fetch, _classes.unpack_object).decode(json.loads(text))


HALVES = np.full((2, 2, 2), 0.5)
# R(a, s, s', z'): of the first action it depends on s' alone, of the second on z' too.
MIXED = np.stack([np.arange(4.0).reshape(2, 2, 1) * np.ones(2), np.arange(8.0).reshape(2, 2, 2)])


@pytest.mark.parametrize(
    "model",
    [
        pf.models.Tiger(discount=0.5, scale=2.0),
        pf.models.EquipmentInspection(discount=0.7),
        pf.models.EngineReplacement(9, 3, 0.9, reset="increment", top="replace"),
        pf.models.Grouped(pf.models.Tiger(), (1, "b", ("c", 2.5)), own=["gold"]),
        pf.baselines.BusEngine(9, 3, reset="increment"),
        pf.models.Tabular(3, 2, 2, discount=0.7),
        pf.models.Grouped(pf.models.Tabular(), (1, 2), own=["reward"]),
        pf.models.PomdpFile(HALVES, HALVES, np.arange(4.0).reshape(2, 2, 1, 1)),
        pf.models.PomdpFile(
            HALVES, HALVES, MIXED, [0.3, 0.7], 0.8, "ab", "cd", "ef", free=["reward.c"], scale=2.0
        ),
    ],
)
def test_ready_models_come_back(model):
    assert _classes.ready(model) is model
    assert eqx.tree_equal(through_json(model), model)
    assert type(through_json(model)) is type(model)


def test_a_table_that_would_fill_the_memory_is_refused():
    packed = {"Tabular": {"observations": 9000, "states": 2, "actions": 2, "discount": 0.9}}
    with pytest.raises(ValueError, match="too many"):
        Reader(None, _classes.unpack_object).decode(packed)


IDS = [
    *(0, -(2**70), 1.0, True, False, "1", "\ud800 \N{SNOWMAN}", "", 0.1, -0.0, np.inf),
    *((1, ("a", 2.0)), (), (True, 1)),
    *(np.int8(-3), np.uint64(2**64 - 1), np.float32(0.1), np.float64(0.1), np.bool_(True)),
    *(np.str_("x"), np.datetime64("2001-02-03", "D"), np.timedelta64(5, "s")),
    *(pd.Timestamp("2001-02-03 04:05:06.123456789"), pd.Timestamp("1066-10-14").as_unit("s")),
    *(pd.Timestamp("2001-07-28 02:30", tz="Europe/Berlin"), pd.Timestamp(0, tz="UTC")),
    pd.Timestamp("2001-02-03", tz=datetime.timezone(datetime.timedelta(hours=-3, minutes=-30))),
    *(pd.Period("2001-02", "M"), pd.Period("2001-02-03", "W-SUN"), pd.Period("1999", "Y")),
    *(datetime.date(2001, 2, 3), datetime.datetime(2001, 2, 3, 4, 5, 6, 7)),
]


@pytest.mark.parametrize("value", IDS, ids=repr)
def test_ids_and_dates_keep_value_and_type(value):
    back = through_json(value)
    assert type(back) is type(value)
    assert back == value
    assert repr(back) == repr(value)
    assert hash(back) == hash(value)


def test_both_sides_of_a_clock_change_come_back():
    hour = pd.Timestamp("2001-10-28 00:30", tz="UTC") + pd.to_timedelta([0, 1], "h")
    for value in hour.tz_convert("Europe/Berlin"):
        assert through_json(value) == value
        assert through_json(value).utcoffset() == value.utcoffset()


def test_equal_ids_of_different_types_stay_apart():
    times = np.empty(6, dtype=object)
    times[:] = [1, True, 1.0, np.int64(1), "1", None]
    back = through_json(times)
    assert [type(value) for value in back] == [type(value) for value in times]


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5)
)


@given(st.recursive(scalars, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6))
def test_any_nest_of_plain_ids_comes_back(value):
    assert repr(through_json(value)) == repr(value)


@given(
    st.sampled_from(["?", "<i2", "<i8", "<u4", "<f4", "<f8", ">f8"]),
    st.lists(st.integers(0, 3), max_size=3),
    st.randoms(use_true_random=False),
)
def test_any_array_of_numbers_comes_back(dtype, shape, random):
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    content = bytes(
        random.randrange(2) if dtype == "?" else random.randrange(256) for _ in range(size)
    )
    array = np.frombuffer(content, dtype).reshape(shape)
    back = through_json(array)
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    assert back.tobytes() == array.tobytes()  # NaN and its payload included


def test_tables_keep_index_names_and_types(joint, tmp_path):
    agents = pd.Index(joint.panel.agents, name="agent")
    priors = pd.DataFrame(np.random.default_rng(0).random((40, 2)), agents, ["good", "bad"])
    modes = joint.modes.assign(word=["a"], flag=[True], count=np.array([3], dtype=np.int32))
    starts = pd.DataFrame({"mode": [1, 2]}, pd.Index(["start", "drawn 1"], name="start"))
    estimate = dataclasses.replace(joint, agent_priors=priors, modes=modes, starts=starts)
    back = returned(estimate, tmp_path)
    for name in ("agent_priors", "modes", "starts"):
        left, right = getattr(estimate, name), getattr(back, name)
        pd.testing.assert_frame_equal(left, right, check_exact=True, check_index_type="exact")
        assert left.index.identical(right.index)


def test_numbers_that_are_not_finite_come_back(joint, tmp_path):
    hessian = joint.information.hessian.copy()
    hessian[0, 0] = np.nan
    information = dataclasses.replace(joint.information, hessian=hessian)
    estimate = dataclasses.replace(joint, gain=np.inf, information=information)
    back = returned(estimate, tmp_path)
    assert back.gain == np.inf
    np.testing.assert_array_equal(back.information.hessian, hessian)


def test_the_same_estimate_gives_the_same_bytes(joint, tmp_path):
    for name in ("a.zip", "b.zip"):
        save(joint, tmp_path / name)
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.zip", "b.zip"]


# ---- what is not written -----------------------------------------------------------------------


class OwnPrior(pf.KnownPrior):
    """A prior that is code of the user's."""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prior": OwnPrior([0.5, 0.5])}, "prior: .*OwnPrior"),
        ({"solver": "Newton()"}, None),
        ({"panel": {"agents": tuple(uuid.UUID(int=k) for k in range(60))}}, "agents: .*UUID"),
        ({"panel": {"times": np.full((40, 23), 1j, dtype=object)}}, "times: .*complex"),
        ({"panel": {"times": np.full((40, 23), pd.NaT, dtype=object)}}, "times: .*NaT"),
        (
            {"panel": {"agents": tuple(np.longdouble(k) for k in range(60))}},
            "agents: .*number of type",
        ),
    ],
)
def test_what_has_no_stored_form_is_refused_and_leaves_no_file(joint, tmp_path, change, message):
    if isinstance(change.get("panel"), dict):
        change = {"panel": dataclasses.replace(joint.panel, **change["panel"])}
    setting = dataclasses.replace(joint.setting, **change)
    estimate = dataclasses.replace(joint, setting=setting)
    if message is None:  # a string has a form, but does not load as a solver
        save(estimate, tmp_path / "a.zip")
        with pytest.raises(pf.EstimationError, match="solver of Setting"):
            load(tmp_path / "a.zip")
        return
    with pytest.raises(pf.EstimationError, match=message):
        save(estimate, tmp_path / "a.zip")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file(joint, good, tmp_path, monkeypatch):
    path = tmp_path / "a.zip"
    path.write_bytes(b"old")

    def fail(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="full"):
        save(joint, path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_estimate_too_large_to_load_is_not_saved(joint, tmp_path, monkeypatch):
    monkeypatch.setattr("pomdpfit.packing._file.MOST_BYTES", 1000)
    with pytest.raises(pf.EstimationError, match="too large"):
        save(joint, tmp_path / "a.zip")


# ---- what is not read --------------------------------------------------------------------------


def unpacked(path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def repacked(files, path, listed=lambda members: None):
    """A zip of these files; `listed` may change what its directory says of them."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
        listed({member.filename: member for member in archive.infolist()})
    return path


def refused(path, message):
    with pytest.raises(pf.EstimationError, match=message) as caught:
        load(path)
    assert str(path) in str(caught.value)


def in_estimate(*keys, value):
    """Put a value deep inside the JSON."""

    def change(header):
        place = header
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = value

    return change


ESTIMATE = ("estimate", "Estimate")
SETTING = (*ESTIMATE, "setting", "Setting")
PANEL = (*SETTING, "panel", "Panel")
INFORMATION = (*ESTIMATE, "information", "Information")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (in_estimate("format", value="pickle"), "format"),
        (in_estimate("format_version", value=2), "has format 2.* Upgrade"),
        (in_estimate("format_version", value="1"), "format_version"),
        (in_estimate("format_version", value=True), "format_version"),
        (in_estimate("hook", value="os.system"), "unknown field 'hook'"),
        (in_estimate("estimate", value=None), "no Estimate"),
        (in_estimate("estimate", value={"Linear": {}}), "no Estimate, but Linear"),
        (in_estimate("estimate", value={"os.system": ["true"]}), "'os.system'"),
        (in_estimate(*SETTING, "model", value={"os.system": {"command": "true"}}), "'os.system'"),
        (in_estimate(*SETTING, "model", value={"helpers.Table": {}}), "'helpers.Table'"),
        (in_estimate(*SETTING, "estimator", value={"Joint": {"hook": 1}}), "Joint .*'hook'"),
        (in_estimate(*SETTING, "estimator", value={"Linear": {}}), "estimator of Setting"),
        (
            in_estimate(*SETTING, "estimator", value={"Joint": {"optimiser": 3}}),
            "optimiser of Joint",
        ),
        (in_estimate(*SETTING, "grid", value={"Linear": {"nodes": 1}}), "at least 2 nodes"),
        (in_estimate(*SETTING, "grid", value={"Linear": {}, "Smooth": {}}), "one key"),
        (
            in_estimate(*SETTING, "model", value={"EngineReplacement": {"bins": 10**9}}),
            "too many",
        ),
        (
            in_estimate(*SETTING, "model", value={"EngineReplacement": {"conditions": 10**6}}),
            "too many",
        ),
        (in_estimate(*PANEL, "agents", value={"tuple": [{"numpy": ["(9,)<f8", 1]}]}), "not one to"),
        (in_estimate(*PANEL, "agents", value={"tuple": [{"numpy": ["<f8", [1]]}]}), "not one to"),
        (in_estimate(*PANEL, "agents", value={"tuple": [0] * 40}), "an agent twice"),
        (in_estimate(*ESTIMATE, "steps", value={"tuple": [10**4000]}), "steps cannot be"),
        (
            in_estimate(*SETTING, "model", value={"EngineReplacement": {"discount": "0.npy"}}),
            "discount of EngineReplacement cannot be",
        ),
        (in_estimate(*SETTING, "model", value={"Tiger": {"scale": True}}), "scale of Tiger cannot"),
        (in_estimate(*SETTING, "panel", value=None), "cannot be loaded"),
        (in_estimate(*ESTIMATE, "secret", value=1), "Estimate an unknown field 'secret'"),
        (in_estimate(*ESTIMATE, "gain", value=float("nan")), "NaN"),
        (in_estimate(*ESTIMATE, "gain", value={"float": "1"}), "not one of"),
        (in_estimate(*ESTIMATE, "steps", value="many"), "steps"),
        (in_estimate(*ESTIMATE, "result", value={"result": "FINE"}), "FINE"),
        (in_estimate(*ESTIMATE, "boundary", value={"tuple": ["RD"]}), "RD"),
        (in_estimate(*ESTIMATE, "terms", value={"array": "9999.npy"}), "'9999.npy' is missing"),
        (in_estimate(*ESTIMATE, "terms", value={"array": "../0001.npy"}), "is missing"),
        (in_estimate(*ESTIMATE, "terms", value={"array": "0000.npy"}), "used twice"),
        (in_estimate(*ESTIMATE, "terms", value=[[0.0, 0.0]]), "terms must be an array"),
        (in_estimate(*ESTIMATE, "space", value={"ParameterSpace": {"parameters": 1}}), "loaded"),
        (in_estimate(*PANEL, "agents", value={"tuple": [1, 2]}), r"panel's z must have shape \(2,"),
        (in_estimate(*PANEL, "agents", value={"tuple": [{"numpy": ["O", 1]}]}), "type 'O'"),
        (
            in_estimate(*PANEL, "agents", value={"tuple": [{"timestamp": ["s", 1, "../../x"]}]}),
            "x",
        ),
        (
            in_estimate(*PANEL, "agents", value={"tuple": [{"timestamp": ["h", 1, None]}]}),
            "unit 'h'",
        ),
        (in_estimate(*INFORMATION, "names", value={"tuple": ["RC"]}), "must have shape"),
        (in_estimate(*INFORMATION, "first", value={"tuple": [True]}), "first must be an array"),
    ],
)
def test_a_changed_json_is_refused(good, tmp_path, change, message):
    files = unpacked(good)
    header = json.loads(files["estimate.json"])
    change(header)
    files["estimate.json"] = json.dumps(header).encode()
    before = set(sys.modules)
    refused(repacked(files, tmp_path / "bad.zip"), message)
    assert set(sys.modules) == before  # nothing was imported to find that out


def object_npy() -> bytes:
    content = npy_bytes(np.zeros((40, 23), dtype=np.int64))
    return content.replace(b"'<i8'", b"'|O' ")


def headed(header: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (object_npy(), "numbers and booleans alone"),
        (npy_bytes(np.zeros((40, 23))), "panel's z must have shape .* float64"),
        (npy_bytes(np.zeros((40, 22), dtype=int)), "must have shape"),
        (npy_bytes(np.zeros(3, dtype="U4")), "type <U4"),
        (npy_bytes(np.zeros(3, dtype=complex)), "type <c16"),
        (npy_bytes(np.zeros(3, dtype=[("a", int)])), "numbers and booleans alone"),
        (npy_bytes(np.zeros((40, 23), dtype=int))[:-1], "another size"),
        (npy_bytes(np.zeros((40, 23), dtype=int)) + b"0", "another size"),
        (npy_bytes(np.full((40, 23), -1)), "are negative"),
        (headed(b"-" * 9000 + b"1"), "numbers and booleans alone"),
        (headed(b"__import__('os')"), "numbers and booleans alone"),
        (b"\x93NUMPY\x02\x00" + b"\0" * 80, "version 1.0"),
        (b"not npy", "cannot be loaded"),
        (b"", "cannot be loaded"),
    ],
)
def test_a_changed_array_is_refused(good, tmp_path, content, message):
    files = {**unpacked(good), "0000.npy": content}  # the panel's z
    refused(repacked(files, tmp_path / "bad.zip"), message)


def test_an_array_that_boasts_is_refused_before_it_is_allocated(good, tmp_path):
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (%d,), }" % 2**57
    header += b" " * (118 - 1 - len(header)) + b"\n"
    content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(8)
    files = {**unpacked(good), "0000.npy": content}
    refused(repacked(files, tmp_path / "bad.zip"), "another size")


@pytest.mark.parametrize(
    "name", ["../0001.npy", "/etc/x.npy", "a/0001.npy", "x.pkl", "0001.npy.exe", "..\\0001.npy"]
)
def test_strange_members_are_refused(good, tmp_path, name):
    files = {**unpacked(good), name: b""}
    refused(repacked(files, tmp_path / "bad.zip"), "no part of such a file")


def test_a_bomb_is_refused_from_the_zips_directory(good, tmp_path, monkeypatch):
    def listed(members):
        members["0000.npy"].file_size = 3 * 2**30

    path = repacked(unpacked(good), tmp_path / "bad.zip", listed)
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_: pytest.fail("it was unpacked"))
    refused(path, "would unpack to 3,")


def test_a_bomb_that_lies_about_its_size_unpacks_no_further(good, tmp_path):
    small = len(unpacked(good)["0000.npy"])

    def listed(members):
        members["0000.npy"].file_size = small

    files = {**unpacked(good), "0000.npy": bytes(10**6)}
    refused(repacked(files, tmp_path / "bad.zip", listed), "CRC")


@pytest.mark.parametrize(
    ("name", "fill", "times"), [("0000.npy", b"\0", 2**27), ("estimate.json", b"[],", 2**21)]
)
def test_a_bomb_is_refused_by_what_it_is_packed_to(good, tmp_path, name, fill, times):
    files = {**unpacked(good), name: fill * times}
    refused(
        repacked(files, tmp_path / "bad.zip"), "would unpack from .* more than such a file does"
    )


def test_what_packs_like_a_bomb_is_stored_unpacked():
    files = {"estimate.json": b"{}", "0000.npy": bytes(2**27)}
    with zipfile.ZipFile(io.BytesIO(_zip.zipped(files, "estimate"))) as archive:
        assert set(_zip.members_of(archive, "estimate")) == set(files)
        assert {member.compress_type for member in archive.infolist()} == {zipfile.ZIP_STORED}


@pytest.mark.parametrize("kind", ["float64", "datetime64[s]", ["object"]])
def test_a_column_is_of_the_type_that_it_says(kind):
    columns = [["x", kind, {"array": {"distinct": [{"date": "2001-02-03"}], "codes": "0000.npy"}}]]
    content = {"frame": {"index": [[None], [0, 1, 1]], "columns": columns}}
    with pytest.raises((ValueError, TypeError)):
        Reader(lambda name: np.zeros(1, dtype=np.int64), _classes.unpack_object).decode(content)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ({"datetime": ["2001-02-03", 0, "x" * 400]}, "not the name of a time zone"),
        ({"datetime": ["2001-02-03", 0, "../../etc/passwd"]}, "not the name of a time zone"),
        (
            {
                "array": {
                    "distinct": {"frame": {"index": [[None], [0, 10**15, 1]], "columns": []}},
                    "codes": "0000.npy",
                }
            },
            "no list of distinct ones",
        ),
    ],
)
def test_what_the_fuzzer_found_in_saved_fits_is_refused(content, why):
    """Names that zoneinfo looks for on the disk, and a table of 10^15 rows as a list."""
    with pytest.raises(ValueError, match=why):
        Reader(lambda name: np.zeros(1, dtype=np.int64), _classes.unpack_object).decode(content)


def test_files_of_another_kind_are_refused(good, tmp_path):
    path = tmp_path / "bad.zip"
    for content in (b"", b"PK", b"\x80\x04K\x01.", b"{}" * 100):
        path.write_bytes(content)
        refused(path, "not a zip")
    files = unpacked(good)
    repacked({n: c for n, c in files.items() if n != "estimate.json"}, path)
    refused(path, "no estimate.json")
    for text in (b"", b"[]", b"{", b"\xff", b"[" * 100_000):
        refused(repacked({**files, "estimate.json": text}, path), "cannot be loaded")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("estimate.json", files["estimate.json"])
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("estimate.json", files["estimate.json"])
    refused(path, "same name")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("estimate.json", files["estimate.json"])
    refused(path, "another way than deflate")
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.zip")


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_a_truncated_file_is_refused(good, tmp_path, data):
    content = good.read_bytes()
    path = tmp_path / "cut.zip"
    path.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    refused(path, "cannot be loaded")


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_a_flipped_byte_is_refused_or_does_not_matter(good, joint, tmp_path, data):
    content = bytearray(good.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    path = tmp_path / "flipped.zip"
    path.write_bytes(content)
    try:
        back = load(path)
    except pf.EstimationError:
        return
    assert_same(joint, back)


def places(tree, found=()):
    """Every node of a JSON tree, as the keys that lead to it."""
    yield found
    for key in (
        tree if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    ):
        yield from places(tree[key], (*found, key))


junk = st.sampled_from(
    [None, 0, -1, 10**30, 0.5, "", "x", True, [], [1], {}, {"x": 1}, {"tuple": 1}, {"array": 1}]
    + [{"array": {}}, {"frame": {}}, {"numpy": []}, {"mapping": [1]}, {"timestamp": 3}]
    + [{"period": ["a", 1]}, {"date": 5}, {"result": 9}, {"Real": {}}, {"Real": 3}, {"float": []}]
)


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_junk_anywhere_in_the_json_raises_nothing_else(good, tmp_path, data):
    files = unpacked(good)
    header = json.loads(files["estimate.json"])
    where = data.draw(st.sampled_from([keys for keys in places(header) if keys]))
    changed = copy.deepcopy(header)
    in_estimate(*where, value=data.draw(junk))(changed)
    path = repacked({**files, "estimate.json": json.dumps(changed).encode()}, tmp_path / "x.zip")
    with contextlib.suppress(pf.EstimationError):
        load(path)
