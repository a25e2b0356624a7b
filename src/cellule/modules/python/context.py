"""What a reducer may know beside its state and event: time, chance and ids, all derived from the journal.

The same step run again sees the same values, whoever runs it and when. Everything is made on demand: a
reducer that asks only for the time pays for nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from random import Random
from typing import Any, Final, Generic, Protocol, TypeVar
from uuid import UUID

from cellule.kernel.program import Context as KernelContext
from cellule.values.cbor import decode_trusted
from cellule.values.schema import types as t
from cellule.values.schema.registry import Schemas
from cellule.values.schema.types import Schema

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

KeyReader = Callable[[bytes], Any]


class Origin(Protocol):
    """What time, chance and key derive from."""

    @property
    def now_ns(self) -> int:
        """The time in nanoseconds since 1970."""

    @property
    def entropy(self) -> bytes:
        """Where chance begins."""

    @property
    def key(self) -> bytes:
        """The cell's key."""


K = TypeVar("K", bound=Origin)


class Moment(Generic[K]):
    """The part of a context that reducers and workflows have in common."""

    __slots__ = ("_chance", "_ids", "_kernel", "_read_key")

    def __init__(self, kernel: K, read_key: KeyReader) -> None:
        self._kernel = kernel
        self._read_key = read_key
        self._chance: Random | None = None
        self._ids = 0

    @property
    def now(self) -> datetime:
        """The time of this beat, in UTC, to the microsecond."""
        return EPOCH + timedelta(microseconds=self._kernel.now_ns // 1_000)

    @property
    def now_ns(self) -> int:
        """The time of this beat in nanoseconds since 1970."""
        return self._kernel.now_ns

    @property
    def random(self) -> Random:
        """A generator of this step's own, or this run's of a workflow, seeded from the journal."""
        if self._chance is None:
            self._chance = Random(int.from_bytes(self._derived(b"random"), "big"))  # noqa: S311 - must repeat
        return self._chance

    def uuid(self) -> UUID:
        """A new id (UUIDv7): the next of this step's sequence (or run's); in order up to 4,096."""
        at, self._ids = self._ids, self._ids + 1
        milliseconds = (self._kernel.now_ns // 1_000_000) & ((1 << 48) - 1)
        chance = int.from_bytes(self._derived(b"uuid" + at.to_bytes(8, "big"))[:8], "big") & ((1 << 62) - 1)
        return UUID(int=(milliseconds << 80) | (7 << 76) | ((at & 0xFFF) << 64) | (2 << 62) | chance)

    @property
    def key(self) -> Any:
        """The cell's key, as the type it has in events; empty for a module without keys.

        Where one cell holds the map of all keys, it is the key of the entry that the event is for.
        """
        return self._read_key(self._kernel.key)

    def _derived(self, purpose: bytes) -> bytes:
        return sha256(self._kernel.entropy + purpose).digest()


class Context(Moment[KernelContext]):
    """The third argument of a reducer that asks for it."""

    __slots__ = ()

    @property
    def cell_mode(self) -> bool:
        """Whether each key has a cell of its own; False where one cell holds the map of all."""
        return self._kernel.cell_mode

    @property
    def height(self) -> int:
        """The height of this step's record."""
        return self._kernel.journal_height

    @property
    def beat(self) -> int:
        """The number of this beat."""
        return self._kernel.beat

    @property
    def version(self) -> int:
        """How many steps the cell has taken before this one."""
        return self._kernel.version

    @property
    def era(self) -> int:
        """The number of the manifest this step runs under."""
        return self._kernel.era

    @property
    def module(self) -> str:
        """The name of the module, with its version."""
        return self._kernel.module

    @property
    def world(self) -> UUID:
        """The world this step runs in; a fork has another one."""
        return UUID(bytes=self._kernel.world)


def key_reader(key: Schema | None, schemas: Schemas) -> KeyReader:
    """The function that turns a key's ABI bytes into the value an author knows."""
    match None if key is None else schemas.resolve(key):
        case t.Text():
            return bytes.decode
        case None | t.Bytes():
            return bytes
        case t.Uuid():
            return lambda data: UUID(bytes=decode_trusted(data))  # type: ignore[arg-type]
        case t.Time():
            return lambda data: EPOCH + timedelta(microseconds=decode_trusted(data) // 1_000)  # type: ignore[operator]
        case _:
            return decode_trusted
