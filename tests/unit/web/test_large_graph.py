"""The page's graph at its bound, in a real browser: what is drawn, asked and laid out is counted.

The oracle of what lies around nodes is a walk over the rows.
"""

from __future__ import annotations

import json
import random

import pytest
from tests.servers.browser import CY, Browser, chromium
from tests.servers.served import running

import deltafix
from deltafix.web.graph import EDGES, NODES
from deltafix.web.server import Server

pytestmark = pytest.mark.skipif(chromium() is None, reason="no Chromium on this machine")

NAMES = 3000
LISTED = 200

# What is asked of the server and what is laid out, from here on.
COUNT = """
window.asked = 0; window.laid = [];
const simulation = d3.forceSimulation, ask = window.fetch;
d3.forceSimulation = (nodes) => { laid.push(nodes.length); return simulation(nodes); };
window.fetch = (to, ...rest) => { asked += to.includes("api/graph"); return ask(to, ...rest); };
"""


def links():
    """A tree of 3,000 nodes and 5,000 edges across it: more of both than are drawn."""
    rng = random.Random(3)
    tree = {(f"n{i}", f"n{(i - 1) // 2}") for i in range(1, NAMES)}
    across = {(f"n{rng.randrange(NAMES)}", f"n{rng.randrange(NAMES)}") for _ in range(5000)}
    return sorted(tree | across)


def around(rows, start, depth):
    """The nodes at most so many edges away from some, in either direction."""
    near = {}
    for one, other in rows:
        near.setdefault(one, set()).add(other)
        near.setdefault(other, set()).add(one)
    found = set(start)
    for _ in range(depth):
        found |= {other for one in found for other in near[one]}
    return found


def drawn(browser):
    """Labels of the nodes and facts of the edges that are drawn."""
    nodes = browser.value(f"{CY}.nodes().map(n => n.data('label'))")
    edges = browser.value(f"{CY}.edges().map(e => e.data('fact'))")
    assert isinstance(nodes, list)
    assert len(set(nodes)) == len(nodes)
    return set(nodes), edges


def show(browser, focus, depth):
    """Look around nodes by the form, as a person does; how often the server was asked for it."""
    browser.value(f"window.asked = 0; document.querySelector('#focus').value = {json.dumps(focus)}")
    browser.value(f"document.querySelector('#depth').value = '{depth}'")
    browser.click("#graph .bar button:not([type])")
    browser.wait("asked > 0 && document.body.getAttribute('aria-busy') === 'false'")
    return browser.value("asked")


def test_two_thousand_nodes_are_loaded_zoomed_searched_and_looked_around(warm_kernel):
    rows = links()
    facts = {f'edge("{a}", "{b}")' for a, b in rows}
    with deltafix.connect(".decl edge(x: symbol, y: symbol)\n.input edge\n") as db:
        with db.transaction() as tx:
            tx.insert("edge", rows)
        server = Server(db, port=0, writable=True, title="large.dl")
        with running(server) as url, Browser(url) as browser:
            browser.wait("document.querySelector('#status').textContent === 'live'")
            browser.value(COUNT)
            browser.click('[data-tab="graph"]')
            browser.wait(f"{CY}?.nodes().length === {NODES}", 60)
            browser.wait("document.body.getAttribute('aria-busy') === 'false'", 60)
            nodes, edges = drawn(browser)
            assert (len(nodes), browser.value("asked"), browser.value("laid")) == (
                NODES, 1, [NODES],
            )  # fmt: skip
            assert NODES < len(edges) <= EDGES
            assert set(edges) <= facts
            assert f"2,000 nodes, {len(edges):,} edges: a part of {len(rows):,} edges" in str(
                browser.text("#graph .hint")
            )
            # The list below is cut, so the page is no larger for a larger graph.
            assert browser.value("document.querySelectorAll('#edges li').length") == LISTED
            assert f"and {len(edges) - LISTED:,} more edges" in browser.text("#edges")
            assert browser.value(f"document.querySelectorAll('*').length < {NODES}")

            places = f"JSON.stringify({CY}.nodes().map(n => [n.id(), n.position()]).sort())"
            before, zoom = browser.value(places), browser.value(f"{CY}.zoom()")
            browser.wheel("#canvas", -200)
            browser.wait(f"{CY}.zoom() > {zoom}")
            browser.value("document.querySelector('#canvas').focus()")
            for key, grows in (("-", "<"), ("+", ">"), ("0", "<")):
                zoom = browser.value(f"{CY}.zoom()")
                browser.key(key)
                browser.wait(f"{CY}.zoom() {grows} {zoom}")
            # Looking closer, and an edge more, move no node and lay nothing out.
            ends = sorted(nodes)[0], sorted(nodes)[-1]
            browser.type("#facts", f'edge("{ends[0]}", "{ends[1]}")')
            browser.click("#edit button[value='+']")
            browser.wait(f"{CY}.edges('.lit').length === 1", 60)
            browser.wait("document.body.getAttribute('aria-busy') === 'false'", 60)
            assert browser.value(places) == before
            assert browser.value("laid") == [NODES]
            rows.append(ends)

            # A part of a name, in either case, finds the nodes that contain it.
            named = {f"n{i}" for i in range(NAMES) if "n29" in f"n{i}"}
            assert show(browser, "N29", 1) == 1  # "n29" is a node's whole name
            assert drawn(browser)[0] == around(rows, named, 1)
            assert browser.value(
                f"{CY}.nodes('.focus').map(n => n.data('label')).sort()"
            ) == sorted(named)
            for depth in (1, 2):
                assert show(browser, "n7", depth) == 1  # a whole name is that node alone
                assert drawn(browser)[0] == around(rows, {"n7"}, depth)
            # All around a node are more than are drawn.
            whole = around(rows, {"n7"}, 6)
            assert len(whole) > NODES
            assert show(browser, "n7", 6) == 1
            nodes, edges = drawn(browser)
            assert (len(nodes), "n7" in nodes, nodes <= whole) == (NODES, True, True)
            assert around(rows, {"n7"}, 2) <= nodes  # the nearest are there
            assert "a part of" in browser.text("#graph .hint")
            assert browser.value("laid.every((n) => n <= 2000)")
            assert browser.value("laid.length") == 5
            assert browser.problems == []
