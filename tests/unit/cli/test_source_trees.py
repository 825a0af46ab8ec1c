"""Where the files of a tree are extracted: one decision for all commands that look at trees.

That Spark's workers say the same is shown in `tests/spark/test_ingest.py`; no Spark starts here.
"""

from __future__ import annotations

import pytest

from deltafix.cli import main as command_line
from deltafix.cli import source_trees
from deltafix.errors import JavaNotFoundError
from deltafix.spark import java

COMMANDS = (
    ["dead-code", "--no-tests"],
    ["analyse", "call-graph"],
    ["ask", "callers", "shop:total"],
)
HINT = "on all of them with Spark: pip install 'deltafix[spark,java]'"


@pytest.fixture
def tree(tmp_path):
    """A tree of 60 bytes."""
    (tmp_path / "shop.py").write_text(
        "def total():\n    return 1\n\n\nprint(total())\n".ljust(60, "#")
    )
    return tmp_path


@pytest.fixture
def extracted(monkeypatch):
    """How often Spark would have been asked; the fragments are this process's."""
    asked = []

    def with_spark(tree, extract, paths, *, quiet=False):
        asked.append(list(paths))
        return source_trees._extract_here(tree, extract, paths, quiet=quiet)

    monkeypatch.setattr(source_trees, "_extract_with_spark", with_spark)
    return asked


@pytest.fixture
def run(tree, capsys):
    """What a command says beside its result."""

    def run(command, *options):
        where = ["--in", str(tree)] if command[0] == "ask" else [str(tree)]
        with pytest.raises(SystemExit) as ended:
            command_line.main([*command, *where, *options])
        assert ended.value.code in {0, None}
        return capsys.readouterr().err

    return run


@pytest.mark.parametrize("command", COMMANDS, ids=lambda one: one[0])
def test_what_is_asked_for_is_done_at_any_size(run, extracted, monkeypatch, command):
    for large in (1, 10**9):
        monkeypatch.setattr(source_trees, "_LARGE", large)
        assert "Spark" not in run(command, "--no-spark")
        assert extracted == []
        assert "Spark" not in run(command, "--spark")
        assert extracted.pop() == ["shop.py"]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda one: one[0])
def test_from_a_size_on_spark_is_asked_where_it_is_there(run, extracted, monkeypatch, command):
    monkeypatch.setattr(java, "find_java", lambda: None)
    monkeypatch.setattr(source_trees, "find_spec", lambda name: name)
    for large, processors, wanted in (
        (60, 4, True),
        (61, 4, False),
        (60, 3, False),
        (60, None, False),
    ):
        monkeypatch.setattr(source_trees, "_LARGE", large)
        monkeypatch.setattr(source_trees, "cpu_count", lambda here=processors: here)
        said = run(command)
        assert bool(extracted) is wanted
        assert ("are read with Spark; --no-spark reads them in this process" in said) is wanted
        extracted.clear()
    monkeypatch.setattr(source_trees, "cpu_count", lambda: 4)
    monkeypatch.setattr(source_trees, "_LARGE", 60)
    assert "Spark" not in run(command, "--quiet")
    assert len(extracted) == 1


def test_where_spark_or_java_is_missing_a_note_says_what_to_install(run, extracted, monkeypatch):
    def no_java():
        raise JavaNotFoundError("none")

    monkeypatch.setattr(source_trees, "_LARGE", 60)
    monkeypatch.setattr(source_trees, "cpu_count", lambda: 4)
    monkeypatch.setattr(source_trees, "find_spec", lambda name: None)
    assert HINT in run(COMMANDS[0])
    monkeypatch.setattr(source_trees, "find_spec", lambda name: name)
    monkeypatch.setattr(java, "find_java", no_java)
    assert HINT in run(COMMANDS[0])
    assert extracted == []
    assert HINT not in run(COMMANDS[0], "--quiet")
