"""A writer whose every batch can be accounted for, whatever the disk or the process did meanwhile.

A `Ledger` commits batches that each build on the one before: each expects the head and writes several rows
with the same token; every other one has a counter, a queue item and sometimes a cleared range too. It notes
what it was told. Later `verify` reads everything back and replays the history that the stored head names: all
that was acknowledged must be in it, nothing that was refused may be, and every row must be exactly what that
history leaves.
Breaking disks and killing processes do not live here.
"""

from __future__ import annotations

from hashlib import sha256
from random import Random
from uuid import UUID

from cellule.errors import Conflict, OutcomeUnknown, Unavailable
from cellule.store import keys
from cellule.store.engine import Batch, Engine
from cellule.store.engines.memory import MemoryDisk
from cellule.testing.conformance.engine_space import Space, dump

PARTS = 3
SLOTS = 4
CLEAR_EVERY = 7


class Ledger:
    """One writer's batches, numbered from 1, and what it was told about each.

    Batches depend on nothing but `number`, so another process can name them without having seen them.
    """

    def __init__(self, number: int = 0) -> None:
        digest = sha256(b"ledger %d" % number).digest()
        self.space = Space(UUID(bytes=digest[:16]))
        self.parents: dict[int, int] = {}
        self.acknowledged: set[int] = set()
        self.unknown: set[int] = set()
        self.refused: set[int] = set()
        self._number = number
        self._head = 0
        self._next = 1

    def batch(self, n: int, parent: int) -> Batch:
        """Return batch `n`, to be applied on top of batch `parent` (0 is the empty store)."""
        rows = {self._part(n % SLOTS, part): self.value(n, part) for part in range(PARTS)}
        rows[keys.journal(self.space.universe, self.space.world, n)] = self.value(n, PARTS)
        rows[self._head_key()] = b"%d" % n
        expect = {self._head_key(): b"%d" % parent if parent else None}
        if n % 2:
            return Batch(expect=expect, set=rows)
        return Batch(
            expect=expect,
            set=rows,
            clear=[self._part((n + 1) % SLOTS, 0)] if n % 5 == 0 else [],
            clear_range=[self.space.queue_range()] if n % CLEAR_EVERY == 0 else [],
            add={self.space.counter(): n},
            ordered=[(self.space.queue(), b"%d" % n)],
        )

    def value(self, n: int, part: int) -> bytes:
        """Return what batch `n` writes into its `part`: its number and some bytes, now and then many."""
        chance = Random(f"{self._number} {n} {part}")
        return b"%d:" % n + chance.randbytes(chance.choice((0, 10, 200, 200, 9_000)))

    async def resume(self, engine: Engine) -> int:
        """Go on from what is stored; return the number of the last batch found there."""
        self._head = await self.head(engine)
        self._next = max(self._next, self._head + 1)
        return self._head

    async def head(self, engine: Engine) -> int:
        """Return the number of the last batch in the store."""
        [stored] = await engine.read([self._head_key()])
        return int(stored or b"0")

    async def write(self, engine: Engine) -> bool:
        """Commit one more batch, note what is said, and tell whether it was acknowledged."""
        n, parent = self._next, self._head
        self._next += 1
        self.parents[n] = parent
        try:
            await engine.commit(self.batch(n, parent))
        except OutcomeUnknown:
            self.unknown.add(n)
        except (Unavailable, Conflict):
            self.refused.add(n)
        else:
            self.acknowledged.add(n)
            self._head = n
            return True
        return False

    async def verify(self, engine: Engine) -> int:
        """Check the whole store against what was told; return the number of the last batch in it."""
        head = await self.head(engine)
        history = self._history(head)
        missing = self.acknowledged - set(history)
        assert not missing, f"acknowledged batches {sorted(missing)} are gone; the store ends with {head}"
        applied = self.refused & set(history)
        assert not applied, f"refused batches {sorted(applied)} were applied"
        expected = self._numbered(self._replayed(history))
        found = self._numbered(await dump(engine, self.space))
        wrong = [key.hex() for key in expected.keys() | found.keys() if expected.get(key) != found.get(key)]
        assert not wrong, (
            f"after batch {head}, {len(wrong)} rows are not what its history leaves: {wrong[:5]}"
        )
        return head

    async def glance(self, engine: Engine) -> int:
        """Check one snapshot of a store whose writer has met no failure; return its last batch's number."""
        places = [(slot, part) for slot in range(SLOTS) for part in range(1, PARTS)]
        head, *found = await engine.read([self._head_key(), *(self._part(*place) for place in places)])
        last = int(head or b"0")
        for (slot, part), value in zip(places, found, strict=True):
            n = last - (last - slot) % SLOTS
            expected = self.value(n, part) if n > 0 else None
            assert value == expected, f"slot {slot} part {part} is not of batch {n} while the head is {last}"
        return last

    def _history(self, head: int) -> list[int]:
        history = []
        while head:
            history.append(head)
            head = self.parents.get(head, head - 1)
        return history[::-1]

    def _replayed(self, history: list[int]) -> dict[bytes, bytes]:
        disk = MemoryDisk()
        parent = 0
        for n in history:
            disk.apply(self.batch(n, parent))
            parent = n
        return disk.dump()

    def _numbered(self, rows: dict[bytes, bytes]) -> dict[bytes, bytes]:
        """Name queue items by their place: their stamps depend on what other writers did meanwhile."""
        prefix = self.space.queue()
        items = [rows.pop(key) for key in sorted(rows) if key.startswith(prefix)]
        return rows | {prefix + b"%d" % place: item for place, item in enumerate(items)}

    def _head_key(self) -> bytes:
        return self.space.raw(b"head")

    def _part(self, slot: int, part: int) -> bytes:
        return self.space.raw(b"slot/%d/%d" % (slot, part))
