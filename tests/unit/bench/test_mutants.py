"""The mutants of `make mutants`: what is changed, how it is named, and that the notes still fit."""

from __future__ import annotations

import ast
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "scripts" / "mutants"))

import mutate  # noqa: E402

TEXT = '''"""A module."""
LIMIT = 7


class Bag:
    def put(self, item, many=1):
        """Docstrings stay."""
        if item in self.items and many > 0:  # a comment
            self.items[item] += many
            return
        self.items[item] = many - 1

    def least(self):
        assert self.items != 3
        return min((v for v in self.items if v is not None), default=None)
'''


def mutants(folder: Path, text: str = TEXT) -> list[mutate.Mutant]:
    (folder / "bag.py").write_text(text)
    return list(mutate.mutants_of(folder, "bag.py"))


def test_what_is_changed(tmp_path) -> None:
    source = TEXT.encode()
    seen = {(m.kind, *m.changed_lines(source)) for m in mutants(tmp_path)}
    condition = "if item in self.items and many > 0:  # a comment"
    assert seen == {
        ("constant", "def put(self, item, many=1):", "def put(self, item, many=2):"),
        ("left at once", condition + "\nself.items[item] += many\nreturn", "return"),
        ("branches swapped", condition, f"if not ({condition[3:-14]}):  # a comment"),
        ("comparison", condition, condition.replace("in", "not in", 1)),
        ("comparison", condition, condition.replace(">", ">=")),
        ("and/or", condition, condition.replace("and", "or")),
        ("constant", condition, condition.replace("0", "1")),
        ("statement removed", "self.items[item] += many", "pass"),
        ("arithmetic", "self.items[item] += many", "self.items[item] -= many"),
        ("statement removed", "return", "pass"),
        ("statement removed", "self.items[item] = many - 1", "pass"),
        ("arithmetic", "self.items[item] = many - 1", "self.items[item] = many + 1"),
        ("constant", "self.items[item] = many - 1", "self.items[item] = many - 2"),
        *(
            (
                kind,
                "return min((v for v in self.items if v is not None), default=None)",
                f"return min((v for v in self.items if {test}), default=None)",
            )
            for kind, test in (("comparison", "v is None"), ("filter dropped", "True"))
        ),
    }


def test_a_name_stays_while_lines_move_and_differs_otherwise(tmp_path) -> None:
    names = [m.name for m in mutants(tmp_path)]
    assert len(set(names)) == len(names)
    moved = [m.name for m in mutants(tmp_path, TEXT.replace("LIMIT = 7", "LIMIT = 7\nMORE = 8"))]
    assert moved == names


def test_a_sample_is_the_start_of_a_larger_one(tmp_path) -> None:
    every = mutants(tmp_path)
    chosen = mutate.sample(every, 5, seed=3)
    assert mutate.sample(every[::-1], 9, seed=3)[:5] == chosen
    assert mutate.sample(every, 5, seed=4) != chosen


@pytest.mark.parametrize("part", ["engine", "kernel", "plan", "tabling", "provenance"])
def test_every_mutant_of_a_part_is_python(part) -> None:
    path = f"src/deltafix/{part}"
    files = sorted((ROOT / path).rglob("*.py"))[:2]
    for file in files:
        source = file.read_bytes()
        for mutant in mutate.mutants_of(ROOT, str(file.relative_to(ROOT))):
            assert ast.unparse(ast.parse(mutant.apply(source))) != ast.unparse(ast.parse(source))


def test_every_note_names_a_change_that_can_still_be_made() -> None:
    notes = tomllib.loads((ROOT / "scripts/mutants/equivalent.toml").read_text())["mutant"]
    possible: dict[str, set[tuple[str, str]]] = {}
    for note in notes:
        path = note["path"]
        if path not in possible:
            source = (ROOT / path).read_bytes()
            possible[path] = {m.changed_lines(source) for m in mutate.mutants_of(ROOT, path)}
        assert (note["before"], note["after"]) in possible[path], note
        assert len(note["because"]) > 20
