"""The keys of erasable cells, as far as they are in memory, and how sealed values are read by them.

    id          = world (16 bytes), first 16 bytes of sha-256([module, key])
    row         = {key}, or {erased} where it was destroyed, or {away} where an import did not bring it

A world seals with keys that it made itself. A fork adds to its own those that its ancestors made for a cell
that was there at the fork, so that destroying one of theirs erases what the fork wrote of that cell, too, and
destroying its own erases nothing of theirs. After its key was destroyed a cell gets another one: what was
sealed with one whose mark is not that of the row is erased for good.

Keys come from the host and go back to it with the beat that made or destroyed them (`Beat.keys`); nothing
else of a world holds one. Where a fork's ancestors are concerned, each beat asks anew.

Rejected: keys that derive from the journal. Whoever has the journal would have them, too.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, Final, NamedTuple

from cellule.errors import CelluleError, Corrupted, Gone, ensure
from cellule.kernel.limits import KEYS_HELD_MAX
from cellule.kernel.need import Need
from cellule.values.cbor import decode, encode
from cellule.values.cipher import KEY_BYTES, mark_of, nonce_for, open_bytes, seal_bytes
from cellule.values.sealed_value import (
    KeyReference,
    Sealed,
    is_sealed_text,
    links_within,
    parts_of,
    sealed_of,
    wrap,
)

ERASED: Final = "kernel.erased"
KEY_MISSING: Final = "kernel.key_missing"
UNREADABLE: Final = (ERASED, KEY_MISSING)
"""The codes of `Gone` where a sealed value cannot be read."""


@dataclass(frozen=True)
class KeyRow:
    """A row of the store: a key, or that it was destroyed, or is elsewhere; nothing where there was none."""

    key: bytes | None = None
    erased: bool = False
    away: bool = False

    @property
    def is_free(self) -> bool:
        """Tell whether a key that is brought may take the place."""
        return self.key is None and not self.erased

    @cached_property
    def mark(self) -> bytes:
        """By what its key is told from others that the row had or will have; empty without a key."""
        return b"" if self.key is None else mark_of(self.key)

    def data(self) -> bytes:
        """The bytes of the row."""
        if self.key is not None:
            return encode({"key": self.key})
        return encode({"away": True} if self.away else {"erased": True})


NO_ROW: Final = KeyRow()


def parse_row(data: bytes | None) -> KeyRow:
    """The row that these bytes say; one that is not there says nothing yet."""
    if data is None:
        return KeyRow()
    try:
        found: Any = decode(data)
        row = KeyRow(**found)
        told = (row.erased is True, row.away is True)
        if told in _SAID if row.key is None else told == (False, False) and len(row.key) == KEY_BYTES:
            return row
        why: object = "its parts do not fit"
    except (CelluleError, TypeError) as error:
        why = error
    raise Corrupted("kernel.key_damaged", "a row of a key is damaged: {why}", why=why)


_SAID: Final = ((True, False), (False, True))


def key_id(world: bytes, base: str, key: bytes) -> bytes:
    """The id of the key that a world makes for a cell."""
    return world + sha256(encode([base, key])).digest()[:16]


def read_sealed(sealed: Sealed, rows: Mapping[bytes, KeyRow]) -> bytes:
    """What a sealed value hides; `Gone` where one of its keys is destroyed, or not to be had here."""
    found: list[bytes] = []
    for each in sealed.keys:
        row = rows.get(each.id, KeyRow())
        if row.key is not None and row.mark == each.mark:
            found.append(row.key)
        elif row.key is not None or row.erased:
            raise Gone(ERASED, "this was erased: its key was destroyed", hint="Nobody can read it any more.")
        else:
            raise Gone(
                KEY_MISSING, "the key {id} of a value is not here", id=each.id.hex(),
                hint="An export holds no keys. In a world of this store it is a loss: `cellule check` says.",
            )  # fmt: skip
    opened = open_bytes(found, sealed.nonce, sealed.ciphertext, sealed.bound)
    if opened is None:
        raise Corrupted("kernel.sealed_damaged", "a sealed value does not fit its keys: it is damaged")
    return opened


class KeyChanges(NamedTuple):
    """The rows that a beat made or destroyed, by their ids; `ring` hears when they are durable."""

    rows: Mapping[bytes, KeyRow]
    ring: KeyRing

    def saved(self) -> None:
        """The frame is durable, and so are they."""
        self.ring.saved(self.rows)


class KeyRing:
    """The rows in memory; `changed` are those that the beat under way made or destroyed.

    `draw` gives 32 bytes that nobody can guess. What is not in memory comes from `source`, where the store
    answers at once, else by `Need`.
    """

    def __init__(
        self, draw: Callable[[], bytes] | None = None, source: Callable[[bytes], KeyRow] | None = None
    ) -> None:
        self.in_use = False  # a manifest of the world had a module that asks for erasure
        self._draw = draw
        self._source = source
        self.world = b""
        self._rows: OrderedDict[bytes, KeyRow] = OrderedDict()
        self._foreign: dict[bytes, KeyRow] = {}
        self._unsaved: dict[bytes, KeyRow] = {}
        self.changed: dict[bytes, KeyRow] = {}

    @property
    def unsaved(self) -> Mapping[bytes, KeyRow]:
        """The rows that were changed, and are not durable."""
        return self._unsaved

    def allow(self, *, erasable: bool) -> None:
        """A manifest begins: from the first with modules that ask for erasure on, values may be sealed."""
        self.in_use = self.in_use or erasable

    def begin(self, world: bytes) -> None:
        """A beat begins; what other worlds may have destroyed meanwhile is asked for anew."""
        self.world = world
        self._foreign.clear()
        self.changed = {}

    def end(self, *, is_written: bool) -> KeyChanges | None:
        """The beat ends; what it changed goes with its frame, and counts for nothing without one."""
        changed, self.changed = self.changed, {}
        if not is_written or not changed:
            return None
        self._unsaved.update(changed)
        return KeyChanges(changed, self)

    def saved(self, rows: Mapping[bytes, KeyRow]) -> None:
        """These rows are durable."""
        for each, row in rows.items():
            if self._unsaved.get(each) == row:
                del self._unsaved[each]
                self._keep(each, row)

    def add(self, rows: Mapping[bytes, KeyRow]) -> None:
        """Take rows read from the store."""
        for each, row in rows.items():
            if each.startswith(self.world):
                self._keep(each, row)
            else:
                self._foreign[each] = row

    def find(self, ids: Iterable[bytes]) -> Generator[Need, None, dict[bytes, KeyRow]]:
        """The rows of these ids; one that nobody could bring is left out."""
        wanted = tuple(dict.fromkeys(ids))
        missing = tuple(each for each in wanted if self._row(each) is None)
        if missing and self._source is not None:
            self.add({each: self._source(each) for each in missing})
        elif missing:
            yield Need((), keys=missing)
        found = {each: self._row(each) for each in wanted}
        return {each: row for each, row in found.items() if row is not None}

    def use(self, each: bytes) -> KeyReference:
        """The key of a row that was found and is this world's own; made where there is none."""
        row = self._row(each)
        ensure(row is not None, "kernel.key_unread", "a key is used before it was looked for")
        assert row is not None
        if row.key is None:
            ensure(self._draw is not None, "kernel.key_source", "this world was given no source of keys")
            assert self._draw is not None
            row = self.changed[each] = KeyRow(self._draw())
        assert row.key is not None
        return KeyReference(each, row.mark)

    def destroy(self, each: bytes) -> None:
        """Destroy the key of a row that was found; what was sealed with it is erased."""
        row = self._row(each)
        if row is not None and (row.key is not None or row.away):
            self.changed[each] = KeyRow(erased=True)

    def seal(self, keys: Sequence[KeyReference], place: bytes, data: bytes, *, again: bool = False) -> bytes:
        """The sealed value at a place; its keys were found before. The same `again` gives the same bytes."""
        found = [row.key for each in keys if (row := self._row(each.id)) is not None and row.key is not None]
        ensure(len(found) == len(keys), "kernel.key_unread", "a key is used before it was looked for")
        nonce = nonce_for(found, place, data if again else None)
        sealed = Sealed(tuple(keys), nonce, b"", links_within(data))
        return wrap(sealed._replace(ciphertext=seal_bytes(found, nonce, data, sealed.bound)))

    def opened(self, data: bytes) -> Generator[Need, None, bytes]:
        """Bytes as they are, or what they hide where they are a sealed value; `Gone` where that is erased."""
        sealed = parts_of(data)
        if sealed is None:
            return data
        rows = yield from self.find(sealed.key_ids)
        return read_sealed(sealed, rows)

    def opened_text(self, text: str) -> Generator[Need, None, str]:
        """The same for a text."""
        if not is_sealed_text(text):
            return text
        told: Any = decode((yield from self.opened(sealed_of(text))))
        return str(told)

    def _row(self, each: bytes) -> KeyRow | None:
        for rows in (self.changed, self._unsaved, self._foreign):
            if each in rows:
                return rows[each]
        return self._rows.get(each)

    def _keep(self, each: bytes, row: KeyRow) -> None:
        self._rows[each] = row
        self._rows.move_to_end(each)
        while len(self._rows) > KEYS_HELD_MAX:
            self._rows.popitem(last=False)
