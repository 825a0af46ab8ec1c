"""Words: how names are spelled where no reference is followed, and that still may mean something.

    "run_all", "run-all", "runAll", # see run_all          the key `runall`
    f"on_{event}", "%s_handler" % kind, "get" + field      pieces: a name may begin or end so

A symbol that nothing reaches is *sure* to be dead only if nobody says its name either: not in a
string or comment, not as the name of an argument, not in a document, a template, a stub or the
source of another language. Invariant: a word is said by the symbol it is written in, so that what
dead code says counts for nothing; more words keep fewer findings sure, never more.
What follows from a word is decided in `doubt.dl`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TypeAlias

from deltafix.analyses.facts import Fact

Block: TypeAlias = tuple[int, int, str]
"""The lines of a definition, first and last, and its symbol."""

SAID: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "spelled": ("name", "key"),
        "begins": ("name", "piece"),
        "ends": ("name", "piece"),
        "says": ("user", "key"),
        "says_start": ("user", "piece"),
        "says_end": ("user", "piece"),
        "imports_any": ("user",),
        "family": ("path",),
        "abstract": ("id",),
        "unfinished": ("id",),
        "for_hands": ("id",),
        "interface": ("name",),
    }
)
"""Input relations of `doubt.dl` and their columns, all of type symbol."""

_LONGEST = 60  # letters: what is longer is data, too
_WORD = re.compile(r"[A-Za-z_](?:-?\w)*", re.ASCII)
_GAP = re.compile(
    r"%(?:\(\w*\))?[#0\- +]*\d*(?:\.\d+)?[sdrifxc]|\$?\{\{?[^{}]*\}?\}|\$\w+|<[\w-]+>|\*"
)
_BEFORE = re.compile(r"[A-Za-z_]\w*$", re.ASCII)
_AFTER = re.compile(r"^\w*[A-Za-z_]", re.ASCII)
_OPEN_END = re.compile(r"\b[A-Za-z]\w*_\b", re.ASCII)
_OPEN_START = re.compile(r"\b_[A-Za-z]\w*", re.ASCII)
_BOUNDARY = re.compile(r"(?<=_)(?=[^_])|(?<=[a-z0-9])(?=[A-Z])|(?<=[^_])(?=_)")
_MARKED = re.compile(r"`([^`\n]+)`|^(?: {4}|\t)(.*)$", re.MULTILINE)  # in prose, as code
_RUN = re.compile(r"[\w.-]+\(?", re.ASCII)
_UNUSUAL = re.compile(r"\w_|_\w|\w\.\w|[a-z0-9][A-Z]|^-|\($", re.ASCII)  # of no other word
_PRIVATE = re.compile(r"(?=__)")
_TESTING = re.compile(
    r"(?:^|_)(?:doc|unit|self)?tests?(?:_|ing_|$)|(?i:testing|debug)"
    r"|[a-z]Tests?(?![a-z])|^Tests?(?![a-z])"
)
_TESTED = re.compile(
    r"(?i)\b(?:(?:unit)?test(?:s|ing)?|debug(?:ging|ger)?|internal use|by hand|manual(?:ly)?"
    r"|interactive(?:ly)?|notebooks?)\b"
)


def key_of(name: str) -> str:
    """What all spellings of a name share: `run_all`, `run-all`, `RunAll`; a leading `_` stays."""
    bare = name.lstrip("_")
    return name[: len(name) - len(bare)] + bare.replace("_", "").replace("-", "").lower()


def unmangled(name: str) -> Iterator[str]:
    """The private names that Python makes this one of: `__run` of `_Class__run`."""
    if name[:1] == "_" and name[1:2].isalpha():
        for match in _PRIVATE.finditer(name):
            yield name[match.start() :]


def spelling(name: str) -> Iterator[Fact]:
    """How a name is spelled, whole and in parts."""
    yield "spelled", (name, key_of(name))
    for cut in {match.start() for match in _BOUNDARY.finditer(name)}:
        if name[:cut].strip("_"):
            yield "begins", (name, name[:cut].rstrip("_"))
            yield "ends", (name, name[cut:].lstrip("_"))


def is_for_hands(name: str, documentation: str | None) -> bool:
    """Whether a definition says that tests use it, or somebody at a prompt."""
    return bool(_TESTING.search(name) or (documentation and _TESTED.search(documentation)))


def _words(text: str) -> set[str]:
    """The keys of the words of a text, and of the parts of `one-two`. O(length)."""
    words = set(_WORD.findall(text))
    parts = {part for word in words if "-" in word for part in word.split("-")}
    parts.update(name for word in words if "__" in word for name in unmangled(word))
    return {key_of(word) for word in words | parts if len(word) <= _LONGEST}


def said(user: str, text: str) -> Iterator[Fact]:
    """The words of a text."""
    for key in _words(text):
        yield "says", (user, key)


def joined(user: str, text: str) -> Iterator[Fact]:
    """The beginnings and ends of names that a text leaves open, as they are spelled.

    A gap is where something computed goes (`{}`, `%s`) or any letters may stand (`*`).
    """
    parts = _GAP.split(text)
    starts = [match[0] for part in parts[:-1] if (match := _BEFORE.search(part[-_LONGEST:]))]
    ends = [match[0] for part in parts[1:] if (match := _AFTER.search(part[:_LONGEST]))]
    for start in (*starts, *_OPEN_END.findall(text)):
        if start.strip("_"):
            yield "says_start", (user, start.rstrip("_"))
    for end in (*ends, *_OPEN_START.findall(text)):
        if end.strip("_"):
            yield "says_end", (user, end.lstrip("_"))


def template(node: ast.expr) -> str:
    """The text of an expression that puts texts together, `{}` for what is computed."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(map(template, parts))
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return template(left) + template(right)
    return "{}"


def said_in_prose(user: str, text: str) -> Iterator[Fact]:
    """What a document says: of its words those that are marked as code, or are no other words.

    O(length), whatever the text: it may be somebody else's.
    """
    for code, line in _MARKED.findall(text):
        yield from said(user, code or line)
    for run in _RUN.findall(text):
        if len(run) <= _LONGEST and _UNUSUAL.search(run):
            yield from said(user, run)


def said_in_comments(data: bytes, module: str, blocks: Iterable[Block]) -> Iterator[Fact]:
    """What the comments of a file of Python say; one above a definition belongs to it.

    `blocks` are (first line, last line, symbol). O(lines + comments * log blocks).
    """
    if b"#" not in data:
        return
    lines = data.decode("utf-8", "replace").splitlines()
    owner: dict[int, str] = {}
    for first, last, identity in sorted(blocks, key=lambda block: block[0] - block[1]):
        start = first
        while start > 1 and lines[start - 2 : start - 1][0].lstrip()[:1] == "#":
            start -= 1
        owner.update(dict.fromkeys(range(start, last + 1), identity))
    for number, line in enumerate(lines, start=1):
        _, mark, comment = line.partition("#")
        if mark:
            yield from said_in_prose(owner.get(number, module), comment)
