"""The looks that tests take at the page find what they are for: each fault is put in, and found."""

from __future__ import annotations

import pytest
from tests.servers.browser import CY, Browser, chromium
from tests.servers.served import running

import deltafix
from deltafix.web.server import Server

pytestmark = pytest.mark.skipif(chromium() is None, reason="no Chromium on this machine")


@pytest.fixture(scope="module")
def browser(warm_kernel):
    """A page with rows, at the width of a phone."""
    with deltafix.connect(".decl edge(x: symbol, y: symbol)\n.input edge\n") as db:
        with db.transaction() as tx:
            tx.insert("edge", [("ams", "ber"), ("ber", "vie")])
        server = Server(db, port=0, writable=True, title="routes.dl")
        with running(server) as url, Browser(url, 390, 844) as found:
            found.wait("document.querySelectorAll('#rows tbody tr').length === 2")
            found.check("without a fault")
            assert found.walk("without a fault") > 10
            yield found


@pytest.fixture
def styled(browser, monkeypatch):
    """A rule of style, until the test ends; nobody wants a picture of it."""
    monkeypatch.delenv("DELTAFIX_SCREENSHOTS", raising=False)

    def styled(rule):
        browser.value(
            "window.sheet = new CSSStyleSheet(); document.adoptedStyleSheets = [sheet];"
            f"sheet.replaceSync(`{rule}`)"
        )

    yield styled
    browser.value("document.adoptedStyleSheets = []")
    assert not any(browser.value("looks()").values())


FAULTS = {
    "#edit { margin-top: -2rem }": ("overlaps", "edge"),
    "#rows .scroll { margin-top: -3rem }": ("overlaps", "x: symbol"),
    "td { padding: 0; line-height: .5 }": ("overlaps", "ams"),
    "#tabs { transform: translateX(200px) }": ("beyond", "Plan"),
    "#relation-list { overflow: visible } .size { position: relative; left: 9rem }": (
        "beyond",
        "2",
    ),
    "h1 { margin-left: -2rem }": ("beyond", "routes.dl"),
    "#relation-list, #relations h2, #edit { display: none }": ("empty", "relations"),
    "#changes { visibility: hidden }": ("empty", "changes"),
    "h2 { color: #8a8a8a }": ("faint", "Relations"),
    "td { opacity: .5 }": ("faint", "ams"),
    "#relations { background: #555 }": ("faint", "Edit"),
}


@pytest.mark.parametrize("rule", FAULTS)
def test_a_fault_of_style_is_found_where_it_is(browser, styled, rule):
    kind, where = FAULTS[rule]
    styled(rule)
    assert any(where in one for one in browser.value("looks()")[kind])
    with pytest.raises(AssertionError):
        browser.check("with a fault")


@pytest.mark.parametrize(
    ("rule", "wrong"),
    [
        ("button:focus-visible { outline: none; border-color: transparent }", "looks as before"),
        ("#insert { position: absolute; clip-path: inset(50%) }", "out of sight"),
    ],
)
def test_a_focus_that_nobody_sees_is_found(browser, styled, rule, wrong):
    styled(rule)
    with pytest.raises(AssertionError, match=wrong):
        browser.walk("with a fault")


def test_a_stop_that_the_tab_key_does_not_reach_or_reaches_twice_is_found(browser):
    browser.value(
        "document.querySelector('#insert').addEventListener('focus', "
        "() => document.querySelector('#facts').focus(), { once: true }); 0"
    )
    with pytest.raises(AssertionError, match="a second time"):
        browser.walk("a trap")
    browser.walk("without it")


def test_a_graph_that_is_faint_or_not_drawn_is_found(browser):
    browser.click('[data-tab="graph"]')
    browser.wait(f"{CY}?.nodes().length === 3")
    browser.check("a graph")
    browser.value(f"{CY}.edges().style('line-color', 'rgb(200, 200, 200)'); 0")
    assert browser.value("looks().faint") == ["line-color of edges: 1.7"]
    browser.value(f"{CY}.elements().remove(); 0")
    browser.wait("looks().empty.length > 0")
    browser.click('[data-tab="rows"]')
    browser.wait("!document.querySelector('#rows').hidden")
