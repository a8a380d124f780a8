"""Rust's Tables IX and X: the fully observed engine, by his nested fixed point."""

import dataclasses
import itertools

import numpy as np
import pandas as pd

from pomdpfit._estimate import Estimate
from pomdpfit._panel import Panel
from pomdpfit._test_result import chi_square_p
from pomdpfit.baselines import BusEngine
from pomdpfit.datasets import RUST as RUST_CONVENTIONS
from pomdpfit.datasets import Rust1987, rust1987
from pomdpfit.estimators import BHHH, Joint, fit
from pomdpfit.replication._published import RUST, agreement
from pomdpfit.replication._study import Outcome, Study
from pomdpfit.report import Section, Table, Text

_DISCOUNTS = (0.9999, 0.0)
_EXACT = Joint(BHHH(tolerance=1e-14))  # printed digits are to be compared


def rust_tables(study: Study) -> Outcome:
    """Estimates, standard errors and log-likelihoods beside the printed ones."""
    samples = ((4,), (1, 2, 3), (1, 2, 3, 4), *study.samples)
    cases = list(itertools.product((90, 175), samples))
    rows, tests = [], []
    for k, (bins, groups) in enumerate(cases):
        study.tell("Rust's Tables IX and X", k, len(cases))
        data = rust1987(groups, bins, study.source, RUST_CONVENTIONS)
        fits = {beta: fit_months(data, beta) for beta in _DISCOUNTS}
        for beta, estimate in fits.items():
            rows += _rows(bins, groups, beta, estimate)
        tests.append(_myopia(bins, groups, data, fits))
    study.tell("Rust's Tables IX and X", len(cases), len(cases))
    return _tell(pd.DataFrame(rows), pd.DataFrame(tests), data)


def fit_months(data: Rust1987, discount: float) -> Estimate:
    """The engine fitted with every month as an agent: standard errors are then Rust's.

    He inverts the outer product of the scores of single months. For the estimate it makes no
    difference how months are grouped, since nothing is hidden.
    """
    model = BusEngine(data.bins, data.increments, discount, data.reset)
    return fit(model, by_month(data.panel), _EXACT)


def by_month(panel: Panel) -> Panel:
    """Each scored month as an agent with its own row and the next."""
    months = np.argwhere(panel.acted & (panel.score_choice | panel.score_observation))
    z = [panel.z[i, t : t + 1 + panel.continues[i, t]] for i, t in months]
    a = [panel.a[i, t : t + 1] for i, t in months]
    split = Panel.from_arrays(z, a, agents=[(panel.agents[i], int(t)) for i, t in months])
    masks = {}
    for name in ("score_choice", "score_observation"):
        mask = np.zeros(split.z.shape, dtype=bool)
        mask[:, 0] = getattr(panel, name)[tuple(months.T)]
        masks[name.removeprefix("score_")] = mask
    return split.score(**masks)


def _rows(bins: int, groups: tuple[int, ...], beta: float, estimate: Estimate) -> list[dict]:
    printed = RUST[bins].get(groups, {}).get(beta, {})
    se = estimate.standard_errors("opg")
    ours = {str(name): value for name, value in estimate.params.items()} | {"llf": estimate.llf}
    rows = []
    for name, value in ours.items():
        theirs, their_se = printed.get(name, (None, None))
        row = {
            "bins": bins,
            "groups": ", ".join(map(str, groups)),
            "discount": beta,
            "parameter": name,
            "ours": value,
            "s.e.": se.get(name, np.nan),
            "printed": theirs or "",
            "printed s.e.": their_se or "",
            "digits": "" if theirs is None else agreement(value, theirs),
            "s.e. ratio": np.nan if their_se is None else se[name] / float(their_se),
        }
        rows.append(row)
    return rows


def _myopia(
    bins: int, groups: tuple[int, ...], data: Rust1987, fits: dict[float, Estimate]
) -> dict:
    """Rust's test of foresight; and what scoring every first choice adds."""
    seeing, myopic = fits[0.9999], fits[0.0]
    ratio = 2 * (seeing.llf - myopic.llf)
    every = data.under(dataclasses.replace(data.conventions, first_choice=True)).panel
    with_first = seeing.log_likelihood(by_month(every)).total
    return {
        "bins": bins,
        "groups": ", ".join(map(str, groups)),
        "months": seeing.nobs,
        "mileage part": seeing.llf_observation,
        "choice part": seeing.llf_choice,
        "log-likelihood": seeing.llf,
        "first choices add": with_first - seeing.llf,
        "LR of discount 0.9999 against 0": ratio,
        "p-value": chi_square_p(ratio, 1),
    }


def _compact(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a sample and discount: rewards and log-likelihood, ours and printed."""
    rows = []
    for (bins, groups, discount), part in frame.groupby(["bins", "groups", "discount"], sort=False):
        here = part.set_index("parameter")
        row = {"bins": bins, "groups": groups, "discount": discount}
        for name, decimals in (("RC", 4), ("cost", 4), ("llf", 3)):
            row[name] = f"{here['ours'][name]:.{decimals}f}"
            row[f"{name}, printed"] = here["printed"][name]
        rows.append(row)
    return pd.DataFrame(rows).set_index(["bins", "groups", "discount"])


def _tell(frame: pd.DataFrame, tests: pd.DataFrame, data: Rust1987) -> Outcome:
    checked = frame[frame["digits"] != ""]
    differ = checked[checked["digits"] != "all"]
    four = checked[checked["groups"] == "4"]
    exact = int((four["digits"] == "all").sum())
    ratios = four["s.e. ratio"].dropna()
    raw = "econirl" not in data.source
    finding = (
        f"**Rust's group 4**: {exact} of {len(four)} printed estimates and log-likelihoods come "
        f"out to every digit (90 and 175 bins, discount 0.9999 and 0); standard errors are "
        f"{ratios.min():.3f} to {ratios.max():.3f} times the printed ones."
    )
    if not raw:
        finding += (
            " These are econirl's readings, whose replacements are dated by calendar month: his "
            "digits cannot come out of them."
        )
    text = [
        "Standard errors are from the outer product of monthly scores, as Rust's BHHH gives them. "
        "Clustering by engine or by bus, or second derivatives, give others: see the text of "
        "`docs/replication.md`."
    ]
    if len(differ) and raw:
        last = int((differ["digits"] == "last").sum())
        which = [
            f"{r.parameter} (groups {r.groups}, {r.bins} bins, discount {r.discount:g}: "
            f"{r.ours:.4f} for {r.printed})"
            for r in differ[differ["digits"] == "differ"].itertuples()
        ]
        text.append(
            f"Of {len(checked)} printed estimates and log-likelihoods "
            f"{len(checked) - len(differ)} come out to every digit and {last} differ by one in the "
            f"last. The rest: " + "; ".join(which) + "."
        )
        text.append(
            "RC of group 4 with 175 bins is printed as 10.896; the data give 10.0896 at the "
            "printed log-likelihood, so that figure is a misprint, which the paper copies."
        )
    section = Section(
        "Rust (1987): Tables IX and X",
        "The fully observed model by the nested fixed point, from raw odometer readings.",
        (
            Text(tuple(text)),
            Table(
                "rust_group4",
                frame[frame["groups"] == "4"]
                .drop(columns="groups")
                .set_index(["bins", "discount", "parameter"]),
                "Group 4 beside the printed figures of Tables IX and X.",
                {"ours": ".4f", "s.e.": ".4f", "s.e. ratio": ".3f"},
            ),
            Table("rust_samples", _compact(frame), "All samples in short."),
            Table(
                "rust_tests",
                tests.set_index(["bins", "groups"]),
                "The log-likelihood at discount 0.9999 in parts, what scoring the first choice of "
                "every bus adds to it, and Rust's test of foresight.",
                {"log-likelihood": ".3f", "mileage part": ".3f", "choice part": ".3f"},
            ),
        ),
    )
    results = {"table": frame.to_dict("records"), "tests": tests.to_dict("records")}
    return Outcome(section, (finding,), results)
