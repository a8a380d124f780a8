"""What is spoiled, how it is read, and what must hold of an answer."""

import dataclasses
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.fuzz.byte_mutations import MOST_BYTES, Mutation


@dataclasses.dataclass(frozen=True)
class Sound:
    """A small sound file, and how it is to be read."""

    name: str
    content: bytes
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Kind:
    """Files of one kind.

    read      the public reader: from path and sound file to what was read
    error     what alone it may raise, with the file's name in the message
    check     what must hold of an answer; raises AssertionError. It may write in the folder
    """

    name: str
    sound: Sequence[Sound]
    mutations: Sequence[Mutation]
    read: Callable[[Path, Sound], Any]
    error: type[Exception]
    check: Callable[[Any, Sound, bytes, Path], None]

    def mutant(self, seed: int, number: int) -> tuple[Sound, bytes]:
        """The same file for the same seed and number; the first are the sound ones themselves."""
        if number < len(self.sound):
            return self.sound[number], self.sound[number].content
        chance = random.Random(f"{seed}/{self.name}/{number}")
        sound = chance.choice(self.sound)
        content = sound.content
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            content = chance.choice(self.mutations)(chance, content)
        # What the last mutation made to explode is small; what is large is merely long.
        return sound, content[: 8 * MOST_BYTES]
