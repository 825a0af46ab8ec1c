"""The kernel's entry points: what Python calls.

Compiled code from an object file, or with NUMBA_DISABLE_JIT=1 the plain functions of the modules
that define them. Importing this loads the object, and makes it first if there is none.

Invariant: everything above the kernel calls it through this module. Arguments are as the plain
functions have them: `numpy` arrays (int32 words, int64 cells) and ints; a wrong one is a TypeError,
a reservation that is used up a MemoryError.
"""

from __future__ import annotations

from importlib import import_module

from deltafix.kernel.jit import JIT_DISABLED
from deltafix.kernel.native import ENTRIES, load, prepare

if JIT_DISABLED:
    _functions = {
        name: getattr(import_module(f"deltafix.kernel.{module}"), name)
        for name, module in ENTRIES.items()
    }
else:
    _functions = load(prepare())

answer = _functions["answer"]
begin = _functions["begin"]
begin_counting = _functions["begin_counting"]
chain_rows = _functions["chain_rows"]
close_jobs = _functions["close_jobs"]
close_round = _functions["close_round"]
commit = _functions["commit"]
copy_symbols = _functions["copy_symbols"]
count_rows = _functions["count_rows"]
count_zone = _functions["count_zone"]
delete_rows = _functions["delete_rows"]
discard = _functions["discard"]
drop_index = _functions["drop_index"]
encode = _functions["encode"]
end_counting = _functions["end_counting"]
end_entering = _functions["end_entering"]
enter_keys = _functions["enter_keys"]
enter_symbol = _functions["enter_symbol"]
enter_symbols = _functions["enter_symbols"]
entering = _functions["entering"]
expand_one = _functions["expand_one"]
fill_index = _functions["fill_index"]
find_slot = _functions["find_slot"]
find_symbol = _functions["find_symbol"]
find_wide = _functions["find_wide"]
forget_heads = _functions["forget_heads"]
grow_keys = _functions["grow_keys"]
insert_rows = _functions["insert_rows"]
lend = _functions["lend"]
list_rows = _functions["list_rows"]
lookup = _functions["lookup"]
maintain = _functions["maintain"]
make_index_room = _functions["make_index_room"]
make_list_room = _functions["make_list_room"]
next_stretch = _functions["next_stretch"]
note_keys = _functions["note_keys"]
open_round = _functions["open_round"]
place_heads = _functions["place_heads"]
place_zone = _functions["place_zone"]
read_changes = _functions["read_changes"]
read_symbol = _functions["read_symbol"]
rollback = _functions["rollback"]
search = _functions["search"]
settle_rows = _functions["settle_rows"]
sort_keys = _functions["sort_keys"]
spread_part = _functions["spread_part"]
take_up = _functions["take_up"]
