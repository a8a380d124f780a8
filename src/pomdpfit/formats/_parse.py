"""From the text of a .POMDP file to its statements, or an error with line and column."""

import functools
import re
from collections.abc import Collection
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple, NoReturn, cast

from pomdpfit._errors import PomdpFileError
from pomdpfit._nearest import nearest

if TYPE_CHECKING:
    from lark import Lark, Token

_PLACES = frozenset({"INT", "NAME", "STAR"})
_BEGINNINGS = ("discount", "values", "states", "actions", "observations", "start", "T", "O", "R")
KEYWORDS = frozenset(
    {*_BEGINNINGS, "reward", "cost", "include", "exclude", "uniform", "identity", "reset"}
)
# How the grammar's terminals are spelled in messages.
_WORDS = {
    **{word.upper(): f"'{word}'" for word in KEYWORDS},
    "STAR": "'*'",
    "_COLON": "':'",
    "INT": "a whole number",
    "NAME": "a name",
    "NUMBERS": "a number",
    "$END": "the end of the file",
}
_NOT_FINITE = frozenset({"nan", "inf", "infinity"})
_SHOWN = 40  # characters of what was found


class Statement(NamedTuple):
    """A keyword, the places that it speaks of (or the names it lists), and what it says there."""

    keyword: "Token"
    places: tuple["Token", ...]
    body: tuple["Token", ...]


def parse(text: str, path: str) -> list[Statement]:
    """The statements of a file in their order; names and counts are not looked at yet."""
    from lark.exceptions import UnexpectedInput

    run = _parser().parse_interactive(text)
    try:
        for _ in run.iter_parse():
            pass
        return cast(list[Statement], run.feed_eof())
    except UnexpectedInput as error:
        token = getattr(error, "token", None)
        at_end = token is not None and token.type == "$END"
        position = len(text) if at_end else int(error.pos_in_stream or 0)
        # The error itself lists what could follow anywhere else in the grammar, too.
        raise unexpected(text, path, position, run.accepts()) from None


@functools.lru_cache(maxsize=1)
def _parser() -> "Lark":
    """The parser made from the grammar, with statements built as they are read."""
    from lark import Lark, Transformer

    class Build(Transformer):
        def statement(self, tokens: list["Token"]) -> Statement:
            places = tuple(token for token in tokens[1:] if token.type in _PLACES)
            return Statement(
                tokens[0], places, tuple(token for token in tokens[1:] if token.type not in _PLACES)
            )

        def file(self, statements: list[Statement]) -> list[Statement]:
            return statements

    grammar = resources.files(__package__).joinpath("_pomdp.lark").read_text("utf-8")
    return Lark(grammar, parser="lalr", start="file", transformer=Build())


# ---- errors ------------------------------------------------------------------------------------


def unexpected(text: str, path: str, position: int, expected: Collection[str]) -> PomdpFileError:
    """What stands at this position, what should stand there, and the likeliest mend."""
    found = re.match(r"[^\s:*#]+|\S|$", text[position : position + 200])
    word = found.group() if found else ""
    what = f"found {_shown(word)}" if word else "the file ends here"
    wanted = sorted({_WORDS[name] for name in expected if name in _WORDS})
    begins = {_WORDS[name.upper()] for name in _BEGINNINGS}
    if begins <= set(wanted):  # nine keywords in a row help nobody
        wanted = [*sorted(set(wanted) - begins - {_WORDS["$END"]}), "a new statement"]
    message = f"{what}, but expected {_either(wanted)}."
    return error_at(text, path, position, message + _mend(word, expected))


def _mend(word: str, expected: Collection[str]) -> str:
    """Advice on the mistakes that are made most."""
    if "NUMBERS" in expected and word.lower().lstrip("+-") in _NOT_FINITE:
        return " Probabilities and rewards are finite numbers."
    if "NAME" in expected and word in KEYWORDS:
        return f" {word!r} is a keyword of the format: a name must be another word."
    keywords = [_WORDS[name].strip("'") for name in expected if _WORDS.get(name, "")[:1] == "'"]
    hint = "" if word in keywords else nearest(word[:_SHOWN], keywords)
    return hint or _mend_letters(word, expected)


def _mend_letters(word: str, expected: Collection[str]) -> str:
    """Advice on what a word is made of."""
    if "NAME" in expected and word[:1].isdigit():
        return " Names begin with a letter; list names, or give one count."
    if "," in word:
        return " Numbers have a decimal point, and blanks stand between them."
    if not word.isascii() or not word.isprintable():
        return " Names are made of the letters a to z, digits, '-' and '_'."
    return ""


def error_at(text: str, path: str, position: int, message: str) -> PomdpFileError:
    """An error that begins with the place."""
    line = text.count("\n", 0, position) + 1
    column = position - (text.rfind("\n", 0, position) + 1) + 1
    return PomdpFileError(f"{path}, line {line}, column {column}: {message}", line, column)


class Source(NamedTuple):
    """A file's name and text, to point into."""

    path: str
    text: str

    def refuse(self, token: "Token", message: str, number: int | None = None) -> NoReturn:
        """Raise an error at a token, or at the n-th number of its run."""
        position = int(token.start_pos or 0)
        if number is not None:
            position += _positions(token, number)
        raise error_at(self.text, self.path, position, message)

    def refuse_line(self, line: int, message: str) -> NoReturn:
        """Raise an error about what a line, the last of several perhaps, has led to."""
        raise PomdpFileError(f"{self.path}, line {line}: {message}", line)

    def refuse_all(self, message: str) -> NoReturn:
        """Raise an error about the file as a whole."""
        raise PomdpFileError(f"{self.path}: {message}")


def _positions(run: str, number: int) -> int:
    """Where the n-th number of a run begins."""
    each = re.finditer(r"\S+", run)
    return next(match.start() for k, match in enumerate(each) if k == number)


def _shown(word: str) -> str:
    return repr(word if len(word) <= _SHOWN else word[:_SHOWN] + "...")


def _either(words: list[str]) -> str:
    if not words:
        return "something else"
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
