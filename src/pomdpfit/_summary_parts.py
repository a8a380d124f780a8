"""What a summary says beside the table of an estimate."""

from typing import Any

import pandas as pd

from pomdpfit._log_likelihood import SAME_VALUE
from pomdpfit._restrictions import parse_restrictions
from pomdpfit.inference._few_agents import spanned

_MOST = 4  # starts that are named


def other_maxima(est: Any) -> pd.DataFrame:
    """The modes that are maxima, beside the estimate."""
    others = est.modes.iloc[1:]
    return others[others["converged"].astype(bool)] if len(others) else others


def equal_maxima(est: Any) -> list[int]:
    """Those of them that have the log-likelihood of the estimate, part by part."""
    others = other_maxima(est)
    if not len(others):
        return []
    parts = ["observation", "choice"]
    gap = (others[parts] - est.modes[parts].iloc[0]).abs().max(axis=1)
    return list(others.index[gap <= SAME_VALUE])


def unfinished_starts(est: Any) -> pd.DataFrame:
    """The starts whose search did not converge, that of the estimate perhaps among them."""
    return est.starts[~est.starts["result"].isin(["converged", "flat"])]


def words_on_unfinished(est: Any) -> str:
    """How many other starts did not converge, which, and where they ended; nothing if all did."""
    found = unfinished_starts(est)
    if not len(found):
        return ""
    ended = [
        f"{name} ({row['result']}"
        + (f", log-likelihood {row['llf']:,.3f})" if pd.notna(row["llf"]) else ")")
        for name, row in found.head(_MOST).iterrows()
    ]
    more = f" and {len(found) - _MOST} more" if len(found) > _MOST else ""
    return f"{len(found)} of {len(est.starts)} starts did not converge: {', '.join(ended)}{more}"


def facts_of(est: Any, kind: Any) -> tuple[tuple[str, str], ...]:
    """What stands above the table: pairs of a name and a value."""
    name = (est.cov_type if kind is None else kind) if isinstance(kind, str | None) else "bootstrap"
    if kind is None and est.withheld:
        name = "withheld"
    reached = f"{int(est.modes['starts'].iloc[0])}/{len(est.starts)}"
    here = f"{reached} led here" if est.converged else "not this"
    unfinished = len(unfinished_starts(est))
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
        ("Maxima (starts)", f"{int(est.modes['converged'].sum())} ({here})"),
        *([("Not converged", f"{unfinished}/{len(est.starts)} starts")] if unfinished else []),
    )


def notes_of(est: Any, kind: Any = None) -> tuple[str, ...]:
    """What stands below it: doubts first, then what was held, tied and derived."""
    notes = [*est.doubts, *est.covariance_notes(kind)]
    if est.near_boundary:
        notes.append(
            f"near a bound (within two standard errors): {', '.join(est.near_boundary)}. "
            "Normal intervals may cross it and cover badly; prefer a bootstrap."
        )
    if est.information.ridge is not None:
        notes.append(
            f"not identified: {', '.join(est.information.flat[:4])} and others. pf.identify has "
            "the directions."
        )
    elif (est.information.hessian is not None or spanned(est)) and est.information.flat:
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
    if est.prior_error is not None:
        notes.append(
            "stationary prior: with half the cells in the grid of its law the first belief of no "
            f"agent changes by more than {est.prior_error:.1e}."
        )
    others = other_maxima(est)
    if len(others):
        best = others["llf"].iloc[0]
        notes.append(
            f"other maxima: {len(others)}, the next at log-likelihood {best:,.3f}: see modes."
        )
    if unfinished := words_on_unfinished(est):
        notes.append(f"{unfinished}. Where they stopped is no maximum.")
    held = [n for n, p in est.space.parameters.items() if p.fixed and not p.covariate]
    shown = [e for n in held for e in est.space.parameters[n].entry_names(n).flat]
    shown += est.fixed_entries
    if shown:
        values = est.space.to_series(est.theta)
        notes.append("fixed: " + ", ".join(f"{e} = {values[e]:.6g}" for e in shown) + ".")
    between = [text for text in est.restrictions if not _of_one_entry(est, text)]
    if between:
        notes.append("restrictions: " + "; ".join(between) + ".")
    if est.derived:
        notes.append(f"derived from the others: {', '.join(est.derived)}.")
    return tuple(notes)


def _of_one_entry(est: Any, text: str) -> bool:
    """Whether a restriction only fixes an entry."""
    row = parse_restrictions(text, est.space.names).matrix[0]
    named = [name for name, factor in zip(est.space.names, row, strict=True) if factor != 0]
    return len(named) == 1 and named[0] in est.fixed_entries
