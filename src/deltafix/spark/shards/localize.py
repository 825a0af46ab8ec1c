"""The layout of any program: pieces, homes, copies, and the rules by which a shard keeps them.

For a derived relation R the local program has (columns `x`, rank `k`, sender `s`):

    not recursive                       recursive
    R(x) :- R vote(x, s).               R sup(x)  :- R now(x, k), R vote(x, r, s), r < k.
    R(x) :- R given(x).                 R sup(x)  :- R given(x).
                                        R lost(x, k) :- R now(x, k), !R sup(x).
                                        R new(x)  :- R any(x), !R has(x).

`any` are rows with a vote or given, `has` the rows of `now`; `shard` moves rows into and out of
`now`, by `lost` and `new`. Each piece of a rule derives `R out(x)` or `R out(x, k)`, k the highest
rank of the rows of R's own stratum that it used; the changes of `out` are votes. Invariant: the
local program is not recursive, so its relations are exact counts, and votes are exact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from deltafix.plan.clause import Clause, Fold, Relation
from deltafix.plan.depend import Layer, layers, made_by
from deltafix.plan.normalize import Core
from deltafix.rules.ast import (
    Atom,
    Comparison,
    Formula,
    Not,
    Program,
    RelationDecl,
    Rule,
    conjunction,
)
from deltafix.rules.terms import BaseType, Call, Const, Term, Var, Wildcard
from deltafix.spark.shards.core import Prepared
from deltafix.spark.shards.cut import Cutter, Piece
from deltafix.spark.shards.layout import Copy, Derived, Layout, Report
from deltafix.spark.shards.syntax import Spelling, declare, fold_rules

__all__ = ["localize"]

_RANK: BaseType = "number"


def localize(prepared: Prepared) -> Layout:
    """The layout of a program that shards derive together, stratum by stratum."""
    return _Localizing(prepared).layout()


class _Localizing:
    def __init__(self, prepared: Prepared) -> None:
        core = prepared.core
        self.prepared = prepared
        cutter = Cutter({r.name: r.types for r in core.relations})
        for clause in core.clauses:
            cutter.cut(clause)
        self.pieces: Sequence[Piece] = cutter.pieces
        self.folds = core.folds
        self.relations = {r.name: r for r in (*core.relations, *cutter.made)}
        self.layer = self._layers()
        self.derived = {p.head for p in self.pieces} | {n for f in self.folds for n in made_by(f)}
        self.home = {name: self._home(r) for name, r in self.relations.items()}
        self.types: dict[str, tuple[BaseType, ...]] = {}
        self.rules: list[Rule] = []
        self.readers: dict[str, int] = {}
        self.within: dict[str, dict[str, Copy]] = {name: {} for name in self.relations}
        self.above: dict[str, dict[str, Copy]] = {name: {} for name in self.relations}

    def _layers(self) -> dict[str, tuple[int, Layer]]:
        clauses = tuple(
            Clause(p.head, p.args, (*(use.literal for use in p.uses), *p.tests), 0)
            for p in self.pieces
        )
        found = layers(Core(tuple(self.relations.values()), clauses, self.folds))
        return {name: (n, layer) for n, layer in enumerate(found) for name in layer.relations}

    def _home(self, relation: Relation) -> tuple[int, ...]:
        """The columns that place a relation's rows: where most rules want them."""
        wanted: Counter[tuple[int, ...]] = Counter()
        for piece in self.pieces:
            for use in piece.uses:
                if use.literal.relation == relation.name and use.columns and not piece.lone:
                    wanted[use.columns] += 2 if self._same(piece.head, relation.name) else 1
        if wanted:
            return wanted.most_common(1)[0][0]
        return tuple(range(len(relation.types)))

    def _same(self, head: str, relation: str) -> bool:
        return self.layer[head][0] == self.layer[relation][0]

    def ranked(self, relation: str) -> bool:
        return relation in self.derived and self.layer[relation][1].recursive

    # --- the layout ------------------------------------------------------------------------

    def layout(self) -> Layout:
        for piece in self.pieces:
            self.piece(piece)
        for fold in self.folds:
            self.fold(fold)
        given: dict[str, tuple[Copy, ...]] = {}
        reports: dict[str, Report] = {}
        derived: dict[str, Derived] = {}
        for name, relation in self.relations.items():
            if name in self.derived:
                derived[name] = self.relation(relation)
                if not relation.hidden:
                    given[name] = (Copy(f"{name} given", self.home[name]),)
                    reports[f"{name} now" if self.ranked(name) else name] = Report(name)
            else:
                given[name] = self.input(relation, reports)
        declared: list[RelationDecl] = [declare(name, kinds) for name, kinds in self.types.items()]
        program = Program(tuple(declared), tuple(self.rules))
        seeds = self.prepared.seeds
        return Layout(program, self.types, given, reports, derived, self.readers, seeds)

    def input(self, relation: Relation, reports: dict[str, Report]) -> tuple[Copy, ...]:
        """A given relation's copies; the first that places rows reports them."""
        copies = [*self.above[relation.name].values()]
        if not copies:
            name = f"{relation.name} by {list(self.home[relation.name])}"
            copies = [Copy(name, self.home[relation.name])]
        for copy in copies:
            self.types[copy.name] = relation.types
        placed = next((c for c in copies if c.columns is not None), copies[0])
        if not relation.hidden:
            reports[placed.name] = Report(relation.name, placed.columns is None)
        return tuple(copies)

    def relation(self, relation: Relation) -> Derived:
        """A derived relation: its local relations, and the rules that decide what holds."""
        name, types = relation.name, relation.types
        ranked = self.ranked(name)
        made = Derived(
            name, len(types), self.home[name], self.layer[name][0], ranked,
            tuple(self.within[name].values()), tuple(self.above[name].values()),
        )  # fmt: skip
        rank = (_RANK,) if ranked else ()
        self.types[f"{name} out"] = (*types, *rank)
        self.types[f"{name} vote"] = (*types, *rank, "number")
        self.types[f"{name} given"] = types
        for copy in made.within:
            self.types[copy.name] = (*types, _RANK)
        for copy in made.above:
            self.types[copy.name] = types
        row: list[Term] = [Var(f"x{n}") for n in range(len(types))]
        any_row: list[Term] = [Wildcard()] * (2 if ranked else 1)
        vote = Atom(f"{name} vote", (*row, *any_row))
        given = Atom(f"{name} given", tuple(row))
        if not ranked:
            self.types[name] = types
            self.rule(Atom(name, tuple(row)), vote)
            self.rule(Atom(name, tuple(row)), given)
            return made
        k, r = Var("k"), Var("r")
        for part in ("sup", "has", "any", "new"):
            self.types[f"{name} {part}"] = types
        for part in ("now", "lost"):
            self.types[f"{name} {part}"] = (*types, _RANK)
        now = Atom(f"{name} now", (*row, k))
        sup, has, found, new = (
            Atom(f"{name} {part}", tuple(row)) for part in ("sup", "has", "any", "new")
        )
        lower = Atom(f"{name} vote", (*row, r, Wildcard()))
        self.rule(sup, now, lower, Comparison("<", r, k))
        self.rule(sup, given)
        self.rule(Atom(f"{name} lost", (*row, k)), now, Not(sup))
        self.rule(has, Atom(f"{name} now", (*row, Wildcard())))
        self.rule(found, vote)
        self.rule(found, given)
        self.rule(new, found, Not(has))
        return made

    def rule(self, head: Atom, *body: Formula) -> None:
        self.rules.append(Rule((head,), conjunction(body)))

    # --- the pieces ------------------------------------------------------------------------

    def piece(self, piece: Piece) -> None:
        """A piece as a rule for `out`, over the copies it reads."""
        spelling = Spelling()
        ranked = self.ranked(piece.head)
        body: list[Formula] = []
        ranks: list[Term] = []
        for use in piece.uses:
            name = use.literal.relation
            columns = self.home[name] if piece.lone and use.columns is not None else use.columns
            if ranked and self._same(piece.head, name):
                ranks.append(Var(f"k{len(ranks)}"))
                local = self.near(name, columns)
                body.append(spelling.literal(use.literal, local, ranks[-1]))
            else:
                body.append(spelling.literal(use.literal, self.far(name, columns, piece.head)))
        body += spelling.tests(piece.tests)
        head = spelling.atom(f"{piece.head} out", piece.args)
        if ranked:
            rank: Term = Const(0, "number") if not ranks else ranks[0]
            for other in ranks[1:]:
                rank = Call("max", (rank, other))
            head = replace(head, args=(*head.args, Var("k")))
            body.append(Comparison("=", Var("k"), rank))
        self.rule(head, *body)

    def near(self, relation: str, columns: tuple[int, ...] | None) -> str:
        """The copy, with ranks, that a rule of the same stratum reads."""
        if columns == self.home[relation]:
            return f"{relation} now"
        name = f"{relation} rank {_place(columns)}"
        self.within[relation].setdefault(name, Copy(name, columns))
        return name

    def far(self, relation: str, columns: tuple[int, ...] | None, head: str) -> str:
        """The copy that a rule of another stratum reads."""
        if (
            relation in self.derived
            and not self.ranked(relation)
            and columns == self.home[relation]
        ):
            return relation
        name = f"{relation} {_place(columns)}"
        self.above[relation].setdefault(name, Copy(name, columns))
        stratum = self.layer[head][0]
        self.readers[name] = min(stratum, self.readers.get(name, stratum))
        return name

    def fold(self, fold: Fold) -> None:
        """An aggregate: each group in the shard of its values, all of it there."""
        source = self.far(fold.source, fold.group, fold.relation)
        arity = len(self.relations[fold.source].types)
        guard = None if fold.group else self.far("~here", (), fold.relation)
        local = replace(
            fold,
            relation=f"{fold.relation} out",
            source=source,
            present=None if fold.present is None else f"{fold.present} out",
        )
        self.rules += fold_rules(local, arity, guard)


def _place(columns: tuple[int, ...] | None) -> str:
    return "everywhere" if columns is None else f"by {list(columns)}"
