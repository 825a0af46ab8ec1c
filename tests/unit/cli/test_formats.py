"""Rows of analyses in the formats of other tools, each read back by a reader of its own."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltafix.analyses.formats import FormatError, Table, markdown_table, write_tables
from deltafix.cli import output as output_module
from deltafix.facts.schema import Schema

HOSTILE = [
    '"];x-->y', "</td><script>alert(1)</script>", "a&amp;b", "=1+1", 'q"u,o;te', "`md`|end", "a\r",
    "two\nlines", "\\N\\", "__init__", "%% c", "1. x", "#35;", "style a:b", "classDef a:b#c;", "",
    " ", "- x",
]  # fmt: skip
names = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=8))
edges = st.lists(st.tuples(names, names, st.integers(-5, 5), names), max_size=6)
SCHEMA = Schema.of(
    "uses", ["user", "used", "times", "how"], ["symbol", "symbol", "number", "symbol"]
)


def table(rows: list[tuple[str, str, int, str]]) -> Table:
    places = [[(f"dir/{user}", 3), (f"dir/{used}", 4)] for user, used, _, _ in rows]
    return Table(SCHEMA, rows, (("user",), ("used",)), places)


def written(rows: list[tuple[str, str, int, str]], form: str) -> str:
    text = write_tables([table(rows)], form, title="t & <b>")
    assert isinstance(text, str)
    assert text.endswith("\n")
    return text


class Cells(HTMLParser):
    """The rows of the tables of a page, and the tags that are there."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: set[str] = set()
        self._cell: list[str] | None = None
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, _: object) -> None:
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"}:
            self._cell = []

    def handle_data(self, data: str) -> None:
        if self._cell is not None:
            self._cell.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag in {"td", "th"} and self._cell is not None:
            self.rows[-1].append("".join(self._cell))
            self._cell = None


def graph(text: str, node: str, edge: str, unescape) -> list[tuple[str, str, str]]:
    """The edges with their ends' labels; every line between the first and the last is one."""
    labels: dict[str, str] = {}
    found = []
    for line in text.split("\n"):
        if one := re.fullmatch(node, line):
            assert one[1] not in labels
            labels[one[1]] = unescape(one[2])
        else:
            one = re.fullmatch(edge, line)
            assert one, line
            found.append((labels[one["start"]], labels[one["end"]], unescape(one["label"] or "")))
    return found


def of_dot(text: str) -> list[tuple[str, str, str]]:
    string = r'"(?:[^"\\]|\\.)*"'
    head, rankdir, shape, *lines, end, _ = text.split("\n")
    assert (head, rankdir, shape, end) == ("digraph {", "  rankdir=LR;", "  node [shape=box];", "}")
    return (
        graph(
            "\n".join(lines),
            rf"  (n\d+) \[label=({string})\];",
            rf"  (?P<start>n\d+) -> (?P<end>n\d+)(?: \[label=(?P<label>{string})\])?;",
            lambda label: json.loads(label or '""').replace("&amp;", "&"),
        )
        if lines
        else []
    )


def of_mermaid(text: str) -> list[tuple[str, str, str]]:
    def unescape(label: str) -> str:
        rest = re.sub(r"#\d+;", "", label)
        assert not set(rest) & set("\"'<>&|[](){}`#%;*\\\n\r-"), label
        assert not re.search(r"style|classDef|__|\. ", rest), label
        return re.sub(r"#(\d+);", lambda one: chr(int(one[1])), label)

    head, *lines, end = text.split("\n")
    assert (head, end) == ("flowchart LR", "")
    return (
        graph(
            "\n".join(lines),
            r'  (n\d+)\["([^"]+)"\]',
            r'  (?P<start>n\d+) -->(?:\|"(?P<label>[^"]+)"\|)? (?P<end>n\d+)',
            unescape,
        )
        if lines
        else []
    )


@given(edges)
def test_tables_are_read_back_as_they_were(rows: list[tuple[str, str, int, str]]) -> None:
    shown = [[str(cell) for cell in row] for row in rows]
    lines = list(csv.reader(io.StringIO(written(rows, "csv"), newline="")))
    assert lines == [list(SCHEMA.names), *shown]

    page = Cells(written(rows, "html"))
    assert page.rows == [list(SCHEMA.names), *shown]
    assert not page.tags & {"script", "b"}

    content = write_tables([table(rows)], "parquet", title="")
    assert isinstance(content, bytes)
    found = pq.read_table(io.BytesIO(content))
    assert found.schema.field("times").type == pa.int64()
    assert [tuple(row.values()) for row in found.to_pylist()] == rows


@given(edges)
def test_graphs_have_each_edge_once_with_the_names_as_labels(
    rows: list[tuple[str, str, int, str]],
) -> None:
    meant = list(dict.fromkeys((user, used, f"{times}, {how}") for user, used, times, how in rows))
    assert of_dot(written(rows, "dot")) == meant
    drawn = [(user or " ", used or " ", how) for user, used, how in meant]
    assert of_mermaid(written(rows, "mermaid")) == drawn


def test_nodes_are_told_by_their_parts_and_not_by_their_labels() -> None:
    columns = ["a", "b", "c", "d"]
    schema = Schema.of("flows", columns, ["symbol"] * 4)
    rows = [("x.y", "z", "t", "c"), ("x", "y.z", "t", "c")]
    dotted = Table(schema, rows, (("a", "b"), ("c", "d")), nodes=("alone",))
    text = str(write_tables([dotted], "dot", title=""))
    assert text.count('[label="x.y.z"]') == 2
    assert text.count(" -> ") == 2
    assert text.count('[label="alone"]') == 1


@given(edges.filter(bool))
def test_sarif_has_a_result_a_row_with_its_places(rows: list[tuple[str, str, int, str]]) -> None:
    (run,) = json.loads(written(rows, "sarif"))["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["uses"]
    assert len(run["results"]) == len(rows)
    for result in run["results"]:
        (first,), (second,) = result["locations"], result["relatedLocations"]
        assert first["physicalLocation"]["region"] == {"startLine": 3}
        assert second["physicalLocation"]["region"] == {"startLine": 4}
        assert re.fullmatch(r"[\w/.%~-]+", first["physicalLocation"]["artifactLocation"]["uri"])


def test_a_table_that_cannot_have_a_format_says_which_it_can() -> None:
    plain = Table(SCHEMA, [("a", "b", 1, "c")])
    for form in ("dot", "mermaid", "sarif"):
        with pytest.raises(FormatError, match=r"text, json, csv, parquet, html$") as refused:
            write_tables([plain], form, title="")
        assert refused.value.code == "DF675"
    with pytest.raises(FormatError, match=r"text, json, csv, parquet, html, dot, mermaid$"):
        write_tables(
            [Table(SCHEMA, [("a", "b", 1, "c")], (("user",), ("used",)))], "sarif", title=""
        )
    with pytest.raises(FormatError, match="these are 2: uses, uses"):
        write_tables([plain, plain], "csv", title="")


# -- the commands ------------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "tree"
    (root / "tests").mkdir(parents=True)
    (root / "lib.py").write_text("def f(): g()\ndef g(): ...\n")
    (root / "main.py").write_text("import lib\nlib.f()\n")
    (root / "tests" / "test_lib.py").write_text("import lib\ndef test_f(): lib.f()\n")
    monkeypatch.chdir(tmp_path)
    return root


CALLS = [("lib:f", "lib:g"), ("main", "lib:f"), ("tests.test_lib:test_f", "lib:f")]


def test_analyse_writes_its_view_in_each_format(tree: Path, deltafix) -> None:
    def out(form: str, *more: object) -> str:
        ran = deltafix("analyse", "call-graph", tree, "--format", form, "-q", *more)
        assert (ran.code, ran.err) == (0, "")
        return ran.out

    lines = list(csv.reader(io.StringIO(out("csv"))))
    assert lines == [["caller", "callee"], *map(list, CALLS)]
    assert Cells(out("html")).rows == lines
    edges = [(caller, callee, "") for caller, callee in CALLS]
    assert of_dot(out("dot")) == of_mermaid(out("mermaid")) == edges
    (run,) = json.loads(out("sarif", "--match", "caller=main"))["runs"]
    (result,) = run["results"]
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert (result["message"]["text"], uri) == ('calls("main", "lib:f")', "tree/main.py")
    assert out("parquet", "--output", "calls.parquet") == ""
    assert [tuple(row.values()) for row in pq.read_table("calls.parquet").to_pylist()] == CALLS
    assert out("text", "--output", "calls.dl") == ""
    assert Path("calls.dl").read_text().splitlines()[1] == 'calls("main", "lib:f").'


def test_a_limit_holds_in_every_format_and_is_told(tree: Path, deltafix) -> None:
    for form in ("text", "csv", "json", "dot"):
        ran = deltafix("analyse", "call-graph", tree, "--format", form, "--limit", 1)
        assert "1 of 3 calls in 3 files" in ran.err
        assert ran.out.count("lib:f") == 1
        assert "main" not in ran.out
    told = json.loads(deltafix("analyse", "call-graph", tree, "--format", "json", "--limit", 2).out)
    assert (told["total"], told["rows"]) == ({"calls": 3}, {"calls": [*map(list, CALLS[:2])]})


def test_a_format_of_one_view_has_the_first_or_the_one_that_is_named(tree: Path, deltafix) -> None:
    ran = deltafix("analyse", "points-to", tree, "--format", "csv")
    assert ran.out.startswith("variable,object\n")
    assert ran.err.startswith("csv has one view: points_to; --view names another\n")
    ran = deltafix("analyse", "points-to", tree, "--format", "csv", "--view", "calls", "-q")
    assert ran.out.startswith("caller,callee\n")
    assert ran.err == ""
    page = deltafix("analyse", "points-to", tree, "--format", "html", "-q").out
    assert page.count("<caption>") == 3
    two = ("--view", "calls", "--view", "field")
    ran = deltafix("analyse", "points-to", tree, "--format", "dot", *two)
    assert (ran.code, ran.out) == (2, "")
    assert "error[DF675]: dot has one view, and these are 2: calls, field; name one" in ran.err
    ran = deltafix("analyse", "types", tree, "--format", "mermaid", "--view", "parameter", "-q")
    assert (ran.code, ran.out) == (2, "")
    assert "it can be had as text, json, csv, parquet, html" in ran.err


def test_hostile_names_of_sql_come_out_whole(tmp_path: Path, deltafix) -> None:
    odd = 'x"];<b>&|`#35;=1\\'
    (tmp_path / "a.sql").write_text(
        f'CREATE TABLE "{odd.replace(chr(34), chr(34) * 2)}" (id INT);\n'
        f'CREATE VIEW v AS SELECT id FROM "{odd.replace(chr(34), chr(34) * 2)}";\n'
    )

    def out(form: str) -> str:
        ran = deltafix("analyse", "lineage", tmp_path, "--view", "flows", "--format", form, "-q")
        assert (ran.code, ran.err) == (0, "")
        return ran.out

    (row,) = csv.DictReader(io.StringIO(out("csv")))
    assert row["source_table"] == odd
    assert Cells(out("html")).rows[1][2] == odd
    assert of_dot(out("dot")) == of_mermaid(out("mermaid")) == [(f"{odd}.id", "v.id", "value")]


def test_answers_to_questions_in_each_format(tree: Path, deltafix) -> None:
    def out(words: str, form: str, *more: object) -> str:
        ran = deltafix("ask", *shlex.split(words), "--in", tree, "--format", form, "-q", *more)
        assert (ran.code, ran.err) == (0, "")
        return ran.out

    reached = [
        ["symbol", "path", "line", "via"],
        ["lib:f", "tree/lib.py", "1", ""],
        ["main", "tree/main.py", "2", "lib:f"],
        ["tests.test_lib:test_f", "tree/tests/test_lib.py", "2", "lib:f"],
    ]
    assert list(csv.reader(io.StringIO(out("reaches g", "csv")))) == reached
    assert Cells(out("reaches g", "html")).rows == reached
    assert out("reaches g", "csv", "--limit", 1).count("\n") == 2
    edges = [(caller, callee, "") for caller, callee in CALLS]
    assert of_dot(out("reaches g", "dot")) == of_mermaid(out("reaches g", "mermaid")) == edges
    out("path main g", "parquet", "-o", "way.parquet")
    steps = pq.read_table("way.parquet").to_pylist()
    assert [step["symbol"] for step in steps] == ["main", "lib:f", "lib:g"]
    assert [step["line"] for step in steps] == [2, 1, 2]
    (run,) = json.loads(out("callers g", "sarif"))["runs"]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "tree/lib.py"}, "region": {"startLine": 1}}
    assert list(csv.reader(io.StringIO(out("impact tree/lib.py", "csv")))) == [
        ["path", "test", "via"],
        ["tree/tests/test_lib.py", "yes", ""],
        ["tree/main.py", "no", ""],
    ]
    alone = out("impact tree/tests/test_lib.py", "mermaid")
    assert alone == 'flowchart LR\n  n0["tree/tests/test_lib.py"]\n'
    ran = deltafix("ask", "callers", "tests.test_lib:test_f", "--in", tree, "--format", "csv")
    assert (ran.code, ran.out) == (1, "symbol,path,line,via\n")


def test_dead_code_has_the_same_rows_as_csv_html_and_parquet(tree: Path, deltafix) -> None:
    (tree / "old.py").write_text("def a(): ...\ndef b(): a()\n")
    asked = ("dead-code", tree, "--roots", "entry-points", "-q", "--confidence", "likely")
    lines = list(csv.reader(io.StringIO(deltafix(*asked, "--format", "csv").out)))
    assert len(lines) > 1
    assert Cells(deltafix(*asked, "--format", "html").out).rows == lines
    ran = deltafix(*asked, "--format", "parquet", "--output", "dead.parquet")
    assert (ran.code, ran.out) == (1, "")
    found = pq.read_table("dead.parquet")
    assert [found.column_names, *([*map(str, row.values())] for row in found.to_pylist())] == lines
    ran = deltafix(*asked, "--write-baseline", "known.json", "--output", "x")
    assert (ran.code, Path("known.json").exists()) == (2, False)


def test_dead_code_as_a_graph_is_its_findings_and_how_they_hang_together(
    tree: Path, deltafix
) -> None:
    (tree / "old.py").write_text(
        "def a(): b()\ndef b(): c()\ndef c(): pass\nclass D:\n    def m(self): a(); lib.f()\n"
    )
    asked = ("dead-code", tree, "--roots", "main", "--no-tests", "--confidence", "likely", "-q")
    rows = list(csv.DictReader(io.StringIO(deltafix(*asked, "--format", "csv").out)))
    ran = deltafix(*asked, "--format", "dot")
    assert (ran.code, ran.err) == (1, "")
    labels = re.findall(r'^  n\d+ \[label="(.*)"\];$', ran.out, re.MULTILINE)
    assert sorted(labels) == sorted({row["symbol"] for row in rows})
    edges = of_dot(ran.out)
    assert edges == of_mermaid(deltafix(*asked, "--format", "mermaid").out)
    assert {edge[:2] for edge in edges if edge[2] == "refers to"} == {
        ("old:a", "old:b"), ("old:b", "old:c"), ("old:D.m", "old:a"),
    }  # fmt: skip
    assert ("old:D.m", "old:D", "is written in") in edges
    ran = deltafix(*asked, "--format", "dot", "--limit", 1)
    assert len(re.findall(r"label=", ran.out)) == 1


def test_where_a_result_cannot_go_is_said_at_once(
    tree: Path, deltafix, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("analyse", "call-graph", tree, "-q")
    ran = deltafix(*asked, "--format", "json", "--output", tree / "no" / "where.json")
    assert (ran.code, ran.out) == (2, "")
    assert "cannot write" in ran.err
    assert "Traceback" not in ran.err
    for words, said in {
        ("--watch", "--output", "x"): "--output",
        ("--watch", "--format", "dot"): "--format dot",
    }.items():
        ran = deltafix(*asked, *words)
        assert (ran.code, said in ran.err, Path("x").exists()) == (2, True, False)
    monkeypatch.setattr(output_module.sys.stdout, "isatty", lambda: True)
    ran = deltafix("ask", "callers", "g", "--in", tree, "--format", "parquet")
    assert (ran.code, ran.out) == (2, "")
    assert "not for a terminal: write --output FILE" in " ".join(ran.err.replace("│", "").split())


def test_openlineage_is_a_line_for_each_event(tmp_path: Path, deltafix) -> None:
    (tmp_path / "a.sql").write_text("CREATE TABLE t (id INT); CREATE VIEW v AS SELECT id FROM t;")
    asked = ("analyse", "lineage", tmp_path, "--format", "openlineage", "-q")
    ran = deltafix(*asked, "--namespace", "postgres://db:5432")
    assert (ran.code, ran.err) == (0, "")
    start, end = map(json.loads, ran.out.splitlines())
    assert (start["eventType"], end["eventType"]) == ("START", "COMPLETE")
    (table,) = end["inputs"]
    assert table == {"namespace": "postgres://db:5432", "name": "t"}
    assert set(end["outputs"][0]["facets"]["columnLineage"]["fields"]) == {"id"}
    assert deltafix(*asked, "--output", tmp_path / "events").out == ""
    assert len((tmp_path / "events").read_text().splitlines()) == 2
    ran = deltafix(*asked, "--limit", 1)
    assert (ran.code, ran.out) == (2, "")
    ran = deltafix("analyse", "call-graph", tmp_path, "--format", "openlineage")
    assert (ran.code, ran.out) == (2, "")
    assert "error[DF675]: openlineage is for lineage" in ran.err


def test_a_cell_of_markdown_is_code_and_nothing_else() -> None:
    texts = ["a|b", "`x`", "``", "@all <b>#1", "two\nlines", "", "x" * 500, "|" * 3, "` "]
    table = markdown_table(("name",), [(one,) for one in texts])
    assert table.splitlines() == [
        "| name |",
        "| --- |",
        r"| `a\|b` |",
        "| `` `x` `` |",
        "| ``` `` ``` |",
        "| `@all <b>#1` |",
        "| `two lines` |",
        "|  |",
        f"| `{'x' * 159}…` |",
        r"| `\|\|\|` |",
        "| `` ` `` |",
    ]
