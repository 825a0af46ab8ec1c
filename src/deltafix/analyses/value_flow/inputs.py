"""The input relations of value flow: what one file says about the values of its variables.

Every column is a symbol. Objects and variables are named as in `blocks`; a position is "0", "1", …;
a field is an attribute's name, or "[]" for what a container holds, "[k]" for a dict's keys, "[0]",
"[1]", … for the elements of a tuple whose length is known, "await" for what a coroutine gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

NAMES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "symbol": ("id", "kind"),
        "named": ("id", "owner", "name"),
        "submodule": ("id", "package", "name"),
        "canonical": ("path", "module"),
        "suffix": ("path", "module", "above"),
        "around": ("path", "above"),
        "package": ("folder",),
        "reexports": ("module", "name", "path", "original"),
        "binds": ("module", "name", "path"),
        "stars": ("module", "path"),
        "base": ("id", "path", "name", "written"),
        "extends": ("id", "parent", "written"),
    }
)
"""What names mean: stated by the extractor of dead code, read by its rules about names."""

FLOW: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "holds": ("variable", "object"),
        "site": ("object", "class"),
        "some": ("class", "object"),
        "moves": ("source", "target"),
        "guards": ("target", "source", "said"),
        "typed": ("variable", "class"),
        "free": ("variable", "module", "name"),
        "imports_module": ("variable", "path"),
        "imports_name": ("variable", "path", "name"),
        "narrows": ("target", "source", "class"),
        "narrows_none": ("target", "source"),
        "loads": ("target", "base", "name"),
        "loads_begun": ("target", "base", "start"),
        "stores": ("base", "name", "source"),
        "own_field": ("class", "name"),
        "fills": ("object", "field", "source"),
        "positional": ("object",),
        "pairs": ("site", "object"),
        "indexes": ("site", "base", "field"),
        "iterates": ("site", "iterator", "base"),
        "walks": ("site", "argument", "element"),
        "tests": ("site", "tested"),
        "picks": ("site", "iterator", "base", "field"),
        "matches": ("target", "base", "position"),
        "awaits": ("target", "source"),
        "binary": ("site", "operator", "left", "right"),
        "applies": ("site", "callee"),
        "sends": ("site", "base", "name"),
        "sends_super": ("site", "class", "name", "receiver"),
        "argument": ("site", "position", "source"),
        "keyword": ("site", "name", "source"),
        "spreads": ("site", "source"),
        "spreads_named": ("site", "source"),
        "decorates": ("site", "decorator", "source"),
        "within": ("site", "function"),
        "function": ("id", "kind"),
        "silent": ("function",),
        "stands_in": ("function",),
        "method_of": ("function", "class", "name"),
        "receives": ("function", "variable"),
        "setter": ("class", "name", "function"),
        "takes": ("function", "mode", "position", "variable"),
        "takes_named": ("function", "name", "variable"),
        "takes_rest": ("function", "object"),
        "takes_extra": ("function", "object"),
        "result": ("function", "variable"),
        "hands_back": ("function",),
        "parameter_of": ("function", "name", "variable"),
        "local_of": ("function", "name", "variable"),
        "comparable": ("function", "where", "declared", "inferred"),
        "data_class": ("class",),
        "data_field": ("class", "name"),
        "data_position": ("class", "position", "name"),
        "raises": ("source",),
        "catches": ("variable", "class"),
    }
)
"""What the statements of a file do with values."""

TABLES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "builtin": ("name", "object"),
        "builtin_class": ("class",),
        "builtin_base": ("class", "base"),
        "complete": ("class",),
        "extern": ("module", "name", "object"),
        "native": ("callee",),
        "native_method": ("class", "name", "callee"),
        "native_attribute": ("class", "name", "of"),
        "elements_in": ("class", "field"),
        "elements_of": ("class", "of"),
        "wants": ("callee", "kind", "what"),
        "inside": ("what", "argument", "field"),
        "gives": ("callee", "kind", "what"),
        "makes": ("callee", "class"),
        "makes_of": ("callee", "part", "field", "kind", "what"),
        "keeps": ("callee", "field", "kind", "what"),
        "hands": ("callee", "argument", "kind", "what"),
        "operates": ("operator", "left", "right", "class"),
        "joins": ("operator", "left", "right"),
        "mirror": ("operator", "reflected"),
        "special": ("name",),
        "position": ("field",),
    }
)
"""What holds for every tree: builtins and a few modules, from `builtins.txt`."""

INPUTS: Mapping[str, tuple[str, ...]] = MappingProxyType({**NAMES, **FLOW, **TABLES})
"""All of them."""
