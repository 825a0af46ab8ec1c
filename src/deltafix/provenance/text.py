"""Proofs as a tree of lines, as HTML, Graphviz DOT, and SVG.

A step that is used again is shown once with its premises and then by name, so the text is linear
in the proof. Nothing here decides what a proof is.

Drawings are layered: a fact stands one layer above the deepest of the facts that use it, the order
inside a layer follows the users' places. No external program and no font metrics are needed: text
is measured as 7.2 pixels a character, monospaced.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from deltafix.provenance.proof import Proof, Step


def tree(proof: Proof, marks: Sequence[str] = ()) -> str:
    """One line a fact, its premises under it; what is absent and what was compared beside them.

    `marks` are put before the facts, by step.
    """
    lines = [(marks[0] if marks else "") + _line(proof.goal, again=False)]
    lines += _branches(proof, marks)
    if not proof.is_smallest:
        lines.append("(a smaller proof may exist: the search reached its bound)")
    return "\n".join(lines)


def reason(step: Step) -> str:
    """Why a step holds, in a few words: its rule, or that it is given."""
    if step.is_given:
        return "given"
    return "stated in the program" if step.text.startswith(f"{step.fact}.") else step.text


def _line(step: Step, *, again: bool) -> str:
    return f"{step.label}  [{'as above' if again else reason(step)}]"


def _branches(proof: Proof, marks: Sequence[str]) -> Iterator[str]:
    """The lines under the goal, without recursion: proofs may be deeper than Python's stack."""
    seen = {0}
    pending: list[tuple[str, list[int | str]]] = [("", _children(proof.goal))]
    while pending:
        indent, rest = pending[-1]
        if not rest:
            pending.pop()
            continue
        child = rest.pop(0)
        fork, down = ("├── ", "│   ") if rest else ("└── ", "    ")
        if isinstance(child, str):
            yield f"{indent}{fork}{child}"
            continue
        step = proof.steps[child]
        again = child in seen and not step.is_given
        mark = marks[child] if marks else ""
        yield f"{indent}{fork}{mark}{_line(step, again=again)}"
        if not again:
            seen.add(child)
            pending.append((indent + down, _children(step)))


def _children(step: Step) -> list[int | str]:
    return [*step.premises, *step.absent, *step.tests]


def html(proof: Proof) -> str:
    """Nested lists that fold, for notebooks. Self-contained, no script."""
    seen: set[int] = set()
    parts: list[str] = []
    # A frame is the text that opens a place, or closes the ones above it.
    pending: list[int | str] = [0]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            parts.append(item)
            continue
        step = proof.steps[item]
        again = item in seen and not step.is_given
        label = (
            f"<code>{escape(step.label)}</code> "
            f"<small>{escape('as above' if again else reason(step))}</small>"
        )
        children = [] if again else _children(step)
        seen.add(item)
        if not children:
            parts.append(f"<li>{label}</li>")
            continue
        parts.append(f"<li><details open><summary>{label}</summary><ul>")
        pending.append("</ul></details></li>")
        pending += [
            f"<li><small>{escape(c)}</small></li>" if isinstance(c, str) else c
            for c in reversed(children)
        ]
    more = "" if proof.is_smallest else "<p>A smaller proof may exist.</p>"
    return f'<ul class="deltafix-proof">{"".join(parts)}</ul>{more}'


_CHARACTER: Final = 7.2
_HEIGHT: Final = 34
_GAP: Final = 18
_LAYER: Final = 74
_LONGEST: Final = 60
"""Characters of a label that are drawn; the whole stands in the box's title."""


def to_dot(proof: Proof) -> str:
    """The proof for Graphviz: facts are boxes (given rows filled), arrows go to what they prove."""
    lines = ["digraph proof {", "  rankdir=BT;", '  node [shape=box, fontname="monospace"];']
    for index, step in enumerate(proof.steps):
        style = ", style=filled, fillcolor=lightgrey" if step.is_given else ""
        lines.append(f"  f{index} [label={_quoted(step.label)}{style}];")
        if not step.is_given:
            notes = [reason(step), *step.absent, *step.tests]
            lines.append(f"  f{index} [tooltip={_quoted(chr(10).join(notes))}];")
        lines += [f"  f{premise} -> f{index};" for premise in dict.fromkeys(step.premises)]
        for number, phrase in enumerate(step.absent):
            lines.append(f"  a{index}_{number} [label={_quoted(phrase)}, style=dashed];")
            lines.append(f"  a{index}_{number} -> f{index} [style=dashed];")
    return "\n".join([*lines, "}"])


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def to_svg(proof: Proof) -> str:
    """The proof as one SVG element: the goal on top, given rows grey, titles say the rules."""
    layers = _layers(proof)
    widths = [_width(step) for step in proof.steps]
    total = max(sum(widths[p] + _GAP for p in layer) for layer in layers) + _GAP
    spots: dict[int, tuple[float, float]] = {}
    for depth, layer in enumerate(layers):
        left = (total - sum(widths[p] + _GAP for p in layer) + _GAP) / 2
        for index in layer:
            spots[index] = (left + widths[index] / 2, _GAP + _HEIGHT / 2 + depth * _LAYER)
            left += widths[index] + _GAP
    height = len(layers) * _LAYER - (_LAYER - _HEIGHT) + 2 * _GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total:.0f} {height:.0f}" '
        f'width="{total:.0f}" height="{height:.0f}" font-family="monospace" font-size="12">'
    ]
    for index, step in enumerate(proof.steps):
        parts += [_edge(spots[at], spots[index]) for at in dict.fromkeys(step.premises)]
    parts += [_box(step, spots[p], widths[p]) for p, step in enumerate(proof.steps)]
    return "\n".join([*parts, "</svg>"])


def _layers(proof: Proof) -> list[list[int]]:
    """Places by layer: below every user. O(steps + premises), since users come first."""
    users: list[list[int]] = [[] for _ in proof.steps]
    for index, step in enumerate(proof.steps):
        for premise in dict.fromkeys(step.premises):
            users[premise].append(index)
    depth = [0] * len(proof.steps)
    for index in range(1, len(proof.steps)):
        depth[index] = 1 + max(depth[user] for user in users[index])
    layers: list[list[int]] = [[] for _ in range(max(depth) + 1)]
    for index, where in enumerate(depth):
        layers[where].append(index)
    order = {0: 0.0}
    for layer in layers[1:]:
        layer.sort(key=lambda p: sum(order[u] for u in users[p]) / len(users[p]))
        order |= {index: (n + 0.5) / len(layer) for n, index in enumerate(layer)}
    return layers


def _label(step: Step) -> str:
    return step.label if len(step.label) <= _LONGEST else f"{step.label[: _LONGEST - 1]}…"


def _width(step: Step) -> float:
    return len(_label(step)) * _CHARACTER + 20


def _edge(start: tuple[float, float], end: tuple[float, float]) -> str:
    (x1, y1), (x2, y2) = start, end
    y1, y2 = y1 - _HEIGHT / 2, y2 + _HEIGHT / 2
    middle = (y1 + y2) / 2
    return (
        f'<path d="M{x1:.1f} {y1:.1f} C{x1:.1f} {middle:.1f} {x2:.1f} {middle:.1f} '
        f'{x2:.1f} {y2:.1f}" fill="none" stroke="#888"/>'
    )


def _box(step: Step, spot: tuple[float, float], width: float) -> str:
    x, y = spot
    fill = "#e4e4e4" if step.is_given else "#fff"
    notes = "\n".join([step.label, reason(step), *step.absent, *step.tests])
    return (
        f"<g><title>{escape(notes)}</title>"
        f'<rect x="{x - width / 2:.1f}" y="{y - _HEIGHT / 2:.1f}" width="{width:.1f}" '
        f'height="{_HEIGHT}" rx="4" fill="{fill}" stroke="#555"/>'
        f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle" fill="#111">'
        f"{escape(_label(step))}</text></g>"
    )
