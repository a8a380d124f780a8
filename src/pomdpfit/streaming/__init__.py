"""Panels larger than memory: Parquet data sets, read chunk by chunk at every evaluation."""

from pomdpfit.streaming._scan import PanelScan
from pomdpfit.streaming._simulate_parquet import simulate_parquet
from pomdpfit.streaming._streamed_likelihood import StreamedLikelihood

__all__ = ["PanelScan", "StreamedLikelihood", "simulate_parquet"]
