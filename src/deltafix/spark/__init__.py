"""Spark: one session builder, Arrow in and out. `pyspark` is imported under this package only."""

from __future__ import annotations
