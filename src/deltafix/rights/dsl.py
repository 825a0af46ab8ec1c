"""OpenFGA's modeling language as text: tokens, parser, and errors with carets.

A text is a model, or a file of a module, which also extends types of others; `modules` puts such
files together. Invariant: what is read is data as `model` has it, and every error of the syntax
stands where the text stops being a model, with what would be valid there. Names are not looked up
here, nor expressions of conditions read: `validate` does that. Line breaks mean nothing but the end
of a comment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from operator import itemgetter
from typing import Final, NamedTuple

from deltafix.datalog.source import Source
from deltafix.diagnostics import Diagnostic, Span, render_all, suggest
from deltafix.errors import RightsModelError
from deltafix.rights.contexts import TYPES
from deltafix.rights.model import (
    Computed,
    Condition,
    Direct,
    Exclusion,
    FromRelated,
    Intersection,
    Model,
    ParameterType,
    RelationDefinition,
    Restriction,
    Rewrite,
    TypeDefinition,
    Union,
)

NAME: Final = r"[A-Za-z0-9_][A-Za-z0-9_\-./]*"
"""A type, relation or condition, as a regular expression."""

_TOKEN: Final = re.compile(
    rf"(?P<space>\s+)|(?P<name>{NAME})|(?P<mark>[:#*\[\](),])"
    r"|(?P<other>.)"
)
_DEEPEST: Final = 100
"""Parentheses inside parentheses; deeper text is no model that anyone wrote."""


class _Token(NamedTuple):
    kind: str  # "name", "mark", "body", "other", "end"
    text: str
    start: int
    end: int


def _tokens(source: Source) -> list[_Token]:
    text, tokens, at = source.text, [], 0
    while at < len(text):
        # `#` begins a comment at the start of a line or after a space; in `group#member` it is
        # a mark.
        if text[at] == "#" and (at == 0 or text[at - 1].isspace()):
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
            continue
        if text[at] == "{":
            end = _body_end(text, at)
            tokens.append(_Token("body", "{", at, end))
            at = end
            continue
        match = _TOKEN.match(text, at)
        assert match is not None  # noqa: S101  any character is `other`
        if match.lastgroup != "space":
            tokens.append(_Token(str(match.lastgroup), match.group(), at, match.end()))
        at = match.end()
    end = len(text.rstrip())
    tokens.append(_Token("end", "the end of the text", end, end))
    return tokens


_BODY: Final = re.compile(
    r"(?P<open>\{)|(?P<close>\})|//[^\n]*"
    r"|[rR]?(?:'''.*?'''|\"\"\".*?\"\"\"|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\")"
    r"|.",
    re.DOTALL,
)


def _body_end(text: str, at: int) -> int:
    """Behind the brace that closes the one at `at`; the end of the text if none does."""
    depth = 0
    for match in _BODY.finditer(text, at):
        depth += (match["open"] is not None) - (match["close"] is not None)
        if depth == 0:
            return match.end()
    return len(text)


class Part(NamedTuple):
    """What one text says.

    Attributes:
        module: its module's name, and where that is; None for a model of its own.
        extended: types of other files with relations for them.
    """

    source: Source
    module: tuple[str, Span] | None
    types: list[TypeDefinition]
    extended: list[TypeDefinition]
    conditions: list[Condition]


def parse_dsl(text: str, path: str | None = None) -> Model:
    """Read a model. O(characters).

    Raises RightsModelError with place and what would be valid.
    """
    part = _Parser(Source(text, path)).part(is_module=False)
    return Model(tuple(part.types), by_name(part.conditions), {path: text})


def parse_module(text: str, path: str) -> Part:
    """Read a file of a module. O(characters). Raises RightsModelError."""
    return _Parser(Source(text, path)).part(is_module=True)


def by_name(conditions: Iterable[Condition]) -> tuple[Condition, ...]:
    """In the order of names: a model in JSON has no other."""
    return tuple(sorted(conditions, key=lambda condition: condition.name))


def wrong(source: Source, message: str, span: Span, valid: str) -> RightsModelError:
    """The error at a place of a text."""
    diagnostic = Diagnostic(RightsModelError.code, message, span, valid)
    return RightsModelError(render_all([diagnostic], {source.path: source.text}), [diagnostic])


class _Parser:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.tokens = _tokens(source)
        self.at = 0
        self.depth = 0

    # --- tokens ------------------------------------------------------------------------------

    @property
    def next(self) -> _Token:
        return self.tokens[self.at]

    def take(self) -> _Token:
        token = self.tokens[self.at]
        self.at += token.kind != "end"
        return token

    def is_next(self, *words: str) -> bool:
        return self.next.kind != "end" and self.next.text in words

    def span(self, first: _Token, last: _Token | None = None) -> Span:
        """From one token to another: the last one taken, if none is given."""
        end = last or self.tokens[max(self.at - 1, 0)]
        return self.source.span(first.start, max(end.end, first.end))

    def fail(self, message: str, token: _Token, valid: str) -> RightsModelError:
        span = self.span(token, token)
        return wrong(self.source, message, span, valid)

    def wanted(self, *valid: str) -> RightsModelError:
        """The error for a token that is none of those that may stand here."""
        token = self.next
        found_text = token.text if token.kind == "end" else f"`{token.text}`"
        close = suggest(token.text, valid) if token.kind == "name" else None
        hint = f"did you mean `{close}`?" if close else f"expected {_either(valid)}"
        return self.fail(f"unexpected {found_text}", token, hint)

    def keyword(self, word: str) -> _Token:
        if not self.is_next(word):
            raise self.wanted(word)
        return self.take()

    def name(self, what: str) -> _Token:
        if self.next.kind != "name":
            token = self.next
            found_text = token.text if token.kind == "end" else f"`{token.text}`"
            raise self.fail(f"unexpected {found_text}", token, f"expected {what}")
        return self.take()

    # --- the model ---------------------------------------------------------------------------

    def part(self, *, is_module: bool) -> Part:
        part = Part(self.source, self._head(is_module), [], [], [])
        while self.next.kind != "end":
            if self.is_next("condition"):
                part.conditions.append(self._condition())
            elif self.is_next("extend") and is_module:
                self.take()
                if not self.is_next("type"):
                    raise self.wanted("type")
                part.extended.append(self._type())
            elif self.is_next("type"):
                part.types.append(self._type())
            else:
                open_ = bool(part.types) and bool(part.types[-1].relations)
                more = ("define", "or", "and", "but not", "from") if open_ else ()
                extend = ("extend",) if is_module else ()
                raise self.wanted("type", "condition", *extend, *more)
        return part

    def _head(self, is_module: bool) -> tuple[str, Span] | None:
        if is_module:
            self.keyword("module")
            name = self.name("the name of a module")
            return name.text, self.span(name, name)
        if self.is_next("module"):
            valid = "open `fga.mod`, which lists the files of all modules"
            raise self.fail("this is a file of a module, not a model", self.next, valid)
        self.keyword("model")
        self.keyword("schema")
        version = self.name("the schema version, 1.1 or 1.2")
        if version.text not in ("1.1", "1.2"):
            message = f"schema {version.text} is not known"
            raise self.fail(message, version, "write `schema 1.1`")
        return None

    def _condition(self) -> Condition:
        self.take()
        name = self.name("the name of a condition")
        if not self.is_next("("):
            raise self.wanted("(")
        self.take()
        parameters: list[tuple[str, ParameterType]] = []
        while not self.is_next(")"):
            if parameters:
                if not self.is_next(","):
                    raise self.wanted(",", ")")
                self.take()
            parameter = self.name("the name of a parameter")
            if not self.is_next(":"):
                raise self.wanted(":")
            self.take()
            parameters.append((parameter.text, self._parameter_type()))
        self.take()
        body = self.next
        if body.kind != "body":
            raise self.wanted("{")
        text = self.source.text[body.start : body.end]
        if not text.endswith("}"):
            raise self.fail("nothing closes this brace", body, "end the expression with `}`")
        self.take()
        expression = text[1:-1].strip()
        span = self.span(name, name)
        return Condition(name.text, tuple(sorted(parameters, key=itemgetter(0))), expression, span)

    def _parameter_type(self) -> ParameterType:
        name = self.next
        if not self.is_next(*TYPES):
            raise self.wanted(*TYPES)
        self.take()
        if name.text not in ("list", "map"):
            return ParameterType(name.text)
        if not self.is_next("<"):
            raise self.wanted("<")
        opened = self.take()
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self.fail(f"more than {_DEEPEST} types inside each other", opened, "use `any`")
        of = self._parameter_type()
        self.depth -= 1
        if not self.is_next(">"):
            raise self.wanted(">")
        self.take()
        return ParameterType(name.text, of)

    def _type(self) -> TypeDefinition:
        self.take()
        name = self.name("the name of a type")
        relations: list[RelationDefinition] = []
        if self.is_next("relations"):
            self.take()
            while self.is_next("define"):
                relations.append(self._relation())
        elif self.is_next("define"):
            raise self.wanted("relations")
        return TypeDefinition(name.text, tuple(relations), self.span(name, name))

    def _relation(self) -> RelationDefinition:
        self.take()
        name = self.name("the name of a relation")
        if not self.is_next(":"):
            raise self.wanted(":")
        self.take()
        rewrite = self._expression()
        return RelationDefinition(name.text, rewrite, self.span(name, name))

    # --- rewrites ----------------------------------------------------------------------------

    def _expression(self) -> Rewrite:
        first = self.next
        parts = [self._operand()]
        word = self._operator()
        if not word:
            return parts[0]
        while (operator := self._operator()) == word and (word != "but not" or len(parts) == 1):
            for _ in operator.split():
                self.take()
            parts.append(self._operand())
        if self._operator():
            raise self._mixed(word)
        span = self.span(first)
        if word == "but not":
            return Exclusion(parts[0], parts[1], span)
        return (Union if word == "or" else Intersection)(tuple(parts), span)

    def _operator(self) -> str:
        if self.is_next("or", "and"):
            return self.next.text
        if not self.is_next("but"):
            return ""
        following = self.tokens[min(self.at + 1, len(self.tokens) - 1)]
        if following.text != "not":
            self.take()
            raise self.wanted("not")
        return "but not"

    def _mixed(self, word: str) -> RightsModelError:
        other = self._operator()
        if other == word:
            message, valid = "two `but not` in a row", "`(a but not b) but not c`"
        else:
            message = f"`{word}` and `{other}` without parentheses"
            valid = f"`(a {word} b) {other} c` or `a {word} (b {other} c)`"
        return self.fail(message, self.next, f"say what belongs together: {valid}")

    def _operand(self) -> Rewrite:
        if self.is_next("("):
            opened = self.take()
            self.depth += 1
            if self.depth > _DEEPEST:
                message = f"more than {_DEEPEST} parentheses inside each other"
                raise self.fail(message, opened, "define parts as relations of their own")
            rewrite = self._expression()
            if not self.is_next(")"):
                raise self.wanted(")", "or", "and", "but not")
            self.take()
            self.depth -= 1
            return rewrite
        if self.is_next("["):
            return self._direct()
        first = self.name("a relation, `[types]` or `(`")
        if self.is_next("from"):
            self.take()
            tupleset = self.name("a relation of this type, such as `parent`")
            return FromRelated(first.text, tupleset.text, self.span(first))
        return Computed(first.text, self.span(first, first))

    def _direct(self) -> Direct:
        opened = self.take()
        restrictions = [self._restriction()]
        while self.is_next(","):
            self.take()
            restrictions.append(self._restriction())
        if not self.is_next("]"):
            raise self.wanted(",", "]")
        self.take()
        return Direct(tuple(restrictions), self.span(opened))

    def _restriction(self) -> Restriction:
        first = self.name("a type, such as `user`, `user:*` or `group#member`")
        relation, wildcard = "", False
        if self.is_next(":"):
            self.take()
            if not self.is_next("*"):
                raise self.wanted("*")
            self.take()
            wildcard = True
        elif self.is_next("#"):
            self.take()
            relation = self.name("the name of a relation").text
        condition = ""
        if self.is_next("with"):
            self.take()
            condition = self.name("the name of a condition").text
        return Restriction(first.text, relation, wildcard, condition, self.span(first))


def _either(words: tuple[str, ...]) -> str:
    quoted = [f"`{word}`" for word in words]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"
