"""Pins: blocks that are kept until a time, whatever else links them.

    u/<universe>/pins/<id> = {blocks: [Link], until_ns, who, why}
    pins/<universe>        = counter of these rows

A pin is for what needs blocks for a while and has no row of its own: an export, a reader, a fork under way,
a person. One that expired keeps nothing, and goes with the next collection.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from cellule.errors import CelluleError, Conflict, Corrupted, Rejected, Unavailable
from cellule.host.limits import ATTEMPTS_MAX, PIN_BLOCKS_MAX, PIN_S_MAX, PINS_MAX
from cellule.host.own.counted_rows import clear_counted, sound_rows
from cellule.sources import Clock, Entropy, uuid7
from cellule.store import keys
from cellule.store.cas import Cas
from cellule.store.engine import Batch, Engine
from cellule.values.cbor import decode, encode
from cellule.values.cid import Cid
from cellule.values.link import Link, Value


@dataclass(frozen=True, slots=True)
class Pin:
    """Blocks that are kept until a time."""

    id: UUID
    cids: tuple[Cid, ...]
    until_ns: int
    who: str
    why: str

    def row(self) -> bytes:
        """As the store holds it."""
        blocks: list[Value] = [Link(cid) for cid in self.cids]
        return encode({"blocks": blocks, "until_ns": self.until_ns, "who": self.who, "why": self.why})

    @classmethod
    def of_row(cls, ident: UUID, stored: bytes) -> Pin:
        """Read a stored row."""
        try:
            row: Any = decode(stored)
            blocks = tuple(each.cid for each in row["blocks"])
            return cls(ident, blocks, row["until_ns"], row["who"], row["why"])
        except (CelluleError, LookupError, TypeError, AttributeError) as error:
            raise Corrupted(
                "host.pin_damaged", "the pin {id} cannot be read: {why}", id=ident, why=error,
                hint="Run `cellule check`, and restore a backup. Nothing is collected until then.",
            ) from error  # fmt: skip


async def stored_pins(engine: Engine, universe: UUID) -> list[Pin]:
    """All pins of a universe, oldest first; `Corrupted` where one is hidden or damaged."""
    count = keys.row_count("pins", universe)
    rows = await sound_rows(engine, keys.pin_range(universe), count, f"pins of universe {universe}")
    return [Pin.of_row(UUID(bytes=key[-16:]), value) for key, value in rows]


class Pins:
    """The pins of one universe."""

    def __init__(self, engine: Engine, cas: Cas, clock: Clock, entropy: Entropy) -> None:
        self._engine = engine
        self._cas = cas
        self._count = keys.row_count("pins", cas.universe)
        self._clock = clock
        self._entropy = entropy

    async def add(
        self, cids: Sequence[Cid], seconds: float, *, who: str, why: str, since: int | None = None
    ) -> Pin:
        """Keep blocks that are there for a while; `Rejected` (`cas.not_found`) if one is not.

        What they link is kept too if something else keeps it now, or if it was put after `generation()`
        was `since`.
        """
        if not 0 < seconds <= PIN_S_MAX:
            raise Rejected(
                "host.pin_time", "a pin lasts more than 0 and at most {most} seconds, not {seconds:g}",
                most=PIN_S_MAX, seconds=seconds, hint="Pin it again before it ends.",
            )  # fmt: skip
        if not 1 <= len(cids) <= PIN_BLOCKS_MAX:
            raise Rejected(
                "host.pin_blocks", "a pin keeps 1 to {most} blocks and what they link, not {count}",
                most=PIN_BLOCKS_MAX, count=len(cids),
            )  # fmt: skip
        if len(await self.all()) >= PINS_MAX:
            raise Rejected(
                "host.pins_max", "the universe has {most} pins already", most=PINS_MAX,
                hint="Remove some: cellule gc unpin ID. Those that expired go with a collection.",
            )  # fmt: skip
        now_ns = self._clock.now_ns()
        pin = Pin(uuid7(now_ns, self._entropy.bytes(10)), tuple(cids), now_ns + int(seconds * 1e9), who, why)
        key = keys.pin(self._cas.universe, pin.id)
        for _ in range(ATTEMPTS_MAX):
            parts = await self._cas.roots(pin.cids)
            if since is not None:
                await self._cas.witness(since)
            try:
                await self._engine.commit(parts.into(Batch(set={key: pin.row()}, add={self._count: 1})))
            except Conflict:
                continue
            return pin
        raise Unavailable("host.pin_contended", "collections began again and again while it was pinned")

    async def all(self) -> list[Pin]:
        """All pins, oldest first; those that expired and were not collected, too."""
        return await stored_pins(self._engine, self._cas.universe)

    async def remove(self, ident: UUID) -> None:
        """Let go of what a pin keeps; `Rejected` where there is none."""
        if not await clear_counted(self._engine, keys.pin(self._cas.universe, ident), self._count):
            await self.all()  # one that is hidden is damage, and not one that is not there
            raise Rejected("host.no_pin", "there is no pin {id}", id=ident, hint="List them: cellule gc pins")

    async def remove_expired(self, now_ns: int) -> int:
        """Remove the pins that expired."""
        expired = [pin for pin in await self.all() if pin.until_ns <= now_ns]
        for pin in expired:
            await clear_counted(self._engine, keys.pin(self._cas.universe, pin.id), self._count)
        return len(expired)

    @asynccontextmanager
    async def held(
        self, cids: Sequence[Cid], seconds: float, why: str, since: int | None = None
    ) -> AsyncIterator[Pin]:
        """Keep blocks while what is inside runs, and no longer than so many seconds."""
        pin = await self.add(cids, seconds, who="cellule", why=why, since=since)
        try:
            yield pin
        finally:
            with suppress(Unavailable, Rejected):  # it expires
                await self.remove(pin.id)
