"""Every malformed input we know of, what it must be told, and the page that lists them.

`python -m tests.malformed_inputs` writes docs/malformed_input.md from these cases; test_data_in.py
runs each and checks that the page is what they give now.
"""

import contextlib
import dataclasses
import gzip
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

import pomdpfit as pf
from tests.extreme_models import EXTREMES, Extreme, outcome_of

PAGE = Path(__file__).parents[1] / "docs" / "malformed_input.md"
COLUMNS = {"agent": "bus", "time": "month", "observation": "bin", "action": "replace"}
SOUND = """\
bus,month,bin,replace
4403,1,0,0
4403,2,1,0
4403,3,2,1
4404,1,0,1
4404,2,0,
""".splitlines()
HEADER = SOUND[0]


@dataclasses.dataclass(frozen=True)
class Case:
    """An input, and words that its outcome must hold."""

    title: str
    content: bytes | pd.DataFrame | Callable[[], bytes]
    outcome: str  # "refused", "accepted" or "problem", which check_panel reports
    words: tuple[str, ...]
    shows: str = ""
    options: dict = dataclasses.field(default_factory=dict)
    name: str = "buses.csv"
    model: Callable[[], pf.Model] | None = None
    until: str = ""  # what follows is another library's, and differs between its versions


def run(case: Case) -> tuple[str, str]:
    """The outcome of a case, and what is said."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        try:
            panel = _read(case)
        except pf.PanelError as error:
            return "refused", str(error)
    if case.model is not None:
        check = pf.check_panel(panel, case.model())
        if not check.ok:
            return "problem", "; ".join(f"{k}: {s}" for k, s in _told(check.problems))
        return "accepted", "; ".join(check.notes["says"])
    return "accepted", "; ".join(panel.notes)


def _told(problems: pd.DataFrame) -> list[tuple[str, str]]:
    return list(zip(problems["kind"], problems["says"], strict=True))


def _read(case: Case) -> pf.Panel:
    options = COLUMNS | case.options
    if case.model is not None:
        options["model"] = case.model()
    if isinstance(case.content, pd.DataFrame):
        return pf.Panel.from_frame(case.content, **options)
    content = case.content if isinstance(case.content, bytes) else case.content()
    Path(case.name).write_bytes(content)
    return pf.read_panel(case.name, **options)


def line(number: int, text: str, title: str, outcome: str, *words: str, **more) -> Case:
    """A sound file with one line changed."""
    lines = list(SOUND)
    lines[number - 1] = text
    content = ("\n".join(lines) + "\n").encode()
    return Case(title, content, outcome, words, f"line {number}: {text}", more)


def whole(
    content: str | bytes | Callable[[], bytes],
    title: str,
    outcome: str,
    *words: str,
    shows: str = "",
    **more,
) -> Case:
    """A file of its own."""
    content = content.encode() if isinstance(content, str) else content
    name = more.pop("name", "buses.csv")
    model, until = more.pop("model", None), more.pop("until", "")
    return Case(title, content, outcome, words, shows, more, name, model, until)


def frame(title: str, outcome: str, *words: str, shows: str = "", options=None, **changes) -> Case:
    """A pandas frame with a column changed."""
    data = {"bus": ["a", "a", "b"], "month": [1, 2, 1], "bin": [0, 1, 0], "replace": [0, 1, 1]}
    changes = {name: pd.Series(values, dtype=object) for name, values in changes.items()}
    return Case(title, pd.DataFrame(data | changes), outcome, words, shows, options or {})


def rows(*lines: str) -> str:
    """A header and these lines."""
    return "\n".join([HEADER, *lines]) + "\n"


def engine() -> pf.Model:
    """Twelve bins, at most two a month."""
    return pf.models.EngineReplacement(bins=12, increments=3, discount=0.95)


def sound(newline: str = "\n") -> str:
    """The sound file."""
    return newline.join(SOUND) + newline


def exploding() -> bytes:
    """Long lines of zeros, packed a thousandfold."""
    zeros = b",".join([b"0" * 100_000] * 8) + b"\n"
    return gzip.compress(HEADER.encode() + b"\n" + zeros * 105, mtime=0)


TIME = [
    line(4, "4403,4,2,1", "gap in time", "refused", "buses.csv", "line 4", "'4403'", "month 4",
         "gap", "SplitAtGaps"),
    line(4, "4403,2,2,1", "agent and time twice", "refused", "line 4", "'4403'", "month 2", "twice",
         "keep one"),
    whole(rows("4403,2,1,0", "4403,1,0,0", "4404,1,0,1"), "unsorted rows", "accepted", "sorted",
          shows="month 2 before month 1"),
    whole(rows("1,8,0,0", "1,9,1,0", "1,10,0,1"), "a period that is a word for no value",
          "accepted", shows="missing=['9'], month 9", missing=["9"]),
    line(3, "4403,,1,0", "missing time", "refused", "line 3", "'month'", "missing"),
    line(3, "4403,2.5,1,0", "fractional time", "refused", "line 3", "2.5", "whole number"),
    line(3, "4403,1980-02,1,0", "dates without a declared frequency", "refused", "line 3",
         "'1980-02'", "freq="),
    whole(rows("4403,01/02/1980,0,0", "4403,01/03/1980,0,0"), "dates that can be read two ways",
          "refused", "line 2", "01/02/1980", "year", shows="line 2: 4403,01/02/1980,0,0", freq="M"),
    whole(rows("4403,1980-01,0,0", "4403,1980-04,0,0"), "gap between dates", "refused", "line 3",
          "1980-04", "gap", shows="1980-01, 1980-04", freq="M"),
    whole(rows("1,1,0,0", "2,1,1,1"), "a single period", "accepted", "no transition",
          shows="one row an agent"),
]  # fmt: skip
CODES = [
    line(3, "4403,2,,0", "missing observation", "refused", "line 3", "'4403'", "month 2", "'bin'",
         "missing", "DropRows"),
    line(3, "4403,2,1,", "missing action", "refused", "line 3", "'replace'", "missing", "last row",
         "DropRows"),
    line(6, "4404,2,0,", "missing action in an agent's last row", "accepted"),
    line(6, "4404,2,0,NA", "NA where a number belongs", "refused", "line 6", "'NA'", "missing=["),
    whole(rows("1,1,3,0", "1,2,9,1"), "a word for no value in one column", "refused", "line 3",
          "'bin'", "missing", shows="missing={'bin': ['9']}, bin 9", missing={"bin": ["9"]}),
    whole(rows("1,1,0,0", "1,2,1,1"), "a word for no value in an id", "refused", "'bus'",
          "bin, replace", shows="missing={'bus': ['1']}", missing={"bus": ["1"]}),
    line(3, "4403,2,-1,0", "negative observation", "refused", "line 3", "bin -1", "negative"),
    line(3, "4403,2,1,-1", "negative action", "refused", "line 3", "replace -1", "negative"),
    line(3, "4403,2,1,0.5", "fractional action", "refused", "line 3", "0.5", "whole number"),
    line(3, "4403,2,1,1.0", "whole number written 1.0", "accepted", "'replace'", "3.0"),
    line(3, "4403,2,1,true", "booleans and numbers mixed", "refused", "line 3", "True",
         "0 and 1"),
    line(3, "4403,2,one,0", "text in a numeric column", "refused", "line 3", "'one'",
         "observations="),
    line(3, '4403,2,"1,234",0', "thousands separator", "refused", "line 3", "'1,234'",
         "thousands separator", "1234"),
    line(3, "4403,2,inf,0", "infinity", "refused", "line 3", "'inf'", "infinite"),
    line(3, "4403,2,99999999999999999999,0", "number beyond 64 bits", "refused", "line 3",
         "64 bits"),
    line(3, "4403,2, 1,0", "spaces around a value", "refused", "line 3", "' 1'", "spaces"),
    whole(rows("1,1,0,keep", "1,2,1,repalce"), "label that is not listed", "refused", "line 3",
          "'repalce'", "actions=['keep', 'replace']", shows="line 3: 1,2,1,repalce",
          actions=["keep", "replace"]),
    whole(rows("1,1,keep,0", "1,2,replace,1", "1,3,,0"),
          "observations and actions swapped, by labels", "refused", "line 2", "seem swapped",
          "'bin'", "'replace'", shows="actions=['keep', 'replace'], keep and replace in bin",
          actions=["keep", "replace"]),
    line(3, "4403,2,1.5,0", "fractional observation", "refused", "line 3", "1.5", "whole number"),
    whole("bus,month,bin,replace,price\n1,1,0,0,2.5\n1,2,0,1,inf\n", "infinite covariate",
          "refused", "line 3", "'price'", "inf", shows="line 3: 1,2,0,1,inf", covariates=["price"]),
    whole("bus,month,bin,replace,price\n1,1,0,0,2.5\n1,2,0,1,\n", "missing covariate",
          "refused", "line 3", "'price'", "missing", shows="line 3: 1,2,0,1,",
          covariates=["price"]),
    whole('bus,month,bin,replace,price\n1,1,0,0,2.5\n1,2,0,1,"2,5"\n', "decimal comma",
          "refused", "line 3", "'2,5'", "2.5", shows='line 3: 1,2,0,1,"2,5"', covariates=["price"]),
    whole(rows("1,1,3,0", "1,2,3,1", "2,1,3,0"), "constant column", "accepted",
          "observation is 3 in every row", shows="bin is always 3"),
]  # fmt: skip
IDS = [
    line(3, ",2,1,0", "missing id", "refused", "line 3", "'bus'", "no agent"),
    whole(rows("007,1,0,0", "007,2,1,1", "7,1,0,1"), "ids with leading zeros", "accepted",
          "'007' and '7'", shows="007 and 7"),
    whole(rows("9007199254740993,1,0,0", "9007199254740992,1,1,1"), "ids beyond 2^53", "accepted",
          "no transition", shows="9007199254740993 and 9007199254740992: two agents"),
    whole(rows("NA,1,0,0", "NA,2,1,1", "null,1,0,1"), "the id NA", "accepted",
          shows="NA and null: two agents"),
    whole(rows("1,1,0,0", "1,2,1,1"), "a single agent", "accepted", "one agent",
          shows="one bus"),
    line(3, " 4403,2,1,0", "spaces around an id", "refused", "line 3", "' 4403'", "spaces"),
    frame("ids of mixed type, in a frame", "refused", "row 2", "is int", "others are str",
          shows="'a', 'a', 7", bus=["a", "a", 7]),
    frame("ids beyond 2^53 as floats, in a frame", "refused", "row 2", "2^53", "text",
          shows="2.0**53 + 2", bus=[1.0, 1.0, 2.0**53 + 2]),
    frame("booleans and numbers mixed, in a frame", "refused", "row 0", "True", "boolean",
          shows="True, 1, 1", replace=[True, 1, 1]),
    frame("infinity, in a frame", "refused", "row 1", "inf", "infinite",
          shows="0, inf, 0", bin=[0, np.inf, 0]),
]  # fmt: skip
FILES = [
    whole("", "empty file", "refused", "buses.csv", "empty", shows="0 bytes"),
    whole(HEADER + "\n", "header only", "refused", "buses.csv", "no rows", shows=HEADER),
    whole(sound().replace("bin", "bins", 1), "missing column", "refused", "buses.csv",
          "no column 'bin'", "Did you mean 'bins'?", shows="line 1: bus,month,bins,replace"),
    whole("coach,month,mileage,replace\n1,1,0,0\n", "several missing columns", "refused",
          "no column 'bus'", "no column 'bin'", shows="line 1: coach,month,mileage,replace"),
    whole(rows("4403,1,0,0", "4403,x,one,0", "4403,3,0,maybe"), "several columns refused at once",
          "refused", "month 'x'", "bin 'one'", "replace 'maybe'",
          shows="line 3: 4403,x,one,0; line 4: 4403,3,0,maybe"),
    whole("bus,month,bin,bin,replace\n1,1,0,0,0\n", "column twice", "refused", "2 columns 'bin'",
          shows="line 1: bus,month,bin,bin,replace"),
    whole(sound().replace(",", ";"), "another delimiter", "refused", "delimiter=';'",
          shows="line 1: bus;month;bin;replace"),
    line(3, "4403,2,1,234,0", "line with too many fields", "refused", "header has 4",
         "line 3 has 5", "1,234"),
    line(3, "4403,2,1", "line with too few fields", "refused", "header has 4", "line 3 has 3"),
    whole(sound() + "\n\n", "blank lines", "accepted", "2 blank lines", shows="two at the end"),
    line(3, '"4403,2,1,0', "quotation mark that is never closed", "refused", "line 3",
         "never closed"),
    line(3, '"4403"x,2,1,0', "text after a quotation mark", "refused", "line 3", "quotation"),
    whole(b"\xef\xbb\xbf" + sound().encode(), "byte-order mark", "accepted", shows="EF BB BF"),
    whole(sound("\r\n"), "Windows line ends (CRLF)", "accepted", shows="\\r\\n"),
    whole(sound("\r"), "old Macintosh line ends (CR)", "refused", "line 1", "carriage return",
          shows="\\r"),
    whole(sound().replace("4404", "Zürich").encode("cp1252"), "wrong encoding", "refused",
          "byte 56", "line 5", "0xfc", "encoding='cp1252'", shows="Zürich in cp1252"),
    whole(sound().encode("utf-16"), "UTF-16 read as UTF-8", "refused", "byte 0", "0xff",
          "encoding='utf-16'", shows="FF FE"),
    whole(sound(), "encoding that does not exist", "refused", "'utf-9'", "'utf-8'",
          encoding="utf-9", shows="encoding='utf-9'"),
    whole(sound().replace("4404,1", "44\x0004,1"), "NUL byte", "refused", "line 5", "NUL",
          shows="line 5: 44\\04,1,0,1"),
    whole(sound().encode() + b"9" * 2**21, "oversized line", "refused", "line 7", "1048576",
          shows="2 MiB without an end of line"),
    whole(rows('1,1,0,"' + "9" * 200_000 + '"'), "oversized field", "refused", "line 2", "131072",
          shows="a field of 200,000 characters"),
    whole(b"not packed", "damaged packed file", "refused", "buses.csv.gz", "cannot be read",
          name="buses.csv.gz", shows="not packed", until="read:"),
    whole(exploding, "packed file that explodes", "refused", "unpacks to more than 8388608",
          name="buses.csv.gz", shows="80 MiB of zeros in 80 KiB"),
    whole(b"PAR1 is not enough", "damaged Parquet file", "refused", "buses.parquet",
          "cannot be read", name="buses.parquet", shows="PAR1 is not enough", until="file:"),
    whole(b"<stata_dta>", "damaged Stata file", "refused", "buses.dta", "cannot be read",
          name="buses.dta", shows="<stata_dta>", until="file:"),
    whole(sound(), "unknown format", "refused", "buses.xlsx", ".csv", "from_frame",
          name="buses.xlsx", shows="buses.xlsx"),
]  # fmt: skip
MODEL = [
    whole(rows("1,1,0,0", "1,2,12,1"), "observation beyond the model's range", "problem",
          "observation 12", "0..11", "TopCode(11)", shows="bin 12 of 0..11", model=engine),
    whole(rows("1,1,1,0", "1,2,12,1"), "observations that count from 1", "problem",
          "count from 1", "observations=[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]",
          shows="bins 1..12 of 0..11", model=engine),
    whole(rows("1,1,0,1", "1,2,1,2"), "actions that count from 1", "problem", "count from 1",
          "actions=[1, 2]", shows="replace 1 and 2 of 0..1", model=engine),
    whole(rows("1,1,0,keep", "1,2,1,replace"), "labels in another order than the model's",
          "problem", "['replace', 'keep']", "another order", "actions=['keep', 'replace']",
          shows="actions=['replace', 'keep']", model=engine, actions=["replace", "keep"]),
    whole(rows("1,1,0,keep", "1,2,1,replace", "1,3,0,keep"), "the model's own labels, not listed",
          "accepted", "one agent", shows="keep and replace in replace", model=engine),
    whole(rows("1,1,0,keep", "1,2,1,repalce"), "label that is none of the model's", "refused",
          "line 3", "the model's actions: keep, replace", "did you mean 'replace'",
          shows="line 3: 1,2,1,repalce", model=engine),
    whole(rows("1,1,0,keep", "1,2,1,new"), "other labels than the model's", "problem",
          "['keep', 'new']", "actions=['keep', 'replace']", shows="actions=['keep', 'new']",
          model=engine, actions=["keep", "new"]),
    whole(rows("1,1,0,0", "1,2,1,2"), "action beyond the model's range", "problem", "action 2",
          "0..1", shows="replace 2 of 0..1", model=engine),
    whole(rows("1,1,0,0", "1,2,0,2", "1,3,1,3", "1,4,0,0"),
          "observations and actions swapped, by a model", "problem", "action 2", "seem swapped",
          shows="bin 0, 0, 1, 0 and replace 0, 2, 3, 0", model=engine),
    whole(rows("1,1,5,0", "1,2,3,1"), "mileage that falls without a replacement", "problem",
          "z falls without 'replace'", "z'=3", shows="bin 5, kept, bin 3", model=engine),
    whole(rows("1,1,5,1", "1,2,6,0"), "replacement without a reset", "problem",
          "'replace' without a reset", "z'=6", "{0}", shows="bin 5, replaced, bin 6", model=engine),
    whole(rows("1,1,1,0", "1,2,9,1"), "mileage that rises too far", "problem",
          "z rises too far under 'keep'", "z'=9", "1..3", shows="bin 1, kept, bin 9", model=engine),
    whole(rows("1,1,0,0", "1,2,1,0"), "action never chosen", "accepted", "action 1 (replace)",
          "never chosen", shows="replace is always 0", model=engine),
]  # fmt: skip
SECTIONS = {
    "Time": TIME,
    "Observations, actions, covariates": CODES,
    "Agents": IDS,
    "Files": FILES,
    "Against a model": MODEL,
}
CASES = {case.title: case for cases in SECTIONS.values() for case in cases}


def page() -> str:
    """The page, as the cases give it now."""
    parts = [_OPENING.format(sound="\n".join(SOUND))]
    for title, cases in SECTIONS.items():
        head = [
            f"## {title}\n",
            "| input | for example | outcome | what is said |",
            "|---" * 4 + "|",
        ]
        parts.append("\n".join([*head, *map(_row, cases)]))
    parts.append("\n".join([_MODELS, *map(_row, EXTREMES.values())]))
    return "\n\n".join(parts) + "\n"


def _row(case: Case | Extreme) -> str:
    outcome, says = run(case) if isinstance(case, Case) else outcome_of(case.title)
    if case.until:
        says = says.partition(case.until)[0] + case.until + " ..."
    return f"| {case.title} | {_code(case.shows)} | {outcome} | {_code(says)} |"


def _code(text: str) -> str:
    lines = text.replace("|", chr(92) + "|").splitlines()
    return "<br>".join(f"`{line}`" for line in lines)


_OPENING = """\
# Malformed input

What `pf.read_panel`, `pf.Panel.from_frame` and `pf.check_panel` say to each malformed input we
know of. Written by `python -m tests.malformed_inputs`; a test runs every row and compares. The
sound file, `buses.csv`, is

```
{sound}
```

An input is *refused* with an error, *accepted* (what is said is in `panel.notes`), or a *problem*
that `pf.check_panel` reports and `pf.fit` would refuse. Messages name the first five rows and
count the rest; columns are refused together, a line for each. Nothing is repaired unless asked
for, and each repair is counted in `panel.notes`:
`repair=[pf.DropRows(), pf.DropAgents(), pf.SplitAtGaps(), pf.TopCode(highest)]`.

In text files nothing is guessed. Ids and groups are text, to the last character. The whole number
3 may be written 3, +3, 03 or 3.0 (what pandas writes where some rows have no value). A cell is
without a value if it is empty, or one of `missing=[...]`, which is for all columns but ids and
times; `missing={{"bin": ["9"]}}` is for single columns. Dates have the year first."""

_MODELS = """\
## Models

Numbers at the edge of what a model may hold are answered or refused, never crashed on. What the
answers are is checked against plain numpy in `tests/test_extremes.py`.

| input | for example | outcome | what is said |
|---|---|---|---|"""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
