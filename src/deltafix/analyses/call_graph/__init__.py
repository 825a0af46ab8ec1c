"""The call graph of Python source, kept up to date while files change.

`facts` says which calls are written in a file (on top of what `dead_code` says about names),
`program.dl` says which functions they may reach, `graph` keeps the answer. Nothing here imports or
runs the code it analyses.
"""

from __future__ import annotations
