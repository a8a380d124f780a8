"""How long a new process waits before a first fit works: imports, tracing, lowering, compiling.

What a user waits for: the imports, and how much longer the first fit takes than a second one in the
same process. Once with an empty folder of compiled programs, once with the folder that the first
process filled. The note gives what JAX reports; compilations run side by side, so that their sum
may be more than the whole.
"""

import tempfile

from benchmarks.process import ProcessError, run_module
from benchmarks.row import Row
from benchmarks.size import FULL, Size


def rows(size: Size) -> list[Row]:
    """The two-stage fit of group 4 in two fresh processes."""
    scale = "full" if size == FULL else "tiny"
    out = []
    with tempfile.TemporaryDirectory() as folder:
        for name, target in (("nothing on disk", 10.0), ("compiled programs on disk", 3.0)):
            try:
                found = run_module("benchmarks.first_fit", scale, "group4", folder)
            except ProcessError as error:
                out.append(Row(f"first fit, {name}", None, "s", target, note=str(error)))
                continue
            out.append(_row(name, target, found))
    return out


def _row(name: str, target: float, found: dict) -> Row:
    overhead = found["imports"] + found["first"] - found["second"]
    note = (
        f"imports {found['imports']:.1f}, tracing {found['tracing']:.1f}, "
        f"lowering {found['lowering']:.1f}, compiling {found['compiling']:.1f} s; "
        f"{found['programs']} programs; the fits took {found['first']:.1f} and "
        f"{found['second']:.1f} s"
    )
    return Row(f"first fit, {name}: before work starts", overhead, "s", target, note=note)
