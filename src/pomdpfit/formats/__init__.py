"""Models as files of other programs."""

from pomdpfit.formats._read import read_pomdp
from pomdpfit.formats._write import write_pomdp

__all__ = ["read_pomdp", "write_pomdp"]
