"""Pipeline files that cannot be accepted: errors name file, section, key, value, what is valid."""

from __future__ import annotations

import pytest
from tests.support.pipelines import Job

from deltafix.errors import ConfigError, ProgramError, SourceError
from deltafix.pipeline.config import read_config
from deltafix.pipeline.settings import INPUT, OUTPUT, PIPELINE

GOOD = """
[pipeline]
program = "access.dl"
state = "state"
[input.member]
source = "files"
path = "in/member"
[output.can]
path = "out/can"
"""


@pytest.fixture
def job(tmp_path) -> Job:
    return Job(tmp_path)


def refused(job: Job, text: str) -> str:
    job.toml.write_text(text)
    with pytest.raises(ConfigError) as error:
        read_config(job.toml)
    assert str(error.value).startswith(str(job.toml))
    return str(error.value).removeprefix(f"{job.toml}: ")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[pipeline]", "pipeline", "not TOML: Expected '=' after a key"),
        ("[pipeline]", "[pipelin]", "unknown section [pipelin]; did you mean [pipeline]?"),
        ('state = "state"', "", "[pipeline] has no 'state'; it takes text in quotes"),
        (
            'state = "state"',
            'state = "s"\nfsync = "often"',
            '[pipeline] fsync = "often" is not valid; it takes "always" or "interval" or "never"',
        ),
        (
            'state = "state"',
            'state = "s"\nrows_per_epoch = 0',
            "[pipeline] rows_per_epoch = 0 is not valid; it takes a whole number of at least 1",
        ),
        (
            'source = "files"',
            'source = "file"',
            "[input.member] source = 'file' is not valid; it takes \"files\" or",
        ),
        ('source = "files"\n', "", "[input.member] there is no source; it takes"),
        (
            'source = "files"',
            'source = "files"\nmode = "rows"\nduplicates = "count"',
            '[input.member] duplicates says nothing with mode = "rows"; leave it out',
        ),
        (
            'source = "files"\npath = "in/member"',
            'source = "spark"\ntable = "t"\nmode = "snapshot"\nmissing = "bad"',
            '[input.member] missing says nothing with mode = "snapshot"; leave it out',
        ),
        (
            'path = "in/member"',
            'path = "in"\nmdoe = "rows"',
            "[input.member] unknown key 'mdoe'; did you mean 'mode'?",
        ),
        (
            'path = "in/member"',
            'path = "in"\nmode = "snapshot"',
            '[input.member] mode = "snapshot" is not valid; it takes "changes" or "rows"',
        ),
        (
            'path = "in/member"',
            'path = "in"\ncolumns = ["a"]',
            "[input.member] columns = ['a'] names 1 column, but member(who: symbol, team: ",
        ),
        (
            'path = "in/member"',
            'path = "in"\nlate = "bad"',
            '[input.member] late = "bad" needs version = "COLUMN"',
        ),
        (
            'path = "in/member"',
            'path = "in"\nkey = ["who", "id"]',
            "[input.member] key: 'id' is no column of member(who: symbol, team: symbol); a key is",
        ),
        (
            'path = "in/member"',
            'path = "in"\nkey = [""]',
            "[input.member] key = [''] is not valid; it takes text in quotes, or a list of texts",
        ),
        (
            'path = "in/member"',
            'path = "in"\nkey = "who"\nsequence_by = ["at", "at"]',
            "[input.member] sequence_by = ['at', 'at'] names a column twice",
        ),
        (
            'path = "in/member"',
            'path = "in"\nsequence_by = "at"',
            '[input.member] sequence_by needs key = ["COLUMN"]: whose rows it puts in order',
        ),
        (
            'path = "in/member"',
            'path = "in"\nkey = "who"\nversion = "at"',
            "[input.member] version says nothing with key: sequence_by is its version; leave it",
        ),
        (
            'path = "in/member"',
            'path = "in"\nkey = "who"\nmissing = "bad"',
            "[input.member] missing says nothing with key: a row replaces another; leave it out",
        ),
        (
            'path = "in/member"',
            'path = "in"\nkey = "who"\nlate = "bad"',
            '[input.member] late = "bad" needs sequence_by = "COLUMN"',
        ),
        (
            'path = "in/member"',
            'path = "in"\nkey = "who"\nmode = "rows"',
            '[input.member] key says nothing with mode = "rows"; leave it out',
        ),
        (
            "[input.member]",
            "[input.membr]",
            "[input.membr] the program has no relation 'membr'; did you mean 'member'?",
        ),
        (
            "[output.can]",
            '[output.can]\nmode = "all"',
            '[output.can] mode = "all" is not valid; it takes "delta+snapshot" or "delta"',
        ),
        (
            'path = "out/can"',
            'path = "out"\n[output.stands]\npath = "out"',
            "is that of [output.can]; each output has a place of its own",
        ),
        ("[output.can]", "[output]", "output.path = 'out/can' is not a section"),
    ],
)
def test_a_wrong_file_is_refused(job, old, new, said) -> None:
    assert old in GOOD
    assert said in refused(job, GOOD.replace(old, new))


def test_a_relation_fed_twice_is_refused(job) -> None:
    second = (
        '[input.team]\nsource = "tree"\npath = "."\nextractor = "python"\nrelations = ["member"]\n'
    )
    said = refused(job, GOOD + second)
    assert "[input.team] feeds 'member', which [input.member] feeds already" in said


def test_what_is_not_a_file_or_not_a_program_is_said_so(job) -> None:
    with pytest.raises(SourceError, match="cannot be read"):
        read_config(job.folder / "none.toml")
    job.toml.write_text(GOOD)
    (job.folder / "access.dl").write_text("can(x) :- .")
    with pytest.raises(ProgramError):
        read_config(job.toml)


def test_defaults_are_filled_in_and_paths_are_those_of_the_file(job, monkeypatch) -> None:
    job.toml.write_text(GOOD)
    monkeypatch.chdir("/")
    config = read_config(job.toml)
    assert str(config.state) == str(job.folder / "state")
    assert config.inputs[0].values["path"] == str(job.folder / "in" / "member")
    assert config.values["rows_per_epoch"] == 1_000_000
    assert config.inputs[0].values["missing"] == "bad"


def test_the_page_names_every_key(request) -> None:
    page = (request.config.rootpath / "docs" / "concepts" / "pipeline.md").read_text()
    sections = [PIPELINE, *INPUT.values(), *OUTPUT.values()]
    missing = {key for section in sections for key in section if f"`{key}`" not in page}
    assert missing == set()


def test_settings_of_spark_by_their_full_names(job) -> None:
    text = f"""{GOOD}
[spark]
master = "local[2]"
jars.packages = "a:b:1"
sql.shuffle.partitions = 4
ui.enabled = false
"sql.catalog.lake" = "org.example.Lake"
"sql.catalog.lake.warehouse" = "w"
"""
    job.toml.write_text(text)
    assert read_config(job.toml).spark == {
        "spark.master": "local[2]",
        "spark.jars.packages": "a:b:1",
        "spark.sql.shuffle.partitions": "4",
        "spark.ui.enabled": "false",
        "spark.sql.catalog.lake": "org.example.Lake",
        "spark.sql.catalog.lake.warehouse": "w",
    }
    said = refused(job, f"{GOOD}\n[spark]\njars.packages = ['a:b:1']")
    assert said.startswith("[spark] spark.jars.packages = ['a:b:1'] is not valid; it takes text")


KAFKA = 'source = "kafka"\nservers = "a:1"\ntopic = "t"\n'


def test_options_are_a_table_of_texts_numbers_and_truths(job) -> None:
    def with_kafka(options: str) -> str:
        return GOOD.replace('source = "files"\npath = "in/member"', f"{KAFKA}options = {options}")

    said = refused(job, with_kafka('["acks"]'))
    assert said.startswith("[input.member] options = ['acks'] is not valid; it takes a table of")
    assert "is not valid" in refused(job, with_kafka("{ acks = 1.5 }"))
    job.toml.write_text(with_kafka('{ security.protocol = "SSL", retries = 3, "a.b" = true }'))
    (one,) = read_config(job.toml).inputs
    assert one.values["options"] == {"security.protocol": "SSL", "retries": "3", "a.b": "true"}


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("", "there is nothing to read; it takes one of table, query and format"),
        ('table = "t"\nquery = "select 1"', "table and query exclude each other; it takes one of"),
        ('format = "jdbc"', 'mode = "changes" reads the change feed of a table: say table ='),
        ('query = "select 1"\nmode = "stream"', 'query cannot be read with mode = "stream"; it'),
        ('table = "t"\nmode = "stream"\npath = "p"', "path says nothing with table; it needs for"),
        (
            'query = "select 1"\nmode = "snapshot"\noptions = { a = 1 }',
            "options say nothing with query; they need table or format",
        ),
        (
            'format = "rate"\nmode = "stream"\nversion = "at"\nlate = "bad"',
            "late says nothing without key: rows of a stream come in no order; say key and",
        ),
        ('format = "rate"\nmode = "stream"\nkey = "who"', "key needs sequence_by: rows of a"),
        ('table = "t"\nsign = "op"', 'sign says nothing with mode = "changes"; leave it out'),
        ('table = "t"\nmode = "snapshot"\nkey = "who"', 'key says nothing with mode = "snap'),
    ],
)
def test_what_spark_is_to_read_is_said_once_and_fits(job, section, said) -> None:
    text = GOOD.replace('source = "files"\npath = "in/member"', f'source = "spark"\n{section}')
    assert f"[input.member] {said}" in refused(job, text)


def test_all_that_is_wrong_is_told_at_once(job) -> None:
    wrong = """
        [pipeline]
        program = "access.dl"
        fsync = "often"
        [inputs]
        [input.membr]
        source = "files"
        path = "in/member"
        [input.granted]
        source = "files"
        mdoe = "rows"
        format = "xml"
        [output.can]
        path = "out"
        mode = "all"
        sink = "csv"
        [output.stands]
    """
    said = refused(job, wrong).split(f"error[DF661]: {job.toml}: ")
    assert [line.split(";")[0].strip() for line in said] == [
        "unknown section [inputs]",
        '[pipeline] fsync = "often" is not valid',
        "[pipeline] has no 'state'",
        "[input.granted] unknown key 'mdoe'",
        '[input.granted] format = "xml" is not valid',
        "[input.granted] has no 'path'",
        "[output.can] sink = 'csv' is not valid",
        "[output.stands] has no 'path'",
    ]
    told = refused(job, wrong.replace('fsync = "often"', 'state = "s"'))
    assert "[input.membr] the program has no relation 'membr'" in told
    (job.folder / "access.dl").write_text(".decl member(who: sybol)\n.input membr\n")
    job.toml.write_text(GOOD.replace("path", "pth"))
    with pytest.raises(ProgramError) as error:
        read_config(job.toml)
    assert [one.code for one in error.value.diagnostics] == ["DF113", "DF114"]
    assert str(error.value).count(" unknown key 'pth'") == 2
