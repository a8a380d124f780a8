"""Does this panel hold what it should, and could the model have made it?"""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from pomdpfit._errors import PanelError
from pomdpfit._impossible import never_follows
from pomdpfit._labels import KINDS, disagreement, names_of, panel_labels
from pomdpfit._model import Model, Primitives, checked_primitives, require_model
from pomdpfit._panel import Panel
from pomdpfit._panel_range import counting_from_one, seem_swapped
from pomdpfit._precision import in_float64
from pomdpfit._types import Bool, Theta
from pomdpfit.data._panel_check import PanelCheck
from pomdpfit.data._transition_words import TransitionWords

_PROBLEM = ("kind", "agent", "time", "z", "a", "z_next", "says")


def check_panel(panel: Panel, model: Model | None = None, theta: Theta | None = None) -> PanelCheck:
    """What is in a panel; with a model also whether it can have made these rows.

    Transitions are impossible where the model gives them probability zero at `theta` whatever the
    hidden state; by default at the model's example, so that what is reported lies in the model's
    structure.
    """
    if model is None:
        read = tuple(map(str, panel.action_labels)) or None
        return PanelCheck(panel, _frame(panel, []), notes_on(panel, read), read, _own_names(panel))
    return _check_against(panel, model, theta)


@in_float64
def _check_against(panel: Panel, model: Model, theta: Theta | None) -> PanelCheck:
    require_model(model)
    theta = model.example() if theta is None else theta
    primitives = checked_primitives(model, theta)
    names, readings = _names(panel, model, primitives)
    other = _other_labels(panel, model)
    if other:  # a code means one thing here and another there: no more can be said of its row
        return PanelCheck(panel, _frame(panel, other), notes_on(panel, names), names, readings)
    found = _out_of_range(panel, primitives)
    known = panel.present.copy()
    for rows in found:
        known &= ~rows.bad
    words = TransitionWords.of(primitives, names, readings)
    found += _out_of_reach(panel, primitives, known, words)
    try:
        found += _impossible(panel, model, theta, words, known)
    except PanelError as error:  # covariates or groups that the model reads and the panel lacks
        found.append(_Found("covariates", np.zeros_like(known), lambda i, t: "", str(error)))
    return PanelCheck(panel, _frame(panel, found), notes_on(panel, names), names, readings)


def _own_names(panel: Panel) -> tuple[str, ...] | None:
    """The labels of z that the panel was read with."""
    return tuple(map(str, panel.observation_labels)) or None


def _names(
    panel: Panel, model: Model, primitives: Primitives
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of actions and observations: the panel's own where the model means others by them."""
    sizes = {"action": primitives.actions, "observation": primitives.observations}
    names = []
    for kind, size in sizes.items():
        differ = disagreement(panel, model, kind) is not None
        if differ:
            names.append(tuple(map(str, panel_labels(panel, kind))))
        else:
            names.append(names_of(kind, model, panel, size) or tuple(map(str, range(size))))
    return names[0], names[1]


def _other_labels(panel: Panel, model: Model) -> list["_Found"]:
    """Labels that are not the model's, or stand in another order."""
    nowhere = np.zeros_like(panel.present)
    said = {kind: disagreement(panel, model, kind) for kind in KINDS}
    return [
        _Found(f"other {kind} labels than the model's", nowhere, lambda i, t: "", says)
        for kind, says in said.items()
        if says is not None
    ]


@dataclasses.dataclass(frozen=True)
class _Found:
    """Rows with a problem of one kind and a sentence for each, or one sentence for all."""

    kind: str
    bad: Bool[np.ndarray, "N T"]
    says: Callable[[int, int], str]
    of_all: str | None = None


def _out_of_range(panel: Panel, primitives: Primitives) -> list[_Found]:
    """Codes that the model does not have."""
    Z, A = primitives.observations, primitives.actions
    top = f"make the model larger, or read the data with repair=[pf.TopCode({Z - 1})]"
    mend = counting_from_one(panel, "observation", Z) or top
    recode = counting_from_one(panel, "action", A) or seem_swapped(panel, Z, A) or "recode it"
    return [
        _Found(
            "observation beyond the model's range",
            panel.present & ((panel.z < 0) | (panel.z >= Z)),
            lambda i, t: f"observation {panel.z[i, t]} is not one of 0..{Z - 1}; {mend}",
        ),
        _Found(
            "action beyond the model's range",
            panel.acted & ((panel.a < 0) | (panel.a >= A)),
            lambda i, t: f"action {panel.a[i, t]} is not one of 0..{A - 1}; {recode}",
        ),
    ]


def _out_of_reach(
    panel: Panel, primitives: Primitives, known: Bool[np.ndarray, "N T"], words: TransitionWords
) -> list[_Found]:
    """Actions that cannot be taken there, or then."""
    found = []
    if primitives.available is not None:
        may = np.asarray(primitives.available)
        z, a = np.where(known, panel.z, 0), np.where(known & panel.acted, panel.a, 0)
        says = lambda i, t: words.barred(int(panel.z[i, t]), int(panel.a[i, t]))
        found.append(_Found("action not available", known & panel.acted & ~may[z, a], says))
    if primitives.horizon is not None:
        epoch, last = panel.epochs, primitives.horizon - 1
        says = lambda i, t: f"acts at epoch {epoch[i, t]}, but the last one is {last}"
        found.append(_Found("beyond the horizon", panel.score_choice & (epoch > last), says))
    return found


def _impossible(
    panel: Panel,
    model: Model,
    theta: Theta,
    words: TransitionWords,
    known: Bool[np.ndarray, "N T"],
) -> list[_Found]:
    """Transitions of probability zero, by what is odd about them."""
    fits = dataclasses.replace(
        panel, z=np.where(known, panel.z, 0), a=np.where(known & panel.acted, panel.a, 0)
    )
    both = known & np.append(known[:, 1:], np.zeros((len(known), 1), dtype=bool), axis=1)
    never = never_follows(model, theta, fits) & both
    i, t = np.nonzero(never)
    moves = np.stack([panel.z[i, t], panel.a[i, t], panel.z[i, t + 1]], axis=1)
    distinct, which = np.unique(moves, axis=0, return_inverse=True)
    told = {move: words.says(*move) for move in map(tuple, distinct.tolist())}
    kind = np.array([words.kind(*move) for move in told], dtype=object)[which.ravel()]
    says = lambda i, t: told[int(panel.z[i, t]), int(panel.a[i, t]), int(panel.z[i, t + 1])]
    found = []
    for each in dict.fromkeys(kind):  # in the order of their first rows
        bad = np.zeros_like(never)
        bad[i[kind == each], t[kind == each]] = True
        found.append(_Found(each, bad, says))
    return found


def _frame(panel: Panel, found: Sequence[_Found]) -> pd.DataFrame:
    """One row for each problem, labelled."""
    rows: list[tuple] = []
    continues = panel.continues
    for kind in found:
        if kind.of_all is not None:
            rows.append((kind.kind, None, None, None, None, None, kind.of_all))
        for i, t in np.argwhere(kind.bad).tolist():
            agent, time = panel.agents[i], panel.times[i, t]
            a = int(panel.a[i, t]) if panel.acted[i, t] else None
            after = int(panel.z[i, t + 1]) if continues[i, t] else None
            says = f"agent {agent!r} at time {time!r}: {kind.says(i, t)}"
            rows.append((kind.kind, agent, time, int(panel.z[i, t]), a, after, says))
    frame = pd.DataFrame(rows, columns=list(_PROBLEM), dtype=object)
    return frame.astype({name: "Int64" for name in ("z", "a", "z_next")})


def notes_on(panel: Panel, names: Sequence[str] | None = None) -> pd.DataFrame:
    """What may be right, but is worth a look."""
    lengths, notes = panel.present.sum(axis=1), []
    if panel.agent_count == 1:
        notes.append(("one agent", "there is one agent: standard errors across agents need more"))
    if lengths.max() == 1:
        notes.append(("one period", "no agent has two periods: no transition can be scored"))
    elif (lengths == 1).any():
        single = int((lengths == 1).sum())
        notes.append(("one period", f"agents with a single row, and so no transition: {single}"))
    notes += _constants(panel)
    taken = panel.a[panel.acted]
    count = len(names) if names is not None else int(taken.max(initial=-1)) + 1
    if count <= 1000:  # a code beyond that is a problem of its own
        never = sorted(set(range(count)) - set(np.unique(taken).tolist()))
        for a in never:
            name = "" if names is None or names[a] == str(a) else f" ({names[a]})"
            says = f"action {a}{name} is never chosen: its rewards are not identified"
            notes.append(("action never chosen", says))
    return pd.DataFrame(notes, columns=["kind", "says"], dtype=object)


def _constants(panel: Panel) -> list[tuple[str, str]]:
    """Columns that hold one value in all rows."""
    rows = int(panel.present.sum())
    columns = {"observation": panel.z[panel.present], "action": panel.a[panel.acted]}
    columns |= {
        f"covariate {name!r}": values[panel.present]
        for name, values in panel.covariates.items()
        if name != "group"
    }
    return [
        ("constant column", f"the {name} is {_named(panel, name, values[0])} in every row")
        for name, values in columns.items()
        if rows > 1 and len(values) > 1 and (values == values[0]).all()
    ]


def _named(panel: Panel, column: str, value: float) -> str:
    """A value as the data have it."""
    labels = {"observation": panel.observation_labels, "action": panel.action_labels}.get(column)
    return str(labels[int(value)]) if labels else f"{value:g}"
