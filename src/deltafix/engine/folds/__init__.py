"""Aggregates in rules: a fold of a relation's rows by group, kept up to date by its changes."""

from deltafix.engine.folds.stratum import FoldStratum

__all__ = ["FoldStratum"]
