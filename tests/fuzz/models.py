"""Models as TOML files."""

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import pomdpfit as pf
from pomdpfit.model_files._specification import Specification
from tests.fuzz.byte_mutations import BYTES, Mutation, splice
from tests.fuzz.kinds import Kind, Sound
from tests.fuzz.text_mutations import LARGE_TEXT, TEXT, word

ENGINE = """\
model = "EngineReplacement"
free = ["discount"]
constraints = ["cost[good] = 2 * cost[bad]"]

[options]
bins = 8
increments = 3
discount = 0.9
reset = "increment"

[theta]
RC = 3
"stay[bad]" = 0.7
increment = [[0.1, 0.3, 0.6], [0.6, 0.3, 0.1]]

[fixed]
RC = true
"stay[good]" = 0.8

[prior]
kind = "known"
belief = [0.25, 0.75]
"""
_TIGER = """\
model = "Tiger"
fixed = ["discount"]
prior = {kind = "stationary", nodes = 11}
[options]
discount = 0.5
scale = 2.0
"""
_TABULAR = """\
model = "Tabular"
prior = "common"
[options]
discount = 0.7
[tables]
kernel = [[[[[1.0]], [[1.0]]]]]
reward = [[[0.0, 2.5]]]
[fixed]
reward = [[[2.5]]]
"""
_SIZES = """\
model = "Tabular"
[options]
observations = 2
states = 3
actions = 2
[prior.belief]
"4403" = [1, 0, 0]
"007" = [0.5, 0.25, 0.25]
[prior]
kind = "known"
"""
_BUS = """\
# nothing is hidden
model = "BusEngine"
[options]
bins = 5
increments = 2
[theta]
"increment[0]" = 0.5
"increment[1]" = 0.5
"""
_INSPECTION = 'model = "EquipmentInspection"\nprior = "agent"\n[options]\ndiscount = 0.25\n'
_STUDY = """\
model = "Tiger"
prior = "common"
estimator = "two-stage"
grid = "linear:11"
starts = 2
seed = 7
out = "tiger.zip"
[data]
file = "tiger.csv"
agent = "who"
time = "when"
observation = "heard"
action = "did"
observations = ["left", "right"]
actions = ["listen", "open left", "open right"]
missing = ["NA", "did=?"]
repair = ["drop-rows", "top-code=1"]
delimiter = "\\t"
"""

SOUND = tuple(
    Sound(f"model{k}.toml", text.encode())
    for k, text in enumerate((ENGINE, _TIGER, _TABULAR, _SIZES, _BUS, _INSPECTION, _STUDY))
)
_WORDS = (
    *("model", "options", "theta", "fixed", "free", "constraints", "prior", "tables", "kind"),
    *("EngineReplacement", "Tiger", "Tabular", "BusEngine", "conditions", "bins", "nodes", "new"),
    *("data", "file", "agent", "repair", "missing", "estimator", "joint", "grid", "smooth:5"),
    *("discount", "states", "true", "false", "[]", "{}", "[[]]", "[[1, 2], [3]]", "[true]", "''"),
    *(
        "1979-05-27T07:32:00Z",
        "07:32:00",
        "0xffffffffffffffffffff",
        "0b1",
        "1e5",
        '"""',
        "os:system",
    ),
    *(
        "[1, 2, [3]]",
        '"a.b"',
        "a.b.c",
        "{a = 1, a = 2}",
        '"\\ud800"',
        '"\\u0000"',
        "0x" + "f" * 4000,
    ),
    *(
        "a" + ".a" * 2000,
        "x = " + "[" * 300,
        "{" + "a = {" * 100,
        "RC = RC",
        "10**9",
        "1/0",
        "+inf",
    ),
)
_MUTATIONS: tuple[Mutation, ...] = (
    *(*BYTES, *TEXT, *TEXT, *LARGE_TEXT, word(_WORDS), word(_WORDS), word(_WORDS), word(_WORDS)),
    *(splice([s.content for s in SOUND]),),
)


# ---- a model file written from what was read ---------------------------------------------------


def _toml(spec: Specification) -> Iterator[str]:
    """All that a specification says; names of agents and entries as quoted keys."""
    model = spec.model
    yield f'model = "{type(model).__name__}"'
    yield f"free = {json.dumps(list(spec.free))}"
    yield f"constraints = {json.dumps(list(spec.constraints))}"
    yield "[options]"
    for name in inspect.signature(type(model)).parameters:
        option = getattr(model, "default_discount" if name == "discount" else name)
        yield f"{name} = {json.dumps(option)}"
    for place, values in (("theta", spec.start), ("fixed", spec.fixed)):
        yield f"[{place}]"
        for name, value in values.items():
            yield f"{json.dumps(name)} = {np.asarray(value).tolist()!r}"
    yield from _prior(spec.prior)


def _prior(prior: Any) -> Iterator[str]:
    if prior is None:
        return
    yield "[prior]"
    if isinstance(prior, pf.KnownPrior):
        yield 'kind = "known"'
        if not isinstance(prior.belief, dict):
            yield f"belief = {np.asarray(prior.belief).tolist()!r}"
            return
        yield "[prior.belief]"
        for agent, belief in prior.belief.items():
            yield f"{json.dumps(agent)} = {np.asarray(belief).tolist()!r}"
    elif isinstance(prior, pf.StationaryPrior):
        yield f'kind = "stationary"\nnodes = {prior.nodes}'
    else:
        yield f'kind = "{"common" if isinstance(prior, pf.CommonPrior) else "agent"}"'


def _read(path: Path, sound: Sound) -> Specification:
    return pf.read_model(path)


def _check(spec: Specification, sound: Sound, content: bytes, folder: Path) -> None:
    spec.space.check({**spec.space.example(), **spec.start})
    assert all(np.isfinite(leaf).all() for leaf in spec.theta.values())
    again = folder / "again.toml"
    again.write_text("\n".join(_toml(spec)) + "\n", encoding="utf-8")
    back = pf.read_model(again)
    assert (spec.model, spec.free, spec.constraints) == (back.model, back.free, back.constraints)
    for name in ("start", "fixed"):
        mine, other = getattr(spec, name), getattr(back, name)
        assert list(mine) == list(other)
        for leaf in mine:
            np.testing.assert_array_equal(mine[leaf], other[leaf])
    assert repr(spec.prior) == repr(back.prior)


MODELS = Kind("models", SOUND, _MUTATIONS, _read, pf.ModelError, _check)
