"""Symbols as people write them: an id, or the end of one.

Invariant: a text means at most one symbol; where it fits several, the error names them.
"""

from __future__ import annotations

from collections.abc import Collection

from deltafix.analyses.dead_code.findings import short_name
from deltafix.diagnostics import suggest
from deltafix.errors import FactError


class UnknownSymbolError(FactError, LookupError):
    """The symbol asked about does not exist, or the name given fits several."""

    code = "DF652"


def find_symbol(text: str, symbols: Collection[str]) -> str:
    """The symbol that `text` means: an id, or the end of exactly one. O(symbols).

    Raises UnknownSymbolError naming the candidates, those of its last name, or the closest name.
    """
    if text in symbols:
        return text
    ends = (f":{text}", f".{text}")
    fits = sorted(symbol for symbol in symbols if symbol.endswith(ends))
    if len(fits) == 1:
        return fits[0]
    if fits:
        examples = ", ".join(fits[:5]) + (", …" if len(fits) > 5 else "")
        raise UnknownSymbolError(f"{text!r} fits {len(fits)} symbols: {examples}")
    name = short_name(text)
    owner = text[: -len(name)]  # "shop.cart:" or "Cart.": what is known of it is asked first
    inside = [
        symbol for symbol in symbols if owner and _ends(symbol[: -len(short_name(symbol))], owner)
    ]
    close = suggest(name, sorted({short_name(symbol) for symbol in inside or symbols}))
    called = sorted(symbol for symbol in symbols if short_name(symbol) == name)
    if called:  # a method of an ancestor, say, or of another module
        examples = ", ".join(map(repr, called[:3])) + (", …" if len(called) > 3 else "")
        help_ = f"; {name} is {examples}"
    else:
        help_ = f"; did you mean {(owner if inside else '') + close!r}?" if close else ""
    raise UnknownSymbolError(f"there is no symbol {text!r}{help_}")


def _ends(owner: str, text: str) -> bool:
    return owner == text or owner.endswith((f":{text}", f".{text}"))
