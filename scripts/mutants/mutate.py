"""What is changed: every small change of a source file that a test should notice.

A mutant is one replaced piece of text, found by the syntax tree: a comparison, an operator, a
constant, a branch, a statement left out, a procedure left at once. Its name is a hash of what it
changes and not of where, so it stays the same while lines move.

Not changed, because no test could or should notice: docstrings, annotations, decorators, the text
of errors, `__repr__`, capital names of numbers (layout offsets and sizes that only tune), and what
fires only on a mistake of our own (asserts, `InternalError`, `strict=`, `check_invariants`).
"""

from __future__ import annotations

import ast
import difflib
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Mutant", "mutants_of", "sample"]

_COMPARE: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
_ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "+"),
    ast.Pow: ("**", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.BitXor: ("^", "|"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
_CANNOT_FAIL = frozenset({"strict", "stacklevel", "repr", "slots", "frozen"})
_NOT_SEEN = frozenset({"__repr__", "check_invariants", "check_fact"})


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change: the bytes from `start` to `end` of `path` become `after`.

    `lines` is the range of lines whose execution means that a test may notice.
    """

    path: str
    function: str
    kind: str
    start: int
    end: int
    before: str
    after: str
    lines: tuple[int, int]
    name: str

    def apply(self, source: bytes) -> bytes:
        """The file with the change made."""
        return source[: self.start] + self.after.encode() + source[self.end :]

    def changed_lines(self, source: bytes) -> tuple[str, str]:
        """The changed lines before and after, without their indentation."""
        first = source.rfind(b"\n", 0, self.start) + 1
        after = source.find(b"\n", self.end)
        old = source[first:after]
        new = source[first : self.start] + self.after.encode() + source[self.end : after]
        stripped = ("\n".join(map(str.strip, text.decode().splitlines())) for text in (old, new))
        return next(stripped), next(stripped)

    def diff(self, source: bytes) -> str:
        """The change as a unified diff."""
        old, new = (text.decode().splitlines() for text in (source, self.apply(source)))
        return "\n".join(difflib.unified_diff(old, new, self.path, self.path, lineterm="", n=2))


class _Finder(ast.NodeVisitor):
    """Walks a module and lists `(kind, start, end, after, statement)`."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.found: list[tuple[str, str, int, int, str, tuple[int, int]]] = []
        self._inside: list[str] = []
        self._statement: ast.stmt | None = None

    # where things are

    def _from(self, node: ast.expr | ast.stmt) -> int:
        return self.starts[node.lineno - 1] + node.col_offset

    def _to(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.starts[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.expr) -> str:
        return self.source[self._from(node) : self._to(node)].decode()

    def _add(self, kind: str, start: int, end: int, after: str) -> None:
        statement = self._statement
        assert statement is not None
        last = statement.end_lineno or statement.lineno
        if isinstance(statement, ast.If | ast.For | ast.While | ast.With | ast.Try):
            last = max(statement.lineno, statement.body[0].lineno - 1)
        where = ".".join(self._inside) or "<module>"
        self.found.append((where, kind, start, end, after, (statement.lineno, last)))

    def _swap(self, kind: str, left: ast.expr, right: ast.expr, old: str, new: str) -> None:
        start, end = self._to(left), self._from(right)
        between = self.source[start:end].decode()
        if "#" in between or between.count(old) != 1:
            return
        self._add(kind, start, end, between.replace(old, new))

    def _drop(self, node: ast.stmt) -> None:
        self._add("statement removed", self._from(node), self._to(node), "pass")

    # what is entered

    def visit(self, node: ast.AST) -> None:
        """As usual; statements are remembered for what is found in them."""
        if isinstance(node, ast.stmt):
            outer, self._statement = self._statement, node
            super().visit(node)
            self._statement = outer
        else:
            super().visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name in _NOT_SEEN:
            return
        self._inside.append(node.name)
        body = node.body
        if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            body = body[1:]
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        gives = any(
            isinstance(inner, ast.Yield | ast.YieldFrom)
            or (isinstance(inner, ast.Return) and inner.value is not None)
            for inner in ast.walk(node)
        )
        if len(body) > 1 and not gives:
            self._statement = body[0]
            self._add("left at once", self._from(body[0]), self._to(body[0]), "return")
        for statement in body:
            self.visit(statement)
        self._inside.pop()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._inside.append(node.name)
        for statement in node.body:
            self.visit(statement)
        self._inside.pop()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if self._inside and node.value is not None:
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        target = node.targets[0]
        if not self._inside and isinstance(target, ast.Name | ast.Tuple):
            return  # offsets, sizes, tables of names
        if isinstance(target, ast.Attribute | ast.Subscript):
            self._drop(node)
        self.visit(node.value)

    def visit_Assert(self, node: ast.Assert) -> None:
        pass

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        pass

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg not in _CANNOT_FAIL:
            self.visit(node.value)

    def visit_If(self, node: ast.If) -> None:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        self._negate(node.test)
        self.generic_visit(node)

    # what is changed

    def _negate(self, test: ast.expr) -> None:
        if not isinstance(test, ast.Compare) or len(test.ops) > 1:
            start, end = self._from(test), self._to(test)
            self._add("branches swapped", start, end, f"not ({self._text(test)})")

    def visit_Raise(self, node: ast.Raise) -> None:
        error = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        if not (isinstance(error, ast.Name) and error.id == "InternalError"):
            self._drop(node)

    def visit_Continue(self, node: ast.Continue) -> None:
        self._drop(node)

    def visit_Break(self, node: ast.Break) -> None:
        self._drop(node)

    def visit_Delete(self, node: ast.Delete) -> None:
        self._drop(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None:
            self._drop(node)
        else:
            self.visit(node.value)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self._drop(node)
            self.visit(node.value)
        elif not isinstance(node.value, ast.Constant):
            self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._drop(node)
        old, new = _ARITHMETIC.get(type(node.op), ("", ""))
        if old:
            self._swap("arithmetic", node.target, node.value, old + "=", new + "=")
        self.visit(node.value)

    def visit_Compare(self, node: ast.Compare) -> None:
        left = node.left
        for op, right in zip(node.ops, node.comparators, strict=True):
            self._swap("comparison", left, right, *_COMPARE[type(op)])
            left = right
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        texts = [n for n in (node.left, node.right) if isinstance(n, ast.JoinedStr)]
        texts += [
            n
            for n in (node.left, node.right)
            if isinstance(n, ast.Constant) and isinstance(n.value, str | bytes)
        ]
        if not texts and type(node.op) in _ARITHMETIC:
            self._swap("arithmetic", node.left, node.right, *_ARITHMETIC[type(node.op)])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._swap("and/or", left, right, old, new)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._add("not removed", self._from(node), self._from(node) + len("not "), "")
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._add("filter dropped", self._from(test), self._to(test), "True")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self._add("constant", self._from(node), self._to(node), str(not value))
        elif isinstance(value, int):
            self._add("constant", self._from(node), self._to(node), str(value + 1))


def mutants_of(root: Path, path: str) -> Iterator[Mutant]:
    """The mutants of one file, in the order of its text.

    Args:
        root: the folder of the tree.
        path: the file, from there.
    """
    source = (root / path).read_bytes()
    tree = ast.parse(source)
    finder = _Finder(source)
    for statement in tree.body:
        finder.visit(statement)
    seen: Counter[str] = Counter()
    for function, kind, start, end, after, lines in sorted(finder.found, key=lambda f: f[2:5]):
        before = source[start:end].decode()
        around = source[finder.starts[lines[0] - 1] : finder.starts[lines[1]]].decode()
        what = "\0".join((path, function, kind, around, before, after))
        seen[what] += 1
        name = hashlib.sha256(f"{what}\0{seen[what]}".encode()).hexdigest()[:10]
        yield Mutant(path, function, kind, start, end, before, after, lines, name)


def sample(mutants: list[Mutant], size: int, seed: int) -> list[Mutant]:
    """`size` of them, by a hash of seed and name: the same while the code they change is."""
    return sorted(mutants, key=lambda m: hashlib.sha256(f"{seed}\0{m.name}".encode()).hexdigest())[
        :size
    ]
