"""Whether one fit is a special case of another: the same model, with more held."""

import numpy as np

from pomdpfit._estimate import Estimate
from pomdpfit._fingerprint import model_fingerprint
from pomdpfit._params import ParameterSpace
from pomdpfit._types import Float


def same_model(first: Estimate, second: Estimate) -> bool:
    """Whether both are of one model and one prior, known or not: code is never stored.

    A model of one's own that was not handed over is known by the fingerprint that `fit` took of
    it; a fit that was saved without one by its parameters.
    """
    if model_fingerprint(first.setting.prior) != model_fingerprint(second.setting.prior):
        return False
    marks = {_mark(first), _mark(second)}
    return len(marks) == 1 or ("" in marks and same_parameters(first, second))


def same_parameters(first: Estimate, second: Estimate) -> bool:
    """Whether both have the same parameters, whatever is held or estimated."""
    return _described(first.space) == _described(second.space)


def nested(small: Estimate, large: Estimate) -> bool:
    """Whether `small` holds all that `large` holds, at the same values, and more."""
    if not same_model(small, large) or small.df_model >= large.df_model:
        return False
    held, more = _equations(large), _equations(small)
    # What the large one holds follows from what the small one holds if it adds no rank.
    return _rank(more) == _rank(np.vstack([more, held]))


def _mark(estimate: Estimate) -> str:
    """The fingerprint of the model at hand, or that of the fit where there is none."""
    if estimate.model is None:
        return estimate.model_mark
    return model_fingerprint(estimate.model)


def _described(space: ParameterSpace) -> dict[str, tuple]:
    return {name: (p.shape, p.constraint, p.labels) for name, p in space.parameters.items()}


def _equations(estimate: Estimate) -> Float[np.ndarray, "m n+1"]:
    """Rows (R, q) with R theta = q: leaves and entries that are held, ties, rows that sum to 1."""
    space = estimate.space
    unit, values = np.eye(len(space.names)), space.to_series(estimate.theta).to_numpy()
    fixed = [space.parameters[name].fixed for name in space.owners]
    blocks = [np.column_stack([unit[fixed], values[fixed]])]
    start = 0
    for parameter in space.parameters.values():
        size = int(np.prod(parameter.shape))
        for row in parameter.constraint.sums(parameter.shape):
            blocks.append(np.append(unit[start + row].sum(axis=0), 1.0)[None])
        start += size
    parsed = estimate.parsed_restrictions
    if parsed is not None:
        blocks.append(np.column_stack([parsed.matrix, parsed.value]))
    return np.vstack(blocks)


def _rank(rows: Float[np.ndarray, "m n"]) -> int:
    """With rows of one length: an equation means the same in any units."""
    return int(np.linalg.matrix_rank(rows / np.linalg.norm(rows, axis=1, keepdims=True)))
