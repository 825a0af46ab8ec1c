"""Findings: dead symbols with the place they stand at and how sure the analysis is.

Invariant: findings are ordered by path, line and symbol; a symbol defined twice (an `if`/`else`,
a property and its setter) is one finding per file, at its first line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from deltafix.analyses.dead_code.facts import Place

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
    if "<locals>" in qualified:
        return CONFIDENCE["local"]
    if kind == "name" and "." in qualified:
        return CONFIDENCE["field"]
    if kind != "module" and short_name(symbol).startswith("_"):
        return CONFIDENCE["private"]
    return CONFIDENCE[kind]


def findings_of(
    dead: Iterable[str],
    places: Mapping[str, Iterable[tuple[str, Place]]],
    *,
    all_dead: frozenset[str],
    foreign: frozenset[str] = frozenset(),
) -> list[Finding]:
    """Findings for `dead` symbols; `places` gives (path, place) of each, `all_dead` the view.

    O(symbols log symbols).
    """
    found: dict[tuple[str, str], Finding] = {}
    for symbol in dead:
        inside = next((owner for owner in _owners(symbol) if owner in all_dead), None)
        for path, place in places.get(symbol, ()):
            sure = confidence_of(symbol, place.kind, symbol in foreign)
            finding = Finding(path, place.line, symbol, place.kind, sure, inside)
            key = (path, symbol)
            if key not in found or finding < found[key]:
                found[key] = finding
    return sorted(found.values())


def _owners(symbol: str) -> list[str]:
    """What a symbol is written in, innermost first, its module last."""
    module, colon, rest = symbol.partition(":")
    owners: list[str] = []
    while "." in rest:  # `f.<locals>.g`: the marker goes with its function
        rest = rest.rpartition(".")[0].removesuffix(".<locals>")
        owners.append(f"{module}:{rest}")
    return [*owners, module] if colon else []
