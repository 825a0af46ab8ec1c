"""What a gallery entry is, and how it is run.

A `View` has a `build` function, whose parameters name the input collections it needs, and a
`story`: epochs of signed rows in, and the signed rows that must come out of each.

    python examples/gallery            lists the views
    python examples/gallery leaderboard   tells the stories of those whose name contains the word
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

from deltafix import Collection

Signed = tuple[str, Any, Any]
"""`("+", key, value)` or `("-", key, value)`."""

Edits = Sequence[Signed] | dict[str, Sequence[Signed]]
"""Rows of one epoch: of the only input, or by the input's name."""


@dataclass(frozen=True)
class View:
    """One small view: `tool` is the simplest thing in deltafix that computes it."""

    name: str
    tool: str
    build: Callable[..., Collection]
    story: Sequence[tuple[Edits, Sequence[Signed]]]


@dataclass(frozen=True)
class Epoch:
    """One epoch as it went: what was put in, what should come out, and what did."""

    edits: Edits
    expected: list[Signed]
    actual: list[Signed]


def run(view: View) -> list[Epoch]:
    """Build the view over empty inputs and play its story."""
    inputs = {name: Collection.input(name=name) for name in signature(view.build).parameters}
    first = next(iter(inputs.values()))
    result = view.build(**inputs)
    heard: list[Signed] = []

    def hear(delta: Any) -> None:
        heard.extend(
            ("+" if count > 0 else "-", key, value)
            for key, value, count in delta
            for _ in range(abs(count))
        )

    epochs = []
    with result.subscribe(hear):
        for edits, expected in view.story:
            heard.clear()
            by_input = edits if isinstance(edits, dict) else {next(iter(inputs)): edits}
            with first.transaction() as tx:
                for name, rows in by_input.items():
                    aimed = tx.on(inputs[name])
                    for sign, key, value in rows:
                        (aimed.insert if sign == "+" else aimed.delete)(key, value)
            first.check_invariants()
            epochs.append(Epoch(edits, _ordered(expected), _ordered(heard)))
    return epochs


def _ordered(rows: Sequence[Signed]) -> list[Signed]:
    return sorted(rows, key=lambda row: (repr(row[1]), row[0] == "+", repr(row[2])))


def tell(view: View) -> str:
    """The story as text."""
    lines = [f"{view.name}  ({view.tool})"]
    for number, epoch in enumerate(run(view), start=1):
        lines.append(f"  epoch {number}")
        edits = epoch.edits if isinstance(epoch.edits, dict) else {"": epoch.edits}
        for name, rows in edits.items():
            lines += [
                f"    in  {sign} {name}{' ' * bool(name)}{key!r}: {value!r}"
                for sign, key, value in rows
            ]
        lines += [f"    out {sign} {key!r}: {value!r}" for sign, key, value in epoch.actual]
    return "\n".join(lines)
