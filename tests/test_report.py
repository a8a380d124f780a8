"""Reports show what they were given, as text, in files that come out the same every time."""

import csv
import dataclasses
import datetime
import enum
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from xml.dom import minidom

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure as Drawing
from matplotlib.figure import FigureBase

from pomdpfit.report import Bullets, Figure, Report, Section, Table, Text, render, write_report
from pomdpfit.report._columns import columns_of
from pomdpfit.report._json import as_json
from pomdpfit.report._latex import as_latex, escape
from pomdpfit.report._svg import draw

EVIL = "<script>alert(1)</script>"
VOID = {"meta", "link", "br", "hr", "img", "input", "base"}
LOADS = {"src", "srcset", "href", "xlink:href", "data", "action", "poster", "background"}


class Page(HTMLParser):
    """A page as read: tags and their attributes, text by tag, and tags that do not pair."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.texts: dict[str, list[str]] = {}
        self.unbalanced: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        self.unbalanced += self._open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        self.texts.setdefault(tag, []).append("")
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag):
        if self._open and self._open[-1] == tag:
            self._open.pop()
        else:
            self.unbalanced.append(f"/{tag}")

    def handle_data(self, data):
        for tag in dict.fromkeys(self._open):
            self.texts[tag][-1] += data

    def values(self, attribute: str) -> list[str]:
        return [attrs[attribute] for _, attrs in self.tags if attribute in attrs]


def drawing(label: str = "belief") -> Drawing:
    """A figure that clips, fills, hatches and holds an image: all that makes ids."""
    figure = Drawing(figsize=(5, 3), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot([0, 1], [0, 1], marker="o", label=label)
    left.bar([0, 1], [1, 2], hatch="//")
    left.legend()
    right.imshow(np.arange(4.0).reshape(2, 2))
    right.set_title(label)
    return figure


def report(**changes) -> Report:
    frame = pd.DataFrame({"estimate": [9.2, -0.5], "held": [True, False]}, index=["RC", "cost"])
    spread = pd.DataFrame({"llf": [-3819.27431, np.nan]})
    first = Section(
        "Estimates",
        "What was found.",
        (
            Table("estimates", frame, "Estimates.", note="A note."),
            Text(("**Bold** and `code`.",)),
            Figure("policy", drawing(), "The policy.", "Rising lines"),
        ),
    )
    second = Section(
        "Errors",
        "",
        (
            Table("errors", spread, "Errors.", {"llf": ",.1f"}),
            Bullets(("one", "two")),
            Figure("beliefs", drawing(), "Beliefs.", "More lines"),
        ),
    )
    made = Report("A report", "of a test", {"Seed": "0"}, ("It **works**.",), (first, second))
    return dataclasses.replace(made, **changes)


def with_blocks(*blocks) -> Report:
    return report(sections=(Section("S", "", blocks),))


def table(frame: pd.DataFrame, **keywords) -> Table:
    return Table("t", frame, "caption", **keywords)


# The page


def test_labels_with_tags_show_as_text_wherever_they_stand():
    frame = pd.DataFrame({EVIL: [EVIL]}, index=pd.Index([EVIL], name=f"{EVIL}!"))
    blocks = (
        Table("t", frame, EVIL, note=EVIL),
        Figure("f", drawing(EVIL), EVIL, EVIL),
        Text((f"**{EVIL}**", f"`{EVIL}`")),
        Bullets((EVIL,)),
    )
    html = render(
        Report(EVIL, EVIL, {EVIL: EVIL}, (EVIL,), (Section(EVIL, EVIL, blocks),), unfinished=EVIL)
    )
    page = Page(html)
    assert "script" not in page.texts
    assert EVIL not in html
    assert EVIL in page.values("aria-label")
    for tag in ["title", "h1", "dt", "dd", "td", "strong", "code"]:
        assert EVIL in page.texts[tag], tag
    assert page.texts["th"] == [f"{EVIL}!", EVIL, EVIL]
    assert page.texts["li"].count(EVIL) == 2  # a finding and a bullet
    assert page.texts["h2"].count(EVIL) == 1
    captions = page.texts["figcaption"]
    assert captions == [f"Table 1. {EVIL}", f"Figure 1. {EVIL}"]


def test_only_bold_and_code_are_markup():
    plain = "x**2 + y**2, x**(2)**. *c* _d_ <i>e</i> &amp; **f**g"
    page = Page(render(with_blocks(Text((f"**a `b`** {plain}",)))))
    assert f"a b {plain}" in page.texts["p"]
    assert page.texts["strong"] == ["works", "a b"]
    assert page.texts["code"] == ["b"]


def test_the_page_loads_nothing_and_runs_nothing():
    html = render(report())
    page = Page(html)
    policies = [a["content"] for _, a in page.tags if "content-security-policy" in str(a).lower()]
    assert len(policies) == 1
    rules = dict(rule.strip().split(" ", 1) for rule in policies[0].split(";"))
    assert rules["default-src"] == "'none'"
    assert "script-src" not in rules
    tags = {tag for tag, _ in page.tags}
    assert not tags & {"script", "link", "iframe", "object", "embed", "base", "form"}
    addresses = [v for _, attrs in page.tags for k, v in attrs.items() if k in LOADS]
    assert any(address.startswith("data:image/png") for address in addresses)  # the image
    for address in addresses:
        assert re.match(r"#|data:image/png;|tables/|figures/", address), address
    assert not [k for _, attrs in page.tags for k in attrs if k.startswith("on")]
    assert "@import" not in html
    assert set(re.findall(r"url\((.)", html)) == {"#"}


def test_the_page_is_well_formed_and_its_links_lead_somewhere():
    page = Page(render(report(unfinished="half of it")))
    assert page.unbalanced == []
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    inner = [h[1:] for h in page.values("href") + page.values("xlink:href") if h[0] == "#"]
    inner += re.findall(r"url\(#([^)]+)\)", " ".join(str(attrs) for _, attrs in page.tags))
    assert len(inner) > 20
    assert set(inner) <= set(ids)
    assert {"section-1", "section-2", "table-errors", "figure-policy"} <= set(inner)
    assert page.tags[0] == ("html", {"lang": "en"})
    assert any(attrs.get("name") == "viewport" for _, attrs in page.tags)
    assert page.texts["title"] == ["A report"]


def test_balance_is_checked_in_earnest():
    assert Page("<p><b>x</p>").unbalanced
    assert Page("<p>x").unbalanced
    assert not Page("<p>x<br></p>").unbalanced


def test_the_banner_is_there_only_if_something_is_unfinished():
    assert 'class="unfinished"' not in render(report())
    page = Page(render(report(unfinished="40 of 200")))
    assert "Unfinished. 40 of 200" in page.texts["p"]


def test_figures_are_images_with_a_name_and_no_prolog():
    html = render(report())
    images = [attrs for tag, attrs in Page(html).tags if tag == "svg"]
    assert [(a["role"], a["aria-label"]) for a in images] == [
        ("img", "Rising lines"),
        ("img", "More lines"),
    ]
    assert "<?xml" not in html
    assert html.count("<!DOCTYPE") == html.count("<style") == 1


# Cells


def shown(values, **keywords) -> tuple[str, ...]:
    return columns_of(pd.DataFrame({"x": pd.Series(values, **keywords)}), {})[0].cells


def test_cells_read_well_without_being_told():
    assert shown([1, 22, -3]) == ("1", "22", "-3")
    assert shown([True, False]) == ("yes", "no")
    assert shown(["a", None], dtype=object) == ("a", "")
    assert shown([1, None], dtype="Int64") == ("1", "")
    assert shown([1.0, 2.0]) == ("1", "2")
    assert shown([0.5, np.pi, np.nan]) == ("0.500", "3.142", "")
    assert shown([-3819.27431, -3820.5]) == ("-3819.27", "-3820.50")
    assert shown([0.99999, 0.5]) == ("0.99999", "0.50000")
    assert shown([np.inf, -np.inf, 1.5]) == ("∞", "-∞", "1.5")
    assert shown([1.23456e-7, 0.25, 9.87654e11, 0.0]) == ("1.235e-07", "0.25", "9.877e+11", "0.00")
    assert shown([pd.NaT, pd.Timestamp("2024-01-02 03:04")])[0] == ""


def test_formats_rule_where_they_are_given():
    frame = pd.DataFrame(
        {"x": [1234.5678, np.nan], "y": [1, 2]}, index=pd.Index([0.5, 1], name="b")
    )
    columns = columns_of(frame, {"x": ",.1f", "b": ".3f"})
    assert [c.cells for c in columns] == [("0.500", "1.000"), ("1,234.6", ""), ("1", "2")]
    with pytest.raises(ValueError, match=r"table 't': formats .*'z'.*'x', 'y'"):
        table(frame, formats={"z": ".1f"})
    with pytest.raises(ValueError, match=r"'d' of column 'x' does not fit 1234.5678"):
        table(frame, formats={"x": "d"})


def test_an_index_is_shown_where_it_says_something():
    frame = pd.DataFrame({"x": [1.0, 2.0]})
    levels = pd.MultiIndex.from_tuples([("a", 1), ("b", 2)])
    labels = lambda f: [(c.label, c.heads) for c in columns_of(f, {})]
    assert labels(frame) == labels(frame.iloc[::-1]) == [("x", False)]
    assert labels(frame.set_axis(["a", "b"])) == [("", True), ("x", False)]
    assert labels(frame.rename_axis("n")) == [("n", True), ("x", False)]
    assert labels(frame.set_axis(levels)) == [("", True), ("", True), ("x", False)]
    page = Page(render(with_blocks(table(frame.set_axis(levels.set_names(["k", "n"]))))))
    assert page.texts["th"] == ["k", "n", "x", "a", "1", "b", "2"]
    numbers = [(tag, a["class"]) for tag, a in page.tags if "number" in a.get("class", "")]
    assert [tag for tag, _ in numbers] == ["th", "th", "th", "td", "th", "td"]


def test_columns_in_levels_are_refused():
    frame = pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", "b")]))
    with pytest.raises(ValueError, match=r"columns have 2 levels, such as \('a', 'b'\): join"):
        table(frame)


# Names


@pytest.mark.parametrize("name", ["", "A", "a b", "../a", "a/b", "-a", "_a", "a.b", "é", "a\n"])
def test_names_that_are_no_file_stems_are_refused(name):
    with pytest.raises(ValueError, match=r"cannot name a table.*small letters"):
        Table(name, pd.DataFrame({"x": [1]}), "")
    with pytest.raises(ValueError, match=r"cannot name a figure.*small letters"):
        Figure(name, drawing(), "", "alt")


def test_good_names_are_taken():
    assert Table("0-a_b", pd.DataFrame({"x": [1]}), "").name == "0-a_b"


def test_names_are_given_once():
    frame = pd.DataFrame({"x": [1]})
    with pytest.raises(ValueError, match=r"named 't'.*its own"):
        with_blocks(table(frame), Figure("t", drawing(), "", "alt"))
    with pytest.raises(ValueError, match="named 't'"):
        report(sections=tuple(Section("", "", (table(frame),)) for _ in range(2)))


def test_what_would_read_badly_is_refused():
    with pytest.raises(ValueError, match="no alt text"):
        Figure("f", drawing(), "", " ")
    with pytest.raises(ValueError, match="one string, 'abc': give a tuple"):
        Text("abc")
    with pytest.raises(ValueError, match="one string, 'abc': give a tuple"):
        Bullets("abc")
    with pytest.raises(ValueError, match="findings is one string"):
        report(findings="abc")


# LaTeX


def test_latex_escapes_its_special_characters():
    assert escape("_ % & $ # { }") == r"\_ \% \& \$ \# \{ \}"
    assert escape("~ ^ \\") == r"\textasciitilde{} \textasciicircum{} \textbackslash{}"
    assert escape("< > | β ≤ --x") == (
        r"\textless{} \textgreater{} \textbar{} \ensuremath{\beta} \ensuremath{\leq} -{}-x"
    )
    assert escape("a\n\nb") == "a b"


SPECIAL = "_ % & $ # { } ~ ^ \\ < > | β \N{MINUS SIGN} é 'q' --"


def awkward_table() -> Table:
    """Everything that LaTeX stumbles over, rows that begin as arguments do among it."""
    frame = pd.DataFrame(
        {SPECIAL: [SPECIAL, "", "***"], "[x]": [-1.5, np.inf, np.nan]},
        index=pd.Index(["[0, 1]", "* star", "plain"], name="[i]"),
    )
    return table(frame, note=f"**{SPECIAL}** `{SPECIAL}`\n\nA second paragraph.")


def test_latex_is_a_booktabs_table():
    lines = as_latex(awkward_table()).splitlines()
    assert lines[:5] == [
        r"\begin{table}",
        r"\centering",
        r"\caption{caption}",
        r"\label{tab:t}",
        r"\begin{tabular}{llr}",
    ]
    assert lines[6].startswith("{}[i] & ")
    assert lines[8].startswith(r"{}[0, 1] & \_ \% ")
    assert lines[8].endswith(r" & $-$1.5 \\")
    assert lines[9] == r"{}* star &  & \ensuremath{\infty} \\"
    assert lines[10] == r"plain & *** &  \\"
    assert lines[-2].startswith(r"\par\smallskip{\footnotesize \textbf{\_ \% ")


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
def test_latex_compiles_with_nothing_but_booktabs(tmp_path):
    tables = "".join(as_latex(t) for t in [awkward_table(), *report().tables()])
    source = (
        "\\documentclass{article}\\usepackage{booktabs}\\begin{document}\n"
        f"{tables}\\end{{document}}\n"
    )
    (tmp_path / "t.tex").write_text(source, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert run.returncode == 0, run.stdout.decode(errors="replace")[-2000:]


# Files


def test_tables_come_back_from_csv_to_the_last_bit(tmp_path):
    rng = np.random.default_rng(0)
    values = rng.normal(size=500) * 10.0 ** rng.integers(-300, 300, size=500)
    values = np.append(values, [0.1, 5e-324, np.nextafter(1, 2), np.nan, np.inf, -np.inf, -0.0])
    index = pd.MultiIndex.from_tuples(
        [(f'a,"{k}"\n', k) for k in range(len(values))], names=["label", "k"]
    )
    frame = pd.DataFrame({"x": values, "n": np.arange(len(values))}, index=index)
    write_report(with_blocks(table(frame, formats={"x": ".1f"})), tmp_path, {})
    with (tmp_path / "tables/t.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["label"], int(row["k"])) for row in rows] == list(index)
    read = np.array([float(row["x"] or "nan") for row in rows])
    assert read.tobytes() == values.tobytes()
    assert [int(row["n"]) for row in rows] == frame["n"].tolist()


def contents(folder: Path) -> dict[str, bytes]:
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()
    }


def test_a_folder_holds_all_files_and_keeps_what_else_was_there(tmp_path):
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables/errors.csv").write_text("old")
    (tmp_path / "tables/own.csv").write_text("mine")
    page = write_report(report(), tmp_path, {"a": 1})
    assert page == tmp_path / "report.html"
    written = contents(tmp_path)
    assert set(written) == {
        "report.html",
        "results.json",
        *(f"tables/{n}.{e}" for n in ("estimates", "errors") for e in ("csv", "tex")),
        "figures/policy.svg",
        "figures/beliefs.svg",
        "tables/own.csv",
    }
    assert written["tables/own.csv"] == b"mine"
    assert written["tables/errors.csv"].startswith(b"llf\n-3819.27431\n")
    links = [h for h in Page(written["report.html"].decode()).values("href") if h[0] != "#"]
    assert sorted(links) == sorted(set(written) - {"report.html", "results.json", "tables/own.csv"})
    for name in ("policy", "beliefs"):
        assert minidom.parseString(written[f"figures/{name}.svg"]).documentElement.tagName == "svg"


def test_the_same_report_gives_the_same_bytes(tmp_path):
    once = report()
    write_report(once, tmp_path / "a", {"s": {"b", "a", "c"}})
    write_report(once, tmp_path / "b", {"s": {"c", "b", "a"}})
    write_report(report(), tmp_path / "c", {"s": {"a", "b", "c"}})
    first = contents(tmp_path / "a")
    assert first == contents(tmp_path / "b") == contents(tmp_path / "c")
    assert render(once).encode() == first["report.html"]


def fill(panel: FigureBase) -> None:
    panel.suptitle("a title")
    axes = panel.subplots(2, 2)
    panel.colorbar(axes[0, 0].imshow(np.eye(3)), ax=axes[0, 0], label="a label")
    axes[1, 1].plot([0, 1e6], [0, 1e-6])


@pytest.mark.parametrize(
    "layout",
    [
        "constrained",
        *(pytest.param(l, marks=pytest.mark.full) for l in ("compressed", "tight", "none")),
    ],
)
def test_drawing_does_not_move_a_figure(layout):
    drawn = Drawing(figsize=(5, 3), layout=layout)
    fill(drawn)
    places = lambda: [(*ax.get_position().bounds, ax.get_in_layout()) for ax in drawn.axes]
    before = places()
    figure = Figure("f", drawn, "", "alt")
    assert draw(figure) == draw(figure) == draw(figure)
    assert places() == before


def test_figures_within_figures_are_drawn_alike():
    drawn = Drawing(figsize=(5, 3), layout="constrained")
    for panel in drawn.subfigures(1, 2):
        fill(panel)
    figure = Figure("f", drawn, "", "alt")
    assert draw(figure) == draw(figure) == draw(figure)


def test_nothing_is_written_where_something_cannot_be(tmp_path):
    with pytest.raises(TypeError, match=r"results\['a'\]\[1\] is of type object"):
        write_report(report(), tmp_path, {"a": [1, object()]})
    assert contents(tmp_path) == {}


# JSON


class Colour(enum.Enum):
    RED = "#f00"


class Level(enum.IntEnum):
    LOW = 3


@dataclasses.dataclass(frozen=True)
class Point:
    x: float
    y: np.ndarray


def read_back(value: object) -> object:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(as_json({"value": value}), parse_constant=refuse)["value"]


STAMP = pd.Timestamp("2024-01-02 03:04")


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (None, None),
        (np.nan, None),
        (pd.NA, None),
        (pd.NaT, None),
        (np.datetime64("NaT"), None),
        (np.inf, "Infinity"),
        (np.float32(-np.inf), "-Infinity"),
        (np.float64(0.1), 0.1),
        (np.int64(2**62), 2**62),
        (np.bool_(True), True),
        (np.str_("β"), "β"),
        ("half \udc80", "half \udc80"),
        (Colour.RED, "RED"),
        (Level.LOW, "LOW"),
        (Path("a") / "b", "a/b"),
        (datetime.date(2024, 1, 2), "2024-01-02"),
        (STAMP, "2024-01-02T03:04:00"),
        (np.datetime64("2024-01-02"), "2024-01-02"),
        (pd.Timedelta(hours=1), "0 days 01:00:00"),
        ((1, (2.5, "a")), [1, [2.5, "a"]]),
        (np.array([[1.5, np.nan], [np.inf, 0.0]]), [[1.5, None], ["Infinity", 0.0]]),
        (np.array(3), 3),
        (jnp.arange(2), [0, 1]),
        (pd.Index(["a", "b"]), ["a", "b"]),
        (pd.array([1, None], dtype="Int64"), [1, None]),
        ({"b", "a"}, ["a", "b"]),
        (pd.Series([1.0, np.nan], index=["b", "a"]), {"a": None, "b": 1.0}),
        (pd.DataFrame({"x": [1, 2]}), [{"x": 1}, {"x": 2}]),
        (pd.DataFrame({"x": [STAMP]}, ["r"]), [{"index_0": "r", "x": "2024-01-02T03:04:00"}]),
        (Point(1.0, np.array([2])), {"x": 1.0, "y": [2]}),
        ({1: "a", Level.LOW: "b", (1, "x"): "c"}, {"1": "a", "LOW": "b", "1, x": "c"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_odd_values_become_strict_json(value, plain):
    back = read_back(value)
    assert back == plain
    assert type(back) is type(plain)


def test_json_has_sorted_keys_and_reads_well():
    assert as_json({"b": 1, "a": "β"}) == '{\n  "a": "β",\n  "b": 1\n}\n'


def test_json_refuses_what_it_cannot_hold():
    with pytest.raises(ValueError, match=r"results\['m'\] has two entries .* '1'.*rename one"):
        as_json({"m": {1: "a", "1": "b"}})
    with pytest.raises(ValueError, match=r"results\['t'\]\[row 0\] has two entries"):
        as_json({"t": pd.DataFrame([[1, 2]], columns=["x", "x"])})
    with pytest.raises(TypeError, match=r"results\['z'\] is of type complex.*1j.*Give"):
        as_json({"z": 1j})


def test_half_a_surrogate_pair_survives_the_file(tmp_path):
    write_report(report(), tmp_path, {"path": "a\udc80"})
    assert json.loads((tmp_path / "results.json").read_text("utf-8")) == {"path": "a\udc80"}
