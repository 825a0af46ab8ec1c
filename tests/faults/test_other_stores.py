"""States and pipelines in Google's and Azure's object stores: what holds of S3 holds there.

Tests of `test_objects_faults` run here again, each against both; `servers.stores` has the stores.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.faults.test_objects_faults import (  # noqa: F401  they run here, on these stores
    finish,
    keeper,
    newest_goes_on,
    on_store,
    records,
    run_script,
    test_a_small_epoch_is_one_request,
    test_a_state_opens_with_what_was_committed,
    test_a_stop_at_any_request_leaves_the_last_epoch_or_the_one_at_work,
    test_the_newest_opener_has_the_state_and_the_other_is_told,
    test_writers_that_race_for_the_state_lose_nothing_acknowledged,
)
from tests.faults.test_pipeline_faults import prepare
from tests.servers.stores import AZURITE, Azurite, Gcs
from tests.support import pipelines

from deltafix.errors import SourceError
from deltafix.store.folder import ReplacedError, folder_at

Store = Gcs | Azurite


@pytest.fixture(scope="module", params=["gs", "az"])
def _running(request: pytest.FixtureRequest) -> Iterator[Store]:
    if request.param == "az" and not AZURITE.exists():
        pytest.skip("no Azurite: make build/azurite/.ready")
    with Gcs() if request.param == "gs" else Azurite() as server:
        yield server


@pytest.fixture
def store(_running: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    for name in ("AWS_ENDPOINT_URL", "GOOGLE_SERVICE_ACCOUNT", "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in _running.settings.items():
        monkeypatch.setenv(name, value)
    return _running


def urls(store: Store) -> list[str]:
    if isinstance(store, Gcs):
        return [store.url()]
    return [store.url(scheme) for scheme in ("az", "abfs", "abfss")]


def test_a_folder_keeps_the_contract_by_each_scheme(store) -> None:
    for url in urls(store):
        folder = folder_at(url)
        assert (folder.names(), folder.folders(), folder.look("log")) == ([], [], None)
        assert folder.write("a b%2Fé", [b"he", b"llo"]) == 5
        assert (folder.read("a b%2Fé"), folder.size("a b%2Fé")) == (b"hello", 5)
        with pytest.raises(FileNotFoundError):
            folder.read("nothing")
        first = folder.commit("log", [b"1"], None)
        with pytest.raises(ReplacedError):
            folder.commit("log", [b"2"], None)
        second = folder.commit("log", [b"2"], first)
        for seen in (first, None):
            with pytest.raises(ReplacedError):
                folder.commit("log", [b"3"], seen)
        assert folder.look("log") == (b"2", second)
        with folder.open("log") as stream:
            assert stream.read() == b"2"
        (folder / "x" / "y").write("b", [b"1"])
        assert (folder.names(), folder.folders()) == (["a b%2Fé", "log"], ["x"])
        folder.remove_folder("x")
        for _ in range(2):
            folder.remove("log")
        assert (folder.names(), folder.folders()) == (["a b%2Fé"], [])


def test_a_pipeline_with_state_and_outputs_there(keeper, store, tmp_path) -> None:  # noqa: F811
    for number, url in enumerate(urls(store)):
        job = on_store(prepare(tmp_path / str(number)), url)
        finish(job)
        job.say("member", ("+", ("zed", "a")))
        finish(job)


def test_of_two_pipelines_the_newest_goes_on(store, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(pipelines, "KEEPER", "driver")
    newest_goes_on(on_store(prepare(tmp_path), store.url()))


def test_a_store_that_is_not_there_is_told(store, monkeypatch) -> None:
    with pytest.raises((SourceError, OSError), match="elsewhere"):
        folder_at(urls(store)[0].replace("bucket", "elsewhere")).read("a")
