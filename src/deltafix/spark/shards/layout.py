"""What the driver and the shards agree on: the local program, and which rows belong where.

A shard runs `program`, an ordinary program over *local* relations. Each relation of the user's (or
hidden one) is there as copies: local relations that hold the rows whose key columns hash to this
shard, or all rows. Invariant: a layout is data, made once from a program (`whole`, `localize`) and
equal on every machine; it knows no shard count and no Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from deltafix.facts.schema import Row
from deltafix.facts.values import BaseType
from deltafix.plan.normalize import Core
from deltafix.rules.ast import Attribute, Program, RelationDecl
from deltafix.spark.hashing import Key


@dataclass(frozen=True, slots=True)
class Copy:
    """A local relation that holds rows of a relation, and the key that places them."""

    name: str
    key: Key


@dataclass(frozen=True, slots=True)
class Report:
    """The changes of a local relation are those of `relation`; `key` places its rows.

    Every row is in one shard, or in all of them (`everywhere`).
    """

    relation: str
    key: Key

    @property
    def everywhere(self) -> bool:
        """Whether every shard has every row."""
        return self.key.columns is None


@dataclass(frozen=True, slots=True)
class Derived:
    """A relation that shards derive together.

    Rows live at their *home*, the shard of their `home` columns. A shard that finds a row first
    tells its home, by a *vote*; the home decides, and tells the shards that have copies.

    Attributes:
        arity: columns, without rank.
        home: what places a row.
        stratum: number of its stratum.
        ranked: whether it is recursive, so that votes and rows carry ranks.
        within: copies for rules of its own stratum (ranked relations; with the rank behind).
        above: copies for rules of other strata.
    """

    relation: str
    arity: int
    home: Key
    stratum: int
    ranked: bool
    within: tuple[Copy, ...]
    above: tuple[Copy, ...]

    def part(self, name: str) -> str:
        """The local relation of that role: vote, out, given, now, lost, new."""
        return f"{self.relation} {name}"


@dataclass(frozen=True, slots=True)
class Layout:
    """A program cut up for shards.

    Attributes:
        core: what each shard runs.
        program: the declarations of the local relations, and of the types and functors they use.
        types: columns of the local relations.
        given: per relation, the copies that its given rows go to.
        reports: local relations whose changes are the changes of a relation.
        derived: relations that shards derive together; empty where no shuffle is needed.
        readers: per copy, and per derived relation that is read at home, the lowest stratum that
            reads it.
        seeds: rows given at first, for the facts of the program's text.
        bounded: they are given with the first inputs, which can bound what follows from them.
        seats: where rows of some relations are judged, if not at the copy that is placed first.
        heavy: the hashes of keys whose rows many shards share (`hashing.Heavy`), ascending.
    """

    core: Core
    program: Program
    types: Mapping[str, tuple[BaseType, ...]]
    given: Mapping[str, tuple[Copy, ...]]
    reports: Mapping[str, Report]
    derived: Mapping[str, Derived] = field(default_factory=lambda: MappingProxyType({}))
    readers: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    seeds: Mapping[str, list[Row]] = field(default_factory=lambda: MappingProxyType({}))
    bounded: bool = False
    seats: Mapping[str, Copy] = field(default_factory=lambda: MappingProxyType({}))
    heavy: tuple[int, ...] = ()

    @property
    def shuffles(self) -> bool:
        """Whether shards send each other messages."""
        return bool(self.derived)

    def seat(self, relation: str) -> Copy:
        """The copy that tells, once for each row, whether it is given."""
        if relation in self.seats:
            return self.seats[relation]
        copies = self.given[relation]
        placed = next((copy for copy in copies if copy.key.places), None)
        return placed or Copy(copies[0].name, Key(()))

    def beside(self, pairs: Mapping[str, str]) -> Layout:
        """The layout with relations that no rule reads placed where others have their seats.

        `pairs` says beside which one each is; it begins with the columns of that one.
        """
        given, reports = dict(self.given), dict(self.reports)
        for name, other in pairs.items():
            (copy,) = given[name]
            key = self.seat(other).key
            given[name] = (Copy(copy.name, key),)
            reports[copy.name] = Report(name, key)
        return replace(self, given=given, reports=reports)

    def by_key(self, relation: str, words: str, gone: str, key: Sequence[int]) -> Layout | None:
        """The layout with all that is said of a key of `relation` judged in one shard.

        `words` has the relation's columns and more, `gone` those of the key and more; a rule joins
        them by the key, so copies of both are placed alike. None where no two copies are.
        """
        for rows in self.given[words]:
            columns = rows.key.columns or ()
            if rows.key.heavy is not None or not set(columns) <= set(key):
                continue
            alike = tuple(list(key).index(column) for column in columns)
            for deletes in self.given[gone]:
                if deletes.key in (Key(None), Key(alike)):
                    seat = Copy(self.given[relation][0].name, Key(columns))
                    seats = {relation: seat, words: rows, gone: deletes}
                    return replace(self, seats={**self.seats, **seats})
        return None

    def home(self, relation: str) -> Copy:
        """The copy whose shard reports a relation's rows."""
        for name, report in self.reports.items():
            if report.relation == relation:
                return Copy(name, report.key)
        raise KeyError(relation)


def declarations(program: Program, kinds: Mapping[str, Sequence[str]]) -> Program:
    """The local relations with the columns `c0`, `c1` and so on; types and functors of the user."""
    relations = (
        RelationDecl(name, tuple(Attribute(f"c{n}", kind) for n, kind in enumerate(columns)))
        for name, columns in kinds.items()
    )
    return Program(
        tuple(relations), types=program.types, functors=program.functors, pragmas=program.pragmas
    )
