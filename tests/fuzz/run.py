"""A whole run: mutants handed to a worker one by one, hangs and crashes noticed, all counted."""

import collections
import contextlib
import dataclasses
import multiprocessing
from collections.abc import Callable
from pathlib import Path

from tests.fuzz.all_kinds import KINDS, SHARES
from tests.fuzz.judge import Verdict
from tests.fuzz.worker import work

_PATIENCE = 120.0  # seconds for a mutant to be made, read and checked
_START = 300.0  # and to import everything and read the sound files, on a busy machine


class Worker:
    """A process with a pipe; one that dies or hangs is replaced by a new one."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=work, args=(theirs, self._seed), daemon=True)
        self._process.start()
        theirs.close()
        if not self._pipe.poll(_START) or self._pipe.recv() != "ready":
            raise RuntimeError("the worker does not start.")

    def judge(self, kind: str, number: int) -> Verdict:
        """What comes of one mutant."""
        self._pipe.send((kind, number))
        hangs = not self._pipe.poll(_PATIENCE)
        try:
            if not hangs:
                return self._pipe.recv()
        except (EOFError, ConnectionError):
            pass
        self._process.kill()
        self._process.join()
        code = self._process.exitcode
        self._start()
        return Verdict("hang") if hangs else Verdict("crash", f"exit code {code}")

    def close(self) -> None:
        """End the process."""
        with contextlib.suppress(OSError):
            self._pipe.send(None)
        self._process.join(10)
        self._process.kill()


@dataclasses.dataclass
class Tally:
    """What came of the mutants of one kind."""

    outcomes: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    seconds: float = 0.0
    slowest: float = 0.0
    memory: int = 0
    findings: list[tuple[int, Verdict]] = dataclasses.field(default_factory=list)

    def add(self, number: int, verdict: Verdict) -> None:
        """One more."""
        self.outcomes[verdict.outcome] += 1
        self.seconds += verdict.seconds
        self.slowest = max(self.slowest, verdict.seconds)
        self.memory = max(self.memory, verdict.memory)
        if verdict.finding:
            self.findings.append((number, verdict))

    def __str__(self) -> str:
        counts = ", ".join(f"{name}: {count}" for name, count in sorted(self.outcomes.items()))
        return (
            f"{counts}; reading took {self.seconds:.0f} s, at most {self.slowest:.2f} s and "
            f"{self.memory / 2**20:.0f} MiB for one file"
        )


def numbers(files: int, kind: str) -> range:
    """The mutants of a kind in a run of so many files."""
    return range(round(files * SHARES[kind]))


def run(
    files: int,
    seed: int,
    keep: Path | None = None,
    kinds: tuple[str, ...] = tuple(KINDS),
    tell: Callable[[str], None] = lambda text: None,
) -> dict[str, Tally]:
    """Judge `files` mutants, shared among the kinds; files with findings are kept in a folder."""
    tallies = {kind: Tally() for kind in kinds}
    with contextlib.closing(Worker(seed)) as worker:
        for kind, tally in tallies.items():
            for number in numbers(files, kind):
                verdict = worker.judge(kind, number)
                tally.add(number, verdict)
                if verdict.finding:
                    tell(f"{kind} {number}: {verdict.outcome}: {verdict.says}")
                    if keep is not None:
                        _keep(keep, kind, seed, number, verdict)
            tell(f"{kind}: {tally}")
    return tallies


def _keep(folder: Path, kind: str, seed: int, number: int, verdict: Verdict) -> None:
    """The file, under a name that says how to make it again, and what was found."""
    sound, content = KINDS[kind].mutant(seed, number)
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / f"{kind}-{seed}-{number}-{sound.name}"
    place.write_bytes(content)
    place.with_name(f"{place.name}.why").write_text(f"{verdict.outcome}: {verdict.says}\n")
