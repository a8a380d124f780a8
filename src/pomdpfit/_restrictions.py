"""Linear restrictions on parameters, written as users write them: "cost[good] = cost[bad]"."""

import ast
import operator
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pomdpfit._errors import ModelError
from pomdpfit._types import Float

_ENTRY = "_entry_"


class Restrictions(NamedTuple):
    """R theta = q over named entries."""

    matrix: Float[np.ndarray, "m n"]
    value: Float[np.ndarray, "m"]
    texts: tuple[str, ...]


class _Affine(NamedTuple):
    """A number plus a combination of entries."""

    slope: np.ndarray
    level: float


def parse_restrictions(texts: str | Sequence[str], names: Sequence[str]) -> Restrictions:
    """R and q of texts such as "RC = 10" or "2 * cost[good] = cost[bad] + 1"; linear ones only."""
    texts = (texts,) if isinstance(texts, str) else tuple(texts)
    rows = [_row(text, list(names)) for text in texts]
    matrix = np.array([row.slope for row in rows]).reshape(len(rows), len(names))
    return Restrictions(matrix, np.array([-row.level for row in rows]), texts)


def _row(text: str, names: list[str]) -> _Affine:
    """left - right of one equation."""
    sides = _plain(text, names).split("=")
    if len(sides) != 2:
        raise ModelError(f"a restriction has one equals sign, but this one reads {text!r}.")
    left, right = (_side(side, text, names) for side in sides)
    row = _Affine(left.slope - right.slope, left.level - right.level)
    if not (np.isfinite(row.slope).all() and np.isfinite(row.level)):
        raise ModelError(f"the restriction {text!r} holds a number that is not finite.")
    if not row.slope.any():
        raise ModelError(f"the restriction {text!r} names no parameter.")
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
        return _affine(ast.parse(side.strip(), mode="eval").body, len(names))
    except (SyntaxError, ValueError, OverflowError) as error:
        raise ModelError(
            f"the restriction {text!r} is not linear in known entries ({error}). Entries are "
            f"{', '.join(names)}."
        ) from error


def _affine(node: ast.expr, count: int) -> _Affine:
    """The value of an expression; ValueError where it is not affine."""
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _Affine(np.zeros(count), float(value))
    if isinstance(node, ast.Name) and node.id.startswith(_ENTRY):
        return _Affine(np.eye(count)[int(node.id.removeprefix(_ENTRY))], 0.0)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        sign = -1.0 if isinstance(node.op, ast.USub) else 1.0
        inner = _affine(node.operand, count)
        return _Affine(sign * inner.slope, sign * inner.level)
    if isinstance(node, ast.BinOp):
        return _combined(node, _affine(node.left, count), _affine(node.right, count))
    what = node.id if isinstance(node, ast.Name) else type(node).__name__
    raise ValueError(f"{what!r} is not understood")


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
    raise ValueError("only sums and multiples are")
