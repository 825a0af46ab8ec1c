"""What an analysis is: an extractor of facts from one file, and a program over all files' facts.

    bytes -> extract -> Fragment   |   Fragments -> program -> views

Invariant: what a file states follows from the file alone, so a saved file is old fragment out, new
fragment in; all that needs a second file is decided by the rules.
Not here: reading files (`reading`), keeping the answer (`job`), the list of analyses (`registry`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files as resources
from pathlib import Path
from typing import TypeAlias

from deltafix.analyses.facts import Fact, Fragment
from deltafix.analyses.files import Tree
from deltafix.datalog.program import Program

Extract: TypeAlias = Callable[[str, bytes, str], Fragment]
"""(path, content, dotted name of the package that the tree is, or "") to what the file says.

Total: bad content gives a fragment with `error` set, never an exception."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """An extractor, a program, and the views it tells.

    Attributes:
        name: what the command line calls it.
        title: what it answers, in one line.
        suffixes: endings of the files it reads.
        inputs: relations that files state, with their columns, all symbols.
        extract: what one file says.
        program: (package below `deltafix.analyses`, file) of each part of the rules.
        views: relations for users; the first is the answer.
        project: names of project files it reads too, also from the two folders above the tree.
        tables: facts that hold for every tree.
        bare: whether it reads files whose name has no ending, too: scripts.
        whole: a file below a folder that says all of it, and is read in place of its files, and
            what has to be there for that beside it; or nothing.
        alternatives: whether rows of a view that differ in their last column alone are told as one.
        edges: relations whose rows are edges: the columns of where one starts and of where it
            ends. One of two columns that is not named here goes from the first to the second.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    inputs: Mapping[str, tuple[str, ...]]
    extract: Extract
    program: tuple[tuple[str, str], ...]
    views: tuple[str, ...]
    project: tuple[str, ...] = ()
    tables: tuple[Fact, ...] = ()
    bare: bool = False
    whole: tuple[str, ...] = ()
    alternatives: bool = False
    edges: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = field(default_factory=dict)

    def reads(self, path: str) -> bool:
        """Whether a file of this name is one of its sources."""
        names = {name.rpartition("/")[2] for name in self.whole[:1]}
        return path.endswith(self.suffixes) or path in names

    def load_program(self) -> Program:
        """The rules, checked; the same object each time."""
        return _read(f"{self.name}.dl", self.program)

    def tree(self, path: Path, exclude: Sequence[str] = ()) -> Tree:
        """The files it reads of a folder, or a single file. Raises SourceError if it is neither."""
        if self.whole and all((path / name).exists() for name in self.whole):
            path /= self.whole[0]
        return Tree.at(path, exclude, suffixes=self.suffixes, project=self.project, bare=self.bare)


@cache
def _read(name: str, parts: tuple[tuple[str, str], ...]) -> Program:
    texts = [
        (resources(f"deltafix.analyses.{package}") / file).read_text(encoding="utf-8")
        for package, file in parts
    ]
    return Program.parse("\n".join(texts), name)
