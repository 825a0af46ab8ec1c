"""Random tabled programs, random edits, and judges that share nothing with the SLG forest.

`Script` draws everything from one `random.Random`: a seed repeats a finding. Judges: `grounded`
(all ground instances, alternating fixpoint: definite programs, stratified ones and others), and
`by_oracle` (the demand-transformed program in `judges/oracle.py`). Programs with compound terms are
judged by a fresh evaluation alone, their models being infinite in general.

The mode `layered` is about truth that travels: games, which leave positions undefined, lie below
layers of definite and of negated rules, so undefined atoms reach components that know no negation
of their own, before and after the facts that complete their derivations. The mode `graphs` is about
calls that come to be of one component while answers of theirs are marked: closures of several rules
over dense graphs, where an edit takes edges and rules away and brings others.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise, product
from pathlib import Path
from random import Random

from deltafix import Program
from deltafix.errors import BudgetError
from deltafix.tabling import Solution, Tables, open_tables
from deltafix.tabling.clauses import Kind, Rule
from deltafix.tabling.drop import nodes
from deltafix.tabling.goals import read_goal
from deltafix.tabling.operators import STANDARD
from deltafix.tabling.reader import read_term
from deltafix.tabling.table import LEVEL, Generator
from deltafix.tabling.terms import Struct, Term, Var
from deltafix.tabling.trace import Trace, goal_term
from deltafix.tabling.translate import Symbols, pattern_of, translate
from deltafix.tabling.unify import instantiate, match

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.judges import oracle

STRATEGIES = ("local", "deletes_first", "inserts_first", "dred", "scratch")
FACTS = (("e", 2), ("f", 1), ("g", 2))
VARIABLES = ("X", "Y", "Z", "W")
LAYERS = (
    (("win", 1), ("u", 0)),
    (("p", 1), ("q", 2), ("a", 0)),
    (("r", 1), ("b", 0)),
    (("s", 2), ("t", 0)),
)
"""Derived predicates of the mode `layered`; even layers negate, odd ones are definite."""
GRAPHS = (("p", 2), ("q", 2), ("r", 1))
"""Derived predicates of the mode `graphs`."""


def written(name: str, arguments: list[str]) -> str:
    """An atom's text."""
    return f"{name}({', '.join(arguments)})" if arguments else name


class Script:
    """One random program with goals and edits; `mode` is flat, terms, negation, layered, graphs."""

    def __init__(self, seed: int, mode: str) -> None:
        self.rng = rng = Random(seed)
        self.mode = mode
        derived = (("p", 2), ("q", 2), ("r", 1), ("s", 2))[: rng.randint(1, 4)]
        if mode == "layered":
            derived = tuple(p for layer in LAYERS[: rng.randint(2, 4)] for p in layer)
        if mode == "graphs":
            derived = GRAPHS[: rng.randint(1, 3)]
        self.derived = derived
        self.constants = [
            str(i) for i in range(rng.randint(*(3, 9) if mode == "graphs" else (2, 4)))
        ]
        names = [f"{n}/{a}" for n, a in self.derived]
        facts = [f"{n}/{a}" for n, a in FACTS]
        self.header = f":- table {', '.join(names)}.\n:- dynamic {', '.join(facts)}.\n"
        self.clauses = sorted(
            {self.rule() for _ in range(rng.randint(2, 7) + 4 * (mode == "layered"))}
            | {self.fact() for _ in range(rng.randint(2, 12) + 9 * (mode == "graphs"))}
        )
        self.goals = sorted({self.goal(n, a) for n, a in self.derived})
        self.opened: Iterator[Solution] | None = None

    def goal(self, name: str, arity: int) -> str:
        choice = [self.rng.choice(["A", "B", "0", "1"]) for _ in range(arity)]
        return written(name, choice)

    def argument(self) -> str:
        draw = self.rng.random()
        if self.mode == "terms" and draw < 0.12:
            shape = self.rng.choice(["k({})", "[{}|{}]"])
            return shape.format(self.rng.choice(VARIABLES), self.rng.choice(VARIABLES))
        return self.rng.choice(self.constants if draw < 0.25 else VARIABLES)

    def atom(self, predicates: tuple[tuple[str, int], ...]) -> str:
        name, arity = self.rng.choice(predicates)
        return written(name, [self.argument() for _ in range(arity)])

    def layered(self) -> str:
        """A rule over its own layer and those below, facts in any place of the body."""
        rng = self.rng
        name, arity = rng.choice(self.derived)
        at = next(i for i, layer in enumerate(LAYERS) if (name, arity) in layer)
        below = tuple(p for layer in LAYERS[:at] for p in layer)
        if at == 0 and rng.random() < 0.7:
            if not arity:
                return "u :- \\+ u"
            return "win(X) :- g(X, Y), \\+ win(Y)"
        own = LAYERS[at] if at % 2 or rng.random() < 0.3 else ()
        body = [self.atom(rng.choice([below or FACTS, own or FACTS, FACTS]))]
        body += [self.atom(below + own + FACTS) for _ in range(rng.randint(0, 2))]
        bound = [v for v in VARIABLES if any(v in goal for goal in body)] or ["0"]
        if at % 2 == 0 and rng.random() < 0.8:
            other, width = rng.choice((*below, *own, *LAYERS[0], FACTS[1]))
            used = [rng.choice(bound) for _ in range(width)]
            first = [min((i for i, g in enumerate(body, 1) if v in g), default=0) for v in used]
            place = rng.randint(max(first, default=0), len(body))
            body.insert(place, f"\\+ {written(other, used)}")
        return self.headed(name, arity, bound, body)

    def closing(self) -> str:
        """A rule of a closure: a path of one to three edges of any relation, or a set of nodes."""
        rng = self.rng
        name, arity = rng.choice(self.derived)
        if arity == 1:
            bodies = ("p(X, Y), f(Y)", "r(Y), e(Y, X)", "r(Y), p(Y, X)", "p(X, X)")
            return f"r(X) :- {rng.choice(bodies)}"
        pairs = [one for one, width in (*self.derived, *FACTS) if width == 2]
        length = rng.choice((1, 1, 2, 2, 2, 3))
        body = [f"{rng.choice(pairs)}({x}, {y})" for x, y in pairwise(VARIABLES[: length + 1])]
        ends = [VARIABLES[0], VARIABLES[length]]
        return f"{name}({', '.join(ends[:: rng.choice((1, 1, 1, -1))])}) :- {', '.join(body)}"

    def rule(self) -> str:
        rng = self.rng
        if self.mode == "layered":
            return self.layered()
        if self.mode == "graphs":
            return self.closing()
        name, arity = rng.choice(self.derived)
        body = [self.atom(self.derived + FACTS) for _ in range(rng.randint(1, 3))]
        if self.mode != "terms":
            body.insert(0, self.atom((("e", 2), ("g", 2))))
        bound = [v for v in VARIABLES if any(v in goal for goal in body)] or ["0"]
        if rng.random() < 0.15:
            body.append(f"{rng.choice(bound)} \\= {rng.choice(bound)}")
        if self.mode == "negation" and rng.random() < 0.6:
            other, width = rng.choice(self.derived + FACTS)
            args = [rng.choice(bound) for _ in range(width)]
            body.append(f"\\+ {other}({', '.join(args)})")
        return self.headed(name, arity, bound, body)

    def headed(self, name: str, arity: int, bound: list[str], body: list[str]) -> str:
        """The rule with a random head, which may stand on itself and so prove nothing."""
        rng = self.rng
        args = [rng.choice(bound if rng.random() < 0.9 else self.constants) for _ in range(arity)]
        head = written(name, args)
        if self.mode != "terms" and rng.random() < 0.25:
            body.insert(rng.randint(0, len(body)), head)
        return f"{head} :- {', '.join(body)}"

    def fact(self) -> str:
        pool = FACTS + (self.derived if self.rng.random() < 0.2 else ())
        if self.mode == "graphs":
            pool = (FACTS[0], *FACTS)
        name, arity = self.rng.choice(pool)
        return written(name, [self.rng.choice(self.constants) for _ in range(arity)])

    def edit(self, tables: Tables, *, known: bool = False) -> dict[str, list[str]]:
        """Clauses to insert, to delete, and heads to delete by: arguments of `Tables.update`.

        `known`: of predicates that are there.
        """
        rng = self.rng
        present = sorted(map(str, tables.program.clauses.values()))
        most, share = (6, 0.5) if self.mode == "graphs" else (3, 0.25)
        doomed = rng.sample(present, min(len(present), rng.randint(0, most)))
        arriving = [
            self.rule() if rng.random() < share else self.fact()
            for _ in range(rng.randint(0, most))
        ]
        if not known and rng.random() < 0.1:
            arriving.append(f"new{rng.randint(0, 9)}({rng.choice(self.constants)})")
        heads = []
        if rng.random() < 0.2:
            name, arity = rng.choice(self.derived + FACTS)
            heads = [written(name, [rng.choice(["_", *self.constants]) for _ in range(arity)])]
        return {"insert": arriving, "delete": doomed, "retractall": heads}


def edited(before: set[Term], edit: dict[str, list[str]]) -> set[Term]:
    """The clauses after an edit, judged by nothing but their texts and places."""
    arriving, doomed = (
        {read_term(text, STANDARD).term for text in edit[part]} for part in ("insert", "delete")
    )
    for pattern in (read_term(head, STANDARD).term for head in edit["retractall"]):
        doomed |= {clause for clause in before if _clashes(_head(clause), pattern) is False}
    return (before - (doomed - arriving)) | arriving


def _head(clause: Term) -> Term:
    return clause.args[0] if isinstance(clause, Struct) and clause.name == ":-" else clause


def _clashes(head: Term, pattern: Term) -> bool | None:
    """Whether a flat head has no instance of a pattern of constants and `_`; None: another's."""
    parts = [t.args if isinstance(t, Struct) else () for t in (head, pattern)]
    if head.name != pattern.name or len(parts[0]) != len(parts[1]):
        return None
    bound: dict[Term, Term] = {}
    return any(
        given.ground
        and (bound.setdefault(arg, given) if isinstance(arg, Var) else arg) is not given
        for arg, given in zip(*parts, strict=True)
    )


def contents(tables: Tables, goal: str) -> dict[Term, str]:
    """Answers to truth. Terms, not text: one term may be larger than any text."""
    return {s.term: s.truth for s in tables.query(goal)}


def fresh(script: Script, tables: Tables) -> dict[str, dict[Term, str]]:
    """The goals' answers from scratch, by the program's own text."""
    again = Tables(tables.program.show(), max_answers=20_000)
    assert again.program.clauses.keys() == tables.program.clauses.keys()
    assert again.program.show() == tables.program.show()
    found = {goal: contents(again, goal) for goal in script.goals}
    _check_components(again)
    return found


def _check_components(tables: Tables) -> None:
    """Before any update, two calls are of one component iff each calls the other in the end.

    Larger components would answer alike, and touch more.
    """
    calls = list(tables._forest.generators)
    reached = {}
    for call in calls:
        stack, seen = [call], {call}
        while stack:
            sources = {node.source for node in nodes(stack.pop())}
            stack.extend(more := {s for s in sources if isinstance(s, Generator)} - seen)
            seen |= more
        reached[call] = seen
    for one, other in product(calls, repeat=2):
        mutual = other in reached[one] and one in reached[other]
        assert mutual == (one.component is other.component)


def grounded(script: Script, tables: Tables) -> dict[str, dict[Term, str]]:
    """The goals' answers by the alternating fixpoint over all ground instances."""
    domain: dict[Term, None] = {}
    rules: list[Rule] = [r for c in tables.program.clauses.values() for r in c.rules]
    for rule in rules:
        for literal in (rule, *rule.body):
            domain.update((a, None) for a in literal.args if not isinstance(a, Var))
    instances = [found for rule in rules for found in _instances(rule, list(domain))]
    possible = _model(instances, set())
    while True:
        certain = _model(instances, possible)
        again = _model(instances, certain)
        if again == possible:
            break
        possible = again
    out: dict[str, dict[Term, str]] = {}
    for text in script.goals:
        goal = read_goal(tables.program, text)
        rows = {}
        for atom in possible:
            args = atom.args if isinstance(atom, Struct) else ()
            same = (atom.name, len(args)) == goal.key
            if same and match(goal.args, (None,) * len(goal.names), args) is not None:
                rows[atom] = "true" if atom in certain else "undefined"
        out[text] = rows
    return out


def _instances(rule: Rule, domain: list[Term]):
    used = sorted({a.index for part in (rule, *rule.body) for a in part.args if isinstance(a, Var)})
    for values in product(domain, repeat=len(used)):
        row: list[Term | None] = [None] * rule.slots
        for index, value in zip(used, values, strict=True):
            row[index] = value
        positive, negative, holds = [], [], True
        for literal in rule.body:
            args = instantiate(literal.args, tuple(row))
            if literal.kind is Kind.DIFFER:
                holds = holds and args[0] is not args[1]
            elif literal.kind is Kind.NOT:
                negative.append(goal_term(literal.key[0], args))
            else:
                positive.append(goal_term(literal.key[0], args))
        if holds:
            head = goal_term(rule.key[0], instantiate(rule.args, tuple(row)))
            yield head, positive, negative


def _model(instances, assumed: set[Term]) -> set[Term]:
    """The least model, a negated atom holding iff it is not in `assumed`."""
    model: set[Term] = set()
    while True:
        before = len(model)
        for head, positive, negative in instances:
            if model.issuperset(positive) and assumed.isdisjoint(negative):
                model.add(head)
        if len(model) == before:
            return model


def by_oracle(script: Script, tables: Tables) -> dict[str, set[Term]]:
    """The goals' answers by the demand-transformed program in the naive evaluator."""
    symbols = Symbols()
    goals = [read_goal(tables.program, text) for text in script.goals]
    program = tables.program
    translation = translate(program.predicates, program.clauses.values(), goals, symbols)
    rows: dict[str, set[tuple[int, ...]]] = {}
    for clause in program.clauses.values():
        for rule in clause.rules:
            if rule.is_fact:
                row = (*(symbols.code(a) for a in rule.args), 0)
                rows.setdefault(translation.facts[rule.key], set()).add(row)
    for goal in goals:
        name = translation.demands[goal.key, pattern_of(goal)]
        row = (*(symbols.code(a) for a in goal.args if a.ground), 0)
        rows.setdefault(name, set()).add(row)
    facts = oracle.evaluate(Program.parse(translation.text), rows)
    out: dict[str, set[Term]] = {}
    for text, goal in zip(script.goals, goals, strict=True):
        found = set()
        for row in facts[translation.answers[goal.key, pattern_of(goal)]]:
            args = tuple(symbols.terms[code] for code in row[:-1])
            if match(goal.args, (None,) * len(goal.names), args) is not None:
                found.add(goal_term(goal.key[0], args))
        out[text] = found
    return out


def play(seed: int, mode: str, *, oracle_too: bool = False) -> Counter[str]:
    """Play a seed: after every epoch tables, deltas, invariants and judges must agree.

    Counts epochs `compared`, `stopped` by the budget (programs over terms may not terminate, and
    some epochs are given next to none; all must be as before), with an `undefined` answer, with
    answers `valued` anew.
    """
    script = Script(seed, mode)
    rng = script.rng
    trace = Trace() if seed % 5 == 0 and mode != "terms" else None
    tables = Tables(script.header, max_answers=600, trace=trace)
    tables.update(insert=script.clauses)
    try:
        now = {goal: contents(tables, goal) for goal in script.goals}
    except BudgetError:
        tables.check_invariants()
        return Counter(stopped=1)
    epochs: Counter[str] = Counter()
    for _ in range(rng.randint(3, 9)):
        edit = script.edit(tables)
        strategy = rng.choice(STRATEGIES)
        what = f"seed {seed} {mode} {strategy}: {edit}\n{tables.program.show()}"
        before = now
        clauses = edited(set(tables.program.clauses), edit)
        held, known = tables.answers, list(tables.program.predicates)
        told = len(trace.lines) if trace else 0
        tables.budget.max_answers = rng.randint(0, 3) if rng.random() < 0.2 else 600
        try:
            delta = tables.update(**edit, strategy=strategy)
        except BudgetError:
            tables.budget.max_answers = 600
            tables.check_invariants()
            assert list(tables.program.predicates) == known, what
            assert {goal: contents(tables, goal) for goal in script.goals} == before, what
            epochs["stopped"] += 1
            if trace:
                del trace.lines[told:]
            continue
        tables.budget.max_answers = 600
        tables.check_invariants()
        assert set(tables.program.clauses) == clauses, what
        if strategy != "scratch" and script.opened is None:  # an open query is finished first
            work = delta.counters
            assert tables.answers - held == work.answers_inserted - work.answers_deleted, what
        now = {goal: contents(tables, goal) for goal in script.goals}
        assert now == fresh(script, tables), what
        if mode != "terms":
            assert now == grounded(script, tables), what
        if oracle_too and mode == "flat":
            assert {g: set(rows) for g, rows in now.items()} == by_oracle(script, tables), what
        _check_delta(tables, script, delta, (before, now), what)
        if trace:
            check_trace(tables, trace)
        epochs["compared"] += 1
        epochs["valued"] += bool(delta.counters.valued)
        epochs["undefined"] += any("undefined" in rows.values() for rows in now.values())
        _handle(script, tables)
        tables.check_invariants()
        now = {goal: contents(tables, goal) for goal in script.goals}
    return epochs


def check_trace(tables: Tables, trace: Trace) -> None:
    """Every answer is there by the trace too, not marked, and with the ordinal last told of it."""
    told: dict[str, str] = {}
    marked: set[str] = set()
    for line in trace.lines:
        if found := re.match(r"  (new|unmarked|ord) (a\d+)\b.*=(\d+)$", line):
            told[found[2]] = found[3]
            if found[1] == "unmarked":
                marked.remove(found[2])
        elif found := re.match(r"  (marked|deleted) (a\d+)$", line):
            (marked.add if found[1] == "marked" else marked.remove)(found[2])
    answers = [a for generator in tables._forest.generators for a in generator.answers.values()]
    for answer in answers:
        assert told[trace.name(answer)] == str(answer.rank // LEVEL)
    assert not marked


def _handle(script: Script, tables: Tables) -> None:
    """What a session does between updates: drops tables, opens queries, asks for more."""
    rng = script.rng
    draw = rng.random()
    if draw < 0.2:
        tables.collect()
    elif draw < 0.3:
        tables.abolish(rng.choice(script.goals))
    elif draw < 0.5:
        goal = script.goal(*rng.choice(script.derived))
        script.opened = tables.query(goal)  # finished by the next update, or given up
        try:
            next(script.opened, None)
            if rng.random() < 0.5:
                contents(tables, goal)
                script.goals = sorted({*script.goals, goal})
        except BudgetError:
            return
        if rng.random() < 0.5:
            script.opened = None


def _check_delta(tables, script, delta, states, what) -> None:
    before, now = states
    for text in script.goals:
        goal = read_goal(tables.program, text)
        key = repr(instantiate((goal.term,), (None,) * len(goal.names))[0])
        change = delta.get(key)
        added = set(change.added) if change else set()
        removed = set(change.removed) if change else set()
        revalued = set(change.revalued) if change else set()
        old, new = before[text], now[text]
        assert added == set(new) - set(old), what
        assert removed == set(old) - set(new), what
        assert revalued == {a for a in new if a in old and new[a] != old[a]}, what


def play_routes(seed: int, connect) -> Counter[str]:
    """Play a function-free seed on the kernel route: answers and deltas as on the term route.

    Every third seed has negation; where that is not stratified, both are on the term route.
    Counts epochs by the route they ended on.
    """
    script = Script(seed, "negation" if seed % 3 == 2 else "flat")
    term, auto = Tables(script.header), open_tables(script.header, engine="auto", connect=connect)
    term.update(insert=script.clauses)
    auto.update(insert=script.clauses)
    epochs: Counter[str] = Counter()
    for _ in range(4):
        for goal in script.goals:
            assert contents(term, goal) == contents(auto, goal), (seed, goal, term.program.show())
        edit = script.edit(term, known=True)
        expected = term.update(**edit).lines()
        assert auto.update(**edit).lines() == expected, seed
        epochs[auto.route] += 1
    auto.close()
    return epochs
