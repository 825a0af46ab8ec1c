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
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from deltafix.engine.codes import VALUE_TYPES, Codes
from deltafix.engine.tables import Groups, Memo, Piece, Table, Tables
from deltafix.facts.values import OPTIONAL, BaseType
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Words
from deltafix.kernel.values import NIL
from deltafix.plan.clause import (
    Absent,
    Apply,
    Argument,
    Clause,
    Code,
    Compare,
    Fold,
    Match,
    Slot,
    slots_of,
)
from deltafix.plan.ir import Candidate, Check, Node, Outside, Plan, Stage, Variant
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
_AS_IT_IS = -1
_NATIVE = -2
_NATIVES = {
    "there": at.CHECK_THERE, "or": at.CHECK_OR, "when": at.CHECK_PICK, "pick": at.CHECK_PICK,
}  # fmt: skip
_TESTS = {"same": at.EQ, "less": at.LT, "like": at.LIKE}
T = TypeVar("T")
W = TypeVar("W")
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


def _in_index(number: int, relation: int) -> InIndex:
    index = InIndex(number)
    index.relation = relation
    return index


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


class Offset(int):
    """A word that says where a record starts."""


class InIndex(int):
    """A word that says which index of a relation, from its first."""

    relation: int


class Writer:
    """Strata as they are written; records refer to each other by offset.

    What the last program of these tables had, too, is taken from there: strata, and of those that
    are others their variants.
    """

    def __init__(self, plan: Plan, tables: Tables, codes: Codes) -> None:
        self.plan = plan
        self.tables = tables
        self.ids = {relation.name: tables.numbers[relation.name] for relation in plan.relations}
        self.codes = codes
        self.memos: dict[Memo, int] = {}
        self.out: list[int] = []
        self.base = 0  # the offset of its first word
        self.asked: dict[Memo, int] = {}
        self.lookups: list[tuple[str, tuple[int, ...], int]] = []
        self.types = {relation.name: relation.types for relation in plan.relations}
        self.folds = plan.folds
        self.pipelined = plan.pipelined
        self.unread: Collection[Argument] = ()
        self.raw: Mapping[Argument, BaseType] = {}
        self.shared: dict[tuple[int, str], Any] = {}
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

    def put(self, values: Sequence[int]) -> Offset:
        """Append a record; returns its offset."""
        start = Offset(self.base + len(self.out))
        self.out.extend(values)
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
        offsets = dict(zip(map(id, run), map(Offset, records.tolist()), strict=True))
        record = self.stage(stage, offsets, fold, into)
        own, self.out, self.base = self.out, [], 0
        words = _one_behind_another([*(piece.words for piece in copies), own])
        positions, moved = _placed([piece.offsets for piece in copies], starts)
        words[positions] += moved
        # Variants of the same nodes are of several rules; clauses of no rule share a counter.
        rules = np.array([variant.clause.rule for variant in run], dtype=np.int32)
        counters = records + at.V_RULE
        words[counters] = rules
        of_own = [n for n, kind in enumerate(map(type, own), int(starts[-1])) if kind is Offset]
        # A fold's record says an index of its source.
        looks = [
            (n, word) for n, word in enumerate(own, int(starts[-1])) if isinstance(word, InIndex)
        ]
        return Piece(
            stage, given, record, words,
            offsets=_one_behind_another([positions, of_own]),
            indexes=_one_behind_another(
                [_placed([piece.indexes for piece in copies], starts)[0], [n for n, _ in looks]]
            ),
            indexed=_one_behind_another(
                [*(piece.indexed for piece in copies), [word.relation for _, word in looks]]
            ),
            lasts=counters[rules < 0],
            memos=tuple({m: None for part in placed.values() for m in part.memos}),
            parts=placed,
            filtered=tuple(self.filtered(stage, placed)),
            rules=1 + max((variant.clause.rule for variant in forward), default=-1),
            slots=max((len(variant.slots) for variant in run), default=0),
            depth=max((len(variant.clause.body) for variant in run), default=0),
        )  # fmt: skip

    def stage(
        self, stage: Stage, offsets: Mapping[int, Offset], fold: Fold | None, into: Sequence[Fold]
    ) -> Offset:
        """A stratum record; `offsets` are those of its variants, by their identity."""
        relations = self.put([self.ids[name] for name in stage.relations])
        ordered = sorted(stage.lower, key=lambda v: self.ids[v.relation or ""])
        lower = [n for v in ordered for n in (self.ids[v.relation or ""], offsets[id(v)])]
        same = self.by_relation(stage, offsets, stage.same)
        rederive = self.by_relation(stage, offsets, stage.rederive)
        groups = [self.put([len(g), *(offsets[id(v)] for v in g)]) for g in stage.full]
        const = [offsets[id(v)] for v in stage.const]
        reads = stage.outside.reads if stage.outside is not None else ()
        pipe = self.put([len(into), *map(self.fold, into)]) if stage.is_pipelined else 0
        return self.put(
            [
                int(stage.recursive), len(stage.relations), relations,
                len(ordered), self.put(lower), same, rederive,
                len(groups), self.put(groups), len(const), self.put(const), 0,
                int(stage.outside is not None), len(reads),
                self.put([self.ids[name] for name in reads]),
                int(bool(stage.best)), self.by_relation(stage, offsets, stage.by_key),
                0 if fold is None else self.fold(fold), pipe, int(_is_shared(stage)),
            ]
        )  # fmt: skip

    def fold(self, fold: Fold) -> Offset:
        """The record of a fold that the kernel computes, of which each stratum has its own."""
        source, result = self.types[fold.source], self.types[fold.relation]
        added = 0 if fold.value is None else fold.value
        value = "number" if fold.value is None else source[fold.value]
        bound = 10 ** (fold.scale or 0) if fold.most is None else fold.most
        looks = fold.is_extreme and fold.group  # through a group
        index = self.index(fold.source, fold.group) if looks else -1
        return self.put(
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

    def by_relation(
        self, stage: Stage, offsets: Mapping[int, Offset], variants: Sequence[Variant]
    ) -> Offset:
        """Lists of variants (count first), one per relation of the stratum."""
        lists = []
        for name in stage.relations:
            listed = [offsets[id(v)] for v in variants if v.relation == name]
            lists.append(self.put([len(listed), *listed]))
        return self.put(lists)

    def part(self, stage: Stage, variant: Variant, parts: Mapping[int, Piece]) -> Piece:
        """A variant by itself, which is written now, or was for the stratum as it was."""
        was = parts.get(id(variant.nodes))
        if was is not None and was.of is variant.nodes:
            return was
        self.asked.clear()
        self.lookups.clear()
        record = self.variant(stage, variant)
        out, self.out = self.out, []
        placed = [n for n, kind in enumerate(map(type, out)) if kind is not int]
        indexes = [n for n in placed if isinstance(out[n], InIndex)]
        relations = [word.relation for n in indexes if isinstance(word := out[n], InIndex)]
        return Piece(
            variant.nodes, (), record,
            words=np.fromiter(out, np.int32, len(out)),
            offsets=np.array([n for n in placed if type(out[n]) is Offset], dtype=np.int32),
            indexes=np.array(indexes, dtype=np.int32),
            indexed=np.array(relations, dtype=np.int32),
            lasts=np.array((), dtype=np.int32),
            memos=tuple(self.asked.items()),
            lookups=tuple(self.lookups),
        )  # fmt: skip

    def variant(self, stage: Stage, variant: Variant) -> int:
        """A variant record, which has the rule of its clause, or -1."""
        slots = {slot: number for number, slot in enumerate(variant.slots)}
        self.shared.clear()
        self.raw = self.raw_of(variant)
        head = self.put([n for arg in variant.clause.args for n in self.operand(arg, slots)])
        self.unread = self.unread_of(variant.clause)
        count, match = self.binds(variant.binds, slots)
        root = self.nodes(variant, slots)
        before = [
            self.ids[literal.relation]
            for literal in variant.clause.body[: max(variant.trigger or 0, 0)]
            if isinstance(literal, Match) and literal.relation not in stage.relations
        ]
        needed = self.needed(variant)
        return self.put(
            [
                -1 if variant.relation is None else self.ids[variant.relation],
                int(variant.negated), self.ids[variant.clause.head], root, head,
                count, match, variant.clause.rule,
                int(variant.relation in stage.relations), len(before), self.put(before),
                len(needed) // 2, self.put(needed),
            ]
        )  # fmt: skip

    def needed(self, variant: Variant) -> list[int]:
        """Pairs: an index, and the column of the trigger's row that it must have as a key."""
        columns = {arg: column for column, arg, binds in variant.binds if binds}
        pairs: list[int] = []
        for option in variant.nodes[0].candidates:
            name = option.match.relation
            if len(option.index) == 1 < len(option.match.args):
                column = columns.get(option.keys[0], at.FILTER_COLUMNS)
                if column < at.FILTER_COLUMNS:
                    self.lookups.append((name, option.index, column))
                    pairs += [self.index(name, option.index), column]
        return pairs

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

    def index(self, name: str, columns: tuple[int, ...]) -> InIndex:
        """An index of a relation by its columns."""
        return _in_index(self.plan.indexes[name].index(columns), self.ids[name])

    def nodes(self, variant: Variant, slots: dict[Slot, int]) -> int:
        """The node records of a variant; returns the offset of node 0."""
        starts = [self.put([0, 0, 0, 0]) for _ in variant.nodes]
        for start, node in zip(starts, variant.nodes, strict=True):
            self.node(start, node, starts, slots)
        return starts[0]

    def node(self, start: int, node: Node, starts: Sequence[int], slots: dict[Slot, int]) -> None:
        """Fill in one node record."""
        checks = [self.once(check, self.check, slots) for check in node.checks]
        candidates = [self.candidate(c, starts, slots) for c in node.candidates]
        self.out[start : start + 4] = [
            len(checks), self.put(checks), len(candidates), self.put(candidates)
        ]  # fmt: skip

    def candidate(self, option: Candidate, starts: Sequence[int], slots: dict[Slot, int]) -> int:
        """A candidate record."""
        name = option.match.relation
        arity = len(option.match.args)
        if len(option.index) == arity:
            method, index = at.BY_KEY, 0
        elif option.index:
            method, index = at.BY_INDEX, self.index(name, option.index)
        else:
            method, index = at.BY_SCAN, 0
        keys = self.once(option.keys, self.keys, slots)
        count, binds = self.once(option.binds, self.binds, slots)
        return self.put(
            [
                self.ids[name], method, index, option.sees.value, starts[option.child],
                len(option.keys), keys, count, binds,
            ]
        )  # fmt: skip

    def once(self, thing: T, write: Callable[[T, dict[Slot, int]], W], slots: dict[Slot, int]) -> W:
        """Where that is which nodes of a variant have in common, by identity: written once."""
        key = id(thing), write.__name__
        if key not in self.shared:
            # Held here: proofs write tuples that nobody else holds, and the next had the place.
            self.shared[key] = thing, write(thing, slots)
        value: W = self.shared[key][1]
        return value

    def keys(self, keys: Sequence[Argument], slots: dict[Slot, int]) -> Offset:
        """Operand pairs, one a key column."""
        return self.put([n for key in keys for n in self.operand(key, slots)])

    def check(self, check: Check, slots: dict[Slot, int]) -> Offset:
        """A check record."""
        literal = check.literal
        if isinstance(literal, Absent):
            args = [n for arg in literal.args for n in self.operand(arg, slots)]
            return self.put(
                [at.CHECK_ABSENT, self.ids[literal.relation], check.sees.value,
                 len(literal.args), *args]
            )  # fmt: skip
        if isinstance(literal, Compare):
            left, right = self.operand(literal.left, slots), self.operand(literal.right, slots)
            if check.binds is not None:
                source = right if literal.left == check.binds else left
                return self.put([at.CHECK_MOVE, *self.operand(check.binds, slots), *source])
            kind, op = VALUE_TYPES[literal.type], _COMPARISONS[literal.op]
            return self.put([at.CHECK_COMPARE, kind, op, *left, *right])
        return self.apply(literal, check.binds is not None, slots)

    def apply(self, literal: Apply, binds: bool, slots: dict[Slot, int]) -> Offset:
        """A functor application; a conversion to its own type is a move or a comparison."""
        args = [n for arg in literal.args for n in self.operand(arg, slots)]
        target = self.operand(literal.target, slots)
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
        checked = (check.literal for node in variant.nodes for check in node.checks)
        literals = dict.fromkeys((*variant.clause.body, *checked))
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
        if variant.trigger is not None and variant.trigger < 0:  # the head's row binds them
            for arg in variant.clause.args:
                raw.pop(arg, None)
        return raw

    def unread_of(self, clause: Clause) -> Collection[Argument]:
        """Variables that a clause says once: nothing asks what they are bound to.

        Of 16 columns of a table in SQL mostly.
        """
        occurrences = Counter(chain(clause.args, *map(slots_of, clause.body)))
        return {arg for arg, count in occurrences.items() if count == 1}

    def binds(
        self, binds: Sequence[tuple[int, Argument, bool]], slots: dict[Slot, int]
    ) -> tuple[int, Offset]:
        """How many match triples, and where: column, kind, argument."""
        out: list[int] = []
        for column, arg, is_new in binds:
            if is_new and arg in self.unread:
                continue
            kind, value = self.operand(arg, slots)
            if kind == at.O_CONST:
                out += [column, at.M_CONST, value]
            else:
                out += [column, at.M_BIND if is_new else at.M_VAR, value]
        return len(out) // 3, self.put(out)

    def operand(self, arg: Argument, slots: dict[Slot, int]) -> tuple[int, int]:
        """An operand pair: kind and variable number or code."""
        if isinstance(arg, Code):
            code = self.codes.code(arg.type, arg.value)
            self.constants[id(arg)] = arg, code
            return at.O_CONST, code
        if arg in self.raw:
            return at.O_RAW + VALUE_TYPES[self.raw[arg]], slots[arg]
        return at.O_VAR, slots[arg]
