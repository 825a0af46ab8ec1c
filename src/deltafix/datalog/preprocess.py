"""The part of the C preprocessor that Datalog programs use, on tokens.

`#include "file"`, `#define` with and without parameters, `#undef`, `#ifdef`, `#ifndef`, `#if`,
`#elif`, `#else`, `#endif`, `#error`, `#warning`; `.include "file"`, and `.once`, by which a file is
read the first time only; `__FILE__` and `__LINE__`. Invariant: a token keeps the place a reader
would look at: in an included file its own line, from a macro the line of the macro's use. Working
on tokens means that nothing needs a line map. Includes stay inside the program's folder and the
folders named by `-I`.

Macros are as C has them: an argument is expanded before it takes its place, except beside `##`,
which joins two tokens into one, and behind `#`, which makes a string of the argument's spelling. A
macro's text is tokens already, so nothing is read twice but what `##` joins.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from deltafix.datalog.conditions import ConditionError, evaluate, prepare
from deltafix.datalog.lexer import Token, tokenize
from deltafix.datalog.source import Source, decode
from deltafix.diagnostics import Diagnostic, suggest

DOMAIN_SIZE: Final = "RAM_DOMAIN_SIZE"
"""The macro that says how many bits a number has."""

MAX_INCLUDES: Final = 64
"""Nested includes; a file that includes itself without a guard meets this limit."""

MAX_EXPANSION: Final = 1_000_000
"""Tokens that macros may produce in one program: bounds exponential macro bombs."""

_DIRECTIVE: Final = re.compile(r"[#.][ \t]*([A-Za-z_]*)")
_ANGLES: Final = re.compile(r"[ \t]*<([^<>\n]+)>[ \t\r]*$")
_KNOWN: Final = (
    "include", "define", "undef", "ifdef", "ifndef", "if", "elif", "else", "endif", "error",
    "warning", "pragma", "line",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Given:
    """What a program is read with, beside its text.

    Args:
        folders: where included files are looked for, after the folder of the file that includes.
        macros: macros by name, with their text; `f(x)` is a name with parameters.
        word_size: bits of a number, 32 or 64; None leaves it to the program.
    """

    folders: tuple[Path, ...] = ()
    macros: Mapping[str, str] = field(default_factory=dict)
    word_size: int | None = None


NOTHING_GIVEN: Final = Given()


@dataclass(slots=True)
class _Condition:
    """An open `#if`: where, whether its surroundings count, its branch, and what was seen.

    `taken` is whether the branch at hand counts, `done` whether one before it did, `turned`
    whether `#else` was seen.
    """

    opening: Token
    outer: bool
    taken: bool
    turned: bool = False
    done: bool = False

    @property
    def active(self) -> bool:
        return self.outer and self.taken


@dataclass(slots=True)
class Preprocessed:
    """Tokens to parse, what went wrong, every text read (by path), and tokens left out.

    `skipped` are the tokens that a false `#ifdef` or `#ifndef` hides, `missing` the files that
    were to be included and could not be read.
    """

    tokens: list[Token] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    sources: dict[str | None, str] = field(default_factory=dict)
    skipped: list[Token] = field(default_factory=list)
    missing: list[Path] = field(default_factory=list)


class _Preprocessor:
    def __init__(self, folder: Path | None, given: Given) -> None:
        self.folders = (*(() if folder is None else (folder,)), *given.folders)
        self.out = Preprocessed()
        self.macros: dict[str, Macro] = {}
        self.expanded = 0
        self.including: list[Path] = []
        self.once: set[Path] = set()
        for name, text in {DOMAIN_SIZE: str(given.word_size or 64), **given.macros}.items():
            self.given_macro(name, text)

    def given_macro(self, name: str, text: str) -> None:
        """A macro that is there before the text; a bad one is blamed on no place."""
        tokens, diagnostics = tokenize(Source(f"{name} {text}"), hashes=True)
        try:
            known, macro = read_macro(tokens)
        except MacroError as error:
            diagnostics = [Diagnostic("DF107", f"macro {name!r}: {error}", None, error.help)]
        else:
            self.macros[known] = macro
        for item in diagnostics:
            self.out.diagnostics.append(replace(item, span=None))

    def report(self, token: Token, message: str, help: str | None = None) -> None:  # noqa: A002  the field's name
        self.out.diagnostics.append(Diagnostic("DF107", message, token.span, help))

    def file(self, source: Source) -> None:
        self.out.sources[source.path] = source.text
        tokens, diagnostics = tokenize(source)
        self.out.diagnostics.extend(diagnostics)
        conditions: list[_Condition] = []
        position = 0
        while position < len(tokens):
            token = tokens[position]
            active = not conditions or conditions[-1].active
            if token.kind == "cpp":
                self.directive(token, conditions, active)
                position += 1
            elif not active:
                self.out.skipped.append(token)
                position += 1
            elif token.kind == "ident" and token.text in self.macros:
                position = self.expand(tokens, position, token, self.out.tokens, frozenset())
            else:
                self.out.tokens.append(_resolved(token, token))
                position += 1
        for condition in conditions:
            self.report(condition.opening, "this condition is never closed", "close it with #endif")

    def directive(self, token: Token, conditions: list[_Condition], active: bool) -> None:
        match = _DIRECTIVE.match(token.text)
        word = match.group(1) if match else ""
        start = token.start + (match.end() if match else 1)
        rest, diagnostics = tokenize(token.source, start, token.end, hashes=word == "define")
        if word in ("ifdef", "ifndef"):
            if len(rest) != 1 or rest[0].kind != "ident":
                self.report(token, f"#{word} wants one name", f"write `#{word} NAME`")
            defined = bool(rest) and rest[0].text in self.macros
            conditions.append(_Condition(token, active, defined == (word == "ifdef")))
        elif word == "if":
            conditions.append(_Condition(token, active, active and self.holds(token, rest)))
        elif word in ("elif", "else"):
            self.turn(word, token, rest, conditions)
        elif word == "endif":
            if conditions:
                conditions.pop()
            else:
                self.report(token, "#endif without an open #if, #ifdef or #ifndef")
        elif word == "once":
            if active and token.source.path is not None:
                self.once.add(Path(token.source.path).resolve())
        elif active:
            handlers: dict[str, Callable[[Token, list[Token]], None]] = {
                "include": self.include,
                "define": self.define,
                "undef": self.undefine,
                "error": self.say,
                "warning": self.say,
                "pragma": _ignore,
                "line": _ignore,
            }
            handler = handlers.get(word)
            if handler is None:
                close = suggest(word, _KNOWN)
                known = " ".join(f"#{name}" for name in _KNOWN)
                self.report(
                    token,
                    f"`#{word}` is not a preprocessor line that deltafix reads",
                    f"did you mean #{close}?"
                    if close
                    else f"valid: {known}; a comment is // or /* */",
                )
                return
            if word in ("include", "define", "undef"):
                self.out.diagnostics.extend(diagnostics)
            handler(token, rest)

    def turn(
        self, word: str, token: Token, rest: list[Token], conditions: list[_Condition]
    ) -> None:
        """`#elif` and `#else`: the next branch of the condition that is open."""
        if not conditions or conditions[-1].turned:
            self.report(token, f"#{word} without an open #if, #ifdef or #ifndef")
            return
        condition = conditions[-1]
        condition.done |= condition.taken
        condition.turned = word == "else"
        wanted = condition.outer and not condition.done
        condition.taken = wanted and (word == "else" or self.holds(token, rest))

    def holds(self, token: Token, rest: list[Token]) -> bool:
        """Whether the expression behind `#if` or `#elif` is other than 0."""
        try:
            expanded: list[Token] = []
            self.rescan(prepare(rest, self.macros), token, expanded, frozenset())
            return bool(evaluate(expanded))
        except ConditionError as error:
            self.report(token, f"this condition cannot be read: {error}", "write `#if LIMIT > 3`")
            return False

    def say(self, token: Token, rest: list[Token]) -> None:
        """`#error` and `#warning`: the program's own words, as a diagnostic."""
        word, _, message = token.text[1:].strip().partition(" ")
        severity = "warning" if word == "warning" else "error"
        text = message.strip() or f"#{word}"
        self.out.diagnostics.append(Diagnostic("DF107", text, token.span, None, severity))

    def define(self, token: Token, rest: list[Token]) -> None:
        try:
            name, macro = read_macro(rest)
        except MacroError as error:
            self.report(token, str(error), error.help)
        else:
            self.macros[name] = macro

    def undefine(self, token: Token, rest: list[Token]) -> None:
        if len(rest) != 1 or rest[0].kind != "ident":
            self.report(token, "#undef wants one name", "write `#undef NAME`")
            return
        self.macros.pop(rest[0].text, None)

    def include(self, token: Token, rest: list[Token]) -> None:
        angles = _ANGLES.search(token.text)
        if angles is not None:
            name, blamed = angles[1], token
        elif len(rest) == 1 and rest[0].kind == "string":
            name, blamed = str(rest[0].value), rest[0]
        else:
            self.report(token, "an include wants a file name", 'write `#include "file.dl"`')
            return
        if not self.folders:
            self.report(
                blamed,
                f"cannot include {name!r}: the program was not read from a file",
                "use Program.from_file, or pass path= to Program.parse",
            )
            return
        # Soufflé looks beside the including file; the program's folder is the outer fence.
        beside = () if token.source.path is None else (Path(token.source.path).parent,)
        tries = [folder / name for folder in dict.fromkeys((*beside, *self.folders))]
        try:
            targets = [(path.resolve(), path) for path in tries]
            fences = [folder.resolve() for folder in self.folders]
            inside = [
                pair for pair in targets if any(pair[0].is_relative_to(fence) for fence in fences)
            ]
            existing = next((pair for pair in inside if pair[0].is_file()), None)
        except (OSError, ValueError, RuntimeError) as error:
            self.report(blamed, f"cannot include {name!r}: {error}")
            return
        if not inside:
            self.report(
                blamed,
                f"{name!r} lies outside the program's folder",
                "a program includes files of its own folder, of those named by -I, and below",
            )
            return
        if len(self.including) >= MAX_INCLUDES:
            self.report(blamed, f"includes are nested more than {MAX_INCLUDES} deep")
            return
        target, path = existing or inside[0]
        if target in self.once:
            return
        try:
            data = target.read_bytes()
        except OSError as error:
            siblings = sorted({p.name for tried in tries for p in tried.parent.glob("*.dl")})
            close = suggest(name, siblings)
            reason = error.strerror or str(error)
            self.out.missing.append(path)
            self.report(
                blamed,
                f"cannot include {name!r}: {reason}",
                f"did you mean {close!r}?" if close else None,
            )
            return
        source, wrong = decode(data, str(path))
        self.out.diagnostics.extend(wrong)
        self.including.append(target)
        self.file(source)
        self.including.pop()

    def expand(
        self,
        tokens: list[Token],
        position: int,
        use: Token,
        into: list[Token],
        hidden: frozenset[str],
    ) -> int:
        """Write the expansion of the macro at `position`; give the position after its use."""
        name = tokens[position].text
        macro = self.macros[name]
        after = position + 1
        arguments: list[list[Token]] = []
        if macro.parameters is not None:
            if after >= len(tokens) or tokens[after].text != "(":
                into.append(tokens[position].moved_to(use))
                return after
            closed = read_arguments(tokens, after, arguments)
            wanted = len(macro.parameters)
            if wanted == 0 and arguments == [[]]:
                arguments = []
            if closed is None or len(arguments) != wanted:
                given = "no closing parenthesis" if closed is None else f"{len(arguments)} given"
                self.report(use, f"macro {name} wants {wanted} arguments, {given}")
                return len(tokens) if closed is None else closed
            after = closed

        def expanded(argument: list[Token]) -> list[Token]:
            out: list[Token] = []
            self.rescan(argument, use, out, hidden)
            return out

        try:
            replaced = substitute(macro, arguments, expanded)
        except MacroError as error:
            self.report(use, str(error), error.help)
            return after
        self.expanded += len(replaced) + 1
        if self.expanded > MAX_EXPANSION:
            if self.expanded < 2 * MAX_EXPANSION:
                self.report(use, f"macros expand to more than {MAX_EXPANSION:,} tokens")
                self.expanded = 2 * MAX_EXPANSION
            return after
        self.rescan(replaced, use, into, hidden | {name})
        return after

    def rescan(
        self, tokens: list[Token], use: Token, into: list[Token], hidden: frozenset[str]
    ) -> None:
        # A macro hidden by its own expansion is left alone, as C has it: no macro loops.
        position = 0
        while position < len(tokens):
            token = tokens[position]
            usable = token.kind == "ident" and token.text in self.macros
            if usable and token.text not in hidden and len(hidden) <= MAX_INCLUDES:
                position = self.expand(tokens, position, use, into, hidden)
            else:
                into.append(_resolved(token, use).moved_to(use))
                position += 1


def _resolved(token: Token, use: Token) -> Token:
    """`__FILE__` and `__LINE__` as the path and the line of `use`; any other token itself."""
    if token.kind != "ident" or token.text not in ("__FILE__", "__LINE__"):
        return token
    if token.text == "__LINE__":
        line = use.source.line(use.start)
        return Token("number", str(line), use.source, use.start, use.end, line)
    path = use.source.path or ""
    return Token("string", f'"{path}"', use.source, use.start, use.end, path)


def _ignore(token: Token, rest: list[Token]) -> None:
    """`#pragma` and `#line` are for other compilers."""


def preprocess(
    source: Source, folder: Path | None = None, given: Given = NOTHING_GIVEN
) -> Preprocessed:
    """The tokens of `source` after `#` lines are obeyed. `folder` fences `#include`."""
    preprocessor = _Preprocessor(folder, given)
    preprocessor.file(source)
    return preprocessor.out


@dataclass(frozen=True, slots=True)
class Macro:
    """A macro's parameters (None: it takes no brackets) and its text."""

    parameters: tuple[str, ...] | None
    body: tuple[Token, ...]


class MacroError(Exception):
    """A macro that cannot be read or used; `help` says what would do."""

    def __init__(self, message: str, help: str | None = None) -> None:  # noqa: A002  the diagnostic's name
        super().__init__(message)
        self.help = help


def read_macro(rest: list[Token]) -> tuple[str, Macro]:
    """The name and macro behind `#define`. Raises MacroError."""
    if not rest or rest[0].kind != "ident":
        raise MacroError("#define wants a name", "write `#define NAME text`")
    name, body, parameters = rest[0], rest[1:], None
    if body and body[0].text == "(" and body[0].start == name.end:
        close = next((i for i, part in enumerate(body) if part.text == ")"), None)
        if close is None:
            raise MacroError(f"the parameters of {name.text} are never closed")
        inner = body[1:close]
        parameters = tuple(part.text for part in inner[::2])
        commas = all(part.text == "," for part in inner[1::2])
        names = all(part.kind == "ident" for part in inner[::2])
        if not (commas and names) or (inner and len(inner) % 2 == 0):
            raise MacroError(f"the parameters of {name.text} are not names with commas")
        body = body[close + 1 :]
    texts = [_mark(part) for part in body]
    if texts and "##" in (texts[0], texts[-1]):
        raise MacroError("`##` joins two tokens: one is missing")
    named = [part.text in (parameters or ()) for part in body]
    for position, mark in enumerate(texts):
        if mark == "#" and not any(named[position + 1 : position + 2]):
            raise MacroError("`#` makes a string of a parameter, and none follows")
    return name.text, Macro(parameters, tuple(body))


def read_arguments(tokens: Sequence[Token], opening: int, into: list[list[Token]]) -> int | None:
    """The arguments in the bracket at `opening`; the position behind it, None if it stays open."""
    depth = 0
    into.append([])
    for position in range(opening, len(tokens)):
        text = _mark(tokens[position])
        depth += (text in ("(", "[", "{")) - (text in (")", "]", "}"))
        if depth == 0:
            return position + 1
        if text == "," and depth == 1:
            into.append([])
        elif position != opening and tokens[position].kind != "cpp":
            into[-1].append(tokens[position])
    return None


def substitute(
    macro: Macro, arguments: list[list[Token]], expanded: Callable[[list[Token]], list[Token]]
) -> list[Token]:
    """The macro's text with arguments for parameters; `expanded` expands one. Raises MacroError."""
    parameters = macro.parameters or ()
    out: list[Token] = []
    joins = quotes = False
    for position, token in enumerate(macro.body):
        mark = _mark(token)
        if mark in ("#", "##"):
            joins, quotes = mark == "##" or joins, mark == "#"
            continue
        part = [token]
        if token.kind == "ident" and token.text in parameters:
            part = arguments[parameters.index(token.text)]
            beside = _mark(macro.body[position + 1]) if position + 1 < len(macro.body) else ""
            if quotes:
                part = [_quoted(part, token)]
            elif not joins and beside != "##":
                part = expanded(part)
        if joins and out and part:
            part = [_joined(out.pop(), part[0]), *part[1:]]
        out.extend(part)
        joins = quotes = False
    return out


def _mark(token: Token) -> str:
    """A punctuation's spelling; empty for any other token."""
    return token.text if token.kind == "punct" else ""


def _quoted(argument: list[Token], use: Token) -> Token:
    """The spelling of an argument as a string, one space where there was any."""
    text = ""
    for last, token in zip([None, *argument], argument, strict=False):
        text += " " if last is not None and last.end < token.start else ""
        text += token.text
    spelt = text.replace("\\", "\\\\").replace('"', '\\"')
    return replace(use, kind="string", text=f'"{spelt}"', value=text)


def _joined(left: Token, right: Token) -> Token:
    """Two tokens as one. Raises MacroError if their spelling together is not one token."""
    text = left.text + right.text
    tokens, diagnostics = tokenize(Source(text))
    if diagnostics or len(tokens) != 1:
        raise MacroError(f"`{left.text}` and `{right.text}` do not join to one token")
    return tokens[0].moved_to(left)
