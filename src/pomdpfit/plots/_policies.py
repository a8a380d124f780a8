"""What an agent does at each observation and belief, and what that is worth."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from pomdpfit._estimate import Estimate
from pomdpfit._model import Model
from pomdpfit._panel import Panel
from pomdpfit._solve import Solution
from pomdpfit.plots._over_beliefs import Edge, draw_over
from pomdpfit.plots._subject import subject_of

_LEVELS = (0.01, 0.05, 0.25, 0.5)


def policy(
    source: Solution | Estimate,
    action: str | int | None = None,
    *,
    z: int | Sequence[int] | None = None,
    edge: Edge | None = None,
    t: int | None = None,
    covariates: Mapping[str, float] | None = None,
    model: Model | None = None,
    panel: Panel | None = None,
    ax: Axes | None = None,
) -> Axes:
    """P(action | z, x) of a solution, or of the model at an estimate.

    action      by label or number; the last one if not given
    z           some observations: lines over the belief. Without it a map over (z, x) for two
                hidden states, and for three the triangle of beliefs at the middle z
    edge        two states: lines along the beliefs between them, for any number of states
    t           the epoch, with a finite horizon; the first if not given
    covariates  where the model reads some; those of the panel's first row if not given
    model       gives a solution its labels
    panel       gives those that the model lacks; an estimate has its own
    """
    subject = subject_of(source, model=model, covariates=covariates, t=t, panel=panel)
    a = subject.action(action)
    given = "z" if len(subject.states) == 1 else "z, x"
    return draw_over(
        subject,
        lambda z, x: subject.policy(z, x)[..., a],
        f"P({subject.actions[a]} | {given})",
        z=z,
        edge=edge,
        ax=ax,
        levels=_LEVELS,
    )


def value(
    source: Solution | Estimate,
    *,
    z: int | Sequence[int] | None = None,
    edge: Edge | None = None,
    t: int | None = None,
    covariates: Mapping[str, float] | None = None,
    model: Model | None = None,
    panel: Panel | None = None,
    ax: Axes | None = None,
) -> Axes:
    """V-bar(z, x), drawn as `policy` draws a choice; of a fully observed model V(z) - V(0)."""
    subject = subject_of(source, model=model, covariates=covariates, t=t, panel=panel)
    label = "value V(z) - V(0)" if len(subject.states) == 1 else "value V(z, x)"
    return draw_over(subject, subject.value, label, z=z, edge=edge, ax=ax)
