"""Functions of an estimate: their derivatives, and tests of linear ones."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from pomdpfit._entries import free_entries
from pomdpfit._errors import EstimationError
from pomdpfit._params import ParameterSpace
from pomdpfit._restrictions import parse_restrictions
from pomdpfit._test_result import TestResult, chi_square_p
from pomdpfit._types import Bool, Float
from pomdpfit.inference._information import Information, known_variances
from pomdpfit.inference._labelled import names_in_a_row, values_in_a_row

_SINGULAR = 1e-13  # of an eigenvalue of a covariance in units of its diagonal


def value_and_slope(
    function: Callable[[Any], Any],
    theta: Mapping[str, np.ndarray],
    information: Information,
    space: ParameterSpace,
    boundary: Sequence[str],
) -> tuple[pd.Series, Float[np.ndarray, "k p"], Bool[np.ndarray, "k"]]:
    """function(theta), flat and under its names, its derivative in the free coordinates, and
    whether only entries on the boundary move it.
    """
    entries = free_entries(space, space.free_leaves, theta)
    held = np.eye(len(entries.names))[[entries.names.index(name) for name in boundary]]
    directions = entries.split(np.concatenate([information.jacobian.T, held]))
    whole = {name: jnp.asarray(leaf) for name, leaf in theta.items()}
    at = lambda moved: values_in_a_row(function({**whole, **moved}))
    here = {name: whole[name] for name in directions}
    along = lambda direction: jax.jvp(at, (here,), (direction,))[1]
    result = function(whole)
    both = np.asarray(jax.vmap(along)(directions)).T
    slope, of_held = np.split(both, [information.jacobian.shape[1]], axis=1)
    stuck = np.asarray(~slope.any(axis=1) & of_held.any(axis=1))
    return pd.Series(np.asarray(values_in_a_row(result)), names_in_a_row(result)), slope, stuck


def wald_test(
    params: pd.Series,
    boundary: Sequence[str],
    information: Information,
    cov: pd.DataFrame,
    restrictions: str | Sequence[str] | Mapping[str, float],
    missing: Callable[[np.ndarray], str],
) -> TestResult:
    """W = (R b - q)' (R V R')^-1 (R b - q), chi-square with as many degrees as there are rows."""
    if isinstance(restrictions, Mapping):
        restrictions = [f"{name} = {float(value)!r}" for name, value in restrictions.items()]
    parsed = parse_restrictions(restrictions, information.entries)
    touched = [n for n, c in zip(params.index, parsed.matrix.T, strict=True) if c.any()]
    on_bound = [name for name in touched if name in boundary]
    if on_bound:
        raise EstimationError(
            f"{on_bound[0]} is on its boundary and has no standard error: a Wald test of it has no "
            "known distribution. Compare likelihoods, or bootstrap."
        )
    R = parsed.matrix @ information.jacobian
    if np.linalg.matrix_rank(R) < len(R):
        raise EstimationError("the restrictions repeat one another, or hold by construction.")
    gap = parsed.matrix @ params.to_numpy() - parsed.value
    known, unknown = known_variances(R, cov.to_numpy())
    V, statistic, note = R @ known @ R.T, np.nan, ""
    unit = np.sqrt(np.diag(V).clip(min=0.0))
    if unknown.any():
        reasons = dict.fromkeys(missing(row) for row in R[unknown])
        note = f"There is no statistic, for want of a standard error: {'; '.join(reasons)}."
    elif (unit == 0).any() or np.linalg.eigvalsh(V / np.outer(unit, unit))[0] <= _SINGULAR:
        note = "There is no statistic: the covariance of what is tested is singular."
    else:
        statistic = float(gap @ np.linalg.solve(V, gap))
    p = chi_square_p(statistic, len(R))
    return TestResult("Wald test", ", ".join(parsed.texts), statistic, len(R), p, note)
