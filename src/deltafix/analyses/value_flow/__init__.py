"""The flow of values in Python source: what points-to and types stand on.

Reading order: `inputs` (the relations), `blocks` (variables and temporaries), `annotations`,
`expressions`, `statements`, `functions` (one file's statements to facts, bytes to a fragment),
`tables` (builtins.txt to facts), `rules.dl` (the constraints), `listing` (a fragment as text).
Which binding a name means is decided by `dead_code`.
"""

from __future__ import annotations
