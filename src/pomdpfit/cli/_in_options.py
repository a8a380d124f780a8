"""What a message recommends to Python, as options of the command line."""

import re
from collections.abc import Callable, Iterator

# Each recommendation as Python spells it, and the option for what was found there.
_OPTIONS: tuple[tuple[str, Callable[[str], str]], ...] = (
    (r"pf\.SplitAtGaps\((\))", lambda found: "--repair split-at-gaps"),
    (r"pf\.DropRows\((\))", lambda found: "--repair drop-rows"),
    (r"pf\.TopCode\((\d+)\)", lambda found: f"--repair top-code={found}"),
    (r"missing=\['', '([^']*)'\]", lambda found: f"--missing {_quoted(found)}"),
    (r"delimiter='(\\t|[^'])'", lambda found: f"--delimiter {_quoted(found)}"),
    (r"encoding='([^']*)'", lambda found: f"--encoding {found}"),
    (r'freq="(\w+)"', lambda found: f"--freq {found}"),
    (r"observations=\[([^\]]+)\]", lambda found: f"--observations {_listed(found)}"),
    (r"actions=\[([^\]]+)\]", lambda found: f"--actions {_listed(found)}"),
)


def with_options(message: str) -> str:
    """The message, with the options that it amounts to."""
    return f"{message} {options_for(message)}".rstrip()


def options_for(message: str) -> str:
    """The options that a message amounts to, in words; nothing where there are none."""
    options = list(_amounts_to(message))
    return f"On the command line: {' or '.join(options)}" if options else ""


def _amounts_to(message: str) -> Iterator[str]:
    for pattern, option in _OPTIONS:
        found = re.search(rf"(?<![\w-]){pattern}", message)
        # A label that is not listed is told beside the labels that are: there is nothing to add.
        if found is not None and not message[: found.start()].endswith("is not one of "):
            yield option(found[1])


def _listed(labels: str) -> str:
    """Labels as the option has them; those of a message that leaves them out stay left out."""
    words = [label.strip().strip("'\"") for label in labels.split(",")]
    return "LABELS" if "..." in words else _quoted(",".join(words))


def _quoted(text: str) -> str:
    return text if re.fullmatch(r"[\w.,+-]+", text) else f"'{text}'"
