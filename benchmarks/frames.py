"""Reading frames: pf.Panel.from_frame beside what pandas takes to sort and count the same rows."""

import numpy as np
import pandas as pd

import pomdpfit as pf
from benchmarks.row import Row
from benchmarks.size import Size
from benchmarks.timing import side_by_side

_COLUMNS = {"agent": "bus", "time": "month", "observation": "z", "action": "replace"}


def rows(size: Size) -> list[Row]:
    """Ratios to a sort by agent and time and a count of each agent's rows, of the same frame."""
    plain = _frame(size.frame_rows, 100)
    shuffled = plain.sample(frac=1, random_state=0)
    text = plain.assign(
        bus=np.char.add("bus ", plain["bus"].to_numpy().astype(str)),
        month=pd.Timestamp("1980-01-31") + pd.to_timedelta(plain["month"], unit="D"),
    )
    return [
        _row(size, 5.0, "100 periods an agent", plain),
        _row(size, 3.0, "the same rows, shuffled", shuffled),
        _row(size, 4.0, "text ids and dates", text, freq="D"),
        _row(size, 20.0, "2 periods an agent", _frame(size.frame_rows, 2)),
        _row(size, 15.0, "with a covariate", plain, covariates=["price"]),
    ]


def _frame(count: int, periods: int) -> pd.DataFrame:
    rng, agents = np.random.default_rng(0), count // periods
    columns = {
        "bus": np.repeat(np.arange(agents), periods),
        "month": np.tile(np.arange(periods), agents),
        "z": rng.integers(0, 90, agents * periods),
        "replace": rng.integers(0, 2, agents * periods),
        "price": rng.normal(size=agents * periods),
    }
    return pd.DataFrame(columns)


def _row(size: Size, target: float, name: str, frame: pd.DataFrame, **options: object) -> Row:
    ours = lambda: pf.Panel.from_frame(frame, **_COLUMNS, **options).nobs
    pandas = lambda: (len(frame.sort_values(["bus", "month"])), len(frame.groupby("bus").size()))
    seconds = side_by_side({"ours": ours, "pandas": pandas}, size.repetitions)
    ratio, note = seconds["ours"] / seconds["pandas"], f"{seconds['ours']:.2g} s"
    name = f"from_frame, {len(frame):,} rows: {name}"
    return Row(name, ratio, "sort_values + groupby.size", target, note=note)
