"""Every view of examples/gallery tells the story it says it tells."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

GALLERY = Path(__file__).parents[3] / "examples" / "gallery"
GROUPS = ("aggregates", "enriched", "sets", "windows", "history", "graphs", "business")


def _load():
    """The gallery's modules, without leaving their short names behind."""
    names = ("view", *GROUPS)
    kept = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    sys.path.insert(0, str(GALLERY))
    try:
        return {name: importlib.import_module(name) for name in names}
    finally:
        sys.path.remove(str(GALLERY))
        for name in names:
            sys.modules.pop(name, None)
        sys.modules.update(kept)


MODULES = _load()
VIEWS = [(group, view) for group in GROUPS for view in MODULES[group].VIEWS]


def test_the_gallery_has_seven_groups_and_forty_views_with_names_of_their_own():
    assert len(VIEWS) >= 40
    assert len({view.name for _, view in VIEWS}) == len(VIEWS)
    assert all(len(MODULES[group].VIEWS) >= 5 for group in GROUPS)
    assert all(view.tool for _, view in VIEWS)


@pytest.mark.parametrize(
    "view", [view for _, view in VIEWS], ids=[f"{group}: {view.name}" for group, view in VIEWS]
)
def test_a_view_gives_its_deltas(view):
    epochs = MODULES["view"].run(view)
    assert len(epochs) >= 2
    for number, epoch in enumerate(epochs, start=1):
        assert epoch.actual == epoch.expected, f"epoch {number}"


def test_the_gallery_runs_from_the_command_line():
    def call(*words):
        return subprocess.run(
            [sys.executable, str(GALLERY), *words], capture_output=True, text=True, check=False
        )

    told = call("cart")
    assert told.returncode == 0
    assert "out + 'cart': 8" in told.stdout
    assert "leaderboard" in call().stdout
    assert (call("zebra").returncode, "'zebra'" in call("zebra").stderr) == (2, True)
