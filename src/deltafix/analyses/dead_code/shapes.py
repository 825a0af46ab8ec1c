"""What a statement, a definition or an expression looks like: questions to a syntax tree.

Invariant: each answer is from the node alone, whatever names mean in it.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator, Sequence

from deltafix.analyses.dead_code.examples import shows_examples
from deltafix.analyses.dead_code.references import dotted_name

_INERT = (
    ast.Name, ast.Attribute, ast.Constant, ast.Tuple, ast.List, ast.Set, ast.Dict, ast.Starred,
    ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Subscript, ast.Slice,
    ast.JoinedStr, ast.FormattedValue,
    ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop,
)  # fmt: skip


def is_inert(value: ast.expr) -> bool:
    """Whether an expression only mentions things, and does nothing when it is evaluated.

    Of a lambda only the defaults are evaluated then.
    """
    nodes: deque[ast.AST] = deque([value])
    while nodes:
        node = nodes.popleft()
        if isinstance(node, ast.Lambda):
            nodes.extend(
                default for default in (*node.args.defaults, *node.args.kw_defaults) if default
            )
        elif isinstance(node, _INERT):
            nodes.extend(ast.iter_child_nodes(node))
        else:
            return False
    return True


def is_test(node: ast.stmt) -> bool:
    """Whether a file named as a test has one: files of that name may also be a test's data."""
    if isinstance(node, ast.If | ast.Try | ast.With):
        return any(is_test(statement) for statement in (*node.body, *getattr(node, "orelse", [])))
    if isinstance(node, ast.ClassDef):
        names = (node.name, *(dotted_name(base) for base in node.bases))
        return node.name.startswith("test") or any("Test" in name for name in names)
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (
        node.name.startswith(("test", "pytest_")) or shows_examples(ast.get_docstring(node))
    )


def acts(node: ast.stmt) -> bool:
    """Whether a statement of a module does something by itself."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call | ast.Await)
    return isinstance(node, ast.For | ast.While | ast.With)


def calls_own(body: Sequence[ast.stmt]) -> bool:
    """Whether statements of a module call what it defines, as `main()` at its end does."""
    own: set[str] = set()
    flat = deque(body)
    called: set[str] = set()
    while flat:
        node = flat.popleft()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            own.add(node.name)
        elif isinstance(node, ast.If | ast.Try | ast.TryStar):
            flat.extend(node.body + node.orelse + getattr(node, "finalbody", []))
        elif acts(node):
            calls = (call.func for call in ast.walk(node) if isinstance(call, ast.Call))
            called.update(dotted_name(func).partition(".")[0] for func in calls)
    return not own.isdisjoint(called)


def alternatives(body: Sequence[ast.stmt]) -> Iterator[str]:
    """Names that a module imports in two branches of one statement: it offers them to others."""
    for node in body:
        seen: set[str] = set()
        for branch in _branches(node):
            imports = [statement for statement in branch if isinstance(statement, ast.ImportFrom)]
            names = {
                alias.asname or alias.name for statement in imports for alias in statement.names
            }
            yield from names & seen
            seen |= names


def _branches(node: ast.stmt) -> Iterator[Sequence[ast.stmt]]:
    """What `if … elif … else` or `try … except` runs one of."""
    if isinstance(node, ast.Try | ast.TryStar):
        yield node.body + node.orelse
        yield from (handler.body for handler in node.handlers)
    elif isinstance(node, ast.If):
        yield node.body
        match node.orelse:
            case [ast.If() as following]:
                yield from _branches(following)
            case _:
                yield node.orelse


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def warns(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, telling: frozenset[str]
) -> bool:
    """Whether a definition says that it is deprecated: it is there for importers only."""
    if "deprecated" in (ast.get_docstring(node) or "").lower():
        return True
    does = [statement for statement in node.body if not _is_text(statement)]
    match does[:1]:
        case [ast.Expr(value=ast.Call(func=called))] if dotted_name(called).endswith("warn"):
            return True  # "… is obsolete, use …"
    return not telling <= ABSTRACT | UNFINISHED


def is_example(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    """Whether a definition that is called a test is a docstring with examples, and nothing else."""
    does = [statement for statement in node.body if not isinstance(statement, ast.Expr | ast.Pass)]
    return "test" in node.name and not does and shows_examples(ast.get_docstring(node))


ABSTRACT = frozenset({"ABC", "ABCMeta", "Protocol", "abstractmethod", "abstractproperty"})
"""What makes a class abstract, or marks a method as that."""

UNFINISHED = frozenset({"NotImplementedError"})
"""What says that something is for heirs to do."""


def telling(node: ast.AST) -> frozenset[str]:
    """Names anywhere in a node that say for whom it is: those above, and what is `deprecated`."""
    names = {
        inner.id if isinstance(inner, ast.Name) else inner.attr
        for inner in ast.walk(node)
        if isinstance(inner, ast.Name | ast.Attribute)
    }
    return frozenset(
        name for name in names if name in ABSTRACT | UNFINISHED or "deprecat" in name.lower()
    )


def checks(node: ast.stmt) -> bool:
    """Whether a statement in the body of a class does something by itself."""
    return isinstance(node, ast.Assert) or (isinstance(node, ast.Expr) and acts(node))


def shows_call(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    """Whether a definition's own text shows how somebody calls it: `shop.total(1)`."""
    text = ast.get_docstring(node) or ""
    return f".{node.name}(" in text


def only_imports(node: ast.stmt) -> bool:
    """Whether a statement of a module adds nothing to what the module imports."""
    if isinstance(node, ast.Assign):
        return isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__"
    if isinstance(node, ast.If | ast.Try):
        return all(only_imports(statement) for statement in (*node.body, *node.orelse))
    return isinstance(node, ast.Import | ast.ImportFrom | ast.Pass) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    )


def takes_names(node: ast.stmt) -> bool:
    """Whether a statement imports names from a module."""
    return isinstance(node, ast.ImportFrom) and node.module != "__future__"


def targets(node: ast.stmt) -> Iterator[ast.Name]:
    """The plain names that an assignment statement binds."""
    if isinstance(node, ast.Assign):
        stack: list[ast.expr] = list(node.targets)
    elif isinstance(node, ast.AnnAssign):
        stack = [node.target]
    else:
        return
    while stack:
        target = stack.pop()
        if isinstance(target, ast.Name):
            yield target
        elif isinstance(target, ast.Tuple | ast.List):
            stack.extend(target.elts)
        elif isinstance(target, ast.Starred):
            stack.append(target.value)


def is_unpacked(node: ast.Assign | ast.AnnAssign) -> bool:
    """Whether names get the parts of one value: `_, width = size()`."""
    return (
        isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Tuple | ast.List)
        and not isinstance(node.value, ast.Tuple | ast.List)
    )


def is_main_guard(test: ast.expr) -> bool:
    """Whether a test is `__name__ == "__main__"`."""
    if not isinstance(test, ast.Compare) or len(test.comparators) != 1:
        return False
    sides = [test.left, test.comparators[0]]
    named = any(isinstance(s, ast.Name) and s.id == "__name__" for s in sides)
    return named and any(isinstance(s, ast.Constant) and s.value == "__main__" for s in sides)
