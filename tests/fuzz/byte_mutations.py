"""Damage that needs to know nothing about a format."""

import random
from collections.abc import Callable, Sequence

Mutation = Callable[[random.Random, bytes], bytes]

MOST_BYTES = 2**18  # of a mutant: larger ones would test the disk; what explodes is made on purpose
_INTERESTING = (
    *(b"\0", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\r", b"\r\n", b"\x1a", b"\x0c", b"\xc0"),
    *(b"\xed\xa0\x80", b"\xf4\x90\x80\x80", "\u202e".encode(), "\u0660".encode(), b'"', b"'", b"#"),
    b"\x80\x04\x95\x0f\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x8c\x06system\x93.",  # a pickle
    b"cos\nsystem\n(S'true'\ntR.",
    b"__import__('os').system('true')",
    b"PK\x03\x04",
    b"PAR1",
    b"\x93NUMPY\x01\x00",
)
_NUMBERS = (0, 1, -1, 127, 255, 2**15 - 1, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 10**18)


def stretch(random: random.Random, size: int) -> slice:
    """Some place, mostly short."""
    begin = random.randrange(size + 1)
    longest = size if random.random() < 0.2 else 16
    return slice(begin, min(size, begin + random.randrange(1, longest + 2)))


def flip(random: random.Random, data: bytes) -> bytes:
    """A few bits."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 8)) if data else 0):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def cut(random: random.Random, data: bytes) -> bytes:
    """A stretch less."""
    gone = stretch(random, len(data))
    return data[: gone.start] + data[gone.stop :]


def truncate(random: random.Random, data: bytes) -> bytes:
    """As after a full disk."""
    return data[: random.randrange(len(data) + 1)]


def repeat(random: random.Random, data: bytes) -> bytes:
    """A stretch twice, or many times."""
    again = stretch(random, len(data))
    times = random.choice((1, 1, 2, 50, 1000))
    return data[: again.stop] + data[again] * times + data[again.stop :]


def insert(random: random.Random, data: bytes) -> bytes:
    """Bytes that parsers trip over."""
    place = random.choice((0, len(data), random.randrange(len(data) + 1)))
    return data[:place] + random.choice(_INTERESTING) + data[place:]


def overwrite(random: random.Random, data: bytes) -> bytes:
    """A number of two, four or eight bytes, as lengths and offsets are."""
    width = random.choice((2, 4, 8))
    number = random.choice(_NUMBERS) % 2 ** (8 * width)
    place = random.randrange(max(1, len(data) - width))
    order = random.choice(("little", "big"))
    return data[:place] + number.to_bytes(width, order) + data[place + width :]


def move(random: random.Random, data: bytes) -> bytes:
    """A stretch to another place."""
    part = stretch(random, len(data))
    rest = data[: part.start] + data[part.stop :]
    place = random.randrange(len(rest) + 1)
    return rest[:place] + data[part] + rest[place:]


BYTES: tuple[Mutation, ...] = (flip, flip, cut, truncate, repeat, insert, overwrite, move)


def splice(others: Sequence[bytes]) -> Mutation:
    """The beginning of one sound file and the end of another."""

    def spliced(random: random.Random, data: bytes) -> bytes:
        other = random.choice(others)
        return data[: random.randrange(len(data) + 1)] + other[random.randrange(len(other) + 1) :]

    return spliced
