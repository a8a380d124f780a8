"""Damage to text: words, numbers and lines are exchanged for others that parsers trip over."""

import random
import re
from collections.abc import Sequence

from tests.fuzz.byte_mutations import Mutation

_WORD = re.compile(rb"[A-Za-z0-9_.+-]+")
NUMBERS = (
    *(
        "NaN",
        "nan",
        "inf",
        "-Infinity",
        "-0",
        "0",
        "-1",
        "1",
        "2",
        "0.5",
        "1e400",
        "-1e400",
        "1e-400",
    ),
    *(
        "1e308",
        "5e-324",
        "0.1e1",
        "1.",
        ".5",
        "+3",
        "03",
        "1_000",
        "0x10",
        "1e",
        "--1",
        "1,5",
        "1.0",
    ),
    *(str(2**31), str(2**53 + 1), str(2**63 - 1), str(2**63), str(-(2**63)), "9" * 30, "9" * 400),
    *("9" * 5000, "1000", "100000", "1000000000", "0." + "3" * 500, "\u0663", "1\u00a0000"),
)
WORDS = (
    "true",
    "None",
    "NA",
    "",
    '""',
    "'",
    "=1+1",
    "../../etc/passwd",
    "A" * 3000,
    "\u00fc",
    "__class__",
)


def word(words: Sequence[str]) -> Mutation:
    """One word becomes another."""

    def worded(random: random.Random, data: bytes) -> bytes:
        found = list(_WORD.finditer(data))
        if not found:
            return data
        at = random.choice(found)
        return data[: at.start()] + random.choice(words).encode() + data[at.end() :]

    return worded


def swapped_words(random: random.Random, data: bytes) -> bytes:
    """One word of the file in the place of another."""
    found = list(_WORD.finditer(data))
    if not found:
        return data
    at, other = random.choice(found), random.choice(found)
    return data[: at.start()] + other.group() + data[at.end() :]


def line_lost(random: random.Random, data: bytes) -> bytes:
    """One line less."""
    lines = data.split(b"\n")
    lines.pop(random.randrange(len(lines)))
    return b"\n".join(lines)


def line_again(random: random.Random, data: bytes) -> bytes:
    """A line a second time, somewhere, or a hundred times over."""
    lines = data.split(b"\n")
    line, place = random.choice(lines), random.randrange(len(lines) + 1)
    lines[place:place] = [line] * random.choice((1, 1, 1, 100))
    return b"\n".join(lines)


def lines_swapped(random: random.Random, data: bytes) -> bytes:
    """Two lines in each other's place."""
    lines = data.split(b"\n")
    i, j = random.randrange(len(lines)), random.randrange(len(lines))
    lines[i], lines[j] = lines[j], lines[i]
    return b"\n".join(lines)


def long_line(random: random.Random, data: bytes) -> bytes:
    """A line of hundred thousands of characters."""
    place = random.randrange(len(data) + 1)
    filler = random.choice((b"x", b"9", b" ", b",", b"[", b'"', b"1 ", b"a.", b"#", b"\n"))
    return data[:place] + filler * random.choice((1000, 20_000, 100_000)) + data[place:]


def nested(random: random.Random, data: bytes) -> bytes:
    """A word in many brackets."""
    found = list(_WORD.finditer(data))
    if not found:
        return data
    at, depth = random.choice(found), random.choice((2, 30, 200, 330, 490, 1000, 30_000))
    left, right = random.choice(((b"[", b"]"), (b"(", b")"), (b"{a=", b"}"), (b"-", b"")))
    return data[: at.start()] + left * depth + at.group() + right * depth + data[at.end() :]


TEXT: tuple[Mutation, ...] = (
    *(word(NUMBERS), word(NUMBERS), word(NUMBERS), word(WORDS), swapped_words, swapped_words),
    *(line_lost, line_again, lines_swapped),
)
# Rarer: large files are slow to make, and one in some dozens is enough.
LARGE_TEXT: tuple[Mutation, ...] = (long_line, nested)
