"""The bench of the analyses: its edits leave files readable, its answers are compared."""

from __future__ import annotations

import ast
import random
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
from bench.analyses import measure as measuring
from bench.analyses.editor import Editor, show_saves, time_saves
from bench.analyses.edits import edited
from bench.analyses.measure import WrongAnswerError, measure, show
from bench.analyses.projects import NoProjectError, large_tree, project_of

from deltafix.analyses.analysis import Analysis
from deltafix.analyses.call_graph import CALL_GRAPH
from deltafix.analyses.registry import ANALYSES, find_analysis

OWN = Path(__file__).parents[3] / "src" / "deltafix" / "analyses" / "dead_code"


def test_an_edit_of_python_still_parses_and_says_something_else() -> None:
    data = (OWN / "policy.py").read_bytes() + (OWN / "report.py").read_bytes()
    seen = set()
    for seed in range(30):
        changed = edited("m.py", data, random.Random(seed), lambda _: True)
        assert changed is not None
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(data))
        seen.add(changed)
        again = edited("m.py", data, random.Random(seed), lambda _: True)
        assert again == changed  # a fixed seed makes fixed edits
    assert len(seen) > 10
    assert edited("m.py", b"x = 1\n", random.Random(0), lambda _: True) is None
    assert edited("m.py", data, random.Random(0), lambda _: False) is None


def test_other_languages_lose_one_statement() -> None:
    text = b"int f(int a) {\n    // a = 0;\n    a = 1;\n    return a;\n}\n"
    found = {edited("m.c", text, random.Random(seed), lambda _: True) for seed in range(9)}
    assert found == {text.replace(b"    a = 1;\n", b""), text.replace(b"    return a;\n", b"")}


def test_every_update_is_measured_and_the_answers_are_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = measure(CALL_GRAPH, OWN, edits=4)
    lists = (found.extracts, found.updates, found.facts_changed, found.touched)
    assert [len(one) for one in lists] == [8] * 4
    assert len(found.scratch) == 2
    assert min(found.facts_changed) > 0
    share = found.share(0.5)
    assert share is not None
    assert share < 0.1
    first, _, then = show([found])
    assert first.splitlines()[2].startswith("| call-graph | dead_code | ")
    assert then.splitlines()[2].startswith("| call-graph | 8 | ")

    monkeypatch.setattr(measuring, "_fresh", lambda *_: ({"calls": []}, 1.0))
    with pytest.raises(WrongAnswerError, match="calls differ"):
        measure(CALL_GRAPH, OWN, edits=1)


def test_every_analysis_has_a_tree_and_an_unknown_language_none() -> None:
    for name in ANALYSES:
        analysis = find_analysis(name)
        if ".sql" in analysis.suffixes and find_spec("pgserver") is None:
            continue  # no wheel for this system
        with project_of(analysis) as folder:
            assert len(analysis.tree(folder).scan().files) > 20
    other = Analysis("x", "x", (".cob",), {}, CALL_GRAPH.extract, (), ("x",))
    with pytest.raises(NoProjectError, match=r"no tree of \.cob files"), project_of(other):
        pass


def test_saves_are_timed_through_the_pipes_of_a_server(tmp_path: Path) -> None:
    shutil.copytree(OWN, tmp_path / "dead_code")
    found = time_saves(tmp_path, 4)
    assert (found.files, len(found.marked), len(found.told)) == (len(list(OWN.glob("*.py"))), 4, 4)
    assert all(0 < marked <= told for marked, told in zip(found.marked, found.told, strict=True))
    assert f"| {found.files} | " in show_saves(found)[-1]


def test_a_save_marks_what_it_leaves_dead_in_the_editor(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text('def f(): ...\nif __name__ == "__main__": f()\n')
    with Editor.opened(tmp_path) as editor:
        editor.news()
        text = 'def f(): ...\ndef _g(): ...\nif __name__ == "__main__": f()\n'
        saved = editor.save("m.py", text.encode())
        assert saved.marks == ["dead function m:_g: nothing alive reaches it"]
        again = editor.save("m.py", text.encode() + b"\n")
        assert (again.marked, again.marks) == (None, [])  # an editor keeps what it has
        assert again.told > 0


def test_the_large_tree_has_the_files_asked_for_and_goes() -> None:
    with large_tree(3) as root:
        assert len(list(root.rglob("*.py"))) == 3
    assert not root.exists()
