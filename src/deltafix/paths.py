"""Paths of the local disk, told from URLs, and the texts that are there.

Invariant: a URL never becomes the name of a folder. Whoever takes a path from a user and opens no
URL asks `local_path`; `store.folder.folder_at` opens the URLs that are known.
"""

from __future__ import annotations

import re
from pathlib import Path

from deltafix.errors import SourceError

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
"""How a URL begins; one letter is a drive."""


def local_path(where: str | Path) -> Path:
    """A path of the local disk; `file://` is one. Raises SourceError for any other URL.

    A URL that went through `Path` has lost a slash, and is no folder of that name either.
    """
    text = str(where)
    url = _URL.match(text)
    if url is None:
        return Path(where)
    if url[1] == "file" and text.startswith("file:///"):
        return Path(text.removeprefix("file://"))
    message = f"{text} is a URL, and this takes a path of the local disk; copy what it names there"
    raise SourceError(message, value=text)


def read_text(file: Path) -> str:
    """The text of a file that a user names. Raises SourceError."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        said = error.strerror if isinstance(error, OSError) else error  # its own has the path again
        raise SourceError(f"cannot read {file}: {said}", value=str(file)) from None


def near(where: str | Path) -> str:
    """A path as one writes it here: from the current folder, if it is inside; a URL as it is."""
    path, here = Path(where), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(where)
