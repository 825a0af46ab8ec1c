"""One query block while it is read: its id, the sources in scope, the blocks around it.

Invariant: an alias names one source of its block; a block sees the blocks that enclose it only
where SQL lets it (nested queries, LATERAL), and CTEs by the names declared before it. What an
unqualified name means is asked as a fact; a qualified one is settled here, by its alias.

`how` is the part a reference plays for the expression's column: value (it may become part of it),
condition (it chooses between values), window; in a clause that decides rows it is the clause:
filter, join, group, order. The walk does not enter nested queries, it hands them over.

Two spellings that the dialect takes for one name give one text; a table's name is its parts joined
by dots, outermost first. An earlier `SET search_path` or `USE` is what unqualified names are looked
for in first, and where unqualified definitions go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect

from deltafix.analyses.lineage.facts import ROWS, Facts


@dataclass(frozen=True, slots=True)
class Seen:
    """What a block is given: its statement, the CTEs declared so far, the blocks it may look in."""

    statement: str
    names: Names
    ctes: Mapping[str, str]
    outer: Block | None = None


@dataclass(slots=True)
class Block:
    """A block under way. Queries met in its expressions wait in `nested` until all is in scope."""

    id: str
    given: Seen
    ctes: Mapping[str, str] = field(init=False)
    sources: dict[str, str] = field(default_factory=dict)  # alias -> source
    tables: dict[str, str] = field(default_factory=dict)  # schema.table -> source
    hidden: set[str] = field(default_factory=set)  # sources that a star leaves out
    aliases: set[str] = field(default_factory=set)  # names given to outputs so far
    windows: dict[str, exp.Expr] = field(default_factory=dict)
    merged: bool = False  # USING or NATURAL: a bare star puts the common columns first
    placed: bool = True  # whether the facts tell at which place each output stands
    nested: list[tuple[str, exp.Expr, Seen]] = field(default_factory=list)
    count: int = 0

    def __post_init__(self) -> None:
        """State the block and what it may see."""
        self.ctes = self.given.ctes
        self.facts.add("block", self.id, self.given.statement)
        if self.given.outer is not None:
            self.facts.add("outer", self.id, self.given.outer.id)

    @property
    def names(self) -> Names:
        """The names of the file."""
        return self.given.names

    @property
    def facts(self) -> Facts:
        """Where this block's facts go."""
        return self.given.names.facts

    def seen(self, *, lateral: bool) -> Seen:
        """What a block inside is given; `lateral` if it sees this one's sources."""
        return replace(self.given, ctes=self.ctes, outer=self if lateral else self.given.outer)

    def around(self) -> Iterator[Block]:
        """This block and those it may look in, innermost first."""
        block: Block | None = self
        while block is not None:
            yield block
            block = block.given.outer

    def below(self, name: str = "") -> str:
        """An id for a block or source inside this one: by name, else a new one by number."""
        if name:
            return f"{self.id}/{name}"
        self.count += 1
        return f"{self.id}/~{self.count}"

    def reads_table(self, source: str, table: exp.Table) -> None:
        """A source is a table, as mentioned."""
        mention = self.names.mention(table)
        self.facts.add("table_at", source, mention)
        self.facts.add("mentions", self.given.statement, mention)

    def holds(self, alias: str, source: str, dotted: Iterable[str] = ()) -> None:
        """A source is in scope under its alias, and under its table's longer names."""
        self.facts.add("source", self.id, source)
        self.sources[alias or source] = source
        for name in dotted:
            self.tables[name] = source

    def read(self, expression: exp.Expr | None, key: str, how: str) -> None:
        """State what an expression refers to, for the output `key` or for the rows."""
        if expression is None:
            return
        for reference in walk(expression, how, self.windows):
            if isinstance(reference, Nested):
                self._nest(reference, key)
            else:
                self._refer(reference, key)

    def find(self, qualifier: tuple[str, ...]) -> str:
        """The source that a qualifier names, the nearest; "" if none does."""
        dotted = ".".join(qualifier)
        for block in self.around():
            source = block.sources.get(dotted) or block.tables.get(dotted)
            if source is not None:
                return source
        return ""

    def _refer(self, reference: Reference, key: str) -> None:
        column, how = reference.column, reference.how
        parts = self.names.parts(column)
        if isinstance(column.this, exp.Star):
            source = self.find(parts[:-1])
            if source:
                self.facts.add("absorbs", self.id, key, source, how)
            return
        source = self.find(parts[:-1]) if len(parts) > 1 else ""
        if source:
            self.facts.add("uses", self.id, key, source, parts[-1], how)
            return
        source = self.find(parts[:1]) if len(parts) > 2 else ""
        if source:  # alias.column.field
            self.facts.add("uses", self.id, key, source, parts[1], how)
            return
        self._ask(parts[0], key, how)  # a bare column, or column.field

    def _ask(self, name: str, key: str, how: str) -> None:
        self.facts.add("asks", self.id, key, name, how)
        if name in self.aliases:
            self.facts.add("alias", self.id, key, name)
        source = self.find((name,))
        if source:
            self.facts.add("row_of", self.id, name, source)

    def _nest(self, nested: Nested, key: str) -> None:
        inner = self.below()
        how = nested.how
        if not nested.tested:
            self.facts.add("embeds", self.id, key, inner, how)
        decides = "condition" if how == "value" and key != ROWS else how
        self.facts.add("embeds_rows", self.id, key, inner, decides)
        self.nested.append((inner, nested.query, self.seen(lateral=True)))


@dataclass(frozen=True, slots=True)
class Reference:
    """A column that an expression names."""

    column: exp.Column
    how: str


@dataclass(frozen=True, slots=True)
class Nested:
    """A query inside an expression; `tested` if only its being empty counts (EXISTS)."""

    query: exp.Expr
    how: str
    tested: bool


def walk(
    expression: exp.Expr, how: str, windows: Mapping[str, exp.Expr]
) -> Iterator[Reference | Nested]:
    """Every reference and nested query of an expression. O(nodes), without recursion.

    `windows` are the block's named windows, by name.
    """
    stack: list[tuple[exp.Expr, str]] = [(expression, how)]
    while stack:
        node, how = stack.pop()
        if isinstance(node, exp.Column):
            if isinstance(node.this, (exp.Identifier, exp.Star)):
                yield Reference(node, how)
            else:  # a pseudo-column such as a parameter
                stack += _children(node, how)
        elif isinstance(node, exp.Exists) and isinstance(node.this, exp.Query):
            yield Nested(node.this, how, tested=True)
        elif isinstance(node, exp.Query):
            yield Nested(node, how, tested=False)
        else:
            stack += _children(node, how)
            if isinstance(node, exp.Window):
                named = windows.get(node.alias.lower())
                if named is not None and named is not node:
                    stack += [(part, _weaker(how, "window")) for part in _of(named, _WINDOW)]


_WINDOW = ("partition_by", "order")
_INDIRECT: Mapping[type[exp.Expr], tuple[tuple[str, ...], str]] = {
    exp.Window: (_WINDOW, "window"),
    exp.Case: (("this",), "condition"),  # its WHENs are Ifs
    exp.If: (("this",), "condition"),
    exp.Filter: (("expression",), "condition"),
}
"""Of some nodes: the parts that are not values, and what they are."""


def _children(node: exp.Expr, how: str) -> list[tuple[exp.Expr, str]]:
    """The parts of a node, each with the part it plays."""
    names, other = _INDIRECT.get(type(node), ((), ""))
    apart = {id(part) for part in _of(node, names)}
    return [
        (part, _weaker(how, other) if id(part) in apart else how)
        for part in node.iter_expressions()
    ]


def _of(node: exp.Expr, names: Iterable[str]) -> list[exp.Expr]:
    parts: list[exp.Expr] = []
    for name in names:
        value = node.args.get(name)
        parts += value if isinstance(value, list) else [value] if value is not None else []
    return [part for part in parts if isinstance(part, exp.Expr)]


def _weaker(how: str, other: str) -> str:
    return other if how == "value" else how


class Names:
    """The names of one file. `schema` is the default schema at the present statement."""

    def __init__(self, dialect: Dialect, facts: Facts) -> None:
        self.dialect, self.facts = dialect, facts
        self.schema = ""

    def fold(self, identifier: exp.Expr | str | None) -> str:
        """The one text of an identifier, however it is spelled; "" for none."""
        if isinstance(identifier, str):
            identifier = exp.to_identifier(identifier)
        if not isinstance(identifier, exp.Identifier):
            return identifier.name if identifier is not None else ""
        folded = self.dialect.normalize_identifier(identifier.copy())
        return str(folded.this)

    def parts(self, node: exp.Table | exp.Column) -> tuple[str, ...]:
        """The folded parts of a table or column, outermost first."""
        return tuple(self.fold(part) for part in node.parts if part.name)

    def define(self, node: exp.Table, kind: str) -> str:
        """The name of a table that a statement creates, stated as a `table`."""
        parts = self.parts(node)
        if len(parts) == 1 and self.schema:
            parts = (*self.schema.split("."), *parts)
        table = ".".join(parts)
        self.facts.add("table", table, kind)
        for tail in tails(table):
            self.facts.add("table_tail", table, tail)
        return table

    def mention(self, node: exp.Table) -> str:
        """State that a table is mentioned; the mention's id."""
        parts = self.parts(node)
        name = ".".join(parts)
        near = self.schema if len(parts) == 1 else ""
        mention = f"{near}>{name}" if near else name
        self.facts.add("mention", mention, name)
        if near:
            self.facts.add("prefers", mention, f"{near}.{name}")
        for tail in tails(name):
            self.facts.add("mention_tail", mention, tail)
        return mention


def tails(name: str) -> list[str]:
    """What is left of a dotted name without its first part, its first two, and so on."""
    parts = name.split(".")
    return [".".join(parts[i:]) for i in range(1, len(parts))]
