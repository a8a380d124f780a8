"""Linear restrictions on parameters, written as users write them: "cost[good] = cost[bad]"."""

import ast
import operator
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pomdpfit._errors import ModelError
from pomdpfit._nearest import nearest
from pomdpfit._shown import shown
from pomdpfit._types import Float

_ENTRY = "_entry_"
_LISTED = 40  # names in a message
_DEEPEST = 500  # operations in one another, of which a sum of 500 terms has as many
_UNEQUAL = ("<", ">", "≤", "≥", "!=", "≠")


class Restrictions(NamedTuple):
    """R theta = q over named entries."""

    matrix: Float[np.ndarray, "m n"]
    value: Float[np.ndarray, "m"]
    texts: tuple[str, ...]


class _Affine(NamedTuple):
    """A number plus a combination of entries."""

    slope: np.ndarray
    level: float


class _UnknownEntry(Exception):
    """Something that is written like an entry and is none."""


def parse_restrictions(texts: str | Sequence[str], names: Sequence[str]) -> Restrictions:
    """R and q of texts such as "RC = 10" or "2 * cost[good] = cost[bad] + 1"; linear ones only."""
    texts = (texts,) if isinstance(texts, str) else tuple(texts)
    rows = [_row(text, list(names)) for text in texts]
    matrix = np.array([row.slope for row in rows]).reshape(len(rows), len(names))
    return Restrictions(matrix, np.array([-row.level for row in rows]), texts)


def _row(text: str, names: list[str]) -> _Affine:
    """left - right of one equation."""
    plain = _plain(text, names)
    if any(sign in plain for sign in _UNEQUAL):
        raise ModelError(
            f"the restriction {shown(text)} is an inequality; only equations are possible. Bounds "
            "belong to a parameter's constraint: pf.Parameter(value, pf.Interval(low, high))."
        )
    sides = plain.split("=")
    if len(sides) != 2:
        raise ModelError(f"a restriction has one equals sign, but this one reads {shown(text)}.")
    left, right = (_side(side, text, names) for side in sides)
    row = _Affine(left.slope - right.slope, left.level - right.level)
    if not (np.isfinite(row.slope).all() and np.isfinite(row.level)):
        raise ModelError(f"the restriction {shown(text)} holds a number that is not finite.")
    if not row.slope.any():
        raise ModelError(f"the restriction {shown(text)} names no parameter.")
    return row


def _plain(text: str, names: list[str]) -> str:
    """The text with plain identifiers for names, which hold brackets, commas, blanks and signs."""
    if not names or _ENTRY in text:
        return text  # no such name is known
    pattern = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    number = {name: k for k, name in enumerate(names)}
    return re.sub(
        rf"(?<![\w.])(?:{pattern})(?!\w)", lambda found: f" {_ENTRY}{number[found.group()]} ", text
    )


def _side(side: str, text: str, names: list[str]) -> _Affine:
    try:
        if _ENTRY in text:
            raise ValueError(f"{_ENTRY!r} is not understood")
        return _affine(_tree(side.strip()), len(names))
    except _UnknownEntry as error:
        name = re.sub(rf"{_ENTRY}(\d+)", lambda found: names[int(found.group(1))], str(error))
        raise ModelError(
            f"the restriction {shown(text)} names {shown(name)}, but there is no such entry; "
            f"entries are {_listed(names)}.{nearest(name, names)}"
        ) from error
    except (SyntaxError, ValueError, OverflowError) as error:
        raise ModelError(
            f"the restriction {shown(text)} is not linear in known entries ({error}). Entries are "
            f"{_listed(names)}."
        ) from error


def _tree(side: str) -> ast.expr:
    """The expression, parsed and never run."""
    try:
        return ast.parse(side, mode="eval").body
    except (MemoryError, RecursionError):  # how Python's parser says that it is too deep a nest
        raise ValueError("it is nested too deeply") from None


def _unparsed(node: ast.expr) -> str:
    try:
        return ast.unparse(node)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _listed(names: list[str]) -> str:
    return f"{', '.join(names[:_LISTED])}{' ...' if len(names) > _LISTED else ''}"


def _affine(node: ast.expr, count: int, depth: int = 0) -> _Affine:
    """The value of an expression; ValueError where it is not affine."""
    if depth > _DEEPEST:
        raise ValueError("it is nested too deeply")
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _Affine(np.zeros(count), float(value))
    if isinstance(node, ast.Name) and node.id.startswith(_ENTRY):
        slope = np.zeros(count)
        slope[int(node.id.removeprefix(_ENTRY))] = 1.0
        return _Affine(slope, 0.0)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        sign = -1.0 if isinstance(node.op, ast.USub) else 1.0
        inner = _affine(node.operand, count, depth + 1)
        return _Affine(sign * inner.slope, sign * inner.level)
    if isinstance(node, ast.BinOp):
        return _combined(
            node, _affine(node.left, count, depth + 1), _affine(node.right, count, depth + 1)
        )
    if isinstance(node, ast.Name | ast.Subscript):
        raise _UnknownEntry(_unparsed(node))
    raise ValueError("only sums and multiples of entries are")


def _combined(node: ast.BinOp, left: _Affine, right: _Affine) -> _Affine:
    if isinstance(node.op, ast.Add | ast.Sub):
        combine = operator.add if isinstance(node.op, ast.Add) else operator.sub
        return _Affine(combine(left.slope, right.slope), combine(left.level, right.level))
    if isinstance(node.op, ast.Mult):
        if left.slope.any() and right.slope.any():
            raise ValueError("a product of two parameters")
        factor, other = (right, left) if left.slope.any() else (left, right)
        return _Affine(factor.level * other.slope, factor.level * other.level)
    if isinstance(node.op, ast.Div) and not right.slope.any() and right.level != 0:
        return _Affine(left.slope / right.level, left.level / right.level)
    raise ValueError("only sums and multiples of entries are")
