"""The process that reads mutants: it may crash or hang, and whoever started it goes on."""

import os
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path

from tests.fuzz import memory
from tests.fuzz.all_kinds import KINDS
from tests.fuzz.judge import judge
from tests.fuzz.watch import Watch

_MOST_GROWTH = 2**31  # bytes of address space: a last resort, before the machine suffers


def work(pipe: Connection, seed: int) -> None:
    """Judge the mutants whose kind and number come through the pipe, until it says None."""
    os.environ["TZ"] = "UTC"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        for kind in KINDS.values():  # imports, compilations and caches come first
            for sound in kind.sound:
                (folder / sound.name).write_bytes(sound.content)
                kind.check(kind.read(folder / sound.name, sound), sound, sound.content, folder)
        watch = Watch()
        memory.limit_growth(_MOST_GROWTH)
        pipe.send("ready")
        while (task := pipe.recv()) is not None:
            kind_name, number = task
            pipe.send(judge(KINDS[kind_name], seed, number, folder, watch))
