"""What a model takes as given: reference action, discount, scale; and what if it did not.

Choices show differences of action values in units of the shocks. So something must be taken as
given: that is computed here for the model at hand, not assumed.
"""

from collections.abc import Sequence

import jax
import numpy as np
import pandas as pd

from pomdpfit._labels import action_names
from pomdpfit.identification.rank._evidence import Evidence, Question
from pomdpfit.identification.rank._local_rank import Rank, local_rank
from pomdpfit.identification.rank._primitive_moves import Move, along_theta


def normalised(question: Question, found: Evidence, everything: Rank) -> pd.DataFrame:
    """A row for each thing taken as given: its value, and what would change without it."""
    moves = along_theta(question.model, question.theta, found.likelihood.space)
    rows = {
        "reward of a reference action": _reference(question, moves),
        "discount": _discount(question, found, everything),
        "scale of the shocks": _scale(question, moves),
    }
    return pd.DataFrame.from_dict(rows, orient="index", columns=["taken as", "if it were not"])


def _reference(question: Question, moves: Sequence[Move]) -> tuple[str, str]:
    primitives = question.primitives
    actions = action_names(question.model, primitives.actions)
    known = [
        name
        for a, name in enumerate(actions)
        if all(np.all(move["reward"][..., a] == 0) for move in moves if "reward" in move)
    ]
    Z, S, _ = primitives.reward.shape
    text = (
        "r(z, s, a) could be moved by c(z, s) - discount E[c(z', s') | z, s, a] with any c "
        f"({Z * S} dimensions) and every choice would stay as it is"
    )
    if known:
        return f"known for {', '.join(known)}", text
    return (
        "for no action: the form of the rewards stands in for it",
        f"{text}; which of these moves the model's own parameters can make is counted above",
    )


def _discount(question: Question, found: Evidence, everything: Rank) -> tuple[str, str]:
    given = question.theta.get("discount")
    if given is None or np.ndim(given):
        return "as the model has it", "--"
    value = f"{float(np.asarray(given)):g}"
    if not question.space.parameters["discount"].fixed:
        return f"estimated (here {value})", "--"
    if found.discount is None:
        return value, "not computed: nothing is chosen, or without looking ahead"
    return value, _discount_freed(found, found.discount, everything)


def _discount_freed(found: Evidence, along: np.ndarray, everything: Rank) -> str:
    """What the rank and the standard errors would be with the discount among the unknowns."""
    name, space = "discount", found.likelihood.space
    scores = np.concatenate([found.scores, along[..., None]], axis=-1).sum(axis=2)
    freed = space.free(name)
    order = [*space.free_names, name]
    columns = [order.index(n) for n in freed.free_names]
    rank = local_rank("", scores[..., columns], found.weights, freed, everything.tolerance)
    if rank.rank == everything.rank:
        return f"it could not be told (rank {rank.rank} of {rank.dimension})"
    if not rank.told[name]:
        return f"the rank would be {rank.rank} of {rank.dimension}, and it would not be told"
    text = (
        f"it could be told, by theory (rank {rank.rank} of {rank.dimension}; its standard error "
        f"from one agent {rank.standard_errors()[name]:.3g})"
    )
    ratio = (rank.standard_errors() / everything.standard_errors()).dropna()
    if ratio.empty:
        return text
    worst = f"{ratio.idxmax()} would be {ratio.max():.3g} times what it is"
    return f"{text}, and the standard error of {worst}"


def _scale(question: Question, moves: Sequence[Move]) -> tuple[str, str]:
    shock = question.primitives.shock
    if any(np.any(part != 0) for m in moves for n, part in m.items() if n.startswith("shock")):
        return "estimated: it depends on theta", "--"
    scale = getattr(shock, "scale", None)
    if scale is None or not jax.tree.leaves(shock):
        return "as the model has it", "--"
    return (
        f"{float(np.asarray(scale)):g}",
        "rewards are in units of it: twice the scale and twice every reward would look the same",
    )
