"""What is closed at the end of a `with` block."""

from __future__ import annotations

from typing import TypeVar

Self = TypeVar("Self")  # typing has it from Python 3.11 on


class Closing:
    """A context manager whose `close` frees what it holds."""

    def close(self) -> None:
        """Free it; may be called again."""

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
