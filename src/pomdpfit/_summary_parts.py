"""What a summary says beside the table of an estimate."""

from typing import Any

from pomdpfit.inference._few_agents import spanned


def facts_of(est: Any, kind: Any) -> tuple[tuple[str, str], ...]:
    """What stands above the table: pairs of a name and a value."""
    name = (est.cov_type if kind is None else kind) if isinstance(kind, str | None) else "bootstrap"
    reached = f"{int(est.modes['starts'].iloc[0])}/{len(est.starts)}"
    return (
        ("Estimator", type(est.setting.estimator).__name__),
        ("Log-likelihood", f"{est.llf:,.3f}"),
        ("  of observations", f"{est.llf_observation:,.3f}"),
        ("  of choices", f"{est.llf_choice:,.3f}"),
        ("AIC", f"{est.aic:,.2f}"),
        ("BIC", f"{est.bic:,.2f}"),
        ("Covariance", name),
        ("Agents", f"{est.panel.agent_count:,}"),
        ("Scored choices", f"{est.nobs:,}"),
        ("Scored transitions", f"{est.panel.scored_transitions:,}"),
        ("Free parameters", f"{est.df_model}"),
        ("Converged", "yes" if est.converged else f"NO ({est.result.name.lower()})"),
        ("On the boundary", "yes" if est.on_boundary else "no"),
        ("Maxima (starts)", f"{len(est.modes)} ({reached} led here)"),
    )


def notes_of(est: Any, kind: Any = None) -> tuple[str, ...]:
    """What stands below it: doubts first, then what was held, tied and derived."""
    notes = [*est.doubts, *est.covariance_notes(kind)]
    if est.near_boundary:
        notes.append(
            f"near a bound (within two standard errors): {', '.join(est.near_boundary)}. "
            "Normal intervals may cross it and cover badly; prefer a bootstrap."
        )
    if (est.information.hessian is not None or spanned(est)) and est.information.flat:
        notes.append(
            f"weak direction: {', '.join(est.information.flat[:4])} are told together far less "
            "well than apart. pf.weak_directions(est) has the direction, "
            "pf.profile_likelihood(est, name) the shape of the likelihood."
        )
    if est.incidental:
        notes.append(
            f"{est.incidental} prior probabilities were estimated agent by agent. They are "
            "counted in AIC and BIC; their number grows with the data, so there are no "
            "standard errors from theory. pf.bootstrap gives some."
        )
    if len(est.modes) > 1:
        others, best = len(est.modes) - 1, est.modes["llf"].iloc[1]
        notes.append(f"other maxima: {others}, the next at log-likelihood {best:,.3f}: see modes.")
    held = [n for n, p in est.space.parameters.items() if p.fixed and not p.covariate]
    if held:
        values = est.space.to_series(est.theta)
        shown = [e for n in held for e in est.space.parameters[n].entry_names(n).flat]
        notes.append("fixed: " + ", ".join(f"{e} = {values[e]:.6g}" for e in shown) + ".")
    if est.restrictions:
        notes.append("restrictions: " + "; ".join(est.restrictions) + ".")
    if est.derived:
        notes.append(f"derived from the others: {', '.join(est.derived)}.")
    return tuple(notes)
