"""Estimates and bootstraps as JSON documents."""

from typing import Any

from pomdpfit._estimate import Estimate
from pomdpfit.inference._bootstrap_draws import Bootstrap


def estimate_document(estimate: Estimate) -> dict[str, Any]:
    """All that the summary says, and the other maxima, in the words of the library."""
    setting = estimate.setting
    name = None if estimate.model is None else type(estimate.model).__name__
    return {
        "model": name,
        "estimator": type(setting.estimator).__name__,
        "prior": None if setting.prior is None else type(setting.prior).__name__,
        "prior_error": estimate.prior_error,
        "theta": estimate.theta,
        "params": estimate.params,
        "bse": estimate.bse,
        "cov_type": estimate.cov_type,
        "covariance_notes": estimate.covariance_notes(),
        "table": estimate.to_frame().rename_axis("parameter"),
        "llf": estimate.llf,
        "llf_observation": estimate.llf_observation,
        "llf_choice": estimate.llf_choice,
        "nobs": estimate.nobs,
        "df_model": estimate.df_model,
        "aic": estimate.aic,
        "bic": estimate.bic,
        "converged": estimate.converged,
        "result": estimate.result,
        "reason": estimate.reason,
        "boundary": estimate.boundary,
        "doubts": estimate.doubts,
        "fixed": estimate.fixed,
        "freed": estimate.freed,
        "restrictions": estimate.restrictions,
        "modes": estimate.modes,
        "starts": estimate.starts.reset_index(),
        "seed": estimate.seed,
        "seconds": estimate.seconds,
        "version": estimate.version,
    }


def bootstrap_document(found: Bootstrap) -> dict[str, Any]:
    """Its table, and how many replicates it rests on."""
    return {
        "table": found.to_frame().rename_axis("parameter"),
        "replicates": len(found.draws),
        "failed": len(found.failed),
        "failures": found.failures.reset_index(),
        "notes": found.notes,
        "seed": found.seed,
    }
