"""A headless Chromium for tests, driven over the DevTools protocol's pipe: no package needed.

Clicks are mouse events at an element's place on the screen, as a person's are; a click on what is
not visible fails. All pages of a test process are in one Chromium, each as if by a new person.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import re
import shutil
import struct
import subprocess
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

__all__ = ["CY", "Browser", "Heard", "chromium", "end_browser"]

_AXE = Path(__file__).parents[1] / "axe" / "axe.min.js"
_LOOKS = Path(__file__).parents[1] / "looks.js"
CY = "document.querySelector('#canvas')?._cyreg?.cy"
"""What Cytoscape draws on the page's canvas, by its own name."""


def chromium() -> str | None:
    """The browser's program, if there is one."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((found for name in names if (found := shutil.which(name))), None)


class Heard(NamedTuple):
    """What a screen reader is told of one element or text, in the order of reading.

    Attributes:
        role: `button`, `link`, `cell` and so on; of a text `StaticText`.
        name: what it is called; of a text all of it.
        states: `expanded`, `selected`, `disabled`, `focused` and so on, where they are told.
        live: how a change of it is told without being asked for: `polite`, `assertive` or "".
        inside: the named elements around it, from the page on.
        number: by which the browser knows the element.
    """

    role: str
    name: str
    states: dict[str, object]
    live: str
    inside: tuple[str, ...]
    number: int


class _Chromium:
    """The process, whose pages are apart: none sees what another keeps. It ends with its pipe.

    Attributes:
        pages: those that are open, by their sessions: what happens in one is noted there.
    """

    def __init__(self) -> None:
        self.pages: dict[str, Browser] = {}
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, self._out = os.pipe()
        self._into, from_browser = os.pipe()
        # The protocol's pipe is file descriptors 3 and 4; a shell puts ours there.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 20) for end in (to_browser, from_browser)]
        self._process = subprocess.Popen(
            [
                "bash", "-c", f'exec "$@" 3<&{ends[0]} 4>&{ends[1]}', "bash",
                str(chromium()), "--headless=new", "--no-sandbox", "--disable-gpu",
                "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
                "--remote-debugging-pipe", f"--user-data-dir={self._profile.name}", "about:blank",
            ],
            pass_fds=ends, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        for end in (*ends, to_browser, from_browser):
            os.close(end)
        self._rest = b""
        self._number = 0

    def end(self) -> None:
        """End it."""
        os.close(self._out)
        os.close(self._into)
        self._process.terminate()
        self._process.wait(timeout=10)
        self._profile.cleanup()

    def call(self, session: str | None, method: str, **parameters: object) -> dict:
        """Call a method of the protocol, of a page or of the whole, and wait for its result."""
        self._number += 1
        message: dict = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            if answer.get("sessionId") in self.pages:
                self.pages[answer["sessionId"]].note(answer)

    def _next(self) -> dict:
        while b"\0" not in self._rest:
            data = os.read(self._into, 1 << 16)
            assert data, "the browser has ended"
            self._rest += data
        first, _, self._rest = self._rest.partition(b"\0")
        return json.loads(first)


_running: list[_Chromium] = []


def end_browser() -> None:
    """End the process that pages are opened in, if there is one."""
    while _running:
        _running.pop().end()


class Browser:
    """One page of somebody who was never there. A context manager."""

    def __init__(self, url: str, width: int = 1280, height: int = 800) -> None:
        if not _running:
            _running.append(_Chromium())
        (self._chromium,) = _running
        self.problems: list[str] = []
        self._context = self._whole("Target.createBrowserContext")["browserContextId"]
        target = self._whole(
            "Target.createTarget", url="about:blank", browserContextId=self._context
        )["targetId"]
        attached = self._whole("Target.attachToTarget", targetId=target, flatten=True)
        self._session = str(attached["sessionId"])
        self._chromium.pages[self._session] = self
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        self.call("Page.navigate", url=url)
        self.wait("location.href !== 'about:blank' && document.readyState === 'complete'")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        del self._chromium.pages[self._session]
        self._whole("Target.disposeBrowserContext", browserContextId=self._context)

    def call(self, method: str, **parameters: object) -> dict:
        """Call a method of the protocol and wait for its result."""
        return self._chromium.call(self._session, method, **parameters)

    def _whole(self, method: str, **parameters: object) -> dict:
        return self._chromium.call(None, method, **parameters)

    def note(self, event: dict) -> None:
        """What happens in the page is told to whoever asks the process for something."""
        if event.get("method") == "Runtime.exceptionThrown":
            self.problems.append(str(event["params"]["exceptionDetails"]))
        elif event.get("method") == "Log.entryAdded":
            entry = event["params"]["entry"]
            if entry["level"] == "error" and "favicon" not in str(entry):
                self.problems.append(str(entry))

    def value(self, expression: str) -> object:
        """What an expression is in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait(self, expression: str, seconds: float = 30) -> object:
        """The first true value of an expression. Fails when there is none in time."""
        end = time.monotonic() + seconds
        while True:
            found = self.value(expression)
            if found:
                return found
            assert time.monotonic() < end, (
                expression,
                self.problems,
                self.value("document.body.innerText"),
            )
            time.sleep(0.05)

    def text(self, selector: str) -> str:
        """The visible text of an element."""
        return str(self.value(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def click(self, selector: str) -> None:
        """Press and release the mouse in the middle of an element that is there to be seen."""
        found = json.dumps(selector)
        # A page that is drawn anew between press and release swallows a click.
        self.wait("document.body.getAttribute('aria-busy') === 'false'")
        self.wait(f"!!document.querySelector({found})")
        self.value(f"document.querySelector({found}).scrollIntoView({{block: 'nearest'}})")
        spot = self.value(
            f"""(() => {{
                const element = document.querySelector({found});
                const box = element.getBoundingClientRect();
                const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
                const hit = document.elementFromPoint(x, y);
                return [x, y, hit === element || element.contains(hit)];
            }})()"""
        )
        assert isinstance(spot, list)
        x, y, is_hit = spot
        assert is_hit, f"{selector} is covered or out of sight"
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def type(self, selector: str, text: str) -> None:
        """Click into a field and type."""
        self.click(selector)
        self.call("Input.insertText", text=text)

    def key(self, text: str) -> None:
        """Press and release a key that makes this character, where the focus is."""
        key = {"\r": "Enter", "\x1b": "Escape"}.get(text, text)
        for kind in ("keyDown", "keyUp"):
            typed = {"text": text} if kind == "keyDown" else {}
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                windowsVirtualKeyCode=ord(text),
                **typed,
            )

    def wheel(self, selector: str, by: int) -> None:
        """Turn the wheel over the middle of an element; less than nothing is away from oneself."""
        box = f"document.querySelector({json.dumps(selector)}).getBoundingClientRect()"
        spot = self.value(f"(({{x, y, width, height}}) => [x + width / 2, y + height / 2])({box})")
        assert isinstance(spot, list)
        self.call(
            "Input.dispatchMouseEvent", type="mouseWheel", x=spot[0], y=spot[1], deltaX=0, deltaY=by
        )

    def prefer(self, scheme: str) -> None:
        """Be the browser of somebody who wants pages `light` or `dark`."""
        media = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=media)

    def check(self, state: str) -> bytes:
        """A picture of a state; fails where it can be told that a person would see a fault.

        axe finds something; one thing lies over another; a thing is beyond the screen, or faint
        (where axe does not know what is behind it, too); a pane has nothing in it.
        """
        self._load()
        picture = self.picture(state)
        self.value("window.axed = null; axe.run().then(found => { axed = found; }); 0")
        found = self.wait(
            "axed && JSON.stringify([axed.passes.length, axed.violations.map(one => "
            "[one.id, one.nodes.map(node => node.html + node.failureSummary)])])"
        )
        passed, violations = json.loads(str(found))
        assert passed > 15, state  # it looked at the page
        assert violations == [], state
        wrong = self.value("looks()")
        assert wrong == {"overlaps": [], "faint": [], "beyond": [], "empty": []}, (state, wrong)
        assert self.value("document.documentElement.scrollWidth <= innerWidth"), state
        return picture

    def walk(self, state: str) -> int:
        """Press the tab key until the page ends: how many stops, each once, seen and marked."""
        self._load()
        self.value("document.body.tabIndex = -1; document.body.focus()")
        wanted = self.value("reachable()")
        assert isinstance(wanted, int)
        for _ in range(wanted):
            for kind in ("rawKeyDown", "keyUp"):
                self.call(
                    "Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab",
                    windowsVirtualKeyCode=9,
                )  # fmt: skip
            wrong = self.value("focused()")
            assert wrong == "", (state, wrong)
        left = self.value("unreached()")
        assert left == [], (state, left)
        return wanted

    def heard(self) -> list[Heard]:
        """What a screen reader is told of the page: the browser's own tree of accessibility."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        by_id = {node["nodeId"]: node for node in nodes}
        found: list[Heard] = []

        def add(node: dict, live: str, inside: tuple[str, ...]) -> None:
            if not node["ignored"] and node["role"]["value"] != "InlineTextBox":
                states = {one["name"]: one["value"].get("value") for one in node["properties"]}
                live = states.get("live", live)
                name, number = node["name"]["value"], node.get("backendDOMNodeId", 0)
                found.append(Heard(node["role"]["value"], name, states, live, inside, number))
                inside = (*inside, name) if name else inside
            for child in node["childIds"]:
                if child in by_id:
                    add(by_id[child], live, inside)

        add(nodes[0], "", ())
        return found

    def press(self, role: str, name: str, key: str = "\r") -> None:
        """Go to the one element of a role and a name, as they are heard, and press a key there."""
        self.wait("document.body.getAttribute('aria-busy') === 'false'")
        all_of = [one for one in self.heard() if (one.role, one.name) == (role, name)]
        assert len(all_of) == 1, (role, name, all_of)
        self.call("DOM.focus", backendNodeId=all_of[0].number)
        self.key(key)

    def _load(self) -> None:
        """The functions of axe and of `looks.js`, in a page that is at rest."""
        if not self.value("!!window.looks"):
            for script in (_AXE, _LOOKS):
                self.call("Runtime.evaluate", expression=script.read_text())
        self.wait("document.body.getAttribute('aria-busy') === 'false'")

    def picture(self, name: str) -> bytes:
        """What is seen, as PNG of the window's size; kept in the folder of DELTAFIX_SCREENSHOTS."""
        data = base64.b64decode(self.call("Page.captureScreenshot")["data"])
        assert [*struct.unpack(">II", data[16:24])] == self.value("[innerWidth, innerHeight]")
        if folder := os.environ.get("DELTAFIX_SCREENSHOTS"):
            path = Path(folder, "-".join(re.findall(r"[\w-]+", name)) + ".png")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return data
