"""Tokens to clauses: an operator-precedence reader that never recurses.

A text is read clause by clause into `ReadClause`s: a term, the names of its variables, and a tree
of extents along its operators, so that a later error can point at one literal. Invariant: open
brackets and pending operators live on explicit stacks, so nesting is bounded by memory only.
Directives are read here and acted upon in `load`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from deltafix.diagnostics import Diagnostic, Span, render
from deltafix.errors import PrologError
from deltafix.tabling.lexer import Source, Token, tokenize
from deltafix.tabling.operators import Operator, OperatorTable
from deltafix.tabling.terms import (
    NIL,
    Term,
    atom,
    floating,
    integer,
    list_of,
    string,
    struct,
    var,
)

_MOST_DIGITS = 4300
"""Python reads no longer decimal numbers: the work grows with the square."""

_CLOSERS = {")": "(", "]": "[", "}": "{"}


class Extent(NamedTuple):
    """Where a term stands; `parts` are the extents of an operator's operands, left to right."""

    start: int
    end: int
    parts: tuple[Extent, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadClause:
    """One clause: its term, variable names by number, its extent, and the text it is from."""

    term: Term
    names: tuple[str, ...]
    extent: Extent
    source: Source = field(compare=False, repr=False)

    def span(self, extent: Extent | None = None) -> Span:
        """The span of a part of the clause, or of all of it."""
        at = extent or self.extent
        return self.source.span(at.start, at.end)

    def problem(
        self,
        message: str,
        fix: str | None,
        extent: Extent | None = None,
        kind: type[PrologError] = PrologError,
    ) -> PrologError:
        """The error for a part of the clause, or for all of it, with the text it speaks of."""
        diagnostic = Diagnostic(kind.code, message, self.span(extent), fix)
        return kind(render(diagnostic, self.source.text), [diagnostic])


class _Operand(NamedTuple):
    term: Term
    priority: int
    extent: Extent


class _Pending(NamedTuple):
    operator: Operator
    token: Token
    prefix: bool


class _Context:
    """One open bracket (or the clause itself): what is being collected inside it.

    `functor` is the name token of a compound term, in whose arguments this is.
    """

    __slots__ = ("functor", "items", "opener", "operands", "operators", "start", "tail")

    def __init__(self, opener: str, start: int, functor: Token | None = None) -> None:
        self.opener = opener
        self.start = start
        self.functor = functor
        self.items: list[Term] = []
        self.tail: Term | None = None
        self.operands: list[_Operand] = []
        self.operators: list[_Pending] = []


class _Reader:
    def __init__(self, source: Source, operators: OperatorTable) -> None:
        self.source = source
        self.operators = operators
        self.variables: dict[str, int] = {}
        self.names: list[str] = []

    # -- one clause -----------------------------------------------------------------------------

    def read(self, tokens: list[Token]) -> _Operand:
        """Read one clause from its tokens, the end token left out."""
        self.variables = {}
        self.names = []
        stack = [_Context("", tokens[0].start)]
        wants_operand = True
        at = 0
        while at < len(tokens):
            token = tokens[at]
            context = stack[-1]
            if wants_operand:
                used, wants_operand = self._operand(stack, token, tokens[at + 1 : at + 3])
                at += used
            else:
                following = tokens[at + 1] if at + 1 < len(tokens) else None
                wants_operand = self._operator(stack, context, token, following)
                at += 1
        end = tokens[-1].end
        if len(stack) > 1:
            unclosed = stack[-1]
            raise self.source.problem(
                f"{unclosed.opener} is never closed", unclosed.start, unclosed.start + 1
            )
        if wants_operand:
            raise self.source.problem("the clause ends where a term is expected", end, end + 1)
        return self._finish(stack[0])

    def _operand(self, stack: list[_Context], token: Token, ahead: list[Token]) -> tuple[int, bool]:
        """Take a token where a term may start; returns tokens used and whether one is still due.

        `ahead` are the next two tokens, as far as there are any.
        """
        context = stack[-1]
        following = ahead[0] if ahead else None
        kind, value = token.kind, token.value
        opens = following is not None and following.value == "(" and not following.spaced
        named = kind in ("name", "quoted")
        if named and opens and following is not None:
            stack.append(_Context("(", following.start, token))
            return 2, True
        numeric = following is not None and following.kind == "number" and not following.spaced
        if kind == "name" and value == "-" and numeric and following is not None:
            number = self._number(following, negative=True)
            self._push(context, number, 0, Extent(token.start, following.end))
            return 2, False
        if named and value in self.operators.prefix and self._starts_term(*ahead):
            context.operators.append(_Pending(self.operators.prefix[value], token, True))
            return 1, True
        extent = Extent(token.start, token.end)
        if kind == "number":
            self._push(context, self._number(token), 0, extent)
        elif kind == "string":
            self._push(context, string(value), 0, extent)
        elif kind == "var":
            self._push(context, self._variable(value), 0, extent)
        elif named:
            self._push(context, atom(value), 0, extent)
        elif value in "([{":
            closer = {"[": "]", "{": "}"}.get(value)
            if closer and following is not None and following.value == closer:
                self._push(context, atom(value + closer), 0, Extent(token.start, following.end))
                return 2, False
            stack.append(_Context(value, token.start))
            return 1, True
        else:
            raise self.source.problem(
                f"{value} where a term is expected", token.start, token.end,
                "an atom, number, variable, text, list or compound term",
            )  # fmt: skip
        return 1, False

    def _operator(
        self, stack: list[_Context], context: _Context, token: Token, following: Token | None
    ) -> bool:
        """Take a token after a term; returns whether a term is due next."""
        value = token.value
        if token.kind == "punct" and value in _CLOSERS:
            self._close(stack, token)
            return False
        separates = context.functor is not None or context.opener == "["
        if token.kind == "punct" and value == "," and separates and context.tail is None:
            context.items.append(self._finish(context).term)
            return True
        bar = token.kind == "punct" and value == "|" and context.opener == "["
        if bar and context.tail is None:
            context.items.append(self._finish(context).term)
            context.tail = NIL
            return True
        operator = self.operators.infix.get(value)
        if operator is None or token.kind not in ("name", "quoted", "punct"):
            shown = repr(value) if token.kind in ("string", "quoted") else value
            raise self.source.problem(
                f"{shown} where an operator or the end of the term is expected",
                token.start, token.end,
                "an infix operator, a comma, a closing bracket, or '.'",
            )  # fmt: skip
        self._reduce(context, operator.left, token)
        left = context.operands[-1]
        if left.priority > operator.left:
            raise self._clash(value, token)
        if operator.right == 0:  # postfix
            context.operands.pop()
            extent = Extent(left.extent.start, token.end, (left.extent,))
            self._push(context, struct(value, (left.term,)), operator.priority, extent)
            return False
        if context.operators and operator.priority > context.operators[-1].operator.right:
            raise self._clash(value, token)
        context.operators.append(_Pending(operator, token, False))
        return True

    # -- operators ------------------------------------------------------------------------------

    def _starts_term(self, token: Token | None = None, after: Token | None = None) -> bool:
        """Whether a term can start at `token`: else a prefix operator before it is an atom.

        An infix operator starts one if no operand follows it: it is an atom then itself.
        """
        if token is None:
            return False
        if token.kind == "punct":
            return token.value in "([{"
        infix = token.kind in ("name", "quoted") and token.value in self.operators.infix
        if not infix or token.value in self.operators.prefix:
            return True
        if after is None or (after.value == "(" and not after.spaced):
            return True
        if after.kind == "punct":
            return after.value not in "([{"
        return after.kind in ("name", "quoted") and after.value in self.operators.infix

    def _reduce(self, context: _Context, limit: int, token: Token | None) -> None:
        """Build the pending operators that bind at least as tightly as `limit`."""
        while context.operators and context.operators[-1].operator.priority <= limit:
            pending = context.operators.pop()
            operator = pending.operator
            right = context.operands.pop()
            if right.priority > operator.right:
                raise self._clash(operator.name, pending.token)
            if pending.prefix:
                term = struct(operator.name, (right.term,))
                extent = Extent(pending.token.start, right.extent.end, (right.extent,))
            else:
                left = context.operands.pop()
                term = struct(operator.name, (left.term, right.term))
                extent = Extent(left.extent.start, right.extent.end, (left.extent, right.extent))
            context.operands.append(_Operand(term, operator.priority, extent))

    def _clash(self, name: str, token: Token) -> Exception:
        return self.source.problem(
            f"operator {name} does not bind here: priorities clash", token.start, token.end,
            "use parentheses to say what belongs together",
        )  # fmt: skip

    def _finish(self, context: _Context) -> _Operand:
        """The one term collected between two separators."""
        self._reduce(context, 1200, None)
        return context.operands.pop()

    def _close(self, stack: list[_Context], token: Token) -> None:
        context = stack.pop() if len(stack) > 1 else stack[0]
        if context.opener != _CLOSERS[token.value]:
            if context.opener == "":
                text = f"{token.value} closes nothing"
            else:
                text = f"{token.value} closes {context.opener}"
            raise self.source.problem(text, token.start, token.end)
        operand = self._finish(context)
        extent = Extent(context.start, token.end, operand.extent.parts)
        term, outer = operand.term, stack[-1]
        if context.functor is not None:
            context.items.append(term)
            term = struct(context.functor.value, context.items)
            extent = Extent(context.functor.start, token.end)
        elif context.opener == "[":
            if context.tail is None:
                term = list_of([*context.items, term])
            else:
                term = list_of(context.items, term)
        elif context.opener == "{":
            term = struct("{}", (term,))
        self._push(outer, term, 0, extent)

    def _push(self, context: _Context, term: Term, priority: int, extent: Extent) -> None:
        context.operands.append(_Operand(term, priority, extent))

    # -- leaves ---------------------------------------------------------------------------------

    def _variable(self, name: str) -> Term:
        if name == "_":
            self.names.append("_")
            return var(len(self.names) - 1)
        if name not in self.variables:
            self.variables[name] = len(self.names)
            self.names.append(name)
        return var(self.variables[name])

    def _number(self, token: Token, *, negative: bool = False) -> Term:
        text = token.value
        sign = -1 if negative else 1
        if text[:2] == "0'":
            body = text[2:]
            if body == "''":
                return integer(sign * ord("'"))
            if body[0] == "\\":
                inner = next(tokenize(Source(f"'{body}'")))
                return integer(sign * ord(inner.value))
            return integer(sign * ord(body))
        if text[:2] in ("0x", "0o", "0b"):
            return integer(sign * int(text, 0))
        text = text.replace("_", "")
        if "." in text or "e" in text or "E" in text:
            return floating(sign * float(text))
        if len(text) > _MOST_DIGITS:
            message = f"a number of {len(text)} digits; the most are {_MOST_DIGITS}"
            raise self.source.problem(message, token.start, token.end)
        return integer(sign * int(text))


def read_clauses(source: Source, operators: OperatorTable) -> Iterator[ReadClause]:
    """The clauses of a text, one by one; `operators` may change between two of them.

    Raises:
        PrologSyntaxError: the text is not in the subset; the place is that of the offending token.
    """
    reader = _Reader(source, operators)
    tokens: list[Token] = []
    for token in tokenize(source):
        if token.kind != "end":
            tokens.append(token)
            continue
        if not tokens:
            raise source.problem("a clause ends before it starts", token.start, token.end)
        operand = reader.read(tokens)
        yield ReadClause(operand.term, tuple(reader.names), operand.extent, source)
        tokens = []
    if tokens:
        end = tokens[-1].end
        raise source.problem(
            "the text ends inside a clause", end, end + 1, "end the clause with '.'"
        )


def read_term(text: str, operators: OperatorTable) -> ReadClause:
    """Read one term; the closing `.` may be missing.

    Raises:
        PrologSyntaxError: as `read_clauses`, or more than one term.
    """
    source = Source(text)
    tokens = list(tokenize(source))
    if tokens and tokens[-1].kind == "end":
        tokens.pop()
    if not tokens:
        raise source.problem("no term in the text", 0, 1)
    for token in tokens:
        if token.kind == "end":
            raise source.problem("more than one term", token.start, token.end, "one term")
    reader = _Reader(source, operators)
    operand = reader.read(tokens)
    return ReadClause(operand.term, tuple(reader.names), operand.extent, source)
