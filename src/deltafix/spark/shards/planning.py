"""From a program to its layout: without a shuffle where that is possible, and no key is heavy."""

from __future__ import annotations

from deltafix.rules.ast import Program
from deltafix.spark.shards.core import prepare
from deltafix.spark.shards.decompose import decompose
from deltafix.spark.shards.layout import Layout
from deltafix.spark.shards.localize import localize
from deltafix.spark.shards.whole import whole


def plan_layout(program: Program, heavy: tuple[int, ...] = ()) -> Layout:
    """The layout of a program, whose rows of `heavy` keys are shared (`Layout.heavy`).

    Raises ProgramError (see `core.prepare`).
    """
    prepared = prepare(program)
    placement = None if heavy else decompose(prepared)
    return localize(prepared, heavy) if placement is None else whole(prepared, placement)
