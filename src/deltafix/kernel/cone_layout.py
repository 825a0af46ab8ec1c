"""What lies where in the arrays of the search for proofs: see `kernel.cone`.

All cells are int64. This module holds numbers only.
"""

from __future__ import annotations

from deltafix.kernel.layout import KSZ, VSZ

# --- header of the search ---------------------------------------------------------------------
W_NODES = 0  # nodes in N
W_RECORDS = 1  # cells used in R
W_NEXT = 2  # next node to expand
W_LAYER = 3  # the layer that is being expanded
W_WORK = 4  # rows looked at and derivations found
W_MASK = 5  # flags a row must have to count as true
W_RANKED = 6  # 1: keep one derivation a fact, of least body rank below its own
W_SLACK = 7  # 1: some facts stand in the program's text, and are known once expanded
W_QUEUE = 8  # first and last node of the queue of lowered heights, each + 1
W_LAST = 9
W_NODE = 10  # the node being expanded
W_BEST = 11  # ranked: the body rank of its best derivation, and its record
W_KEPT = 12
W_FULL = 13  # 1: an array has no room left
WSIZE = 16

# --- node ---------------------------------------------------------------------------------------
N_KEY = 0  # relation << 32 | row
N_HEIGHT = 1
N_SIZE = 2  # steps of the smallest proof of that height found
N_BEST = 3  # its last derivation: a record, or -1 for a given row
N_USERS = 4  # the uses of the fact in derivations: cell of the first use, or -1
N_LAYER = 5  # derivations between the goal and the fact
N_QUEUED = 6  # 0: not queued, else the next in the queue + 2
NODE = 8
UNPROVED = 1 << 40

# --- record of a derivation -------------------------------------------------------------------
R_HEAD = 0
R_CLAUSE = 1
R_BASE = 2  # what the derivation adds to the height: 0 for a fact of the text
R_BODY = 3  # number of uses
R_SLOTS = 4  # number of variables; their codes stand behind the uses
RECORD = 5
USE = 4  # node (a given fact needs none: -1 - its key), literal, next use of the node, record

# --- programs: what variants here have beside the layout's ---------------------------------------
BY_CHAIN = 3
C_LITERAL = KSZ  # position of the candidate's literal in the body
C_CHAIN = KSZ + 1
V_CLAUSE = VSZ  # number of the clause, number of its variables, and R_BASE
V_SLOTS = VSZ + 1
V_BASE = VSZ + 2
X_SIZE = 4  # first cell of the heads, how many, first cell of the links
FOUND, EXHAUSTED, TIRED, FULL = range(4)
HSIZE = 2  # cells of H for each node that N has room for
NEVER = 1 << 60
