"""What the files of this folder tell one another."""


class UnspelledError(Exception):
    """Something has no text that says all of it."""
