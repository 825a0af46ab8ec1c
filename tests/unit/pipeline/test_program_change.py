"""A changed program on old state: what is kept, what follows, and who is asked."""

from __future__ import annotations

import json
import shutil
from random import Random

import pytest
from tests.generators.strategies import FEATURES, random_program, random_script, replay
from tests.judges.oracle import evaluate
from tests.support import pipelines
from tests.support.amount import cases
from tests.support.pipelines import TEXT, Job, rows_of, signed

import deltafix
from deltafix.errors import (
    DeltafixError,
    FactError,
    ProgramChangedError,
    SinkError,
    StateError,
    UnknownRelationError,
)
from deltafix.pipeline.change import cones, what_changed
from deltafix.pipeline.config import schemas_of
from deltafix.pipeline.keeper import peek_marks
from deltafix.pipeline.manifest import read_deltas, read_view

EXAMPLES = cases(40)


def test_cones_tell_which_relations_a_rule_reaches() -> None:
    text = (
        ".decl a(x: number)\n.decl b(x: number)\n.decl c(x: number)\nb(x) :- a(x).\nc(x) :- b(x)."
    )
    before = cones(deltafix.Program.parse(text))
    more = cones(deltafix.Program.parse(text + "\nc(x) :- a(x).\n.decl d(x: number)\nd(1)."))
    change = what_changed(before, more)
    assert (change.kept, change.changed, change.gone) == (("b",), ("c", "d"), ())
    assert not what_changed(before, cones(deltafix.Program.parse(f"// layout\n\n{text}")))
    assert what_changed(more, before).show() == "changed: c; gone: d; kept: b"


def test_law_an_edit_that_changes_rows_of_a_relation_is_seen(judged) -> None:
    """Random programs without some of their lines, or with other words in a declaration."""
    swaps = [(" eqrel", ""), (" choice-domain", " index-on"), ("<= ", ">= "), ("number", "float"),
             ("<min>", "<max>"), ("max ", "min "), ("1", "2")]  # fmt: skip
    for seed in range(EXAMPLES):
        rng = Random(f"edited {seed}")
        program = random_program(rng, rng.choice([2, 3]), FEATURES - {"reducers"})
        lines = program.show().splitlines(keepends=True)
        (*_, facts) = replay(program, random_script(rng, program, epochs=2))
        before, rows = cones(program), evaluate(program, facts)
        for _ in range(6):
            edited = [line for line in lines if rng.random() > 1 / len(lines)]
            at = rng.randrange(len(edited) or 1)
            edited[at : at + 1] = [one.replace(*rng.choice(swaps), 1) for one in edited[at:][:1]]
            try:
                other = deltafix.Program.parse("".join(edited))
            except DeltafixError:
                continue
            if schemas_of(other).items() < schemas_of(program).items():
                continue
            try:
                now = evaluate(other, facts)
            except (DeltafixError, KeyError):
                continue
            change = what_changed(before, cones(other))
            differ = {name for name, some in now.items() if some != rows.get(name, some)}
            assert differ <= {*change.changed, *change.gone}, ("".join(edited), differ)
            judged["edits that changed rows"] += bool(differ)


KEPT = """
.decl member(who: symbol, team: symbol)
.decl grant(team: symbol, doc: number)
.input member, grant
.decl stands(who: symbol, team: symbol) {qualifiers}
.decl can(who: symbol, doc: number)
can(x, d * 1000000000) :- grant(x, d).
{rules}
"""
STANDS = "stands(x, y) :- member(x, y).\n"
KEPT_TEXTS = [
    words + KEPT.format(qualifiers=qualifiers, rules=rules)
    for words, qualifiers, rules in (
        ("", "", ""),
        ("", "", STANDS),
        ("", "", STANDS + "stands(x, y) <= stands(x, z) :- y <= z."),
        ("", "", STANDS + "stands(x, y) <= stands(x, z) :- z <= y."),
        ("", "eqrel", STANDS),
        ("", "choice-domain who", STANDS),
        ('.pragma "word-size" "32"', "", STANDS),
    )
]
"""What a program may do to the rows that are derived for a relation."""


@pytest.mark.parametrize("keeper", ["driver", "shards"])
def test_outputs_follow_whatever_a_program_does_to_derived_rows(
    keeper, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(pipelines, "KEEPER", keeper)
    job = Job(tmp_path, text=KEPT_TEXTS[0])
    job.say("member", ("+", ("a", "b")), ("+", ("a", "c")), ("+", ("d", "e")))
    job.say("grant", ("+", ("all", 7)))
    job.run()
    rng = Random("kept")
    for text in [one for _ in range(2) for one in rng.sample(KEPT_TEXTS, len(KEPT_TEXTS))]:
        job.rule(text)
        with job.open(on_change=lambda _: "rebuild") as pipeline:
            list(pipeline.drain())
            job.check(pipeline)


@pytest.fixture
def job(tmp_path) -> Job:
    job = Job(tmp_path)
    job.say("member", ("+", ("ada", "core")), ("+", ("core", "all")))
    job.say("grant", ("+", ("all", 7)), ("+", ("core", 8)))
    job.run()
    return job


DIRECT = TEXT.replace("stands(x, t), grant", "member(x, t), grant")
"""Only direct members can."""


def test_changed_rules_are_refused_unless_told_otherwise(job) -> None:
    job.rule(DIRECT)
    with pytest.raises(ProgramChangedError, match=r"changed: can; kept: stands.*--on-change"):
        job.open()
    asked = []
    with pytest.raises(ProgramChangedError):
        job.open(on_change=lambda change: asked.append(change) or "refuse")
    assert asked[0].changed == ("can",)


@pytest.mark.parametrize("answer", ["rebuild", "maintain"])
def test_an_output_whose_rules_changed_is_brought_up_in_one_epoch_and_others_are_kept(
    answer, job
) -> None:
    kept = sorted((job.folder / "out" / "stands").glob("delta*"))
    stamps = [path.stat().st_mtime_ns for path in kept]
    job.rule(DIRECT)
    with job.open(on_change=lambda _: answer) as pipeline:
        epochs = list(pipeline.drain())
        job.check(pipeline)
    assert [epoch.out for epoch in epochs] == [{"can": (0, 1)}]
    assert signed(read_deltas(job.folder / "out" / "can", epochs[0].epoch)) == [
        (-1, ("ada", 7), epochs[0].epoch)
    ]
    assert sorted((job.folder / "out" / "stands").glob("delta*")) == kept
    assert [path.stat().st_mtime_ns for path in kept] == stamps
    job.say("grant", ("+", ("all", 9)))
    job.run()  # the same rules: nobody is asked
    with (job.folder / "state" / "epochs.jsonl").open() as lines:
        assert [json.loads(line)["epoch"] for line in lines] == [1, 2, 3, 4]


def test_relations_and_outputs_come_and_go_with_a_maintained_change(job) -> None:
    sections = job.toml.read_text()
    team = ".decl team(t: symbol)\n.decl extra(t: symbol)\n.input extra\n"
    team += "team(t) :- grant(t, _).\nteam(t) :- extra(t)."
    job.rule(TEXT + team)
    job.toml.write_text(
        sections.replace("[output.stands]", "[output.team]").replace("out/stands", "out/team")
        + '[input.extra]\nsource = "files"\npath = "in/extra"\n'
    )
    (job.folder / "in" / "extra").mkdir()
    (job.folder / "in" / "extra" / "1.csv").write_text("sign,t\n+,new\n+,all\n")
    job.rows["extra"] = {("new",), ("all",)}
    job.places["team"] = job.folder / "out" / "team"
    del job.places["stands"]
    with job.open(on_change=lambda _: "maintain") as pipeline:
        epochs = [epoch.out for epoch in pipeline.drain()]
        job.check(pipeline)
    assert epochs == [{"team": (2, 0)}, {"can": (0, 0), "team": (1, 0)}]
    # Back again: a relation whose rows are left over is refused by name, and all is as it was.
    job.toml.write_text(sections)
    job.rule(TEXT)
    with pytest.raises(UnknownRelationError, match=r"'extra' has given rows.*\.output extra"):
        job.open(on_change=lambda _: "maintain")
    job.rule(TEXT + ".decl extra(t: symbol)\n.input extra")  # no section reads it: rows stay
    with job.open(on_change=lambda _: "maintain") as pipeline:
        (epoch,) = pipeline.drain()  # `stands` was not written for three epochs
        job.check(pipeline)
        assert pipeline.maintainer.db.count("extra") == 2
    assert epoch.out == {"stands": (0, 0)}


def test_a_change_that_no_epoch_can_make_is_refused_and_says_what_can(job) -> None:
    with job.open() as pipeline:
        before = pipeline.maintainer.db.rows("can")
    job.rule(DIRECT.replace("can(who: symbol, doc: number)", "can(who: symbol, paper: number)"))
    with pytest.raises(SinkError, match="paper"):
        job.open(on_change=lambda _: "maintain")
    job.toml.write_text(job.toml.read_text().replace('[output.can]\npath = "out/can"', ""))
    with pytest.raises(FactError, match=r"can\(who: symbol, doc: number\) is can"):
        job.open(on_change=lambda _: "maintain")
    job.rule(TEXT)
    with job.open() as pipeline:
        assert pipeline.maintainer.db.rows("can") == before


def test_a_state_that_another_program_has_opened_is_maintained_from_what_outputs_show(job) -> None:
    other = TEXT + "can(x, 1) :- member(x, _)."
    deltafix.connect(other, job.folder / "state").close()
    job.rule(DIRECT)
    with job.open(on_change=lambda _: "maintain") as pipeline:
        assert [epoch.out for epoch in pipeline.drain()] == [{"can": (0, 1)}]
        job.check(pipeline)


def test_an_edit_of_the_rules_is_one_epoch_that_derives_what_changed_alone(job) -> None:
    job.say("member", *(("+", (f"p{n}", "core")) for n in range(500)))
    job.run()
    job.rule(TEXT + '.decl top(x: symbol)\ntop(x) :- stands(x, "all").\ncan("root", 0).\n')
    job.toml.write_text(job.toml.read_text() + '[output.top]\npath = "out/top"\n')
    with job.open(on_change=lambda _: "maintain") as pipeline:
        assert pipeline.maintainer.db.recovered == ()  # the state had its own rules to open with
        (epoch,) = pipeline.drain()
        job.check(pipeline)
        assert epoch.out == {"can": (1, 0), "top": (502, 0)}
        assert 502 <= epoch.touched <= 510  # `stands` alone has over a thousand rows
        assert len(pipeline.maintainer.db.rows("top")) == 502
    with job.open() as pipeline:  # nobody is asked: these are the state's rules now
        assert list(pipeline.drain()) == []
        job.check(pipeline)


def test_rows_that_new_rules_have_no_place_for_are_not_dropped(job) -> None:
    path = job.folder / "access.dl"
    text = path.read_text()
    more = ".decl extra(x: symbol)\n.input extra\n.decl odd(x: symbol)\nodd(x) :- extra(x).\n"
    path.write_text(text + more + 'can("root", 0).\n')
    with job.open(on_change=lambda _: "maintain") as pipeline:
        assert [epoch.out["can"] for epoch in pipeline.drain()] == [(1, 0)]
    path.write_text(text)
    with job.open(on_change=lambda _: "maintain") as pipeline:  # `extra` never had a row
        assert [epoch.out["can"] for epoch in pipeline.drain()] == [(0, 1)]
        job.check(pipeline)
    path.write_text(text.replace("grant", "given"))
    job.toml.write_text(job.toml.read_text().replace("[input.grant]", "[input.given]"))
    before = peek_marks(job.folder / "state")
    with pytest.raises(UnknownRelationError, match="'grant' has given rows, and the changed"):
        job.open(on_change=lambda _: "maintain")
    assert peek_marks(job.folder / "state") == before


def test_shards_cannot_follow_an_edit_of_the_rules(job, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(pipelines, "KEEPER", "shards")
    other = Job(tmp_path / "other")
    other.say("member", ("+", ("ada", "core")))
    other.run()
    other.rule(DIRECT)
    with pytest.raises(ProgramChangedError, match=r"rows that are in shards.*--on-change rebuild"):
        other.open(on_change=lambda _: "maintain")
    with other.open(on_change=lambda _: "rebuild") as pipeline:
        list(pipeline.drain())
        other.check(pipeline)


@pytest.mark.parametrize("way", ["maintain", "rebuild"])
def test_an_input_that_changed_its_columns_is_refused_by_name(job, way) -> None:
    path = job.folder / "access.dl"
    path.write_text(path.read_text().replace("doc: number", "doc: symbol"))
    job.toml.write_text(job.toml.read_text().replace("[output.can]", "[output.member]"))
    said = r"grant\(team: symbol, doc: number\).* is grant\(team: symbol, doc: symbol\)"
    shutil.rmtree(job.folder / "out" / "can")
    with pytest.raises(StateError if way == "rebuild" else FactError, match=said):
        job.open(on_change=lambda _: way)
    said = r"grant\(team: symbol, doc: number\) of the state is grant\(team: symbol, doc: symbol\)"
    with pytest.raises(StateError, match=said):
        job.open(on_change=lambda _: "rebuild")


def test_a_new_output_begins_with_all_of_its_rows(job) -> None:
    text = job.toml.read_text().replace("[output.stands]", "[output.member]")
    job.toml.write_text(text.replace("out/stands", "out/member"))
    with job.open() as pipeline:
        (epoch,) = pipeline.drain()
    assert epoch.out == {"member": (2, 0)}
    at, rows = read_view(job.folder / "out" / "member")
    assert (at, rows_of(rows)) == (epoch.epoch, {("ada", "core"), ("core", "all")})


def test_outputs_of_other_states_are_refused(job, tmp_path) -> None:
    old = (job.folder / "state").rename(tmp_path / "old")
    with pytest.raises(SinkError, match="it belongs to another state"):
        job.open()
    (job.folder / "out" / "can" / "manifest.json").write_text("{}")
    old.rename(job.folder / "state2")
    with pytest.raises(SinkError, match="is damaged"):
        job.open()


def test_a_state_put_back_from_an_older_copy_is_told_from_its_outputs(job, tmp_path) -> None:
    shutil.copytree(job.folder / "state", tmp_path / "copy")
    job.say("grant", ("+", ("all", 9)))
    job.run()
    shutil.rmtree(job.folder / "state")
    (tmp_path / "copy").rename(job.folder / "state")
    with pytest.raises(SinkError, match="it was put back from an older copy"):
        job.open()


def test_a_folder_of_someone_else_is_not_written_into(job) -> None:
    folder = job.folder / "out" / "mine"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    job.toml.write_text(job.toml.read_text().replace("out/can", "out/mine"))
    with pytest.raises(SinkError, match="it holds other files"):
        job.open()
    assert (folder / "notes.txt").read_text() == "mine"
