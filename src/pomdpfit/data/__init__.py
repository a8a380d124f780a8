"""Data in: a researcher's file or frame becomes a panel, or a clear refusal."""
