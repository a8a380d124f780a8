"""What a test of a hypothesis returns."""

import dataclasses

import numpy as np
from scipy.special import chdtrc


@dataclasses.dataclass(frozen=True)
class TestResult:
    """A test of a hypothesis; prints as a sentence."""

    name: str
    hypothesis: str
    statistic: float
    df: int | None
    pvalue: float
    note: str = ""

    __test__ = False  # a name that pytest would otherwise collect

    def __str__(self) -> str:
        df = "" if self.df is None else f"({self.df})"
        tail = f" {self.note}" if self.note else ""
        return (
            f"{self.name} of {self.hypothesis}: statistic{df} {self.statistic:.4f}, p-value "
            f"{self.pvalue:.4f}.{tail}"
        )


def chi_square_p(statistic: float, df: int) -> float:
    """P(chi2(df) > statistic); SciPy's `stats` says the same, but takes a second to import."""
    return float(chdtrc(df, max(statistic, 0.0))) if df > 0 else np.nan
