"""The paper's walk-throughs, event by event (sections 1 to 3 and the appendix).

Figures 1, 2, 6 and 7 are pictures; their programs are put together from what the text says of
them: seven facts before f8, f4 = e(3, 4), s1 to s7, a goal over d/2 as c7, and so on.
"""

import pytest

from .paper import (
    FIGURE_1,
    FIGURE_2,
    FIGURE_2_NAMES,
    FIGURE_6,
    FIGURE_6_NAMES,
    FIGURE_7,
    FIGURE_7_NAMES,
    answers,
    block,
    ordinal_of_support,
    traced,
)


def test_figure_2_forest_has_the_paper_s_answers_ordinals_and_supports():
    from deltafix.tabling import Tables, Trace

    trace = Trace(FIGURE_2_NAMES)
    tables = Tables(FIGURE_2, trace=trace)
    assert answers(tables, "r(1, X)") == ["r(1, 2)", "r(1, 3)", "r(1, 4)", "r(1, 5)"]
    supports = [line.strip() for line in trace.lines if " of a" in line]
    assert supports == [
        "new s1 = <f1> of a1 ord=0",
        "new s2 = <f2> of a2 ord=0",
        "new s3 = <a1, f3> of a2 ord=1",
        "new s4 = <a1, f5> of a3 ord=1",
        "new s5 = <a1, f6> of a4 ord=1",
        "new s6 = <a2, f4> of a3 ord=1",
        "new s7 = <a3, f7> of a1 ord=2",
    ]


def test_section_1_changing_the_edge_2_3_to_2_4_never_reaches_the_call_of_1():
    tables, trace = traced(FIGURE_1, {}, "r(1, A)")
    delta = tables.replace("e(2, 3)", "e(2, 4)")
    assert not delta
    assert trace.lines == block(
        """
          ready mark(a2) ord=1 scc=2
          ready mark(a7) ord=1 scc=2
          ready consume_answer(f5, c4) ord=0 scc=2
          ready consume_answer(f5, c5) ord=0 scc=2
        consume_answer(f5, c4) ord=0 scc=2
          new s13 = <f5> of a7 ord=0
          cancel mark(a7)
        consume_answer(f5, c5) ord=0 scc=2
          new c13 = <r(2, A), r(2, A), r(4, A), []>
          ready consume_answer(a4, c13) ord=0 scc=2
          ready consume_answer(a6, c13) ord=0 scc=2
        consume_answer(a4, c13) ord=0 scc=2
          new s14 = <f5, a4> of a2 ord=0
          cancel mark(a2)
        consume_answer(a6, c13) ord=0 scc=2
          new s15 = <f5, a6> of a7 ord=0
        """
    )
    assert tables.last.marked == tables.last.answers_inserted == 0
    assert tables.last.calls_visited == 1  # r(2, A) alone
    assert not [line for line in trace.lines if "r(1," in line]


def test_section_1_changing_the_edge_2_3_to_3_2_swaps_who_reaches_whom():
    tables, _ = traced(FIGURE_1, {}, "r(1, A)", "r(3, A)", "r(4, A)")
    delta = tables.replace("e(2, 3)", "e(3, 2)")
    assert delta.lines() == [
        "r(1, A): -r(1, 3)",
        "r(1, A): -r(1, 4)",
        "r(3, A): +r(3, 2)",
        "r(4, A): +r(4, 2)",
    ]


def test_section_2_inserting_e_4_6_adds_one_support_and_one_consumer():
    tables, trace = traced(FIGURE_2, FIGURE_2_NAMES, "r(1, X)")
    assert tables.insert("e(4, 6)").lines() == ["r(1, A): +r(1, 6)"]
    assert [line for line in trace.lines if not line.startswith("  ready")] == block(
        """
        consume_answer(f11, c5) ord=2 scc=1
          new a5 = r(1, 6) ord=3
          new s8 = <a3, f11> of a5 ord=2
        consume_answer(a5, c2) ord=0 scc=1
          new c9 = <r(1, A), r(1, A), e(6, A), []>
        """
    )


def test_section_2_deleting_e_3_4_marks_nothing_because_the_primary_support_stands():
    tables, trace = traced(FIGURE_2, FIGURE_2_NAMES, "r(1, X)")
    assert not tables.delete("e(3, 4)")
    assert trace.lines == []
    assert tables.last.marked == 0
    assert tables.last.supports_deleted == 1


def test_section_2_dred_marks_and_rederives_where_local_marks_nothing():
    tables, trace = traced(FIGURE_2, FIGURE_2_NAMES, "r(1, X)")
    assert not tables.update(delete=["e(3, 4)"], strategy="dred")
    marked = [line.split()[1] for line in trace.lines if line.startswith("  marked")]
    assert marked == ["a3", "a1", "a2", "a4"]
    assert tables.last.rederived == 4


@pytest.mark.parametrize(
    ("strategy", "marked"), [("deletes_first", 2), ("inserts_first", 1), ("local", 1)]
)
def test_section_3_inserting_e_1_5_for_e_1_2_saves_a4(strategy, marked):
    tables, _ = traced(FIGURE_2, FIGURE_2_NAMES, "r(1, X)")
    assert not tables.update(insert=["e(1, 5)"], delete=["e(1, 2)"], strategy=strategy)
    assert tables.last.marked == marked
    assert tables.last.rederived == marked


@pytest.mark.parametrize(
    ("strategy", "marked"), [("deletes_first", 2), ("inserts_first", 3), ("local", 2)]
)
def test_section_3_inserting_e_2_6_too_early_marks_a_new_answer(strategy, marked):
    tables, _ = traced(FIGURE_2, FIGURE_2_NAMES, "r(1, X)")
    delta = tables.update(insert=["e(2, 6)"], delete=["e(1, 2)"], strategy=strategy)
    assert delta.lines() == ["r(1, A): +r(1, 6)"]
    assert tables.last.marked == marked
    assert tables.last.rederived == marked


def test_section_3_local_beats_both_when_f8_and_f9_come_while_f1_goes():
    work = {}
    for strategy in ("local", "deletes_first", "inserts_first"):
        tables, _ = traced(FIGURE_2, FIGURE_2_NAMES, "r(1, X)")
        tables.update(insert=["e(1, 5)", "e(2, 6)"], delete=["e(1, 2)"], strategy=strategy)
        work[strategy] = tables.last.marked
    assert work == {"local": 1, "deletes_first": 2, "inserts_first": 2}


def test_section_3_inserting_e_1_5_is_one_more_support_of_a4():
    tables, trace = traced(FIGURE_2, FIGURE_2_NAMES, "r(1, X)")
    assert not tables.insert("e(1, 5)")
    assert trace.lines == block(
        """
          ready consume_answer(f8, c1) ord=0 scc=1
        consume_answer(f8, c1) ord=0 scc=1
          new s8 = <f8> of a4 ord=0
        """
    )


def test_section_3_inserting_d_1_1_makes_c8_consume_all_four_answers():
    tables, trace = traced(FIGURE_2, FIGURE_2_NAMES, "r(1, X)")
    assert not tables.insert("d(1, 1)")
    assert trace.lines == block(
        """
          ready consume_answer(f10, c7) ord=0 scc=1
        consume_answer(f10, c7) ord=0 scc=1
          new c8 = <r(1, A), r(1, A), r(1, A), []>
          ready consume_answer(a1, c8) ord=1 scc=1
          ready consume_answer(a2, c8) ord=1 scc=1
          ready consume_answer(a3, c8) ord=2 scc=1
          ready consume_answer(a4, c8) ord=2 scc=1
        consume_answer(a1, c8) ord=1 scc=1
          new s8 = <f10, a1> of a1 ord=1
        consume_answer(a2, c8) ord=1 scc=1
          new s9 = <f10, a2> of a2 ord=1
        consume_answer(a3, c8) ord=2 scc=1
          new s10 = <f10, a3> of a3 ord=2
        consume_answer(a4, c8) ord=2 scc=1
          new s11 = <f10, a4> of a4 ord=2
        """
    )


def test_section_3_f8_comes_first_then_f1_goes_then_f9_comes():
    tables, trace = traced(FIGURE_2, FIGURE_2_NAMES, "r(1, X)")
    tables.update(insert=["e(1, 5)", "e(2, 6)"], delete=["e(1, 2)"])
    assert trace.lines == block(
        """
          ready mark(a1) ord=1 scc=1
          ready may_rederive(a1) ord=1 scc=1
          ready consume_answer(f8, c1) ord=0 scc=1
          ready consume_answer(f9, c3) ord=1 scc=1
        consume_answer(f8, c1) ord=0 scc=1
          new s8 = <f8> of a4 ord=0
        mark(a1) ord=1 scc=1
          marked a1
          delay consume_answer(f9, c3)
        may_rederive(a1) ord=1 scc=1
          ready rederive(a1) ord=3 scc=1
        rederive(a1) ord=3 scc=1
          unmarked a1 ord=3
          ready consume_answer(f9, c3)
        consume_answer(f9, c3) ord=1 scc=1
          new a5 = r(1, 6) ord=4
          new s9 = <a1, f9> of a5 ord=3
          ready consume_answer(a5, c2) ord=0 scc=1
        consume_answer(a5, c2) ord=0 scc=1
          new c9 = <r(1, A), r(1, A), e(6, A), []>
        """
    )


def test_section_3_walk_through_event_by_event():
    """Deleting f1 = e(1, 2), inserting f9 = e(2, 6) and f10 = d(1, 1)."""
    tables, trace = traced(FIGURE_2, FIGURE_2_NAMES, "r(1, X)")
    delta = tables.update(insert=["d(1, 1)", "e(2, 6)"], delete=["e(1, 2)"])
    assert delta.lines() == ["r(1, A): +r(1, 6)"]
    expected = block(
        """
          ready mark(a1) ord=1 scc=1
          ready may_rederive(a1) ord=1 scc=1
          ready consume_answer(f10, c7) ord=0 scc=1
          ready consume_answer(f9, c3) ord=1 scc=1
        consume_answer(f10, c7) ord=0 scc=1
          new c8 = <r(1, A), r(1, A), r(1, A), []>
          ready consume_answer(a1, c8) ord=1 scc=1
          ready consume_answer(a2, c8) ord=1 scc=1
          ready consume_answer(a3, c8) ord=2 scc=1
          ready consume_answer(a4, c8) ord=2 scc=1
        mark(a1) ord=1 scc=1
          marked a1
          delay consume_answer(a1, c8)
          delay consume_answer(f9, c3)
          ready mark(a4) ord=2 scc=1
          ready may_rederive(a4) ord=2 scc=1
        consume_answer(a2, c8) ord=1 scc=1
          new s8 = <f10, a2> of a2 ord=1
        mark(a4) ord=2 scc=1
          marked a4
          delay consume_answer(a4, c8)
        consume_answer(a3, c8) ord=2 scc=1
          new s9 = <f10, a3> of a3 ord=2
        may_rederive(a1) ord=1 scc=1
          ready rederive(a1) ord=3 scc=1
        rederive(a1) ord=3 scc=1
          unmarked a1 ord=3
          ready consume_answer(a1, c8)
          ready consume_answer(f9, c3)
        consume_answer(a1, c8) ord=1 scc=1
          new s10 = <f10, a1> of a1 ord=3
        consume_answer(f9, c3) ord=1 scc=1
          new a5 = r(1, 6) ord=4
          new s11 = <a1, f9> of a5 ord=3
          ready consume_answer(a5, c2) ord=0 scc=1
          ready consume_answer(a5, c8) ord=0 scc=1
        consume_answer(a5, c2) ord=0 scc=1
          new c9 = <r(1, A), r(1, A), e(6, A), []>
        consume_answer(a5, c8) ord=0 scc=1
          new s12 = <f10, a5> of a5 ord=4
        may_rederive(a4) ord=2 scc=1
          ready rederive(a4) ord=4 scc=1
        rederive(a4) ord=4 scc=1
          unmarked a4 ord=4
          ready consume_answer(a4, c8)
        consume_answer(a4, c8) ord=2 scc=1
          new s13 = <f10, a4> of a4 ord=4
        """
    )
    assert trace.lines == expected


def test_appendix_example_3_reorders_calls_and_saves_both_answers():
    """Updating e(1, 3) to e(1, 2) and e(2, 3) to e(4, 3): the calls' numbers are the paper's."""
    tables, trace = traced(FIGURE_6, FIGURE_6_NAMES, "r(1, Y)", "r(2, Y)")
    delta = tables.update(insert=["e(1, 2)", "e(4, 3)"], delete=["e(1, 3)", "e(2, 3)"])
    assert trace.lines == block(
        """
          ready mark(a1) ord=1 scc=2
          ready mark(a2) ord=1 scc=4
          ready consume_answer(f4, c1) ord=0 scc=2
          ready consume_answer(f4, c2) ord=0 scc=2
          ready consume_answer(f5, c10) ord=0 scc=3
          ready consume_answer(f5, c11) ord=0 scc=3
        consume_answer(f4, c1) ord=0 scc=2
          new a4 = r(1, 2) ord=1
          new s4 = <f4> of a4 ord=0
        consume_answer(f4, c2) ord=0 scc=2
          new c12 = <r(1, A), r(1, A), r(2, A), []>
          scc p5=0.5
          scc p3=1.5
          ready consume_answer(a2, c12) ord=0 scc=2
          ready consume_answer(a3, c12) ord=0 scc=2
        consume_answer(f5, c10) ord=0 scc=0.5
          new a5 = r(4, 3) ord=1
          new s5 = <f5> of a5 ord=0
          ready consume_answer(a5, c7) ord=0 scc=1.5
        consume_answer(f5, c11) ord=0 scc=0.5
          new c13 = <r(4, A), r(4, A), r(3, A), []>
          scc p4=0.25
        consume_answer(a5, c7) ord=0 scc=1.5
          new s6 = <f3, a5> of a2 ord=0
          cancel mark(a2)
        consume_answer(a2, c12) ord=0 scc=2
          new s7 = <f4, a2> of a1 ord=0
          cancel mark(a1)
        consume_answer(a3, c12) ord=0 scc=2
          new a6 = r(1, 4) ord=1
          new s8 = <f4, a3> of a6 ord=0
        """
    )
    assert delta.lines() == ["r(1, A): +r(1, 2)", "r(1, A): +r(1, 4)"]
    assert tables.last.marked == 0


def test_appendix_example_4_merges_two_calls_at_the_higher_number():
    """Adding e(2, 1): calls p2 and p3 become one component, whose premises are now local.

    The paper raises the ordinal of a2 to 2. Ranks being a total order, s2 (now of ordinal 1, as
    printed) is still an acyclic support of a2, born after a3, and nothing has to rise.
    """
    tables, trace = traced(FIGURE_7, FIGURE_7_NAMES, "r(1, Y)")
    tables.insert("e(2, 1)")
    expected = block(
        """
          ready consume_answer(f3, c4) ord=0 scc=2
          ready consume_answer(f3, c5) ord=0 scc=2
        consume_answer(f3, c4) ord=0 scc=2
          new a4 = r(2, 1) ord=1
          new s4 = <f3> of a4 ord=0
          ready consume_answer(a4, c3) ord=0 scc=3
        consume_answer(f3, c5) ord=0 scc=2
          new c9 = <r(2, A), r(2, A), r(1, A), []>
          merged 2: p2, p3 scc=3
          ready consume_answer(a1, c9) ord=1 scc=3
          ready consume_answer(a2, c9) ord=1 scc=3
        consume_answer(a4, c3) ord=0 scc=3
          new a5 = r(1, 1) ord=2
          new s5 = <f1, a4> of a5 ord=1
          ready consume_answer(a5, c9) ord=0 scc=3
        consume_answer(a5, c9) ord=0 scc=3
          new s6 = <f3, a5> of a4 ord=2
        consume_answer(a1, c9) ord=1 scc=3
          new a6 = r(2, 2) ord=2
          new s7 = <f3, a1> of a6 ord=1
          ready consume_answer(a6, c3) ord=0 scc=3
        consume_answer(a6, c3) ord=0 scc=3
          new s8 = <f1, a6> of a1 ord=2
        consume_answer(a2, c9) ord=1 scc=3
          new s9 = <f3, a2> of a3 ord=1
        """
    )
    assert trace.lines == expected
    assert ordinal_of_support(tables, "r(1, 3)") == 1
    assert answers(tables, "r(2, Y)") == ["r(2, 1)", "r(2, 2)", "r(2, 3)"]
