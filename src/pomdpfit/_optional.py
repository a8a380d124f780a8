"""Optional packages: imported when they are needed, named with their extra when missing."""

import importlib
from types import ModuleType

from pomdpfit._errors import MissingExtraError


def import_extra(package: str, extra: str, purpose: str) -> ModuleType:
    """The package, or an error that says which extra brings it."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise MissingExtraError(
            f"{purpose} needs {package}, which is not installed or cannot be imported ({error}): "
            f"pip install 'pomdpfit[{extra}]'."
        ) from error
