"""Hatch's hook for wheels: the object files in DELTAFIX_OBJECTS go in, and the tag says so.

Without that variable a wheel is pure Python, and compiles the kernel when it is first used.
Invariant: an object needs no version of Python (`kernel/native.py`), so the tag names none; of the
system it needs libm alone, so the oldest that numba runs on will do.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ObjectsHook(BuildHookInterface[Any]):
    """Called by hatchling once a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files. Raises FileNotFoundError where the folder has none."""
        folder = os.environ.get("DELTAFIX_OBJECTS")
        if folder is None or version != "standard":
            return
        objects = sorted(Path(self.root, folder).glob("kernel-*.o"))
        if not objects:
            raise FileNotFoundError(f"no kernel-*.o in DELTAFIX_OBJECTS={folder}; see `make wheel`")
        for path in objects:
            build_data["force_include"][str(path)] = f"deltafix/kernel/objects/{path.name}"
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-manylinux_2_17_x86_64"
