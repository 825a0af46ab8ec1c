"""`bench` is a folder of the repository, not of the package: tests find it from the root."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
