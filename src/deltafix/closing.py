"""What is closed: by `close`, or by the end of a with-statement, however that ends."""

from __future__ import annotations

from typing import Self


class Closing:
    """Base of what holds something; subclasses say in `close` how they give it back."""

    __slots__ = ()

    def close(self) -> None:
        """Give back what is held. Idempotent."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
