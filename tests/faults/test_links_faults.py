"""What stands where a pipeline writes: links, folders; and folders that the power could take.

Invariant asserted: an error of deltafix's own, or success; a file that a link leads to stays as it
is; whatever an epoch stands on has its name on the disk when the epoch is acknowledged.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.support.pipelines import Job

from deltafix.errors import DeltafixError, SinkError, StateError
from deltafix.pipeline.check import check
from deltafix.pipeline.config import read_config
from deltafix.pipeline.manifest import read_view
from deltafix.pipeline.status import status
from deltafix.store import disk

DELTA = "delta-000000000002.parquet"
PLACES = [
    *(("out/can", name) for name in ("manifest.json", "manifest.json.new", DELTA, "other")),
    *(("state", name) for name in ("epochs.jsonl", "log", "log.new", "snapshot", "lock")),
    ("state/quarantine", "member-000000000003.jsonl"),
    ("out", "can"),
]


def use(job: Job) -> list[BaseException]:
    """Everything that reads or writes; what it raises of deltafix's own."""

    def run() -> None:
        with job.open() as pipeline:
            list(pipeline.drain())
            pipeline.compact()
        read_view(job.folder / "out" / "can")

    raised: list[BaseException] = []
    config = read_config(job.toml)
    for step in (lambda: list(check(config)), run, lambda: list(status(config))):
        try:
            step()
        except DeltafixError as error:
            raised.append(error)
    return raised


@pytest.mark.parametrize("target", ["file", "folder", "itself", "nothing"])
@pytest.mark.parametrize(("where", "name"), PLACES, ids=["/".join(one) for one in PLACES])
def test_a_link_in_a_place_of_ours_is_refused_or_replaced(where, name, target, memory) -> None:
    for late in (False, True):
        job = Job(memory / f"job{late}", pipeline='bad_rows = "quarantine"')
        job.say("member", ("+", ("ada", "core")))
        job.say("grant", ("+", ("core", 1)))
        place = job.folder / where / name
        if late:
            with job.open() as pipeline:
                list(pipeline.drain())
            if place.is_dir():
                place.rename(memory / "moved")
            place.unlink(missing_ok=True)
        job.write("member", [("-", ("nobody", "core"))])
        outside = memory / f"outside{late}"
        (outside / "folder").mkdir(parents=True)
        (outside / "file").write_text("precious")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(place if target == "itself" else outside / target)
        use(job)  # raises nothing else
        assert (outside / "file").read_text() == "precious"
        assert place.name == "can" or not any((outside / "folder").iterdir())
        assert not (outside / "nothing").is_file()


def test_links_are_named_in_the_error(tmp_path) -> None:
    job = Job(tmp_path)
    with job.open() as pipeline:
        list(pipeline.drain())
    told = list(status(read_config(job.toml)))
    for place, error, said in (
        ("out/can/manifest.json", SinkError, "manifest.json: cannot be read: Too many levels"),
        ("state/epochs.jsonl", StateError, "epochs.jsonl is a link or a folder, and takes lines"),
    ):
        path = tmp_path / place
        moved = path.rename(path.with_suffix(".moved"))
        path.symlink_to(moved)
        with pytest.raises(error, match=said):
            list(status(read_config(job.toml)))
        path.unlink()
        moved.rename(path)
    assert list(status(read_config(job.toml))) == told


def test_new_folders_have_their_names_on_the_disk(tmp_path, monkeypatch) -> None:
    names: dict[Path, bool] = {}  # whether the name is on the disk
    made, synced = Path.mkdir, disk.sync_folder

    def mkdir(path: Path, *args: object, **options: object) -> None:
        if not path.exists():
            names[path] = False
        made(path, *args, **options)

    def sync(path: Path) -> None:
        names.update({one: True for one in names if one.parent == path})
        synced(path)

    job = Job(tmp_path / "job")
    text = job.toml.read_text().replace('"state"', '"a/b/state"').replace('"out/', '"c/d/')
    job.toml.write_text(text)
    job.say("member", ("+", ("ada", "core")))
    monkeypatch.setattr(Path, "mkdir", mkdir)
    monkeypatch.setattr(disk, "sync_folder", sync)
    with job.open() as pipeline:
        list(pipeline.drain())
    below = {os.path.relpath(path, job.folder) for path in names}
    assert {"a", "a/b", "a/b/state", "c", "c/d", "c/d/can", "c/d/stands"} <= below
    assert all(names.values()), names
