"""One mutant: made, read under watch, and judged."""

import dataclasses
import time
import warnings
from pathlib import Path

from tests.fuzz import memory
from tests.fuzz.kinds import Kind
from tests.fuzz.watch import Forbidden, Watch

MOST_MEMORY = 2**28  # bytes above what was in use before
SLOWEST = 10.0  # seconds of the processor's time: the machine may be busy
_LONGEST = 3000  # characters of a message: the file is not to be printed

PARSED, REFUSED = "parsed", "refused"


@dataclasses.dataclass(frozen=True)
class Verdict:
    """`parsed` and `refused` are as it should be; any other outcome is a finding."""

    outcome: str
    says: str = ""
    seconds: float = 0.0
    memory: int = 0

    @property
    def finding(self) -> bool:
        """Whether something must be mended."""
        return self.outcome not in {PARSED, REFUSED}


def judge(kind: Kind, seed: int, number: int, folder: Path, watch: Watch) -> Verdict:
    """What comes of mutant `number`."""
    sound, content = kind.mutant(seed, number)
    path = folder / sound.name
    path.write_bytes(content)
    before, begun = memory.begin_peak(), time.process_time()
    outcome, says, answer = PARSED, "", None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with watch.during(path):
                answer = kind.read(path, sound)
        except kind.error as error:
            outcome, says = REFUSED, str(error)
            if str(path) not in says:
                outcome = "refused without the file's name"
            elif len(says) > _LONGEST:
                outcome = "refused at length"
            elif _short_of_memory(error):
                outcome = "memory"
        except Forbidden as error:
            outcome, says = "forbidden", str(error)
        except Exception as error:  # the very thing that is looked for
            outcome, says = "another exception", f"{type(error).__name__}: {error}"
        seconds, taken = time.process_time() - begun, max(0, memory.peak() - before)
        if watch.seen:
            outcome, says = "forbidden", watch.seen[0]
        elif seconds > SLOWEST:
            outcome = "slow"
        elif taken > MOST_MEMORY:
            outcome = "memory"
        elif outcome == PARSED:
            try:
                kind.check(answer, sound, content, folder)
            except Exception as error:
                outcome, says = "wrong answer", f"{type(error).__name__}: {error}"
        elif number < len(kind.sound):
            outcome = "a sound file is refused"
    return Verdict(outcome, says[:500], seconds, taken)


def _short_of_memory(error: BaseException | None) -> bool:
    """Whether a refusal stands for memory that was not to be had."""
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        error = error.__cause__
    return False
