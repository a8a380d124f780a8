"""Damage inside a saved fit: the zip stays one, with right checksums, so that readers get far."""

import copy
import io
import json
import random
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

from tests.fuzz.byte_mutations import BYTES, Mutation

Members = list[tuple[str, bytes]]
_JSON = "estimate.json"
_LARGEST = 2**21  # bytes unpacked: sound fits have a tenth of that
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2.5, 10**6, 2**31, 2**63, 10**400, 1e308, -0.0, "", "x", [], {}),
    *(
        [[]],
        [1, 2, 3],
        [None],
        {"tuple": []},
        {"tuple": "abc"},
        {"mapping": [[1, 2]]},
        "<f8",
        "0000.npy",
    ),
    *(
        {"array": "0000.npy"},
        {"array": "9999.npy"},
        {"array": {"distinct": [], "codes": "0000.npy"}},
    ),
    *({"float": "nan"}, {"float": "1e999"}, {"float": 3}, {"numpy": ["<f8", "1.5"]}, {"Panel": {}}),
    *(
        {"numpy": ["O", 1]},
        {"numpy": ["(2,2)<f8", 1]},
        {"numpy": ["<i8", [1, 2]]},
        {"numpy": ["<M8[D]", 1]},
    ),
    *({"numpy": ["M8[999999999Y]", 2**62]}, {"timestamp": ["ns", 2**63 - 1, "../../etc/passwd"]}),
    *(
        {"timestamp": ["s", 2**62, "UTC"]},
        {"timestamp": ["ns", 1, 1e9]},
        {"timestamp": ["ns", 0, "No/where"]},
    ),
    *(
        {"period": [2**62, "D"]},
        {"period": [1, "import os"]},
        {"period": ["1", "M"]},
        {"date": "0000-00-00"},
    ),
    *({"datetime": ["2001-01-01", 7, None]}, {"result": "SUCCESS"}, {"result": "__class__"}),
    *(
        {"os.system": {}},
        {"Tiger": {}},
        {"Tabular": {}},
        {"Estimate": {}},
        {"Real": {}},
        {"Interval": {}},
    ),
    *(
        {"EngineReplacement": {"bins": 10**6, "conditions": 10**6, "increments": 2}},
        {"Smooth": {"nodes": -1}},
    ),
    *(
        {"EngineReplacement": {"bins": "a" * 100}},
        {"BusEngine": {"bins": 10**6, "increments": 10**6}},
    ),
    *({"frame": {"index": [[None], [0, 10**15, 1]], "columns": []}}, {"Grouped": {"model": None}}),
    *(
        {"eval": "1"},
        {"py/object": "os.system"},
        {"$type": "x"},
        "\ud800",
        "\0",
        "../../x",
        "x" * 5000,
    ),
)
_HEADERS = (
    *(
        "{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }",
        "{'descr': '|O', 'shape': (1,)}",
    ),
    *(
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }",
        "",
        "{",
        "()",
        "None",
    ),
    *(
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }",
        "__import__('os').system('true')",
    ),
    *(
        "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 9223372036854775807), }",
        "-" * 9000 + "1",
    ),
    *("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,), }", "(" * 150 + ")" * 150),
    *("{'descr': '<f2', 'fortran_order': True, 'shape': (), }", "[" * 5000, "{'descr': '<U9'}"),
    *("{'descr': '>f8', 'fortran_order': False, 'shape': (True,), }", "'\\d'", "1 is 1", "9L"),
    *("{'descr': '|V0', 'fortran_order': False, 'shape': (5,), }", "9" * 5000, "{1:1, [2]:2}"),
)


def members(data: bytes) -> Members | None:
    """What a zip holds; None where it no longer is one, or was made to explode."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(member.file_size for member in archive.infolist()) > _LARGEST:
                return None
            return [(name, archive.read(name)) for name in archive.namelist()]
    except (OSError, EOFError, ValueError, LookupError, RuntimeError, struct.error, zlib.error):
        return None
    except zipfile.BadZipFile:
        return None


def zipped(files: Members) -> bytes:
    """A zip with right checksums, whatever it holds."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files:
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content)
    return stream.getvalue()


def _nodes(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a tree of JSON: its holder, and its key there."""
    todo = [tree]
    while todo:
        holder = todo.pop()
        keys = list(holder) if isinstance(holder, dict) else range(len(holder))
        for key in keys:
            yield holder, key
            if isinstance(holder[key], dict | list):
                todo.append(holder[key])


def json_value(random: random.Random, files: Members) -> Members:
    """A few values in the JSON are others, are gone, come from elsewhere, or have another key."""
    place, text = _json_of(files)
    tree = json.loads(text)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        nodes = list(_nodes(tree))
        if not nodes:
            break
        _spoil(random, *random.choice(nodes), random.choice(nodes))
    spoiled = json.dumps(tree, sort_keys=True).encode()
    return [*files[:place], (_JSON, spoiled), *files[place + 1 :]]


def _spoil(random: random.Random, holder: Any, key: Any, other: tuple[Any, Any]) -> None:
    way = random.randrange(5)
    if way <= 1:
        holder[key] = copy.deepcopy(random.choice(_VALUES))
    elif way == 2:
        holder[key] = copy.deepcopy(other[0][other[1]])  # a tree must not hold itself
    elif way == 3:
        del holder[key]
    elif isinstance(holder, dict):
        holder[random.choice(("Panel", "tuple", "x", "model", "array", "Estimate"))] = holder.pop(
            key
        )
    else:
        holder.append(copy.deepcopy(holder[key]))


def json_text(random: random.Random, files: Members) -> Members:
    """The JSON as text is damaged, nested or blown up."""
    place, text = _json_of(files)
    if random.random() < 0.7:
        spoiled = random.choice(BYTES)(random, text)
    else:
        word = random.choice(
            (b"NaN", b"-Infinity", b"1e999", b"9" * 5000, b"[" * 50_000, b'{"a":' * 2000)
        )
        at = text.find(random.choice((b'"seed": ', b'"gain": ', b'"theta": ')))
        spoiled = text[: at + 8] + word + text[at + 8 :]
    return [*files[:place], (_JSON, spoiled), *files[place + 1 :]]


def array(random: random.Random, files: Members) -> Members:
    """An array has another header, other data, or another array's."""
    arrays = [k for k, (name, _) in enumerate(files) if name.endswith(".npy")]
    if not arrays:
        return files
    k = random.choice(arrays)
    name, content = files[k]
    way = random.randrange(4)
    if way == 0:
        header = random.choice(_HEADERS).encode() + b"\n"
        content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + content[128:]
    elif way == 1:
        content = files[random.choice(arrays)][1]
    elif way == 2:
        content = content.replace(
            *random.choice(((b"<f8", b"<i8"), (b"<i8", b"<f8"), (b"|b1", b"|i1")))
        )
    else:
        content = random.choice(BYTES)(random, content)
    return [*files[:k], (name, content), *files[k + 1 :]]


def member(random: random.Random, files: Members) -> Members:
    """A file more, a file less, or one under another name."""
    k = random.randrange(len(files)) if files else 0
    strange = (
        "../../pwned",
        "/etc/passwd",
        "C:\\x",
        "0000.npy",
        _JSON,
        "estimate.pkl",
        "a/",
        "__init__.py",
    )
    way = random.randrange(3)
    if way == 0 or not files:
        return [*files, (random.choice(strange), b"import os")]
    if way == 1:
        return files[:k] + files[k + 1 :]
    return [*files[:k], (random.choice(strange), files[k][1]), *files[k + 1 :]]


def exploding(random: random.Random, files: Members) -> Members:
    """A member that packs to a thousandth."""
    if random.random() < 0.95 or not files:
        return files
    k, size = random.randrange(len(files)), random.choice((2**24, 2**28))
    fill = random.choice((b"\0", b"[],", b" ", b"1"))
    return [*files[:k], (files[k][0], fill * (size // len(fill))), *files[k + 1 :]]


def _json_of(files: Members) -> tuple[int, bytes]:
    for place, (name, content) in enumerate(files):
        if name == _JSON:
            return place, content
    return len(files), b"{}"


def _inside(change: Any) -> Mutation:
    """A change of the members as one of the bytes."""

    def changed(random: random.Random, data: bytes) -> bytes:
        files = members(data)
        if files is None:
            return data
        try:
            return zipped(change(random, files))
        except (ValueError, RecursionError):  # JSON that an earlier mutation has spoiled
            return data

    return changed


ZIP: tuple[Mutation, ...] = (
    *(_inside(json_value),) * 5,
    *(_inside(change) for change in (json_text, array, array, member, exploding)),
)
