"""The program of a session: clauses by predicate, declarations, consulting.

Invariant: a predicate is *derived* once it has had a rule with a body or a `table` declaration,
and stays so; any other is a *fact base*, consumed straight from its index. A clause is present at
most once: programs are sets. Derived predicates are tabled whether declared or not: for pure
programs that changes no answer, and more of them terminate.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from deltafix.diagnostics import suggest
from deltafix.errors import SourceError
from deltafix.tabling.builtins import BUILTINS, LIBRARY
from deltafix.tabling.clauses import Clause, Key, compile_clause
from deltafix.tabling.factbase import Predicate
from deltafix.tabling.lexer import Source
from deltafix.tabling.operators import STANDARD
from deltafix.tabling.reader import ReadClause, read_clauses
from deltafix.tabling.terms import Atom, Int, Struct, Term, Var, list_items
from deltafix.tabling.writer import show_atom

_LOADING = frozenset({"use_module", "ensure_loaded", "module", "autoload"})
_NOTHING_LOADED = "leave it out: nothing is loaded, state the predicates that the program calls"
_DIRECTIVES = "table, dynamic, volatile, discontiguous over name/arity, or op/3"


def read_file(path: str | Path) -> Source:
    """The text of a file.

    Raises:
        SourceError: it cannot be read, or is not UTF-8.
    """
    try:
        return Source(Path(path).read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as cause:
        msg = f"{path}: {cause}"
        raise SourceError(msg) from cause


class Declaration(NamedTuple):
    """`:- table p/2` or `:- dynamic p/2`: the predicate is known, and tabled in the first case."""

    key: Key
    tabled: bool


class Program:
    """Predicates by (name, arity), and clauses by their term."""

    def __init__(self) -> None:
        self.predicates: dict[Key, Predicate] = {}
        self.clauses: dict[Term, Clause] = {}
        self.operators = STANDARD.copy()

    def predicate(self, key: Key) -> Predicate:
        """The predicate, made known if it was not."""
        predicate = self.predicates.get(key)
        if predicate is None:
            predicate = self.predicates[key] = Predicate(key)
        return predicate

    def read(self, source: Source) -> Iterator[Clause | Declaration]:
        """Read a text into clauses and declarations; `op/3` takes effect at once.

        Raises:
            PrologError: the first thing that cannot be accepted.
        """
        for read in read_clauses(source, self.operators):
            term = read.term
            if isinstance(term, Struct) and term.name in (":-", "?-") and len(term.args) == 1:
                yield from self._directive(read, term.args[0])
            else:
                yield compile_clause(read)

    def _directive(self, read: ReadClause, term: Term) -> Iterator[Declaration]:
        name = term.name if isinstance(term, Struct) else ""
        args = term.args if isinstance(term, Struct) else ()
        if name == "op" and len(args) == 3:
            priority, kind, names = args
            if isinstance(priority, Int) and isinstance(kind, Atom):
                items = list_items(names)[0] or [names]
                try:
                    for item in items:
                        if isinstance(item, Atom):
                            self.operators.add(priority.value, kind.name, item.name)
                except ValueError as cause:
                    raise read.problem(str(cause), _DIRECTIVES) from cause
                return
        if len(args) == 1 and name in ("table", "tabled", "dynamic", "volatile", "discontiguous"):
            for key in self._indicators(read, args[0]):
                yield Declaration(key, tabled=name in ("table", "tabled"))
            return
        directive = f"`:- {name}/{len(args)}`" if name else "this directive"
        way_out = _NOTHING_LOADED if name in _LOADING else _DIRECTIVES
        raise read.problem(f"{directive} is not part of the subset", way_out)

    def _indicators(self, read: ReadClause, term: Term) -> Iterator[Key]:
        """`p/2, q/1`, `[p/2]`, `p/2 as incremental` (taken as said: everything is)."""
        work = [term]
        while work:
            top = work.pop()
            items, _ = list_items(top)
            if items:
                work.extend(reversed(items))
            elif isinstance(top, Struct) and top.name == "," and len(top.args) == 2:
                work.extend((top.args[1], top.args[0]))
            elif isinstance(top, Struct) and top.name == "as" and len(top.args) == 2:
                option = top.args[1]
                while isinstance(option, Struct) and option.name == ",":
                    option = option.args[1]
                if not (isinstance(option, Atom) and option.name in ("incremental", "variant")):
                    message = "tables are variant tables, kept incrementally"
                    raise read.problem(message, _DIRECTIVES)
                work.append(top.args[0])
            elif (
                isinstance(top, Struct)
                and top.name == "/"
                and isinstance(top.args[0], Atom)
                and isinstance(top.args[1], Int)
            ):
                yield (top.args[0].name, top.args[1].value)
            elif isinstance(top, Struct) and all(isinstance(arg, Var) for arg in top.args):
                yield (top.name, len(top.args))  # `path(_, _)`: a variant table
            elif isinstance(top, Struct) and isinstance(top.args[0], Var):
                message = f"answer subsumption of {top.name}/{len(top.args)} is not in the subset"
                raise read.problem(message, "in rules, a column `<min>` or `<max>` does it")
            else:
                raise read.problem("a predicate is named as name/arity", _DIRECTIVES)

    def known_like(self, key: Key) -> str:
        """What to write instead of an unknown predicate."""
        if key in LIBRARY:
            return f"no library is loaded; state it: `{LIBRARY[key]}`"
        name, arity = key
        known = [*self.predicates, *BUILTINS]
        close = [f"{n}/{a}" for n, a in known if n == name]
        near = suggest(name, sorted({n for n, a in known if a == arity}))
        close += [f"{near}/{arity}"] if near else []
        declare = f"or declare it: `:- dynamic {name}/{arity}.`"
        return f"did you mean {close[0]}? {declare}" if close else f"give it a clause, {declare}"

    def show(self) -> str:
        """The program as text, declarations first, clauses in the order they came.

        A predicate that is left without a clause is declared too: it is known all the same.
        """
        lines = []
        for (name, arity), predicate in self.predicates.items():
            indicator = f"{show_atom(name)}/{arity}"
            if predicate.tabled:
                lines.append(f":- table {indicator}.")
            elif predicate.dynamic or not any(predicate.clauses):
                lines.append(f":- dynamic {indicator}.")
        return "\n".join([*lines, *map(str, self.clauses.values())]) + "\n"
