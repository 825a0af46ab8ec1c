"""Analyses of source code: an extractor of facts, a program over them, and a report each."""

from __future__ import annotations
