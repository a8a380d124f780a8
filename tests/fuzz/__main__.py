"""`python -m tests.fuzz --files 100000 --seed 0`: says what was found, and fails if anything."""

import argparse
import functools
import sys
from pathlib import Path

from tests.fuzz.all_kinds import KINDS
from tests.fuzz.run import run


def main() -> int:
    """The number of findings, at most 1, as the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--files", type=int, default=100_000, help="how many, over all kinds")
    parser.add_argument("--seed", type=int, default=0, help="other mutants for another seed")
    parser.add_argument("--kind", choices=list(KINDS), action="append", help="this kind alone")
    parser.add_argument("--keep", type=Path, help="folder for the files with findings")
    given = parser.parse_args()
    tell = functools.partial(print, flush=True)
    tallies = run(given.files, given.seed, given.keep, tuple(given.kind or KINDS), tell)
    found = sum(len(tally.findings) for tally in tallies.values())
    print(f"{found} findings")
    return min(found, 1)


if __name__ == "__main__":
    sys.exit(main())
