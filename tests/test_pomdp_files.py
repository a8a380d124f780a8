"""Files of Cassandra's .POMDP format: read, written, solved and estimated."""

import re
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pomdpfit as pf
from pomdpfit.formats import _write
from reference import classic_pomdps

jax.config.update("jax_enable_x64", True)

FILES = Path(__file__).parent / "pomdp_files"
NAMES = sorted(classic_pomdps.BY_FILE)


def tables_of(model, theta=None):
    """T[a, s, s'], O[a, s', z] and R[a, s, s', z] in full, from theta."""
    theta = model.example() if theta is None else theta
    group = lambda name: [np.asarray(theta[f"{name}.{action}"]) for action in model.actions]
    A, S, Z = len(model.actions), len(model.states), len(model.observations)
    R = [r.reshape(r.shape + (1,) * (3 - r.ndim)) for r in group("reward")]
    full = np.stack([np.broadcast_to(r, (S, S, Z)) for r in R])
    assert full.shape == (A, S, S, Z)
    return np.stack(group("transition")), np.stack(group("observation")), full


def read(text, tmp_path, **options):
    path = tmp_path / "problem.POMDP"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return pf.read_pomdp(path, **options)


# ---- reading -----------------------------------------------------------------------------------


def test_every_file_has_its_reference():
    assert sorted(path.stem for path in FILES.glob("*.POMDP")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_tables_are_those_of_the_problem(name):
    T, O, R, start, discount = classic_pomdps.BY_FILE[name]()
    model = pf.read_pomdp(FILES / f"{name}.POMDP")
    for found, wanted in zip(tables_of(model), (T, O, R), strict=True):
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(model.prior().belief, start)
    theta = model.example()
    assert float(theta["discount"]) == discount
    primitives = model.primitives(theta)
    primitives.check()
    np.testing.assert_allclose(  # sums of a few products: the order of adding may differ
        primitives.reward[-1], classic_pomdps.expected_reward(T, O, R), rtol=1e-14, atol=1e-14
    )
    dense = np.einsum("ast,atz->sazt", T, O)
    for z in range(O.shape[2]):
        np.testing.assert_array_equal(primitives.kernel.to_dense()[z], dense)


def test_tiger_is_the_package_s_own_tiger():
    model, own = pf.read_pomdp(FILES / "tiger.POMDP"), pf.models.Tiger()
    from_file, ready = (m.primitives(m.example()) for m in (model, own))
    # 1 - 0.85 is a last bit away from 0.15.
    np.testing.assert_allclose(
        from_file.kernel.to_dense(), ready.kernel.to_dense(), rtol=0, atol=2e-16
    )
    np.testing.assert_array_equal(from_file.reward, ready.reward)
    solved, wanted = (pf.solve(m, m.example(), grid=pf.Linear(21)) for m in (model, own))
    for belief in np.linspace(0, 1, 7):
        x = np.array([belief, 1 - belief])
        np.testing.assert_allclose(solved.policy(0, x), wanted.policy(0, x), rtol=0, atol=1e-9)
        np.testing.assert_array_equal(solved.policy(0, x), solved.policy(1, x))  # z is idle


def test_rewards_keep_only_the_axes_that_matter():
    repair = pf.read_pomdp(FILES / "repair.POMDP").parameters()
    assert repair["reward.use"].shape == (3, 3, 2)
    assert repair["reward.repair"].shape == (3,)
    assert pf.read_pomdp(FILES / "1d.POMDP").parameters()["reward.east"].shape == (4, 4)
    names = repair["reward.use"].entry_names("reward.use")
    assert names[1, 2, 0] == "reward.use[worn, broken, fine]"


SMALL = """
discount: 0.5
values: reward
states: up down
actions: 1
observations: 1
{start}
T: 0
{T}
O: 0
uniform
"""


@pytest.mark.parametrize(
    ("line", "belief"),
    [
        ("", [0.5, 0.5]),
        ("start: uniform", [0.5, 0.5]),
        ("start: 0.25 0.75", [0.25, 0.75]),
        ("start:\n 0.25 # half of a half\n +.75", [0.25, 0.75]),
        ("start: down", [0.0, 1.0]),
        ("start: 0", [1.0, 0.0]),
        ("start: 1", [0.0, 1.0]),
        ("start include: 1", [0.0, 1.0]),
        ("start include: up down", [0.5, 0.5]),
        ("start exclude: down", [1.0, 0.0]),
        ("start exclude : 0", [0.0, 1.0]),
    ],
)
def test_every_way_to_start(line, belief, tmp_path):
    model = read(SMALL.format(start=line, T="reset"), tmp_path)
    np.testing.assert_array_equal(model.prior().belief, belief)
    np.testing.assert_array_equal(tables_of(model)[0][0], [belief, belief])


def test_one_state_may_start_by_number_or_by_probability(tmp_path):
    text = SMALL.replace("up down", "1")
    for start in ("start: 0", "start: 1", "start: 1.0", "start: uniform"):
        assert read(text.format(start=start, T="identity"), tmp_path).start == [1.0]


def test_layout_is_free(tmp_path):
    text = (FILES / "repair.POMDP").read_text()
    wanted = tables_of(read(text, tmp_path))
    lines = [line.split("#")[0] for line in text.splitlines()]
    one_line = " ".join(lines)
    spread = "\n# a comment: T: 0 identity\n".join(one_line.replace(":", " : ").split())
    statements = ["T:", "O:", "R:"]
    first = min(one_line.index(word) for word in statements)
    turned = one_line[first:] + " " + one_line[:first]  # the preamble comes last
    old = "\ufeff" + text.replace("\n", "\r\n")
    for other in (one_line, spread, turned, old, text.replace("\n", "\r"), one_line.encode()):
        for found, table in zip(tables_of(read(other, tmp_path)), wanted, strict=True):
            np.testing.assert_array_equal(found, table)
    comment = "# J\xf6rg\n".encode("latin-1")
    read(comment + text.encode(), tmp_path)


def test_what_comes_later_counts(tmp_path):
    rows = "0.5 0.5\n0.5 0.5\nT: * : down : * 0.0\nT: 0 : 1 : up 1\nT: 0 : 0 : * .5"
    model = read(SMALL.format(start="", T=rows), tmp_path)
    np.testing.assert_array_equal(tables_of(model)[0][0], [[0.5, 0.5], [1.0, 0.0]])


# ---- estimating --------------------------------------------------------------------------------


def test_everything_is_fixed_unless_freed(tmp_path):
    path = FILES / "tiger.POMDP"
    assert pf.read_pomdp(path).space().free_leaves == ()
    one = pf.read_pomdp(path, free=["reward.listen", "discount"])
    assert one.space().free_leaves == ("reward.listen", "discount")
    group = pf.read_pomdp(path, free="observation").space()
    assert group.free_leaves == tuple(f"observation.{a}" for a in one.actions)
    assert group.free_names[0] == "observation.listen[tiger-left, growl-left]"
    with pytest.raises(pf.ModelError, match=r"Did you mean 'reward.listen'"):
        pf.read_pomdp(path, free=["reward.listn"])


@pytest.mark.full
def test_tiger_s_ear_and_patience_are_recovered_from_a_panel(tmp_path):
    free = ["observation.listen", "reward.listen"]
    model = pf.read_pomdp(FILES / "tiger.POMDP", free=free, scale=4.0)
    truth = model.example()
    grid = pf.Smooth(21)
    panel = pf.simulate(
        model, truth, agents=1000, periods=12, seed=3, prior=model.prior(), grid=grid
    )
    start = {
        **truth,
        "observation.listen": np.array([[0.7, 0.3], [0.3, 0.7]]),
        "reward.listen": np.array([0.0, 0.0]),
    }
    est = pf.fit(model, panel, pf.Joint(), prior=model.prior(), start=start, starts=1, grid=grid)
    assert est.converged
    names = model.space().free_names
    wanted = model.space().to_series(truth)[names]
    error = (est.params[names] - wanted) / est.bse[names]
    assert np.abs(error).max() < 4.0  # four normal draws, each beyond 4 with probability 6e-5
    assert est.bse[names].max() < 1.0  # and the panel does say something
    est.save(tmp_path / "tiger.zip")
    assert eqx.tree_equal(pf.load(tmp_path / "tiger.zip").model, model)


# ---- writing -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_file_comes_back_to_the_bit(name, tmp_path):
    model = pf.read_pomdp(FILES / f"{name}.POMDP")
    pf.write_pomdp(model, model.example(), tmp_path / "again.POMDP")
    again = pf.read_pomdp(tmp_path / "again.POMDP")
    for field in ("states", "actions", "observations", "default_discount"):
        assert getattr(again, field) == getattr(model, field)
    assert again.start.tobytes() == model.start.tobytes()
    for leaf, value in model.example().items():
        assert np.asarray(again.example()[leaf]).tobytes() == np.asarray(value).tobytes()


@st.composite
def small_pomdps(draw):
    """Any sizes, sparse or dense rows, rewards along any axes, awkward floats among them."""
    A, S, Z = (draw(st.integers(1, 4)) for _ in range(3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))

    def rows(*shape):
        weight = rng.gamma(0.3, size=shape) * (rng.random(shape) < 0.7)
        weight[..., 0] += weight.sum(axis=-1) == 0
        return weight / weight.sum(axis=-1, keepdims=True)

    shape = (A, S, draw(st.sampled_from([1, S])), draw(st.sampled_from([1, Z])))
    number = st.floats(-1e300, 1e300)
    pool = np.array(draw(st.lists(number, min_size=1, max_size=6)))
    reward = pool[rng.integers(len(pool), size=shape)]
    names = draw(st.booleans())
    labels = [[f"{kind}_{k}-x" for k in range(n)] for kind, n in zip("saz", (S, A, Z), strict=True)]
    discount = draw(st.floats(0, 1, exclude_max=True))
    model_labels = labels if names else [None] * 3
    return rows(A, S, S), rows(A, S, Z), reward, rows(S), discount, *model_labels


@given(small_pomdps())
@settings(max_examples=60, deadline=None)
def test_random_models_come_back_to_the_bit(tmp_path_factory, tables):
    path = tmp_path_factory.mktemp("written") / "random.POMDP"
    model = pf.models.PomdpFile(*tables)
    pf.write_pomdp(model, model.example(), path)
    again = pf.read_pomdp(path)
    assert again.states == model.states
    assert again.start.tobytes() == model.start.tobytes()
    assert list(again.example()) == list(model.example())
    for leaf, value in model.example().items():
        assert np.asarray(again.example()[leaf]).tobytes() == np.asarray(value).tobytes()


@pytest.mark.parametrize("model", [pf.models.Tiger(), pf.models.EquipmentInspection()])
def test_other_models_that_are_t_times_o_can_be_written(model, tmp_path):
    path, x0 = tmp_path / "model.POMDP", np.arange(1.0, model.reward(model.example()).shape[1] + 1)
    pf.write_pomdp(model, model.example(), path, prior=pf.KnownPrior(x0 / x0.sum()))
    again = pf.read_pomdp(path)
    before, after = (m.primitives(m.example()) for m in (model, again))
    np.testing.assert_allclose(
        after.kernel.to_dense(), before.kernel.to_dense(), rtol=0, atol=1e-15
    )
    np.testing.assert_array_equal(after.reward, before.reward)
    np.testing.assert_array_equal(again.prior().belief, x0 / x0.sum())
    assert again.actions == tuple(label.replace(" ", "-") for label in model.action_labels())
    pf.write_pomdp(again, again.example(), path)  # and once more, now to the bit
    for leaf, value in again.example().items():
        np.testing.assert_array_equal(pf.read_pomdp(path).example()[leaf], value)


class Odd(pf.Model):
    """Tables as given, and what the format has no words for."""

    P: np.ndarray
    r: np.ndarray
    mask: np.ndarray | None = None
    last: int | None = None
    names: tuple = ("0", "1")

    def parameters(self):
        return {"discount": pf.discount_parameter(0.5)}

    def kernel(self, theta):
        return pf.dense_kernel(self.P)

    def reward(self, theta):
        return self.r

    def available(self):
        return self.mask

    def horizon(self):
        return self.last

    def state_labels(self):
        return self.names


def plain_tables():
    T = np.array([[[0.5, 0.5], [0.25, 0.75]]])
    O = np.array([[[0.5, 0.5], [0.125, 0.875]]])
    P = np.broadcast_to(np.einsum("ast,atz->sazt", T, O), (2, 2, 1, 2, 2)).copy()
    return P, np.zeros((2, 2, 1))


def refused_models():
    P, r = plain_tables()
    by_z, by_s = P.copy(), P.copy()
    by_z[1, 0, 0] = P[0, 1, 0]
    by_s[:, 0, 0] = [[0.5, 0.0], [0.0, 0.5]]
    r_by_z = r.copy()
    r_by_z[1, 1, 0] = 2.0
    closed = np.array([[True, True], [True, False]])
    two = np.concatenate([P, P], axis=2)
    return {
        "kernel by z": (Odd(by_z, r), r"kernel at \(z=1, s=0, a=0\)"),
        "reward by z": (Odd(P, r_by_z), r"reward at \(z=1, s=1, a=0\) differs .* by 2"),
        "not T x O": (Odd(by_s, r), r"depends on the next state alone, but P\(z'="),
        "action ruled out": (
            Odd(two, np.zeros((2, 2, 2)), closed),
            "action 1 is not at z=1",
        ),
        "last epoch": (Odd(P, r, None, 3), "horizon of 3"),
        "engine": (pf.models.EngineReplacement(bins=5, discount=0.9), "nothing depends on the"),
    }


@pytest.mark.parametrize("case", list(refused_models()))
def test_models_that_do_not_fit_the_format_are_refused(case, tmp_path):
    model, message = refused_models()[case]
    with pytest.raises(pf.ModelError, match=message):
        pf.write_pomdp(model, model.example(), tmp_path / "no.POMDP")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("names", [("T", "up"), ("a b", "a-b"), ("x\nT: 0", "y#"), ("é", "f")])
def test_labels_that_are_no_names_give_way_to_numbers(names, tmp_path):
    model = Odd(*plain_tables(), names=names)
    pf.write_pomdp(model, model.example(), tmp_path / "m.POMDP")
    assert pf.read_pomdp(tmp_path / "m.POMDP").states == ("0", "1")


def test_a_file_that_could_not_be_read_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(_write, "MOST_BYTES", 100)
    model = pf.models.Tiger()
    with pytest.raises(pf.ModelError, match="bytes, but read_pomdp refuses more than 100"):
        pf.write_pomdp(model, model.example(), tmp_path / "m.POMDP")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"transition": np.ones((1, 2, 3))}, r"but they have \(1, 2, 3\), \(1, 2, 1\) and"),
        ({"reward": np.zeros((1, 2, 3, 1))}, r"must have shapes \(A, S, S\)"),
        ({"start": [0.5, 0.6]}, r"start\(s=0\) to start\(s=1\) must sum to 1, .* 1\.1"),
        ({"start": [1.0]}, r"start must have shape \(2,\), but it has \(1,\)"),
        ({"states": ["up", "up"]}, "states must be 2 different names"),
    ],
)
def test_tables_that_do_not_go_together_are_refused(changes, message):
    tables = {
        "transition": np.full((1, 2, 2), 0.5),
        "observation": np.ones((1, 2, 1)),
        "reward": np.zeros((1, 2, 1, 1)),
    }
    pf.models.PomdpFile(**tables)
    with pytest.raises(pf.ModelError, match=message):
        pf.models.PomdpFile(**{**tables, **changes})


def test_a_kernel_beyond_memory_is_refused_before_it_is_made(tmp_path):
    text = "discount: 0.5 values: reward states: 1000 actions: 1 observations: 1000 "
    model = read(text + "T: 0 identity O: 0 uniform", tmp_path)
    with pytest.raises(pf.ModelError, match="1 x 1000 x 1000 x 1000 = 1,000,000,000 entries"):
        model.kernel({})


def test_a_prior_that_is_not_known_cannot_be_written(tmp_path):
    model = pf.models.Tiger()
    with pytest.raises(pf.ModelError, match="one known belief"):
        pf.write_pomdp(model, model.example(), tmp_path / "m.POMDP", prior=pf.CommonPrior())


@pytest.mark.full
def test_the_page_runs_from_top_to_bottom(tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[1] / "docs" / "pomdp_files.md").read_text()
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
        exec(compile(block, "pomdp_files.md", "exec"), names)
    assert capsys.readouterr().out
    fitted = pf.read_pomdp("fitted.POMDP")
    wanted = np.asarray(names["est"].theta["observation.listen"])
    np.testing.assert_array_equal(fitted.example()["observation.listen"], wanted)
