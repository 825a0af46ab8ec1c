"""From a plan to the kernel: the plan as one int32 program over the tables of the arena.

Each stratum is written by itself, a `Piece` that says which of its words depend on where it lies,
and the program is the pieces one behind another: an edit of rules writes the strata that it
changes, and of these the variants. Invariant: `layout` ("Program") is the only contract between
this module and the kernel. Linking the same plan twice gives the same program. Nothing is compiled
here: programs are data.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from deltafix.engine.codes import VALUE_TYPES, Codes
from deltafix.engine.tables import Groups, Memo, Piece, Table, Tables
from deltafix.facts.values import OPTIONAL, BaseType
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Words
from deltafix.kernel.values import NIL
from deltafix.plan.binding import is_construction
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
    Slot,
    slots_of,
)
from deltafix.plan.ir import Candidate, Check, Node, Outside, Plan, Sees, Stage, Variant, Way
from deltafix.rules.values import native

if TYPE_CHECKING:
    from deltafix.plan.build import Prepared

__all__ = ["Linked", "Writer", "link"]

_COMPARISONS = {"=": at.EQ, "!=": at.NE, "<": at.LT, "<=": at.LE, ">": at.GT, ">=": at.GE}
_FUNCTORS = {
    "+": at.ADD, "-": at.SUB, "*": at.MUL, "/": at.DIV, "%": at.MOD, "^": at.POW, "neg": at.NEG,
    "min": at.MINF, "max": at.MAXF, "band": at.BAND, "bor": at.BOR, "bxor": at.BXOR,
    "bnot": at.BNOT, "bshl": at.BSHL, "bshr": at.BSHR, "bshru": at.BSHRU, "land": at.LAND,
    "lor": at.LOR, "lxor": at.LXOR, "lnot": at.LNOT,
}  # fmt: skip
_CONVERSIONS = {
    ("to_unsigned", "number"): at.ITOU, ("to_number", "unsigned"): at.UTOI,
    ("to_float", "number"): at.ITOF, ("to_number", "float"): at.FTOI,
    ("to_float", "unsigned"): at.UTOF, ("to_unsigned", "float"): at.FTOU,
}  # fmt: skip
_FOLDS = {
    "count": at.FOLD_COUNT, "sum": at.FOLD_SUM, "bounded": at.FOLD_BOUNDED, "mean": at.FOLD_MEAN,
    "min": at.FOLD_MIN, "max": at.FOLD_MAX,
    "real sum": at.FOLD_REAL_SUM, "real mean": at.FOLD_REAL_MEAN,
}  # fmt: skip
_MANY = 6
"""Variants from which looking into a filter is cheaper than probing the index of each."""
_NODE = 4
"""Words of the record of a node."""
_AS_IT_IS = -1
_NATIVE = -2
_NATIVES = {
    "there": at.CHECK_THERE, "or": at.CHECK_OR, "when": at.CHECK_PICK, "pick": at.CHECK_PICK,
}  # fmt: skip
_TESTS = {"same": at.EQ, "less": at.LT, "like": at.LIKE}
T = TypeVar("T")
_Bind: TypeAlias = tuple[int, Argument, bool]
"""Of a row that is matched: a column, its argument, and whether it binds it."""
_NUMBERS = frozenset(("number", "unsigned", "float"))
_SAME = frozenset(("as", "to_number", "to_unsigned", "to_float", "to_string"))
"""Conversions that do nothing to a value of their result's type."""


@dataclass(frozen=True, slots=True)
class Linked:
    """A plan in the kernel's terms: relation numbers by name, the program, rules counted.

    `memos` are the functors that its rules ask Python for, by number; `outside` are the strata
    that Python computes, `folds` the folds that the kernel does, by the numbers of their strata.
    """

    plan: Plan
    tables: Tables
    ids: dict[str, int]
    program: Words
    rule_counts: int
    memos: dict[int, Memo] = field(default_factory=dict)
    outside: dict[int, Outside] = field(default_factory=dict)
    folds: dict[int, Fold] = field(default_factory=dict)

    def groups(self, fold: Fold) -> int:
        """The number of the table of a fold's groups."""
        return self.tables.numbers[Groups.of(fold)]

    def given(self, relation: str) -> int:
        """The number of the relation where rows given to `relation` lie: mostly itself."""
        return self.ids[self.plan.given.get(relation, relation)]


@dataclass(frozen=True, slots=True, eq=False)
class _Written:
    """A program as it was written, and the numbers that it was written with.

    Attributes:
        tables: the numbers of tables.
        indexes: the number of each relation's first index.
        codes: each constant with its code, in the order in which they were asked for.
        pieces: of the strata.
        program: the words.
    """

    tables: Mapping[Table, int]
    indexes: tuple[int, ...]
    codes: tuple[tuple[Code, int], ...]
    pieces: Sequence[Piece]
    program: Words


_WRITTEN: WeakKeyDictionary[Prepared, _Written] = WeakKeyDictionary()


def link(
    plan: Plan,
    tables: Tables,
    codes: Codes,
    fresh: Collection[int] = (),
    begun: Prepared | None = None,
) -> Linked:
    """Lay out the plan's relations and indexes and encode its program.

    `fresh` are the strata that each run of the program evaluates from nothing. What the kernel
    does from now on is what this plan says (`Tables.describe`). Of what was `begun` the program
    is written once, for all databases in which tables and constants have the same numbers: in
    those that have just been opened.
    """
    tables.lay_out(plan)
    writer = Writer(plan, tables, codes)
    known = None if begun is None else _WRITTEN.get(begun)
    if known is None or not writer.would_write(known):
        known = writer.written()
        if begun is not None:
            _WRITTEN[begun] = known
    pieces = known.pieces
    program = known.program if begun is None else known.program.copy()
    memos = {number: memo for piece in pieces for memo, number in piece.memos}
    tables.lay_out_memos(map(memos.__getitem__, sorted(memos)))
    tables.pieces = dict(zip((stage.relations for stage in plan.stages), pieces, strict=True))
    tables.describe(plan)
    tables.filter(dict.fromkeys(chain.from_iterable(piece.filtered for piece in pieces)))
    starts = program[int(program[1]) :][: int(program[0])]
    program[starts[list(fresh)] + at.T_FRESH] = 1
    rules = _last(pieces) + 1
    slots = max((piece.slots for piece in pieces), default=0)
    depth = max((piece.depth for piece in pieces), default=0)
    tables.make_room(slots + 1, depth + 2, rules)
    tables.arena.cells[at.N_RULES] = rules
    ids = {relation.name: tables.numbers[relation.name] for relation in plan.relations}
    folds = writer.folds
    outside = {
        number: stage.outside
        for number, stage in enumerate(plan.stages)
        if stage.outside is not None and number not in folds
    }
    return Linked(plan, tables, ids, program, rules, memos, outside, folds)


def _is_shared(stage: Stage) -> bool:
    """Whether lanes may evaluate a stratum (`kernel.lanes`): it makes no values, asks for none."""
    literals = (literal for clause in stage.clauses for literal in clause.body)
    return all(call.is_coded for call in literals if isinstance(call, Apply))


def _value_type(kind: BaseType) -> int:
    """The kernel's type of values, of optional ones that of those that are there."""
    return VALUE_TYPES[OPTIONAL.get(kind, kind)]


def _last(pieces: Iterable[Piece]) -> int:
    """The counter behind those of the rules."""
    return max((piece.rules for piece in pieces), default=0)


def _joined(pieces: Sequence[Piece], first: Sequence[int]) -> Words:
    """The program of the pieces; `first` are the numbers of tables' first indexes.

    A few operations on arrays of all words.
    """
    starts = np.cumsum([2, *(len(piece.words) for piece in pieces)], dtype=np.int32)
    table = [piece.record for piece in pieces] + starts[:-1]
    words = _one_behind_another(
        [np.array((len(pieces), starts[-1])), *(piece.words for piece in pieces), table]
    )
    positions, moved = _placed([piece.offsets for piece in pieces], starts)
    words[positions] += moved
    positions, _ = _placed([piece.indexes for piece in pieces], starts)
    relations = _one_behind_another([piece.indexed for piece in pieces])
    words[positions] += np.array(first, dtype=np.int32)[relations]
    positions, _ = _placed([piece.lasts for piece in pieces], starts)
    words[positions] = _last(pieces)
    return words


def _placed(lists: Sequence[Words], starts: Words) -> tuple[Words, Words]:
    """Where words of pieces are, one behind another, and where the piece of each starts."""
    moved = np.repeat(starts[: len(lists)], [len(words) for words in lists])
    return _one_behind_another(lists) + moved, moved


def _one_behind_another(parts: Sequence[npt.ArrayLike]) -> Words:
    joined: Words = np.concatenate([*parts, []], dtype=np.int32, casting="unsafe")
    return joined


_NONE = np.array((), dtype=np.int32)


class Writer:
    """Strata as they are written; records refer to each other by offset.

    What the last program of these tables had, too, is taken from there: strata, and of those that
    are others their variants.

    Attributes:
        out: the words.
        offsets: the places of those that say where a record starts, but for `candidates`, of
            which that is said here: of each the start.
        indexed: the places of those that say which index of a relation, from its first, with the
            number of the relation.
    """

    def __init__(self, plan: Plan, tables: Tables, codes: Codes) -> None:
        self.plan = plan
        self.tables = tables
        self.ids = {relation.name: tables.numbers[relation.name] for relation in plan.relations}
        self.codes = codes
        self.memos: dict[Memo, int] = {}
        self.out: list[int] = []
        self.base = 0  # the offset of its first word
        self.offsets: list[int] = []
        self.candidates: list[int] = []
        self.indexed: dict[int, int] = {}
        self.asked: dict[Memo, int] = {}
        self.lookups: list[tuple[str, tuple[int, ...], int]] = []
        self.types = {relation.name: relation.types for relation in plan.relations}
        self.folds = plan.folds
        self.pipelined = plan.pipelined
        self.unread: Collection[Argument] = ()
        self.common: dict[tuple[str, int], tuple[Clause, Any]] = {}
        self.operands: dict[Argument, tuple[int, int]] = {}
        # What nodes of a variant have in common, by identity: held here, because proofs write ways
        # that nobody else holds, and the next had the place.
        self.joins: dict[int, tuple[Way, list[int]]] = {}
        self.checks: dict[int, tuple[Check, int]] = {}
        self.constants: dict[int, tuple[Code, int]] = {}

    def would_write(self, known: _Written) -> bool:
        """Whether that is what it would write: then it has what it would note, too."""
        if self.tables.numbers != known.tables or self.tables.first_indexes() != known.indexes:
            return False
        return all(
            self.codes.code(constant.type, constant.value) == code for constant, code in known.codes
        )

    def written(self) -> _Written:
        """The program, and how it comes again. O(strata that are not as they were, and words)."""
        indexes = self.tables.first_indexes()
        piped = defaultdict[str, list[Fold]](list)
        for fold in self.folds.values():
            if fold.source in self.pipelined:
                piped[fold.source].append(fold)
        pieces = [
            self.placed(stage, self.folds.get(number), piped)
            for number, stage in enumerate(self.plan.stages)
        ]
        program = _joined(pieces, indexes)
        codes = tuple(self.constants.values())
        return _Written(dict(self.tables.numbers), indexes, codes, pieces, program)

    def put(self, values: Sequence[int], offsets: Iterable[int] = ()) -> int:
        """Append a record, with offsets in some places; returns its own offset."""
        start = self.base + len(self.out)
        self.out += values
        for place in offsets:
            self.offsets.append(start + place)
        return start

    def put_offsets(self, offsets: Sequence[int], *count: int) -> int:
        """Append offsets, behind a count if there is one."""
        start = self.put(count)
        if offsets:
            first = self.base + len(self.out)
            self.offsets += range(first, first + len(offsets))
            self.out += offsets
        return start

    def placed(self, stage: Stage, fold: Fold | None, piped: Mapping[str, Sequence[Fold]]) -> Piece:
        """A stratum by itself, which is written now, or was for the last program."""
        into = tuple(piped.get(stage.relations[0], ())) if stage.is_pipelined else ()
        given = into, fold is not None and fold.source in self.pipelined
        was = self.tables.pieces.get(stage.relations)
        if was is not None and was.of is stage and was.given == given:
            return was
        parts = {} if was is None else was.parts
        forward = (*stage.lower, *stage.const, *stage.same, *chain(*stage.full))
        run = list({id(v): v for v in (*forward, *stage.rederive, *stage.by_key)}.values())
        placed = {id(variant.nodes): self.part(stage, variant, parts) for variant in run}
        copies = [placed[id(variant.nodes)] for variant in run]
        starts = np.cumsum([0, *(len(piece.words) for piece in copies)], dtype=np.int32)
        records = starts[:-1] + np.array([piece.record for piece in copies], dtype=np.int32)
        # Behind them, the records that are the stratum's own: all of whose offsets are its own.
        self.base = int(starts[-1])
        offsets = dict(zip(map(id, run), records.tolist(), strict=True))
        record = self.stage(stage, offsets, fold, into)
        own, of_own, looks = self.taken()
        self.base = 0
        words = _one_behind_another([*(piece.words for piece in copies), own])
        positions, moved = _placed([piece.offsets for piece in copies], starts)
        words[positions] += moved
        # Variants of the same nodes are of several rules; clauses of no rule share a counter.
        rules = np.array([variant.clause.rule for variant in run], dtype=np.int32)
        counters = records + at.V_RULE
        words[counters] = rules
        return Piece(
            stage, given, record, words,
            offsets=_one_behind_another([positions, of_own]),
            indexes=_one_behind_another(
                [_placed([piece.indexes for piece in copies], starts)[0], [*looks]]
            ),
            indexed=_one_behind_another([*(piece.indexed for piece in copies), [*looks.values()]]),
            lasts=counters[rules < 0],
            memos=tuple({m: None for part in placed.values() for m in part.memos}),
            parts=placed,
            filtered=tuple(self.filtered(stage, placed)),
            rules=1 + max((variant.clause.rule for variant in forward), default=-1),
            slots=max((len(variant.slots) for variant in run), default=0),
            depth=max((len(variant.clause.body) for variant in run), default=0),
        )  # fmt: skip

    def taken(self) -> tuple[list[int], list[int], dict[int, int]]:
        """The words since the last time, the places of offsets, and those of indexes."""
        for word in (at.K_CHILD, at.K_KEYS, at.K_MATCH):
            self.offsets += [record + word for record in self.candidates]
        taken = self.out, self.offsets, self.indexed
        self.out, self.offsets, self.candidates, self.indexed = [], [], [], {}
        return taken

    def stage(
        self, stage: Stage, offsets: Mapping[int, int], fold: Fold | None, into: Sequence[Fold]
    ) -> int:
        """A stratum record; `offsets` are those of its variants, by their identity."""
        relations = self.put([self.ids[name] for name in stage.relations])
        ordered = sorted(stage.lower, key=lambda v: self.ids[v.relation or ""])
        same = self.by_relation(stage, offsets, stage.same)
        rederive = self.by_relation(stage, offsets, stage.rederive)
        groups = [self.put_offsets([offsets[id(v)] for v in g], len(g)) for g in stage.full]
        reads = stage.outside.reads if stage.outside is not None else ()
        pipe = self.put_offsets([self.fold(one) for one in into], len(into)) if into else 0
        pairs = [n for v in ordered for n in (self.ids[v.relation or ""], offsets[id(v)])]
        lower = self.put(pairs, range(1, len(pairs), 2))
        full = self.put_offsets(groups)
        const = self.put_offsets([offsets[id(v)] for v in stage.const])
        read = self.put([self.ids[name] for name in reads])
        by_key = self.by_relation(stage, offsets, stage.by_key)
        own = 0 if fold is None else self.fold(fold)
        placed = [at.T_RELS, at.T_LOWER, at.T_SAME, at.T_REDERIVE, at.T_FULL, at.T_CONST]
        placed += [at.T_READS, at.T_OPEN]
        placed += [at.T_FOLD] if own else []
        placed += [at.T_PIPE] if pipe else []
        return self.put(
            [
                int(stage.recursive), len(stage.relations), relations,
                len(ordered), lower, same, rederive, len(groups), full, len(stage.const), const, 0,
                int(stage.outside is not None), len(reads), read,
                int(bool(stage.best)), by_key, own, pipe, int(_is_shared(stage)),
            ],
            placed,
        )  # fmt: skip

    def fold(self, fold: Fold) -> int:
        """The record of a fold that the kernel computes, of which each stratum has its own."""
        source, result = self.types[fold.source], self.types[fold.relation]
        added = 0 if fold.value is None else fold.value
        value = "number" if fold.value is None else source[fold.value]
        bound = 10 ** (fold.scale or 0) if fold.most is None else fold.most
        looks = fold.is_extreme and fold.group  # through a group
        index = self.plan.indexes[fold.source].index(fold.group) if looks else -1
        record = self.put(
            [
                self.tables.numbers[Groups.of(fold)], self.ids[fold.source],
                self.ids[fold.relation], -1 if fold.present is None else self.ids[fold.present],
                _FOLDS[f"real {fold.way}" if fold.is_real else fold.way],
                added, _value_type(value), _value_type(result[-1]),
                int(fold.is_always_there), bound >> 32, (bound & 0xFFFFFFFF ^ 1 << 31) - (1 << 31),
                int(fold.source in self.pipelined), index, int(value in OPTIONAL),
                len(fold.group), *fold.group,
            ]
        )  # fmt: skip
        if looks:
            self.indexed[record + at.F_INDEX] = self.ids[fold.source]
        return record

    def by_relation(
        self, stage: Stage, offsets: Mapping[int, int], variants: Sequence[Variant]
    ) -> int:
        """Lists of variants (count first), one per relation of the stratum."""
        lists = []
        for name in stage.relations:
            listed = [offsets[id(v)] for v in variants if v.relation == name]
            lists.append(self.put_offsets(listed, len(listed)))
        return self.put_offsets(lists)

    def part(self, stage: Stage, variant: Variant, parts: Mapping[int, Piece]) -> Piece:
        """A variant by itself, which is written now, or was for the stratum as it was."""
        was = parts.get(id(variant.nodes))
        if was is not None and was.of is variant.nodes:
            return was
        self.asked.clear()
        self.lookups.clear()
        record = self.variant(stage, variant)
        words, offsets, indexed = self.taken()
        return Piece(
            variant.nodes, (), record,
            words=np.array(words, dtype=np.int32),
            offsets=np.array(offsets, dtype=np.int32),
            indexes=np.array([*indexed], dtype=np.int32),
            indexed=np.array([*indexed.values()], dtype=np.int32),
            lasts=_NONE,
            memos=tuple(self.asked.items()),
            lookups=tuple(self.lookups),
        )  # fmt: skip

    def variant(self, stage: Stage, variant: Variant) -> int:
        """A variant record, which has the rule of its clause, or -1."""
        self.joins.clear()
        self.checks.clear()
        raw = self.raw_of(variant)
        self.operands = {
            slot: (at.O_RAW + VALUE_TYPES[raw[slot]] if slot in raw else at.O_VAR, number)
            for number, slot in enumerate(variant.slots)
        }
        head = self.put([n for arg in variant.clause.args for n in self.operand(arg)])
        self.unread = self.unread_of(variant.clause)
        count, match = self.binds(variant.binds)
        root = self.nodes(variant)
        before = [
            self.ids[literal.relation]
            for literal in variant.clause.body[: max(variant.trigger or 0, 0)]
            if isinstance(literal, Match) and literal.relation not in stage.relations
        ]
        behind = self.put(before)
        needed, count_needed = self.needed(variant)
        return self.put(
            [
                -1 if variant.relation is None else self.ids[variant.relation],
                int(variant.negated), self.ids[variant.clause.head], root, head,
                count, match, variant.clause.rule,
                int(variant.relation in stage.relations), len(before), behind,
                count_needed, needed,
            ],
            (at.V_NODE, at.V_HEADOPS, at.V_MATCH, at.V_BEFORE, at.V_NEEDED),
        )  # fmt: skip

    def needed(self, variant: Variant) -> tuple[int, int]:
        """Pairs: an index, and the column of the trigger's row that it must have as a key.

        Where they are, and how many.
        """
        columns = {arg: column for column, arg, binds in variant.binds if binds}
        pairs: list[int] = []
        relations: list[int] = []
        for option in variant.nodes[0].candidates:
            _, match, by, keys, _ = option.way
            name = match.relation
            if len(by) == 1 < len(match.args):
                column = columns.get(keys[0], at.FILTER_COLUMNS)
                if column < at.FILTER_COLUMNS:
                    self.lookups.append((name, by, column))
                    pairs += [self.plan.indexes[name].index(by), column]
                    relations.append(self.ids[name])
        start = self.put(pairs)
        self.indexed.update(zip(range(start, start + len(pairs), 2), relations, strict=True))
        return start, len(relations)

    def filtered(
        self, stage: Stage, parts: Mapping[int, Piece]
    ) -> Iterable[tuple[str, tuple[int, ...]]]:
        """Indexes that `_MANY` variants or more ask by the same column of one trigger, in order."""
        for variants in (stage.same, stage.rederive, stage.lower):
            by_column = defaultdict[tuple[str | None, int], list[tuple[str, tuple[int, ...]]]](list)
            for variant in variants:
                for name, index, column in parts[id(variant.nodes)].lookups:
                    by_column[variant.relation, column].append((name, index))
            yield from chain.from_iterable(
                indexes for indexes in by_column.values() if len(indexes) >= _MANY
            )

    def nodes(self, variant: Variant) -> int:
        """The node records of a variant; returns the offset of node 0."""
        start = self.base + len(self.out)
        size = _NODE
        starts = range(start, start + size * len(variant.nodes), size)
        self.out += [0] * (size * len(variant.nodes))
        self.offsets += range(start + 1, starts.stop, 2)
        for place, node in zip(starts, variant.nodes, strict=True):
            self.node(place, node, starts)
        return start

    def node(self, start: int, node: Node, starts: Sequence[int]) -> None:
        """Fill in one node record; what it lists stands behind what is written for it."""
        listed: list[int] = []
        for check in node.checks:
            written = self.checks.get(id(check))
            if written is None:
                written = self.checks[id(check)] = check, self.check(check)
            listed.append(written[1])
        for option in node.candidates:
            listed.append(self.candidate(option, starts))
        out, checks = self.out, len(node.checks)
        first = self.base + len(out)
        self.offsets += range(first, first + len(listed))
        out += listed
        place = start - self.base
        out[place : place + _NODE] = checks, first, len(listed) - checks, first + checks

    def candidate(self, option: Candidate, starts: Sequence[int]) -> int:
        """A candidate record; but for its child it is the same wherever its literal binds so."""
        way, sees, child = option
        known = self.joins.get(id(way))
        if known is None:
            known = self.joins[id(way)] = way, self.join(way, sees)
        words, out = known[1], self.out
        place = len(out)
        record = self.base + place
        out += words
        out[place + at.K_CHILD] = starts[child]
        self.candidates.append(record)
        if words[at.K_METHOD] == at.BY_INDEX:
            self.indexed[record + at.K_INDEX] = words[at.K_REL]
        return record

    def join(self, way: Way, sees: Sees) -> list[int]:
        """The words of a candidate's record, without its child."""
        _, match, by, keys, binds = way
        name = match.relation
        if len(by) == len(match.args):
            method, index = at.BY_KEY, 0
        elif by:
            method, index = at.BY_INDEX, self.plan.indexes[name].index(by)
        else:
            method, index = at.BY_SCAN, 0
        # Operand pairs, one a key column.
        key = self.put([n for arg in keys for n in self.operand(arg)])
        count, bound = self.binds(binds)
        return [self.ids[name], method, index, sees.value, 0, len(keys), key, count, bound]

    def check(self, check: Check) -> int:
        """A check record."""
        literal = check.literal
        if isinstance(literal, Absent):
            args = [n for arg in literal.args for n in self.operand(arg)]
            return self.put(
                [at.CHECK_ABSENT, self.ids[literal.relation], check.sees.value,
                 len(literal.args), *args]
            )  # fmt: skip
        if isinstance(literal, Compare):
            left, right = self.operand(literal.left), self.operand(literal.right)
            if check.binds is not None:
                source = right if literal.left == check.binds else left
                return self.put([at.CHECK_MOVE, *self.operand(check.binds), *source])
            kind, op = VALUE_TYPES[literal.type], _COMPARISONS[literal.op]
            return self.put([at.CHECK_COMPARE, kind, op, *left, *right])
        return self.apply(literal, check.binds is not None)

    def apply(self, literal: Apply, binds: bool) -> int:
        """A functor application; a conversion to its own type is a move or a comparison."""
        args = [n for arg in literal.args for n in self.operand(arg)]
        target = self.operand(literal.target)
        if literal.is_opening:
            return self.put([at.CHECK_OPEN, int(binds), *target, *args])
        name = native(literal.functor)
        if name in _TESTS:
            kind = VALUE_TYPES[literal.types[0]]
            return self.put([at.CHECK_TEST, int(binds), *target, kind, _TESTS[name], *args])
        if name:
            last = (at.O_CONST, NIL) if name == "when" else ()
            return self.put([_NATIVES[name], int(binds), *target, *args, *last])
        functor, count = self.functor(literal), len(args) // 2
        if functor is None:
            memo = self.memo(Memo(literal.functor, literal.types, literal.result))
            return self.put([at.CHECK_ASK, memo, int(binds), target[1], count, *args])
        kind = VALUE_TYPES[literal.types[0] if literal.types else literal.result]
        if functor != _AS_IT_IS:
            return self.put([at.CHECK_CALL, kind, functor, int(binds), *target, count, *args])
        if binds:
            return self.put([at.CHECK_MOVE, *target, *args])
        return self.put([at.CHECK_COMPARE, kind, at.EQ, *target, *args])

    def functor(self, literal: Apply) -> int | None:
        """The kernel's own functor, or what else it does by itself; None: Python's."""
        of = literal.types[0] if literal.types else literal.result
        if (literal.functor in _SAME and of == literal.result) or literal.is_coded:
            return _AS_IT_IS
        if native(literal.functor):
            return _NATIVE
        number = _CONVERSIONS.get((literal.functor, of))
        if number is None and "symbol" not in literal.types:
            number = _FUNCTORS.get(literal.functor)
        return number

    def memo(self, memo: Memo) -> int:
        """The number of a memo, the same for the same functor on the same types."""
        known = self.tables.numbers
        number = known.get(memo)
        if number is None:
            number = self.memos.setdefault(memo, len(known) + len(self.memos))
        self.asked[memo] = number
        return number

    def raw_of(self, variant: Variant) -> Mapping[Argument, BaseType]:
        """The variables of numbers that are only computed with, and their types.

        They are no codes: a product of large numbers would be interned, for each row a new one.
        The nodes have more terms than the clause: what takes a record apart that was made of one.
        """
        clause = variant.clause
        raw = self.of_clause("computed", clause, lambda: self.computed(clause.body))
        if self.of_clause("turns", clause, lambda: any(map(is_construction, clause.body))):
            said = {id(literal) for literal in clause.body}
            checked = chain.from_iterable([node.checks for node in variant.nodes if node.checks])
            turned = [check.literal for check in checked if id(check.literal) not in said]
            raw = self.computed((*clause.body, *turned)) if turned else raw
        if not raw or variant.trigger is None or variant.trigger >= 0:
            return raw
        # The head's row binds its arguments.
        return {arg: kind for arg, kind in raw.items() if arg not in clause.args}

    def computed(self, literals: Sequence[Literal]) -> Mapping[Argument, BaseType]:
        """The variables that are `raw_of` literals alone."""
        raw: dict[Argument, BaseType] = {}
        for literal in literals:
            if isinstance(literal, Apply) and literal.result in _NUMBERS:
                raw[literal.target] = literal.result
            elif isinstance(literal, Compare) and literal.op == "=" and literal.type in _NUMBERS:
                sides = literal.left, literal.right
                raw.update((side, literal.type) for side in sides if isinstance(side, Slot))
        for literal in literals:
            if isinstance(literal, Match | Absent):
                coded: Iterable[Argument] = slots_of(literal)
            elif isinstance(literal, Apply) and literal.result in OPTIONAL:
                coded = (literal.target, *(literal.args if literal.is_coded else ()))
            elif isinstance(literal, Apply) and self.functor(literal) is None:
                coded = (literal.target,)
            else:
                continue
            for arg in coded:
                raw.pop(arg, None)
        return raw

    def of_clause(self, what: str, clause: Clause, make: Callable[[], T]) -> T:
        """What is the same for all variants of a clause."""
        key = what, id(clause)
        if key not in self.common:
            self.common[key] = clause, make()
        value: T = self.common[key][1]
        return value

    def unread_of(self, clause: Clause) -> Collection[Argument]:
        """Variables that a clause says once: nothing asks what they are bound to.

        Of 16 columns of a table in SQL mostly.
        """

        def unread() -> Collection[Argument]:
            occurrences = Counter(chain(clause.args, *map(slots_of, clause.body)))
            return {arg for arg, count in occurrences.items() if count == 1}

        return self.of_clause("unread", clause, unread)

    def binds(self, binds: tuple[_Bind, ...]) -> tuple[int, int]:
        """How many match triples, and where: column, kind, argument."""
        out: list[int] = []
        for column, arg, is_new in binds:
            if is_new and arg in self.unread:
                continue
            kind, value = self.operand(arg)
            if kind == at.O_CONST:
                out += [column, at.M_CONST, value]
            else:
                out += [column, at.M_BIND if is_new else at.M_VAR, value]
        return len(out) // 3, self.put(out)

    def operand(self, arg: Argument) -> tuple[int, int]:
        """An operand pair: kind and variable number or code."""
        if not isinstance(arg, Code):
            return self.operands[arg]
        code = self.codes.code(arg.type, arg.value)
        self.constants[id(arg)] = arg, code
        return at.O_CONST, code
