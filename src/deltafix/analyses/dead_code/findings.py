"""Findings: dead symbols with the place they stand at and how sure the analysis is.

Invariant: findings are ordered by path, line and symbol; a symbol defined twice (an `if`/`else`,
a property and its setter) is one finding per file, at its first line.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from deltafix.analyses.facts import Place

__all__ = ["CONFIDENCE", "Finding", "confidence_of", "findings_of", "short_name"]

CONFIDENCE: Mapping[str, int] = {
    "local": 100,  # inside a function: nothing outside can name it
    "private": 95,  # a leading underscore: only its own tree should use it
    "module": 90,  # nothing imports it, or it would be alive
    "function": 90,
    "class": 90,
    "method": 80,  # could be reached by a computed getattr
    "name": 80,
    "field": 60,  # a class-level name: serialisers and frameworks read those
    "foreign": 60,  # a class with an ancestor outside the tree, which may have noticed it
}
"""Percent sure that removing the symbol changes nothing, by what kind of symbol it is."""


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One dead symbol. `inside` is the dead symbol that contains it, if any."""

    path: str
    line: int
    symbol: str
    kind: str
    confidence: int
    inside: str | None = None

    def as_data(self) -> dict[str, Any]:
        """The finding as JSON data."""
        return asdict(self)


def short_name(symbol: str) -> str:
    """`pkg.mod:C.m` -> `m`."""
    return symbol.rpartition(":")[2].rpartition(".")[2]


def confidence_of(symbol: str, kind: str, foreign: bool) -> int:
    """The confidence of a dead symbol, see `CONFIDENCE`."""
    qualified = symbol.partition(":")[2]
    if foreign:
        return CONFIDENCE["foreign"]
    if qualified.rpartition(".")[0].endswith("<locals>"):
        return CONFIDENCE["local"]
    if kind == "name" and "." in qualified:
        return CONFIDENCE["field"]
    if kind != "module" and short_name(symbol).startswith("_"):
        return CONFIDENCE["private"]
    return CONFIDENCE[kind]


def findings_of(
    symbols: Iterable[str],
    places: Mapping[str, Mapping[str, Place]],
    *,
    dead: Collection[str],
    foreign: Collection[str] = (),
) -> list[Finding]:
    """Findings for `symbols`, one per file that defines it; `places` is symbol -> path -> place.

    `dead` and `foreign` are the views. O(symbols log symbols).
    """
    found: list[Finding] = []
    for symbol in symbols:
        inside = next((owner for owner in _owners(symbol) if owner in dead), None)
        for path, place in places.get(symbol, {}).items():
            sure = confidence_of(symbol, place.kind, symbol in foreign)
            found.append(Finding(path, place.line, symbol, place.kind, sure, inside))
    return sorted(found)


def _owners(symbol: str) -> list[str]:
    """What a symbol is written in, innermost first, its module last."""
    module, colon, rest = symbol.partition(":")
    owners: list[str] = []
    while "." in rest:  # `f.<locals>.g`: the marker goes with its function
        rest = rest.rpartition(".")[0].removesuffix(".<locals>")
        owners.append(f"{module}:{rest}")
    return [*owners, module] if colon else []
