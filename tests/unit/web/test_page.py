"""The page in a real browser: a file changes, a row lights up, a click shows its proof.

`make screenshots` keeps a picture of each state, and makes those of the documentation anew.
"""

from __future__ import annotations

import asyncio
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from tests.servers.browser import CY, Browser, chromium
from tests.servers.served import running, write

import deltafix
import deltafix.sql
from deltafix.engine.follow import FactFolder, ProgramFile
from deltafix.web.feed import Feed, Limits
from deltafix.web.server import Server

pytestmark = pytest.mark.skipif(chromium() is None, reason="no Chromium on this machine")

FOCUS = "document.activeElement"
PROGRAM = """\
.decl edge(x: symbol, y: symbol)
.input edge
.decl path(x: symbol, y: symbol)
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""
EDGES = ["ams\tber", "ber\tvie", "vie\trom", "rom\tmad", "ams\tlon", "lon\tdub", "par\tlyo"]


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
        with running(Server(db, port=0, writable=True, title="routes.dl"), folder) as url:
            yield url


@pytest.fixture
def large(warm_kernel):
    """The page of a server of a million rows."""
    with deltafix.connect(".decl cost(x: symbol, n: number)\n.input cost\n") as db:
        with db.transaction() as tx:
            tx.insert("cost", [(f"c{i}", i) for i in range(1_000_000)])
        with running(Server(db, port=0, writable=False, title="costs.dl")) as url:
            yield url


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
        browser.picture("page-rows")

        browser.click("""[data-change='+path("ams", "lis")']""")
        browser.wait("document.querySelector('#proof').innerText.includes('because of')")
        causes = set(browser.text("#proof .causes").split("\n"))
        assert causes == {'+edge("mad", "lis")'}  # by way of the older edge rom, mad
        browser.click("""[data-change='-path("par", "lyo")']""")
        browser.wait("document.querySelector('#proof').innerText.includes('vanished')")
        assert browser.text("#proof .causes") == '-edge("par", "lyo")'
        assert browser.problems == []


def broken_until(epoch, monkeypatch):
    """The page's first stream ends at once, and it finds no other one until there is an epoch."""
    follow, connections = Feed.follow, []

    async def broken(feed, name, place, where):
        connections.append(place)
        if len(connections) == 1:
            stream = follow(feed, name, place, where)
            yield await anext(stream)
            await stream.aclose()
            return
        while feed.source.epoch < epoch:
            await asyncio.sleep(0.01)
        async for message in follow(feed, name, place, where):
            yield message

    monkeypatch.setattr(Feed, "follow", broken)


def test_what_happens_while_the_page_is_not_connected_is_told_once_it_is(
    served, tmp_path, monkeypatch
):
    broken_until(2, monkeypatch)
    with Browser(served) as browser:
        browser.wait("document.querySelector('#status').textContent === 'not connected'")
        write(tmp_path / "edge.facts", [*EDGES, "dub\tpar"])
        browser.wait("document.querySelector('#status').textContent === 'live'")
        browser.wait("document.querySelector('[data-relation=edge]').innerText.includes('8')")
        browser.wait("""!!document.querySelector(`[data-change='+edge("dub", "par")']`)""")
        browser.click("""[data-change='+path("lon", "lyo")']""")
        browser.wait("document.querySelector('#proof').innerText.includes('because of')")
        assert browser.text("#proof .causes") == '+edge("dub", "par")'


def test_a_page_that_missed_too_much_shows_what_there_is_and_says_so(warm_kernel, monkeypatch):
    broken_until(4, monkeypatch)
    with deltafix.connect(PROGRAM) as db:
        server = Server(db, port=0, writable=True, title="t", limits=Limits(epochs=2))
        with running(server) as url, Browser(url) as browser:
            browser.wait("document.querySelector('#status').textContent === 'not connected'")
            for n in range(4):
                with db.transaction() as tx:
                    tx.insert("edge", [("a", f"b{n}")])
            browser.wait("document.querySelector('#status').textContent === 'live'")
            browser.wait("document.querySelector('[data-relation=path]').innerText.includes('4')")
            assert "not kept" in browser.text("#changes")
            with db.transaction() as tx:
                tx.insert("edge", [("b0", "c")])
            browser.wait("""!!document.querySelector(`[data-change='+path("a", "c")']`)""")
            assert "b3" not in browser.text("#changes")


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
        browser.wait(f"{CY}?.edges().length === 7")
        assert browser.value(f"{CY}.edges('.lit').length") == 0
        write(tmp_path / "edge.facts", [*EDGES, "dub\tpar"])
        browser.wait(f"{CY}.edges('.lit').length === 1")
        browser.picture("page-graph")
        browser.click('[data-relation="path"]')
        browser.wait(f"{CY}?.edges('.lit').length > 3")
        press(browser, f"{CY}.edges()[0].renderedMidpoint()")
        browser.wait("document.querySelector('#proof').innerText.includes('given')")
        assert browser.problems == []


def test_a_node_and_what_is_around_it(served, tmp_path):
    with Browser(served) as browser:
        browser.wait("document.querySelector('#status').textContent === 'live'")
        browser.click('[data-relation="edge"]')
        browser.click('[data-tab="graph"]')
        browser.wait(f"{CY}?.nodes().length === 9")
        press(browser, f"{CY}.nodes('[label=\"ber\"]')[0].renderedPosition()")
        browser.wait("document.querySelector('#edges h2').textContent === 'Edges of ber'")
        assert {line for line in browser.text("#edges ul").split("\n") if "(" in line} == {
            'edge("ams", "ber")',
            'edge("ber", "vie")',
        }
        browser.click("#edges p button")  # show what is around it
        browser.wait(f"{CY}.nodes().length === 3")
        browser.value("document.querySelector('#depth').focus()")
        browser.key("2")
        browser.wait(f"{CY}.nodes().length === 5")
        browser.click("#edges [aria-label='go to vie']")
        browser.wait(f"{CY}.nodes('.focus')[0].data('label') === 'vie'")

        at = "Array.from(document.querySelector('#canvas')._cyreg.cy.nodes(), n => n.position().x)"
        before = browser.value(f"JSON.stringify({at})")
        write(tmp_path / "edge.facts", [*EDGES, "ber\trom"])
        browser.wait(f"{CY}.edges('.lit').length === 1")
        assert browser.value(f"JSON.stringify({at})") == before  # the view at hand stays

        browser.value("document.querySelector('#canvas').focus()")
        zoom = browser.value(f"{CY}.zoom()")
        browser.key("+")
        assert browser.value(f"{CY}.zoom()") > zoom
        browser.value("document.querySelector('#focus').value = 'nobody'")
        browser.click("#graph .bar button:not([type])")
        browser.wait("document.querySelector('#graph .error').innerText.includes('no node')")
        browser.problems.clear()  # the browser logs an answer of 400


def test_rows_are_searched_sorted_and_turned_over(tmp_path, large):
    with Browser(large) as browser:
        browser.wait("document.querySelector('#status').textContent === 'live'")
        browser.wait("document.querySelectorAll('#rows tbody tr').length === 200")
        assert browser.text("#rows .dt-info") == "1 to 200 of 1,000,000"
        browser.click("#rows th[data-dt-column='2'] button")
        browser.wait("!!document.querySelector('th[aria-sort=ascending]')")
        browser.click("#rows th[data-dt-column='2'] button")
        browser.wait("!!document.querySelector('th[aria-sort=descending]')")
        browser.wait("document.querySelector('#rows tbody td:last-child').innerText === '999999'")
        browser.type("[name=where1]", "< 1000")
        browser.wait(
            "document.querySelector('#rows .dt-info').innerText.includes('of 1,000, filtered')"
        )
        browser.click("#rows .next")
        browser.wait("document.querySelector('#rows .dt-info').innerText.includes('201 to 400')")
        assert browser.text("#rows tbody tr td:last-child") == "799"
        assert browser.value("document.querySelector('[name=where1]').value") == "< 1000"
        link = browser.value("document.querySelector('#rows a').href")
        with urlopen(str(link)) as answer:  # noqa: S310  our own server
            lines = answer.read().decode().splitlines()
        assert (len(lines), lines[:2]) == (1001, ["x,n", "c999,999"])
        browser.click("#rows .previous")
        browser.wait("document.querySelector('#rows .dt-info').innerText.includes('1 to 200')")
        browser.type("#rows .dt-search input", "c99")
        browser.wait(
            "document.querySelector('#rows .dt-info').innerText.startsWith('1 to 11 of 11')"
        )
        assert browser.problems == []
        browser.type("[name=where1]", "x")
        browser.wait("document.querySelector('#rows .error').innerText.includes('compared with')")


def test_a_page_stays_at_its_key_and_the_focus_where_it_is(warm_kernel):
    def told(browser, text):
        browser.wait(f"document.querySelector('#rows .dt-info')?.innerText === {text!r}")

    def sorted_by(browser, order):
        browser.wait(f"document.querySelector('[aria-sort]')?.ariaSort === {order!r}")
        browser.wait("document.body.getAttribute('aria-busy') === 'false'")

    with deltafix.connect(".decl n(text: symbol, y: symbol, x: number)\n.input n\n") as db:
        rows = [(f"<b>&amp;{i}", "beside", i) for i in range(450)]
        with db.transaction() as tx:
            tx.insert("n", rows)
        with (
            running(Server(db, port=0, writable=True, title="n.dl")) as url,
            Browser(url, 390, 844) as browser,
        ):
            browser.wait("document.querySelector('#status').textContent === 'live'")
            told(browser, "1 to 200 of 450")
            cells = "document.querySelectorAll('#rows tbody td:nth-child(2)')"
            texts = browser.value(f"Array.from({cells}, (one) => one.textContent)")
            assert set(texts) <= {f'"{text}"' for text, *_ in rows}  # no markup
            assert browser.walk("rows that lie beyond the screen") > 200
            # By keyboard: a button is pressed by Enter and by the space bar, once each.
            browser.value("document.querySelector('#rows th:last-child button').focus()")
            browser.key(" ")
            sorted_by(browser, "ascending")
            browser.key("\r")
            sorted_by(browser, "descending")
            browser.key(" ")
            browser.wait("!document.querySelector('[aria-sort]')")
            browser.key("\r")
            sorted_by(browser, "ascending")
            browser.value("document.querySelector('#rows .next').focus()")
            browser.key("\r")
            told(browser, "201 to 400 of 450")
            assert browser.value(f"{FOCUS}.className.includes('next')")
            # What goes before the page moves it; what is on it stays.
            with db.transaction() as tx:
                tx.delete("n", rows[:10])
            told(browser, "191 to 390 of 440")
            assert browser.text("#rows tbody td:last-child") == "200"
            # What has the focus has it still when an epoch has drawn it anew.
            places = ["tbody tr:nth-child(9) button", "[data-relation=n]", "#rows .next"]
            for size, place in enumerate(places, 441):
                browser.value(f"document.querySelector({place!r}).focus()")
                with db.transaction() as tx:
                    tx.insert("n", [("more", "beside", size + 59)])
                told(browser, f"191 to 390 of {size}")
                assert browser.value(f"{FOCUS}.matches({place!r})")
            browser.key("\r")
            told(browser, "391 to 443 of 443")
            assert browser.value("document.querySelector('#rows .next').ariaDisabled") == "true"
            with db.transaction() as tx:
                tx.delete("n", [row for row in db.relation("n").rows() if row[2] >= 400])
            told(browser, "191 to 390 of 390")
            browser.click("#rows .previous")
            told(browser, "1 to 200 of 390")
            browser.type("[name=where2]", "> 1000")
            told(browser, "no rows, filtered from 390")
            assert browser.problems == []


def test_why_not_is_a_form(served):
    with Browser(served) as browser:
        browser.wait("document.querySelector('#status').textContent === 'live'")
        browser.click('[data-relation="path"]')
        browser.wait("document.querySelector('#ask legend').innerText.includes('path')")
        browser.type("#ask label:nth-of-type(1) input", "ams")
        browser.type("#ask label:nth-of-type(2) input", "par")
        browser.key("\r")
        browser.wait("document.querySelector('#proof').innerText.includes('does not hold')")
        assert "path(x, z) :- path(x, y), edge(y, z)." in browser.text("#proof")
        assert 'edge("ams", "par")' in browser.text("#proof .suggestions")
        browser.click("#proof summary")  # a part of the tree is closed
        browser.wait("!document.querySelector('#proof details').open")
        assert browser.problems == []


STATES = {
    "rows": """document.querySelectorAll('#rows tbody tr').length > 10""",
    "graph": f"{CY}?.nodes().length === 10",
    "profile": "document.querySelectorAll('#timeline button').length > 1",
    "plan": "document.querySelector('#plan').innerText.includes('stratum')",
}


@pytest.mark.parametrize(("width", "height", "scheme"), [(1280, 800, "light"), (390, 844, "dark")])
def test_every_state_can_be_used_by_everybody(served, tmp_path, width, height, scheme):
    """What `Browser.check` and `Browser.walk` look for is not there."""
    with Browser(served, width, height) as browser:
        browser.prefer(scheme)
        browser.wait("document.querySelector('#status').textContent === 'live'")
        write(tmp_path / "edge.facts", [*EDGES[1:], "lyo\tgen"])
        browser.wait("document.querySelectorAll('#changes button').length > 3")
        browser.click('[data-relation="path"]')
        for tab, is_there in STATES.items():
            browser.click(f'[data-tab="{tab}"]')
            browser.wait(is_there)
            browser.click("#changes button")
            browser.wait("!!document.querySelector('#proof .causes')")
            browser.check(f"{tab}, {scheme}")
            browser.click("#ask button")  # no row has two empty names
            browser.wait("document.querySelector('#proof').innerText.includes('does not hold')")
            browser.check(f"{tab}, {scheme}, why not")
            assert browser.walk(f"{tab}, {scheme}") > 15
            if width < 400 and tab == "rows":
                browser.value("document.querySelector('#middle').scrollIntoView()")
                browser.picture("page-narrow")
        assert browser.problems == []


def press(browser: Browser, spot: str) -> None:
    """Click into the graph's canvas, at a position that is an expression."""
    browser.wait("document.body.getAttribute('aria-busy') === 'false'")
    found = browser.value(
        f"(() => {{ const box = document.querySelector('#canvas').getBoundingClientRect();"
        f" const at = {spot}; return [box.x + at.x, box.y + at.y]; }})()"
    )
    assert isinstance(found, list)
    x, y = found
    for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
        browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)


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
        browser.picture("page-profile")
        browser.click('[data-tab="plan"]')
        browser.wait("document.querySelector('#plan').innerText.includes('stratum path')")
        assert browser.problems == []
        browser.type("#facts", "edge(")
        browser.click("#edit button[value='+']")
        browser.wait("document.querySelector('#refused').innerText.includes('expected')")
        browser.type("#facts", '"gen", "lyo")')
        browser.click("#edit button[value='+']")
        browser.wait("document.querySelector('#refused').innerText === ''")


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


def test_tables_and_views_of_sql_on_the_page(warm_kernel):
    with deltafix.sql.connect() as db:
        db.execute("""
            CREATE TABLE edge (a INTEGER PRIMARY KEY, b INTEGER, day DATE, x DECIMAL(5, 2));
            CREATE MATERIALIZED VIEW pair AS SELECT a, b FROM edge;
            INSERT INTO edge VALUES (1, NULL, DATE '2026-11-27', 1.5)""")
        server = Server(db, port=0, writable=True, title="views.sql")
        with running(server) as url, Browser(url) as browser:
            browser.wait("document.querySelector('#status').textContent === 'live'")
            browser.wait("document.querySelectorAll('#relation-list button').length === 2")
            browser.click('[data-relation="edge"]')
            browser.wait("document.querySelectorAll('#rows tbody tr').length === 1")
            cells = """[...document.querySelectorAll('#rows tbody td:not(:first-child)')]
                .map((cell) => cell.textContent)"""
            assert browser.value(cells) == ["1", "NULL", "2026-11-27", "1.50"]
            browser.click('[data-relation="pair"]')
            browser.wait(
                "document.querySelectorAll('#rows tbody td:not(:first-child)').length === 2"
            )
            browser.click("#rows tbody tr")
            browser.wait("document.querySelectorAll('#proof ul ul li').length === 1")
            assert "edge: a = 1 AND b IS NULL AND day = " in browser.text("#proof")
            assert "given" in browser.text("#proof")
            browser.type("#facts", "INSERT INTO edge VALUES (2, 3, NULL, NULL)")
            browser.click("#insert")
            browser.wait("""!!document.querySelector('[data-change="+pair: a = 2 AND b = 3"]')""")
            browser.type("#facts", "INSERT INTO edge VALUES (1, 3, NULL, NULL)")
            browser.click("#insert")
            browser.wait("document.querySelector('#refused').textContent.includes('DF723')")
            browser.value("document.querySelector('#facts').value = ''")
            assert (
                browser.value("getComputedStyle(document.querySelector('#tab-graph')).display")
                == "none"
            )
            browser.value("""document.querySelector('#tab-rows').dispatchEvent(
                new KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true}))""")
            browser.wait("document.activeElement.id === 'tab-profile'")  # past the hidden one
            for tab in ("profile", "plan"):
                browser.click(f'[data-tab="{tab}"]')
                browser.wait(f"document.querySelector('#{tab}').textContent.length > 10")
            assert "CREATE MATERIALIZED VIEW pair" in browser.text("#plan")
            field = "#ask label:nth-of-type(1) input"
            assert browser.value(f"document.querySelector('{field}').placeholder") == "any"
            browser.type(field, "2")
            browser.key("\r")  # whatever b is
            browser.wait("document.querySelector('#proof').innerText.includes('a = 2 AND b = 3')")
            assert [one for one in browser.problems if "400" not in one] == []
        assert db.execute("SELECT a FROM pair ORDER BY a").fetchall() == [(1,), (2,)]
