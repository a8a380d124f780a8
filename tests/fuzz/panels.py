"""Panels as text: several layouts, as researchers have them."""

import csv
import functools
import gzip
import io
import random
import struct
import zlib
from pathlib import Path

import pomdpfit as pf
from tests.fuzz import panel_checks
from tests.fuzz.byte_mutations import BYTES, Mutation, splice
from tests.fuzz.kinds import Kind, Sound
from tests.fuzz.text_mutations import LARGE_TEXT, TEXT
from tests.malformed_inputs import COLUMNS
from tests.malformed_inputs import SOUND as SOUND_LINES

_PLAIN = "\n".join(SOUND_LINES) + "\n"
_WIDE = """\
line,bus,depot,month,bin,price,replace,remark
1,a,north,1980-01,low,1.5,keep,"said ""fine"", once"
2,a,north,1980-02,high,-2e-3,replace,
3,b,south,1979-12,low,0,keep,"two
lines"
4,b,south,1980-01,low,+7.25,,
"""
_QUOTED = """\
"bus";"month";"bin";"replace"\r
"007";"1";"3.0";"true"\r
"7";"1";"0";"false"\r
"7";"2";"1";"true"\r
"""
_HOLES = "replace\tbin\tmonth\tbus\nNA\t0\t3\tx\n1\t.\t4\tx\n0\t2\t6\tx\n1\t1\t7\tx\n0\t0\t1\ty\n"
_LATIN = "bus,month,bin,replace\nZ\u00fcrich,0,1,0\nZ\u00fcrich,1,2,1\nGen\u00e8ve,0,0,0\n"

_WIDE_OPTIONS = {
    **COLUMNS,
    "observations": ["low", "high"],
    "actions": ["keep", "replace"],
    "freq": "M",
    "group": "depot",
    "covariates": ["price"],
}
_HOLES_OPTIONS = {
    **COLUMNS,
    "delimiter": "\t",
    "missing": ["", "NA", "."],
    "repair": [pf.DropRows(), pf.SplitAtGaps(), pf.TopCode(1)],
}
SOUND = (
    Sound("plain.csv", _PLAIN.encode(), COLUMNS),
    Sound("wide.csv", _WIDE.encode(), _WIDE_OPTIONS),
    Sound("quoted.txt", _QUOTED.encode("utf-8-sig"), {**COLUMNS, "delimiter": ";"}),
    Sound("holes.tsv", _HOLES.encode(), _HOLES_OPTIONS),
    Sound("latin.csv", _LATIN.encode("cp1252"), {**COLUMNS, "encoding": "cp1252"}),
    Sound("wide.txt", _PLAIN.encode("utf-16"), {**COLUMNS, "encoding": "utf-16"}),
    Sound("packed.csv.gz", gzip.compress(_PLAIN.encode(), mtime=0), COLUMNS),
)


def packed(random: random.Random, data: bytes) -> bytes:
    """Text damaged before it is packed, as a packed file's own damage never gets that far."""
    if not data.startswith(b"\x1f\x8b") or len(data) > 10_000:
        return data
    try:
        inside = gzip.decompress(data)
    except (OSError, EOFError, struct.error, zlib.error):
        return data
    return gzip.compress(random.choice(TEXT)(random, inside), mtime=0)


def exploding(random: random.Random, data: bytes) -> bytes:
    """Many rows, blank lines or one long line in a small packed file."""
    if not data.startswith(b"\x1f\x8b") or random.random() < 0.8:
        return data
    return _exploding(random.choice((b"\n", b"x", b"4403,1,0,0\n", b'"', b"\0", b",", b"\r\n")))


@functools.lru_cache
def _exploding(each: bytes) -> bytes:
    stream = io.BytesIO()
    with gzip.GzipFile(fileobj=stream, mode="wb", mtime=0, compresslevel=1) as file:
        file.write(_PLAIN.encode())
        for _ in range(80):
            file.write(each * (2**20 // len(each)))
    return stream.getvalue()


_MUTATIONS: tuple[Mutation, ...] = (
    *(*BYTES, *TEXT, *TEXT, *LARGE_TEXT, packed, packed, splice([s.content for s in SOUND])),
    *(exploding,),
)


def _check(panel: pf.Panel, sound: Sound, content: bytes, folder: Path) -> None:
    panel_checks.check(panel, folder)
    if "repair" in sound.options:
        return  # rows may be gone on request
    text = gzip.decompress(content) if sound.name.endswith(".gz") else content
    decoded = text.decode(sound.options.get("encoding", "utf-8")).removeprefix("\ufeff")
    lines = io.StringIO(decoded, newline="\n")  # a mark alone on a line is no record
    records = csv.reader(lines, delimiter=sound.options.get("delimiter", ","))
    # No row is lost, none is made up.
    assert int(panel.present.sum()) == sum(1 for record in records if record) - 1


PANELS = Kind("panels", SOUND, _MUTATIONS, panel_checks.read, pf.PanelError, _check)
