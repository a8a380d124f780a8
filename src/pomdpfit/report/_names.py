"""Names of tables and figures, which become those of files and links."""

import re

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")


def refuse_bad_name(kind: str, name: str) -> None:
    """Raise unless the name can be that of a file."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} cannot name a {kind}: it becomes the name of a file. Use small letters, "
            "digits, '_' and '-', a letter or a digit first."
        )
