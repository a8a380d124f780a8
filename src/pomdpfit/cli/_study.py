"""A study: a model file that also names the data and the options of the commands.

What the command line does not say is taken from there, for all commands alike.
"""

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pomdpfit.cli._common import Code, Usage
from pomdpfit.cli._data import read_delimiter

if TYPE_CHECKING:
    import pandas as pd

_DATA = (
    *("data", "agent", "time", "observation", "action", "observations", "actions"),
    *("freq", "group", "covariate", "repair", "missing", "delimiter", "encoding"),
)
# The options of each command that a study may give. Prior, start values and the like come with the
# model. Commands on a saved fit take the model alone.
_TAKEN = {
    "check": _DATA,
    "simulate": ("grid", "seed"),
    "design": ("estimator", "grid", "seed"),
    "fit": (*_DATA, "estimator", "grid", "starts", "seed", "out"),
}


def reads_studies(command: Callable[..., Code | None]) -> Callable[..., Code | None]:
    """A command that takes what the command line does not say from a study."""

    @functools.wraps(command)
    def run(*, context: typer.Context, **options: Any) -> Code | None:
        source = context.get_parameter_source
        said = {name for name in options if getattr(source(name), "name", "") == "COMMANDLINE"}
        return command(**_with_study(command.__name__, options, said))

    # Typer reads the signature, and hands over its context for a parameter of this type.
    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    own = inspect.signature(command)
    run.__signature__ = own.replace(parameters=[*own.parameters.values(), context])  # type: ignore[attr-defined]
    run.__annotations__ = {**command.__annotations__, "context": typer.Context}
    return run


def _with_study(command: str, options: Mapping[str, Any], given: Collection[str]) -> dict[str, Any]:
    """The options of a command, those that are not `given` from the study that it names."""
    found = dict(options)
    if command == "check" and found["model"] is None and _is_study(found["data"]):
        found["model"], found["data"] = str(found["data"]), None
        given = {name for name in given if name != "data"}
    said = study_options(found["model"])
    taken = set(_TAKEN[command]) - set(given)
    return found | {name: value for name, value in said.items() if name in taken}


def study_options(model: str | None) -> dict[str, Any]:
    """What MODEL says of data and options; nothing where it is no model file."""
    if not _is_study(model):
        return {}
    from pomdpfit.model_files._read import read_study

    return read_study(Path(str(model)))


def _is_study(word: str | Path | None) -> bool:
    return word is not None and Path(word).suffix.lower() == ".toml"


def as_text(frame: "pd.DataFrame", model: Any, study: Mapping[str, Any]) -> bytes:
    """A panel's frame (agent, time, z, a) as a text file that the study's [data] read.

    Columns get their names, codes their labels, and periods their dates, from January 2000 on.
    """
    from pomdpfit._labels import model_labels

    columns = {"agent": "agent", "time": "time", "z": "observation", "a": "action"}
    names = {short: study[option] for short, option in columns.items() if option in study}
    if names:
        frame = frame.copy()
        for short, kind in (("z", "observation"), ("a", "action")):
            labels = study.get(f"{kind}s") or model_labels(model, kind)
            if labels is not None:
                frame[short] = frame[short].map(dict(enumerate(labels)))
        frame["time"] = _dates(frame["time"], study.get("freq"))
    delimiter = read_delimiter(study.get("delimiter", ","))
    text = frame.rename(columns=names).to_csv(index=False, lineterminator="\n", sep=delimiter)
    try:
        return text.encode(study.get("encoding", "utf-8"))
    except (LookupError, UnicodeError) as error:
        raise Usage(f"the panel cannot be written in the encoding of the study: {error}.") from None


def _dates(times: "pd.Series", freq: str | None) -> "pd.Series":
    """The first day of each period, and its hour where it begins at another than midnight."""
    import pandas as pd

    if freq is None:
        return times
    try:
        first = pd.Period("2000-01-01", freq=freq)
    except ValueError as error:
        raise Usage(f"freq = {freq!r} of the study is not a length of period: {error}.") from None
    return times.map(lambda t: (first + int(t)).start_time.isoformat().removesuffix("T00:00:00"))


def require_other_file(out: Path, study: Mapping[str, Any], model: str) -> None:
    """Refuse to write over the data of a study."""
    data = study.get("data")
    if data is not None and out.exists() and data.exists() and out.samefile(data):
        raise Usage(f"--out {out} is the data file of {model}: name another file.")
