"""The records of the heartbeat as JSON data: impulses, agendas, notes, the registry, bindings, writes.

A Write of a node tells its path, one of an operation its id; the state stands beside it as plain values.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from cellule.host.read.follower import Follower
from cellule.host.read.heartbeat import published_at
from cellule.kernel.heartbeat import operations
from cellule.kernel.journal.codes import Bound
from cellule.kernel.journal.frame import Header
from cellule.kernel.journal.heartbeat_records import (
    AgendaRecord,
    BindingRecord,
    EnzymeRecord,
    SignalRecord,
    StageRecord,
    WriteRecord,
)
from cellule.kernel.state.heartbeat_rows import TREE
from cellule.kernel.state.operations import MODULE
from cellule.kernel.state.tree import path_of_node
from cellule.values.cbor import decode_trusted
from cellule.values.json_view import to_json

Fields = dict[str, Any]
Render = Callable[[int, Any], Awaitable[Fields]]


class BeatClock:
    """When beats were: as the world published it, else by their frames. The newest answer is kept."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._last = (-1, 0)

    async def unix_ns(self, header: Header) -> int:
        """The wall clock of the beat of a frame."""
        beat = header.beat
        if self._last[0] != beat:
            told = await self._follower.ask(lambda world: published_at(world.ledger, beat))
            self._last = (beat, header.now_ns if told is None else told)
        return self._last[1]


class HeartbeatFields:
    """Tells the records of the heartbeat; `bytes_of` reads a value that a record holds or links."""

    def __init__(self, bytes_of: Callable[[Any], Awaitable[bytes]]) -> None:
        self._bytes_of = bytes_of

    def renders(self) -> dict[type[Any], Render]:
        """What tells a record of each kind."""
        return {
            WriteRecord: self._write, SignalRecord: self._signal, AgendaRecord: self._agenda,
            StageRecord: self._stage, EnzymeRecord: self._enzyme, BindingRecord: self._binding,
        }  # fmt: skip

    async def _write(self, _: int, record: WriteRecord) -> Fields:
        data = None if record.state is None else await self._bytes_of(record.state)
        state = None if data is None else to_json(decode_trusted(data))
        name: Fields = {"key": f"0x{record.key.hex()}"}
        if record.module == MODULE:
            name = {"operation": operations.id_of(record.key)}
        elif record.module == TREE:
            name = {"path": _path_of(record.key, data)}
        return {
            "module": record.module,
            **name,
            "version": record.version,
            "prev": record.prev,
            "state": state,
        }

    async def _signal(self, _: int, record: SignalRecord) -> Fields:
        fields: Fields = {"signal": record.signal, "target": record.target, "for_beat": record.beat}
        fields["depth"] = record.depth
        return {**fields, **(await self._extras(record.extras))}

    async def _agenda(self, _: int, record: AgendaRecord) -> Fields:
        lines = [{"enzyme": number, "code": code, "ran": ran} for number, code, ran in record.lines]
        extras = await self._extras(record.extras)
        fields: Fields = {"signal": record.signal, "target": record.target, "lines": lines}
        if not lines and "cell" not in extras:
            fields["no_match"] = True
        return {**fields, **extras}

    async def _stage(self, _: int, record: StageRecord) -> Fields:
        return {"promoted": record.promoted}

    async def _enzyme(self, _: int, record: EnzymeRecord) -> Fields:
        entry = None if record.entry is None else to_json(dict(record.entry))
        return {"enzyme": record.number, "entry": entry}

    async def _binding(self, _: int, record: BindingRecord) -> Fields:
        return {"path": record.path, "name": record.name, "how": Bound(record.how).name.lower()}

    async def _extras(self, extras: Any) -> Fields:
        apart = ("payload", "digest", "id", "kind")
        fields: Fields = {name: value for name, value in extras.items() if name not in apart}
        if "kind" in extras:  # `kind` is that of the record
            fields["impulse_kind"] = extras["kind"]
        if "id" in extras:
            given = extras["id"]
            fields["id"] = given if given is None or isinstance(given, str) else f"0x{bytes(given).hex()}"
        if "payload" in extras:
            fields["payload"] = to_json(decode_trusted(await self._bytes_of(extras["payload"])))
        return fields


def _path_of(key: bytes, data: bytes | None) -> str:
    """The path of a node; of one that is gone and had a long path only its key is known."""
    try:
        return path_of_node(key, b"" if data is None else data)
    except (KeyError, ValueError, TypeError):
        return f"0x{key.hex()}"
