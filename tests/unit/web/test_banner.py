"""Saved files on the page, in a real browser: what is not taken and why, and what an edit did."""

from __future__ import annotations

import pytest
from tests.servers.browser import Browser, chromium
from tests.servers.served import running, write

import deltafix
import deltafix.sql
from deltafix.engine.follow import FactFolder, ProgramFile
from deltafix.sql.follow import TableFolder
from deltafix.web.server import Server

pytestmark = pytest.mark.skipif(chromium() is None, reason="no Chromium on this machine")

PROGRAM = """\
.decl cost(x: symbol, n: number)
.input cost
.decl dear(x: symbol)
.output dear
dear(x) :- cost(x, n), n > 10."""
COSTS = ["tea\t3", "gold\t900"]

PROBLEMS = "document.querySelectorAll('#problems .problem')"
FOCUS = "document.activeElement"


@pytest.fixture
def served(tmp_path, warm_kernel):
    """The page of a server that follows `costs.dl` and `cost.facts` in `tmp_path`."""
    write(tmp_path / "cost.facts", COSTS)
    write(tmp_path / "costs.dl", [PROGRAM])
    with deltafix.connect(PROGRAM) as db:
        program = ProgramFile(tmp_path / "costs.dl")
        folder = FactFolder(db, tmp_path, lambda _: None, program=program)
        folder.load()
        server = Server(db, port=0, writable=True, title="costs.dl")
        with running(server, folder) as url:
            yield url


def ready(browser, relations=2):
    browser.wait("document.querySelector('#status').textContent === 'live'")
    browser.wait(f"document.querySelectorAll('#relation-list button').length === {relations}")


def caret(browser, selector="#problems pre"):
    """The text that the caret of an error stands under."""
    lines = browser.text(selector).split("\n")
    at = next(
        number for number, line in enumerate(lines) if line.strip(" |^") == "" and "^" in line
    )
    return lines[at - 1][lines[at].index("^") : lines[at].rindex("^") + 1]


def test_a_bad_fact_file_stands_with_a_caret_until_it_is_mended(served, tmp_path):
    with Browser(served) as browser:
        ready(browser)
        assert browser.text("#problems") == ""
        assert browser.value("document.querySelector('#problem-count').hidden")
        write(tmp_path / "cost.facts", ["tea\t3", "gold\tmuch"])
        browser.wait(f"{PROBLEMS}.length === 1")
        text = browser.text("#problems")
        assert "cost.facts is not taken: its rows stay as they were." in text
        assert "cost.facts:2:6: error[DF202]: column 'n' is 'much', but number takes" in text
        assert caret(browser) == "much"
        assert browser.text("#problem-count") == "1 file not taken"
        assert browser.value("document.querySelector('#problems').getAttribute('role')") == "alert"
        browser.wait("document.querySelector('#rows').innerText.includes('900')")  # as they were
        with Browser(served) as later:  # it stands for those who come later, too
            later.wait(f"{PROBLEMS}.length === 1")
            write(tmp_path / "cost.facts", ["tea\t30", "gold\t900"])
            for one in (browser, later):
                one.wait(f"{PROBLEMS}.length === 0")
                one.wait("document.querySelector('#problem-count').hidden")
        browser.wait("""!!document.querySelector(`[data-change='+dear("tea")']`)""")
        (tmp_path / "cost.facts").unlink()
        browser.wait(f"{PROBLEMS}.length === 1")
        assert "cost.facts is gone" in browser.text("#problems")
        write(tmp_path / "cost.facts", COSTS)
        browser.wait(f"{PROBLEMS}.length === 0")
        assert browser.problems == []


def test_a_bad_program_stands_with_a_caret_and_what_is_mended_says_what_it_changed(
    served, tmp_path
):
    with Browser(served) as browser:
        ready(browser)
        write(tmp_path / "costs.dl", [PROGRAM.replace("cost(x, n),", "costs(x, n),")])
        browser.wait(f"{PROBLEMS}.length === 1")
        text = browser.text("#problems")
        assert "costs.dl is not taken: the rules stay as they were." in text
        assert "costs.dl:5:12: error[DF110]: relation `costs` is not declared" in text
        assert "help: did you mean `cost`?" in text
        assert caret(browser) == "costs(x, n)"
        # Both at once: each has its place, and what stands already is not drawn anew.
        browser.value(f"window.first = {PROBLEMS}[0]")
        write(tmp_path / "cost.facts", ["tea"])
        browser.wait(f"{PROBLEMS}.length === 2")
        assert browser.value(f"{PROBLEMS}[0] === first")
        assert browser.text("#problem-count") == "2 files not taken"
        assert browser.text("#notice") == ""

        write(tmp_path / "costs.dl", [PROGRAM.replace("n > 10", "n > 2")])
        browser.wait(f"{PROBLEMS}.length === 1")
        assert "cost.facts" in browser.text("#problems")
        browser.wait("!!document.querySelector('#notice li')")
        assert browser.text("#notice p").startswith("costs.dl was saved, epoch 2: 2 rules changed.")
        assert browser.text("#notice ul").split("\n") == [
            "rule -dear(x) :- cost(x, n), n > 10.",
            "rule +dear(x) :- cost(x, n), n > 2.",
            "dear: 1 row came, 0 rows went",
        ]
        # An edit that changes no row is one, too, and the page has its relations.
        more = "\n.decl none(x: symbol)\nnone(x) :- cost(x, 7)."
        write(tmp_path / "costs.dl", [PROGRAM.replace("n > 10", "n > 2"), more])
        browser.wait("document.querySelector('#notice p').innerText.includes('epoch 3')")
        assert browser.text("#notice ul").split("\n") == [
            "rule +none(x) :- cost(x, 7).",
            "no row changed",
        ]
        ready(browser, relations=3)
        write(tmp_path / "costs.dl", [PROGRAM.replace("n > 10", "n > 2"), "// a word", more])
        browser.wait("document.querySelector('#notice p').innerText.includes('rules are the same')")
        with Browser(served) as later:  # what was edited before is no news
            later.wait(f"{PROBLEMS}.length === 1")
            assert later.text("#notice") == ""
        assert browser.problems == []


def test_the_banner_is_put_away_by_keyboard_and_comes_back_where_it_is_wanted(served, tmp_path):
    with Browser(served) as browser:
        ready(browser)
        write(tmp_path / "costs.dl", [PROGRAM.replace("n > 10", "m > 10")])
        write(tmp_path / "cost.facts", ["tea\t3\t4"])
        browser.wait(f"{PROBLEMS}.length === 2")
        browser.value("document.querySelector('#problems [data-file=\"costs.dl\"] button').focus()")
        browser.key("\r")
        browser.wait(f"{PROBLEMS}.length === 1")
        # The focus is not lost: it is at what is left, then at the count, which brings all back.
        assert browser.value(f"{FOCUS}.getAttribute('aria-label')") == "dismiss cost.facts"
        browser.key("\x1b")
        browser.wait(f"{PROBLEMS}.length === 0")
        assert browser.value(f"{FOCUS}.id") == "problem-count"
        assert browser.text("#problem-count") == "2 files not taken"  # they stand all the same
        browser.key("\r")
        browser.wait(f"{PROBLEMS}.length === 2")
        assert browser.value(f"!!{FOCUS}.closest('.problem')")
        for _ in range(2):
            browser.key("\x1b")
        browser.wait(f"{PROBLEMS}.length === 0")
        # Another error is told, though the one before was put away.
        write(tmp_path / "cost.facts", ["tea\tthree"])
        browser.wait(f"{PROBLEMS}.length === 1")
        assert caret(browser) == "three"
        browser.value("document.querySelector('#problems button').focus()")
        browser.key("\x1b")
        write(tmp_path / "cost.facts", COSTS)
        browser.wait("document.querySelector('#problem-count').innerText === '1 file not taken'")
        write(tmp_path / "costs.dl", [PROGRAM])
        browser.wait("document.querySelector('#problem-count').hidden")
        browser.wait("!!document.querySelector('#notice button')")
        browser.value("document.querySelector('#notice button').focus()")
        browser.key("\x1b")
        assert browser.text("#notice") == ""
        assert browser.value(f"{FOCUS}.id") == "tab-rows"
        # What was mended and breaks again in the same way is told again.
        write(tmp_path / "cost.facts", ["tea\tthree"])
        browser.wait(f"{PROBLEMS}.length === 1")
        assert browser.problems == []


@pytest.mark.parametrize(("width", "height", "scheme"), [(1280, 800, "light"), (390, 844, "dark")])
def test_every_state_of_the_banner_can_be_used_by_everybody(
    served, tmp_path, width, height, scheme
):
    with Browser(served, width, height) as browser:
        browser.prefer(scheme)
        ready(browser)
        seen = {browser.check(f"banner, none, {scheme}")}

        def drawn(state, selector):
            """A picture that no other state has, with this on it and nothing over it."""
            picture = browser.check(f"banner, {state}, {scheme}")
            assert picture not in seen
            seen.add(picture)
            assert browser.value(
                f"""(found => found.every(one => {{
                    const {{left, top, right, bottom}} = one.getBoundingClientRect();
                    const there = document.elementFromPoint((left + right) / 2, top + 3);
                    return 0 <= left && right <= innerWidth && 0 <= top && top + 3 < bottom
                        && bottom <= innerHeight && one.contains(there);
                }}) && found.length)([...document.querySelectorAll('{selector}')])"""
            )

        write(tmp_path / "costs.dl", [f"{PROGRAM}\ndear(y) :- cost(x, n), {'n > 5, ' * 40} n > 6."])
        browser.wait(f"{PROBLEMS}.length === 1")
        drawn("problem", "#problems, #problem-count")
        long = "x" * 400
        write(tmp_path / "cost.facts", [f"{long}\tmuch"])
        browser.wait(f"{PROBLEMS}.length === 2")
        drawn("problems", "#problems, #problem-count")
        write(tmp_path / "costs.dl", [f'{PROGRAM}\ndear("{long}") :- cost(_, 3).'])
        browser.wait("!!document.querySelector('#notice li')")
        drawn("edit", "#problems, #notice, #problem-count")
        browser.click("#problems button")
        browser.wait(f"{PROBLEMS}.length === 0")
        drawn("put away", "#notice, #problem-count")
        write(tmp_path / "cost.facts", COSTS)
        browser.wait("document.querySelector('#problem-count').hidden")
        browser.click("#notice button")
        browser.check(f"banner, mended, {scheme}")
        assert browser.problems == []


def test_tables_of_sql_and_their_script(tmp_path, warm_kernel):
    script = """CREATE TABLE city (name TEXT PRIMARY KEY);
CREATE TABLE road (a TEXT NOT NULL REFERENCES city, km INTEGER);
CREATE MATERIALIZED VIEW far AS SELECT a FROM road WHERE km > 10;
"""
    (tmp_path / "roads.sql").write_text(script)
    write(tmp_path / "city.csv", ["name", "a"])
    write(tmp_path / "road.csv", ["a,km", "a,3"])
    with deltafix.sql.connect() as db:
        db.execute(script)
        path = tmp_path / "roads.sql"
        folder = TableFolder(db, tmp_path, lambda _: None, (path, script))
        folder.load()
        server = Server(db, port=0, writable=False, title="roads.sql")
        with running(server, folder) as url, Browser(url) as browser:
            ready(browser, relations=3)
            write(tmp_path / "road.csv", ["a,km", "a,3", "a,long"])
            browser.wait(f"{PROBLEMS}.length === 1")
            assert "road.csv:3:3: error[DF300]: 'long' in column 'km' is no INTEGER" in (
                browser.text("#problems")
            )
            assert caret(browser) == "long"
            # A reference to what is not there yet: mended by the other file.
            write(tmp_path / "road.csv", ["a,km", "b,30"])
            browser.wait("document.querySelector('#problems').innerText.includes('road.csv:2:1')")
            assert "error[DF300]: road: (a) of a row is ('b')" in browser.text("#problems")
            assert caret(browser) == "b,30"
            write(tmp_path / "city.csv", ["name", "a", "b"])
            browser.wait(f"{PROBLEMS}.length === 0")
            browser.wait("!!document.querySelector('[data-change=\"+far: a = \\'b\\'\"]')")

            write(path, [script, "CREATE MATERIALIZED VIEW more AS SELECT a FROM road;"])
            browser.wait(f"{PROBLEMS}.length === 1")
            text = browser.text("#problems")
            assert "roads.sql is not taken: tables and views stay as they were" in text
            assert "start the server again to take it" in text
            assert "a script is run once" in text
            browser.check("a script that has changed")
            path.unlink()
            path.write_text(script)
            browser.wait(f"{PROBLEMS}.length === 0")
            assert browser.problems == []
