"""Names in files that are not Python: documentation, templates, configuration.

    .rst .md .txt                its `>>>` examples, ```python and `.. code::` blocks, as code
                                 that is run, and its command lines
    .html .jinja2 .mako …        `.name` inside `{{ }}`, `{% %}`, `${ }`: an attribute
    .ini .yaml .toml .cfg .zcml  dotted paths, `shop.cart:Cart`
    Makefile .mk .sh …           dotted paths, and files: `python -m unittest tests.slow`
    all of them, .pyi .c .js …   words, see `words`: no use, but a doubt

Such a file is a node of its own and a root, as a project file is. Invariant: what cannot be read as
one of these says nothing; it is no error, since nobody promised that it can.
"""

# ruff: noqa: SIM905  tables of names read better as words
from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import zip_longest
from textwrap import dedent

from deltafix.analyses.dead_code.baseline import is_baseline
from deltafix.analyses.dead_code.examples import examples
from deltafix.analyses.dead_code.modules import ModuleName
from deltafix.analyses.dead_code.references import MEMBER, References
from deltafix.analyses.dead_code.scopes import collect
from deltafix.analyses.dead_code.words import SAID, said, said_in_prose
from deltafix.analyses.facts import Fragment

_DOCUMENTS = (".rst", ".md", ".txt")
_TEMPLATES = (".html", ".htm", ".jinja", ".jinja2", ".j2", ".mako", ".tmpl")
_CONFIGURATION = (".ini", ".yaml", ".yml", ".toml", ".cfg", ".zcml")
_COMMANDS = ("Makefile", "makefile", "justfile", "Dockerfile", ".mk", ".sh", ".bash", ".bat")
_OTHERS = tuple(
    """
    .pyi .pyx .pxd .pxi .ipynb .json .xml .js .ts .jsx .tsx .vue .c .h .cc .cpp .hpp .rs .go .java
    .rb .lua .in .tpl .conf .config .service .desktop .ui .qml .kv .sql .css .tcss .proto .graphql
    .ps1 .fish .zsh .adoc .org .tex .cmake .lark .g4 .thrift .vim .el .spec .bats .feature .po .pot
    .csv .tsv .pt .zpt .robot .resource .svelte .php .pl .cs .f90 .pyf .pyw .cu .ex .scala .nix .tf
    .hcl .scss .less .mdx
    """.split()
)
TEXTS = (*_DOCUMENTS, *_TEMPLATES, *_CONFIGURATION, *_COMMANDS, *_OTHERS)
"""Endings of the files that are read for names."""

_LISTS = frozenset({"SOURCES.txt", "RECORD", "top_level.txt"})  # of files: nobody's use of them
_LARGEST = 1 << 20  # bytes: what is larger is data, whose words are nobody's names

_BLOCK = re.compile(r"^([ ]*)```\s*(?:python|py)\b[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
_DIRECTIVE = re.compile(
    r"^([ ]*)\.\. +(?:code|code-block|sourcecode|testcode)::[^\n]*\n"
    r"((?:\1[ ]+\S[^\n]*\n|[ ]*\n)+)",
    re.MULTILINE,
)
_OPTION = re.compile(r"^\s*:[\w-]+:.*\n", re.MULTILINE)
_COMMAND = re.compile(r"\b(?:python[\d.]*|coverage run|pytest)[ \t]+(?:-|\S+\.py\b)[^\n]*")
_FILES = re.compile(r"[\w./-]+\.py\b")
_COMPUTED = re.compile(r"\{\{(.*?)\}\}|\{%(.*?)%\}|\$\{(.*?)\}", re.DOTALL)
_PATHS = re.compile(r"[A-Za-z_]\w*(?:[.:][A-Za-z_]\w*)+")
_SAID = frozenset({"imports", "uses", "attribute", "quotes", "names_file", *SAID})


def text_fragment(path: str, data: bytes) -> Fragment:
    """What a file that is not Python names. Never raises; O(size of the file)."""
    reader = _Text(path)
    if len(data) > _LARGEST or b"\0" in data or ".min." in path or is_baseline(data):
        return Fragment.of(path, (), ())
    text = data.decode("utf-8", "replace")
    if path.rsplit("/", 1)[-1] not in _LISTS:
        reader.facts.extend((said_in_prose if _is_prose(path) else said)(path, text))
    for command in _COMMAND.findall(text):
        reader.paths(command)
        reader.files(command)
    if path.endswith(_DOCUMENTS):
        reader.document(text)
    elif path.endswith(_TEMPLATES):
        reader.template(text)
    elif path.endswith((*_CONFIGURATION, *_COMMANDS)):
        reader.paths(text)
    facts = [fact for fact in reader.facts if fact[0] in _SAID]
    if any(relation not in SAID for relation, _ in facts):
        facts.append(("given_root", (path, "a file beside the code names it")))
    return Fragment.of(path, facts, ())


def _is_prose(path: str) -> bool:
    """Whether a file is written in words: a document, or has a name without an ending."""
    return path.endswith(_DOCUMENTS) or "." not in path.rsplit("/", 1)[-1]


class _Text(References):
    """Collects what one file names; the file is its own user."""

    def __init__(self, path: str) -> None:
        super().__init__(ModuleName(path, (path,), is_package=False, is_aside=True))

    def document(self, text: str) -> None:
        """Examples, which share their names as doctest has it."""
        trees = [*examples(text), *_blocks(text)]
        for tree in trees:
            collect(self.scope, tree.body, self.module)
        stars = [
            node.module or ""
            for tree in trees
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
        ]
        for tree in trees:
            self.example(tree)
            for node in ast.walk(tree) if stars else ():
                if isinstance(node, ast.Name):
                    for module in stars:
                        self.emit("uses", self.user, module, node.id, module)

    def template(self, text: str) -> None:
        """Attributes of what the template is given."""
        for match in _COMPUTED.finditer(text):
            for word in MEMBER.findall("".join(filter(None, match.groups()))):
                self.emit("attribute", self.user, word)

    def files(self, text: str) -> None:
        """Files that a command runs."""
        for name in _FILES.findall(text):
            self._file(name)

    def paths(self, text: str) -> None:
        """Dotted paths of modules and what is in them."""
        for match in _PATHS.finditer(text):
            parts = match[0].split(":")  # `shop.cart:Cart`, `call:shop.cart:Cart`
            for module, names in zip_longest(parts, parts[1:], fillvalue=""):
                if names:
                    self.mention_path(module, names.split("."))
                if "." in module:
                    first, *rest = module.split(".")
                    self.mention_path(first, rest)
                    self.emit("quotes", self.user, module)


def _blocks(text: str) -> Iterator[ast.Module]:
    blocks = [source for _, source in _BLOCK.findall(text)]
    blocks += [dedent(_OPTION.sub("", source)) for _, source in _DIRECTIVE.findall(text)]
    for source in blocks:
        with suppress(SyntaxError, ValueError):
            yield ast.parse(source)
