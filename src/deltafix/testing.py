"""Helpers for tests of code that builds on deltafix: each door checks one kind of contract.

Nothing is defined here. `check_change_action` and `check_derivative` ask the laws of the algebra
of change (`deltafix.changes.check`); failures are `LawError`s whose message is the smallest
counter-example in words. They need Hypothesis only when they are given strategies.
"""

from __future__ import annotations

from deltafix.changes.check import check_change_action, check_derivative

__all__ = ["check_change_action", "check_derivative"]
