"""The ways in which each node of a proof holds, found when asked.

Rules that the kernel runs are joined from their heads by `kernel.cone`; those of strata beyond
plain recursion in Python, over the rows that the stratum holds live. What a relation does with the
rows derived for it is said here once for each kind. Invariant: every way holds in the state asked
about, and every fact that holds has a way whose premises have lower ranks: `ranked` gives such
ways only, so following them never comes back.

Why a row stands in a relation that does more than keep what is derived for it follows from the
declaration and the row alone, so it is the same inside recursion and outside.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from deltafix.diagnostics import plural
from deltafix.engine.beyond.facts import Fact as Record
from deltafix.engine.beyond.joined import JoinedRows
from deltafix.facts.schema import Row
from deltafix.facts.values import Branch, row_order, show_value
from deltafix.plan.clause import Absent, Clause, Fold, Lattice, Literal, Match
from deltafix.provenance.covers import Cover
from deltafix.provenance.nodes import (
    GIVEN,
    Absence,
    Fact,
    Live,
    Node,
    OneOf,
    Proposal,
    Reached,
    Way,
)
from deltafix.provenance.rows import Bindings, LiveRows, Rows, unify, values_of
from deltafix.provenance.state import State
from deltafix.provenance.words import Words
from deltafix.rules.show import show_formula
from deltafix.rules.terms import Const, Term, Var
from deltafix.rules.walk import Leaf, map_formula

MAX_INPUTS: Final = 50
"""Rows of an aggregate that a proof shows; beyond, it says that there are more."""
_IN_PYTHON: Final = 10
"""What a way counts beside a row that the kernel looks at: bounds on work are bounds on time."""


class Ways:
    """The and-or graph of one state. Ways are kept: asking twice costs nothing."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.words = Words.of(state.db)
        self.rows = Rows(state, self.words)
        self._live_rows: dict[int | None, LiveRows] = {}
        self.work = 0
        self._known: dict[tuple[Node, bool], tuple[Way, ...]] = {}
        self._for_key: dict[tuple[str, Row], dict[Row, list[Way]]] = {}

    @property
    def looked_at(self) -> int:
        """Rows and derivations looked at so far."""
        return self.work + sum(rows.looked_at for rows in (self.rows, *self._live_rows.values()))

    def of(self, node: Node, *, ranked: bool = False) -> tuple[Way, ...]:
        """The ways in which a node that holds does so; empty for one that does not."""
        ways = self._known.get((node, ranked))
        if ways is None:
            ways = self._known[node, ranked] = tuple(self._find(node, ranked))
            self.work += _IN_PYTHON * (1 + len(ways))
        return ways

    def node(self, relation: str, row: Row) -> Node | None:
        """The node of a row of any relation, hidden ones included, if it holds."""
        if relation in self.words.strata or relation in self.words.pipelined:
            return Live(relation, row) if self._rows_of(relation).holds(relation, row) else None
        for name in self.words.copies.get(self.words.names[relation], (relation,)):
            fact = self.state.fact(name, row)
            if fact is not None:
                return fact
        return None

    def shown(self, node: Node) -> tuple[str, Row] | None:
        """The row that a node is for those who read; None for what is part of something else."""
        if isinstance(node, int):
            relation, row = self.row(node)
        elif isinstance(node, Live | Proposal):
            relation, row = node.relation, node.row
        else:
            return None
        if relation in self.words.hidden and relation not in self.words.given:
            return None
        return self.words.names[relation], row

    def row(self, node: Fact) -> tuple[str, Row]:
        """The relation and the row of a fact of the kernel."""
        searcher = self.state.searcher
        relation = searcher.names[node >> 32]
        return relation, self.words.row(relation, searcher.codes(node))

    def is_plain(self, node: Node) -> bool:
        """Whether the kernel alone can find a lowest proof of a node."""
        return isinstance(node, int) and self.state.searcher.names[node >> 32] in self.words.plain

    def _find(self, node: Node, ranked: bool) -> Iterator[Way]:
        if isinstance(node, int):
            yield from self._fact(node, ranked)
        elif isinstance(node, Live):
            yield from self._live(node, ranked)
        elif isinstance(node, Proposal):
            yield from self._derived_for_key(node).get(node.row, ())
        elif isinstance(node, Absence):
            yield from self._absence(node, ranked)
        elif isinstance(node, OneOf):
            yield from (Way((alternative,)) for alternative in node.nodes)
        else:
            yield from self._chain(node)

    # --- facts of the kernel ------------------------------------------------------------------

    def _fact(self, fact: Fact, ranked: bool) -> Iterator[Way]:
        relation = self.state.searcher.names[fact >> 32]
        fold = self.words.folds.get(relation)
        if fold is not None:
            yield from self._folded(self.row(fact)[1], fold)
        elif relation in self.words.entries:
            yield from self._kept(relation, self.row(fact)[1])
        else:
            copies = self.words.copies.get(self.words.names[relation])
            if copies is None:
                yield from self._derived(fact, ranked)
                return
            row = self.row(fact)[1]
            for copy in copies:
                same = self.state.fact(copy, row)
                if same is not None:
                    yield from self._derived(same, ranked)

    def _derived(self, fact: Fact, ranked: bool) -> Iterator[Way]:
        """The rules that derive a fact, after the row itself if it is given."""
        searcher = self.state.searcher
        if searcher.is_given(fact):
            yield GIVEN
            if ranked:
                return
        derivations = self.state.derivations(fact, ranked=ranked)
        self.work += searcher.work
        for derivation in derivations:
            if self.words.is_intake(derivation.clause):
                yield GIVEN
                continue
            clause = derivation.clause
            reasons = {
                clause.body[index]: self._canonical(part)
                for index, part in sorted(derivation.body.items())
                if index >= clause.asks
                if not self._says_nothing(searcher.names[part >> 32])
            }
            nodes, literals = tuple(reasons.values()), tuple(reasons)
            yield Way(nodes, self._cost(clause), clause, derivation, literals=literals)

    def _canonical(self, fact: Fact) -> Node:
        """The node of a fact, the same for the copies of a relation that demand makes."""
        relation = self.state.searcher.names[fact >> 32]
        if relation in self.words.strata or self.words.names[relation] in self.words.copies:
            node = self.node(*self.row(fact))
            assert node is not None  # noqa: S101  the fact holds
            return node
        return fact

    def _says_nothing(self, relation: str) -> bool:
        """Whether a premise is no reason: what is asked for, or a number of a range."""
        words = self.words
        return relation in words.demands or relation in words.domains or relation in words.ranges

    def _cost(self, clause: Clause) -> int:
        """1 for a rule with a body; 0 for a fact of the text and for a part of a rule."""
        hidden = clause.head in self.words.hidden and clause.head not in self.words.given
        return int(self.words.says_more(clause) and not hidden)

    def _folded(self, row: Row, fold: Fold) -> Iterator[Way]:
        """The rows that went into an aggregate; for min and max one that attains the value.

        Of many rows the one whose fields a reducer shows is among those that are named.
        """
        pattern: list[Any] = [...] * len(self.words.types[fold.source])
        for column, value in zip(fold.group, row, strict=False):
            pattern[column] = value
        value_row = row[len(fold.group) :]
        single = fold.is_extreme and fold.value is not None
        if single and fold.value is not None:
            pattern[fold.value] = value_row[0]
        rows = list(islice(self.rows.fitting(fold.source, tuple(pattern)), MAX_INPUTS + 1))
        if len(rows) > MAX_INPUTS and len(fold.fields) == len(value_row):
            for column, value in zip(fold.fields, value_row, strict=True):
                pattern[column] = value
            same = islice(self.rows.fitting(fold.source, tuple(pattern)), MAX_INPUTS)
            rows = [*dict.fromkeys((*same, *rows))]
        nodes = [
            node for input_row in rows if (node := self.node(fold.source, input_row)) is not None
        ]
        folded = self.words.folded(fold.relation, row)
        value_text = show_value(folded[0] if len(folded) == 1 else folded)
        if single:
            yield from (Way((node,), says=f"{fold.way} = {value_text}") for node in nodes)
            return
        more = "more than " if len(rows) > MAX_INPUTS else ""
        count = plural(min(len(rows), MAX_INPUTS), "row")
        yield Way(tuple(nodes[:MAX_INPUTS]), says=f"{fold.op} over {more}{count} = {value_text}")

    # --- relations that keep, join or close their rows, outside recursion ---------------------

    def _kept(self, relation: str, row: Row) -> Iterator[Way]:
        """How a row comes from the rows derived for its relation."""
        entry = self.words.entries[relation]
        raw = self.state.fact(entry, row)
        if raw is not None:
            yield Way((raw,), is_same=True)
        kind = self.words.keeps[relation]
        if kind == "eqrel":
            says = how_composed(self.words, relation, row)
            left, right = row
            if left != right:
                yield Way((Reached(relation, row),), says=says)
            else:
                yield from (Way((edge,), says=says) for _, edge in self._edges(relation, left))
        elif kind == "lattice columns":
            joined = self.words.joined(relation)
            if len(joined) > 1:
                yield Way(
                    tuple(self._attaining(relation, row, column) for column in joined),
                    says=how_composed(self.words, relation, row),
                )

    def _attaining(self, relation: str, row: Row, column: int) -> Node:
        """One of the rows derived for a row's key that has its value in a joined column."""
        entry, joined = self.words.entries[relation], self.words.joined(relation)
        pattern = tuple(
            value if index == column or index not in joined else ...
            for index, value in enumerate(row)
        )
        facts = (
            self.state.fact(entry, candidate) for candidate in self.rows.fitting(entry, pattern)
        )
        return OneOf(tuple(fact for fact in facts if fact is not None))

    def _edges(self, relation: str, value: object) -> Iterator[tuple[object, Node]]:
        """The pairs derived for an equivalence that a value is in, with the other value."""
        entry = self.words.entries[relation]
        for pattern in ((value, ...), (..., value)):
            for row in self.rows.fitting(entry, pattern):  # type: ignore[arg-type]  # values
                node = self.state.fact(entry, row)
                if node is not None:
                    yield row[1] if pattern[0] is not ... else row[0], node

    def _chain(self, node: Reached) -> Iterator[Way]:
        """The last pair of a chain, and the chain before it."""
        start, end = node.row
        for other, edge in self._edges(node.relation, end):
            if other == start:
                yield Way((edge,))
            elif other != end:
                yield Way((Reached(node.relation, (start, other)), edge))  # type: ignore[arg-type]  # a value

    # --- strata beyond plain recursion --------------------------------------------------------

    def _live(self, node: Live, ranked: bool) -> Iterator[Way]:
        """How a live row holds: by a rule, or as the join of what supports it."""
        if node.relation in self.words.pipelined:
            yield from self._instances(node.relation, node.row, None)
            return
        record = self._record(node.relation, node.row)
        if record is None:
            return
        fold = self.words.folds.get(node.relation)
        if fold is not None:
            yield from self._folded(node.row, fold)
            return
        merge = self.words.merges.get(node.relation)
        if not (isinstance(merge, Lattice) and isinstance(record.support, dict)):
            # A falling row rests on no row of its stratum; the rank is its absence's. What is
            # well founded by its keys has no rank to go by, and cannot go round.
            by_rank = ranked and node.relation not in self.words.falling | self.words.founded
            yield from self._instances(node.relation, node.row, record.rank if by_rank else None)
            return
        yield from self._joined(node, record, ranked)

    def _joined(self, node: Live, record: Record, ranked: bool) -> Iterator[Way]:
        """The proposals for the row's key of which some join to it, or to more if it has passed.

        `ranked`: only those that have held it up since it came.
        """
        home = record.home
        assert isinstance(home, JoinedRows)  # noqa: S101  the only kind with support by proposal
        goal = home.value(node.row)
        proposals = record.support if ranked else home.proposed.get(home.key(node.row), ())
        rows = sorted(
            (proposal.row for proposal in proposals), key=row_order(self.words.types[node.relation])
        )
        proposed: dict[Node, Row] = {Proposal(node.relation, row): home.value(row) for row in rows}
        below = {
            part: value for part, value in proposed.items() if home.join((goal, value)) == goal
        }
        for says_more, values in ((False, below), (True, {} if record.visible else proposed)):
            cover = Cover(goal, values, home.join)
            if cover.is_enough(home.join(values.values())):
                says = how_composed(self.words, node.relation, node.row, says_more=says_more)
                yield Way(tuple(values), says=says, cover=cover)

    def _derived_for_key(self, node: Proposal) -> dict[Row, list[Way]]:
        """By row, the ways in which each row of a proposal's key is derived or given.

        Of all rows at once: a rule that computes the value finds none by it.
        """
        relation = node.relation
        joined = self.words.merges[relation]
        assert isinstance(joined, Lattice)  # noqa: S101  no others have proposals
        columns = joined.key(len(node.row))
        key = tuple(node.row[column] for column in columns)
        ways_by_row = self._for_key.get((relation, key))
        if ways_by_row is not None:
            return ways_by_row
        ways_by_row = self._for_key[relation, key] = {}
        pattern = tuple(v if at in columns else ... for at, v in enumerate(node.row))
        for clause in self.words.clauses[relation]:
            if self.words.is_intake(clause):
                first = clause.body[0]
                assert isinstance(first, Match)  # noqa: S101  an intake's one literal
                for row in self.rows.fitting(first.relation, pattern):
                    ways_by_row.setdefault(row, []).append(GIVEN)
                continue
            args = tuple(arg if at in columns else None for at, arg in enumerate(clause.args))
            env = unify(args, node.row, {})
            if env is None:
                continue
            for binding, matched in self._rows_of(relation).solutions(clause.body, env):
                way = self._way(clause, binding, matched)
                if way is not None:
                    ways_by_row.setdefault(values_of(clause.args, binding), []).append(way)
        return ways_by_row

    def _instances(self, relation: str, row: Row, below: int | None) -> Iterator[Way]:
        """The rule instances of a stratum that derive a row; `below` a rank, if one is given."""
        for clause in self.words.clauses[relation]:
            env = unify(clause.args, row, {})
            if env is None:
                continue
            if self.words.is_intake(clause):
                first = clause.body[0]
                assert isinstance(first, Match)  # noqa: S101  an intake's one literal
                if self.rows.holds(first.relation, row):
                    yield GIVEN
                continue
            for binding, matched in self._rows_of(relation).solutions(clause.body, env):
                way = self._way(clause, binding, matched)
                if way is not None and (below is None or self._is_below(way, relation, below)):
                    yield way

    def _way(self, clause: Clause, env: Bindings, matched: dict[int, Row]) -> Way | None:
        premises: dict[Literal, Node] = {}
        for index, literal in enumerate(clause.body):
            if isinstance(literal, Match):
                if self._says_nothing(literal.relation):
                    continue
                node = self.node(literal.relation, matched[index])
                if node is None:
                    return None
                premises[literal] = node
            elif isinstance(literal, Absent) and literal.relation in self.words.falling:
                premises[literal] = Absence(literal.relation, values_of(literal.args, env))
        nodes, literals = tuple(premises.values()), tuple(premises)
        return Way(nodes, self._cost(clause), clause, env, literals=literals)

    def _absence(self, node: Absence, ranked: bool) -> Iterator[Way]:
        """For each rule instance that could derive the row, a row that refutes it."""
        record = self._record(node.relation, node.row)
        below = record.rank if ranked and record is not None else None
        live = self._rows_of(node.relation)
        wanted: list[Node] = []
        for clause in self.words.clauses[node.relation]:
            env = unify(clause.args, node.row, {})
            if env is None:
                continue
            stratum = self.words.strata[node.relation]
            inside = [
                literal
                for literal in clause.body
                if isinstance(literal, Absent)
                and self.words.strata.get(literal.relation) == stratum
            ]
            rest = tuple(literal for literal in clause.body if literal not in inside)
            for binding, _ in live.solutions(rest, env):
                refuters = [
                    Live(absent.relation, row)
                    for absent in inside
                    if live.holds(absent.relation, row := values_of(absent.args, binding))
                ]
                if below is not None:
                    refuters = [refuter for refuter in refuters if self._rank(refuter) < below]
                wanted.append(OneOf(tuple(refuters)))
        yield Way(tuple(dict.fromkeys(wanted)))

    def _is_below(self, way: Way, relation: str, rank: int) -> bool:
        """Whether all premises of the relation's own stratum have lower ranks."""
        strata = self.words.strata
        return all(
            self._rank(node) < rank
            for node in way.premises
            if isinstance(node, Live | Absence) and strata[node.relation] == strata[relation]
        )

    def _rank(self, node: Live | Absence) -> int:
        record = self._record(node.relation, node.row)
        return 0 if record is None else record.rank

    def _record(self, relation: str, row: Row) -> Record | None:
        return self._rows_of(relation).records(relation).get(row)

    def _rows_of(self, relation: str) -> LiveRows:
        """What the rules of a relation see that is beyond plain recursion, or is not kept."""
        stratum = self.words.strata.get(relation)
        live_rows = self._live_rows.get(stratum)
        if live_rows is None:
            live_rows = LiveRows(self.state, self.words, stratum, like=self.rows)
            self._live_rows[stratum] = live_rows
        return live_rows


_BETTER: Final = {"min": "<", "max": ">"}


def how_composed(words: Words, relation: str, row: Row, *, says_more: bool = False) -> str:
    """How a relation makes a row of others derived for it; `says_more`: their join may be more."""
    if words.keeps[relation] == "eqrel":
        return f"{words.names[relation]} is an equivalence relation"
    joined = f"join of what is derived or given for {_keyed(words, relation, row)}"
    return f"no more than the {joined}" if says_more else joined


def stands(words: Words, relation: str, row: Row) -> tuple[list[str], list[str]]:
    """Why a row stands against those it competes with: what is absent, and what else is so."""
    kind = words.keeps.get(relation)
    if kind == "choice-domain":
        return [], list(_chosen(words, relation, row))
    if kind == "lattice columns":
        return list(_unbeaten(words, relation, row)), []
    if kind == "subsumption":
        return list(_undominated(words, relation, row)), []
    return [], []


def _chosen(words: Words, relation: str, row: Row) -> Iterator[str]:
    declared = words.run.relation(relation)
    names = [attribute.name for attribute in declared.attributes]
    for domain in declared.choices:
        decoded = words.decoded(relation, row)
        key = (f"{name} = {show_value(decoded[names.index(name)])}" for name in domain)
        yield f"chosen for {', '.join(key)}"


def _unbeaten(words: Words, relation: str, row: Row) -> Iterator[str]:
    declared = words.run.relation(relation)
    for column in declared.joined:
        join, name = declared.attributes[column].join, declared.attributes[column].name
        if join in _BETTER:
            shown = _keyed(words, relation, row, column)
            value = show_value(words.decoded(relation, row)[column])
            yield f"nothing gives {shown} with {name} {_BETTER[join]} {value}"


def _keyed(words: Words, relation: str, row: Row, shown: int = -1) -> str:
    """A row's key as an atom, with the name of one joined column."""
    declared = words.run.relation(relation)
    args = []
    row = words.decoded(relation, row)
    for index, attribute in enumerate(declared.attributes):
        if index in declared.joined:
            args.append(attribute.name if index == shown else "_")
        else:
            args.append(show_value(row[index]))
    return f"{words.names[relation]}({', '.join(args)})"


def _undominated(words: Words, relation: str, row: Row) -> Iterator[str]:
    for order in words.run.orders:
        if order.less.relation != relation:
            continue
        known = {
            arg.name: Const(value)
            for arg, value in zip(order.less.args, words.decoded(relation, row), strict=True)
            if isinstance(arg, Var) and not isinstance(value, tuple | Branch)
        }

        def leaf(term: Leaf, known: dict[str, Const] = known) -> Term:
            return known.get(term.name, term) if isinstance(term, Var) else term

        more = show_formula(map_formula(order.more, leaf))
        test = show_formula(map_formula(order.body, leaf))
        yield f"nothing gives another {more}{'' if test == 'true' else f' with {test}'}"
