"""Proofs as a tree of lines and as HTML.

A step that is used again is shown once with its premises and then by name, so the text is linear
in the proof. Nothing here decides what a proof is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

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
    waiting: list[tuple[str, list[int | str]]] = [("", _children(proof.goal))]
    while waiting:
        indent, rest = waiting[-1]
        if not rest:
            waiting.pop()
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
            waiting.append((indent + down, _children(step)))


def _children(step: Step) -> list[int | str]:
    return [*step.premises, *step.absent, *step.tests]


def html(proof: Proof) -> str:
    """Nested lists that fold, for notebooks. Self-contained, no script."""
    seen: set[int] = set()
    parts: list[str] = []
    # A frame is the text that opens a place, or closes the ones above it.
    waiting: list[int | str] = [0]
    while waiting:
        item = waiting.pop()
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
        waiting.append("</ul></details></li>")
        waiting += [
            f"<li><small>{escape(c)}</small></li>" if isinstance(c, str) else c
            for c in reversed(children)
        ]
    more = "" if proof.is_smallest else "<p>A smaller proof may exist.</p>"
    return f'<ul class="deltafix-proof">{"".join(parts)}</ul>{more}'
