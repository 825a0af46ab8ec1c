"""The page as a screen reader tells it, used by what is heard alone: roles, names and states."""

from __future__ import annotations

import time

import pytest
from tests.servers.browser import Browser, chromium
from tests.servers.served import running, write

import deltafix
from deltafix.engine.follow import FactFolder, ProgramFile
from deltafix.web.server import Server

pytestmark = pytest.mark.skipif(chromium() is None, reason="no Chromium on this machine")

PROGRAM = """\
.decl edge(x: symbol, y: symbol)
.input edge
.decl path(x: symbol, y: symbol)
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""
EDGES = ["ams\tber", "ber\tvie", "vie\trom"]


@pytest.fixture
def browser(tmp_path, warm_kernel):
    """The page of a server that follows `edge.facts` in `tmp_path`."""
    write(tmp_path / "edge.facts", EDGES)
    write(tmp_path / "routes.dl", [PROGRAM])
    with deltafix.connect(PROGRAM) as db:
        program = ProgramFile(tmp_path / "routes.dl")
        folder = FactFolder(db, tmp_path, lambda _: None, program=program)
        folder.load()
        server = Server(db, port=0, writable=True, title="routes.dl")
        with running(server, folder) as url, Browser(url) as found:
            found.call("Accessibility.enable")
            until(found, role="StaticText", name="live", live="polite")
            yield found


def until(browser, *, inside="", seconds=20, **wanted):
    """What is heard inside of a named element and has this role, name, states and so on."""
    end = time.monotonic() + seconds
    while True:
        states = wanted.get("states", {})
        heard = browser.heard()
        found = [
            one
            for one in heard
            if all(getattr(one, key) == value for key, value in wanted.items() if key != "states")
            and states.items() <= one.states.items()
            and (not inside or inside in one.inside)
        ]
        if found:
            return found
        assert time.monotonic() < end, (wanted, inside, [one[:3] for one in heard])
        time.sleep(0.05)


def column(browser, table):
    """The cells of a table's last column, as they are heard one after another."""
    cells = [one for one in browser.heard() if one.role == "cell" and table in one.inside]
    return [one.name for one in cells[5::3]]  # below three of filters, after the button and x


def test_a_row_is_found_sorted_and_explained_by_what_is_heard(browser):
    until(browser, role="RootWebArea", name="routes.dl, deltafix")
    browser.press("button", "path 6")
    until(browser, role="table", name="path")
    until(browser, role="StaticText", name="1 to 6 of 6", live="polite")
    # Found: what is left is told by itself.
    browser.press("searchbox", "Search:", "o")
    browser.key("m")
    until(browser, role="StaticText", name="1 to 3 of 3, filtered from 6", live="polite")
    assert set(column(browser, "path")) == {'"rom"'}
    browser.press("searchbox", "Search:")
    browser.call("Input.dispatchKeyEvent", type="keyDown", commands=["selectAll"])
    browser.key("\x08")
    until(browser, role="StaticText", name="1 to 6 of 6", live="polite")
    # Sorted: a button in the head of the column.
    assert [one.name for one in until(browser, role="columnheader", inside="path")] == [
        "explain", "x: symbol", "y: symbol",
    ]  # fmt: skip
    browser.press("button", "y: symbol", " ")
    browser.wait("document.querySelector('th:last-child').ariaSort === 'ascending'")
    browser.wait("document.body.getAttribute('aria-busy') === 'false'")
    assert column(browser, "path") == sorted(column(browser, "path"))
    until(browser, role="button", name="y: symbol", states={"focused": True})
    # Explained: the answer is told by itself, and its steps open and close.
    browser.press("button", 'why path("ams", "vie")')
    step = until(browser, inside="Why", role="DisclosureTriangle", name='path("ams", "vie")')[0]
    assert (step.states["expanded"], step.live) == (True, "polite")
    until(browser, inside="Why", role="StaticText", name='edge("ber", "vie")')
    browser.press("DisclosureTriangle", 'path("ams", "ber")')
    until(browser, inside="Why", name='path("ams", "ber")', states={"expanded": False})
    assert not [one for one in browser.heard() if one.name == 'edge("ams", "ber")' and one.live]
    assert browser.problems == []


def test_what_changes_and_what_is_not_taken_is_told_by_itself(browser, tmp_path):
    write(tmp_path / "edge.facts", [*EDGES, "rom\tmad"])
    until(browser, inside="Changes", role="button", name='+path("ams", "mad")', live="polite")
    until(browser, inside="Relations", role="button", name="edge changed 4")
    write(tmp_path / "edge.facts", [*EDGES, "rom\tmad\tlis"])
    until(browser, role="StaticText", name="edge.facts is not taken", live="assertive")
    text = until(browser, inside="what is wrong in edge.facts", role="StaticText")[0]
    assert "expected 2 values for edge(x: symbol, y: symbol)" in text.name
    assert text.live == "assertive"
    browser.press("button", "dismiss edge.facts", " ")
    until(browser, role="button", name="1 file not taken", states={"focused": True})
    assert not [one for one in browser.heard() if one.live == "assertive" and one.name]
    browser.key("\r")
    until(browser, role="button", name="dismiss edge.facts", states={"focused": True})
    browser.press("button", '+path("ams", "mad")')
    until(browser, inside="Why", role="StaticText", name='+edge("rom", "mad")', live="polite")
    # An edit that is refused is told at once.
    browser.press("textbox", "Facts", "e")
    browser.press("button", "insert")
    until(browser, role="StaticText", inside="Relations", live="assertive")
