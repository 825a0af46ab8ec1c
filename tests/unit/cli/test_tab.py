"""Tab at the prompts of `deltafix sql` and `deltafix shell`: what is offered is what there is."""

from __future__ import annotations

from contextlib import closing

import pytest

import deltafix.sql
from deltafix.cli.main import main
from deltafix.cli.tab import sql_words

readline = pytest.importorskip("readline")


@pytest.fixture
def catalog(warm_kernel):
    with closing(deltafix.sql.connect()) as db:
        db.execute(
            """CREATE TABLE person (name TEXT, age INTEGER, "Two words" TEXT);
            CREATE TABLE "Order" (n INTEGER);
            CREATE VIEW per_age AS SELECT age, COUNT(*) AS n FROM person GROUP BY age"""
        )
        yield db.catalog


@pytest.mark.parametrize(
    ("before", "typed", "offered"),
    [
        ("SELECT * FROM ", "", {"person", "per_age", "order"}),
        ("select name from person p join ", "pe", {"person", "per_age"}),
        ("SELECT * FROM person WHERE ", "a", {"age", "and", "as", "abs("}),
        ("SELECT * FROM person WHERE ", "A", {"age", "AND", "ABS("}),
        ("SELECT * FROM person WHERE ", "n", {"name", "not"}),
        ("SELECT * FROM per_age WHERE ", "n", {"n"}),
        ("SELECT ", "n", {"name", "n"}),
        ("SELECT * FROM person AS p JOIN per_age q ON ", "q.", {"q.age", "q.n"}),
        ("SELECT * FROM person p JOIN per_age q ON ", "p.", {"p.name", 'p."two words"'}),
        ("SELECT ", "person.na", {"person.name"}),
        ("", "cre", {"create table", "create materialized view"}),
    ],
)
def test_words_are_those_that_may_stand_there(catalog, before, typed, offered):
    assert offered <= set(sql_words(catalog, before, typed))


@pytest.mark.parametrize(
    ("before", "typed", "absent"),
    [
        ("SELECT * FROM ", "", {"name", "SELECT", "WHERE"}),
        ("SELECT * FROM per_age WHERE ", "n", {"name"}),
        ("SELECT * FROM person p JOIN per_age q ON ", "q.", {"q.name", "age"}),
        ("SELECT ", "person.na", {"person.n"}),
    ],
)
def test_words_that_may_not_stand_there_are_not_offered(catalog, before, typed, absent):
    assert not absent & set(sql_words(catalog, before, typed))


@pytest.fixture
def typed(monkeypatch):
    """Lines to be typed; of one that ends with a tab what is offered is kept, and no line comes."""
    shown: list[list[str]] = []

    def prepare(*lines: str) -> list[list[str]]:
        left = iter(lines)

        def answer(_: str) -> str:
            for line in left:
                if not line.endswith("\t"):
                    return line
                words = line[:-1]
                begin = max(words.rfind(one) for one in readline.get_completer_delims()) + 1
                monkeypatch.setattr("readline.get_line_buffer", lambda words=words: words)
                monkeypatch.setattr("readline.get_begidx", lambda begin=begin: begin)
                complete, found = readline.get_completer(), []
                while (word := complete(words[begin:], len(found))) is not None:
                    found.append(word)
                shown.append(found)
            raise EOFError

        monkeypatch.setattr("builtins.input", answer)
        monkeypatch.setattr("sys.stdin.isatty", lambda: True)
        return shown

    return prepare


def test_tab_completes_in_the_shell_of_sql(typed, warm_kernel):
    shown = typed(
        "CREATE TABLE person (name TEXT);", "SELECT na\t", "SELECT name", "FROM p\t", ".t\t"
    )
    with pytest.raises(SystemExit):
        main(["sql"])
    assert "name" in shown[0]
    assert shown[1:] == [["person"], []]  # a statement is open, so `.t` is no command
    shown = typed(".t\t")
    with pytest.raises(SystemExit):
        main(["sql"])
    assert shown[3:] == [[".tables"]]


def test_tab_completes_in_the_shell_of_rules(typed, tmp_path, warm_kernel):
    (tmp_path / "p.dl").write_text(".decl edge(x: number)\n.input edge\n")
    shown = typed("e\t", "+e\t", "why e\t", "co\t", ".r\t", "why co\t")
    with pytest.raises(SystemExit):
        main(["shell", str(tmp_path / "p.dl")])
    assert shown == [
        ["edge"],
        ["edge"],
        ["edge"],
        ["commit", "count"],
        [".read", ".relations", ".rows"],
        [],
    ]
