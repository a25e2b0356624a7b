"""Progress notes: what running attempts tell those who watch. Kept in memory, never in a journal.

An intent has notes while somebody watches it or an attempt has told something; the newest are kept for those
who begin to watch later. A stream ends when the intent is settled here. A slow reader loses the oldest notes,
never the attempt its pace.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Container

from cellule.host.outbox.limits import NOTES_KEPT, NOTES_WAITING_MAX


class _Reader:
    """One who watches an intent."""

    __slots__ = ("ended", "notes", "woken")

    def __init__(self, notes: deque[object]) -> None:
        self.notes: deque[object] = deque(notes, maxlen=NOTES_WAITING_MAX)
        self.woken = asyncio.Event()
        self.ended = False


class Notes:
    """The notes of a node's running intents; who tells something of others goes on behind its end."""

    def __init__(self, running: Container[bytes]) -> None:
        self._running = running
        self._newest: dict[bytes, deque[object]] = {}
        self._readers: dict[bytes, list[_Reader]] = {}

    def add(self, intent: bytes, note: object) -> None:
        """An attempt tells something."""
        if intent not in self._running:
            return
        self._newest.setdefault(intent, deque(maxlen=NOTES_KEPT)).append(note)
        for reader in self._readers.get(intent, ()):
            reader.notes.append(note)
            reader.woken.set()

    def newest(self, intent: bytes) -> list[object]:
        """The newest notes, oldest first."""
        return list(self._newest.get(intent, ()))

    def end(self, intent: bytes) -> None:
        """The intent is settled, or no longer performed here: its notes end."""
        self._newest.pop(intent, None)
        for reader in self._readers.get(intent, ()):
            reader.ended = True
            reader.woken.set()

    def end_all(self) -> None:
        """Nothing is performed here any more."""
        for intent in [*self._newest, *self._readers]:
            self.end(intent)

    async def follow(self, intent: bytes) -> AsyncIterator[object]:
        """The notes of an intent that is open here, from the newest kept ones on, until it is settled."""
        reader = _Reader(self._newest.get(intent, deque()))
        self._readers.setdefault(intent, []).append(reader)
        try:
            while True:
                while reader.notes:
                    yield reader.notes.popleft()
                if reader.ended:
                    return
                reader.woken.clear()
                await reader.woken.wait()
        finally:
            left = self._readers[intent]
            left.remove(reader)
            if not left:
                del self._readers[intent]
