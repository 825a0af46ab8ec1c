"""Bodies, facts and rules.

Invariant: a `(` opens a body group unless an operator follows its closing bracket, so
`(x + 1) = y` and `(a(x) ; b(x))` are told apart without trying both. Formulae come out in the
shape of `rules.ast.conjunction`: flat, with no wrapper around a single part.
"""

from __future__ import annotations

from deltafix.datalog.expressions import RELATIONAL, ExpressionParser
from deltafix.datalog.lexer import DIRECTIVES
from deltafix.rules.ast import (
    And,
    Atom,
    Comparison,
    Dominates,
    Formula,
    Not,
    Or,
    Rule,
    conjunction,
    disjunction,
)
from deltafix.rules.functors import CONSTRAINTS, INFIX
from deltafix.rules.terms import Var


class ClauseParser(ExpressionParser):
    """Reads facts (`heads.`) and rules (`heads :- body.`), each with its dot."""

    def clause(self) -> Rule | Dominates:
        """A fact, a rule or a subsumption, with its final dot."""
        start = self.token
        heads = [self.atom("a relation's name or a directive")]
        if self.accept("<="):
            more = self.atom("the dominating head")
            order = self.disjunction() if self.accept(":-") else And(())
            self.end_of_clause()
            return Dominates(heads[0], more, order, self.since(start))
        while self.accept(","):
            heads.append(self.atom("another head"))
        body: Formula = And(())
        if self.accept(":-"):
            body = self.disjunction()
        elif not self.at("."):
            self.fail(
                f"expected `.` or `:-` after {'the head' if len(heads) == 1 else 'the heads'}, "
                f"found {self.token.shown}"
            )
        self.end_of_clause()
        return Rule(tuple(heads), body, self.since(start))

    def end_of_clause(self) -> None:
        """Take the final dot; what stands instead is blamed."""
        if not self.at("."):
            self.fail(f"expected `,`, `;` or `.` after this literal, found {self.token.shown}")
        self.take()

    def disjunction(self) -> Formula:
        """`conjunction ; conjunction ; …`."""
        start = self.token
        parts = [self.conjunction()]
        while self.accept(";"):
            parts.append(self.conjunction())
        return disjunction(parts, self.since(start))

    def conjunction(self) -> Formula:
        """`literal, literal, …`."""
        start = self.token
        parts = [self.literal()]
        while self.accept(","):
            parts.append(self.literal())
        return conjunction(parts, self.since(start))

    def literal(self) -> Formula:
        """An atom, comparison, test, negation, `true`, `false`, or a group."""
        token = self.token
        if token.text == "!" and token.kind == "punct":
            self.take()
            self.nest()
            body = self.literal()
            self.depth -= 1
            return Not(body, self.since(token))
        if token.text == "(" and token.kind == "punct" and self.opens_group():
            self.nest()
            self.take()
            group = self.disjunction()
            if not self.at(")"):
                self.fail(f"expected `,`, `;` or `)` in this group, found {self.token.shown}")
            self.take()
            self.depth -= 1
            return group
        if token.kind == "ident" and not self.starts_functor():
            return self.worded()
        return self.comparison()

    def worded(self) -> Formula:
        """A literal that starts with a word which is no functor."""
        token, after = self.token, self.peek()
        if token.text in ("true", "false") and after.text != "(":
            self.take()
            return And((), token.span) if token.text == "true" else Or((), token.span)
        if token.text in CONSTRAINTS and after.text == "(":
            self.take()
            arguments = self.arguments()
            if len(arguments) != 2:
                self.fail(f"`{token.text}` wants 2 arguments, {len(arguments)} given", token)
            return Comparison(token.text, arguments[0], arguments[1], self.since(token))
        if after.text == "(" and after.kind == "punct" and self.operator_behind(self.position + 1):
            return self.comparison()
        if after.text == "(" or self.joined(1):
            return self.atom("a relation")
        if after.kind in ("ident", "number", "string", "unsigned", "float") and (
            after.text not in INFIX
        ):
            if token.text == "not":
                self.fail("`not` is not a word of the language", token, "negation is `!atom(..)`")
            one = f"{token.text} = ..."
            way_out = f"write ({one}; {one})" if after.text == "in" else None
            self.fail(f"unexpected {after.shown} after `{token.text}`", after, way_out)
        return self.comparison()

    def opens_group(self) -> bool:
        """Whether the `(` at hand holds literals rather than a term."""
        return not self.operator_behind(self.position)

    def operator_behind(self, opening: int) -> bool:
        """Whether what the bracket at `opening` begins is one side of a comparison."""
        closing = self.closing.get(opening)
        if closing is None:
            return False
        after = self.tokens[closing + 1]
        operator = after.text in RELATIONAL or after.text in INFIX
        return operator and after.kind in ("punct", "ident")

    def comparison(self) -> Formula:
        """`term operator term`."""
        start = self.token
        if self.at(",", ".", ";", ")", "}"):
            self.fail(
                f"expected a literal, found {start.shown}",
                help="a literal is an atom, a comparison, or one of them behind `!`",
            )
        left = self.term()
        if not self.at(*RELATIONAL):
            if isinstance(left, Var):
                hint = f"a relation is written `{left.name}(...)`, a test `{left.name} = ...`"
                misspelt = self.token.text in ("==", "=<", "=>", "<>", "!==")
                self.fail(
                    f"`{left.name}` is neither an atom nor a comparison",
                    None if misspelt else start,
                    None if misspelt else hint,
                )
            self.fail(
                f"expected one of {' '.join(RELATIONAL)} after this term, found {self.token.shown}"
            )
        operator = self.take()
        right = self.term()
        if self.at(*RELATIONAL):
            self.fail("comparisons do not chain", help="write `a < b, b < c`")
        return Comparison(operator.text, left, right, self.since(start))

    def atom(self, what: str) -> Atom:
        """`relation(term, ...)`; a relation of an instance has a dotted name."""
        start = self.dotted_name(what)
        name = start.text
        if not self.at("("):
            way_out = None
            if self.at(",", ".", ":-"):
                way_out = f"a relation without columns is written `{name}()`"
            elif name in DIRECTIVES:
                way_out = f"did you mean `.{name}`?"
            elif name == "?":
                way_out = 'a question is asked in `deltafix shell`: ? path("a", X)'
            self.fail(
                f"expected `(` after the relation `{name}`, found {self.token.shown}", help=way_out
            )
        arguments = self.arguments()
        return Atom(name, arguments, self.since(start))

    def aggregate_body(self) -> Formula:
        """`{ body }`, or one atom."""
        if not self.accept("{"):
            return self.atom("`{` or an atom as the aggregate's body")
        body = self.disjunction()
        if not self.at("}"):
            self.fail(
                f"expected `,`, `;` or `}}` in the aggregate's body, found {self.token.shown}"
            )
        self.take()
        return body
