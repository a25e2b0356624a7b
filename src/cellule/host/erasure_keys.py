"""The keys of erasable cells in the store: read for a world at work, and for those who read what it wrote.

A row changes in the batch of the frame that makes or destroys the key, and nowhere else, so the journal and
the keys never contradict each other. Rows are not kept here: what was destroyed is unreadable from that
moment on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final
from uuid import UUID

from cellule.errors import Corrupted, Gone
from cellule.kernel.key_ring import NO_ROW, KeyRing, KeyRow, parse_row, read_sealed
from cellule.kernel.need import Need
from cellule.kernel.state.log_state import joined, one
from cellule.store import keys
from cellule.store.engine import Engine
from cellule.store.tuples import prefix_range
from cellule.values.cbor import decode_trusted, encode
from cellule.values.sealed_value import HEAD, is_sealed, is_sealed_text, parts_of, sealed_of
from cellule.values.writer import LIST

ERASED_TEXT: Final = "(erased)"


class ErasureKeys:
    """The keys of one universe."""

    def __init__(self, engine: Engine, universe: UUID, *, opens: bool = True) -> None:
        self._engine = engine
        self._universe = universe
        self._opens = opens  # without it, what is sealed stays so for whoever reads by this

    async def rows(self, ids: Iterable[bytes]) -> dict[bytes, KeyRow]:
        """What the store has of these ids; one without a row never had a key."""
        wanted = list(dict.fromkeys(ids))
        if not self._opens:
            return dict.fromkeys(wanted, KeyRow())
        found = await self._engine.read([keys.erasure_key(self._universe, each) for each in wanted])
        return {each: parse_row(data) for each, data in zip(wanted, found, strict=True)}

    async def feed(self, ring: KeyRing, need: Need) -> None:
        """Bring what a world at work asks for."""
        if need.keys:
            ring.add(await self.rows(need.keys))

    async def opened(self, data: bytes, made: Mapping[bytes, KeyRow] | None = None) -> bytes:
        """What a sealed value hides; it stays sealed where nobody can read it.

        `made` are rows that are not in the store yet.
        """
        sealed = parts_of(data)
        if sealed is None:
            return data
        try:
            return read_sealed(sealed, {**await self.rows(sealed.key_ids), **(made or {})})
        except Gone:
            return data

    async def check_erased(self, world: UUID, data: bytes) -> None:
        """Prove that what nobody can read was erased, and did not lose the row of a key of this world."""
        sealed = parts_of(data)
        own = [each for each in sealed.key_ids if each.startswith(world.bytes)] if sealed is not None else []
        for each, row in (await self.rows(own)).items():
            if row == NO_ROW and self._opens:
                raise Corrupted(
                    "host.key_missing", "world {world}: the row of erasure key {id} is missing",
                    world=world, id=each,
                    hint="Nobody erased it. Restore the row from a backup: what it sealed cannot be read.",
                )  # fmt: skip

    async def opened_text(self, text: str) -> str:
        """The same for a text; where nobody can read it, it says so."""
        if not is_sealed_text(text):
            return text
        data = await self.opened(sealed_of(text))
        return ERASED_TEXT if is_sealed(data) else str(decode_trusted(data))

    async def opened_state(self, data: bytes, made: Mapping[bytes, KeyRow] | None = None) -> bytes:
        """The same for a state, also of a log; of that, where a part is erased, the first such part alone."""
        if is_sealed(data) or HEAD not in data or data[0] & 0xE0 != LIST:
            return await self.opened(data, made)
        entries: Any = decode_trusted(data)
        found = []
        for entry in entries:
            each = encode(entry)
            if not is_sealed(each):
                found.append(one(each))
                continue
            opened = await self.opened(each, made)
            if is_sealed(opened):
                return opened
            found.append(opened)
        return joined(found)


def key_range(universe: UUID, world: UUID) -> tuple[bytes, bytes]:
    """The rows of all keys that a world has made: their ids begin with its own."""
    return prefix_range(keys.erasure_key(universe, world.bytes)[:-1])


def key_rows(universe: UUID, changed: Mapping[bytes, KeyRow]) -> dict[bytes, bytes]:
    """The rows that a frame's batch writes for the keys that its beat made or destroyed."""
    return {keys.erasure_key(universe, each): row.data() for each, row in changed.items()}
