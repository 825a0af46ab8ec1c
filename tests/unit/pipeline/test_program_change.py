"""A changed program on old state: what is kept, what is rebuilt, and who is asked."""

from __future__ import annotations

import pytest
from tests.pipelines import Job, rows_of, signed

import deltafix
from deltafix.errors import ProgramChangedError, SinkError, StateError
from deltafix.pipeline.change import cones, what_changed
from deltafix.pipeline.manifest import read_deltas, read_view


def test_cones_tell_which_relations_a_rule_reaches() -> None:
    text = (
        ".decl a(x: number)\n.decl b(x: number)\n.decl c(x: number)\nb(x) :- a(x).\nc(x) :- b(x)."
    )
    before = cones(deltafix.Program.parse(text))
    more = cones(deltafix.Program.parse(text + "\nc(x) :- a(x).\n.decl d(x: number)\nd(1)."))
    change = what_changed(before, more)
    assert (change.kept, change.rebuilt, change.gone) == (("b",), ("c", "d"), ())
    assert not what_changed(before, cones(deltafix.Program.parse(f"// layout\n\n{text}")))
    assert what_changed(more, before).show() == "rebuilt: c; gone: d; kept: b"


@pytest.fixture
def job(tmp_path) -> Job:
    job = Job(tmp_path)
    job.say("member", ("+", ("ada", "core")), ("+", ("core", "all")))
    job.say("grant", ("+", ("all", 7)), ("+", ("core", 8)))
    job.run()
    return job


def change_rules(job: Job) -> None:
    """Only direct members can."""
    path = job.folder / "access.dl"
    path.write_text(path.read_text().replace("stands(x, t), grant", "member(x, t), grant"))
    job.program = deltafix.Program.from_file(path)


def test_changed_rules_are_refused_unless_told_otherwise(job) -> None:
    change_rules(job)
    with pytest.raises(ProgramChangedError, match=r"rebuilt: can; kept: stands.*--on-change"):
        job.open()
    asked = []
    with pytest.raises(ProgramChangedError):
        job.open(on_change=lambda change: bool(asked.append(change)))
    assert asked[0].rebuilt == ("can",)


def test_an_output_whose_rules_changed_is_brought_up_in_one_epoch_and_others_are_kept(job) -> None:
    kept = sorted((job.folder / "out" / "stands").glob("delta*"))
    stamps = [path.stat().st_mtime_ns for path in kept]
    change_rules(job)
    with job.open(on_change=lambda _: True) as pipeline:
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


def test_an_input_that_changed_its_columns_is_refused_by_name(job) -> None:
    path = job.folder / "access.dl"
    path.write_text(path.read_text().replace("doc: number", "doc: symbol"))
    said = r"grant\(team: symbol, doc: number\) of the state is grant\(team: symbol, doc: symbol\)"
    with pytest.raises(StateError, match=said):
        job.open(on_change=lambda _: True)


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
    import shutil

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
