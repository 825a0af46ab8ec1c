"""The C sources of the bench: what is unpacked, with any Python that the project admits."""

import io
import tarfile

import pytest
from bench.csources import SetupError, unpack_folder


def test_only_the_files_of_the_folder_are_unpacked_and_only_below_the_target(tmp_path, monkeypatch):
    archive = tmp_path / "sdist.tar.gz"
    files = {
        "p-1/setup.py": b"no",
        "p-1/utils/fake/stdio.h": b"one",
        "p-1/utils/fake/sys/types.h": b"two",
        "p-1/utils/fake/../../../escaped.h": b"out",
        "../fake/../outside.h": b"out",
    }
    with tarfile.open(archive, "w:gz") as made:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            made.addfile(member, io.BytesIO(data))
        link = tarfile.TarInfo("p-1/utils/fake/link.h")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        made.addfile(link)
    # Python 3.11.0 to 3.11.3 have no extraction filters
    monkeypatch.delattr(tarfile.TarFile, "extractall")
    target = tmp_path / "in" / "fake"
    unpack_folder(archive, "fake", target)
    found = {str(p.relative_to(tmp_path)): p.read_bytes() for p in tmp_path.rglob("*.h")}
    assert found == {"in/fake/stdio.h": b"one", "in/fake/sys/types.h": b"two"}
    with pytest.raises(SetupError, match=r"sdist\.tar\.gz has no folder other"):
        unpack_folder(archive, "other", target)
