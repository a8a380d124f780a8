"""The command line: one file a command. What is slow to import is imported inside them."""

from pomdpfit.cli._app import app

__all__ = ["app"]
