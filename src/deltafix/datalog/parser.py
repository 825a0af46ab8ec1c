"""Tokens to a program: declarations, directives, and recovery after an error.

Invariant: every round of the outer loop consumes a token, and a clause that cannot be read costs
one diagnostic. After an error reading resumes behind the next `.`, before the next directive, or,
where only the final dot is missing, at the next line. Names and types are not looked at here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from deltafix.datalog.components.reading import ComponentParser, ComponentSyntax, InstanceSyntax
from deltafix.datalog.cursor import SyntaxFault
from deltafix.datalog.expressions import RESERVED
from deltafix.datalog.lexer import DIRECTIVES, END, Token
from deltafix.datalog.types import TypeParser, Types
from deltafix.diagnostics import Diagnostic, Span, suggest
from deltafix.rules.ast import Atom, Directive, Dominates, RelationDecl, Rule
from deltafix.rules.walk import MAX_ALTERNATIVES, alternatives, count_alternatives

_QUALIFIERS: Final = (
    "brie", "btree", "btree_delete", "eqrel", "inline", "magic", "no_inline", "no_magic",
    "overridable",
)  # fmt: skip
_IO: Final = ("input", "output", "printsize")
_MISSING_DOT: Final = "after this literal, found"


@dataclass(slots=True)
class Syntax(Types):
    """What a text says, in text order; `starts` are the first tokens of its items."""

    relations: list[RelationDecl] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    orders: list[Dominates] = field(default_factory=list)
    directives: list[Directive] = field(default_factory=list)
    pragmas: list[tuple[str, str]] = field(default_factory=list)
    components: list[ComponentSyntax] = field(default_factory=list)
    instances: list[InstanceSyntax] = field(default_factory=list)
    overrides: list[Token] = field(default_factory=list)
    starts: list[Token] = field(default_factory=list)


class Parser(ComponentParser, TypeParser):
    """Reads a whole program; `diagnostics` holds what went wrong, `out` what could be read."""

    out: Syntax
    unreadable: Sequence[Span] = ()
    read: Rule | Dominates | None = None
    before: Rule | Dominates | None = None

    def program(self, unreadable: Sequence[Span] = ()) -> Syntax:
        """Read everything up to the end.

        A clause that holds one of the `unreadable` places was already complained about by the
        lexer; a syntax error in it would be an echo and is left out.
        """
        self.out = Syntax()
        self.unreadable = unreadable
        self.items()
        return self.out

    def new_syntax(self) -> Syntax:
        """An empty part of the program that shares the list of starts."""
        return Syntax(starts=self.out.starts)

    def items(self) -> None:
        """Read items up to the end, or to the brace that closes the component at hand."""
        while self.token.kind != END and not (self.components and self.at("}")):
            before = self.position
            start = self.token
            self.out.starts.append(start)
            self.depth = 0
            self.before, self.read = self.read, None
            outer, components = self.out, self.components
            try:
                self.item()
            except SyntaxFault as fault:
                self.out, self.components = outer, components
                here = range(start.start, self.token.end + 1)
                path = start.source.path
                if not any(span.path == path and span.start in here for span in self.unreadable):
                    self.diagnostics.append(self.blame(fault.diagnostic))
                self.recover(fault.diagnostic, start.kind == "directive" or start.text == ".")
            if self.position == before:
                self.take()

    def blame(self, diagnostic: Diagnostic) -> Diagnostic:
        """A missing dot is blamed on the place where it is missing, not on the next clause."""
        if _MISSING_DOT in diagnostic.message and self.new_line():
            last = self.tokens[self.position - 1]
            return Diagnostic(
                diagnostic.code,
                "expected `.` at the end of this clause",
                last.source.span(last.end, last.end + 1),
                "add `.` here",
            )
        return diagnostic

    def new_line(self) -> bool:
        """Whether a new clause or directive seems to start here."""
        if self.position == 0:
            return False
        here, last = self.token, self.tokens[self.position - 1]
        lines = here.kind == END or here.span.line > last.span.line
        return (lines or here.kind == "directive") and here.kind in ("ident", "directive", END)

    def recover(self, fault: Diagnostic, in_directive: bool) -> None:
        """Move to where reading can go on."""
        if _MISSING_DOT in fault.message and self.new_line():
            return
        while self.token.kind not in (END, "directive"):
            if in_directive and self.new_line() and self.peek().text == "(":
                return
            if self.components and self.at("}"):
                return
            if self.components and self.at("{") and self.position in self.closing:
                self.skip_group()
                continue
            token = self.take()
            if token.text == "." and token.kind == "punct":
                return

    def item(self) -> None:
        """One clause or directive."""
        token = self.token
        if token.kind == "directive":
            self.take()
            getattr(self, f"_read_{token.text[1:]}")(token)
        elif token.text == "." and token.kind == "punct":
            after = self.peek()
            if after.kind != "ident" or after.start != token.end:
                self.fail("this `.` ends nothing", help="remove it")
            close = suggest(after.text, sorted(DIRECTIVES))
            known = " ".join(f".{name}" for name in sorted(DIRECTIVES))
            self.take()
            self.take()
            span = token.source.span(token.start, after.end)
            hint = f"did you mean `.{close}`?" if close else f"valid: {known}"
            raise SyntaxFault(
                Diagnostic("DF104", f"there is no directive `.{after.text}`", span, hint)
            )
        else:
            self.read_clause("")

    def read_clause(self, name: str) -> None:
        """One clause, which has a name if it is not empty."""
        self.read = replace(self.clause(), name=name)
        if isinstance(self.read, Dominates):
            self.out.orders.append(self.read)
        else:
            self.out.rules.append(self.read)

    def _read_rule(self, start: Token) -> None:
        """`.rule name`, then the clause that has this name."""
        name = self.dotted_name("a rule's name")
        if self.token.kind != "ident":
            self.fail("`.rule` stands before the rule that it names", start, "put it there")
        self.out.starts.append(self.token)
        self.read_clause(name.text)

    # Declarations -----------------------------------------------------------------------------

    def names(self, what: str) -> list[Token]:
        """`name, name, …`."""
        names = [self.dotted_name(what)]
        while self.accept(","):
            names.append(self.dotted_name(what))
        return names

    def _read_decl(self, _: Token) -> None:
        names = self.names("a relation's name")
        for name in names:
            if name.text in RESERVED:
                hint = "give the relation another name"
                self.fail(f"`{name.text}` is a word of the language", name, hint)
        self.expect("(", f"after `{names[-1].text}`")
        attributes = self.columns(")", "column")
        qualifiers, uses = self.qualifiers()
        choices = self.columns_of("choice", "domain", "the choice domain")
        indexes = self.columns_of("index", "on", "the index")
        whole = ""
        if self._at_words("part", "of"):
            self.position += 3
            whole = self.dotted_name("the relation that it is a part of").text
        for name in names:
            declared = RelationDecl(
                name.text, attributes, qualifiers, choices, indexes, name.span, whole
            )
            self.out.relations.append(declared)
            for use in uses:
                self.out.directives.append(Directive(use.text, name.text, span=use.span))

    def qualifiers(self) -> tuple[tuple[str, ...], list[Token]]:
        """Words behind a declaration, and the old-style `input`/`output` among them."""
        kept: list[str] = []
        uses: list[Token] = []
        while self.token.kind == "ident" and self.peek().text not in ("(", ".", ":-"):
            token = self.token
            if token.text in ("choice", "index", "part") and self.peek().text == "-":
                break
            self.take()
            if token.text in _IO:
                uses.append(token)
            elif token.text in _QUALIFIERS:
                kept.append(token.text)
            else:
                valid = (*_QUALIFIERS, *_IO, "choice-domain", "index-on", "part-of")
                close = suggest(token.text, valid)
                self.fail(
                    f"there is no qualifier `{token.text}`",
                    token,
                    f"did you mean `{close}`?" if close else f"valid: {' '.join(valid)}",
                )
        return tuple(kept), uses

    def _at_words(self, first: str, second: str) -> bool:
        """Whether two words follow with a `-` between."""
        return self.at(first) and self.peek().text == "-" and self.peek(2).text == second

    def columns_of(self, first: str, second: str, whole: str) -> tuple[tuple[str, ...], ...]:
        """`choice-domain column, (column, column), …` or `index-on …` behind a declaration."""
        lists: list[tuple[str, ...]] = []
        if not self._at_words(first, second):
            return ()
        self.position += 3
        while True:
            what = f"a column of {whole}"
            if self.accept("("):
                columns = [self.expect_name(what).text]
                while self.accept(","):
                    columns.append(self.expect_name(what).text)
                self.expect(")", f"after the columns of {whole}")
            else:
                columns = [self.expect_name(what).text]
            lists.append(tuple(columns))
            if not self.accept(","):
                return tuple(lists)

    # Directives -------------------------------------------------------------------------------

    def _read_input(self, start: Token) -> None:
        kind = start.text[1:]
        while True:
            names = self.names("a relation's name")
            parameters: dict[str, str] = {}
            if self.accept("("):
                parameters = self.parameters()
            for name in names:
                held = MappingProxyType(dict(parameters))
                self.out.directives.append(Directive(kind, name.text, held, name.span))
            if not self.accept(","):
                break

    _read_output = _read_printsize = _read_limitsize = _read_input

    def parameters(self) -> dict[str, str]:
        """`key=value, …)`; a value is a string, a word or a number."""
        parameters: dict[str, str] = {}
        while not self.at(")"):
            key = self.expect_name("a parameter's name")
            self.expect("=", f"after the parameter `{key.text}`")
            value = self.take()
            if value.kind == "string":
                text = str(value.value)
            elif value.kind in ("ident", "number", "unsigned", "float"):
                text = value.text
            elif value.text == "-" and self.token.kind == "number":
                text = f"-{self.take().text}"
            else:
                self.fail(f"expected a value for `{key.text}`, found {value.shown}", value)
            if key.text in parameters:
                self.fail(f"`{key.text}` is given twice", key, "remove one of them")
            parameters[key.text] = text
            if self.accept(","):
                if self.at(")"):
                    self.fail("expected a parameter's name, found `)`")
            elif not self.at(")"):
                self.fail(f"expected `,` or `)` after a parameter, found {self.token.shown}")
        self.take()
        return parameters

    def _read_pragma(self, _: Token) -> None:
        values: list[str] = []
        while self.token.kind == "string" and len(values) < 2:
            values.append(str(self.take().value))
        if not values:
            self.fail("expected a quoted name", help='write `.pragma "name" "value"`')
        self.out.pragmas.append((values[0], values[1] if len(values) > 1 else ""))

    # Plans ------------------------------------------------------------------------------------

    def _read_plan(self, start: Token) -> None:
        """`.plan version:(atoms), …` behind a rule: checked against it, and without effect."""
        orders: list[tuple[Token, list[Token]]] = []
        while True:
            if self.token.kind != "number":
                self.fail(f"expected a version, found {self.token.shown}", help="`.plan 0:(2, 1)`")
            version = self.take()
            self.expect(":", "after the version")
            self.expect("(", "before the order of the atoms")
            atoms: list[Token] = []
            while not self.at(")"):
                if self.token.kind != "number":
                    self.fail(f"expected the number of an atom, found {self.token.shown}")
                atoms.append(self.take())
                if not self.at(")"):
                    self.expect(",", "between the numbers of atoms")
            self.take()
            orders.append((version, atoms))
            if not self.accept(","):
                break
        if self.before is None:
            message = ".plan stands behind the rule it is for"
            self.diagnostics.append(
                Diagnostic("DF117", message, start.span, "put it behind its rule")
            )
            return
        body = self.before.body
        # The two rows that a subsumption compares may be counted among its atoms.
        heads = 2 if isinstance(self.before, Dominates) else 0
        if count_alternatives(body) > MAX_ALTERNATIVES:
            return  # refused anyhow
        for case in alternatives(body):
            wide = sum(isinstance(part, Atom) for part in case)
            for version, atoms in orders:
                named = sorted(int(atom.value) for atom in atoms)  # type: ignore[arg-type]  # number tokens
                if named not in (list(range(1, wide + more + 1)) for more in (0, heads)):
                    plural = "" if wide == 1 else "s"
                    message = f"this order does not name the rule's {wide} atom{plural} once each"
                    valid = ", ".join(map(str, range(1, wide + 1)))
                    hint = f"an order of {valid}" if valid else "the rule has no atoms to order"
                    self.diagnostics.append(Diagnostic("DF117", message, version.span, hint))
                    return
        self.no_effect(start)

    def _read_strict(self, start: Token) -> None:
        """`.strict` behind a rule: its atoms in the order of the text. Without effect."""
        if self.before is not None:
            self.no_effect(start)
            return
        message = ".strict stands behind the rule it is for"
        self.diagnostics.append(Diagnostic("DF117", message, start.span, "put it behind its rule"))

    def no_effect(self, start: Token) -> None:
        """Say once that the join order is not the text's."""
        if not any(item.code == "DF159" for item in self.diagnostics):
            message = f"{start.text} has no effect: deltafix chooses the join order while it runs"
            hint = "remove the line, or leave it for Soufflé"
            self.diagnostics.append(Diagnostic("DF159", message, start.span, hint, "warning"))
