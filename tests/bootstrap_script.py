"""A bootstrap with a checkpoint, to be killed: python bootstrap_script.py FOLDER OUT [MOMENT]

With a MOMENT such as "replace 3" it kills itself (SIGKILL) the third time that a file is about to
be moved into place; with "fsync 3" before the third file has reached the disk: moments that a
killer from outside would rarely meet.
"""

import os
import signal
import sys
from pathlib import Path

import pomdpfit as pf
from small_bus import bus_fit, draw_panel

REPLICATES, CHUNK, SEED = 30, 3, 11


def die_at(name: str, count: int) -> None:
    """Replace os.NAME by one that kills this process at its count-th call."""
    original, calls = getattr(os, name), []

    def fatal(*args):
        calls.append(args)
        if len(calls) == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*args)

    setattr(os, name, fatal)


def estimate():
    return bus_fit(draw_panel(0, agents=40), skip_hessian=True)


def main(folder: str, out: str, moment: str = "") -> None:
    est = estimate()
    if moment:
        name, count = moment.split()
        die_at(name, int(count))
    found = pf.bootstrap(est, REPLICATES, seed=SEED, chunk=CHUNK, checkpoint=folder)
    Path(out).write_text(found.to_json())


if __name__ == "__main__":
    main(*sys.argv[1:])
