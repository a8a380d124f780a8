"""The container: a zip without a clock in it, opened with suspicion."""

import io
import re
import zipfile

JSON = "estimate.json"
MOST_BYTES = 2**31  # of everything, unpacked
MOST_JSON = 2**28
_MEMBER = re.compile(r"estimate\.json|\d{4,8}\.npy")
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def zipped(files: dict[str, bytes]) -> bytes:
    """A zip without a clock, a user or a system in it."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in files.items():
            member = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            member.compress_type, member.create_system = zipfile.ZIP_DEFLATED, 3
            member.external_attr = 0o644 << 16
            archive.writestr(member, content)
    return stream.getvalue()


def members_of(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """What the zip's directory lists, refused by name and size before anything is unpacked."""
    members = {member.filename: member for member in archive.infolist()}
    strange = [name for name in members if not _MEMBER.fullmatch(name)]
    if strange:
        raise ValueError(f"it holds {strange[0]!r}, which is no part of an estimate.")
    if len(members) < len(archive.infolist()):
        raise ValueError("it holds two files of the same name.")
    if JSON not in members:
        raise ValueError(f"it has no {JSON}.")
    size = sum(member.file_size for member in members.values())
    if size > MOST_BYTES or members[JSON].file_size > MOST_JSON:
        raise ValueError(f"it would unpack to {size:,} bytes, more than an estimate may have.")
    if any(member.compress_type not in _PACKINGS for member in members.values()):
        raise ValueError("it is packed in another way than deflate.")
    return members


def unzipped(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """As many bytes as the directory lists: read() without a number could unpack far more."""
    with archive.open(member) as file:
        content = file.read(member.file_size)
    if len(content) != member.file_size:
        raise ValueError(f"{member.filename} is cut short.")
    return content
