"""Types of records, branches, user functors and reducers: terms that declarations give a type.

A record `[x, y]` does not say its type. It is settled when the places it stands in leave one
record type of its width; only then are its fields looked at, outer records before inner ones.
"""

from __future__ import annotations

from dataclasses import replace

from deltafix.diagnostics import Span, suggest
from deltafix.rules.ast import Program
from deltafix.rules.nodes import Node, Unifier
from deltafix.rules.schemas import Schemas
from deltafix.rules.terms import Call, Term, Wildcard


class Constructions(Unifier):
    """Inference of constructed terms; `term` comes from the class that knows all terms."""

    def __init__(self, program: Program, schemas: Schemas, place: Span | None) -> None:
        super().__init__(program, schemas, place)
        constructed = schemas.constructed
        self.records = frozenset(name for name, shape in constructed.items() if "" in shape)
        self.waiting: list[tuple[Call, Node]] = []
        self.settled: dict[int, str] = {}

    def term(self, term: Term) -> Node:
        """The node of a term."""
        raise NotImplementedError

    def want(self, term: Term, kind: str, reason: str) -> None:
        """The term must be of this kind or class, for this reason."""
        if not isinstance(term, Wildcard):
            node = Node("", self.class_of(kind), reason)
            self.unify(self.term(term), node, term.span)

    def construct(self, term: Call) -> Node:
        """A record, a branch, or a user functor."""
        if term.functor[0] == "@":
            return self.declared(term.functor[1:], term.args, term.functor, term.span)
        if term.functor[0] == "$":
            return self.branch(term)
        if term.functor != "[]":  # typed before, by a pass over the rules
            kind = term.functor[1:-1]
            self.fields(term, kind, "")
            return Node("[..]", frozenset((kind,)), f"a {kind}")
        # Which record type it is may be known only later: by its place, or by its width.
        wide = len(term.args)
        fitting = frozenset(t for t in self.records if self.width(t) == wide)
        if not fitting:
            plural = "" if wide == 1 else "s"
            hint = "declare it: `.type name = [field: type, …]`"
            message = f"there is no record type of {wide} field{plural}"
            self.report("DF150", message, term.span, hint)
            return Node("[..]", self.any, "a record")
        node = Node("[..]", fitting, f"a record of {wide}")
        self.waiting.append((term, node))
        return node

    def width(self, record: str) -> int:
        """How many fields a record type has."""
        return len(self.schemas.constructed[record][""])

    def branch(self, term: Call) -> Node:
        """`$name(..)`: its type is the one that declares the branch."""
        kind = self.schemas.branches.get(term.functor[1:])
        if kind is None:
            close = suggest(term.functor[1:], list(self.schemas.branches))
            hint = f"did you mean `${close}`?" if close else "declare it in a `.type`"
            self.report("DF151", f"there is no branch `{term.functor}`", term.span, hint)
            for arg in term.args:
                self.term(arg)
            return Node(term.functor, self.any, f"`{term.functor}`")
        self.fields(term, kind, term.functor[1:])
        return Node(term.functor, frozenset((kind,)), f"branch `{term.functor}`")

    def fields(self, term: Call, kind: str, branch: str) -> None:
        """The fields of a constructor against the declaration of its type."""
        wanted = self.schemas.constructed[kind][branch]
        if len(wanted) != len(term.args):
            plural = "" if len(wanted) == 1 else "s"
            message = f"`{term.functor}` has {len(wanted)} field{plural}, {len(term.args)} given"
            self.report("DF112", message, term.span)
        for arg, (name, inner) in zip(term.args, wanted, strict=False):
            self.want(arg, inner, f"field `{name}` of `{branch or kind}`")

    def settle(self) -> None:
        """Give every record its type; the fields of one may settle others and add inner ones."""
        while self.waiting:
            ready = (i for i, (_, node) in enumerate(self.waiting) if len(self.fits(node)) == 1)
            term, node = self.waiting.pop(next(ready, 0))
            fits = self.fits(node)
            if len(fits) == 1:
                (kind,) = fits
                self.settled[id(term)] = kind
                self.fields(term, kind, "")
            elif "number" not in node.root().allowed:
                hint = f"it fits {' and '.join(sorted(fits))}: bind it by a column or field"
                self.report("DF150", "the type of this record is not known", term.span, hint)

    def fits(self, node: Node) -> frozenset[str]:
        """The record types that a node may still be."""
        return node.root().allowed & self.records

    def named(self, call: Call) -> Call:
        """A record's constructor with the name of its type."""
        if call.functor != "[]":
            return call
        return replace(call, functor=f"[{self.settled.get(id(call), '')}]")

    def declared(self, name: str, args: tuple[Term, ...], shown: str, span: Span | None) -> Node:
        """A functor or reducer of the program: its `.functor` gives the types."""
        functor = self.schemas.functors.get(name)
        if functor is None:
            close = suggest(name, list(self.schemas.functors))
            hint = f"declare it: `.functor {name}(..): ..`"
            hint = f"did you mean `{shown[: -len(name)]}{close}`?" if close else hint
            self.report("DF157", f"the functor `{shown}` is not declared", span, hint)
            for arg in args:
                self.term(arg)
            return Node(shown, self.any, f"the result of `{shown}`")
        arguments, result = functor
        if len(arguments) != len(args):
            plural = "" if len(arguments) == 1 else "s"
            message = f"`{shown}` wants {len(arguments)} argument{plural}, {len(args)} given"
            self.report("DF112", message, span)
        for position, (arg, kind) in enumerate(zip(args, arguments, strict=False)):
            self.want(arg, kind, f"argument {position + 1} of `{shown}`")
        return Node(shown, frozenset((result,)), f"the result of `{shown}`")
