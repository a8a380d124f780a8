"""A climb's place in a checkpoint: it survives Ctrl-C, and all but a second of it sudden death."""

import time
from pathlib import Path as FilePath
from typing import Any

from pomdpfit._fingerprint import fingerprint
from pomdpfit._types import Theta
from pomdpfit._write import write_atomically
from pomdpfit.estimators._climb_file import climb_bytes, read_climb, read_record, record_bytes
from pomdpfit.estimators._objective import Objective
from pomdpfit.estimators._record import Record, recorded
from pomdpfit.estimators._walk import Climb, Walk, attend

_INTERVAL = 1.0  # seconds between two writes of a climb under way
_SHARE = 0.05  # of the time, at most, is spent on writing


class KeptClimb:
    """Where one climb of a search is kept, finished or under way."""

    def __init__(self, folder: FilePath, stage: int, number: int) -> None:
        name = f"stage-{stage + 1}-start-{number + 1:03d}"
        self._done, self._begun = folder / f"{name}.zip", folder / f"{name}.begun.zip"
        self._record = Record()
        self._begins = ""
        self._due = time.monotonic() + _INTERVAL

    def found(self, theta: Theta, size: int) -> Climb | None:
        """The climb from theta over so many entries, if it was finished."""
        self._begins = fingerprint(theta)
        if self._done.exists():
            return read_climb(self._done, self._begins, size)
        if self._begun.exists():
            self._record = read_record(self._begun, self._begins, size)
        return None

    def attended(self, objective: Objective, walk: Walk) -> Climb:
        """The climb to its end, from where it was left, with the objective as it was left."""
        if self._record.answers:
            objective.start, objective.last = self._record.warm, self._record.last
        try:
            return attend(objective, self.recorded(walk, objective))
        except BaseException:
            self.keep()
            raise

    def recorded(self, walk: Walk, objective: Objective | None = None) -> Walk:
        """The climb from where it was left; what it is told further is kept from time to time."""

        def heard(answer: Any) -> None:
            # One assignment: whenever an interruption comes, answers and means go together.
            self._record = Record(
                (*self._record.answers, answer),
                None if objective is None else objective.start,
                None if objective is None else objective.last,
            )
            if time.monotonic() >= self._due:
                self.keep()

        return recorded(walk, self._record, heard)

    def keep(self) -> None:
        """Write what the climb has been told so far."""
        began = time.monotonic()
        if self._record.answers:
            write_atomically(self._begun, record_bytes(self._record, self._begins))
        now = time.monotonic()
        self._due = now + max(_INTERVAL, (now - began) / _SHARE)

    def finish(self, climb: Climb) -> None:
        """Write the finished climb in the place of the one under way."""
        write_atomically(self._done, climb_bytes(climb, self._begins))
        self._begun.unlink(missing_ok=True)
        self._record = Record()
