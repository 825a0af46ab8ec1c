"""A stratum that aggregates over itself: groups from the bottom up, each once an epoch.

Which key needs which follows from lower relations alone (`plan.founded`), so an epoch first takes
their changes in, which counts derivations of the stratum's facts and needs of their keys; then puts
the keys in order, and refuses data in which one needs itself; then settles what waits, least key
first. A fact holds while it has a derivation, a group shows the value of the rows it has: nothing
holds itself up where no key needs itself, so ranks are of no account here.
Invariant: when a key is settled, all that it needs is; nothing is settled twice in an epoch.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from deltafix.engine.beyond.checks import Meaning
from deltafix.engine.beyond.epoch import Epoch
from deltafix.engine.beyond.facts import Fact, Work
from deltafix.engine.beyond.keyed import leave
from deltafix.engine.beyond.needs import Circle, Needs, Node
from deltafix.engine.beyond.rows import Rows
from deltafix.engine.beyond.stratum import Stratum
from deltafix.engine.beyond.wiring import derivations
from deltafix.engine.folds.accumulators import Accumulators
from deltafix.errors import CyclicDataError, InternalError
from deltafix.facts.schema import Row
from deltafix.facts.values import BaseType, Value, show_value
from deltafix.plan.clause import Fold, Relation
from deltafix.plan.depend import Layer
from deltafix.plan.founded import Calls, Need

_SHOWN = 12
"""Steps of a cycle that a message names; the error has them all."""

MakeFold: TypeAlias = Callable[[Fold, Callable[[Row], list[Value]]], Accumulators]
"""What keeps an aggregate, given how the values of a group are looked up."""


class FoundedStratum(Stratum):
    """The executor of a layer with `calls`. As `Stratum`; `make` makes what keeps an aggregate.

    `run` raises CyclicDataError where a key needs itself.
    """

    def __init__(
        self,
        layer: Layer,
        relations: Sequence[Relation],
        meaning: Meaning,
        make: MakeFold,
        watch: Callable[[Work], None] | None = None,
    ) -> None:
        assert layer.calls is not None  # noqa: S101  the caller's case
        self._calls = layer.calls
        self._make = make
        self._needs = Needs()
        self._agenda = _Agenda(self._needs)
        super().__init__(layer, relations, meaning, watch)
        hidden = {relation.name for relation in relations if relation.hidden}
        self._visible = [name for name in self.writes if name not in hidden]
        for need in self._calls.needs:
            self._wiring.sink(need.clause, self._count(need, 1), self._count(need, -1))

    def keep(self) -> None:
        """The epoch was committed."""
        super().keep()
        self._needs.keep()
        self._agenda.clear()
        for rows in self._folded():
            rows.kind.keep()

    def undo(self) -> None:
        """The epoch was rolled back."""
        super().undo()
        self._needs.undo()
        self._agenda.clear()
        for rows in self._folded():
            rows.kind.undo()

    def check_invariants(self) -> None:
        """As `Stratum`, and that needs are as counted and in order."""
        super().check_invariants()
        counts: dict[tuple[Node, Node], int] = {}
        for need in self._calls.needs if self.started else ():
            for row, _ in derivations(self._wiring, need.clause):
                edge = self._edge(need, row)
                counts[edge] = counts.get(edge, 0) + 1
        if counts != {(node, other): times for node, other, times in self._needs.edges()}:
            raise InternalError("beyond: needs differ from what their clauses say")
        positions = self._needs.positions
        if not all(positions[other] < positions[node] for node, other in counts):
            raise InternalError("beyond: a key stands before one that it needs")

    def _derived(self) -> dict[str, dict[Row, list[int]]]:
        derived = super()._derived()
        for rows in self._folded():
            kind = self._make(rows.fold, rows.look)
            for key, value in rows.of_source():
                kind.change(key, [value], 1)
            for key in dict.fromkeys(key for key, _ in rows.of_source()):
                values = rows.values(kind, key)
                derived[rows.name].update({key + value: [0] for value in values})
                if rows.present is not None and values:
                    derived[rows.present.name][key] = [0]
        return derived

    def _kinds(
        self, layer: Layer, types: Mapping[str, tuple[BaseType, ...]], meaning: Meaning
    ) -> dict[str, Rows]:
        del meaning
        plain = {
            name: _CountedRows(name, self._epoch, self._agenda, self._calls)
            for name in layer.relations
        }
        relations: dict[str, Rows] = {**plain}
        for fold in layer.folds:
            present = None if fold.present is None else plain[fold.present]
            is_opened = len(types[fold.relation]) > len(fold.group) + 1
            relations[fold.relation] = _FoldedRows(plain[fold.relation], fold, present, is_opened)
        for rows in relations.values():
            if isinstance(rows, _FoldedRows):
                rows.follow(relations[rows.fold.source], self._make(rows.fold, rows.look))
        return relations

    def _folded(self) -> list[_FoldedRows]:
        return [rows for rows in self._relations.values() if isinstance(rows, _FoldedRows)]

    def _count(self, need: Need, sign: int) -> Callable[[Row, int], None]:
        def sink(row: Row, _: int) -> None:
            self._needs.count(*self._edge(need, row), sign)

        return sink

    def _edge(self, need: Need, row: Row) -> tuple[Node, Node]:
        families, width = self._calls.families, len(self._calls.keys[need.caller])
        return (families[need.caller], row[:width]), (families[need.callee], row[width:])

    def _retract(self, *, reordered: bool) -> None:
        """Lower changes are in: order the keys."""
        del reordered
        try:
            self._needs.settle()
        except Circle as circle:
            raise self._cyclic(circle.nodes) from None

    def _derive(self) -> None:
        agenda = self._agenda
        agenda.open()
        settled = 0
        while due := agenda.next():
            for rows, item in due:
                rows.settle_one(item)
            if settled >> 8 != (settled + len(due)) >> 8:
                self._epoch.look()
            settled += len(due)

    def _cyclic(self, nodes: Sequence[Node]) -> CyclicDataError:
        own = {self._calls.families[name] for name in self._visible}
        cycle = [self._shown(node) for node in nodes[1:] if node[0] in own]
        cycle.insert(0, cycle[-1])
        last = next(n for n, node in enumerate(cycle[1:], 1) if node == cycle[0])
        cycle = cycle[: last + 1]
        steps = [
            f"{name}({', '.join('_' if v is ... else show_value(v) for v in row)})"
            for name, row in cycle
        ]
        if len(steps) > _SHOWN:
            left = f"… ({len(steps) - _SHOWN:,} more) …"
            steps[_SHOWN // 2 : -(_SHOWN // 2)] = [left]
        through = " needs ".join(steps)
        message = (
            f"an aggregate would have to be known before itself: {through}; rolled back. "
            "Rules that aggregate over their own recursion need data without such a cycle"
        )
        return CyclicDataError(message, tuple(cycle))

    def _shown(self, node: Node) -> tuple[str, tuple[Any, ...]]:
        """A key as a row of the first relation of its family that was declared."""
        family, key = node
        name = next(name for name in self._visible if self._calls.families[name] == family)
        row: list[Any] = [...] * self._widths[name]
        for column, value in zip(self._calls.keys[name], key, strict=True):
            row[column] = value
        return name, tuple(row)


class _Agenda:
    """What waits to be settled, by key and then by its relation's turn in there."""

    def __init__(self, needs: Needs) -> None:
        self._needs = needs
        self._early: list[tuple[_Turned, Any]] = []
        self._turns: list[tuple[int, int]] = []
        self._items: dict[tuple[int, int], list[tuple[_Turned, Any]]] = {}
        self._reached: tuple[int, int] | None = None

    def put(self, rows: _Turned, item: Any) -> None:
        """Let something of a relation wait, until keys have their places or for its turn."""
        if self._reached is None:
            self._early.append((rows, item))
            return
        turn = (self._needs.positions.get(rows.node(item), 0), rows.turn)
        if turn <= self._reached:
            raise InternalError(f"beyond: {rows.name}: {item!r} changes after its turn")
        waiting = self._items.get(turn)
        if waiting is None:
            self._items[turn] = [(rows, item)]
            heapq.heappush(self._turns, turn)
        else:
            waiting.append((rows, item))

    def open(self) -> None:
        """All lower changes are in, and keys are in order."""
        self._reached = (-(1 << 62), 0)
        for rows, item in self._early:
            self.put(rows, item)
        self._early.clear()

    def next(self) -> list[tuple[_Turned, Any]]:
        """What is to be settled next, or nothing."""
        if not self._turns:
            return []
        self._reached = heapq.heappop(self._turns)
        return self._items.pop(self._reached)

    def clear(self) -> None:
        """Nothing waits; the next epoch may begin."""
        for waiting in (self._early, *self._items.values()):
            for rows, item in waiting:
                rows.waiting.pop(item, None)
        self._turns.clear()
        self._items.clear()
        self._early.clear()
        self._reached = None


class _Turned(Rows):
    """Rows that are settled when their key's turn comes."""

    def __init__(self, name: str, epoch: Epoch, agenda: _Agenda, calls: Calls) -> None:
        super().__init__(name, epoch)
        self.agenda = agenda
        self.calls = calls
        self.turn = calls.turns[name]
        self.family = calls.families[name]
        self.columns = calls.keys[name]
        self.waiting: dict[Any, tuple[list[Any], list[Any]]] = {}

    def wait(self, item: Any) -> tuple[list[Any], list[Any]]:
        """Let something wait, once; what came and what went meanwhile."""
        changes = self.waiting.get(item)
        if changes is None:
            changes = self.waiting[item] = [], []
            self.agenda.put(self, item)
        return changes

    def node(self, item: Any) -> Node:
        """The key of something that waits."""
        raise NotImplementedError

    def settle_one(self, item: Any) -> None:
        """Its turn has come."""
        raise NotImplementedError

    def check_fact(self, fact: Fact, ranks: list[int]) -> None:
        """A fact holds while it has a derivation."""
        self.require((fact.rank > 0) == (fact.total > 0), "holds without a derivation", fact)
        self.require(fact.visible == (fact.rank > 0), "is seen wrongly", fact)
        del ranks

    def up(self, fact: Fact) -> None:
        """A fact begins to hold."""
        self.epoch.note(fact)
        fact.visible = True
        self._put_up(fact)


class _CountedRows(_Turned):
    """The rows of a relation with clauses, and of the groups that a fold has rows for."""

    def gain(self, row: Row, rank: int) -> None:
        """A derivation began to hold."""
        del rank
        fact = self._count(row)
        fact.total += 1
        if fact.total == 1:
            self.wait(fact)

    def lose(self, row: Row, rank: int) -> None:
        """A derivation ceased to hold."""
        del rank
        fact = self._count(row)
        fact.total -= 1
        if fact.total == 0:
            self.wait(fact)

    def node(self, item: Fact) -> Node:
        """The key of a fact."""
        return self.family, tuple(item.row[column] for column in self.columns)

    def settle_one(self, item: Fact) -> None:
        """Let a fact hold while it has a derivation."""
        del self.waiting[item]
        if item.total > 0 and not item.rank:
            self.up(item)
        elif item.total == 0 and item.rank:
            self._take_down(item)


class _FoldedRows(_Turned):
    """The values of an aggregate, a row for each group that has one."""

    source: Rows
    kind: Accumulators

    def __init__(self, plain: _Turned, fold: Fold, present: Rows | None, is_opened: bool) -> None:
        super().__init__(plain.name, plain.epoch, plain.agenda, plain.calls)
        self.fold = fold
        self.is_opened = is_opened
        """Whether a value is as many columns as it has fields."""
        self.present = present
        self.shown: dict[Row, dict[Fact, None]] = {}

    def follow(self, source: Rows, kind: Accumulators) -> None:
        """Keep the rows of a relation folded."""
        self.source = source
        self.kind = kind
        value = self.folded

        source.ups.append(lambda row, _: self.wait(self.group(row))[0].append(value(row)))
        source.downs.append(lambda row, _: self.wait(self.group(row))[1].append(value(row)))

    def group(self, row: Row) -> Row:
        """The group of a row of the source."""
        return tuple(row[column] for column in self.fold.group)

    def of_source(self) -> Iterator[tuple[Row, Value | None]]:
        """Of every row of the source its group and value."""
        for fact in self.source.facts.members:
            yield self.group(fact.row), self.folded(fact.row)

    def folded(self, row: Row) -> Any:
        """What is folded of a row of the source; None: rows are counted."""
        fold = self.fold
        if fold.fields:
            return tuple([row[column] for column in fold.fields])
        return None if fold.value is None else row[fold.value]

    def look(self, key: Row) -> list[Value]:
        """The values in a group as they stand."""
        index = self.source.facts.index(self.fold.group)
        facts = index.buckets.get(key[0] if len(key) == 1 else key, {})
        return [self.folded(fact.row) for fact in facts]

    def values(self, kind: Accumulators, key: Row) -> list[Row]:
        """The values of a group, by column: none, one, or those of a reducer with several."""
        folded = kind.value(key)
        if folded is None:
            return []
        some = list(folded) if kind.several else [folded]
        return some if self.is_opened else [(value,) for value in some]

    def node(self, item: Row) -> Node:
        """The key of a group."""
        return self.family, tuple(item[column] for column in self.columns)

    def settle_one(self, item: Row) -> None:
        """Show what the rows of a group fold to, in place of what was shown."""
        for values, sign in zip(self.waiting.pop(item), (1, -1), strict=True):
            if values:
                self.kind.change(item, values, sign)
        wanted = {item + value for value in self.values(self.kind, item)}
        before = list(self.shown.get(item, ()))
        for fact in before:
            if fact.row not in wanted:
                self.epoch.note(fact)
                fact.total = 0
                self._take_down(fact)
                leave(self.shown, item, fact)
        held = {fact.row for fact in before}
        for row in wanted:
            if row not in held:
                fact = self._count(row)
                fact.total = 1
                self.up(fact)
                self.shown.setdefault(item, {})[fact] = None
        if self.present is not None and bool(before) != bool(wanted):
            (self.present.gain if wanted else self.present.lose)(item, 0)

    def restore(self, fact: Fact, saved: tuple[Any, ...]) -> None:
        """Put a record back, and whether it is shown."""
        super().restore(fact, saved)
        key = fact.row[: len(self.fold.group)]
        if fact.rank:
            self.shown.setdefault(key, {})[fact] = None
        else:
            leave(self.shown, key, fact)
