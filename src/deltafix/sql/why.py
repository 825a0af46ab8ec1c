"""EXPLAIN WHY and EXPLAIN WHY NOT: proofs of rows in terms of the SQL that they follow from.

The engine finds a proof, or edits that would give the row (`Database.why`, `why_not`). Here rows
become rows of SQL, the relations that a query was cut into give way to what they follow from, and
edits become statements. Invariant: every row that is named is one of a table or view, as SELECT
shows it; every advice is a list of statements that the connection takes, after which the row is
there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from deltafix.diagnostics import plural
from deltafix.engine.connect import connect
from deltafix.engine.literals import read_ground
from deltafix.errors import FactError, ProgramError
from deltafix.facts.schema import Row
from deltafix.provenance.proof import Proof, Step
from deltafix.provenance.state import Edit
from deltafix.provenance.why_not import WhyNot
from deltafix.rules.ast import And, Atom, Comparison, Formula, Not, Or
from deltafix.rules.show import show_rule
from deltafix.rules.terms import Aggregate, Call, Const, Term, Var
from deltafix.sql.builder import Relation
from deltafix.sql.connectives import conditions
from deltafix.sql.parameters import equalities, written
from deltafix.sql.query import unwrapped
from deltafix.sql.reading import fixed, matching, source_of
from deltafix.sql.relaxed import Relaxed
from deltafix.sql.tables import ForeignKey
from deltafix.sql.text import Statement, exp, shown_name
from deltafix.sql.types import SqlValue, decode, shown

if TYPE_CHECKING:
    from deltafix.engine.database import Database
    from deltafix.sql.connection import Connection

__all__ = ["Reason", "why", "why_not"]

_ASKED: Final = "~asked"
"""The relation of a view's rows without what tells duplicates apart; no name in a text of SQL."""

_AGGREGATED: Final = re.compile(r"[a-z_]+ over (?:more than )?\d+ rows?\b")
"""What a proof says of an aggregate; its other tests are the conditions of the query."""

_FIRST: Final = re.compile(r"@@first_0_(\d+)_")
"""The aggregate of a LIMIT without OFFSET, and of DISTINCT ON (`sql.ranking`)."""

_NO_VALUE: Final = object()
_Bindings = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Reason:
    """Why a row is in a table or view.

    Attributes:
        relation: the table or view.
        row: its values by column, as SELECT shows them.
        because: the rows it follows from in one proof; none for a row of a table. A row that
            several follow from is one object.
        notes: what was aggregated, and what is not there.
        dialect: in which values are written.
    """

    relation: str
    row: Mapping[str, SqlValue]
    because: tuple[Reason, ...] = ()
    notes: tuple[str, ...] = ()
    dialect: str = "duckdb"

    def lines(self) -> Iterator[str]:
        """The reason as an indented tree; what was shown before is not shown again.

        A line has line breaks where a text of its row has some.
        """
        seen: set[Reason] = set()
        stack: list[tuple[int, Reason | str]] = [(0, self)]
        while stack:
            depth, entry = stack.pop()
            indent = "  " * depth
            if isinstance(entry, str):
                yield f"{indent}{entry}"
                continue
            below: tuple[Reason | str, ...] = (*entry.because, *entry.notes)
            again = " (as above)" if entry in seen and below else ""
            yield f"{indent}{entry.relation}: {equalities(entry.row, entry.dialect)}{again}"
            if not again:
                seen.add(entry)
                stack += [(depth + 1, part) for part in reversed(below)]

    def __str__(self) -> str:
        return "\n".join(self.lines())


def why(connection: Connection, statement: Statement) -> Iterator[Reason]:
    """A proof for each row of a SELECT * of one table or view.

    Raises SqlRefusedError for another query, ProofBoundError for a proof of over 10,000 rows.
    """
    source, where = _asked(statement)
    rows = sorted(matching(connection, statement, source, where), key=repr)
    terms = _Terms(connection)
    for row in rows:
        yield terms.reason(connection.engine.why(source.name, row))


def why_not(connection: Connection, statement: Statement) -> Iterator[str]:
    """Why no row has the values that a SELECT asks for, and statements after which one has.

    Where not every column has a value, only what one condition keeps out, and the group. The
    view's query is evaluated once for each of its conditions; for a view with duplicates all views
    are once more. Raises SqlRefusedError for other conditions than values of columns,
    SqlProgrammingError where the row is there.
    """
    source, where = _asked(statement)
    rows = matching(connection, statement, source, where)
    relation = connection.catalog.relations[source.name]
    never = _never_null(relation, where)
    if never is not None:
        name = shown_name(never, connection.dialect)
        yield f"{relation.name} has no row with {name} IS NULL"
        yield f"  {name} is never NULL there"
        return
    values = fixed(statement, relation, where)
    is_view = relation.name in connection.catalog.views
    missing = [
        column.name for position, column in enumerate(relation.columns) if position not in values
    ]
    if len(conditions(where)) > len(values) or (missing and not (values and is_view)):
        what = f"WHY NOT without a value for {missing[0]!r}" if missing else "WHY NOT of this"
        raise statement.refused(what, source, f"write {_every(connection, relation)}")
    if rows:
        raise statement.wrong("the row is there", source, "EXPLAIN WHY says why")
    row = tuple(values.get(position, _NO_VALUE) for position in range(len(relation.columns)))
    terms = _Terms(connection)
    yield f"{relation.name} has no row with {terms.said(relation, row)}"
    if not is_view:
        yield "  it is a table: INSERT the row"
        return
    explanation = None if missing else _engine_why_not(connection, relation, row)
    relaxed = Relaxed(connection, statement, relation, terms.known(relation, row))
    stops, dropped = [*relaxed.stops()], [*relaxed.dropped()]
    told: set[str] = set()
    if explanation is not None:
        unfit = _unfit(connection, relation)
        for part in dict.fromkeys(terms.tried(explanation, unfit, "  ")):
            if not (stops or dropped) or not (
                part[0].strip() == unfit or part[0].endswith(" that fits")
            ):
                yield from part
                told.add(part[0].strip().removeprefix("there is ").replace(" with ", " has ", 1))
    lines = [f"  {line}" for line in (*dropped, *relaxed.without_one(), *relaxed.group())]
    yield from (f"  {line}" for line in stops if line not in told)
    yield from lines
    if explanation is not None:
        if not (explanation.attempts or lines):
            yield "  its query has no row, whatever rows its tables have"
        for advice in dict.fromkeys(terms.advice(explanation.suggestions)):
            yield f"it would have one after: {advice}"
    elif not (stops or lines):
        yield f"  no condition alone keeps it out; to hear more, {_every(connection, relation)}"


def _never_null(relation: Relation, where: exp.Expr | None) -> str | None:
    """The name of a column that a condition wants to be NULL, and that is so in no row."""
    columns = {column.name for column in relation.columns if not column.nullable}
    names = (
        part.this.name
        for part in conditions(where)
        if isinstance(part, exp.Is)
        and isinstance(part.expression, exp.Null)
        and isinstance(part.this, exp.Column)
    )
    return next((name for name in names if name in columns), None)


def _unfit(connection: Connection, relation: Relation) -> str:
    """What is said of rows that do not fit together: by which clauses of the view's query."""
    node: Any = connection.catalog.views[relation.name].builder.statement.node
    has = {
        "ON": any(join.args.get("on") for join in node.find_all(exp.Join)),
        "USING": any(join.args.get("using") for join in node.find_all(exp.Join)),
        "WHERE": node.find(exp.Where) is not None,
        "HAVING": node.find(exp.Having) is not None,
        "QUALIFY": node.find(exp.Qualify) is not None,
    }
    clauses = ", ".join(name for name, there in has.items() if there)
    return f"no such rows fit together ({clauses})" if clauses else "no rows give these values"


def _every(connection: Connection, relation: Relation) -> str:
    """How each column is given a value."""
    names = (shown_name(column.name, connection.dialect) for column in relation.columns)
    return f"WHERE {' AND '.join(f'{name} = ...' for name in names)}, with IS NULL for NULL"


def _engine_why_not(connection: Connection, relation: Relation, row: Row) -> WhyNot:
    """What the engine says of a row of a view."""
    if not relation.hidden:
        return connection.engine.why_not(relation.name, row)
    with _as_set(connection, relation) as db:
        return db.why_not(_ASKED, row)


def _asked(statement: Statement) -> tuple[exp.Table, exp.Expr | None]:
    """The table or view of a SELECT *, and its condition."""
    node: Any = unwrapped(statement.node)
    source = source_of(node)
    if source is None or node.selects != [exp.Star()]:
        what, clause = _beside(node)
        way_out = (
            "write SELECT * FROM view WHERE ...; any query can be made a view: CREATE VIEW w AS "
            "SELECT ..., and then SELECT * FROM w"
        )
        raise statement.refused(f"WHY of {what}", clause, way_out)
    where = node.args.get("where")
    return source, None if where is None else where.this


def _beside(node: exp.Expr) -> tuple[str, exp.Expr]:
    """What a statement is or has beside SELECT * FROM one table or view WHERE, and where."""
    if not isinstance(node, exp.Select):
        return f"{node.key.upper()}, which is no SELECT,", node
    for key, value in node.args.items():
        if value and key not in ("from_", "expressions", "where"):
            clause = value[0] if isinstance(value, list) else value
            name = key.strip("_").upper()
            name = {"JOINS": "JOIN", "GROUP": "GROUP BY", "ORDER": "ORDER BY"}.get(name, name)
            return f"a query with {name}", clause if isinstance(clause, exp.Expr) else node
    if node.selects != [exp.Star()]:
        return "other columns than *", node.selects[0]
    source = node.args.get("from_")
    return (
        ("a SELECT without FROM", node)
        if source is None
        else ("FROM what is no name of a view", source.this)
    )


@contextmanager
def _as_set(connection: Connection, relation: Relation) -> Iterator[Database]:
    """A database with the tables' rows, all views, and a view's rows without duplicates."""
    program = connection.catalog.program()
    width = len(relation.columns)
    asked = Relation(_ASKED, relation.columns, (), tuple(range(width)))
    rules = [
        replace(rule, heads=(Atom(_ASKED, rule.heads[0].args[:width]),))
        for rule in program.rules
        if rule.heads[0].relation == relation.name
    ]
    whole = replace(
        program,
        relations=(*program.relations, asked.declaration),
        rules=(*program.rules, *rules),
    )
    functions, reducers = connection.catalog.functions(), connection.catalog.reducers
    with connect(whole, functors=functions, reducers=reducers, **connection.bounds) as db:
        with db.transaction() as tx:
            for name in connection.catalog.tables:
                connection.copy(name, tx)
        yield db


class _Terms:
    """The tables and views of a connection, for words about the engine's rows."""

    def __init__(self, connection: Connection) -> None:
        self._catalog = connection.catalog
        self._dialect = connection.dialect
        self._rows_with = connection.rows_with
        self._lookup = connection.rows_like
        self._relations = connection.catalog.relations
        program = connection.catalog.program()
        self._rules = {show_rule(rule): rule for rule in program.rules}
        self._schemas = connection.engine.schemas
        self._of_rules = {
            relation.name
            for view in connection.catalog.views.values()
            if view.is_rules
            for relation in view.builder.relations
        }
        self._built = {
            relation.name: relation
            for view in connection.catalog.views.values()
            for relation in view.builder.relations
        }
        self._reads: dict[str, set[str]] = {}
        for rule in program.rules:
            self._reads.setdefault(rule.heads[0].relation, set()).update(_atoms(rule.body))

    def known(self, relation: Relation, row: Sequence[Any]) -> dict[str, SqlValue]:
        """The known ones of a row's values by column, without those of hidden columns."""
        return {
            column.name: decode(value, column)
            for column, value in zip(relation.columns, row, strict=False)
            if value is not _NO_VALUE
        }

    def said(self, relation: Relation, row: Sequence[Any]) -> str:
        """What is known of a row, as a condition."""
        return equalities(self.known(relation, row), self._dialect)

    def reason(self, proof: Proof) -> Reason:
        """A proof's rows of tables and views. O(steps)."""
        parts: list[tuple[tuple[Reason, ...], tuple[str, ...]]] = []
        for step in reversed(proof.steps):  # premises stand behind their users
            because: dict[Reason, None] = {}
            notes = dict.fromkeys(self._absent(step, proof))
            # The aggregate's value is the row's own column; here it would be the engine's.
            notes.update((m[0], None) for m in map(_AGGREGATED.match, step.tests) if m)
            premises, taken = self._first(step, proof)
            notes.update(dict.fromkeys(taken))
            for index in premises:
                reasons, remarks = parts[len(proof.steps) - 1 - index]
                because.update(dict.fromkeys(reasons))
                notes.update(dict.fromkeys(remarks))
            part = (tuple(because), tuple(notes))
            relation = self._relations.get(step.relation)
            if relation is not None:
                row = {name: shown(value) for name, value in self.known(relation, step.row).items()}
                part = ((Reason(step.relation, row, *part, self._dialect),), ())
            parts.append(part)
        ((reason,), _) = parts[-1]
        return reason

    def _first(self, step: Step, proof: Proof) -> tuple[Sequence[int], Sequence[str]]:
        """The premises of a step, and of a LIMIT's or DISTINCT ON's what of them was taken.

        Of the rows that were put in order the one that the step is about is enough: fewer of them
        would leave it among the first.
        """
        rule = self._rules.get(step.text)
        body = () if rule is None else _conjuncts(rule.body)
        for part in (part for part in body if isinstance(part, Comparison)):
            record, aggregate = part.left, part.right
            if (
                rule is None
                or not isinstance(aggregate, Aggregate)
                or not isinstance(aggregate.body, Atom)
            ):
                continue
            first = _FIRST.match(aggregate.op)
            if first is None:
                continue
            known: _Bindings = {}
            _bind_all(rule.heads[0].args, step.row, known)
            row = [_value(arg, known) for arg in record.args] if isinstance(record, Call) else []
            rows = [n for n in step.premises if proof.steps[n].relation == aggregate.body.relation]
            mine = {n for n in rows if _fits(row, proof.steps[n].row[-len(row) :])}
            if mine:
                note = f"the first {first[1]} in the order of {plural(len(rows), 'row')} are taken"
                return [n for n in step.premises if n in mine or n not in rows], [note]
        return step.premises, []

    def _absent(self, step: Step, proof: Proof) -> Iterator[str]:
        """What a step's rule negates: which rows are not there."""
        rule = self._rules.get(step.text)
        if rule is None or not step.absent:
            return
        body = _conjuncts(rule.body)
        known: _Bindings = {}
        _bind_all(rule.heads[0].args, step.row, known)
        premises = [proof.steps[index] for index in step.premises]
        for atom, premise in zip((a for a in body if isinstance(a, Atom)), premises, strict=False):
            if atom.relation != premise.relation:
                break
            _bind_all(atom.args, premise.row, known)
        _solve(body, known)
        called: dict[str, str] = {}
        for atom in (part for part in body if isinstance(part, Atom)):
            relation = self._built.get(atom.relation)
            for term, column in zip(atom.args, relation.columns if relation else (), strict=False):
                if isinstance(term, Var):
                    called.setdefault(term.name, column.name)
        for part in chain(body, *(_only_side(part, known) for part in body)):
            if not isinstance(part, Not):
                continue
            for disjunct in part.body.parts if isinstance(part.body, Or) else (part.body,):
                inner = dict(known)
                _solve(_conjuncts(disjunct), inner)
                if not any(_holds(test, inner) is False for test in _conjuncts(disjunct)):
                    yield self._negated(disjunct, inner, called)

    def _negated(self, body: Formula, known: _Bindings, called: Mapping[str, str]) -> str:
        """That there is no row, by its values, and whether they are all that it is asked for.

        Columns of what a query was cut into have the names by which variables are `called`.
        """
        parts = _conjuncts(body)
        atoms = [part for part in parts if isinstance(part, Atom)]
        if len(atoms) == 1 and atoms[0].relation in self._relations:
            relation = self._relations[atoms[0].relation]
            row = [_value(arg, known) for arg in atoms[0].args]
            condition = self.said(relation, row)
            fits = all(part is atoms[0] or _holds(part, known) for part in parts)
            rest = "" if fits else " that fits"
            condition = f" with {condition}" if condition else ""
            return f"no row of {relation.name}{condition}{rest}"
        if len(atoms) == 1 and len(parts) - _always(parts) == 1:
            (atom,) = atoms
            inner = self._built.get(atom.relation)
            values = {
                called[term.name]: decode(known[term.name], column)
                for term, column in zip(atom.args, inner.columns if inner else (), strict=False)
                if isinstance(term, Var) and term.name in known and term.name in called
            }
            if values:
                condition = equalities(values, self._dialect)
                return f"no row of {self._behind({atom.relation})} with {condition}"
        behind = self._behind(_atoms(body))
        return f"no rows of {behind} fit together" if len(atoms) > 1 else f"no row of {behind}"

    def _behind(self, relations: set[str]) -> str:
        """The tables and views that relations of a query rest on."""
        named: set[str] = set()
        seen, stack = set(relations), list(relations)
        while stack:
            name = stack.pop()
            if name in self._relations:
                named.add(name)
                continue
            below = self._reads.get(name, set()) - seen
            seen |= below
            stack += below
        if not named:
            return "a query that reads no table"
        *names, last = sorted(named)
        listed = f"{', '.join(names)} and {last}" if names else last
        return listed if named == relations else f"a query over {listed}"

    def tried(self, explanation: WhyNot, unfit: str, indent: str) -> Iterator[tuple[str, ...]]:
        """How far each way to a row gets; `unfit` is said where rows are there and do not fit.

        Of a view of rules it is what the engine says of these, in several lines.
        """
        if explanation.relation in self._of_rules:
            yield tuple(explanation.tried(indent))
            return
        for attempt in explanation.attempts:
            for text in attempt.held:
                if text.partition("(")[0] in self._relations:
                    yield (f"{indent}there is a {self._row(text)}",)
            name = attempt.failed.partition("(")[0]
            if attempt.below is not None and name not in self._relations:
                yield from self.tried(attempt.below, unfit, indent)
            elif attempt.failed.startswith(("not ", "!")):
                yield (f"{indent}there is a row that NOT, EXCEPT or an outer join leaves out",)
            elif name in self._schemas:
                yield (f"{indent}there is no {self._row(attempt.failed)}",)
                if attempt.below is not None and name in self._of_rules:
                    yield from self.tried(attempt.below, unfit, f"{indent}  ")
            else:
                yield (f"{indent}{unfit}",)

    def _row(self, text: str) -> str:
        """A fact of a table or view as a row of SQL; without values where it is a pattern."""
        name = text.partition("(")[0]
        if name not in self._relations:
            return f"row of {self._behind({name})}"
        try:
            _, row = read_ground(text, self._schemas)
        except (FactError, ProgramError):
            return f"row of {name} that fits"
        return f"row of {name} with {self.said(self._relations[name], row)}"

    def _is_lost(self, foreign: ForeignKey, row: Row, gone: set[tuple[str, Row]]) -> bool:
        """Whether a row would refer to none."""
        value = foreign.of(row)
        referred = self._rows_with(self._catalog.tables[foreign.table], foreign.key, [value])
        return None not in value and not any(
            (foreign.table, r) not in gone for r in referred.values()
        )

    def _is_referred_to(self, name: str, row: Row) -> bool:
        """Whether some row refers to one of a table."""
        for table, foreign in self._catalog.referring(name):
            key = foreign.key.of(row)
            if None not in key:
                fixed = dict(zip(foreign.positions, foreign.referring(key), strict=True))
                if any(True for _ in self._lookup(table.relation, fixed)):
                    return True
        return False

    def advice(self, suggestions: Sequence[Sequence[Edit]]) -> Iterator[str]:
        """Suggestions as statements; those that a key of a table refuses are left out.

        So are those of what has no rules, as a view that never has a row, and is no table; and rows
        of a table without a key, since an INSERT has not the number that they are told apart by.
        """
        for edits in suggestions:
            if any(name not in self._catalog.tables for _, name, _ in edits):
                continue
            gone = {(name, row) for sign, name, row in edits if sign < 0}
            parts = []
            for sign, name, row in sorted(edits, key=lambda edit: edit[0]):
                relation, table = self._relations[name], self._catalog.tables[name]
                known, written_name = self.known(relation, row), shown_name(name, self._dialect)
                if sign < 0:
                    if self._is_referred_to(name, row):
                        break
                    where = equalities(known, self._dialect)
                    parts.append(f"DELETE FROM {written_name} WHERE {where}")  # noqa: S608  shown
                    continue
                if relation.hidden:
                    break
                clashes = (
                    other
                    for key in table.keys
                    for other in self._rows_with(table, key, [key.of(row)]).values()
                )
                if any((name, other) not in gone for other in clashes):
                    break
                if any(check.compute(list(known.values())) is False for check in table.checks):
                    break
                if any(self._is_lost(foreign, row, gone) for foreign in table.foreign):
                    break
                dialect = self._dialect
                values = ", ".join(written(value, dialect).sql(dialect) for value in known.values())
                parts.append(f"INSERT INTO {written_name} VALUES ({values})")  # noqa: S608  shown
            else:
                yield "; ".join(parts)


def _atoms(formula: Formula) -> set[str]:
    """The relations that a formula names."""
    if isinstance(formula, Atom):
        return {formula.relation}
    if isinstance(formula, Not):
        return _atoms(formula.body)
    if isinstance(formula, And | Or):
        return set().union(*map(_atoms, formula.parts))
    return set()


def _conjuncts(formula: Formula) -> tuple[Formula, ...]:
    return formula.parts if isinstance(formula, And) else (formula,)


def _value(term: Term, known: _Bindings) -> Any:
    """A term's value, or `_NO_VALUE`."""
    if isinstance(term, Const):
        return term.value
    if isinstance(term, Var):
        return known.get(term.name, _NO_VALUE)
    if isinstance(term, Call) and term.functor.startswith("["):
        values = tuple(_value(arg, known) for arg in term.args)
        return _NO_VALUE if _NO_VALUE in values else values
    return _NO_VALUE


def _holds(part: Formula, known: _Bindings) -> bool | None:
    """Whether an equality or its contrary holds of what is known; None where that does not say."""
    if not isinstance(part, Comparison) or part.op not in ("=", "!="):
        return None
    left, right = _value(part.left, known), _value(part.right, known)
    return None if _NO_VALUE in (left, right) else (left == right) is (part.op == "=")


def _only_side(part: Formula, known: _Bindings) -> tuple[Formula, ...]:
    """The side of an OR that what is known leaves: of a LEFT JOIN that for rows with no match.

    Which is which says the identity of the right side's row: NULL, or a value (`[x]`).
    """

    def fails(test: Formula) -> bool:
        if not isinstance(test, Comparison):
            return False
        is_value = isinstance(test.right, Call) and test.right.functor.startswith("[")
        is_null = is_value and test.op == "=" and _value(test.left, known) is None
        return is_null or _holds(test, known) is False

    sides = [_conjuncts(side) for side in part.parts] if isinstance(part, Or) else []
    fit = [side for side in sides if not any(map(fails, side))]
    return fit[0] if len(fit) == 1 else ()


def _always(parts: Sequence[Formula]) -> int:
    """How many of these are constants that are equal."""
    return sum(_holds(part, {}) is True for part in parts)


def _fits(pattern: Sequence[Any], row: Sequence[Any]) -> bool:
    """Whether a row has the values of a pattern that are known."""
    return all(
        expected is _NO_VALUE or expected == value
        for expected, value in zip(pattern, row, strict=True)
    )


def _bind_all(terms: Sequence[Term], values: Sequence[Any], known: _Bindings) -> None:
    for term, value in zip(terms, values, strict=True):
        if isinstance(term, Var):
            known.setdefault(term.name, value)
        elif isinstance(term, Call) and term.functor.startswith("[") and value is not None:
            _bind_all(term.args, value, known)


def _solve(parts: Sequence[Formula], known: _Bindings) -> None:
    """Follow equalities from what is known."""
    before = -1
    while before != len(known):
        before = len(known)
        for part in parts:
            if isinstance(part, Comparison) and part.op == "=":
                for term, other in ((part.left, part.right), (part.right, part.left)):
                    value = _value(other, known)
                    if value is not _NO_VALUE:
                        _bind_all([term], [value], known)
