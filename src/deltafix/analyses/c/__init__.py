"""Reading C: what the analyses of C share.

`parse` makes a syntax tree of unpreprocessed text, `declare` says what a declaration declares,
`scopes` which variable a name means; `expressions` and `flow` make control flow out of a
function's body. Nothing here states facts, follows an `#include` or expands a macro.
"""

from __future__ import annotations
