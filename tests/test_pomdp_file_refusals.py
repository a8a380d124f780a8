"""Files that are not what they should be: an error with its place and its mend, no more."""

from pathlib import Path

import pytest

import pomdpfit as pf
from pomdpfit.formats import _read, _tables

FILES = sorted((Path(__file__).parent / "pomdp_files").glob("*.POMDP"))
TIGER = (Path(__file__).parent / "pomdp_files" / "tiger.POMDP").read_text()


def read(text, tmp_path):
    path = tmp_path / "problem.POMDP"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return pf.read_pomdp(path)


def place(text, position):
    """Line and column, counted from 1."""
    before = text[:position]
    return before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1


# What is replaced by what; where in the new text the error points (None: the file as a whole, or
# a line); and words of the message.
SYNTAX = [
    ("discount:", "discont:", "discont", "found 'discont', but expected .*Did you mean 'discount'"),
    ("discount: 0.95", "discount 0.95", "0.95", "found '0.95', but expected ':'"),
    ("values: reward", "values: rewards", "rewards", "expected 'cost' or 'reward'.*mean 'reward'"),
    ("values: reward", "values:", "states:", "found 'states', but expected 'cost' or 'reward'"),
    ("tiger-left tiger-right\n", "tiger-left 2nd\n", "2nd", "found '2nd'.*begin with a letter"),
    ("states: tiger-left tiger-right", "states: 2.5", "2.5", "found '2.5', .*whole number"),
    ("states: tiger-left tiger-right", "states: T up", "T up", "'T' is a keyword of the format"),
    ("states: tiger-left tiger-right", "states:", "actions:", "'actions' is a keyword"),
    ("start: uniform", "start: reset", "reset", "found 'reset', but expected"),
    ("start: uniform", "start include: *", "*", r"found '\*', but expected a name or a whole"),
    ("identity", "idenity", "idenity", "found 'idenity'.*Did you mean 'identity'"),
    (
        "O: listen\n",
        "O: listen\nidentity\n",
        "identity\n0.85",
        "expected ':', 'uniform' or a number",
    ),
    ("0.85 0.15", "0.85 nan", "nan", "found 'nan'.*finite numbers"),
    ("0.85 0.15", "inf 0.15", "inf", "found 'inf'.*finite numbers"),
    ("0.85 0.15", "0.85 0.15x", "0.15x", "found '0.15x'"),
    ("0.85 0.15", "0.85 0..15", "0..15", r"found '0\.\.15'"),
    ("0.85 0.15", "0.85 0,15", "0,15", "found '0,15'.*decimal point"),
    ("R: listen : * : * : * -1", "R: listen : * : * : *", "R: open", "found 'R', .*a number"),
    ("R: listen : * : * : * -1", "R: listen -1", "-1", "found '-1', but expected ':'"),
    (
        "R: listen : * : * : * -1",
        "R: listen : * : * : * : 2",
        ": 2",
        "found ':', but expected a nu",
    ),
    ("T: listen\n", "T: : listen\n", ": listen", "found ':', but expected"),
    ("T: listen\n", "T: lis\u00f6ten\n", "\u00f6ten", "letters a to z"),
    ("T: listen\n", "T: listen\x00\n", "\x00", "letters a to z"),
    ("right : tiger-right : * : * -100", "right : 1", None, "the file ends here, but expected"),
]
MEANING = [
    ("T: listen", "T: lissten", "lissten", "no action named 'lissten'.*Did you mean 'listen'"),
    ("T: listen", "T: 3", "3", r"no action 3: there are 3, counted from 0 to 2"),
    ("T: listen", "T: " + "9" * 5000, "999", "no action 99999999999999999999: there are 3"),
    ("R: listen : *", "R: listen : door", "door", "no state named 'door'; the states are tiger-l"),
    ("tiger-left tiger-right\n", "up up\n", "up", "the state 'up' is listed twice", 3),
    ("states: tiger-left tiger-right", "states: 0", "0", "at least one state"),
    ("start: uniform", "start: 2", "2\n", "no state 2: there are 2, counted from 0 to 1"),
    ("start: uniform", "start: 0.5", "0.5", "start needs 2 probabilities.*but there are 1"),
    ("start: uniform", "start: 0.5 0.4", "0.5 0.4", "must sum to 1, but they sum to 0.9.*never"),
    ("start: uniform", "start: 1.5 -0.5", "1.5", "1.5 is not a probability"),
    ("start: uniform", "start: nowhere", "nowhere", "no state named 'nowhere'"),
    ("start: uniform", "start: tiger-left up", "up", "one state.*write 'start include:'"),
    ("start: uniform", "start exclude: 0 1", "start", "every state is excluded"),
    (
        "start: uniform",
        "start: uniform start: 0",
        "start: 0",
        r"said a second time \(first in line 9",
    ),
    ("discount: 0.95", "discount: 0.9 0.8", "0.8", "one number, but there are 2"),
    ("discount: 0.95", "discount: 1.0", "1.0", r"lie in \[0, 1\), but it is 1\."),
    ("discount: 0.95", "discount: -.1", "-.1", r"lie in \[0, 1\), but it is -0.1"),
    ("identity", "1 0 0", "T: listen", "needs a matrix of 2 x 2 = 4 numbers, but 3 follow"),
    ("0.85 0.15\n", "0.85 0.15 0\n", "O: listen", "2 x 2 = 4 numbers, but 5 follow"),
    ("R: listen : * : * : * -1", "R: listen : * : * 1", "R: listen", "a row of 2 numbers, but 1"),
    ("R: listen : * : * : * -1", "R: listen : * : * : * 1 2", "R: listen", "one number, but 2"),
    ("0.85 0.15", "1.15 -0.15", "1.15", "1.15 is not a probability"),
    ("0.85 0.15", "0.85 -0.15", "-0.15", "-0.15 is not a probability"),
    ("0.85 0.15", "0.85 1e999", "1e999", "1e999 is too large for a 64-bit number"),
    ("* : * : * -1\n", "* : * : * -1e400\n", "-1e400", "-1e400 is too large"),
]
ROWS = [
    ("0.85 0.15", "0.85 0.1", 20, "O row of action 'listen' and end state 'tiger-left' .* 0.95. R"),
    ("identity", "0.5 0.5 0.333333 0.666666", 11, "state 'tiger-right' must .* to 0.999999. Rows"),
    (
        "T: open-left\nuniform\n",
        "",
        None,
        "no T entry gives .* 'open-left' and start state 'tiger-",
    ),
    ("values: reward\n", "", None, "there is no 'values' line. Add one, such as 'values: reward'"),
    ("discount: 0.95\n", "", None, "there is no 'discount' line"),
    ("observations: growl-left growl-right\n", "", None, "there is no 'observations' line"),
]


@pytest.mark.parametrize("case", [*SYNTAX, *MEANING], ids=lambda case: case[1][:30].strip())
def test_an_error_names_its_line_and_column(case, tmp_path):
    old, new, fragment, message, *at = case
    assert old in TIGER
    text = TIGER.replace(old, new, 1)
    with pytest.raises(pf.PomdpFileError, match=message) as caught:
        read(text, tmp_path)
    if fragment is None:
        line, column = text.count("\n") + 1, 1
    else:
        begin = text.index(new) if fragment in new else 0
        line, column = place(text, text.index(fragment, begin) + sum(at))
    assert (caught.value.line, caught.value.column) == (line, column)
    assert f"problem.POMDP, line {line}, column {column}: " in str(caught.value)


@pytest.mark.parametrize("case", ROWS, ids=lambda case: case[3][:20])
def test_a_missing_or_wrong_row_or_line_is_named(case, tmp_path):
    old, new, line, message = case
    assert old in TIGER
    with pytest.raises(pf.PomdpFileError, match=message) as caught:
        read(TIGER.replace(old, new, 1), tmp_path)
    assert caught.value.line == line


def test_an_empty_file_is_refused(tmp_path):
    for text in ("", "\n\n", "# nothing but a comment"):
        with pytest.raises(pf.PomdpFileError, match="there is no 'discount' line"):
            read(text, tmp_path)


def test_other_errors_are_the_package_s_too():
    assert issubclass(pf.PomdpFileError, pf.PomdpfitError)


# ---- bounds ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("tiger-left tiger-right\n", "1000000000\n", "table of T would have 3 x 1,000,000,000 x"),
        ("tiger-left tiger-right\n", "9" * 6000 + "\n", "more than the 4,000,000 that are read"),
        (
            "growl-left growl-right",
            "1000000",
            "table of O would have 3 x 2 x 1,000,000 = 6,000,000",
        ),
        ("listen open-left open-right", "5000000", "table of T would have 5,000,000 x 2 x 2"),
    ],
)
def test_tables_too_large_are_refused_before_they_are_made(old, new, message, tmp_path):
    with pytest.raises(pf.PomdpFileError, match=message):
        read(TIGER.replace(old, new, 1), tmp_path)


def test_rewards_need_no_room_for_what_they_do_not_depend_on(tmp_path):
    text = "discount: 0.5 values: reward states: 200 actions: 2 observations: 200 T: * identity "
    text += "O: * uniform R: 0 : * : * : * 1.5"  # 16 million rewards if all were kept
    model = read(text, tmp_path)
    assert [reward.shape for reward in model.rewards] == [(200,), (200,)]
    with pytest.raises(pf.PomdpFileError, match="table of R would have 2 x 200 x 200 x 200"):
        read(text + " R: 0 : 1 : 2 : 3 4.0", tmp_path)


def test_files_too_large_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(_read, "MOST_BYTES", 100)
    with pytest.raises(pf.PomdpFileError, match="more than 100 bytes"):
        read(TIGER, tmp_path)


def test_stars_cannot_keep_the_reader_busy(tmp_path, monkeypatch):
    monkeypatch.setattr(_tables, "MOST_WRITES", 1000)
    with pytest.raises(pf.PomdpFileError, match=r"write 3,0.. numbers, more than 1,000.*stars"):
        read(TIGER + "T: * : * : * 0.0\n" * 250, tmp_path)


HOSTILE = {
    "digits": "T: " + "1" * 200_000 + "x",
    "digits after a point": "discount: 0." + "1" * 200_000 + "e",
    "blanks": "discount: 1" + " " * 200_000 + "x",
    "numbers": "start: " + "1 " * 100_000 + "x",
    "numbers enough": TIGER + "T: listen\n" + "1 " * 100_000,
    "names": "states: " + " ".join(f"s{k}" for k in range(20_000)) + " actions",
    "a long name": "states: " + "a" * 500_000 + " b!",
    "colons": "T" + ":" * 100_000,
    "stars": "R: " + "* : " * 100_000,
    "hashes": "#" * 300_000 + "\n" + "# \n" * 50_000,
    "statements": TIGER + "R: * : * : * : * 1\n" * 5_000 + "x",
    "keywords": "start " * 50_000,
    "brackets": "(" * 200_000,
    "signs": "discount: " + "+-" * 100_000,
}


@pytest.mark.parametrize("case", list(HOSTILE))
def test_hostile_text_is_refused_in_linear_time(case, tmp_path):
    with pytest.raises(pf.PomdpFileError):  # quadratic time would show as minutes here
        read(HOSTILE[case], tmp_path)


def test_nothing_in_a_file_is_run(tmp_path):
    text = TIGER.replace("0.85 0.15", "__import__('os').getcwd() 0.15")
    with pytest.raises(pf.PomdpFileError, match=r"found .__import__"):
        read(text, tmp_path)
