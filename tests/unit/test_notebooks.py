"""What a notebook shows of us: IPython runs cells, and what comes out of them is looked at."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import pytest

capture = pytest.importorskip("IPython.utils.capture")
interactive = pytest.importorskip("IPython.core.interactiveshell")

BEGIN = """
import deltafix, deltafix.sql
from IPython.display import display
program = deltafix.Program.parse(
    ".decl edge(x: symbol, y: symbol) .decl path(x: symbol, y: symbol)"
    " path(x, y) :- edge(x, y). path(x, z) :- path(x, y), edge(y, z)."
)
db = deltafix.connect(program)
with db.transaction() as tx:
    tx.insert("edge", [("a", "<b>"), ("<b>", "c")])
sql = deltafix.sql.connect()
_ = sql.execute('''
    CREATE TABLE sold (item TEXT NOT NULL, price INTEGER);
    CREATE MATERIALIZED VIEW total AS SELECT item, SUM(price) AS price FROM sold GROUP BY item;
    INSERT INTO sold VALUES ('pen', 2), ('pen', 2), ('ink', NULL);
''')
"""


class Texts(HTMLParser):
    """The texts of a document, in order; the tags that are open at its end."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(document)
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture(scope="module")
def shell(warm_kernel: None, tmp_path_factory: pytest.TempPathFactory) -> Any:
    kind, folder = interactive.InteractiveShell, tmp_path_factory.mktemp("ipython")
    shell = kind.instance(ipython_dir=str(folder))
    shell.display_formatter.active_types = shell.display_formatter.format_types  # as in a kernel
    shell.run_cell(BEGIN).raise_error()
    yield shell
    shell.history_manager.end_session()
    kind.clear_instance()


def texts(shell: Any, value: str) -> list[str]:
    """What a cell shows of a value."""
    with capture.capture_output() as captured:
        shell.run_cell(f"display({value})").raise_error()
    (output,) = captured.outputs
    shown = Texts(output.data["text/html"])
    assert shown.open == []
    return shown.texts


def test_a_program_is_its_text(shell: Any) -> None:
    (shown,) = texts(shell, "program")
    assert shown == shell.user_ns["program"].show()
    assert repr(shell.user_ns["program"]) == "<Program edge, path: 2 rules>"


def test_a_database_is_a_table_of_its_relations(shell: Any) -> None:
    assert texts(shell, "db") == [
        *("Database, epoch 1", "relation", "rows come", "rows"),
        *("edge(x: symbol, y: symbol)", "given", "2"),
        *("path(x: symbol, y: symbol)", "by rules", "3"),
    ]
    bounded = ".decl lim(x: number) .decl n(x: number) n(0). n(x + 1) :- n(x), !lim(x)."
    assert texts(shell, f"deltafix.connect('{bounded}')").count("not run yet") == 2


def test_a_connection_is_a_table_of_its_tables_and_views(shell: Any) -> None:
    assert texts(shell, "sql") == [
        *("Connection", "columns", "rows"),
        *("table", "sold(item TEXT NOT NULL, price INTEGER)", "3"),
        *("view", "total(item TEXT NOT NULL, price BIGINT)", "2"),
    ]


@pytest.mark.parametrize(
    ("value", "part"),
    [
        ("db.relation('path')", '"<b>"'),
        ("tx.delta", "path(x: symbol, y: symbol): 3 added, 0 removed"),
        ("db.plan", "stratum path (recursive)"),
        ('db.why(\'path("a", "c")\')', 'path("a", "<b>")'),
        ('db.why_not(\'path("c", "a")\')', "edge"),
    ],
)
def test_relations_deltas_plans_and_proofs_show_themselves(
    shell: Any, value: str, part: str
) -> None:
    assert part in "\n".join(texts(shell, value))


def test_a_cell_that_follows_a_relation_shows_each_change_in_place_of_the_last(shell: Any) -> None:
    with capture.capture_output() as first:
        shell.run_cell(
            "cell = display('no change yet', display_id=True)\n"
            "watch = db.watch('path', cell.update)"
        ).raise_error()
    (begun,) = first.outputs
    assert "no change yet" in begun.data["text/plain"]
    with capture.capture_output() as then:
        for edit in ("tx.insert('edge', [('c', 'd')])", "tx.delete('edge', [('c', 'd')])"):
            shell.run_cell(f"with db.transaction() as tx: {edit}").raise_error()
        shell.run_cell("watch.close()").raise_error()
        shell.run_cell("with db.transaction() as tx: tx.delete('edge', [('<b>', 'c')])")
    came, went = then.outputs
    for shown, caption in ((came, "3 added, 0 removed"), (went, "0 added, 3 removed")):
        assert shown.update
        assert shown.transient == begun.transient
        assert f"path(x: symbol, y: symbol): {caption}" in Texts(shown.data["text/html"]).texts
