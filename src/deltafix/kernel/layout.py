"""What lies where: header cells, descriptors, row words, flags, program records.

The arena is one reserved range seen twice: `A` as int32 words, `L` as int64 cells
(cell c = words 2c and 2c+1). Offsets into it are int64 and relative to its start.

A row is one record of `stride` words, stride even:

    words 0-1   (one cell)  rank << 9 | flags
    word  2                 support: derivations that hold the row up (all of them in a
                            non-recursive stratum; those of lower rank in a recursive one)
    words 3..               columns, one 32-bit code each (`values`)
    then                    position in its bucket, one word per secondary index, and (where a
                            wave may look for other derivations) all derivations that hold

Invariant of flags between epochs: NOW == WAS, and TOUCHED, PENDING, LIMBO are clear.

A memo is a relation that no rule names: its rows are the argument tuples a functor was asked
for, SUPPORT says whether it has a value there, and the word behind the columns is its code.
This module holds numbers only.
"""

from __future__ import annotations

# --- header cells -------------------------------------------------------------------------
BUMP = 0  # first unused word of the arena
LIMIT = 1  # words reserved
CLOCK = 2  # last rank given out
RELS = 3  # cell of relation descriptor 0
IDXS = 4  # cell of index descriptor 0
VARS = 5  # word of variable 0; the raw value of variable s is in the cell 1 + s before it
STACK = 6  # cell of join level 0
CANCEL = 7  # set to 1 from any thread: the run stops at the next safe point
MAX_ROWS = 8  # budget of rows created in an epoch (0: none)
MAX_ROUNDS = 9  # budget of facts taken up in an epoch (0: none)
STRATEGY = 10  # the schedule of the stratum at hand
ERROR = 11  # why a run stopped (ERR_*)
QUOTA = 12  # rows probed + derivations after which a run yields to its caller
EPOCH_BASE = 13  # CLOCK at the start of the epoch
EPOCHS = 14  # epochs committed: tells whoever was interrupted whether one stands
# queue of rows that become true next (rel << 32 | row), journal of touched rows (3 cells each),
# wave heap (2 cells each): a vector is (first cell, length, capacity). Blocks handed back in this
# run: first cell, how many (2 cells each), room
Q = 16
J = 20
HEAP = 24
DEAD = 28
# bucket heap: first word, next free unit, capacity in units, free list per class
BUCKETS = 32
BUCKET_TOP = 33
BUCKET_CAP = 34
BUCKET_FREE = 36  # 32 cells
# wide values: vector of int64 patterns, and the cell of its hash table (slots, then the slots)
WIDE = 70
WIDE_SLOTS = 74
# symbols: vector of the words where they begin, by id, the cell of their hash table, and where the
# next goes: word, end of the block
SYM = 78
SYM_SLOTS = 81
SYM_TEXT = 82
SYM_TEXT_END = 83
# machine state of a resumable run
S_STRATUM = 84
S_PHASE = 85
S_ITEM = 86
S_ROW = 87
S_CREATED = 88  # lengths of CREATED and J when the stratum began
S_J0 = 89
S_HEAD = 90  # next entry of Q to take up
S_MODE = 91
S_BEFORE = 92  # state that literals before the trigger see
S_AFTER = 93
# query results
BEST = 94
BEST_COUNT = 95
EMITTED = 96
TRIGGER_REL = 97
TRIGGER_ROW = 98
RECURSIVE = 99
# counters of the epoch
C_DERIVATIONS = 100
C_PROBED = 101
C_RETRACTED = 102
C_REVIVED = 103
C_RERANKED = 104
C_CREATED = 105
C_STRATA = 106
C_TAKEN = 107  # facts taken up by the queue
C_ABANDONED = 108  # strata whose wave cost more than recomputing them
PATIENCE = 109  # rows and derivations that a wave may always cost
S_WORK = 110  # `work_done` when the stratum began
RULE_COUNTS = 111  # cell of per-rule counters (derivations), one a rule
DELTA = 112  # net changes of the last epoch: rel << 33 | row << 1 | added, in runs (`runs`)
N_RELS = 115
N_RULES = 116
SLICE = 117  # QUOTA of a run's first slice
# the task at hand: variants to run on one row, and what follows when they are done
T_NEXT = 120  # offset in the program of the next variant's offset
T_LEFT = 121
T_ROW = 122
T_MODE = 123
T_THEN = 124
T_REL = 125  # the wave's fact and the rank it was taken up at
T_RANK = 126
T_SUPPORT = 127  # support at the new rank of a fact that moves
# a join paused at a functor that Python computes (the calls of it stand in ASKS), or in between
PAUSED = 128  # 1: `run_variant` goes on where it stopped
P_NODE = 129
P_LEVEL = 130
P_RANK = 131
ASKED = 132  # the memo that lacks the arguments, -1: the quota is used up
BY_STRATUM = 133  # 1: a run goes back to its caller after each stratum, who looks at the clock
SCHEDULE = 134  # the schedule that was asked for
T_HELD = 135  # the row that the task's row displaces, or -1
OPEN = 136  # vector of rows that fell and whose keys may have another
C_TRIED = 139  # variants run and literals chosen: what a join costs that finds no row
S_FULL = 140  # 1: the stratum is being evaluated from nothing
# heads that wait to be counted in batches (`batch`)
BATCH = 141  # 1: emitted heads wait
BATCH_FROM = 142  # rows created in a stratum from which they do
BATCH_CELLS = 143  # cells of a relation's buffer
AHEAD_FROM = 144  # slots of an index from which rows to come probe it early (`ahead`)
TALLIES = 145  # vector of rows whose count of all derivations changed before they were touched:
# rel << 33 | row << 1 | gained
UNFOUND = 148  # derivations that a query has yet to find; below 0: it is not known how many
LOOKS = 149  # rows that one query may look at (0: any number)
LOOKS_END = 150  # what C_PROBED is when the query at hand gives up
S_REST = 151  # 1: the wave revives without a query whatever is in limbo and has a derivation
S_VAIN = 152  # queries of the wave that gave up, one after another, up to VAIN
FOLDED = 153  # vector of groups that folds touched in the epoch (`fold`), five cells each
PIPE = 156  # folds that take each head as it is derived (count, offsets) in the stratum; 0: none
FILTERS = 157  # cell of the descriptors of filters
N_FILTERS = 158
FILTERED = 159  # bits given to indexes
LOOK = 160  # number of the look into filters: what was seen for another row does not count
LOOKED = 161  # for each of FILTER_COLUMNS columns: look << 20 | filter, and the cell that was seen
ASKS = 180  # vector of calls whose values memos lack: memo, arguments
ASKING = 183  # 1: rows of the phase are run to collect more of them, and derive nothing
ASKING_VARS = 184  # variables and join levels of these runs
ASKING_STACK = 185
N_VARS = 186  # variables that there is room for
ASK_CALLS = 187  # cells of calls that are collected before they are answered
ASK_AHEAD = 188  # rows looked at until then: as many may be looked at in vain
S_START = 189  # the variant that the rule at hand is evaluated by from scratch
# lanes, which evaluate the rows of a phase side by side (`lanes`)
LANES = 210  # how many there are; 0: none, rows are taken one after another
SHARE_FROM = 211  # rows of a phase at hand from which they are called
LANE = 212  # in a lane's header its number, from 1; 0: this is the arena's own
LATE = 213  # in a lane's header: the late index that it waits for, counted from 1
P_POS = 214  # a lane paused in the midst of a bucket, at this place
S_END = 215  # where the rows that are shared end, or those of a lane's part
SHARED = 216  # first cell of what lanes work in, and how many words it has
SHARED_WORDS = 217
N_LEVELS = 218  # join levels that there is room for
TO_FILL = 219  # 1: an index has LATE_NOW
JOBS = 220  # the first of the jobs that are open (`enter`), 0: none
FREE = 221  # list of blocks that can be taken (3 cells each), how many, room: each its first word,
# its words, and how many of these, from the first on, may not be zero
DIRTY = 231  # such words of all of them
LEAST_BLOCK = 232  # words from which a block that was handed back is taken again
# a lane's block of rows (`blocks`)
BLOCK_SIZE = 224  # how many there are
BLOCK_RULE = 225  # offset in the program of the next rule's offset, and how many are left
BLOCK_RULES = 226
ITEMS = 227  # of the rule before that, and the next one's number
ITEM = 228
CHOSEN = 229  # the slot that the task's row begins with, counted from 1, and its literal; 0: none
CHOSEN_LITERAL = 230
S_ASKS = 233  # 1: the rule at hand looks into an index that is worth asking early
S_FIRST = 236  # of a lane's part: where the round begins, and what lies between two blocks
S_SKIP = 237
PARTS_FROM = 238  # rows of a relation from which its late indexes are filled part by part
SCANS = 239  # times that the epoch looked through all rows, and filled a part, instead
ASKING_KEPT = 240  # where the phase stood when it began to collect calls (`ask`), cell by cell
# rows of a rule evaluated from a table, a block side by side (`columns`, `block_join`)
VECTORS = 270  # cell of the first frame: vectors of BLOCK cells, one for each variable, and lists
PASSED = 271  # rows of the block that go on as tasks, and the next of them
PASSED_NEXT = 272
BLOCK_NODE = 273  # where the block's rows stand
N_BOUND = 274  # variables that the block has bound
TRYING = 275  # 1: a literal is tried for a block, and what is missing is not asked for
BEGUN = 276  # the node that the task's row begins at, counted from 1, its checks passed; 0: all
LITERALS = 277  # what blocks choose at a node: node << 32 | place of the literal, counted from 1; 0
# in that place: each row chooses
PASSED_CHOSEN = 341  # 1: the rows that go on have chosen their literal
FRAME = 342  # cell of the frame at hand
MATCHES = 343  # matches that fill a frame: BLOCK at most
SPLIT_FROM = 350  # rows of an index from which they are sorted by ranges of hashes (`enter`)
TALLY_FROM = 351  # rows of an empty index from which those of each key are counted first
CREATED = 352  # rows that the epoch created: rel << 32 | row, in runs
S_QUEUED = 355  # rows that the stratum has queued, or created
N_CHANGED = 356  # rows of DELTA
WAITING = 357  # rows that become true when those of Q have: rel << 32 | row, in runs
MOST_QUEUED = 360  # rows of Q: of those that wait, so many at a time
Q_MOST = 361  # rows that Q had at most since it was empty
# rows of blocks that are set aside (`aside`)
ASIDE = 362  # PILES vectors, each with what else a pile says of itself: PILE cells
ASIDE_HEADS = 402  # vector: a table by the hash of what rows wait for, and bits behind its length
ASIDE_SCANNED = 405  # the pile whose table is gone through, 0: none
ASIDE_ROW = 406  # that one's next row, and the next that may wait for it
ASIDE_MATCH = 407
ASIDE_MOST = 408  # rows that wait for values until Python is asked
SCAN_FROM = 409  # rows of a table from which rows wait for it, and no index of all of it is filled
SCAN_SHARE = 410  # so many wait at most: its rows >> this
HEADER_CELLS = 512

# scratch words right behind the header
KEY = HEADER_CELLS * 2  # key of a probe (up to MAX_ARITY words)
KEY2 = KEY + 1024  # key of an index update
EMIT = KEY2 + 1024  # emitted heads: EMIT_BLOCK entries of MAX_ARITY words
MAX_ARITY = 1000
EMIT_BLOCK = 64
EMIT_WORDS = EMIT_BLOCK * 1024
EMIT_CELLS = (EMIT + EMIT_WORDS) // 2  # per entry: hash, body rank
LAST = (EMIT_CELLS + EMIT_BLOCK * 2) * 2  # a head's values, MAX_ARITY of them at most
LAST_COLUMNS = LAST + 1024  # for each the column of the last literal that it comes from, or -1
RINGS = (LAST_COLUMNS + 1024) // 2  # probes of rows to come (`ahead`), RING_ROWS rows
RING_ROWS = 32
PROBES = 31  # of one row at most
PROBE_CELLS = 128
BLOCK = 64
BLOCK_LITERALS = 8
MOST_LITERALS = 64  # cells of LITERALS
PILES = 5  # of rows that wait for values, and for four tables
PILE = 8
FRAMES = 4  # a block, and its matches at so many literals less one
BLOCK_ITEM = 3 + 2 * BLOCK_LITERALS
BLOCK_ROWS = RINGS  # a lane has no probes of rows to come
BLOCK_ITEMS = BLOCK_ROWS + BLOCK
LANE_CELLS = RINGS + RING_ROWS * PROBE_CELLS  # of the arena's header, and of each lane's behind it
MAX_LANES = 16
FIRST_WORD = LANE_CELLS * 2 * (1 + MAX_LANES)

# --- relation descriptor --------------------------------------------------------------------
R_ROWS = 0
R_STRIDE = 1
R_ARITY = 2
R_N = 3  # rows ever allocated (high-water)
R_CAP = 4
R_FREE = 5  # first free row, -1: none; the link lies in the support word
R_NOW = 6
R_WAS = 7
R_PK = 8  # cell of slot 0
R_PKCAP = 9
R_PKUSED = 10
R_IDX = 11  # first index descriptor
R_NIDX = 12
R_KEEP = 13  # 1: later strata read its changes
R_CHANGED = 14  # vector of rows whose NOW differs from WAS (first cell, length, capacity); of
# groups: what they held before, as places in FOLDED
R_STRATUM = 17
R_RULES = 18  # 1: some rule has it as head
R_DERIVATIONS = 19  # derivations of its rows that hold: what recomputing it would find again
R_SETTLED = 20  # R_DERIVATIONS when the last epoch ended
R_BEST = 21  # one row per key: 1 the least, 2 the greatest value; 0: all rows. Of the groups of
# a fold what their cells name: KEEPS_BEST, KEEPS_REAL
R_BEST_COL = 22  # the column of the value, its type, and the index on the key
R_BEST_TYPE = 23
R_BEST_INDEX = 24
R_WORK = 25  # in the first relation of a stratum: `work_done` by its last evaluation from nothing
R_FOUND = 26  # and the derivations that one found
R_BATCH = 27  # cell of the buffer of heads that wait, 0: none
R_BATCH_ROOM = 28  # entries a partition
R_PKROOM = 29  # slots that the key table may have where it lies
R_ALL = 30  # word of the row that counts all derivations that hold; 0: none does
R_ALL_WORD = 31  # the word that does, or did by an earlier plan
RSZ = 32

# --- index descriptor -----------------------------------------------------------------------
X_REL = 0
X_NKEY = 1
X_POS = 2  # first word of its positions: by number of row, where that is in its bucket
X_SLOTS = 3  # cell of slot 0; a slot is two cells: tag << 32 | ref + 1, class << 32 | count
X_CAP = 4
X_USED = 5
X_COLS = 6  # cell of the list of key columns
X_LATE = 7  # 1: empty, though its relation has rows; filled when asked, or with LATE_NOW before
# that; from PART on: it has the relation's first X_LATE - PART rows
X_FILTER = 8  # the filter that its keys are in, counted from 1; 0: none
X_BIT = 9  # its bit there
X_POSCAP = 10  # rows that it has positions for
XSZ = 11

# --- filter descriptor (`filters`) ----------------------------------------------------------
FILTER_CELLS = 0  # its first cell
FILTER_CAP = 1
FILTER_USED = 2  # cells with a bit
FILTER_SIZE = 3
FILTER_BITS = 62
FILTER_COLUMNS = 8  # a trigger is looked up by the first ones

# --- row ------------------------------------------------------------------------------------
SUPPORT = 2
COLS = 3
NOW = 1  # holds in the working state
WAS = 2  # held when the epoch began: what readers see
GIVEN = 4  # given as input
TOUCHED = 8  # in the journal (or the queue) of this epoch
PENDING = 16  # created, waiting in the queue
LIMBO = 32  # retracted by the wave, may be revived; its rank field is its next try
INDEXED = 64  # is in the secondary indexes
USED = 128  # allocated
MOVED = 256  # the wave has moved its rank in this epoch: a second time it goes to limbo; while
# PENDING: its support is not counted yet
FLAGS = 511
RANK_SHIFT = 9
KEEPS_BEST, KEEPS_REAL = 1, 2
GAP = 1024  # between ranks of new facts, so that a revived fact fits in between
NEVER = (1 << 53) - 1  # a rank above all ranks
VAIN = 6  # each halves what the next may look at
GIVEN_UP = -2  # in place of a query's best rank: it looked at too many rows

HASH_BITS = 31
LATE_NOW = 2  # in X_LATE: such an index is filled before the epoch's run, and at its end (TO_FILL)
PART = 3  # in X_LATE, with the rows that are entered added

# --- program (int32) --------------------------------------------------------------------------
# header: [0] number of strata, [1] offset of the stratum table (one offset each)
# stratum: [0] recursive, [1] nrels, [2] rels list, [3] n lower triggers, [4] list of
#   (rel, variant), [5] n same triggers per rel: list of offsets (count, variants...) aligned
#   with rels, [6] rederive: likewise, [7] n rules, [8] list of full evaluations
#   (count, variants...), [9] n const variants, [10] list
T_RECURSIVE = 0
T_NRELS = 1
T_RELS = 2
T_NLOWER = 3
T_LOWER = 4
T_SAME = 5
T_REDERIVE = 6
T_NFULL = 7
T_FULL = 8
T_NCONST = 9
T_CONST = 10
T_FRESH = 11  # 1: evaluate from scratch at the first run (rules changed)
T_OUTSIDE = 12  # 1: no variants; Python computes the stratum's relations
T_NREADS = 13  # relations that an outside stratum reads
T_READS = 14
T_BEST = 15  # 1: some relation keeps one row per key
T_OPEN = 16  # variants by key, likewise
T_FOLD = 17  # offset of the fold that the kernel computes in an outside stratum; 0: Python does
T_PIPE = 18  # offset of the folds (count, offsets) that its rows go into, which are not kept; or 0
T_SHARED = 19  # 1: lanes may evaluate it
TSZ = 20
# fold
F_GROUPS = 0  # the table of its groups
F_SOURCE = 1
F_RESULT = 2
F_PRESENT = 3  # the relation of groups with a row, -1: none
F_OP = 4
F_VALUE = 5  # the column that is added up, and its type
F_VALUE_TYPE = 6
F_TYPE = 7  # of the result
F_ALWAYS = 8  # 1: without rows it has a value, too
F_SAID = 9  # high and low 32 bits: the largest total (the least is its negative, or all that a
# word has), or what a mean is divided by
F_PIPED = 11  # 1: rows of the source come as they are derived (T_PIPE)
F_INDEX = 12  # the index of the source by group, where groups are looked through
F_OPTIONAL = 13  # 1: a value may be NIL, which does not count
F_NGROUP = 14
F_GROUP = 15  # columns of the source
FSZ = 16
# aggregates
FOLD_COUNT, FOLD_SUM, FOLD_BOUNDED, FOLD_MEAN, FOLD_MIN, FOLD_MAX = range(6)
FOLD_REAL_SUM, FOLD_REAL_MEAN = -1, -2  # of floats
# variant
V_TRIGGER = 0  # relation whose row starts it, -1: none
V_NEGATED = 1
V_HEAD = 2
V_NODE = 3
V_HEADOPS = 4  # offset of arity operand pairs
V_NMATCH = 5
V_MATCH = 6  # offset of (column, kind, argument) triples
V_RULE = 7
V_SAME = 8  # 1: the trigger is of the same stratum (its rank counts)
V_NBEFORE = 9
V_BEFORE = 10  # offset of lower relations that stand before the trigger
V_NNEEDED = 11
V_NEEDED = 12  # offset of (index, column) pairs: each index must have that column of the trigger's
# row as a key
VSZ = 13
# match kinds
M_BIND = 0
M_VAR = 1
M_CONST = 2
# operand kinds
O_VAR = 0
O_CONST = 1
O_RAW = 2  # and the value type (number, unsigned, float): a variable whose raw value is kept
# node: [0] n checks, [1] offset of check list (offsets), [2] n candidates, [3] candidate list
# candidate
K_REL = 0
K_METHOD = 1
K_INDEX = 2
K_CLASS = 3
K_CHILD = 4
K_NKEYS = 5
K_KEYS = 6
K_NMATCH = 7
K_MATCH = 8
KSZ = 9
BY_KEY = 0  # whole key bound: one probe
BY_INDEX = 1
BY_SCAN = 2
LEVEL = 8  # cells of a join level: candidate, kind, position, end, base, body rank
# literal classes: which state a literal sees
LOWER_BEFORE = 0
LOWER_AFTER = 1
SAME_BEFORE = 2
SAME_AFTER = 3
# check: [0] op, then operands
CHECK_COMPARE = 0  # type, comparison, (kind, value) x 2
CHECK_CALL = 1  # type, functor, bind?, destination (kind, value), n, (kind, value)...
CHECK_ABSENT = 2  # relation, class, n, (kind, value)...
CHECK_MOVE = 3  # destination (kind, value), (kind, value)
CHECK_ASK = 4  # memo, bind?, destination variable, n, (kind, value)...
# of a record of one field, which is coded as the field is, and of what is true
CHECK_OPEN = 5  # bind?, destination (kind, value), record (kind, value): its field; nil has none
CHECK_THERE = 6  # bind?, destination, record: 1, of nil 0
CHECK_OR = 7  # bind?, destination, record, (kind, value): its field, or this
CHECK_PICK = 8  # bind?, destination, number, (kind, value) x 2: the second where the number is 0
CHECK_TEST = 9  # bind?, destination, type, comparison, (kind, value) x 2: 1 or 0
# value types
T_NUMBER = 0
T_UNSIGNED = 1
T_FLOAT = 2
T_SYMBOL = 3
# comparisons
EQ, NE, LT, LE, GT, GE, LIKE = range(7)  # LIKE: of symbols, the pattern on the right
# functors
(ADD, SUB, MUL, DIV, MOD, POW, NEG, MINF, MAXF, BAND, BOR, BXOR, BNOT, BSHL, BSHR, BSHRU,
 LAND, LOR, LXOR, LNOT, ITOU, UTOI, ITOF, FTOI, UTOF, FTOU) = range(26)  # fmt: skip

# --- evaluation modes: what an emitted head gets -----------------------------------------------
MODE_DESTROY = 0  # a literal below stops holding: the head loses a derivation
MODE_CREATE = 1  # a literal below begins to hold: the head gains one, an absent head is created
MODE_SAVE = 2  # as CREATE, but only heads that hold gain
MODE_REST = 3  # as CREATE, but heads that hold were counted by SAVE
MODE_TAKE = 4  # a fact of the stratum becomes true
MODE_RETRACT = 5  # a fact of the stratum becomes false
MODE_REVIVE = 6  # a retracted fact holds again
MODE_MOVE = 7  # a fact gets a higher rank: heads it no longer supports lose a derivation
MODE_OPEN = 9  # as CREATE, for a key without a row: heads that hold or wait are not counted
MODE_QUERY = 8  # find the derivations of one head with the lowest body rank

# --- states that literals of lower strata see: as masks of row flags ---------------------------
STATE_UNION = 0  # rows that held before or hold now
STATE_NEW = 1  # NOW
STATE_OLD = 2  # WAS
STATE_MID = 3  # both: the old state less what was deleted

# strategies
WAVEFRONT, LOCAL, DELETES_FIRST, INSERTS_FIRST, DRED, RECOMPUTE = range(6)

# Phases of a stratum's epoch, in S_PHASE; what they do: `maintain`.
(
    PHASE_GIVEN_OUT, PHASE_DESTROY, PHASE_SAVE, PHASE_WAVE, PHASE_GIVEN_IN, PHASE_CREATE,
    PHASE_TAKE, PHASE_WIPE, PHASE_FULL, PHASE_LOOK,
) = range(1, 11)  # fmt: skip

# errors
ERR_NONE, ERR_MEMORY, ERR_ROWS, ERR_ROUNDS, ERR_CANCEL, ERR_SUPPORT = range(6)
# results of a run, or of one step of it: ASK for a functor's value, OUTSIDE for a whole stratum,
# SHARE for a round of lanes
DONE, YIELD, STOPPED, GO, ASK, OUTSIDE, SHARE = range(7)
# what follows a task
(THEN_NEXT, THEN_FALL, THEN_WAIT, THEN_TRY, THEN_MOVE, THEN_MOVED, THEN_RECOUNT, THEN_DISPLACE,
 THEN_GONE, THEN_SINK, THEN_REST) = range(11)  # fmt: skip
