"""Compile the kernel for a wheel: `scripts/objects.py FOLDER PROCESSOR`, say x86-64-v3.

One processor a process: numba keeps what it has compiled for. What this machine has compiled for
itself, and its tests have run, is taken as it is. Run by `make wheel`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from deltafix.kernel.native import cpu, find, keep, make

if __name__ == "__main__":
    folder, processor = sys.argv[1:]
    code = find() if processor == cpu() else None
    keep(code or make(processor), Path(folder), processor)
