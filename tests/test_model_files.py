"""Models in TOML files: what they say, and what is refused with which words."""

import contextlib
import json
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pomdpfit as pf
from helpers import Table, at, random_kernel, random_paths
from pomdpfit.model_files._read import _specification
from tests.fuzz.byte_mutations import BYTES
from tests.fuzz.kinds import Kind, Sound
from tests.fuzz.models import ENGINE
from tests.fuzz.text_mutations import TEXT


def read(tmp_path, text):
    path = tmp_path / "model.toml"
    path.write_text(text)
    return pf.read_model(path)


def test_a_file_says_what_the_library_is_told(tmp_path):
    spec = read(tmp_path, ENGINE)
    model = pf.models.EngineReplacement(bins=8, increments=3, discount=0.9, reset="increment")
    assert spec.model == model
    assert set(spec.start) == {"RC", "stay", "increment"}
    assert spec.start["RC"] == 3.0
    # The entry that is not named is the example's.
    np.testing.assert_array_equal(spec.start["stay"], [model.example()["stay"][0], 0.7])
    np.testing.assert_array_equal(spec.start["increment"], [[0.1, 0.3, 0.6], [0.6, 0.3, 0.1]])
    assert spec.fixed == {"RC": 3.0, "stay[good]": 0.8}
    assert (spec.free, spec.constraints) == (("discount",), ("cost[good] = 2 * cost[bad]",))
    np.testing.assert_array_equal(spec.prior.belief, [0.25, 0.75])
    assert spec.path == tmp_path / "model.toml"
    assert set(spec.theta) == set(model.example())
    np.testing.assert_array_equal(spec.theta["stay"], [0.8, 0.7])


def test_a_name_alone_is_a_model_with_its_defaults(tmp_path):
    spec = read(tmp_path, 'model = "Tiger"')
    assert spec.model == pf.models.Tiger()
    assert (spec.start, spec.fixed, spec.prior) == ({}, {}, None)
    assert spec.fit_options()["start"] is None


@pytest.mark.parametrize(
    ("text", "prior"),
    [
        ('prior = "common"', pf.CommonPrior()),
        ('prior = "agent"', pf.AgentPriors()),
        ('prior = "stationary"', pf.StationaryPrior()),
        ('prior = {kind = "stationary", nodes = 11}', pf.StationaryPrior(11)),
    ],
)
def test_priors_by_name(text, prior, tmp_path):
    assert read(tmp_path, f'model = "Tiger"\n{text}').prior == prior


def test_a_known_prior_by_agent(tmp_path):
    text = 'model = "Tiger"\n[prior]\nkind = "known"\nbelief = {left = [0.9, 0.1], b = [0.5, 0.5]}'
    prior = read(tmp_path, text).prior
    np.testing.assert_array_equal(prior.data(["b", "left"], 2), [[0.5, 0.5], [0.9, 0.1]])


def test_the_start_of_a_common_prior_is_a_parameter_like_others(tmp_path):
    spec = read(tmp_path, 'model = "Tiger"\nprior = "common"\n[theta]\nx0 = [0.2, 0.8]')
    np.testing.assert_array_equal(spec.start["x0"], [0.2, 0.8])
    assert "x0" in spec.theta


def test_names_alone_are_held_where_they_start(tmp_path):
    text = 'model = "Tiger"\nfixed = ["gold", "accuracy"]\n[theta]\ngold = 7.5'
    assert read(tmp_path, text).fixed == {"gold": 7.5, "accuracy": 0.85}


def test_tables_are_the_model(tmp_path):
    """The likelihood of the tables, against that of a model made of the same arrays."""
    rng = np.random.default_rng(3)
    P, r = random_kernel(rng, 3, 2, 2), rng.normal(size=(3, 2, 2)).round(3)
    r[..., 0] = 0.0
    tables = f"kernel = {json.dumps(P.tolist())}\nreward = {json.dumps(r.tolist())}"
    spec = read(tmp_path, f'model = "Tabular"\n[options]\ndiscount = 0.8\n[tables]\n{tables}')
    assert spec.model.sizes == (3, 2, 2)
    assert float(spec.theta["discount"]) == 0.8
    panel = random_paths(P, np.array([0.3, 0.7]), [6, 4], rng)
    means = {"prior": pf.KnownPrior([0.3, 0.7]), "grid": pf.Linear(7)}
    here = pf.log_likelihood(spec.model, spec.theta, panel, **means)
    there = pf.log_likelihood(Table(P, r), at(0.8), panel, **means)
    np.testing.assert_allclose(here.total, there.total, rtol=1e-10)  # the solver's tolerance


@settings(deadline=None, max_examples=50)
@given(
    st.floats(-1e12, 1e12),
    st.lists(st.floats(0, 1), min_size=2, max_size=2),
    st.lists(st.floats(1e-3, 1), min_size=3, max_size=3),
)
def test_values_come_back_to_the_last_bit(tmp_path_factory, rc, stay, weights):
    row = (np.array(weights) / np.sum(weights)).tolist()
    text = (
        'model = "EngineReplacement"\noptions = {bins = 8, increments = 3}\n[theta]\n'
        f"RC = {rc!r}\nstay = {stay!r}\nincrement = {[row, row]!r}\n"
    )
    path = tmp_path_factory.mktemp("files") / "model.toml"
    path.write_text(text)
    start = pf.read_model(path).start
    assert start["RC"] == rc
    assert start["stay"].tolist() == stay
    assert start["increment"].tolist() == [row, row]


TABULAR = 'model = "Tabular"\n'
KNOWN = 'model = "Tiger"\n[prior]\nkind = "known"\n'
SMALL = "kernel = [[[[[1.0]], [[1.0]]]]]"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "model is missing.*EngineReplacement"),
        ("model = Tiger", "not TOML.*line 1.*quotes"),
        ('model = "Tigre"', "'Tigre' is none of.*Did you mean 'Tiger'"),
        ("model = 3", "model must be a name.*3"),
        ('model = "os"', "'os' is none of"),
        ('model = "pumps:model"', "'pumps:model' is code of your own.*own_code=True if you trust"),
        ('model = "pumps.py"', "none of EngineReplacement.*nor module:object"),
        ('model = "pumps:model()"', "is not module:object, two dotted names"),
        ('model = "Tiger"\nstart = 3', "line 2: .*unknown key 'start'.*theta"),
        ('model = "Tiger"\n"strats" = 3', "line 2: .*unknown key 'strats'.*'starts'"),
        ('model = "Tiger"\n[data]\nagnet = "a"', r"line 3: \[data\] has an unknown key 'agnet'"),
        ('model = "Tiger"\n[data]\nfile = 3', r"\[data\] file must be a text, not 3"),
        ('model = "Tiger"\n[data]\nmissing = 3', r"\[data\] missing must be a list of texts"),
        ('model = "Tiger"\n[data]\nrepair = ["mend"]', r"\[data\] repair 'mend' must be one of"),
        ('model = "Tiger"\n[data]\nactions = "a,b"', r"\[data\] actions must list the labels"),
        ('model = "Tiger"\ndata = "panel.csv"', r"data must be a table, written \[data\]"),
        ('model = "Tiger"\nestimator = "twostage"', "estimator 'twostage'.*mean 'two-stage'"),
        ('model = "Tiger"\ngrid = "smooth"', "grid 'smooth' must be one of linear:NODES"),
        ('model = "Tiger"\nseed = true', "seed must be a whole number of at least 0, not True"),
        ('model = "Tiger"\n[option]\nscale = 1.0', "'option'.*Did you mean 'options'"),
        ('model = "Tiger"\noptions = 3', r"options must be a table.*\[options\].*3"),
        ('model = "Tiger"\n[options]\nscael = 1.0', r"\[options\].*'scael'.*Did you mean 'scale'"),
        ('model = "Tiger"\n[options]\nscale = "1"', r"\[options\] scale must be a number.*'1'"),
        ('model = "Tiger"\n[options]\nscale = true', "scale must be a number.*True"),
        ('model = "Tiger"\n[options]\nscale = nan', "scale must be finite.*nan"),
        ('model = "EngineReplacement"\n[options]\nbins = 8.0', "bins must be a whole number.*8.0"),
        ('model = "EngineReplacement"\n[options]\nbins = true', "bins must be a whole number"),
        ('model = "EngineReplacement"\n[options]\nbins = 1', "as many bins.*1 bins"),
        ('model = "EngineReplacement"\n[options]\nreset = "never"', "reset must be one of.*never"),
        ('model = "Tiger"\n[theta]\ngolt = 1', r"\[theta\].*'golt'.*gold.*Did you mean 'gold'"),
        ('model = "Tiger"\n[theta]\ngold = "much"', r"\[theta\] gold must be a number.*'much'"),
        ('model = "Tiger"\n[theta]\ngold = [1, 2]', r"gold must have shape \(\).*\(2,\)"),
        ('model = "Tiger"\n[theta]\ngold = []', "gold is an empty list"),
        ('model = "Tiger"\n[theta]\ngold = inf', "gold must be finite.*inf"),
        ('model = "Tiger"\n[theta]\naccuracy = 1.5', r"accuracy must lie in \[0, 1\].*1.5"),
        ('model = "EngineReplacement"\n[theta]\n"cost[god]" = 1', r"Did you mean 'cost\[good\]'"),
        (
            'model = "EngineReplacement"\n[theta]\ncost = [1, 2]\n"cost[good]" = 1',
            r"both cost and cost\[good\]",
        ),
        (
            'model = "EngineReplacement"\n[theta]\nincrement = [[1, 0, 0, 0], [1, 0, 0]]',
            "rows of one length",
        ),
        (
            'model = "EngineReplacement"\n[theta]\nincrement = [[1, 0, 0, 0], [1, 1, 0, 0]]',
            "must sum to 1.*sums to 2",
        ),
        (
            'model = "EngineReplacement"\n[fixed]\ncost = [1, 2]\n"cost[good]" = 1',
            r"\[fixed\] gives both cost and cost\[good\]",
        ),
        (
            'model = "Tiger"\n[theta]\ngold = 5\n[fixed]\ngold = 7',
            r"\[theta\] gives gold = 5, but it is fixed at 7",
        ),
        (
            'model = "EngineReplacement"\n[theta]\n"cost[bad]" = 5\n[fixed]\ncost = [1, 2]',
            r"\[theta\] gives cost\[bad\] = 5, but it is fixed at 2",
        ),
        ('model = "Tiger"\nfixed = "gold"', "fixed must be a list of names or a table.*'gold'"),
        ('model = "Tiger"\nfixed = [3]', "must list names.*3"),
        ('model = "Tiger"\nfixed = ["golt"]', "Did you mean 'gold'"),
        ('model = "Tiger"\n[fixed]\ngold = false', "gold must be a value, or true.*free"),
        ('model = "Tiger"\n[fixed]\ngold = "x"', r"\[fixed\] gold must be a number"),
        ('model = "Tiger"\n[fixed]\ndiscount = 1.0', r"\[fixed\].*discount.*\[0, 1\)"),
        ('model = "Tiger"\nfree = "discount"', "free must be a list of texts"),
        ('model = "Tiger"\nfree = ["discuont"]', "Did you mean 'discount'"),
        ('model = "Tiger"\nfree = ["gold", "gold"]', "lists 'gold' twice"),
        ('model = "Tiger"\nfree = ["gold"]\nfixed = ["gold"]', "both fixed and free"),
        ('model = "Tiger"\nconstraints = ["gold * mauled = 1"]', "gold"),
        ('model = "Tiger"\nconstraints = ["silver = 1"]', "silver"),
        ('model = "Tiger"\nprior = 3', "prior must be a name or a table"),
        ('model = "Tiger"\nprior = [0.7, 0.3]', r'kind = "known", belief = \[0\.7, 0\.3\]'),
        ('model = "Tiger"\nprior = "known:0.7,0.3"', r'kind = "known", belief = \[0\.7,0\.3\]'),
        ('model = "Tiger"\nprior = "stationary:51"', r'kind = "stationary", nodes = 51\}'),
        ('model = "Tiger"\nprior = "comon"', "kind must be one of.*Did you mean 'common'"),
        ('model = "Tiger"\nprior = {kind = "common", nodes = 3}', "unknown key 'nodes'"),
        ('model = "Tiger"\nprior = {kind = "stationary", nodes = 1.5}', "nodes must be a whole"),
        (KNOWN, "lacks belief"),
        (KNOWN + "belief = [0.5, 0.6]", "must sum to 1.*1.1"),
        (KNOWN + "belief = [1.0]", r"shape \(2,\)"),
        (KNOWN + 'belief = ["all", 0]', r"belief\[0\] must be a number"),
        (KNOWN + "belief = {a = [0.2]}", "2 numbers for each agent; that of a is not so"),
        (KNOWN + "belief = {}", "2 numbers for each agent; there is none"),
        ('model = "BusEngine"\nprior = "common"', "takes no prior"),
        ('model = "Tiger"\n[tables]\n', r"\[tables\] is for.*Tabular"),
        (TABULAR + "[tables]\nkernel = 3", "lacks reward"),
        (TABULAR + "[tables]\nkernel = 3\nreward = 1", r"nested five deep.*\(\)"),
        (TABULAR + "[tables]\nkernels = 3", "unknown key 'kernels'.*Did you mean 'kernel'"),
        (
            TABULAR + f"options = {{states = 2}}\n[tables]\n{SMALL}\nreward = [[[0, 1]]]",
            "states is 2, but .* kernel has 1",
        ),
        (TABULAR + f"[tables]\n{SMALL}\nreward = [[[1, 1]]]", "reward of action 0 must be zero"),
        (
            TABULAR + "[tables]\nkernel = [[[[[0.5]], [[1.0]]]]]\nreward = [[[0, 1]]]",
            "must sum to 1.*0.5",
        ),
        (
            TABULAR + f"[tables]\n{SMALL}\nreward = [[[0, 1]]]\n[theta]\nreward = [[[1]]]",
            r"reward stands in \[tables\] and in \[theta\]",
        ),
    ],
)
def test_what_is_wrong_is_said_with_file_key_and_value(text, told, tmp_path):
    with pytest.raises(pf.ModelError, match=f"(?s)model.toml.*{told}"):
        read(tmp_path, text)


TIGER = 'model = "Tiger"\n'
LONG_NAMES = ", ".join(f"{'a' * 5000}{k} = [0.2]" for k in range(30))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (TIGER + "[theta]\ngold = 1" + "0" * 400, "gold must be finite, but it is a huge"),
        (KNOWN + f"belief = {{{LONG_NAMES}}}", "and 25 more is not so"),
        (TIGER + f"[{'9' * 5000}]\n" * 2, r"is not TOML: Cannot declare .*line 3, column"),
        (TIGER + "[theta]\ngold = 1" + "0" * 5000, "is not TOML"),
        (TIGER + "fixed = 0x1" + "0" * 4000, "but it is a huge whole number"),
        (TIGER + "[theta]\ngold = " + "[" * 70 + "1" + "]" * 70, "more than 8 deep"),
        (TIGER + "[theta]\ngold" + ".a" * 30 + " = 1", "gold must be a number"),
        (TIGER + "[theta]\ngold" + ".a" * 10**5 + " = 1", "key of more than 32 parts"),
        (TIGER + "[theta." + " . ".join(["'a b'"] * 10**4) + "]", "key of more than 32 parts"),
        (TIGER + "[theta]\ngold = " + "{a = " * 90 + "1" + "}" * 90, "gold must be a number"),
        (TIGER + f"[theta]\n{'g' * 10**5} = 1", "which is no parameter"),
        (TIGER + f'constraints = ["{"-" * 9000}gold = 1"]', "nested too deeply"),
        (TIGER + f'constraints = ["{"-" * 600}gold = 1"]', "nested too deeply"),
        (TIGER + f'constraints = ["gold{" + gold" * 3000} = 1"]', "nested too deeply"),
        (f'model = "Tiger"\nfree = ["{"g" * 10**5}"]', "no parameter named"),
        ('model = "EngineReplacement"\n[fixed]\n"stay[good]" = 1000', "must lie between 0 and 1"),
        ('model = "Tabular"\n[options]\nstates = 100_000', "too many"),
        ('model = "EngineReplacement"\n[options]\nbins = 10_000_000_000', "too many"),
        ('model = "EngineReplacement"\n[options]\nconditions = 1_000_000', "too many"),
        (TIGER + 'prior = {kind = "stationary", nodes = 0x1' + "0" * 4000 + "}", "nodes must be"),
        ('model = "EngineReplacement"\n[options]\nincrements = 0x1' + "0" * 4000, "too many"),
        (f'model = "EngineReplacement"\n[options]\nreset = "{"9" * 10**5}"', "must be one of"),
        (f'model = "BusEngine"\n[options]\nreset = "{"9" * 10**5}"', "must be one of"),
    ],
)
def test_what_is_huge_or_deep_is_refused_like_the_rest(text, told, tmp_path):
    with pytest.raises(pf.ModelError, match=told) as caught:
        read(tmp_path, text)
    assert str(tmp_path / "model.toml") in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_what_is_no_text_or_no_file_is_refused(tmp_path):
    path = tmp_path / "model.toml"
    with pytest.raises(pf.ModelError, match=r"cannot be read.*No such file"):
        pf.read_model(path)
    with pytest.raises(pf.ModelError, match="cannot be read"):
        pf.read_model(tmp_path)
    path.write_bytes(b'model = "\xff"')
    with pytest.raises(pf.ModelError, match="UTF-8"):
        pf.read_model(path)
    path.write_text("model = " + "[" * 100_000)
    with pytest.raises(pf.ModelError, match="not TOML"):
        pf.read_model(path)


PUMP = """\
model = "pumps.models:Pump"
estimator = "joint"
options = {bins = 3}
prior = "common"
[data]
file = "pumps.csv"
agent = "pump"
repair = "drop-rows"
"""


def test_spoiled_studies_import_nothing_but_what_they_name(tmp_path, monkeypatch):
    """Also where the caller lets files name modules: what is asked for is a dotted name."""
    asked, read, error = [], pf.read_model, pf.ModelError  # which are imported themselves

    def no_import(module):
        asked.append(module)
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    monkeypatch.setattr("importlib.import_module", no_import)
    monkeypatch.setattr(sys, "path", list(sys.path))
    spoiled = Kind("studies", [Sound("study.toml", PUMP.encode())], (*BYTES, *TEXT), *[None] * 3)
    path = tmp_path / "study.toml"
    for number in range(400):
        path.write_bytes(spoiled.mutant(0, number)[1])
        with contextlib.suppress(error):
            read(path, own_code=True)
    assert asked.count("pumps.models") > 30
    assert len(set(asked)) > 3
    for module in asked:
        assert all(part.isidentifier() for part in module.split("."))
        assert module.partition(".")[0] not in sys.stdlib_module_names


@pytest.mark.parametrize(
    "name",
    ["os:system", "os.path:join", "subprocess:Popen", "sys:exit", "a b:c", "..:x", "x:", ":"],
)
def test_what_is_no_model_of_ones_own_is_not_imported(name, tmp_path, monkeypatch):
    read, error = pf.read_model, pf.ModelError
    monkeypatch.setattr("importlib.import_module", lambda module: pytest.fail(module))
    path = tmp_path / "study.toml"
    path.write_text(f'model = "{name}"\n')
    with pytest.raises(error):
        read(path, own_code=True)


SCALARS = st.one_of(
    st.integers(-5, 9), st.floats(), st.booleans(), st.sampled_from(["Tiger", "common", "gold", ""])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["kind", "belief", "gold", "scale", "kernel", "reward", "states"]),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=8,
)
KEYS = ["options", "tables", "theta", "fixed", "free", "constraints", "prior"]
KEYS += ["data", "estimator", "grid", "starts", "seed", "out"]


@settings(deadline=None, max_examples=200)
@given(
    st.sampled_from(["Tiger", "Tabular", "BusEngine"]),
    st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4),
)
def test_whatever_a_file_holds_it_is_read_or_refused_on_purpose(tmp_path_factory, name, content):
    try:
        spec = _specification({"model": name, **content}, tmp_path_factory.getbasetemp())
    except pf.PomdpfitError:
        return
    assert set(spec.theta) >= set(spec.model.space().parameters)
