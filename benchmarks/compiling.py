"""How long a new process waits before a first fit works: imports, tracing, lowering, compiling.

What a user waits for: the imports, and how much longer the first fit takes than a second one in the
same process. With an empty folder of compiled programs, and with the folder that the process
before filled. Each is the least of several, as all figures are. The note gives what JAX reports;
compilations run side by side, so that their sum may be more than the whole.
"""

import tempfile
from pathlib import Path

from benchmarks.process import ProcessError, run_module
from benchmarks.row import Row
from benchmarks.size import FULL, Size

_TIMES = 4


def rows(size: Size) -> list[Row]:
    """The two-stage fit of group 4 in fresh processes."""
    with tempfile.TemporaryDirectory() as folder:
        empty = [Path(folder) / str(k) for k in range(_TIMES)]
        return [
            _row("nothing on disk", 10.0, size, empty),
            _row("compiled programs on disk", 3.0, size, empty),  # filled by now
        ]


def _row(name: str, target: float, size: Size, folders: list[Path]) -> Row:
    """The quickest of several, one after the other; and the slowest, in words."""
    scale = "full" if size == FULL else "tiny"
    try:
        runs = [run_module("benchmarks.first_fit", scale, "group4", str(f)) for f in folders]
    except ProcessError as error:
        return Row(f"first fit, {name}", None, "s", target, note=str(error))
    waited = lambda run: run["imports"] + run["first"] - run["second"]
    found, slowest = min(runs, key=waited), max(map(waited, runs))
    note = (
        f"imports {found['imports']:.1f}, tracing {found['tracing']:.1f}, "
        f"lowering {found['lowering']:.1f}, compiling {found['compiling']:.1f} s; "
        f"{found['programs']} programs; the fits took {found['first']:.1f} and "
        f"{found['second']:.1f} s. Of {len(runs)} runs; the slowest {slowest:.1f} s"
    )
    return Row(f"first fit, {name}: before work starts", waited(found), "s", target, note=note)
