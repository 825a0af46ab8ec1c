"""A proof as data: steps that refer to each other, the goal first.

A `Step` is a fact with the rule that derived it, or a given row. Steps are shared: a fact that is
used twice stands once, so a proof is a graph without cycles, and its size is its number of facts.
Invariant: premises stand behind the steps that use them. How a proof is found is `why`'s business,
how it is drawn `text`'s. What explanations have in common is here: everywhere one is shown (print,
prompt, notebook), it is the same text.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any, Literal, TypeAlias

from deltafix.facts.schema import Row, show_row
from deltafix.facts.values import Value, show_value
from deltafix.provenance.state import Edit

Form: TypeAlias = Literal["text", "json", "dot", "svg"]


@dataclass(frozen=True, slots=True)
class Step:
    """One fact of a proof, and what it follows from.

    Attributes:
        relation, row: the fact.
        rule: the number of the rule, as in `EpochReport.rules`; None for a given row, and for one
            that its relation made of others (an equivalence, a join).
        text: the rule as program text, or how the relation made the row; empty for a given row.
        premises: places in `Proof.steps`, in the order of the rule's body; a row that several
            atoms of it stand for comes for each of them.
        absent: what must not hold and does not, in words.
        tests: comparisons and computed values, with the values put in.
        proposed: whether the row is none of its relation's: it was joined with others, or another
            one has replaced it since.
    """

    relation: str
    row: Row
    rule: int | None = None
    text: str = ""
    premises: tuple[int, ...] = ()
    absent: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    proposed: bool = False

    @property
    def fact(self) -> str:
        """The fact as program text."""
        return show_row(self.relation, self.row)

    @property
    def label(self) -> str:
        """The fact as proofs are drawn: what is only proposed says so."""
        return f"proposed {self.fact}" if self.proposed else self.fact

    @property
    def is_given(self) -> bool:
        """Whether the fact is a row given as input."""
        return not self.text


@dataclass(frozen=True, slots=True)
class Proof:
    """Why a fact holds.

    Attributes:
        steps: the facts, each once; step 0 is the one that was asked about.
        height: rules on the longest way from the fact down to a given row.
        is_smallest: whether no proof of less height exists, by rows that hold; of several proofs
            (`all=True`), none less than the first. False only where the search reached `max_work`
            first; the proof is a proof all the same.
    """

    steps: tuple[Step, ...]
    height: int
    is_smallest: bool = True

    @property
    def goal(self) -> Step:
        """The step of the fact that was asked about."""
        return self.steps[0]

    @property
    def leaves(self) -> tuple[Step, ...]:
        """The given rows that the proof rests on."""
        return tuple(step for step in self.steps if step.is_given)

    def __len__(self) -> int:
        return len(self.steps)

    def show(self, form: Form = "text") -> str:
        """The proof as a text tree, JSON, Graphviz DOT, or an SVG drawing."""
        from deltafix.provenance.text import to_dot, to_svg, tree  # noqa: PLC0415  they draw proofs

        if form == "json":
            return json.dumps(self.to_dict(), ensure_ascii=False, indent=2)
        return {"text": tree, "dot": to_dot, "svg": to_svg}[form](self)

    def to_dict(self) -> dict[str, Any]:
        """The proof for JSON: `height`, `is_smallest`, `steps` (premises are places in it)."""
        return {
            "height": self.height,
            "is_smallest": self.is_smallest,
            "steps": [_step(step) for step in self.steps],
        }

    def __str__(self) -> str:
        return self.show()

    def __repr__(self) -> str:
        return self.show()

    def _repr_html_(self) -> str:
        from deltafix.provenance.text import html  # noqa: PLC0415  it draws proofs

        return html(self)

    def below(self, place: int) -> Iterator[tuple[int, Step]]:
        """The premises of the step at `place`, with their places."""
        for premise in self.steps[place].premises:
            yield premise, self.steps[premise]


def _step(step: Step) -> dict[str, Any]:
    row = [_cell(value) for value in step.row]
    fields: dict[str, Any] = {"fact": step.fact, "relation": step.relation, "row": row}
    if step.proposed:
        fields["proposed"] = True
    if step.is_given:
        fields["given"] = True
    else:
        fields |= {"rule": step.rule, "text": step.text, "premises": list(step.premises)}
    if step.absent:
        fields["absent"] = list(step.absent)
    if step.tests:
        fields["tests"] = list(step.tests)
    return fields


def _cell(value: Value) -> int | float | str:
    """A value as JSON has it; what JSON has not (records, branches, infinities) as program text."""
    if isinstance(value, int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return show_value(value)


class Explanation(ABC):
    """An explanation of `row` of `relation`, which its dataclass holds as fields."""

    __slots__ = ()

    relation: str
    row: Row

    @property
    def fact(self) -> str:
        """The row as program text."""
        return show_row(self.relation, self.row)

    def show(self, form: str = "text") -> str:
        """As text, or as JSON."""
        if form == "json":
            return json.dumps(self.to_dict(), ensure_ascii=False, indent=2)
        return "\n".join(self.lines())

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """For JSON."""

    @abstractmethod
    def lines(self) -> list[str]:
        """The lines of its text."""

    def __str__(self) -> str:
        return self.show()

    def __repr__(self) -> str:
        return self.show()

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.show())}</pre>"


def show_edit(edit: Edit) -> str:
    """An edit as signed program text: `+edge("a", "b")`."""
    sign, relation, row = edit
    return f"{'+' if sign > 0 else '-'}{show_row(relation, row)}"
