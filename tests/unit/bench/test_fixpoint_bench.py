"""The level-1 bench measures the same problem for everyone, and its counts do not drift."""

from __future__ import annotations

from bench.fixpoint import full, managed, script, touched


def test_managed_and_full_agree_on_the_script_and_time_every_edit() -> None:
    work = script(2_000, edits=40)
    ours, pure = managed(work), full(work)
    assert ours.elements == pure.elements > len(work.roots)
    assert len(ours.edits) == len(pure.edits) == 2 * len(work.removed)


def test_the_script_is_a_function_of_its_size_and_removes_pairs_that_are_there() -> None:
    one, two = script(2_000, edits=40), script(2_000, edits=40)
    assert one.removed == two.removed
    assert set(one.removed) <= set(map(tuple, one.pairs.tolist()))
    assert len(set(one.removed)) == len(one.removed) > 20


def test_repair_in_rank_order_touches_hardly_more_than_is_lost() -> None:
    lines: list[str] = []
    touched(lines.append, size=2_000, edits=30)
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines[3:]]
    by_name = {row[0]: [float(cell.replace(",", "")) for cell in row[1:]] for row in rows}
    assert by_name["wavefront"][3] == by_name["dred"][3] > 0  # the same elements are lost
    assert by_name["wavefront"][4] < 2
    assert by_name["dred"][4] > 10 * by_name["wavefront"][4]
