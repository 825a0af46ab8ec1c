"""Terms to text that the reader reads back as the same term.

Invariant: `read(show(t))` is `t`, up to the names of variables. No recursion.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

from deltafix.tabling.operators import STANDARD, OperatorTable
from deltafix.tabling.terms import NIL, Atom, Float, Int, String, Struct, Term, Var, list_items

_PLAIN = re.compile(r"(?:[^\W\d_A-Z]\w*|[+\-*/\\^<>=~:.?@#&$]+|\[\]|\{\}|!|;)\Z")
_ALPHA = re.compile(r"\w")
_SYMBOL = re.compile(r"[+\-*/\\^<>=~:.?@#&$]")
_ESCAPED = {"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0\\"}


def quoted(text: str, quote: str) -> str:
    """`text` between quotes, escaped as the lexer unescapes it."""
    body = "".join(_ESCAPED.get(c, "\\" + c if c == quote else c) for c in text)
    return f"{quote}{body}{quote}"


def show_atom(name: str) -> str:
    """An atom's name, quoted where the reader would not take it bare."""
    return name if _PLAIN.match(name) and name != "." else quoted(name, "'")


def variable_name(index: int) -> str:
    """The name of a variable by number: A to Z, then A1, B1 and so on."""
    letter = chr(ord("A") + index % 26)
    return letter if index < 26 else f"{letter}{index // 26}"


def _leaf(term: Term, names: Sequence[str]) -> str:
    if isinstance(term, Var):
        named = names[term.index] if term.index < len(names) else variable_name(term.index)
        return f"_{term.index}" if named == "_" else named
    if isinstance(term, Int):
        return str(term.value)
    if isinstance(term, Float):
        text = repr(term.value)
        return text if "." in text or "n" in text else text.replace("e", ".0e")
    if isinstance(term, String):
        return quoted(term.value, '"')
    return show_atom(cast("Atom", term).name)


def show(term: Term, names: Sequence[str] = (), operators: OperatorTable = STANDARD) -> str:
    """The text of a term. `names[i]` names variable i; others are named A, B, … by number.

    Complexity: O(size of the text).
    """
    out: list[str] = []
    work: list[tuple[Term, int] | str] = [(term, 1200)]
    while work:
        item = work.pop()
        if isinstance(item, str):
            _append(out, item)
            continue
        top, limit = item
        if not isinstance(top, Struct):
            text = _leaf(top, names)
            _append(out, f"({text})" if _misread(top, limit, operators) else text)
        elif top.name == "." and len(top.args) == 2:
            items, tail = list_items(top)
            parts: list[tuple[Term, int] | str] = ["["]
            for position, element in enumerate(items):
                parts += [", ", (element, 999)] if position else [(element, 999)]
            if tail is not NIL:
                parts += [" | ", (tail, 999)]
            work.extend(reversed([*parts, "]"]))
        else:
            work.extend(reversed(_compound(top, limit, operators)))
    return "".join(out)


def _misread(leaf: Term, limit: int, operators: OperatorTable) -> bool:
    """Whether a leaf would be taken for an operator or its operand where `limit` holds."""
    if isinstance(leaf, Atom):
        operand = limit not in (999, 1200)  # neither an argument nor a whole term
        return (leaf.name in operators.infix and limit < 1200) or (
            leaf.name in operators.prefix and operand
        )
    return isinstance(leaf, Int | Float) and str(leaf.value)[0] == "-" and limit < 999


def _append(out: list[str], text: str) -> None:
    """Append, with a blank where two tokens would run into one."""
    if out and text and out[-1]:
        left, right = out[-1][-1], text[0]
        runs = (_ALPHA.match(left) and _ALPHA.match(right)) or (
            _SYMBOL.match(left) and _SYMBOL.match(right)
        )
        if runs:
            out.append(" ")
    out.append(text)


def _compound(term: Struct, limit: int, operators: OperatorTable) -> list[tuple[Term, int] | str]:
    infix = operators.infix.get(term.name) if len(term.args) == 2 else None
    if infix is not None and infix.right:
        name = show_atom(term.name) if term.name not in (",", "|") else term.name
        separator = ", " if name == "," else f" {name} "
        parts: list[tuple[Term, int] | str] = [
            (term.args[0], infix.left), separator, (term.args[1], infix.right),
        ]  # fmt: skip
        return ["(", *parts, ")"] if infix.priority > limit else parts
    prefix = operators.prefix.get(term.name) if len(term.args) == 1 else None
    if prefix is not None:
        parts = [f"{show_atom(term.name)} ", (term.args[0], prefix.right)]
        return ["(", *parts, ")"] if prefix.priority > limit else parts
    if term.name == "{}" and len(term.args) == 1:
        return ["{", (term.args[0], 1200), "}"]
    bracketed = term.name in ("[]", "{}")  # tokens of their own, no names that take arguments
    name = quoted(term.name, "'") if bracketed else show_atom(term.name)
    parts = [f"{name}("]
    for position, argument in enumerate(term.args):
        parts += [", ", (argument, 999)] if position else [(argument, 999)]
    return [*parts, ")"]
