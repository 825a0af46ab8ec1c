"""Compile the kernel for a wheel: `scripts/objects.py FOLDER PROCESSOR`, say x86-64-v3.

One processor a process: numba keeps what it has compiled for. Run by `make wheel`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from deltafix.kernel.native import keep, make

if __name__ == "__main__":
    folder, processor = sys.argv[1:]
    keep(make(processor), Path(folder), processor)
