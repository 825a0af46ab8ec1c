"""The SLG forest: generators (calls), consumers (nodes), answers, and the state around them.

The life of an answer in three stages: a support is attached to it (it is born, with a rank above
that support's premises); it is *marked* when its last acyclic support goes; it is re-derived with
a higher rank, or dies when its component is swept.

Invariants between updates, checked by `check_invariants` in `invariants`:
1. no answer is marked, no event waits;
2. every answer has a support all of whose premises in its own component have a lower rank
   (`acyclic` counts those supports), so nothing holds itself up;
3. every consumer has consumed every answer of its generator, or every fact of its bucket.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from deltafix.tabling.callgraph import Undo, Undoable
from deltafix.tabling.clauses import shape_of
from deltafix.tabling.unify import is_plain

if TYPE_CHECKING:
    from deltafix.tabling.agenda import Agenda, Budget
    from deltafix.tabling.callgraph import CallGraph, Component
    from deltafix.tabling.clauses import Literal, Rule
    from deltafix.tabling.factbase import Bucket, Predicate
    from deltafix.tabling.program import Program
    from deltafix.tabling.terms import Term
    from deltafix.tabling.trace import Trace
    from deltafix.tabling.unify import Row

LEVEL: Final = 1 << 44
"""A rank is `ordinal * LEVEL + birth`: the paper's ordinal, made a total order by birth.

With the ordinal alone, a support of equal ordinal is no help to its answer; design.md measured
13 times fewer retractions with a total order. Births are unique below 2**44 answers.
"""

FALSE, UNDEFINED, TRUE = 0, 1, 2
"""Truth values, ordered. Answers of programs without negation are always TRUE."""


class Answer:
    """One answer of a generator: `args` are the call's arguments, instantiated."""

    __slots__ = (
        "acyclic", "affects", "args", "dead", "epoch", "generator", "ground", "marked", "rank",
        "supports", "truth",
    )  # fmt: skip

    def __init__(self, generator: Generator, args: tuple[Term, ...], epoch: int) -> None:
        self.generator = generator
        self.args = args
        self.ground = all(a.ground for a in args)
        self.epoch = epoch
        self.rank = 0
        self.acyclic = 0
        self.marked = False
        self.dead = False
        self.truth = TRUE
        self.supports: dict[Consumer, None] = {}
        self.affects: dict[Consumer, None] = {}


class Absence:
    """That a generator has no answer: what a negated goal stands on."""

    __slots__ = ("affects", "generator")

    def __init__(self, generator: Generator) -> None:
        self.generator = generator
        self.affects: dict[Consumer, None] = {}


class Consumer:
    """A node of the forest below a root: `literal` is selected, the row binds the rule.

    A root has neither rule nor premise; a leaf (a support) has no literal, but its answer. `marks`
    counts how many of its two premises (the previous consumer, and `premise`) are marked.
    """

    __slots__ = (
        "answer", "at", "children", "counted", "dead", "generator", "literal", "marks",
        "premise", "previous", "row", "rule", "source",
    )  # fmt: skip

    def __init__(
        self,
        generator: Generator,
        rule: Rule | None,
        at: int,
        row: Row,
        premise: Premise,
        *,
        previous: Consumer | None,
    ) -> None:
        self.generator = generator
        self.rule = rule
        self.at = at
        self.row = row
        self.premise = premise
        self.previous = previous
        self.literal: Literal | None = None
        self.source: Generator | Bucket | None = None
        self.answer: Answer | None = None
        self.children: dict[Consumer, None] | None = None
        self.marks = 0
        self.counted = False
        self.dead = False


class Generator:
    """One tabled call. `consumers` wait for its answers, `negations` for their absence.

    `bound` are the positions of its ground arguments, `values` what stands there, `shape` that of
    its first argument; `plain` says that the other arguments are variables, each of its own.
    """

    __slots__ = (
        "absence", "answers", "args", "bound", "bucket", "component", "consumers", "epoch", "kept",
        "negations", "plain", "predicate", "root", "settled", "shape", "values",
    )  # fmt: skip

    def __init__(self, predicate: Predicate, args: tuple[Term, ...], epoch: int) -> None:
        self.predicate = predicate
        self.args = args
        self.epoch = epoch
        self.bound = tuple([i for i, a in enumerate(args) if a.ground])
        self.values = tuple([args[i] for i in self.bound])
        self.plain = is_plain(args)
        self.shape = shape_of(args)
        self.answers: dict[tuple[Term, ...], Answer] = {}
        self.consumers: dict[Consumer, None] = {}
        self.negations: dict[Consumer, None] = {}
        self.absence = Absence(self)
        self.root = Consumer(self, None, -1, (), cast("Premise", None), previous=None)
        self.component: Component
        self.bucket: Bucket
        self.kept = 0
        self.settled = FALSE
        """The truth of `some answer exists` as its negations last saw it."""

    def fits(self, rule: Rule) -> bool:
        """Whether first arguments leave a chance that the call unifies with the rule's head."""
        return self.shape is None or rule.shape is None or rule.shape == self.shape


Premise: TypeAlias = "Answer | Absence | Rule"


@dataclass(slots=True)
class Counters:
    """The work of one query or update; `valued` counts answers whose truth was found anew."""

    answers_inserted: int = 0
    answers_deleted: int = 0
    marked: int = 0
    rederived: int = 0
    supports_inserted: int = 0
    supports_deleted: int = 0
    calls_created: int = 0
    calls_visited: int = 0
    valued: int = 0
    events: int = 0

    @property
    def touched(self) -> int:
        """Answers taken up: inserted, deleted or marked (the paper's measure of cost)."""
        return self.answers_inserted + self.marked

    def add(self, other: Counters) -> None:
        """Add another run's work to this one."""
        for item in fields(self):
            setattr(self, item.name, getattr(self, item.name) + getattr(other, item.name))


@dataclass(eq=False, slots=True)
class Forest(Undoable):
    """All tables of a session and what is under way in them.

    `undo` is None outside updates; inside, every change appends how to take it back.
    """

    program: Program
    graph: CallGraph
    agenda: Agenda
    budget: Budget
    trace: Trace | None = None
    undo: Undo | None = None
    counters: Counters = field(default_factory=Counters)
    epoch: int = 0
    births: int = 0
    delayed: bool = False
    """Some call was delayed under a negation: only then can any answer not be TRUE."""
    eager: bool = False
    """DRed: an answer is marked as soon as any support is, acyclic ones left or not."""
    generators: dict[Generator, None] = field(default_factory=dict)
    created: dict[Generator, None] = field(default_factory=dict)
    """Generators that are not complete yet: all of them go if the run fails."""
    visited: set[Generator] = field(default_factory=set)
    born: dict[Answer, None] = field(default_factory=dict)
    died: dict[Answer, None] = field(default_factory=dict)
    revalued: dict[Answer, int] = field(default_factory=dict)
    """Answers whose truth changed, with the value before."""

    def fresh_rank(self, below: int) -> int:
        """A new rank just above the ordinal of `below`."""
        self.births += 1
        return (below // LEVEL + 1) * LEVEL + self.births


def rank_of(consumer: Consumer) -> int:
    """The rank of a consumer: the highest of its answer premises in its own component, else 0.

    Computed along the chain of premises (as long as the rule's body), never stored: a premise
    that is re-derived, or a component that grows, changes it everywhere at once.
    """
    component = consumer.generator.component
    rank = 0
    node: Consumer | None = consumer
    while node is not None:
        premise = node.premise
        if (
            type(premise) is Answer
            and premise.rank > rank
            and premise.generator.component is component
        ):
            rank = premise.rank
        node = node.previous
    return rank
