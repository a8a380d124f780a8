"""The container: a zip without a clock in it, sealed with its digest, opened with suspicion."""

import hashlib
import io
import re
import zipfile
from typing import IO

MOST_BYTES = 2**31  # of everything, unpacked
MOST_JSON = 2**28
_SEAL, _HEX, _BLOCK = b"sha256:", 64, 2**20
# Bytes that may always be unpacked, and beyond that how many times the packed size. Text becomes
# objects of twenty times its size. Masks pack to a thousandth, but not what they are masks of.
_ARRAYS, _TEXT = (2**26, 200), (2**22, 50)
_ARRAY = re.compile(r"\d{4,8}\.npy")
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def zipped(files: dict[str, bytes], what: str) -> bytes:
    """A zip without a clock, a user or a system in it.

    Numbers that pack so well that they would be taken for a bomb are not packed.
    """
    packed = _zipped(files, zipfile.ZIP_DEFLATED)
    try:
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            members_of(archive, what)
    except ValueError:
        return _zipped(files, zipfile.ZIP_STORED)
    return packed


def _zipped(files: dict[str, bytes], packing: int) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in files.items():
            member = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            member.compress_type, member.create_system = packing, 3
            member.external_attr = 0o644 << 16
            archive.writestr(member, content)
        archive.comment = _SEAL + b"0" * _HEX
    return _with_digest(stream.getvalue())


def _with_digest(content: bytes) -> bytes:
    """The zip's comment, which is its end, says what all before it hashes to."""
    return content[:-_HEX] + hashlib.sha256(content[:-_HEX]).hexdigest().encode()


def check_seal(archive: zipfile.ZipFile, stream: IO[bytes], *, needed: bool) -> None:
    """Refuse a file that is not what its digest says, or has none where one is `needed`."""
    if not archive.comment and not needed:
        return
    left = stream.seek(0, io.SEEK_END) - _HEX
    if left > 2 * MOST_BYTES:
        raise ValueError(f"it has more than {2 * MOST_BYTES:,} bytes.")
    stream.seek(0)
    found = hashlib.sha256()
    while left > 0:
        block = stream.read(min(left, _BLOCK))
        if not block:
            break
        found.update(block)
        left -= len(block)
    told = archive.comment.startswith(_SEAL) and stream.read(_HEX + 1)
    if told != found.hexdigest().encode():
        raise ValueError("it is not what its digest says: it was cut short or altered.")


def members_of(archive: zipfile.ZipFile, what: str) -> dict[str, zipfile.ZipInfo]:
    """What the zip's directory lists, refused by name and size before anything is unpacked."""
    members = {member.filename: member for member in archive.infolist()}
    document = f"{what}.json"
    strange = [name for name in members if name != document and not _ARRAY.fullmatch(name)]
    if strange:
        raise ValueError(f"it holds {strange[0]!r}, which is no part of such a file.")
    if len(members) < len(archive.infolist()):
        raise ValueError("it holds two files of the same name.")
    if document not in members:
        raise ValueError(f"it has no {document}.")
    text, size = members[document], sum(member.file_size for member in members.values())
    if size > MOST_BYTES or text.file_size > MOST_JSON:
        raise ValueError(f"it would unpack to {size:,} bytes, more than such a file may have.")
    _refuse_exploding(size, sum(m.compress_size for m in members.values()), _ARRAYS)
    _refuse_exploding(text.file_size, text.compress_size, _TEXT)
    if any(member.compress_type not in _PACKINGS for member in members.values()):
        raise ValueError("it is packed in another way than deflate.")
    return members


def _refuse_exploding(size: int, packed: int, limit: tuple[int, int]) -> None:
    """Refuse what unpacks to far more than numbers and names of this size do."""
    free, ratio = limit
    if size > max(free, ratio * packed):
        raise ValueError(
            f"it would unpack from {packed:,} bytes to {size:,}, more than such a file does."
        )


def unzipped(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """As many bytes as the directory lists: read() without a number could unpack far more."""
    with archive.open(member) as file:
        content = file.read(member.file_size)
    if len(content) != member.file_size:
        raise ValueError(f"{member.filename} is cut short.")
    return content
