"""The only markup in prose: `**bold**` and `` `code` ``. Everything else stands for itself."""

import dataclasses
import re
from collections.abc import Callable

# Stars within words are not markup: x**2 and y**2.
_MARKED = re.compile(r"`(?P<code>[^`]+)`|(?<![\w*])\*\*(?=\S)(?P<bold>.+?)(?<=\S)\*\*(?![\w*])")


@dataclasses.dataclass(frozen=True)
class Language:
    """How a language escapes plain text, and wraps escaped text as bold or as code."""

    escape: Callable[[str], str]
    bold: Callable[[str], str]
    code: Callable[[str], str]


def translate(text: str, language: Language) -> str:
    """The text in another language, its markup honoured and all else escaped."""
    parts, end = [], 0
    for match in _MARKED.finditer(text):
        parts.append(language.escape(text[end : match.start()]))
        if match["code"] is not None:
            parts.append(language.code(language.escape(match["code"])))
        else:  # bold text may hold code
            parts.append(language.bold(translate(match["bold"], language)))
        end = match.end()
    return "".join([*parts, language.escape(text[end:])])
