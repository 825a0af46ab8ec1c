"""Terms: a Pratt parser over `rules.functors.INFIX`.

Invariant: a term's tree is at most `MAX_HEIGHT` high and brackets at most `MAX_NESTING` deep, so
nothing that walks a program by recursion can overflow. `-` before a literal folds into the
constant unless a `^` follows: `-2 ^ 2` is `-(2 ^ 2)`.
"""

from __future__ import annotations

from typing import Final

from deltafix.datalog.cursor import Cursor
from deltafix.datalog.lexer import END, Token
from deltafix.rules.ast import Formula
from deltafix.rules.functors import (
    CONSTRAINTS,
    INFIX,
    PREFIX,
    PREFIX_POWER,
    SIGNATURES,
)
from deltafix.rules.terms import Aggregate, Call, Const, Term, Var, Wildcard

AGGREGATES: Final = ("count", "sum", "min", "max", "mean")
RELATIONAL: Final = ("=", "!=", "<", "<=", ">", ">=")
MAX_NESTING: Final = 64
MAX_HEIGHT: Final = 200

_UNSPELT: Final = frozenset(PREFIX.values()).difference(PREFIX)
"""Functors that a text only writes as a sign."""
_NAMED: Final = tuple(
    name for name in SIGNATURES if name.isidentifier() and name not in (*INFIX, *_UNSPELT)
)
_FUNCTORS: Final = (*_NAMED, "as")
RESERVED: Final = frozenset((*_FUNCTORS, *CONSTRAINTS, *INFIX, *PREFIX, "nil"))
"""Words that no relation can be called: an atom would be read as something else."""


class ExpressionParser(Cursor):
    """Reads terms; `aggregate_body` comes from the class that reads bodies."""

    depth = 0
    height = 0

    def aggregate_body(self) -> Formula:
        """The body behind an aggregate's colon."""
        raise NotImplementedError

    def nest(self) -> None:
        """Go one bracket deeper, within the limit."""
        self.depth += 1
        if self.depth > MAX_NESTING:
            self.fail(f"brackets are nested more than {MAX_NESTING} deep", help="split the rule")

    def grow(self, *heights: int) -> None:
        """The term at hand got one level higher than the highest of its parts."""
        self.height = max(heights, default=0) + 1
        if self.height > MAX_HEIGHT:
            self.fail(
                f"an expression is more than {MAX_HEIGHT} operators high",
                help="name a part of it: `x = ..., y = x + ...`",
            )

    def starts_functor(self) -> bool:
        """Whether the token at hand begins a functor call or an aggregate, not an atom."""
        token = self.token
        if token.kind != "ident":
            return False
        if token.text in AGGREGATES and self.peek().text != "(":
            return True
        return token.text in _FUNCTORS or token.text in PREFIX

    def term(self, power: int = 0) -> Term:
        """A term whose operators all bind tighter than `power`."""
        start = self.token
        left = self.prefix()
        while self.token.kind in ("punct", "ident"):
            operator = self.token.text
            powers = INFIX.get(operator)
            if powers is None or powers[0] <= power:
                break
            self.take()
            height = self.height
            right = self.term(powers[1])
            self.grow(height, self.height)
            left = Call(operator, (left, right), self.since(start))
        return left

    def prefix(self) -> Term:
        """A term without infix operators: signs, literals, names, parentheses."""
        token = self.token
        self.height = 0
        if token.text in PREFIX and token.kind in ("punct", "ident"):
            self.take()
            self.nest()
            literal = self.token.kind in ("number", "float")
            inner = self.term(PREFIX_POWER)
            self.depth -= 1
            if token.text == "-" and literal and isinstance(inner, Const):
                value = inner.value
                assert isinstance(value, int | float)  # noqa: S101  number and float tokens
                return Const(-value, inner.type, self.since(token))
            self.grow(self.height)
            return Call(PREFIX[token.text], (inner,), self.since(token))
        if token.kind == "number":
            return Const(self.take().value, None, token.span)
        if token.kind in ("unsigned", "float", "string"):
            self.take()
            if token.kind == "string":
                return Const(token.value, "symbol", token.span)
            return Const(
                token.value, "unsigned" if token.kind == "unsigned" else "float", token.span
            )
        if token.kind == "ident":
            return self.named()
        if token.text == "(" and token.kind == "punct":
            self.nest()
            self.take()
            inner = self.term()
            self.expect(")", "to close the parenthesis")
            self.depth -= 1
            return inner
        return self.odd()

    def named(self) -> Term:
        """A wildcard, variable, aggregate, functor call, or a word that cannot be a term."""
        token = self.token
        called = self.peek().text == "(" and self.peek().kind == "punct"
        if token.text == "_":
            return Wildcard(self.take().span)
        if token.text in AGGREGATES and (not called or self.aggregate_follows()):
            return self.aggregate()
        if token.text in CONSTRAINTS:
            self.fail(f"`{token.text}` is a test, not a value", help="use it as a literal")
        if token.text == "nil":
            return Const(None, None, self.take().span)
        if not called:
            if token.text in _FUNCTORS:
                self.fail(f"`{token.text}` is a functor and wants arguments: `{token.text}(...)`")
            return Var(self.take().text, token.span)
        if token.text in _UNSPELT:
            self.fail(f"there is no functor `{token.text}`", help="a negative value is `-x`")
        self.take()
        if token.text == "as":
            return self.cast(token)
        arguments = self.arguments()
        return Call(token.text, arguments, self.since(token))

    def cast(self, token: Token) -> Term:
        """`as(term, type)`: the type's name travels as a symbol constant."""
        self.expect("(", "after `as`")
        self.nest()
        inner = self.term()
        self.grow(self.height)
        self.expect(",", "between the term and the type of `as`")
        name = self.type_name("a type name")
        self.expect(")", "to close `as`")
        self.depth -= 1
        return Call("as", (inner, Const(name.text, "symbol", name.span)), self.since(token))

    def aggregate_follows(self) -> bool:
        """Whether `max (` begins an aggregate's term: a functor call has a comma inside."""
        position = self.position + 2
        while self.tokens[position].kind != END and self.tokens[position].text != ")":
            if self.tokens[position].text == "," and self.tokens[position].kind == "punct":
                return False
            position = self.closing.get(position, position) + 1
        return True

    def aggregate(self, name: str = "") -> Term:
        """`count : body`, or `sum/min/max/mean/@@name term : body`; a given name is taken."""
        token = self.tokens[self.position - 1] if name else self.take()
        name = name or token.text
        self.nest()
        target: Term | None = None
        if name == "count":
            if not self.at(":"):
                self.fail("count takes no term", help="write `count : { body }`")
        else:
            if self.at(":"):
                self.fail(f"{name} wants a term", help=f"write `{name} x : {{ body }}`")
            target = self.term()
        if not self.at(":"):
            message = f"expected `:` before the body of `{name}`, found {self.token.shown}"
            of = "" if target is None else " x"
            self.fail(message, help=f"write `n = {name}{of} : {{ body }}` in the body of the rule")
        self.take()
        body = self.aggregate_body()
        self.depth -= 1
        self.grow(self.height)
        return Aggregate(name, target, body, self.since(token))

    def odd(self) -> Term:
        """Records, branches, user functors and aggregates, and tokens that start no term."""
        token = self.token
        if token.kind != "punct" or token.text not in ("[", "$", "@", "@@"):
            self.fail(f"expected a term, found {token.shown}")
        self.take()
        if token.text == "[":
            return Call("[]", self.sequence("]"), self.since(token))
        if token.text == "@@":
            return self.aggregate(f"@@{self.expect_name('a reducer').text}")
        name = self.dotted_name("a branch" if token.text == "$" else "a functor").text
        if token.text == "$" and not self.at("("):
            return Call(f"${name}", (), self.since(token))
        return Call(f"{token.text}{name}", self.arguments(), self.since(token))

    def arguments(self) -> tuple[Term, ...]:
        """`(term, ...)`."""
        self.expect("(", "before the arguments")
        return self.sequence(")")

    def sequence(self, closing: str) -> tuple[Term, ...]:
        """Terms with commas up to and with `closing`; the opening bracket is already taken."""
        self.nest()
        terms: list[Term] = []
        height = 0
        if not self.at(closing):
            terms.append(self.term())
            height = self.height
            while self.accept(","):
                terms.append(self.term())
                height = max(height, self.height)
            if not self.at(closing):
                self.fail(f"expected `,` or `{closing}`, found {self.token.shown}")
        self.take()
        self.depth -= 1
        self.grow(height)
        return tuple(terms)
