"""What can be told apart locally: ranks, the directions without effect, and why."""

from pomdpfit.identification.rank._designs import Design
from pomdpfit.identification.rank._identification import Identification
from pomdpfit.identification.rank._identify import identify
from pomdpfit.identification.rank._local_rank import Rank

__all__ = ["Design", "Identification", "Rank", "identify"]
