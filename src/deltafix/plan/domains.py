"""What a group or aggregate inside recursion is asked for, without asking the recursion.

    p(x + 1) :- p(x), x < 20, n = count : { e(y), y < x }, n < 3.

The aggregate is asked for every `x` in `p`, and `p` waits for its answers. More than is asked for
does no harm, so it is computed for a *domain* of the column, all that could get there, negations
and aggregates aside:

    ~d(x) :- ~given p(x).        ~d(x + 1) :- ~d(x), x < 20.

Invariant: a domain holds every value of its column, depends on no negation or aggregate of the
recursion, and is finite where the relation is: a column that recursion computes has one only
behind a bound that stays (`_Domains.ends`). Where there is none the clauses stay as they are, and
`plan.depend` refuses them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from deltafix.plan.binding import connected, evaluable
from deltafix.plan.clause import (
    Absent,
    Apply,
    Argument,
    Clause,
    Code,
    Compare,
    Literal,
    Match,
    Relation,
    Slot,
    slots_of,
)
from deltafix.plan.flatten import Made

__all__ = ["ask_domains"]

_UP = frozenset(("<", "<="))
_DOWN = frozenset((">", ">="))


def ask_domains(made: Made, keeping: frozenset[str]) -> None:
    """Let the clauses of `made.asking` read domains, where there are any.

    Relations that join or drop rows (`keeping`) have none. Each clause costs the clauses of its
    recursion.
    """
    for number, (count, stratum) in made.asking.items():
        clause = made.clauses[number]
        work = _Domains(made, keeping, stratum)
        asked = work.above(clause.body[:count], _wanted(clause, count))
        if asked is not None and work.complete():
            work.write()
            made.clauses[number] = replace(clause, body=(*asked, *clause.body[count:]))


def _wanted(clause: Clause, count: int) -> list[Slot]:
    """The variables that the rest of a clause wants from what says what is asked for."""
    rest = [slot for literal in clause.body[count:] for slot in slots_of(literal)]
    return [*rest, *(arg for arg in clause.args if isinstance(arg, Slot))]


class _Domains:
    """The domains that one clause needs, before they are written into the program."""

    def __init__(self, made: Made, keeping: frozenset[str], stratum: frozenset[str]) -> None:
        self.made = made
        self.keeping = keeping
        self.stratum = stratum
        self.answers = _depending(made, stratum)
        self.columns: dict[tuple[str, int], str] = {}
        self.clauses: list[Clause] = []
        self.hidden: list[Relation] = []

    def above(self, body: Iterable[Literal], wanted: Iterable[Slot]) -> tuple[Literal, ...] | None:
        """A positive body with the domains of columns for its recursive atoms; None: has none."""
        found: list[Literal] = []
        for literal in body:
            if isinstance(literal, Absent):
                continue
            if not isinstance(literal, Match) or literal.relation not in self.stratum:
                if not isinstance(literal, Match) or literal.relation not in self.answers:
                    found.append(literal)
                continue
            if literal.relation in self.keeping:
                return None
            for column, arg in enumerate(literal.args):
                if isinstance(arg, Slot):
                    found.append(Match(self.domain(literal.relation, column), (arg,)))
        ran, _ = evaluable(found)
        return connected(wanted, ran)

    def domain(self, relation: str, column: int) -> str:
        """The name of a column's domain; its clauses come with `complete`."""
        key = (relation, column)
        if key not in self.columns:
            described = next(r for r in self.made.relations if r.name == relation)
            number = 1 + len(self.hidden) + sum(r.hidden for r in self.made.relations)
            self.hidden.append(Relation(f"~{number}", (described.types[column],), hidden=True))
            self.columns[key] = self.hidden[-1].name
        return self.columns[key]

    def complete(self) -> bool:
        """Make the clauses of all domains; False where one might not end."""
        done = 0
        while done < len(self.columns):
            (relation, column), name = list(self.columns.items())[done]
            done += 1
            for clause in [one for one in self.made.clauses if one.head == relation]:
                arg = clause.args[column]
                body = self.above(clause.body, (arg,) if isinstance(arg, Slot) else ())
                if body is None or (isinstance(arg, Slot) and not self.ends(arg, body)):
                    return False
                self.clauses.append(Clause(name, (arg,), body, clause.rule))
        return True

    def ends(self, value: Slot, body: tuple[Literal, ...]) -> bool:
        """Whether a column's values stay finite: taken over, or one step on within a bound."""
        if value not in evaluable(body)[1]:
            return False
        domains = set(self.columns.values())
        fed: set[Argument] = set()
        fixed: set[Argument] = set()
        for literal in body:
            if isinstance(literal, Match):
                (fed if literal.relation in domains else fixed).update(slots_of(literal))
        if value in fed or value in fixed:
            return True
        equal = [one for one in body if isinstance(one, Compare) and one.op == "="]
        for test in equal:
            if value in (test.left, test.right):
                other = test.right if test.left == value else test.left
                return isinstance(other, Code) or other in fed or other in fixed
        fixed -= fed
        step = next(one for one in body if isinstance(one, Apply) and one.target == value)
        if all(isinstance(arg, Code) or arg in fixed for arg in step.args):
            return True
        if len(step.args) != 2 or step.args[0] not in fed or not isinstance(step.args[1], Code):
            return False
        size = step.args[1].value
        if not isinstance(size, int) or size <= 0:
            return False
        ways = {"+": _UP, "-": _DOWN}.get(step.functor)
        moving: set[Argument] = {step.args[0], value}
        return step.functor == "%" or (
            ways is not None and any(_bounds(one, moving, ways, fixed) for one in body)
        )

    def write(self) -> None:
        """Enter the domains, and set given rows apart where a domain must know them."""
        made = self.made
        made.relations.extend(self.hidden)
        made.clauses.extend(self.clauses)
        for (relation, column), name in self.columns.items():
            place = next(i for i, r in enumerate(made.relations) if r.name == relation)
            described = made.relations[place]
            row = tuple(Slot(f"c{number}") for number in range(len(described.types)))
            if not described.entry:
                entry = made.hide(described.types)
                made.relations[place] = described = replace(described, entry=entry)
                made.clauses.append(Clause(relation, row, (Match(entry, row),), -1))
            made.clauses.append(Clause(name, (row[column],), (Match(described.entry, row),), -1))


def _depending(made: Made, stratum: frozenset[str]) -> frozenset[str]:
    """The hidden relations that need a stratum: what answers its negations and aggregates."""
    readers: dict[str, list[str]] = {}
    for clause in made.clauses:
        for literal in clause.body:
            if isinstance(literal, Match | Absent):
                readers.setdefault(literal.relation, []).append(clause.head)
    for fold in made.folds:
        readers.setdefault(fold.source, []).extend(filter(None, (fold.relation, fold.present)))
    hidden = {relation.name for relation in made.relations if relation.hidden}
    found: set[str] = set()
    queue = list(stratum)
    while queue:
        for name in readers.get(queue.pop(), ()):
            if name in hidden and name not in found:
                found.add(name)
                queue.append(name)
    return frozenset(found)


def _bounds(
    test: Literal, moving: set[Argument], ways: frozenset[str], fixed: set[Argument]
) -> bool:
    """Whether a test holds what moves below (or above) something that does not move."""
    if not isinstance(test, Compare):
        return False
    turned = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
    for one, other, op in (
        (test.left, test.right, test.op),
        (test.right, test.left, turned.get(test.op, "")),
    ):
        if one in moving and op in ways and (isinstance(other, Code) or other in fixed):
            return True
    return False
