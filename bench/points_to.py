"""Facts for Andersen's points-to analysis out of preprocessed C, read with pycparser.

Lives here: `extract`, which turns statements into rows of eight relations over integers. A node
is a variable, a temporary, a function, a string or an allocation site; a variable and the memory
it names are one node; structs and arrays are one node each (field-insensitive).

    addr(p, o)       p = &o              arg(site, i, a)    argument i of a call
    copy(p, q)       p = q               result(site, r)    what a call returns is put into r
    load(p, q)       p = *q              param(f, i, p)     parameter i of function f
    store(p, q)      *p = q              ret(f, q)          a value f returns
    dcall(site, f)   a call by name      icall(site, v)     a call through a pointer

Source: Andersen, "Program Analysis and Specialization for the C Programming Language" (1994),
with the call graph found on the fly. Invariant: the rows are a function of the sources alone.
Not here: library functions' effects, beyond allocators (a fresh object for each call).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from pycparser import c_ast, c_parser

from bench.graphs import Ints

__all__ = ["RULES", "Extractor", "extract"]

RULES = """
assign(p, q) :- copy(p, q).
callee(s, f) :- dcall(s, f).
callee(s, f) :- icall(s, v), pt(v, f).
assign(p, a) :- callee(s, f), arg(s, i, a), param(f, i, p).
assign(r, q) :- callee(s, f), result(s, r), ret(f, q).
pt(p, o) :- addr(p, o).
pt(p, o) :- assign(p, q), pt(q, o).
pt(p, o) :- load(p, q), pt(q, r), pt(r, o).
pt(r, o) :- store(p, q), pt(p, r), pt(q, o).
"""

RELATIONS = {
    "addr": 2,
    "copy": 2,
    "load": 2,
    "store": 2,
    "dcall": 2,
    "icall": 2,
    "arg": 3,
    "param": 3,
    "result": 2,
    "ret": 2,
}

_ALLOCATORS = {"malloc", "calloc", "realloc", "strdup"}
_POINTERLESS = {"<", ">", "<=", ">=", "==", "!=", "&&", "||", "*", "/", "%", "<<", ">>"}

Node = int


class Extractor:
    """Collects rows over any number of translation units. One `add` per unit, then `rows`."""

    def __init__(self) -> None:
        self._ids: dict[object, Node] = {}
        self._rows: dict[str, set[tuple[int, ...]]] = {name: set() for name in RELATIONS}
        self._scopes: list[dict[str, tuple[str, object]]] = [{}]
        self._function: Node | None = None
        self._unit = ""
        self._made = 0

    def add(self, unit: str, tree: Any) -> None:
        """Read one parsed translation unit; names with external linkage are shared."""
        self._unit, self._scopes = unit, [{}]
        for item in tree.ext:
            if isinstance(item, c_ast.FuncDef):
                self._declare(item.decl)
        for item in tree.ext:
            self._visit(item)

    def rows(self) -> dict[str, Ints]:
        """Relation to sorted rows, int64 of shape (n, arity)."""
        return {
            name: np.array(sorted(self._rows[name]), np.int64).reshape(-1, arity)
            for name, arity in RELATIONS.items()
        }

    # -- names -------------------------------------------------------------------------------

    def _id(self, key: object) -> Node:
        return self._ids.setdefault(key, len(self._ids))

    def _temp(self) -> Node:
        self._made += 1
        return self._id(("temp", self._made))

    def _row(self, relation: str, *row: int) -> None:
        self._rows[relation].add(row)

    def _declare(self, decl: Any) -> None:
        """Put a name into the innermost scope with its kind: function, array or variable."""
        if decl.name is None or "typedef" in (decl.storage or ()):
            return
        kind = {c_ast.FuncDecl: "function", c_ast.ArrayDecl: "array"}.get(type(decl.type), "var")
        outer = len(self._scopes) == 1
        if outer or kind == "function" or "extern" in decl.storage:
            key: object = (self._unit if "static" in decl.storage else "", decl.name)
            if kind == "function" and decl.name in self._scopes[0]:
                return  # a later prototype must not undo `static`
            self._scopes[0 if kind == "function" else -1][decl.name] = (kind, key)
        else:
            self._made += 1
            self._scopes[-1][decl.name] = (kind, (self._unit, self._made, decl.name))

    def _look(self, name: str) -> tuple[str, Node] | None:
        for scope in reversed(self._scopes):
            if name in scope:
                kind, key = scope[name]
                return kind, self._id(key)
        return None

    # -- statements --------------------------------------------------------------------------

    def _visit(self, node: Any) -> None:
        """Walk declarations and statements; expressions go to `_value`."""
        match node:
            case c_ast.FuncDef():
                self._define(node)
            case c_ast.Decl():
                self._declare(node)
                if node.init is not None and node.name is not None:
                    target = self._look(node.name)
                    value = self._value(node.init)
                    if target is not None and value is not None:
                        self._row("copy", target[1], value)
            case c_ast.Compound() | c_ast.For():
                self._scopes.append({})
                for _, child in node.children():
                    self._visit(child)
                self._scopes.pop()
            case c_ast.Return():
                value = None if node.expr is None else self._value(node.expr)
                if value is not None and self._function is not None:
                    self._row("ret", self._function, value)
            case c_ast.Typedef():
                pass
            case _ if type(node).__name__ in _EXPRESSIONS:
                self._value(node)
            case _:
                for _, child in node.children():
                    self._visit(child)

    def _define(self, node: Any) -> None:
        found = self._look(node.decl.name)
        assert found is not None
        self._function = found[1]
        self._scopes.append({})
        params = node.decl.type.args.params if node.decl.type.args else []
        for old in node.param_decls or []:
            self._declare(old)
        for place, param in enumerate(params):
            name = getattr(param, "name", None)
            if name is None or isinstance(param, c_ast.EllipsisParam):
                continue
            self._made += 1
            # A parameter of array type is a pointer: always "var".
            self._scopes[-1][name] = ("var", (self._unit, self._made, name))
            self._row("param", self._function, place, self._look(name)[1])  # type: ignore[index]
        self._visit(node.body)
        self._scopes.pop()
        self._function = None

    # -- expressions -------------------------------------------------------------------------

    def _join(self, values: Iterable[Node | None]) -> Node | None:
        """A node that may hold any of the values (None: no pointer among them)."""
        nodes = [v for v in values if v is not None]
        if len(nodes) <= 1:
            return nodes[0] if nodes else None
        joined = self._temp()
        for node in nodes:
            self._row("copy", joined, node)
        return joined

    def _address_of(self, target: Node) -> Node:
        pointer = self._temp()
        self._row("addr", pointer, target)
        return pointer

    def _loaded(self, pointer: Node | None) -> Node | None:
        if pointer is None:
            return None
        value = self._temp()
        self._row("load", value, pointer)
        return value

    def _value(self, e: Any) -> Node | None:
        """The node an expression's value is in, or None if it cannot be a pointer."""
        match e:
            case None:
                return None
            case c_ast.ID():
                found = self._look(e.name)
                if found is None:
                    return None
                return found[1] if found[0] == "var" else self._address_of(found[1])
            case c_ast.Constant():
                if e.type != "string":
                    return None
                self._made += 1
                return self._address_of(self._id(("string", self._made)))
            case c_ast.UnaryOp():
                return self._unary(e)
            case c_ast.BinaryOp():
                both = (self._value(e.left), self._value(e.right))
                return None if e.op in _POINTERLESS else self._join(both)
            case c_ast.Assignment():
                value = self._value(e.rvalue)
                self._assign(e.lvalue, value)
                return value if e.op == "=" else self._value(e.lvalue)
            case c_ast.TernaryOp():
                self._value(e.cond)
                return self._join((self._value(e.iftrue), self._value(e.iffalse)))
            case c_ast.Cast():
                return self._value(e.expr)
            case c_ast.ArrayRef():
                self._value(e.subscript)
                return self._loaded(self._value(e.name))
            case c_ast.StructRef():
                inner = self._value(e.name)
                return inner if e.type == "." else self._loaded(inner)
            case c_ast.FuncCall():
                return self._call(e)
            case c_ast.ExprList():
                return [self._value(part) for part in e.exprs][-1]
            case c_ast.InitList():
                return self._join([self._value(part) for part in e.exprs or []])
            case c_ast.NamedInitializer():
                return self._value(e.expr)
            case c_ast.CompoundLiteral():
                return self._value(e.init)
            case _:
                return None

    def _unary(self, e: Any) -> Node | None:
        if e.op == "&":
            return self._address(e.expr)
        if e.op == "sizeof":
            return None
        inner = self._value(e.expr)
        if e.op == "*":
            return self._loaded(inner)
        return inner if e.op in ("++", "--", "p++", "p--") else None

    def _address(self, e: Any) -> Node | None:
        """The node that holds `&e`."""
        match e:
            case c_ast.ID():
                found = self._look(e.name)
                return None if found is None else self._address_of(found[1])
            case c_ast.StructRef() if e.type == ".":
                return self._address(e.name)
            case c_ast.StructRef() | c_ast.ArrayRef():
                return self._value(e.name)
            case c_ast.UnaryOp() if e.op == "*":
                return self._value(e.expr)
            case c_ast.Cast():
                return self._address(e.expr)
            case _:
                return self._value(e)

    def _assign(self, target: Any, value: Node | None) -> None:
        match target:
            case c_ast.ID():
                found = self._look(target.name)
                if found is not None and value is not None:
                    self._row("copy", found[1], value)
            case c_ast.StructRef() if target.type == ".":
                self._assign(target.name, value)
            case c_ast.StructRef() | c_ast.ArrayRef():
                self._put(self._value(target.name), value)
            case c_ast.UnaryOp():
                self._put(self._value(target.expr), value)
            case c_ast.Cast():
                self._assign(target.expr, value)

    def _put(self, pointer: Node | None, value: Node | None) -> None:
        if pointer is not None and value is not None:
            self._row("store", pointer, value)

    def _call(self, e: Any) -> Node | None:
        values = [self._value(a) for a in (e.args.exprs if e.args else [])]
        callee = e.name
        while isinstance(callee, c_ast.UnaryOp) and callee.op == "*":
            callee = callee.expr  # (*f)(x) and f(x) are the same call
        self._made += 1
        site, result = self._id(("site", self._made)), self._temp()
        found = self._look(callee.name) if isinstance(callee, c_ast.ID) else None
        if isinstance(callee, c_ast.ID) and callee.name in _ALLOCATORS:
            self._row("addr", result, self._id(("heap", self._made)))
            return self._join((result, values[0])) if callee.name == "realloc" else result
        if found is not None and found[0] == "function":
            self._row("dcall", site, found[1])
        else:
            pointer = self._value(callee)
            if pointer is None:
                return None
            self._row("icall", site, pointer)
        for place, value in enumerate(values):
            if value is not None:
                self._row("arg", site, place, value)
        self._row("result", site, result)
        return result


_EXPRESSIONS = {
    *("ID", "Constant", "UnaryOp", "BinaryOp", "Assignment", "TernaryOp", "Cast", "ArrayRef"),
    *("StructRef", "FuncCall", "ExprList", "InitList", "CompoundLiteral"),
}


def extract(units: Iterable[tuple[str, Path]]) -> tuple[dict[str, Ints], int, int]:
    """Rows per relation, units read, and units pycparser could not parse."""
    extractor = Extractor()
    read = failed = 0
    for name, path in units:
        try:
            tree = c_parser.CParser().parse(path.read_text(errors="replace"), name)
        except Exception:  # the parser raises its own and AssertionError; count it, go on
            failed += 1
            continue
        extractor.add(name, tree)
        read += 1
    return extractor.rows(), read, failed
