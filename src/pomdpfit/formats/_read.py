"""read_pomdp(): a .POMDP file as a model."""

from collections.abc import Sequence
from pathlib import Path

from pomdpfit._errors import PomdpFileError
from pomdpfit.formats._parse import Source, parse
from pomdpfit.formats._tables import make_tables
from pomdpfit.models.pomdp_file import PomdpFile

MOST_BYTES = 8 * 2**20


def read_pomdp(path: str | Path, *, free: Sequence[str] = (), scale: float = 1.0) -> PomdpFile:
    """The model in a file of Cassandra's .POMDP format.

    free     leaves of theta to be estimated: "reward.listen", or "reward", "observation",
             "transition" for those of every action; all are fixed otherwise
    scale    of the Gumbel shocks, which the format knows nothing of

    Costs become negative rewards, and `model.prior()` is the file's start. Nothing is renormalised
    or guessed: a file that is not what it should be raises `PomdpFileError` with line and column.
    """
    path = Path(path)
    with path.open("rb") as stream:
        content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise PomdpFileError(
            f"{path}: the file has more than {MOST_BYTES:,} bytes, the most that is read. Write "
            "matrices instead of single entries, or lump states together."
        )
    # Comments may hold anything; where it counts, a byte that is not text is refused by its place.
    text = content.decode("utf-8-sig", errors="replace")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    source = Source(str(path), text)
    tables = make_tables(parse(text, source.path), source)
    return PomdpFile(*tables, free=free, scale=scale)
