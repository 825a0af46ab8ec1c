"""Incremental tests told as stories: a program, a script of puts and commits, signed rows.

A story is a folder with three files:

- `program.dl`: what is derived; only `.output` relations are told about.
- `script.txt`: lines `+ edge("a", 1)` and `- edge("a", 1)`, each epoch ended by `commit`;
  `#` starts a comment, and the first one says what the story is about.
- `expected.txt`: `epoch N`, then the net change of that epoch as lines `+ reach("a")`, sorted.

Values are written as in JSON. `told` plays a script on deltafix, `judged` on the oracle. Shrunk
failures of long random runs are written in the same form (`Story.save`) and stay.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.generators.strategies import FOLDS, REDUCERS
from tests.judges import oracle
from tests.judges.oracle_values import wrap

import deltafix

__all__ = ["FOLDER", "Change", "Edit", "Story", "judged", "read_stories", "show", "told"]

FOLDER = Path(__file__).parents[1] / "fixtures" / "incremental"

Edit = tuple[str, str, tuple]
"""(sign, relation, row); sign is `+` or `-`."""
Change = frozenset[Edit]
"""The net change of one epoch."""

_LINE = re.compile(r"([+-])\s*(\w+)\((.*)\)$")


@dataclass(frozen=True)
class Story:
    """A program's text, its epochs of edits, and the expected change of each."""

    name: str
    about: str
    program: str
    script: tuple[tuple[Edit, ...], ...]
    expected: tuple[Change, ...]

    @classmethod
    def read(cls, folder: Path) -> Story:
        """Read a story's three files; a line that is neither edit nor command is an error."""
        lines = (folder / "script.txt").read_text().splitlines()
        about = next((line[1:].strip() for line in lines if line.startswith("#")), "")
        epochs: list[tuple[Edit, ...]] = []
        edits: list[Edit] = []
        for line in lines:
            if line.strip() == "commit":
                epochs.append(tuple(edits))
                edits = []
            elif line.strip() and not line.startswith("#"):
                edits.append(_edit(line))
        if edits:
            raise ValueError(f"{folder.name}: the script does not end with `commit`")
        changes: list[list[Edit]] = []
        for line in (folder / "expected.txt").read_text().splitlines():
            if line.startswith("epoch "):
                changes.append([])
                if line != f"epoch {len(changes)}":
                    raise ValueError(f"{folder.name}: expected `epoch {len(changes)}`, not {line}")
            elif line.strip() and not line.startswith("#"):
                changes[-1].append(_edit(line))
        if len(changes) != len(epochs):
            raise ValueError(f"{folder.name}: {len(epochs)} epochs, {len(changes)} expected")
        program = (folder / "program.dl").read_text()
        expected = tuple(frozenset(change) for change in changes)
        return cls(folder.name, about, program, tuple(epochs), expected)

    def save(self, folder: Path) -> None:
        """Write the three files; `read` gives the story back."""
        folder.mkdir(parents=True, exist_ok=True)
        script = [f"# {self.about}"]
        for epoch in self.script:
            script += [*map(show, epoch), "commit"]
        expected = []
        for number, change in enumerate(self.expected, 1):
            expected += [f"epoch {number}", *sorted(map(show, change))]
        (folder / "program.dl").write_text(self.program)
        (folder / "script.txt").write_text("\n".join(script) + "\n")
        (folder / "expected.txt").write_text("\n".join(expected) + "\n")


def _edit(line: str) -> Edit:
    found = _LINE.match(line.strip())
    if found is None:
        raise ValueError(f'not an edit: {line!r}; expected `+ relation(1, "a")`')
    row = json.loads(f"[{found[3]}]")
    return found[1], found[2], tuple(wrap(v, "float") if isinstance(v, float) else v for v in row)


def show(edit: Edit) -> str:
    """An edit as a line of a story."""
    sign, relation, row = edit
    return f"{sign} {relation}({', '.join(json.dumps(v, ensure_ascii=False) for v in row)})"


def read_stories() -> list[Story]:
    """All stories, by name."""
    return [Story.read(path.parent) for path in sorted(FOLDER.glob("*/program.dl"))]


def told(
    program: deltafix.Program, script: Iterable[Iterable[Edit]], strategy: str = "wavefront"
) -> list[Change]:
    """Play a script on deltafix: one transaction per epoch, edits in their order.

    Checks on the way that rows read back agree with the changes handed out, and the invariants of
    the live structure after every epoch.
    """
    outputs = program.names("output")
    kept: dict[str, set[tuple]] = {}
    changes = []
    with deltafix.connect(program, strategy=strategy, reducers=REDUCERS) as db:
        for name in outputs:  # facts in the program's text are there before the first epoch
            kept[name] = set(db.rows(name))
        for epoch in script:
            with db.transaction() as tx:
                for sign, relation, row in epoch:
                    (tx.insert if sign == "+" else tx.delete)(relation, [row])
            change: set[Edit] = set()
            for name in outputs:
                part = tx.delta.get(name)
                added, removed = (part.added, part.removed) if part else ([], [])
                assert not kept[name] & set(added), f"{name}: added what was there"
                assert kept[name] >= set(removed), f"{name}: removed what was not there"
                kept[name] = (kept[name] | set(added)) - set(removed)
                assert set(db.rows(name)) == kept[name], f"{name}: rows differ from the changes"
                change |= {("+", name, tuple(row)) for row in added}
                change |= {("-", name, tuple(row)) for row in removed}
            changes.append(frozenset(change))
            db.check_invariants()
    return changes


def judged(program: deltafix.Program, script: Iterable[Iterable[Edit]]) -> list[Change]:
    """What the oracle says: the difference of two evaluations from scratch per epoch."""
    outputs = program.names("output")
    given: dict[str, set[tuple]] = {}
    before = oracle.evaluate(program, given, reducers=FOLDS)
    changes = []
    for epoch in script:
        for sign, relation, row in epoch:
            rows = given.setdefault(relation, set())
            (rows.add if sign == "+" else rows.discard)(row)
        after = oracle.evaluate(program, given, reducers=FOLDS)
        change = {("+", n, row) for n in outputs for row in after[n] - before[n]}
        change |= {("-", n, row) for n in outputs for row in before[n] - after[n]}
        changes.append(frozenset(change))
        before = after
    return changes
