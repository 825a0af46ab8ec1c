"""`deltafix pipeline` as a person runs it."""

from __future__ import annotations

import json
from itertools import islice

import pytest
from tests.support.pipelines import Job, open_pipeline
from tests.unit.pipeline.test_requests import job_of


@pytest.fixture
def job(tmp_path, warm_kernel) -> Job:
    job = Job(tmp_path)
    job.say("member", ("+", ("ada", "core")))
    job.say("grant", ("+", ("core", 7)))
    return job


def test_a_run_says_each_epoch_and_prints_json_when_asked(job, deltafix) -> None:
    ran = deltafix("pipeline", "run", job.toml, "--json")
    assert ran.code == 0
    first, second = map(json.loads, ran.out.splitlines())
    assert (first["epoch"], second["epoch"]) == (1, 2)
    assert second["read"] == {"member": 1, "grant": 1}
    assert "epoch 2: in 2 | out can +1 -0, stands +1 -0 | touched 4 | " in ran.err
    looks = f"`deltafix pipeline replay {job.toml} 2`"
    assert ran.err.splitlines()[-1].startswith(f"{looks} prints the rows of epoch 2; all are in ")
    printed = deltafix("pipeline", "replay", job.toml, 2)
    assert (printed.code, printed.out.splitlines()[0][0]) == (0, "+")
    again = deltafix("pipeline", "run", job.toml, "--once")
    assert (again.code, again.out) == (0, "")
    assert again.err.splitlines() == [
        "executor driver: the runner is local",
        "nothing new; the state is epoch 2",
    ]


def test_check_and_status_write_nothing(job, deltafix) -> None:
    checked = deltafix("pipeline", "check", job.toml)
    assert checked.code == 0
    assert checked.out.splitlines()[-1] == f"{job.toml}: ok"
    assert deltafix("pipeline", "status", job.toml).out.splitlines()[1] == (
        "input member: nothing read yet"
    )
    assert not (job.folder / "state").exists()
    deltafix("pipeline", "run", job.toml)
    with job.open():  # another process may be running it
        said = deltafix("pipeline", "status", job.toml).out.splitlines()
    assert "state: epoch 2, at " in said[0]
    assert said[1:3] == ["executor driver: the runner is local", "input member: 1 file read"]
    assert said[4] == "output can: epoch 2, 1 signed row from epoch 1"


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ('source = "files"', ["1 file read", "b.csv in part: 2 of its 5 rows", "2 files read"]),
        (
            'source = "files"\nmode = "rows"',
            ["1 file read", "b.csv in part: 3 rows still to come", "2 files read"],
        ),
        (
            'source = "snapshot"',  # the rows of a.csv go, too
            ["snapshot a.csv", "b.csv in part: 6 changes still to come", "snapshot b.csv"],
        ),
    ],
)
@pytest.mark.usefixtures("warm_kernel")
def test_status_says_of_a_file_how_much_is_read(section, said, tmp_path, deltafix) -> None:
    first, part, both = said
    sign = "+," if section == 'source = "files"' else ""
    (tmp_path / "p.dl").write_text(".decl e(n: number) .input e .decl o(n: number) o(n) :- e(n).")
    (tmp_path / "p.toml").write_text(
        '[pipeline]\nprogram = "p.dl"\nstate = "state"\nrows_per_epoch = 2\n'
        f'[input.e]\npath = "in"\n{section}\n[output.o]\npath = "out"\n'
    )
    (tmp_path / "in").mkdir()

    def take(file: str, rows: range, epochs: int | None) -> str:
        lines = [f"{'sign,' * bool(sign)}n", *(f"{sign}{n}" for n in rows)]
        (tmp_path / "in" / file).write_text("\n".join(lines) + "\n")
        with open_pipeline(tmp_path / "p.toml") as pipeline:
            for _ in islice(pipeline.drain(), epochs):
                pass
        return deltafix("pipeline", "status", tmp_path / "p.toml").out.splitlines()[2]

    begun = take("a.csv", range(3), 2)  # the first one has no rows
    assert begun.startswith("input e: a.csv in part: ")
    assert take("a.csv", range(3), None) == f"input e: {first}"
    assert take("b.csv", range(4, 9), 1) == f"input e: {first}, {part}"
    assert take("b.csv", range(4, 9), None) == f"input e: {both}"


def test_check_looks_at_the_inputs(job, deltafix) -> None:
    def said() -> str:
        ran = deltafix("pipeline", "check", job.toml)
        return ran.out if ran.code == 0 else ran.err

    fed = "in/member to member(who: symbol, team: symbol)"
    assert f"{fed} (has something to say; looked at 1 row)" in said()
    deltafix("pipeline", "run", job.toml)
    assert f"{fed} (nothing new)" in said()
    path = job.write("member", [("+", ("bo", "core"))])
    path.write_text("sign,who\n+,bo\n")
    assert "error[DF662]" in said()
    assert "lacks 'team'" in said()
    path.write_text("sign,who,team\n?,bo,core\n")
    assert "sign = '?' is no sign" in said()
    assert "it would fail the next epoch" in said()
    other = job.write("grant", [("+", ("core", 8))])
    other.write_text("sign,team,to\n+,core,8\n")
    first, second = (line for line in said().splitlines() if line.startswith("error["))
    assert "sign = '?' is no sign" in first  # of every input, not of the first alone
    assert second.startswith("error[DF662]: ")
    assert "has 'to' beside" in second
    other.unlink()
    toml = job.toml.read_text()
    job.toml.write_text(
        toml.replace('path = "in/member"', 'path = "in/member"\nbad_rows = "quarantine"')
    )
    assert "(has something to say; looked at 1 row, 1 of them are to be set aside)" in said()
    job.toml.write_text(toml.replace('"in/grant"', '"in/grants"'))
    path.unlink()
    assert "in/grants is no folder and no file; make it first" in said()


def test_check_looks_at_every_file_and_at_whose_an_output_is(job, deltafix, tmp_path) -> None:
    def said() -> str:
        ran = deltafix("pipeline", "check", job.toml)
        return ran.out if ran.code == 0 else ran.err

    for number in range(2, 5):
        job.write("member", [("+", (f"p{number}", "core"))])
    assert "(has something to say; looked at 4 rows)" in said()
    later = job.write("member", [("+", ("bo", "core"))])
    good = later.read_text()
    for text, wrong in (("sign,who\n+,bo\n", f"{later} lacks 'team'"),
                        ("sign,who,team\n?,bo,core\n", "sign = '?' is no sign")):  # fmt: skip
        later.write_text(text)
        assert wrong in said()
    later.write_text(good)
    assert "looked at 5 rows" in said()
    deltafix("pipeline", "run", job.toml)
    assert "(at epoch 2)" in said()
    (job.folder / "state").rename(job.folder / "old")
    assert "out/can: it belongs to another state; name a new folder, or that state" in said()
    deltafix("pipeline", "run", job.toml)  # it is refused, too, and begins a state
    assert "belongs to another state" in said()


def test_replay_shows_an_epoch_and_computes_it_again(job, deltafix) -> None:
    deltafix("pipeline", "run", job.toml)
    job.say("grant", ("-", ("core", 7)), ("+", ("core", 8)))
    deltafix("pipeline", "run", job.toml)
    again = deltafix("pipeline", "replay", job.toml, "3")
    assert again.code == 0
    assert again.out == '-can("ada", 7)\n+can("ada", 8)\nepoch 3: recomputed, the same\n'
    assert "brought the outputs up" in deltafix("pipeline", "replay", job.toml, "1").out
    wrong = deltafix("pipeline", "replay", job.toml, "9")
    assert (wrong.code, wrong.out) == (2, "")
    assert "there is no epoch 9; " in wrong.err
    path = job.folder / "out" / "can" / "delta-000000000003.parquet"
    path.write_bytes((job.folder / "out" / "can" / "delta-000000000002.parquet").read_bytes())
    different = deltafix("pipeline", "replay", job.toml, "3")
    assert different.code == 1
    assert 'only recomputed: -can("ada", 7)' in different.out
    deltafix("pipeline", "compact", job.toml)
    assert "folded it into its snapshot" in deltafix("pipeline", "replay", job.toml, "2").out


def test_compact_keeps_the_deltas_of_so_many_epochs(job, deltafix) -> None:
    for turn in range(4):
        job.say("grant", ("+", ("core", 10 + turn)))
        deltafix("pipeline", "run", job.toml)
    assert deltafix("pipeline", "compact", job.toml, "--keep", "2").code == 0
    said = deltafix("pipeline", "status", job.toml).out
    assert (
        "output can: epoch 5, 2 signed rows from epoch 4, snapshot of epoch 5 with 5 rows" in said
    )
    assert "output stands: epoch 5, 1 signed row from epoch 1" in said  # it has no snapshot
    gone = deltafix("pipeline", "replay", job.toml, "2")
    assert gone.code == 2
    assert "the log begins with epoch 4" in gone.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--every", "soon"], "a time such as 10s"),
        (["--every", "10s", "--once"], "exclude each other"),
        (["--on-change", "maybe"], "'maybe' is not one of 'ask', 'maintain'"),
    ],
)
def test_wrong_options_are_refused(arguments, said, job, deltafix) -> None:
    ran = deltafix("pipeline", "run", job.toml, *arguments)
    assert ran.code == 2
    assert said in ran.err
    assert not (job.folder / "state").exists()


def test_a_wrong_file_is_one_message(job, deltafix) -> None:
    job.toml.write_text(job.toml.read_text().replace("[input.member]", "[input.membr]"))
    ran = deltafix("pipeline", "check", job.toml)
    assert ran.code == 2
    assert ran.err.startswith(f"error[DF661]: {job.toml}: [input.membr] the program has no")
    assert "Traceback" not in ran.err


def test_changed_rules_are_asked_about_and_refused_where_nobody_answers(job, deltafix) -> None:
    deltafix("pipeline", "run", job.toml)
    path = job.folder / "access.dl"
    path.write_text(path.read_text() + 'can("root", 0).\n')
    assert "the rules have changed (changed: can" in deltafix("pipeline", "check", job.toml).out
    for answer in ([], ["--on-change", "ask"], ["--on-change", "refuse"]):
        refused = deltafix("pipeline", "run", job.toml, *answer)
        assert refused.code == 2
        assert "error[DF664]" in refused.err
    ran = deltafix("pipeline", "run", job.toml, "--on-change", "rebuild")
    assert ran.code == 0
    assert "epoch 3: in 0 | out can +1 -0" in ran.err


def test_following_looks_again_until_it_is_interrupted(job, deltafix, monkeypatch) -> None:
    turns = []

    def sleep(seconds: float) -> None:
        turns.append(seconds)
        if len(turns) == 3:
            raise KeyboardInterrupt
        job.say("grant", ("+", ("core", 100 + len(turns))))

    monkeypatch.setattr("deltafix.cli.pipeline.sleep", sleep)
    ran = deltafix("pipeline", "run", job.toml, "--every", "500ms")
    assert ran.code == 130
    assert ran.err.endswith("interrupted\n")
    assert turns == [0.5] * 3
    assert "epoch 4: in 1 |" in ran.err


def test_only_a_file_that_takes_requests_in_this_process_is_served(tmp_path, deltafix) -> None:
    job = Job(tmp_path)
    ran = deltafix("pipeline", "serve", job.toml, "--port", "0")
    assert (ran.code, ran.out) == (2, "")
    assert 'no input has source = "http", so there is nothing to serve' in ran.err
    job.toml.write_text(job_of(tmp_path).toml.read_text().replace('"local"', '"spark"'))
    ran = deltafix("pipeline", "serve", job.toml, "--port", "0")
    assert (ran.code, ran.out) == (2, "")
    assert 'serve needs runner = "local"' in ran.err
