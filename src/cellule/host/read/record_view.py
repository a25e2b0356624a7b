"""Records as people and programs read them: names in full, values by their schemas, keys as text.

A `RecordRenderer` knows the eras of one world: what a record holds is shown by the manifest it was written
under. It reads the journal only; what it cannot read by schema it shows as plain values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from cellule.app.keys import TypedKey
from cellule.errors import CelluleError, Rejected
from cellule.host.codecs import readable
from cellule.host.journal import frame_at
from cellule.host.own.directory import read_head
from cellule.host.read.follower import Follower
from cellule.kernel.journal.codes import (
    AT_ONCE,
    BASELINE,
    CONTROL,
    DECISION,
    EMITTED,
    EVENT,
    EXPIRED,
    INTENT,
    MANIFEST,
    MIGRATED,
    NEXT_BEAT,
    NOBODY,
    RECEIPT,
    REFUSED,
    SNAPSHOT,
    STEP,
    TIMER,
    UPCAST,
    Kind,
    Settled,
    Status,
    VerdictCode,
)
from cellule.kernel.journal.frame import Frame, decode_frame
from cellule.kernel.journal.table import Row as Record
from cellule.kernel.manifest.load import load_manifest
from cellule.kernel.manifest.model import Manifest
from cellule.kernel.state.intent_id import intent_digest, intent_text
from cellule.kernel.state.ledger import Era
from cellule.values.cbor import decode_trusted
from cellule.values.cid import Cid
from cellule.values.envelope import open_envelope
from cellule.values.json_view import to_json
from cellule.values.link import Link
from cellule.values.schema import types as t
from cellule.values.schema.text_forms import time_text


@dataclass(frozen=True, slots=True)
class RecordView:
    """One record, ready to be shown: `fields` is JSON data."""

    height: int
    kind: str
    cause: int
    beat: int
    now_ns: int
    fields: dict[str, Any] = field(default_factory=dict)

    def json(self) -> dict[str, Any]:
        """The record as one JSON object."""
        head = {"height": self.height, "kind": self.kind, "cause": self.cause, "beat": self.beat}
        return {**head, "time": time_text(self.now_ns), **self.fields}


class RecordRenderer:
    """Tells the records of one world."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._eras: list[Era] = []
        self._manifests: dict[Cid, Manifest] = {}
        self._tell: dict[int, Callable[[Frame, int, Record], Any]] = {
            EVENT: self._event, EMITTED: self._emitted, STEP: self._step, REFUSED: self._refused,
            TIMER: self._timer, EXPIRED: self._expired, CONTROL: self._control, MANIFEST: self._manifest,
            SNAPSHOT: self._snapshot, BASELINE: self._snapshot, MIGRATED: self._migrated,
            UPCAST: self._upcast, INTENT: self._intent, DECISION: self._decision, RECEIPT: self._receipt,
        }  # fmt: skip

    async def frame(
        self, frame: Frame, only: Callable[[int, Record], bool] | None = None
    ) -> list[RecordView]:
        """The records of a frame, or `only` those that this says of a height and a record."""
        first = frame.header.first
        self._learn(frame)
        return [
            await self._told(frame, first + at)
            for at, record in enumerate(frame.rows)
            if only is None or only(first + at, record)
        ]

    async def at(self, height: int) -> RecordView:
        """The record at a height."""
        return await self._told(await self.frame_with(height), height)

    async def frame_with(self, height: int) -> Frame:
        """The frame that holds a height; `Rejected` beyond the journal."""
        loader, info = self._follower.loader, self._follower.info
        head = await read_head(loader.engine, info)
        if not 1 <= height <= head.height:
            raise Rejected(
                "host.height", "height {at} is not in the journal of world {world}, which ends at {height}",
                at=height, world=info.name, height=head.height,
            )  # fmt: skip
        _, data = await frame_at(loader.engine, info.universe, info.id, height, head.height)
        return decode_frame(data)

    async def manifest(self, era: int = -1) -> Manifest:
        """The manifest of an era; by default of the newest one known."""
        if not self._eras or era >= len(self._eras):
            self._eras = list((await self._follower.world()).ledger.eras)
        cid = self._eras[era].manifest
        if cid not in self._manifests:
            self._manifests[cid] = load_manifest(await self._follower.cas.get(cid))
        return self._manifests[cid]

    async def key(self, base: str, key: bytes, era: int = -1) -> str:
        """A key as people write it."""
        return key_text(await self.manifest(era), base, key)

    async def state(self, base: str, held: Any, era: int) -> Any:
        """A state as JSON data."""
        if held is None:
            return None
        manifest = await self.manifest(era)
        module = manifest.modules.get(base)
        if module is None or module.log:
            return shown(await self._bytes(held), None, manifest)
        return shown(await self._bytes(held), module.state, manifest)

    # Kinds

    async def _told(self, frame: Frame, height: int) -> RecordView:
        record = frame.rows[height - frame.header.first]
        fields = await self._tell[record[0]](frame, height, record)
        kind = Kind(record[0]).name.lower()
        return RecordView(height, kind, record[1], frame.header.beat, frame.header.now_ns, fields)

    def _learn(self, frame: Frame) -> None:
        """A frame may begin an era: what comes after it is told by that."""
        for position, record in enumerate(frame.rows):
            if record[0] == MANIFEST and self._eras and record[3] == len(self._eras):
                self._eras.append(Era(record[2].cid, frame.header.first + position))

    async def _event(self, frame: Frame, height: int, record: Record) -> dict[str, Any]:
        _, _, given, schema_at, held, targets, more = record
        fields = await self._message(frame, height, schema_at, held, targets)
        return {"id": id_text(given), **fields, **(more or {})}

    async def _emitted(self, frame: Frame, height: int, record: Record) -> dict[str, Any]:
        _, _, depth, schema_at, held, targets = record
        return {"depth": depth, **await self._message(frame, height, schema_at, held, targets)}

    async def _message(
        self, frame: Frame, height: int, schema_at: int, held: Any, targets: list[Any]
    ) -> dict[str, Any]:
        schema, era = frame.names[schema_at], await self._era_at(height)
        cells = [await self._cell(frame.names[at], key, era) for at, key in targets]
        value = shown(await self._bytes(held), schema, await self.manifest(era))
        return {"schema": schema, "value": value, "targets": cells}

    async def _step(self, frame: Frame, _height: int, record: Record) -> dict[str, Any]:
        _, _, module_at, key, born, era, status, version, prev, held, more = record
        base, more = frame.names[module_at], dict(more or {})
        fields: dict[str, Any] = {
            **await self._cell(base, key, era), "status": Status(status).name.lower(), "version": version,
            "born": born, "era": era, "prev": prev, "state": await self.state(base, held, era),
        }  # fmt: skip
        for name in ("reply", "ann"):
            if more.get(name) is not None:
                fields[name] = to_json(decode_trusted(await self._bytes(more[name])))
        if "code" in more:
            fields["error"] = {"code": more["code"], "text": more.get("text", "")}
        return fields

    async def _refused(self, frame: Frame, _height: int, record: Record) -> dict[str, Any]:
        _, _, given, schema_at, code, text = record
        schema = None if schema_at is None else frame.names[schema_at]
        return {"id": id_text(given), "schema": schema, "error": {"code": code, "text": text}}

    async def _timer(self, frame: Frame, height: int, record: Record) -> dict[str, Any]:
        _, _, _, due_ns, what = record
        verb, name_at, key, paused = what
        name = frame.names[name_at] if isinstance(name_at, int) else name_at
        fields: dict[str, Any] = {"due": time_text(due_ns) if due_ns else None, "what": verb}
        if verb == "schedule":  # its `key` is a fingerprint, empty once the schedule is gone
            state = "paused" if paused else "armed" if key and due_ns else "ended"
            return {**fields, "schedule": name, "state": state}
        return {**fields, **await self._cell(name, key, await self._era_at(height))}

    async def _intent(self, frame: Frame, height: int, record: Record) -> dict[str, Any]:
        _, cause, position, module_at, key, born, kind_at, held, more = record
        base, kind, era = frame.names[module_at], frame.names[kind_at], await self._era_at(height)
        params, manifest = await self._bytes(held), await self.manifest(era)
        digest = intent_digest(self._follower.info.id.bytes, base, key, born, cause, position, kind, params)
        effect = manifest.effects.get(kind)
        return {
            "intent": intent_text(digest), "effect": kind, **await self._cell(base, key, era), "born": born,
            "params": shown(params, None if effect is None else effect.params, manifest),
            "idempotency_key": (more or {}).get("key"), **_held(more, "slot"),
        }  # fmt: skip

    async def _decision(self, _frame: Frame, _height: int, record: Record) -> dict[str, Any]:
        more = record[3] or {}
        fields = {
            "verdict": VerdictCode(record[2]).name.lower(),
            **_held(more, "rule", "grant", "code", "text", "same", "over", "control"),
        }
        return {**fields, "due": time_text(more["due_ns"])} if "due_ns" in more else fields

    async def _receipt(self, frame: Frame, height: int, record: Record) -> dict[str, Any]:
        _, _, module_at, key, born, status, schema_at, held, how, more = record
        era = await self._era_at(height)
        base, schema = frame.names[module_at], frame.names[schema_at]
        return {
            **await self._cell(base, key, era), "born": born, "status": Settled(status).name.lower(),
            "schema": schema, "value": shown(await self._bytes(held), schema, await self.manifest(era)),
            "told": _HOW[how],
            **_held(more, "code", "text", "by", "attempts", "exhausted", "who", "why", "control"),
        }  # fmt: skip

    async def _expired(self, frame: Frame, height: int, record: Record) -> dict[str, Any]:
        return await self._cell(frame.names[record[3]], record[4], await self._era_at(height))

    async def _control(self, _frame: Frame, _height: int, record: Record) -> dict[str, Any]:
        _, _, verb, who, why, arguments = record
        arguments = dict(arguments or {})
        cells = arguments.pop("cells", None)
        fields = {"verb": verb, "who": who, "why": why, "arguments": to_json(arguments)}
        if cells is not None:
            fields["cells"] = [await self._cell(base, key, -1) for base, key in cells]
        return fields

    async def _manifest(self, _frame: Frame, _height: int, record: Record) -> dict[str, Any]:
        return {"manifest": str(record[2].cid), "era": record[3]}

    async def _snapshot(self, _frame: Frame, _height: int, record: Record) -> dict[str, Any]:
        return {"snapshot_height": record[2], "snapshot": str(record[3].cid)}

    async def _migrated(self, frame: Frame, _height: int, record: Record) -> dict[str, Any]:
        _, _, module_at, key, _, era_from, era_to, held = record
        base = frame.names[module_at]
        cell = await self._cell(base, key, era_to)
        return {**cell, "from": era_from, "to": era_to, "state": await self.state(base, held, era_to)}

    async def _upcast(self, frame: Frame, _height: int, record: Record) -> dict[str, Any]:
        _, _, module_at, key, old, new = record
        cell = await self._cell(frame.names[module_at], key, -1)
        return {**cell, "from": frame.names[old], "to": frame.names[new]}

    # Parts

    async def _cell(self, base: str, key: bytes, era: int) -> dict[str, str]:
        return {"module": base, "key": await self.key(base, key, era)}

    async def _era_at(self, height: int) -> int:
        """The era that routes at a height."""
        await self.manifest()
        return max(number for number, era in enumerate(self._eras) if era.height <= height)

    async def _bytes(self, held: Any) -> bytes:
        if isinstance(held, Link):
            return await self._follower.cas.get(held.cid)
        return held if isinstance(held, bytes) else open_envelope(held).data


_HOW = {NOBODY: "nobody", AT_ONCE: "at once", NEXT_BEAT: "next beat"}


def _held(more: dict[str, Any] | None, *names: str) -> dict[str, Any]:
    """Those of these fields that a record has."""
    return {name: more[name] for name in names if name in more} if more else {}


def key_text(manifest: Manifest, base: str, key: bytes) -> str:
    """A key as people write it; `key_of_text` reads it back."""
    module = manifest.modules.get(base)
    if module is None:
        return readable(key)
    try:
        return TypedKey(manifest, module, None).text(key)
    except (CelluleError, UnicodeDecodeError):
        return readable(key)


def key_of_text(manifest: Manifest, base: str, text: str) -> bytes:
    """The bytes of a key that a person typed; `Rejected` where the module has no such key."""
    return TypedKey(manifest, manifest.modules[base], None).from_text(text)


def shown(data: bytes, schema: str | None, manifest: Manifest) -> Any:
    """Canonical bytes as JSON data, by their schema where the manifest has it."""
    value = decode_trusted(data)
    if schema is None or schema not in manifest.schemas:
        return to_json(value)
    return to_json(value, t.Ref(schema), manifest.schemas)


def id_text(given: Any) -> str | None:
    """An event's id as text."""
    if given is None or isinstance(given, str):
        return given
    data = given.bytes if isinstance(given, UUID) else bytes(given)
    return str(UUID(bytes=data)) if len(data) == 16 else f"0x{data.hex()}"
