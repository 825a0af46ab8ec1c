"""`builtins.txt` as facts: what builtins do with values, in the words of `inputs.TABLES`.

Invariant: a class's methods are stated together with those it inherits, so that the rules look a
builtin method up in one step. A line that is not understood raises ValueError: the file is ours.
"""

# ruff: noqa: SIM905  tables of names read better as words
from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

from deltafix.analyses.facts import Fact
from deltafix.analyses.value_flow.annotations import POSITIONS
from deltafix.analyses.value_flow.blocks import UNKNOWN, instance

_NUMBERS = ("bool", "int", "float", "complex")
_ARITHMETIC = ("add", "sub", "mul", "floordiv", "mod", "pow")
_BITS = ("and", "or", "xor", "lshift", "rshift")
_SETS = ("set", "frozenset", "dict_keys", "dict_items")
_SOURCE = re.compile(
    r"(?P<self>self|\?|named)|(?P<field>\[\w*\])|(?P<inside>\w+\[\w*\])|(?P<argument>\d|key|default|start)"
    r"|(?P<verb>each|call|type|first|second|many|without) (?P<of>\w+)|(?P<class>[A-Za-z_][\w.]*)"
)
_DUNDERS = (
    "add sub mul truediv floordiv mod pow matmul lshift rshift and or xor eq lt le gt ge neg pos "
    "invert contains exit aexit iter next setitem str repr format len hash bool int float index abs"
).split()


@cache
def table_facts() -> tuple[Fact, ...]:
    """The facts, sorted. O(size of the file), once a process."""
    text = (files("deltafix.analyses.value_flow") / "builtins.txt").read_text(encoding="utf-8")
    return tuple(sorted({*_Reader().run(text), *_operators(), *_words()}))


class _Reader:
    """Reads the file line by line."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self.module = self.owner = ""
        self.bases: dict[str, list[str]] = {}
        self.methods: dict[str, set[str]] = {}

    def emit(self, relation: str, *row: str) -> None:
        self.facts.append((relation, row))

    def run(self, text: str) -> list[Fact]:
        for line in text.splitlines():
            words = line.split("#")[0].split()
            if not words:
                continue
            if line.startswith(" "):
                self._entry([f"{self.owner}.{n}" for n in self._names(words)], words)
            elif words[0] == "module":
                self.module = "" if words[1] == "builtins" else words[1]
            elif words[0] == "class":
                self._class(words[1:])
            elif words[0] == "alias":
                self.emit("extern", self.module, words[1], words[2])
            elif words[0] == "function":
                name = self._state_name(words.pop(1))
                self.emit("native", name)
                self._entry([name], words)
            else:
                raise ValueError(f"builtins.txt: {line!r}")
        self._inherit()
        return self.facts

    def _state_name(self, name: str) -> str:
        """State that a name of the current module is an object; returns the object."""
        full = f"{self.module}.{name}" if self.module else name
        if self.module:
            self.emit("extern", self.module, name, full)
        else:
            self.emit("builtin", name, full)
        return full

    def _class(self, words: list[str]) -> None:
        name, _, bases = "".join(words).partition("(")
        flags = {word for word in ("container", "complete") if word in words}
        for flag in flags:
            name, bases = name.removesuffix(flag), bases.removesuffix(flag)
        full = self.owner = self._state_name(name)
        self.bases[full] = [base for base in bases.rstrip(")").split(",") if base]
        self.methods[full] = set()
        instance_ = UNKNOWN if full == "object" else instance(full)
        self.emit("builtin_class", full)
        self.emit("some", full, instance_)
        self.emit("holds", instance(full), instance_)
        self.emit("native", full)
        self.emit("complete", full) if "complete" in flags else None
        if "container" in flags:
            self.emit("makes", full, full)
        elif full != "type":
            self.emit("gives", full, "class", full)
            self.emit("wants", full, "class", full)
        for base in self.bases[full]:
            self.emit("builtin_base", full, base)

    def _names(self, words: list[str]) -> list[str]:
        """The methods that an entry is about; takes their words away."""
        names: list[str] = []
        while words and words[0] != "->" and (not names or "->" in words):
            names.append(words.pop(0))
        words.insert(0, "")
        return names

    def _entry(self, callees: list[str], words: list[str]) -> None:
        rest = " ".join(words[1:])
        for callee in callees:
            name = callee.removeprefix(f"{self.owner}.")
            if name.startswith("."):
                self.emit("native_attribute", self.owner, name[1:], rest.removeprefix("-> "))
                continue
            target = self.owner if name == "__init__" else callee
            if name != "__init__" and callee not in {
                f for r, (f, *_) in self.facts if r == "native"
            }:
                self.methods[self.owner].add(name)
                self.emit("native_method", self.owner, name, callee)
            if name == "__next__" and rest.startswith("-> "):
                what = rest.removeprefix("-> ")
                self.emit(*(("elements_in", self.owner, what) if what[0] == "[" else
                            ("elements_of", self.owner, what)))  # fmt: skip
            self._effect(target, rest)

    def _effect(self, callee: str, text: str) -> None:
        if text.startswith("-> "):
            self._result(callee, text.removeprefix("-> "))
        elif text.startswith("calls "):
            _, argument, source = text.split(" ", 2)
            self.emit("hands", callee, argument, *self._source(callee, source))
        else:
            source, field = text.split(" into ")
            kind, what = self._source(callee, source)
            if callee in self.bases:  # a constructor fills what it makes
                self.emit("makes_of", callee, "new", field, kind, what)
            else:
                self.emit("keeps", callee, field, kind, what)

    def _result(self, callee: str, text: str) -> None:
        kind, of, inside = text.partition(" of ")
        if not of:
            for part in text.split(" | "):
                self.emit("gives", callee, *self._source(callee, part))
            return
        self.emit("makes", callee, kind)
        if inside.startswith("("):
            for position, part in enumerate(inside.strip("()").split(", ")):
                source = self._source(callee, part)
                self.emit("makes_of", callee, "pair", POSITIONS[position], *source)
        else:
            for match in _SOURCE.finditer(inside):
                self.emit("makes_of", callee, "new", "[]", *self._source(callee, match[0]))

    def _source(self, callee: str, text: str) -> tuple[str, str]:
        match = _SOURCE.fullmatch(text)
        if match is None:
            raise ValueError(f"builtins.txt: {callee}: {text!r}")
        if match["self"]:
            kind, what = {"self": "self", "?": "unknown", "named": "named"}[text], ""
        elif match["verb"]:
            kind, what = match["verb"], match["of"]
        else:
            kind, what = match.lastgroup or "", text
        if kind == "inside":
            argument, _, field = what.partition("[")
            self.emit("inside", what, argument, f"[{field}")
        self.emit("wants", callee, kind, what)
        return kind, what

    def _inherit(self) -> None:
        """State the methods and elements that a class has from its bases."""
        elements = {row[0] for name, row in self.facts if name in {"elements_in", "elements_of"}}
        facts = list(self.facts)
        walked = frozenset(elements)
        for class_ in self.bases:
            have = set(self.methods[class_])
            for base in self._above(class_):
                for name in sorted(self.methods[base] - have):
                    have.add(name)
                    self.emit("native_method", class_, name, f"{base}.{name}")
                for relation, row in facts:
                    if row[0] != base:
                        continue
                    walks = relation in {"elements_in", "elements_of"} and class_ not in elements
                    if walks or relation == "native_attribute":
                        self.emit(relation, class_, *row[1:])
                if base in walked:
                    elements.add(class_)

    def _above(self, class_: str) -> Iterator[str]:
        for base in self.bases[class_]:
            yield base
            yield from self._above(base)


def _operators() -> Iterator[Fact]:
    """What the operators give on builtins: (operator, left class, right class, class)."""
    rank = {name: i for i, name in enumerate(_NUMBERS)}
    for left in _NUMBERS:
        for right in _NUMBERS:
            wide = max(left, right, "int", key=rank.__getitem__)
            for name in _ARITHMETIC:
                yield "operates", (f"__{name}__", left, right, wide)
            yield "operates", ("__truediv__", left, right, max(wide, "float", key=rank.__getitem__))
    for left in _NUMBERS[:2]:
        for right in _NUMBERS[:2]:
            for name in _BITS:
                both = left == right == "bool" and not name.endswith("shift")
                yield "operates", (f"__{name}__", left, right, "bool" if both else "int")
    for text in ("str", "bytes"):
        yield "operates", ("__add__", text, text, text)
        for number in _NUMBERS[:2]:
            yield "operates", ("__mul__", text, number, text)
            yield "operates", ("__mul__", number, text, text)
    yield "operates", ("__truediv__", "pathlib.Path", "str", "pathlib.Path")
    yield "operates", ("__truediv__", "pathlib.Path", "pathlib.Path", "pathlib.Path")
    for kind in ("list", "tuple", "deque"):
        yield "joins", ("__add__", kind, kind)
        for number in _NUMBERS[:2]:
            yield "joins", ("__mul__", kind, number)
            yield "joins", ("__mul__", number, kind)
    for left in _SETS:
        for right in _SETS:
            for name in ("or", "and", "xor", "sub"):
                yield "joins", (f"__{name}__", left, right)
    yield "joins", ("__or__", "dict", "dict")


def _words() -> Iterator[Fact]:
    for name in _DUNDERS:
        yield "special", (f"__{name}__",)
        yield "special", (f"__i{name}__",)
    for name in _ARITHMETIC + _BITS + ("truediv", "matmul"):
        yield "mirror", (f"__{name}__", f"__r{name}__")
    for name, other in (("lt", "gt"), ("gt", "lt"), ("le", "ge"), ("ge", "le"), ("eq", "eq")):
        yield "mirror", (f"__{name}__", f"__{other}__")
    for field in POSITIONS:
        yield "position", (field,)
    for container in (
        "list deque tuple set frozenset dict Iterable Iterator Reversible Container Collection "
        "Sequence MutableSequence Set MutableSet Mapping MutableMapping generator reversed "
        "enumerate zip map filter dict_keys dict_values dict_items AsyncIterator async_generator "
        "coroutine _GeneratorContextManager collections.Counter collections.defaultdict"
    ).split():
        for field in ("[]", "[k]", "await"):
            yield "fills", (instance(container), field, UNKNOWN)
    yield "holds", (UNKNOWN, UNKNOWN)
