"""--repair and --missing: words on the command line as what `pf.read_panel` takes."""

from collections.abc import Sequence

from pomdpfit.cli._common import Usage
from pomdpfit.data._repairs import DropAgents, DropRows, Repair, SplitAtGaps, TopCode

_PLAIN: dict[str, Repair] = {
    "split-at-gaps": SplitAtGaps(),
    "drop-rows": DropRows(),
    "drop-agents": DropAgents(),
}


def read_repairs(given: Sequence[str]) -> list[Repair]:
    """The repairs asked for, in order."""
    return [_repair(text) for text in given]


def _repair(text: str) -> Repair:
    if text in _PLAIN:
        return _PLAIN[text]
    name, _, highest = text.partition("=")
    if name == "top-code" and highest.isascii() and highest.isdecimal():
        return TopCode(int(highest))
    raise Usage(f"--repair {text} must be one of {', '.join(_PLAIN)}, top-code=N.")


def read_missing(given: Sequence[str], columns: Sequence[str]) -> dict[str, list[str]]:
    """Words for no value by column: COLUMN=TEXT for one of them, TEXT for all of `columns`."""
    missing: dict[str, list[str]] = {}
    for text in given:
        name, equals, word = text.partition("=")
        alone = bool(equals) and name in columns
        for column in [name] if alone else columns:
            missing.setdefault(column, []).append(word if alone else text)
    return missing


def read_delimiter(given: str) -> str:
    """One character; a tab may be written \\t or tab."""
    return "\t" if given in {"\\t", "tab"} else given
