"""Proofs as Graphviz DOT and as SVG drawings with a layout of their own.

The layout is layered: a fact stands one layer above the deepest of the facts that use it, the
order inside a layer follows the users' places, and layers are centred. Invariant: no external
program and no font metrics are needed (text is measured as 7.2 pixels a character, monospaced).
"""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING, Final

from deltafix.provenance.text import reason

if TYPE_CHECKING:
    from deltafix.provenance.proof import Proof, Step

_CHARACTER: Final = 7.2
_HEIGHT: Final = 34
_GAP: Final = 18
_LAYER: Final = 74
_LONGEST: Final = 60
"""Characters of a label that are drawn; the whole stands in the box's title."""


def to_dot(proof: Proof) -> str:
    """The proof for Graphviz: facts are boxes (given rows filled), arrows go to what they prove."""
    lines = ["digraph proof {", "  rankdir=BT;", '  node [shape=box, fontname="monospace"];']
    for place, step in enumerate(proof.steps):
        style = ", style=filled, fillcolor=lightgrey" if step.is_given else ""
        lines.append(f"  f{place} [label={_quoted(step.label)}{style}];")
        if not step.is_given:
            notes = [reason(step), *step.absent, *step.tests]
            lines.append(f"  f{place} [tooltip={_quoted(chr(10).join(notes))}];")
        lines += [f"  f{premise} -> f{place};" for premise in dict.fromkeys(step.premises)]
        for number, phrase in enumerate(step.absent):
            lines.append(f"  a{place}_{number} [label={_quoted(phrase)}, style=dashed];")
            lines.append(f"  a{place}_{number} -> f{place} [style=dashed];")
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
        for place in layer:
            spots[place] = (left + widths[place] / 2, _GAP + _HEIGHT / 2 + depth * _LAYER)
            left += widths[place] + _GAP
    height = len(layers) * _LAYER - (_LAYER - _HEIGHT) + 2 * _GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total:.0f} {height:.0f}" '
        f'width="{total:.0f}" height="{height:.0f}" font-family="monospace" font-size="12">'
    ]
    for place, step in enumerate(proof.steps):
        parts += [_edge(spots[at], spots[place]) for at in dict.fromkeys(step.premises)]
    parts += [_box(step, spots[p], widths[p]) for p, step in enumerate(proof.steps)]
    return "\n".join([*parts, "</svg>"])


def _layers(proof: Proof) -> list[list[int]]:
    """Places by layer: below every user. O(steps + premises), since users come first."""
    users: list[list[int]] = [[] for _ in proof.steps]
    for place, step in enumerate(proof.steps):
        for premise in dict.fromkeys(step.premises):
            users[premise].append(place)
    depth = [0] * len(proof.steps)
    for place in range(1, len(proof.steps)):
        depth[place] = 1 + max(depth[user] for user in users[place])
    layers: list[list[int]] = [[] for _ in range(max(depth) + 1)]
    for place, where in enumerate(depth):
        layers[where].append(place)
    order = {0: 0.0}
    for layer in layers[1:]:
        layer.sort(key=lambda p: sum(order[u] for u in users[p]) / len(users[p]))
        order |= {place: (n + 0.5) / len(layer) for n, place in enumerate(layer)}
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
