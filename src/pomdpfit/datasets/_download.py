"""Rust's raw files, fetched once into the user's cache from where they are republished."""

import os
from pathlib import Path

from pomdpfit._errors import DatasetError
from pomdpfit.datasets._raw_files import RAW_FILES, checked_numbers

# OpenSourceEconomics/zurcher-data, version 0.14 (MIT licence).
URL = (
    "https://raw.githubusercontent.com/OpenSourceEconomics/zurcher-data/"
    "43d37bd1d24a0a6c6e73e747545ad490d1f7f95b/data/original_data/"
)
_CACHE = "POMDPFIT_CACHE"
_SECONDS = 20  # before a silent server is given up


def downloaded(groups: tuple[int, ...]) -> Path:
    """The folder of the cache, with the files of these groups in it, checked."""
    try:
        import pooch
    except ImportError:
        raise DatasetError("downloading needs pooch: pip install 'pomdpfit[data]'.") from None
    folder = Path(os.environ.get(_CACHE) or pooch.os_cache("pomdpfit")) / "rust1987"
    for group in groups:
        if not _sound(folder, group):
            _fetch(folder, group)
    return folder


def _sound(folder: Path, group: int) -> bool:
    try:
        checked_numbers(folder / RAW_FILES[group].name, group)
    except DatasetError:
        return False
    return True


def _fetch(folder: Path, group: int) -> None:
    """Download one file; a wrong one does not stay in the cache."""
    import pooch

    name = RAW_FILES[group].name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise DatasetError(
            f"the cache {folder} cannot be written ({error}): name another in {_CACHE}."
        ) from error
    # The numbers are checked, not the bytes: copies differ in white space.
    files = pooch.create(path=folder, base_url=URL, registry={name: None})
    try:
        files.fetch(name, downloader=pooch.HTTPDownloader(timeout=_SECONDS))
        checked_numbers(folder / name, group)
    except DatasetError:
        (folder / name).unlink(missing_ok=True)
        raise
    except (OSError, ValueError) as error:  # requests' errors are OSErrors
        raise DatasetError(
            f"{name} could not be downloaded from {URL} ({type(error).__name__}): is there a "
            "network?"
        ) from error
