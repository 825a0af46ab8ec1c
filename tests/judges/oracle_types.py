"""Base types of a rule's variables, as the oracle finds them: it wraps and compares by them.

Invariant: found from columns, fields and functors along equalities; deltafix's inference is not
looked at.
"""

from __future__ import annotations

from deltafix.rules.ast import BASES, And, Atom, Comparison, Formula, Not, Or, Program, TypeDecl
from deltafix.rules.terms import Aggregate, Call, Const, Term, Var

__all__ = ["Kinds"]


def branch_type(program: Program, name: str) -> TypeDecl:
    """The type that declares a branch."""
    return next(t for t in program.types if any(b.name == name for b in t.branches))


RESULT = {
    "strlen": "number",
    "ord": "number",
    "to_number": "number",
    "to_unsigned": "unsigned",
    "to_float": "float",
    "to_string": "symbol",
    "cat": "symbol",
    "substr": "symbol",
}


class Kinds:
    """Base types of a rule's variables: from columns, then along equalities and operators."""

    def __init__(self, program: Program, parts: tuple[Formula, ...]) -> None:
        self.program = program
        self.types: dict[str, str] = {}
        while True:
            before = dict(self.types)
            for part in parts:
                self.visit(part)
            if self.types == before:
                return

    def visit(self, node: object) -> None:
        match node:
            case Atom(relation, args):
                columns = self.program.relation(relation).attributes
                for arg, column in zip(args, columns, strict=True):
                    self.push(arg, self.program.kind(column.type))
            case Comparison(op, left, right):
                text = op in ("match", "contains")
                kind = "symbol" if text else self.of(left) or self.of(right)
                self.push(left, kind)
                self.push(right, kind)
            case And(parts) | Or(parts):
                for part in parts:
                    self.visit(part)
            case Not(body):
                self.visit(body)

    def push(self, term: Term, kind: str | None) -> None:
        match term:
            case Var(name) if kind:
                self.types.setdefault(name, kind)
            case Call(functor, _) if functor[0] in "[$@":
                self.fields(term, kind)
            case Call("as", (inner, Const(name))) if self.program.kind(name) not in BASES:
                self.push(inner, self.program.kind(name))
            case Call(functor, args):
                inner = None if functor == "as" or functor in RESULT else kind or self.of(term)
                for arg in args:
                    self.push(arg, inner)
            case Aggregate(op, target, body):
                self.visit(body)
                if target is not None:
                    self.push(target, kind if op != "mean" else None)

    def fields(self, term: Call, kind: str | None) -> None:
        """The types of a constructor's fields, or of a user functor's arguments."""
        if term.functor[0] == "@":
            wanted = self.program.declared_functor(term.functor[1:]).arguments
        elif term.functor[0] == "$":
            declared = branch_type(self.program, term.functor[1:])
            wanted = next(b.fields for b in declared.branches if b.name == term.functor[1:])
        elif kind:
            wanted = self.program.declared_type(kind).branches[0].fields
        else:
            wanted = ()
        for arg, field in zip(term.args, wanted, strict=False):
            self.push(arg, self.program.kind(field.type))

    def of(self, term: Term | None) -> str | None:
        match term:
            case Var(name):
                return self.types.get(name)
            case Const(_, kind):
                return kind
            case Call("as", (_, Const(name))):
                return self.program.kind(name)
            case Call(functor, _) if functor[0] == "$":
                return branch_type(self.program, functor[1:]).name
            case Call(functor, _) if functor[0] == "[":
                return None
            case Call(functor, _) if functor[0] == "@":
                return self.program.kind(self.program.declared_functor(functor[1:]).result)
            case Aggregate(op) if op.startswith("@@"):
                return self.program.kind(self.program.declared_functor(op[2:]).result)
            case Call(functor, _) if functor in RESULT:
                return RESULT[functor]
            case Call(_, args):
                return next((kind for kind in map(self.of, args) if kind), None)
            case Aggregate("count"):
                return "number"
            case Aggregate("mean"):
                return "float"
            case Aggregate(_, target):
                return self.of(target)
        return None
