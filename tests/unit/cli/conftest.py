"""The command line, called in this process: quick, and with its exit code."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from deltafix.cli.main import main


class Finished(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def deltafix(warm_kernel: None, capsys: pytest.CaptureFixture[str]) -> Callable[..., Finished]:
    def call(*arguments: object) -> Finished:
        with pytest.raises(SystemExit) as caught:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert isinstance(caught.value.code, int)
        return Finished(caught.value.code, captured.out, captured.err)

    return call
