"""Objects in a dictionary: for tests, simulation, and as the oracle of the conformance suite.

Deterministic and without threads. Nothing survives the process.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import AsyncGenerator

from cellule.store.object_store import (
    WHOLE_BYTES_MAX,
    ObjectInfo,
    ObjectPage,
    Source,
    check_list,
    check_name,
    closed,
    not_found,
    too_large,
)
from cellule.store.resource import Resource

PIECE_BYTES = 65_536


class MemoryObjects(Resource):
    """An object store in memory."""

    remote = False

    def __init__(self) -> None:
        self._bodies: dict[str, bytes] = {}
        self._names: list[str] = []
        self._closed = False

    async def put(self, name: str, data: Source) -> None:
        """Store a body; see the contract."""
        check_name(name)
        self._check_open()
        body = bytes(data) if isinstance(data, bytes) else b"".join([piece async for piece in data])
        if name not in self._bodies:
            insort(self._names, name)
        self._bodies[name] = body

    async def get(self, name: str, *, bytes_max: int = WHOLE_BYTES_MAX) -> bytes:
        """Return a whole body; see the contract."""
        body = self._body(name)
        if len(body) > bytes_max:
            raise too_large(name, len(body), bytes_max)
        return body

    async def stream(self, name: str) -> AsyncGenerator[bytes, None]:
        """Yield a body in pieces; see the contract."""
        body = self._body(name)
        for start in range(0, len(body), PIECE_BYTES):
            yield body[start : start + PIECE_BYTES]

    async def size(self, name: str) -> int:
        """Return the size of a body; see the contract."""
        return len(self._body(name))

    async def delete(self, name: str) -> None:
        """Remove a body; see the contract."""
        check_name(name)
        self._check_open()
        if self._bodies.pop(name, None) is not None:
            del self._names[bisect_left(self._names, name)]

    async def list(self, prefix: str, *, limit: int, start_after: str = "") -> ObjectPage:
        """Return a page of names; see the contract."""
        check_list(prefix, limit)
        self._check_open()
        first = max(bisect_left(self._names, prefix), bisect_right(self._names, start_after))
        found = [name for name in self._names[first : first + limit + 1] if name.startswith(prefix)]
        return ObjectPage(
            [ObjectInfo(name, len(self._bodies[name])) for name in found[:limit]], len(found) > limit
        )

    async def close(self) -> None:
        """Refuse further calls."""
        self._closed = True

    def _body(self, name: str) -> bytes:
        check_name(name)
        self._check_open()
        body = self._bodies.get(name)
        if body is None:
            raise not_found(name)
        return body

    def _check_open(self) -> None:
        if self._closed:
            raise closed()
