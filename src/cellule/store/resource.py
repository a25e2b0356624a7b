"""What is open until it is closed: an engine or object store ends with its `async with`."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self


class Resource(Protocol):
    """Closed at the end of its block, however that ends."""

    async def close(self) -> None:
        """Release everything."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
