"""The intrinsic functors: their spelling, arity and typing. Data only; executors give the meaning.

Invariant: a functor in `SIGNATURES` type-checks; whether an executor can run it is its business.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Signature:
    """Argument and result types of a functor.

    A type is a base type, `any` (each argument on its own), or a class whose members must all be
    equal: `numeric` (number, unsigned, float), `integral` (number, unsigned), `addable` (numeric
    or symbol), `same` (any one type). A result that names a class has the arguments' type. The
    last `optional` arguments may be left out.
    """

    arguments: tuple[str, ...]
    result: str
    variadic: bool = False
    optional: int = 0

    def argument(self, position: int) -> str:
        """The type wanted at a position (the last one repeats when variadic)."""
        if not self.arguments:
            return "any"  # there are too many: that is told by `accepts`
        return self.arguments[min(position, len(self.arguments) - 1)]

    def accepts(self, count: int) -> bool:
        """Whether that many arguments are fine."""
        wanted = len(self.arguments)
        if self.variadic:
            return count >= wanted
        return wanted - self.optional <= count <= wanted


_ARITHMETIC: Final = Signature(("numeric", "numeric"), "numeric")
_BITWISE: Final = Signature(("integral", "integral"), "integral")

SIGNATURES: Final[dict[str, Signature]] = {
    "+": Signature(("addable", "addable"), "addable"),
    **dict.fromkeys(("-", "*", "/", "^"), _ARITHMETIC),
    "%": _BITWISE,
    **dict.fromkeys(("band", "bor", "bxor", "bshl", "bshr", "bshru"), _BITWISE),
    **dict.fromkeys(("land", "lor", "lxor"), _BITWISE),
    "neg": Signature(("numeric",), "numeric"),
    "bnot": Signature(("integral",), "integral"),
    "lnot": Signature(("integral",), "integral"),
    "min": Signature(("same", "same"), "same", variadic=True),
    "max": Signature(("same", "same"), "same", variadic=True),
    "cat": Signature(("symbol", "symbol"), "symbol", variadic=True),
    "strlen": Signature(("symbol",), "number"),
    "substr": Signature(("symbol", "number", "number"), "symbol"),
    "to_number": Signature(("any",), "number"),
    "to_unsigned": Signature(("any",), "unsigned"),
    "to_float": Signature(("any",), "float"),
    "to_string": Signature(("any",), "symbol"),
    "ord": Signature(("symbol",), "number"),
    "autoinc": Signature((), "number"),
    "range": Signature(("numeric", "numeric", "numeric"), "numeric", optional=1),
}
"""Every functor but `as`, whose second argument names a type."""

CONSTRAINTS: Final = ("match", "contains")
"""Comparisons spelt like functors: `match(pattern, text)`, `contains(part, text)`."""

INFIX: Final[dict[str, tuple[int, int]]] = {
    "lor": (1, 2),
    "lxor": (3, 4),
    "land": (5, 6),
    "bor": (7, 8),
    "bxor": (9, 10),
    "band": (11, 12),
    "bshl": (13, 14),
    "bshr": (13, 14),
    "bshru": (13, 14),
    "+": (15, 16),
    "-": (15, 16),
    "*": (17, 18),
    "/": (17, 18),
    "%": (17, 18),
    "^": (22, 21),
}
"""Binding power to the left and to the right, Soufflé's; the larger side binds first."""

PREFIX: Final[dict[str, str]] = {"-": "neg", "bnot": "bnot", "lnot": "lnot"}
"""Prefix spelling -> functor; all bind tighter than `*` and looser than `^`."""

PREFIX_POWER: Final = 20
