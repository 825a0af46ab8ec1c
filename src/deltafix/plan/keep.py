"""What a relation keeps of its rows, outside recursion, in plain clauses.

The rows derived for such a relation `r`, and those given to it, enter a hidden relation; clauses
say which of them are in `r`:

    eqrel           the symmetric and transitive closure of the hidden rows
    choice-domain   no row of the same key comes before it, by columns, one domain after another
    <min>, <max>    for each such column no row of the same key has a better value
    subsumption     no other row dominates it

Where `r` needs itself, and for lattices of user functors, the relation carries a `Merge` instead
and an executor does it. Invariant: given rows count like derived ones (`Relation.entry`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from deltafix.facts.values import BaseType
from deltafix.plan.clause import (
    Absent,
    Argument,
    Choice,
    Clause,
    Code,
    Compare,
    Dominance,
    Lattice,
    LatticeColumn,
    Literal,
    Match,
    Merge,
    Slot,
    Subsumption,
)
from deltafix.plan.flatten import Draft, Flattening
from deltafix.rules.ast import Program, RelationDecl
from deltafix.rules.check import CheckedProgram
from deltafix.rules.terms import Call, constant
from deltafix.rules.walk import alternatives, occurrences


def keep(checked: CheckedProgram, draft: Draft) -> None:
    """Rewrite the relations of a program that join, drop or close their rows."""
    program = checked.program
    recursive = {name for s in checked.strata if s.recursive for name in s.relations}
    for declared in program.relations:
        way = program.keeps(declared.name)
        if not way:
            continue
        work = _Keeping(checked, draft, declared)
        if way == "eqrel":
            work.closed()
            continue
        merge = work.merge(way)
        if declared.name in recursive or _whole(merge):
            work.replace(merge=merge)
        elif isinstance(merge, Choice):
            work.chosen(merge)
        elif isinstance(merge, Lattice):
            work.best(merge)
        else:
            work.undominated(merge)


def _whole(merge: Merge) -> bool:
    """Whether clauses cannot say it: the rows of a key are joined by the user's function."""
    return isinstance(merge, Lattice) and any(
        column.join not in ("min", "max") for column in merge.columns
    )


class _Keeping:
    """One relation; `rows` are variables for one of its rows, `other` for another one."""

    def __init__(self, checked: CheckedProgram, draft: Draft, declared: RelationDecl) -> None:
        self.checked = checked
        self.program: Program = checked.program
        self.draft = draft
        self.declared = declared
        self.name = declared.name
        self.types = self.program.column_types(declared.name)
        names = [column.name for column in declared.attributes]
        self.row = tuple(Slot(name) for name in names)
        self.other = tuple(Slot(f"{name}'") for name in names)
        mine = [n for n, r in enumerate(checked.rules) for h in r.rule.heads if self.is_mine(h)]
        self.rule = mine[0] if mine else 0
        self.recursion = next(
            (frozenset(s.relations) for s in checked.strata if declared.name in s.relations),
            frozenset(),
        )
        # Clauses and folds of what the orders negate or aggregate, by number.
        self.ordering: tuple[list[int], list[int]] = ([], [])

    def is_mine(self, head: object) -> bool:
        return getattr(head, "relation", None) == self.name

    def replace(self, **parts: object) -> None:
        """Change the relation's description."""
        index = next(i for i, r in enumerate(self.draft.relations) if r.name == self.name)
        self.draft.relations[index] = replace(self.draft.relations[index], **parts)  # type: ignore[arg-type]

    def raw(self) -> str:
        """The hidden relation of all rows; the clauses made so far are now for that."""
        hidden = self.draft.hide(self.types)
        self.replace(entry=hidden)
        self.draft.clauses[:] = [
            replace(clause, head=hidden) if clause.head == self.name else clause
            for clause in self.draft.clauses
        ]
        # An order that looks at its own relation sees the rows as they were derived.
        clauses, folds = self.ordering
        for number in clauses:
            clause = self.draft.clauses[number]
            self.draft.clauses[number] = replace(clause, body=self.reading(hidden, clause.body))
        for number in folds:
            if self.draft.folds[number].source == self.name:
                self.draft.folds[number] = replace(self.draft.folds[number], source=hidden)
        return hidden

    def reading(self, hidden: str, body: tuple[Literal, ...]) -> tuple[Literal, ...]:
        """A body that reads all rows where it would read the relation."""
        return tuple(
            replace(literal, relation=hidden)
            if isinstance(literal, (Match, Absent)) and literal.relation == self.name
            else literal
            for literal in body
        )

    def add(self, head: str, args: tuple[Argument, ...], *body: Literal) -> None:
        self.draft.clauses.append(Clause(head, args, body, self.rule))

    def closed(self) -> None:
        """The least equivalence relation that contains the rows."""
        hidden = self.raw()
        (x, y), z = self.row, Slot("z'")
        self.add(self.name, (x, y), Match(hidden, (x, y)))
        self.add(self.name, (y, x), Match(hidden, (x, y)))
        self.add(self.name, (x, z), Match(self.name, (x, y)), Match(hidden, (y, z)))
        self.add(self.name, (x, z), Match(self.name, (x, y)), Match(hidden, (z, y)))

    def merge(self, way: str) -> Merge:
        """The description of what the relation keeps."""
        names = [column.name for column in self.declared.attributes]
        if way == "choice-domain":
            return Choice(tuple(tuple(map(names.index, key)) for key in self.declared.choices))
        if way == "lattice columns":
            return Lattice(tuple(map(self.joined, self.declared.joined)))
        return Subsumption(tuple(self.orders()))

    def joined(self, column: int) -> LatticeColumn:
        attribute = self.declared.attributes[column]
        if attribute.join != "<>":
            return LatticeColumn(column, attribute.join)
        kind = self.program.kind(attribute.type)
        lattice = next(x for x in self.program.lattices if self.program.kind(x.type) == kind)
        join, least = lattice.operation("Lub"), lattice.operation("Bottom")
        assert isinstance(join, Call)  # noqa: S101  checked: a functor, and a constant
        assert least is not None  # noqa: S101
        return LatticeColumn(column, join.functor, constant(least))

    def orders(self) -> Iterator[Dominance]:
        """One dominance per alternative of each order's body."""
        for order, typed in zip(self.program.orders, self.checked.orders, strict=True):
            if order.less.relation != self.name:
                continue
            for case in alternatives(typed.rule.body):
                less, more, *rest = case
                work = Flattening(
                    self.program, typed, (self.rule, 0), self.draft, occurrences(case)
                )
                less_args, more_args = (
                    self.arguments(work, atom, self.types) for atom in (less, more)
                )
                work.recursion = self.recursion
                work.context = (Match(self.name, less_args), Match(self.name, more_args))
                begin, first = len(self.draft.clauses), len(self.draft.folds)
                for _ in work.bodies(tuple(rest)):
                    yield Dominance(less_args, more_args, tuple(work.body), self.rule)
                self.ordering[0].extend(range(begin, len(self.draft.clauses)))
                self.ordering[1].extend(range(first, len(self.draft.folds)))

    def arguments(
        self, work: Flattening, atom: object, types: tuple[BaseType, ...]
    ) -> tuple[Argument, ...]:
        """The arguments of one of the two rows; `_` is a variable of its own."""
        columns = work.columns(atom)  # type: ignore[arg-type]  # the first two parts are atoms
        return tuple(
            work.fresh(kind) if arg is None else arg
            for arg, kind in zip(columns, types, strict=True)
        )

    def chosen(self, merge: Choice) -> None:
        """Per value of a key the least row by columns, one key after another."""
        rows = self.raw()
        for number, key in enumerate(merge.keys):
            beaten = self.draft.hide(self.types)
            rest = [column for column in range(len(self.types)) if column not in key]
            for first, column in enumerate(rest):
                other = self.sharing((*key, *rest[:first]))
                before = Compare("<", self.types[column], self.other[column], self.row[column])
                self.add(beaten, self.row, Match(rows, self.row), Match(rows, other), before)
            last = number == len(merge.keys) - 1
            kept = self.name if last else self.draft.hide(self.types)
            self.add(kept, self.row, Match(rows, self.row), Absent(beaten, self.row))
            rows = kept

    def sharing(self, same: tuple[int, ...]) -> tuple[Slot, ...]:
        """Variables for a second row that has some columns of the first."""
        return tuple(
            self.row[column] if column in same else self.other[column]
            for column in range(len(self.types))
        )

    def best(self, merge: Lattice) -> None:
        """Per key the least or greatest value of each joined column."""
        rows = self.raw()
        key = merge.key(len(self.types))
        head = list(self.row)
        body: list[Literal] = []
        for joined in merge.columns:
            column = joined.column
            args = (*(self.row[k] for k in key), self.row[column])
            beaten = self.draft.hide((*(self.types[k] for k in key), self.types[column]))
            op = "<" if joined.join == "min" else ">"
            better = Compare(op, self.types[column], self.other[column], self.row[column])
            mine = self.only((*key, column), self.row)
            theirs = tuple(
                self.other[column] if c == column else self.row[c] if c in key else None
                for c in range(len(self.types))
            )
            self.add(beaten, args, Match(rows, mine), Match(rows, theirs), better)
            body += [Match(rows, mine), Absent(beaten, args)]
        self.add(self.name, tuple(head), *body)

    def only(self, columns: tuple[int, ...], row: tuple[Slot, ...]) -> tuple[Slot | None, ...]:
        """A row of which only some columns are looked at."""
        return tuple(slot if column in columns else None for column, slot in enumerate(row))

    def undominated(self, merge: Merge) -> None:
        """Rows that no other row dominates."""
        assert isinstance(merge, Subsumption)  # noqa: S101  the remaining kind
        rows = self.raw()
        beaten = self.draft.hide(self.types)
        for order in merge.orders:
            for column, kind in enumerate(self.types):
                less, more = order.less[column], order.more[column]
                if less == more or (isinstance(less, Code) and isinstance(more, Code)):
                    continue
                tests = self.reading(rows, order.body)
                body = (Match(rows, order.less), Match(rows, order.more), *tests)
                self.add(beaten, order.less, *body, Compare("!=", kind, less, more))
        self.add(self.name, self.row, Match(rows, self.row), Absent(beaten, self.row))
