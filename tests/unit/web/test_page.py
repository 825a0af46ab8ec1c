"""The page in a real browser: a file changes, a row lights up, a click shows its proof.

With `DELTAFIX_SCREENSHOTS=docs/images` the pictures of the documentation are made anew.
"""

from __future__ import annotations

import asyncio
import os
import struct
import threading
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from tests.browser import Browser, chromium

import deltafix
from deltafix.engine.follow import FactFolder, ProgramFile
from deltafix.web.live import Live
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
EDGES = ["ams\tber", "ber\tvie", "vie\trom", "rom\tmad", "ams\tlon", "lon\tdub", "par\tlyo"]


def write(path: Path, lines: list[str]) -> None:
    path.with_suffix(".new").write_text("\n".join(lines) + "\n")
    path.with_suffix(".new").rename(path)


@pytest.fixture
def served(tmp_path, warm_kernel):
    """The page of a writable server that follows `tmp_path / "edge.facts"`."""
    write(tmp_path / "edge.facts", EDGES)
    with deltafix.connect(PROGRAM) as db:
        db.why_not('edge("", "")')  # the search is compiled before anyone waits for it
        path = tmp_path / "routes.dl"
        path.write_text(PROGRAM)
        program = ProgramFile(path)
        folder = FactFolder(db, tmp_path, print, program=program)
        folder.load()
        server = Server(db, port=0, writable=True, title="routes.dl")
        thread = threading.Thread(target=server.run, args=(folder, 0.05))
        thread.start()
        try:
            yield server.url
        finally:
            server.stop()
            thread.join()


def picture(browser: Browser, name: str, tmp_path: Path) -> None:
    path = Path(os.environ.get("DELTAFIX_SCREENSHOTS", tmp_path)) / f"{name}.png"
    browser.screenshot(path)
    width, height = struct.unpack(">II", path.read_bytes()[16:24])
    assert (width, height) == (1280, 800)


def test_from_a_changed_file_to_a_proof_by_clicks(served, tmp_path):
    with Browser(served) as browser:
        browser.wait("document.querySelectorAll('#relation-list button').length === 2")
        browser.wait("document.querySelector('#status').textContent === 'live'")
        assert "7" in browser.text('[data-relation="edge"]')

        browser.click('[data-relation="path"]')
        browser.click("""tr[data-fact='path("ams", "vie")']""")
        browser.wait("document.querySelectorAll('#proof li').length > 3")
        assert 'edge("ber", "vie") given' in browser.text("#proof")
        assert "path(x, z) :- path(x, y), edge(y, z)." in browser.text("#proof")

        write(tmp_path / "edge.facts", [*EDGES[:-1], "dub\tmad", "mad\tlis"])
        browser.wait("""!!document.querySelector(`[data-change='+path("ams", "lis")']`)""")
        assert '-path("par", "lyo")' in browser.text("#changes")
        browser.wait("document.querySelector('[data-relation=edge]').innerText.includes('8')")
        browser.wait("document.querySelector('#rows').innerText.includes('of 22')")
        picture(browser, "page-rows", tmp_path)

        browser.click("""[data-change='+path("ams", "lis")']""")
        browser.wait("document.querySelector('#proof').innerText.includes('because of')")
        causes = set(browser.text("#proof .causes").split("\n"))
        assert causes == {'+edge("mad", "lis")'}  # by way of the older edge rom, mad
        browser.click("""[data-change='-path("par", "lyo")']""")
        browser.wait("document.querySelector('#proof').innerText.includes('vanished')")
        assert browser.text("#proof .causes") == '-edge("par", "lyo")'
        assert browser.problems == []


def test_what_happens_while_the_page_is_not_connected_is_shown_once_it_is(
    served, tmp_path, monkeypatch
):
    stream, connections = Live.stream, []

    async def broken(live):
        connections.append(live)
        if len(connections) == 1:
            yield "retry: 100\nevent: live\ndata: \n\n"
            return
        while live.delta is None:  # the epoch finds nobody who listens
            await asyncio.sleep(0.01)
        async for message in stream(live):
            yield message

    monkeypatch.setattr(Live, "stream", broken)
    with Browser(served) as browser:
        browser.wait("document.querySelector('#status').textContent === 'not connected'")
        write(tmp_path / "edge.facts", [*EDGES, "dub\tpar"])
        browser.wait("document.querySelector('#status').textContent === 'live'")
        browser.wait("document.querySelector('[data-relation=edge]').innerText.includes('8')")
        assert browser.text("#changes") == ""  # told to nobody


def test_saving_the_program_shows_the_rows_that_come_and_go(served, tmp_path):
    with Browser(served) as browser:
        browser.wait("document.querySelectorAll('#relation-list button').length === 2")
        browser.wait("document.querySelector('#status').textContent === 'live'")
        more = '.decl far(x: symbol)\nfar(y) :- path("ams", y), !edge("ams", y).\n'
        write(tmp_path / "routes.dl", [PROGRAM.replace("edge(y, z)", "edge(y, z), y < z"), more])
        browser.wait("""!!document.querySelector(`[data-change='+far("vie")']`)""")
        assert '-path("ams", "dub")' in browser.text("#changes")
        browser.click('[data-relation="far"]')
        browser.click("""tr[data-fact='far("vie")']""")
        browser.wait("document.querySelectorAll('#proof li').length > 3")
        browser.click("""[data-change='+far("vie")']""")
        browser.wait("document.querySelector('#proof').innerText.includes('because of')")
        assert browser.text("#proof .causes").split("\n") == [
            'rule +far(y) :- path("ams", y), !edge("ams", y).'
        ]
        write(tmp_path / "routes.dl", [PROGRAM])
        browser.wait("""!!document.querySelector(`[data-change='+path("ams", "dub")']`)""")
        browser.wait("document.querySelectorAll('#relation-list button').length === 2")
        browser.wait("document.querySelector('#rows').innerText.includes('of 7')")
        assert browser.problems == []


def test_the_graph_lights_what_changed_and_its_edges_have_proofs(served, tmp_path):
    with Browser(served) as browser:
        browser.click('[data-relation="edge"]')
        browser.wait("document.querySelector('#status').textContent === 'live'")
        browser.click('[data-tab="graph"]')
        browser.wait("document.querySelectorAll('#graph line.wide').length === 7")
        assert browser.value("document.querySelectorAll('#graph line.lit').length") == 0
        write(tmp_path / "edge.facts", [*EDGES, "dub\tpar"])
        browser.wait("document.querySelectorAll('#graph line.lit').length === 1")
        picture(browser, "page-graph", tmp_path)
        browser.click('[data-relation="path"]')
        browser.wait("document.querySelectorAll('#graph line.lit').length > 3")
        # In the middle of an edge there may lie another: any of them has a proof.
        browser.click("#graph line.wide:last-of-type")
        browser.wait("document.querySelector('#proof').innerText.includes('given')")
        assert browser.problems == []


def test_profile_plan_and_edits(served, tmp_path):
    with Browser(served) as browser:
        browser.wait("document.querySelector('#status').textContent === 'live'")
        browser.wait("!document.querySelector('#edit').hidden")
        browser.type("#facts", 'edge("lyo", "gen")')
        browser.click("#edit button[value='+']")
        browser.wait("""!!document.querySelector(`[data-change='+path("par", "gen")']`)""")
        browser.click('[data-tab="profile"]')
        browser.wait("document.querySelector('#profile').innerText.includes('epoch 2')")
        assert "path(x, z) :- path(x, y), edge(y, z)." in browser.text("#profile")
        picture(browser, "page-profile", tmp_path)
        browser.click('[data-tab="plan"]')
        browser.wait("document.querySelector('#plan').innerText.includes('stratum path')")
        assert browser.problems == []
        browser.type("#facts", "edge(")
        browser.click("#edit button[value='+']")
        browser.wait("document.querySelector('#proof .error')?.innerText.includes('expected')")


def test_the_server_itself_guards_its_door(served):
    assert urlopen(served).status == 200  # noqa: S310  our own server
    for url, headers, wanted in (
        (served.rsplit("/", 2)[0] + "/", {}, 404),
        (served, {"Host": "evil.example"}, 421),
    ):
        with pytest.raises(HTTPError) as caught:
            urlopen(Request(url, headers=headers))  # noqa: S310
        assert caught.value.code == wanted
        caught.value.close()
