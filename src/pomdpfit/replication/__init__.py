"""The paper's tables and figures and Rust's, from raw data, beside what was published."""

from pomdpfit.replication._plan import FULL, QUICK, TINY, Plan
from pomdpfit.replication._run import PARTS, reproduce

__all__ = ["FULL", "PARTS", "QUICK", "TINY", "Plan", "reproduce"]
