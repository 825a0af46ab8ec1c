"""The layout of any program: pieces, homes, copies, and the rules by which a shard keeps them.

For a derived relation R the local program has (columns `x`, rank `k`, sender `s`):

    not recursive                       recursive
    R(x) :- R vote(x, s).               R sup(x)  :- R now(x, k), R vote(x, r, s), r < k.
    R(x) :- R given(x).                 R sup(x)  :- R given(x).
                                        R lost(x, k) :- R now(x, k), !R sup(x).
                                        R new(x)  :- R any(x), !R has(x).

`any` are rows with a vote or given, `has` the rows of `now`; `shard` moves rows into and out of
`now`, by `lost` and `new`. Each piece of a rule derives `R out(x)` or `R out(x, k)`, k the highest
rank of the rows of R's own stratum that it used; the changes of `out` are votes. A pinned relation
(`core`) has none of these: its clauses read copies that are together where it is.

Rows of a heavy key are too many for one shard. So of the literals of a piece one is *split* there:
its rows of such a key are placed by all of their columns; the others are *shared*: every shard has
their rows of it. A derivation is still found once, where its row of the split literal is. Homes are
split too; what an aggregate or a pinned relation reads stays together.

Invariant: but for pinned strata the local program is not recursive, so its relations are exact
counts, and votes are exact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from deltafix.facts.values import BaseType
from deltafix.plan.clause import (
    Absent,
    Apply,
    Argument,
    Clause,
    Code,
    Compare,
    Fold,
    Literal,
    Match,
    Relation,
    Slot,
    Subsumption,
)
from deltafix.plan.depend import Layer, layers, needs
from deltafix.plan.normalize import Core
from deltafix.spark.hashing import Heavy, Key
from deltafix.spark.shards.core import HERE, Prepared, column_kinds
from deltafix.spark.shards.cut import Cutter, Piece, Use
from deltafix.spark.shards.layout import Copy, Derived, Layout, Report, declarations

_RANK: BaseType = "number"


def localize(prepared: Prepared, heavy: tuple[int, ...] = ()) -> Layout:
    """The layout of a program that shards derive together, stratum by stratum.

    `heavy` are the hashes of keys whose rows they share.
    """
    return _Localizing(prepared, heavy).layout()


def _strata(core: Core) -> dict[str, tuple[int, Layer]]:
    """The number of every relation's stratum, and its layer.

    Supersteps are counted by stratum, so layers that none of them needs are one: those as many
    layers above the given rows, apart by whether they are recursive, since those take rounds.
    """
    numbers: dict[str, tuple[int, Layer]] = {}
    needed = needs(core)
    for layer in layers(core):
        others = {name for relation in layer.relations for name in needed[relation]}.difference(
            layer.relations
        )
        level = max((numbers[name][0] // 2 + 1 for name in others), default=0)
        for name in layer.relations:
            numbers[name] = (2 * level + layer.recursive, layer)
    return numbers


class _Localizing:
    def __init__(self, prepared: Prepared, heavy: tuple[int, ...]) -> None:
        core = prepared.core
        self.prepared = prepared
        self.heavy = heavy
        self.pinned = prepared.pinned
        cutter = Cutter({r.name: r.types for r in core.relations})
        for clause in core.clauses:
            if clause.head not in self.pinned:
                cutter.cut(clause)
        self.pieces: Sequence[Piece] = cutter.pieces
        self.folds = core.folds
        self.relations = {r.name: r for r in (*core.relations, *cutter.joins)}
        clauses = [
            Clause(p.head, p.args, (*(use.literal for use in p.uses), *p.tests), 0)
            for p in self.pieces
        ]
        clauses += [c for c in core.clauses if c.head in self.pinned]
        cut = Core(tuple(self.relations.values()), tuple(clauses), self.folds)
        self.kinds = column_kinds(cut, prepared.program)
        self.layer = _strata(cut)
        self.derived = {p.head for p in self.pieces}
        self.derived |= {n for f in self.folds for n in f.outputs if n not in self.pinned}
        self.home = {name: self.split(name, self._home(r)) for name, r in self.relations.items()}
        self.locals: dict[str, Relation] = {}
        self.columns: dict[str, tuple[str, ...]] = {}
        self.clauses: list[Clause] = []
        self.local_folds: list[Fold] = []
        self.readers: dict[str, int] = {}
        self.within: dict[str, dict[str, Copy]] = {name: {} for name in self.relations}
        self.above: dict[str, dict[str, Copy]] = {name: {} for name in self.relations}

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

    def split(self, relation: str, columns: tuple[int, ...]) -> Key:
        """The key by which rows are placed by these columns, those of a heavy key by all."""
        every = tuple(range(len(self.relations[relation].types)))
        if not self.heavy or not columns or set(columns) == set(every):
            return Key(columns)
        return Key(columns, Heavy(self.heavy, every))

    def keys(self, piece: Piece) -> list[Key]:
        """What places the rows of each literal of a piece: heavy ones are split in one of them."""
        keys = [Key(use.columns) for use in piece.uses]
        placed = [n for n, use in enumerate(piece.uses) if use.columns]
        if piece.lone:
            for n, use in enumerate(piece.uses):
                if use.columns is not None:
                    keys[n] = self.home[use.literal.relation]
        elif self.heavy and placed:
            for n in placed:
                keys[n] = Key(piece.uses[n].columns, Heavy(self.heavy, None))
            chosen = max(placed, key=lambda n: self._gain(piece, piece.uses[n]))
            use = piece.uses[chosen]
            keys[chosen] = self.split(use.literal.relation, use.columns or ())
        return keys

    def _gain(self, piece: Piece, use: Use) -> tuple[bool, ...]:
        """What speaks for splitting a literal: what is not split is copied to all shards.

        A test of absence is never split, since its row has to be seen to be absent.
        """
        name = use.literal.relation
        return (
            isinstance(use.literal, Match),
            self.split(name, use.columns or ()).heavy is not None,  # else a key has one row
            self._same(piece.head, name),
            name in self.derived,
            self.home[name].columns == use.columns,
        )

    def _same(self, head: str, relation: str) -> bool:
        return self.layer[head][1] is self.layer[relation][1]

    def ranked(self, relation: str) -> bool:
        return relation in self.derived and self.layer[relation][1].recursive

    # --- the layout ------------------------------------------------------------------------

    def layout(self) -> Layout:
        for piece in self.pieces:
            self.piece(piece)
        for name in self.pinned:
            self.pin(self.relations[name])
        for fold in self.folds:
            self.fold(fold)
        given: dict[str, tuple[Copy, ...]] = {}
        reports: dict[str, Report] = {}
        derived: dict[str, Derived] = {}
        for name, relation in self.relations.items():
            if name in self.derived:
                derived[name] = self.relation(relation)
                given[name] = (Copy(f"{name} given", self.home[name]),)
                if not relation.hidden:
                    shown = f"{name} now" if self.ranked(name) else name
                    reports[shown] = Report(name, self.home[name])
            elif name not in self.pinned:
                given[name] = self.input(relation, reports)
        entries = self.prepared.entries
        hidden = {name for name, relation in self.relations.items() if relation.hidden}
        seeds = self.prepared.seeds
        return Layout(
            Core(tuple(self.locals.values()), tuple(self.clauses), tuple(self.local_folds)),
            declarations(self.prepared.program, self.columns),
            {name: relation.types for name, relation in self.locals.items()},
            {n: given[entries.get(n, n)] for n in given if n not in hidden or n in seeds},
            reports,
            derived,
            self.readers,
            seeds,
            self.prepared.bounded,
            heavy=self.heavy,
        )

    def local(self, name: str, like: str, *ranks: str, merged: bool = False) -> None:
        """A local relation with the columns of one of the program's, and numbers behind."""
        relation = self.relations[like]
        plain = Relation(name, (*relation.types, *((_RANK,) * len(ranks))))
        self.locals[name] = replace(relation, name=name) if merged else plain
        self.columns[name] = (*self.kinds[like], *ranks)

    def input(self, relation: Relation, reports: dict[str, Report]) -> tuple[Copy, ...]:
        """A given relation's copies; the first that places rows reports them."""
        copies = [*self.above[relation.name].values()]
        is_shared = any(copy.key.heavy for copy in copies) or not copies
        if is_shared and not any(copy.key.places for copy in copies):
            home = self.home[relation.name]
            copies.append(Copy(f"{relation.name} {_placement(home)}", home))
        for copy in copies:
            self.local(copy.name, relation.name)
        placed = next((c for c in copies if c.key.places), copies[0])
        if not relation.hidden:
            reports[placed.name] = Report(relation.name, placed.key)
        return tuple(copies)

    def relation(self, relation: Relation) -> Derived:
        """A derived relation: its local relations, and the rules that decide what holds."""
        name = relation.name
        ranked = self.ranked(name)
        derived = Derived(
            name, len(relation.types), self.home[name], self.layer[name][0], ranked,
            tuple(self.within[name].values()), tuple(self.above[name].values()),
        )  # fmt: skip
        rank = (_RANK,) if ranked else ()
        self.local(f"{name} out", name, *rank)
        self.local(f"{name} vote", name, *rank, "number")
        self.local(f"{name} given", name)
        for copy in derived.within:
            self.local(copy.name, name, _RANK)
        for copy in derived.above:
            self.local(copy.name, name)
        row = tuple(Slot(f"x{n}") for n in range(len(relation.types)))
        vote = Match(f"{name} vote", (*row, *(None,) * (2 if ranked else 1)))
        given = Match(f"{name} given", row)
        if not ranked:
            self.local(name, name)
            self.rule(name, row, vote)
            self.rule(name, row, given)
            return derived
        k, r = Slot("k"), Slot("r")
        for part in ("sup", "has", "any", "new"):
            self.local(f"{name} {part}", name)
        for part in ("now", "lost"):
            self.local(f"{name} {part}", name, _RANK)
        now = Match(f"{name} now", (*row, k))
        lower = Match(f"{name} vote", (*row, r, None))
        self.rule(f"{name} sup", row, now, lower, Compare("<", "number", r, k))
        self.rule(f"{name} sup", row, given)
        self.rule(f"{name} lost", (*row, k), now, Absent(f"{name} sup", row))
        self.rule(f"{name} has", row, Match(f"{name} now", (*row, None)))
        self.rule(f"{name} any", row, vote)
        self.rule(f"{name} any", row, given)
        self.rule(f"{name} new", row, Match(f"{name} any", row), Absent(f"{name} has", row))
        return derived

    def rule(self, head: str, args: tuple[Argument, ...], *body: Literal) -> None:
        self.clauses.append(Clause(head, args, body, len(self.clauses)))

    # --- the pieces ------------------------------------------------------------------------

    def piece(self, piece: Piece) -> None:
        """A piece as a rule for `out`, over the copies it reads."""
        ranked = self.ranked(piece.head)
        body: list[Literal] = []
        ranks: list[Argument] = []
        for use, key in zip(piece.uses, self.keys(piece), strict=True):
            name = use.literal.relation
            if ranked and self._same(piece.head, name):
                ranks.append(Slot(f"~k{len(ranks)}"))
                body.append(Match(self.near(name, key), (*use.literal.args, ranks[-1])))
            else:
                body.append(replace(use.literal, relation=self.far(name, key, piece.head)))
        body += piece.tests
        args: tuple[Argument, ...] = piece.args
        if ranked:
            rank: Argument = Code(0, "number") if not ranks else ranks[0]
            for n, other in enumerate(ranks[1:]):
                highest = Slot(f"~m{n}")
                body.append(Apply(highest, "max", (rank, other), (_RANK, _RANK), _RANK))
                rank = highest
            args = (*args, rank)
        self.rule(f"{piece.head} out", args, *body)

    def near(self, relation: str, key: Key) -> str:
        """The copy, with ranks, that a rule of the same stratum reads."""
        if key == self.home[relation]:
            return f"{relation} now"
        name = f"{relation} rank {_placement(key)}"
        self.within[relation].setdefault(name, Copy(name, key))
        return name

    def far(self, relation: str, key: Key, head: str) -> str:
        """The copy that a rule of another stratum reads."""
        if relation in self.pinned:
            return relation
        if relation in self.derived and not self.ranked(relation) and key == self.home[relation]:
            name = relation
        else:
            name = f"{relation} {_placement(key)}"
            self.above[relation].setdefault(name, Copy(name, key))
        stratum = self.layer[head][0]
        self.readers[name] = min(stratum, self.readers.get(name, stratum))
        return name

    def pin(self, relation: Relation) -> None:
        """A pinned relation: its clauses over copies that are together where it is."""
        name, key = relation.name, Key(self.pinned[relation.name])
        self.local(name, name, merged=True)
        # Its copies have been read when the relations above have what it derives.
        above = min(
            (self.layer[piece.head][0], piece.head)
            for piece in self.pieces
            if any(self._pins(use.literal.relation, name) for use in piece.uses)
        )[1]

        def body(literals: Sequence[Literal]) -> tuple[Literal, ...]:
            return tuple(
                replace(literal, relation=self.far(literal.relation, key, above))
                if isinstance(literal, Match | Absent)
                else literal
                for literal in literals
            )

        for clause in self.prepared.core.clauses:
            if clause.head == name:
                self.rule(name, clause.args, *body(clause.body))
        merge = relation.merge
        if isinstance(merge, Subsumption):
            orders = tuple(replace(order, body=body(order.body)) for order in merge.orders)
            self.locals[name] = replace(self.locals[name], merge=Subsumption(orders))

    def _pins(self, relation: str, name: str) -> bool:
        return relation in self.pinned and self._same(relation, name)

    def fold(self, fold: Fold) -> None:
        """An aggregate: each group in the shard of its values, all of it there.

        One that recursion reads is where all of that is.
        """
        if fold.relation in self.pinned:
            self.local_folds.append(fold)
            return
        source = self.far(fold.source, Key(fold.group), fold.relation)
        local = f"{fold.relation} out"
        if not fold.group:
            # Without groups there is a value where there is no row: in one shard only.
            guard = self.far(HERE, Key(()), fold.relation)
            local = f"{fold.relation} fold"
            self.local(local, fold.relation)
            value = tuple(Slot(f"v{n}") for n in range(len(self.locals[local].types)))
            self.rule(f"{fold.relation} out", value, Match(local, value), Match(guard, (None,)))
        present = None if fold.present is None else f"{fold.present} out"
        self.local_folds.append(replace(fold, relation=local, source=source, present=present))


def _placement(key: Key) -> str:
    if key.columns is None:
        return "everywhere"
    if key.heavy is None:
        return f"by {list(key.columns)}"
    return f"by {list(key.columns)} {'shared' if key.heavy.columns is None else 'split'}"
