"""The trace: what happens to the forest, in the paper's notation.

`a` answers, `c` consumers, `s` supports, `f` facts and rules, `p` calls. Each is numbered when it
is first seen, or named beforehand through `labels`, which maps the text of a thing (`r(1, 2)` for
an answer, `<r(1, A), r(1, A), e(1, A), []>` for a consumer) to its name; that is how a test speaks
a paper's names. Invariant: tracing changes no decision. Off, it costs one test per event.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from deltafix.tabling.agenda import CONSUME, NAMES, Event
from deltafix.tabling.clauses import Kind, Literal, Rule
from deltafix.tabling.table import LEVEL, Absence, Answer, Consumer, Generator, Premise, rank_of
from deltafix.tabling.terms import Term, atom, list_of, struct
from deltafix.tabling.unify import instantiate
from deltafix.tabling.writer import show

if TYPE_CHECKING:
    from deltafix.tabling.callgraph import Component


def goal_term(name: str, args: tuple[Term, ...]) -> Term:
    """`name(args)`, or the atom."""
    return struct(name, args) if args else atom(name)


def answer_term(answer: Answer) -> Term:
    """The answer as an atom of its predicate."""
    return goal_term(answer.generator.predicate.key[0], answer.args)


def call_term(generator: Generator) -> Term:
    """The call as a goal, variables numbered."""
    return goal_term(generator.predicate.key[0], generator.args)


def describe(consumer: Consumer) -> str:
    """`<call, head, goal, [further goals]>`: the paper's definition 1, call for generator."""
    call = show(call_term(consumer.generator))
    rule = consumer.rule
    if rule is None:
        return f"<{call}>"
    head = goal_term(rule.key[0], rule.args)
    rest = list_of([literal.term for literal in rule.body[consumer.at + 1 :]])
    goal = consumer.literal.term if consumer.literal is not None else atom("true")
    shown = instantiate((head, goal, rest), consumer.row)
    return f"<{call}, {', '.join(show(t) for t in shown)}>"


class Trace:
    """Collects `lines`; hand it to a session to switch tracing on."""

    def __init__(self, labels: Mapping[str, str] | None = None) -> None:
        self.lines: list[str] = []
        self.labels = dict(labels or {})
        self._names: dict[object, str] = {}
        self._taken = set(self.labels.values())
        self._next: dict[str, int] = {}

    # -- names ----------------------------------------------------------------------------------

    def _name(self, thing: object, letter: str, text: str) -> str:
        named = self._names.get(thing)
        if named is None:
            named = self.labels.get(text)
            while named is None or named in self._names.values():
                number = self._next[letter] = self._next.get(letter, 0) + 1
                if f"{letter}{number}" not in self._taken:
                    named = f"{letter}{number}"
            self._names[thing] = named
        return named

    def name(self, thing: Premise | Consumer | Generator) -> str:
        """The name of a thing, given now if it has none."""
        if isinstance(thing, Answer):
            return self._name(thing, "a", show(answer_term(thing)))
        if isinstance(thing, Generator):
            return self._name(thing, "p", show(call_term(thing)))
        if isinstance(thing, Rule):
            return self._name(thing, "f", show(thing.clause.term))
        if isinstance(thing, Absence):
            return f"not {self.name(thing.generator)}"
        if thing.rule is None:
            return self.name(thing.generator)
        if thing.answer is not None:
            return self._name(thing, "s", self.premises(thing))
        return self._name(thing, "c", describe(thing))

    def premises(self, support: Consumer) -> str:
        """`<f1, a2>`: what a support stands on, first premise first."""
        out: list[str] = []
        node: Consumer | None = support
        while node is not None:
            premise = node.premise
            if premise is not None and not (isinstance(premise, Rule) and premise.body):
                out.append(self.name(premise))
            node = node.previous
        return f"<{', '.join(reversed(out))}>"

    def event(self, event: Event) -> str:
        """`consume_answer(a1, c2)` or `mark(a1)`."""
        about = self.name(event.premise)
        if event.kind == CONSUME and event.consumer is not None:
            about += f", {self.name(event.consumer)}"
        return f"{NAMES[event.kind]}({about})"

    # -- what happens ---------------------------------------------------------------------------

    def scheduled(self, event: Event, component: Component) -> None:
        """An event enters the ready queue, or the delay queue at once."""
        where = "delay" if event.state == 1 else "ready"
        self.lines.append(
            f"  {where} {self.event(event)} ord={event.ordinal} scc={component.label:g}"
        )

    def moved(self, event: Event, where: str, again: Event | None = None) -> None:
        """An event changes queues, or is taken back."""
        self.lines.append(f"  {where} {self.event(again or event)}")

    def processed(self, event: Event, component: Component) -> None:
        """An event is taken from the ready queue."""
        self.lines.append(f"{self.event(event)} ord={event.ordinal} scc={component.label:g}")

    def call(self, generator: Generator) -> None:
        """A new call."""
        scc = generator.component.label
        self.lines.append(
            f"  new {self.name(generator)} = {show(call_term(generator))} scc={scc:g}"
        )

    def node(self, consumer: Consumer) -> None:
        """A new consumer."""
        sign = "\\+ " if cast("Literal", consumer.literal).kind is Kind.NOT else ""
        self.lines.append(f"  new {sign}{self.name(consumer)} = {describe(consumer)}")

    def support(self, leaf: Consumer, *, new: bool) -> None:
        """A new support, and the answer it gave rise to if that is new too."""
        answer = cast("Answer", leaf.answer)
        ordinal, own = rank_of(leaf) // LEVEL, answer.rank // LEVEL
        if new:
            self.lines.append(f"  new {self.name(answer)} = {show(answer_term(answer))} ord={own}")
        self.lines.append(
            f"  new {self.name(leaf)} = {self.premises(leaf)} of {self.name(answer)} ord={ordinal}"
        )

    def marked(self, answer: Answer) -> None:
        """An answer is marked."""
        self.lines.append(f"  marked {self.name(answer)}")

    def rederived(self, answer: Answer) -> None:
        """An answer is unmarked; the ordinals of its supports' successors follow its own."""
        self.lines.append(f"  unmarked {self.name(answer)} ord={answer.rank // LEVEL}")

    def ranked(self, answer: Answer) -> None:
        """An answer's ordinal was raised by a merge of components."""
        self.lines.append(f"  ord {self.name(answer)}={answer.rank // LEVEL}")

    def deleted(self, answer: Answer) -> None:
        """An answer is gone."""
        self.lines.append(f"  deleted {self.name(answer)}")

    def moves(self, components: list[Component]) -> None:
        """Components were given new places in the topological order."""
        for component in components:
            for member in component.members:
                self.lines.append(f"  scc {self.name(member)}={component.label:g}")

    def merged(self, keeper: Component, parts: list[Component]) -> None:
        """Components became one."""
        members = sorted(self.name(member) for member in keeper.members)
        self.lines.append(f"  merged {len(parts)}: {', '.join(members)} scc={keeper.label:g}")
