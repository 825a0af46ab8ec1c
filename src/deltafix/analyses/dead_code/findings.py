"""Findings: dead symbols with the place they stand at and how sure the analysis is.

Invariant: findings are ordered by path, line and symbol; a symbol defined twice (an `if`/`else`,
a property and its setter) is one finding per file, at its first line.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias, get_args

from deltafix.analyses.facts import Place

__all__ = ["UNUSED_KINDS", "Also", "Confidence", "Finding", "findings_of", "short_name"]

Confidence: TypeAlias = Literal["sure", "likely"]
"""Sure: nothing anywhere might reach it. Likely: something speaks against it, see `doubt.dl`."""

Also: TypeAlias = Literal["imports", "locals", "arguments", "attributes"]
"""What may be asked for beside dead symbols: what living code binds and nothing reads."""

UNUSED_KINDS = tuple(kind.removesuffix("s") for kind in get_args(Also))
"""The kinds of a finding, and of a `Place`, that is none of a symbol."""

_FROM_DOUBTFUL = "what may be alive refers to it"


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One dead symbol. `inside` is the dead symbol that contains it, if any.

    `doubt` says why it is only likely to be dead, and is None for one that is sure to be. Its name
    stands in `line` at `column`, in characters from 1.
    """

    path: str
    line: int
    symbol: str
    kind: str
    confidence: Confidence
    inside: str | None = None
    doubt: str | None = None
    column: int = 1

    @property
    def title(self) -> str:
        """`dead method shop:Cart.sum`, or `unused import shop:os`: what is found, without where."""
        return f"{'unused' if self.kind in UNUSED_KINDS else 'dead'} {self.kind} {self.symbol}"

    def doubts(self) -> list[str]:
        """`likely: why`, or nothing for one that is sure."""
        return [] if self.doubt is None else [f"likely: {self.doubt}"]

    def as_data(self) -> dict[str, Any]:
        """The finding as JSON data."""
        return asdict(self)


def short_name(symbol: str) -> str:
    """`pkg.mod:C.m` -> `m`."""
    return symbol.rpartition(":")[2].rpartition(".")[2]


def findings_of(
    symbols: Iterable[str],
    places: Mapping[str, Mapping[str, Place]],
    *,
    dead: Collection[str],
    sure: Collection[str],
    doubts: Mapping[str, Collection[str]],
) -> list[Finding]:
    """Findings for `symbols`, one per file that defines it; `places` is symbol -> path -> place.

    `dead` and `sure` are the views, `doubts` the reasons by symbol. O(symbols log symbols).
    """
    findings: list[Finding] = []
    for symbol in symbols:
        inside = next((owner for owner in _owners(symbol) if owner in dead), None)
        doubt = None if symbol in sure else min(doubts.get(symbol, ()), default=_FROM_DOUBTFUL)
        for path, place in places.get(symbol, {}).items():
            confidence: Confidence = "likely" if doubt else "sure"
            finding = Finding(
                path, place.line, symbol, place.kind, confidence, inside, doubt, place.column
            )
            findings.append(finding)
    return sorted(findings)


def _owners(symbol: str) -> list[str]:
    """What a symbol is written in, innermost first, its module last."""
    module, colon, rest = symbol.partition(":")
    owners: list[str] = []
    while "." in rest:  # `f.<locals>.g`: the marker goes with its function
        rest = rest.rpartition(".")[0].removesuffix(".<locals>")
        owners.append(f"{module}:{rest}")
    return [*owners, module] if colon else []
