"""The relations of `program.dl` that files state, and their columns.

Invariant: every column is a symbol, and a fact that `extract` states has the width given here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["INPUTS"]

INPUTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "symbol": ("id", "kind"),
        "scope": ("id", "owner"),
        "named": ("id", "owner", "name"),
        "open_name": ("owner", "name"),
        "alias": ("module", "name"),
        "submodule": ("id", "package", "name"),
        "canonical": ("path", "module"),
        "names_file": ("user", "path"),
        "lies_in": ("module", "folder"),
        "suffix": ("path", "module", "above"),
        "around": ("path", "above"),
        "package": ("folder",),
        "public_module": ("module",),
        "refers": ("user", "id"),
        "names": ("user", "module", "name"),
        "uses": ("user", "path", "name", "top"),
        "imports": ("user", "path"),
        "quotes": ("user", "path"),
        "loads": ("user", "path", "start"),
        "below": ("user", "path"),
        "looks_up": ("user",),
        "hands": ("top", "id"),
        "hands_module": ("user", "path"),
        "plugs_in": ("user", "path", "name"),
        "hands_by": ("method", "id"),
        "hands_to": ("called", "id"),
        "hands_field": ("top", "class", "field"),
        "assigns": ("class", "field", "id"),
        "searches": ("user", "class", "start"),
        "looks_into": ("user", "path", "name"),
        "takes_name": ("function",),
        "hands_on": ("function", "called"),
        "hands_on_to": ("method",),
        "given_name": ("user", "called", "name"),
        "attribute": ("user", "name"),
        "prefix": ("user", "start"),
        "name_prefix": ("name", "start"),
        "dynamic": ("user", "owner"),
        "reexports": ("module", "name", "path", "original"),
        "binds": ("module", "name", "path"),
        "stars": ("module", "path"),
        "all_name": ("module", "name"),
        "all_from": ("module", "path"),
        "decorated": ("id", "owner", "decorator"),
        "kept": ("id", "owner", "why"),
        "base": ("id", "path", "name", "written"),
        "extends": ("id", "parent", "written"),
        "overridable": ("id", "owner"),
        "enlists": ("id",),
        "lists_heirs": ("user",),
        "asks": ("user", "fixture"),
        "given_root": ("id", "why"),
        "entry": ("id", "why"),
        "guard": ("module", "why"),
        "acts": ("module",),
        "script": ("module",),
        "package_module": ("module",),
        "blank": ("module",),
        "hosts": ("module",),
        "distribution": ("path",),
        "distributes": ("path", "module"),
        "typed": ("module",),
        "aside": ("module", "folder"),
        "test": ("id",),
        "pure": ("decorator",),
        "container": ("method",),
        "inert": ("written",),
        "data_maker": ("written",),
        "enlister": ("written",),
        "policy": ("name",),
    }
)
"""Input relations of `program.dl` and their columns, all of type symbol."""
