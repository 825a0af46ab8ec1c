"""A web application of another origin, in a real browser: only a named one is let in."""

from __future__ import annotations

import json
import shutil

import pytest
from tests.servers.browser import Browser, chromium
from tests.servers.served import running, serving_files

import deltafix
from deltafix.web import page
from deltafix.web.server import Server

pytestmark = pytest.mark.skipif(chromium() is None, reason="no Chromium on this machine")

APPLICATION = """<!doctype html><title>elsewhere</title><body><script type="module">
import { connect } from "./deltafix.js";
window.seen = [];
window.hold = (address, options) => {
  window.client = connect(address, options);
  window.held = client.subscribe("path", { onError: (error) => seen.push(error.message) });
};
</script>"""
PROGRAM = """
.decl edge(x: symbol, y: symbol)
.input edge
.decl path(x: symbol, y: symbol)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""


@pytest.fixture
def elsewhere(tmp_path):
    """The origin of an application, and the same files at another one."""
    shutil.copy(page.__file__.replace("page.py", "static/deltafix.js"), tmp_path)
    (tmp_path / "index.html").write_text(APPLICATION)
    with serving_files(tmp_path) as named, serving_files(tmp_path) as other:
        yield named, other


def test_an_application_of_a_named_origin_follows_and_edits(elsewhere, warm_kernel):
    named, other = elsewhere
    with deltafix.connect(PROGRAM) as db:
        with db.transaction() as tx:
            tx.insert("edge", [("a", "b"), ("b", "c")])
        server = Server(db, port=0, writable=True, title="t", origins=[named])
        key = server.url.removeprefix(server.address).strip("/")
        asked = json.dumps([server.address, {"token": key}]), json.dumps([server.url, {}])
        with running(server):
            for number, one in enumerate(asked):  # the key in a header, and in the address
                with Browser(named) as browser:
                    browser.wait("!!window.hold")
                    browser.value(f"hold(...{one})")
                    size = db.count("path")
                    browser.wait(f"held.rows.size === {size}")
                    browser.value(f"void client.insert('edge', [['c', 'd{number}']])")
                    browser.wait(f"held.rows.size === {size + 3}")  # by the stream of changes
                    assert browser.value("seen") == []
                    assert browser.problems == []
            with Browser(other) as browser:
                browser.wait("!!window.hold")
                browser.value(f"hold(...{asked[0]})")
                browser.wait("seen.length > 0")
                assert browser.value("seen[0]") == "Failed to fetch"
                assert browser.value("held.rows.size") == 0
                assert "CORS" in browser.problems[0]
        assert db.count("edge") == 4


def test_only_a_named_origin_imports_the_client_from_the_server(elsewhere, tmp_path, warm_kernel):
    named, other = elsewhere
    with deltafix.connect(PROGRAM) as db:
        server = Server(db, port=0, writable=False, title="t", origins=[named])
        with running(server) as url:
            text = f"""<!doctype html><script type="module">
                import("{url}static/deltafix.js").then(
                    () => {{ window.seen = "taken"; }}, () => {{ window.seen = "refused"; }});
                </script>"""
            (tmp_path / "index.html").write_text(text)
            for origin, wanted in ((named, "taken"), (other, "refused")):
                with Browser(origin) as browser:
                    browser.wait("!!window.seen")
                    assert browser.value("window.seen") == wanted
