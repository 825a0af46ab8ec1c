"""Rows that are late, twice there, not there, or no rows at all, under each named option."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.pipelines import Job

from deltafix.errors import BadRowError, DriftError, PipelineError

pytestmark = pytest.mark.usefixtures("runner")


def member(job: Job) -> set:
    with job.open() as pipeline:
        return set(pipeline.maintainer.db.rows("member"))


def take(job: Job) -> list:
    """Run; the rows that were set aside, as (reason, row)."""
    with job.open() as pipeline:
        list(pipeline.drain())
        rows = pipeline.maintainer.quarantine.rows("member")
    return [(row["reason"], row["row"]) for row in rows]


A, B = ("a", "x"), ("b", "x")
QUARANTINE = 'bad_rows = "quarantine"'


def test_a_bad_row_fails_the_epoch_and_leaves_everything_as_it_was(tmp_path) -> None:
    job = Job(tmp_path)
    job.say("member", ("+", A))
    job.run()
    path = job.write("member", [("+", B), ("-", ("c", "x"))])
    with pytest.raises(BadRowError, match=r"input member: .*delete of a row that is not there.*c"):
        take(job)
    assert member(job) == {A}
    path.write_text("sign,who,team\n+,b,x\n")
    assert take(job) == []
    assert member(job) == {A, B}


@pytest.mark.parametrize("rows", [1, 2, 1000])
def test_what_its_relation_refuses_is_told_by_file_and_row(tmp_path, rows, runner) -> None:
    """However files are cut into epochs, and whatever was set aside before.

    Spark's tasks net what they read: of a delete and the like only the input is known there.
    """
    config = 'missing = "bad"\nduplicates = "bad"\nlate = "bad"\nversion = "at"\n' + QUARANTINE
    job = Job(tmp_path, member=config, pipeline=f"rows_per_epoch = {rows}")
    folder = job.folder / "in" / "member"
    (folder / "1.csv").write_text(
        "sign,who,team,at\n+,a,x,1\n*,b,x,1\n-,c,x,2\n+,d,x,9\n+,e,x,8\n-,f,x,9\n"
    )
    (folder / "2.csv").write_text("sign,who,team,at\n-,a,x,9\n-,a,x,9\n+,d,x,10\n")
    with job.open() as pipeline:
        list(pipeline.drain())
        aside = pipeline.maintainer.quarantine.rows("member")
    places = {(one["origin"].rpartition("/")[2], one["row"]["who"]) for one in aside}
    if runner == "spark":
        assert {"member", "1.csv, row 2"} <= {place for place, _ in places}
        return
    assert places == {
        ("1.csv, row 2", "b"),  # no sign
        ("1.csv, row 3", "c"),
        ("1.csv, row 5", "e"),  # late
        ("1.csv, row 6", "f"),
        ("2.csv, row 2", "a"),
        ("2.csv, row 3", "d"),  # twice
    }


def test_bad_rows_are_set_aside_with_their_reasons(tmp_path) -> None:
    job = Job(tmp_path, member=QUARANTINE)
    job.write("member", [("+", A), ("-", B), ("*", B)])
    path = job.folder / "in" / "member" / "2.csv"
    path.write_text("sign,who,team\n+,b,x,extra\n+,only\n")
    found = take(job)
    assert sorted(reason for reason, _ in found) == [
        "delete of a row that is not there",
        "it has 2 values, not 3 (sign, who, team)",
        "it has 4 values, not 3 (sign, who, team)",
        "sign = '*' is no sign; it takes + or -, 1 or -1, insert or delete",
    ]
    assert ("delete of a row that is not there", {"who": "b", "team": "x"}) in found
    assert member(job) == {A}
    assert take(job) == found  # nothing is set aside twice


def test_a_line_of_csv_that_is_no_row_is_told_by_its_number(tmp_path) -> None:
    job = Job(tmp_path)
    path = job.write("member", [("+", A)])
    rows = 60_000  # more than a block of Arrow, of which each is read by itself
    text = "sign,who,team\n" + "".join(f'+,{n},"x\n{n}"\n' for n in range(rows)) + "\n+,b\n+,c\n"
    path.write_text(text)
    with pytest.raises(BadRowError, match=rf"{path.name}:{2 * rows + 3}: it has 2 values, not 3 "):
        take(job)
    path.write_text('sign,who,team\n+,b,5" x\n')  # only at its beginning a quote opens a value
    assert take(job) == []
    assert member(job) == {("b", '5" x')}


def test_a_quote_that_nothing_closes_takes_no_rows_with_it(tmp_path) -> None:
    job = Job(tmp_path)
    path = job.write("member", [("+", A)])
    path.write_text('sign,who,team\n+,a,x\n+,b,"x\n+,c,x\n')
    with pytest.raises(PipelineError, match="csv:3: not RFC 4180: a quote in it has no end"):
        take(job)
    path.write_text('sign,who,team\n+,a,x\n+,b,"x"\n+,c,x\n')
    assert take(job) == []
    assert member(job) == {("a", "x"), ("b", "x"), ("c", "x")}


def test_a_delete_of_what_is_absent_can_be_ignored(tmp_path) -> None:
    job = Job(tmp_path, member='missing = "ignore"')
    job.write("member", [("-", B), ("+", A)])
    assert take(job) == []
    assert member(job) == {A}


def test_a_row_taken_out_and_put_in_again_in_one_epoch_is_no_change(tmp_path) -> None:
    job = Job(tmp_path)
    job.say("member", ("+", A))
    job.run()
    job.say("member", ("-", A), ("+", A))
    with job.open() as pipeline:
        (epoch,) = pipeline.drain()
        assert (epoch.given, epoch.out["stands"]) == ((0, 0), (0, 0))
        job.check(pipeline)


def test_duplicates_are_no_ops_unless_they_are_called_bad(tmp_path) -> None:
    told = [[("+", A)], [("+", A), ("+", B), ("+", B), ("-", B)]]
    job = Job(tmp_path / "ignore", member=QUARANTINE)
    for changes in told:
        job.write("member", changes)
        assert take(job) == []
    assert member(job) == {A}  # the last word on B is that it is out
    job = Job(tmp_path / "bad", member=f'{QUARANTINE}\nduplicates = "bad"')
    for changes in told:
        job.write("member", changes)
    # A again, and B again after B; then B is taken out.
    assert take(job) == [
        ("insert of a row that is there", {"who": who, "team": "x"}) for who in "ab"
    ]
    assert member(job) == {A}


def test_counted_duplicates_hold_until_the_last_one_is_taken_out(tmp_path) -> None:
    job = Job(tmp_path, member='duplicates = "count"')
    for sign, held in (("+", 1), ("+", 1), ("+", 1), ("-", 1), ("-", 1), ("-", 0)):
        job.write("member", [(sign, A)])
        assert take(job) == []
        assert len(member(job)) == held


def test_counts_are_as_before_when_another_input_fails_the_epoch(tmp_path) -> None:
    job = Job(tmp_path, member='duplicates = "count"')
    job.write("member", [("+", A)])
    job.write("member", [("+", A)])
    with job.open() as pipeline:
        list(pipeline.drain())
        job.write("member", [("+", A), ("+", B), ("+", B)])
        bad = job.write("grant", [("-", ("nobody", 1))])
        for _ in range(2):
            with pytest.raises(BadRowError, match="delete of a row that is not there"):
                list(pipeline.drain())
        bad.unlink()
        list(pipeline.drain())
        assert set(pipeline.maintainer.db.rows("member__times")) == {(*A, 3), (*B, 2)}


@pytest.mark.parametrize(
    ("late", "rows", "aside"), [("apply", 3, 0), ("ignore", 2, 0), ("bad", 2, 1)]
)
def test_late_rows_are_told_by_their_version(late, rows, aside, tmp_path) -> None:
    options = f'version = "at"\nlate = "{late}"\nlateness = 5\n{QUARANTINE}'
    job = Job(tmp_path, member=options)
    folder = tmp_path / "in" / "member"
    (folder / "1.csv").write_text("sign,at,who,team\n+,100,a,x\n")
    assert take(job) == []
    (folder / "2.csv").write_text("sign,at,who,team\n+,95,b,x\n+,94,c,x\n")
    found = take(job)
    assert [reason for reason, _ in found] == ["late: its version is below 95"] * aside
    assert len(member(job)) == rows
    (folder / "3.csv").write_text("sign,at,who,team\n+,when,d,x\n")
    assert take(job)[-1][0] == "at = 'when' is no number"


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (
            "sign,who,group",
            r"lacks 'team' and has 'group' beside what is wanted.*wanted are 'who', 'team'",
        ),
        ("who,team", r"lacks 'sign'.*\+.*sign = \"NAME\".*mode = \"rows\".*source = \"snapshot\""),
        ("sign;who;team", r"lacks .*its first line has \";\" between names: say delimiter = \";\""),
        ("sign\twho\tteam", r"lacks .*say delimiter = \"\\t\"$"),
        ("sign,who,team,since", r"has 'since' beside what is wanted: .*\[...\]$"),
        ("sign,who,team,__index_level_0__", r"; an index of pandas is left out by .*index=False"),
    ],
)
def test_other_columns_are_refused_by_name(header, said, tmp_path) -> None:
    job = Job(tmp_path)
    job.say("member", ("+", A))
    job.run()
    drifted = job.folder / "in" / "member" / "2.csv"
    drifted.write_text(f"{header}\n{','.join('+' * len(header.split(',')))}\n")
    with pytest.raises(DriftError, match=said):
        take(job)
    drifted.unlink()
    job.run()


@pytest.mark.parametrize(("duplicates", "left"), [("count", {A}), ("ignore", set())])
def test_named_columns_leave_others_alone_if_it_is_said_what_two_rows_are(
    duplicates, left, tmp_path
) -> None:
    named = 'columns = ["person", "group"]'
    job = Job(tmp_path, member=named)
    path = job.folder / "in" / "member" / "1.csv"
    path.write_text("group,since,sign,person\nx,2020,+,a\nx,2021,+,a\n")
    with pytest.raises(DriftError, match="has 'since' beside the columns that are named: without"):
        job.run()
    path.rename(tmp_path / "1.csv")
    job = Job(tmp_path / "said", member=f'{named}\nduplicates = "{duplicates}"')
    path = job.folder / "in" / "member" / "1.csv"
    (tmp_path / "1.csv").rename(path)
    take(job)
    assert member(job) == {A}
    path.with_name("2.csv").write_text("group,since,sign,person\nx,2020,-,a\n")
    take(job)
    assert member(job) == left


def test_an_envelope_without_columns_left_out_needs_nothing_said(tmp_path) -> None:
    options = 'format = "json"\nenvelope = "debezium"\ncolumns = ["who", "team"]'
    job = Job(tmp_path, member=options)
    path = job.folder / "in" / "member" / "1.json"
    path.write_text('{"op": "c", "before": null, "after": {"team": "x", "who": "a"}}\n')
    take(job)
    assert member(job) == {A}
    more = '{"op": "c", "before": null, "after": {"team": "x", "who": "b", "id": 1}}\n'
    path.with_name("2.json").write_text(more)
    with pytest.raises(DriftError, match="has 'id' beside the columns that are named"):
        take(job)
    assert member(job) == {A}


KEYED = 'key = "who"\nsequence_by = "at"\n'


def keyed(job: Job, *lines: str) -> list:
    """A change file of keyed rows; the rows that were set aside."""
    job.files += 1
    path = job.folder / "in" / "member" / f"{job.files:05d}.csv"
    path.write_text("\n".join(["sign,at,who,team", *lines]) + "\n")
    return take(job)


def tombstones(job: Job) -> list:
    with job.open() as pipeline:
        return [row[0] for row in pipeline.maintainer.db.rows("member__gone")]


def test_an_older_row_does_not_bring_a_deleted_key_back(tmp_path) -> None:
    job = Job(tmp_path, member=KEYED)
    keyed(job, "+,5,a,x", "-,7,a,", "-,1,b,")
    keyed(job, "+,6,a,y", "+,2,b,y", "+,3,c,z")
    assert (member(job), tombstones(job)) == ({("b", "y"), ("c", "z")}, ["a"])
    keyed(job, "+,8,a,w")
    assert (member(job), tombstones(job)) == ({("a", "w"), ("b", "y"), ("c", "z")}, [])


def test_of_equal_sequences_a_row_comes_before_a_delete_and_the_greater_row_counts(
    tmp_path,
) -> None:
    job = Job(tmp_path, member=KEYED)
    keyed(job, "+,5,a,x", "+,5,b,q", "-,5,c,")
    keyed(job, "-,5,a,", "+,5,a,w", "+,5,b,r", "+,5,c,s")
    assert member(job) == {("a", "x"), ("b", "r"), ("c", "s")}


def test_a_row_said_again_changes_nothing(tmp_path) -> None:
    job = Job(tmp_path, member=KEYED)
    keyed(job, "+,5,a,x")
    job.write("grant", [])
    (tmp_path / "in" / "member" / "2.csv").write_text("sign,at,who,team\n+,5,a,x\n+,9,a,x\n")
    with job.open() as pipeline:
        (epoch,) = pipeline.drain()
        assert (epoch.given, epoch.out["stands"], epoch.read["member"]) == ((0, 0), (0, 0), 2)


def test_tombstones_go_when_every_older_row_is_late(tmp_path) -> None:
    job = Job(tmp_path, member=KEYED + 'late = "ignore"\nlateness = 3\n')
    keyed(job, "-,5,a,", "-,8,b,")
    assert tombstones(job) == ["a", "b"]  # a row of 5 would come too late only from 9 on
    keyed(job, "+,9,c,x")
    assert tombstones(job) == ["b"]
    keyed(job, "+,5,a,x", "+,6,b,x")
    assert member(job) == {("c", "x")}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("+,,a,x", "at = '' is no number"),
        ("+,soon,a,x", "at = 'soon' is no number"),
        ("-,,a,", "at = '' is no number"),
    ],
)
def test_a_row_without_its_sequence_is_refused(tmp_path, line, reason) -> None:
    job = Job(tmp_path, member=KEYED)
    with pytest.raises(BadRowError, match=reason):
        keyed(job, line)
    assert member(job) == set()


def test_times_of_typed_files_are_sequences(tmp_path) -> None:
    job = Job(tmp_path, member=KEYED + 'format = "parquet"\nbad_rows = "quarantine"')
    early, late = datetime(2001, 1, 1), datetime(9999, 12, 31)
    rows = [("+", late, "a", "x"), ("+", early, "a", "y"), ("+", None, "b", "x")]
    names = ("sign", "at", "who", "team")
    columns = zip(*rows, strict=True)
    table = pa.table(dict(zip(names, map(list, columns), strict=True)))
    pq.write_table(table, tmp_path / "in" / "member" / "1.parquet")
    assert [reason for reason, _ in take(job)] == ["at is missing"]
    assert member(job) == {("a", "x")}
